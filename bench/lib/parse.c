/* SPDX-License-Identifier: MIT */
#include "parse.h"
#include "../../src/codec/nearest.h"
#include "explain.h"
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- whole numbers ----------------------------------------------------------------------------------------------- */

/* *end: what comes after the digits. */
static bool take_digits(const char *text, uint64_t *number, char **end)
{
    if (*text < '0' || *text > '9')
        return false;
    errno = 0;
    *number = strtoumax(text, end, 10);
    return !errno;
}

static bool say_range(uint64_t least, uint64_t most, const char *more, char *why)
{
    if (most == SIZE_MAX || most == UINT64_MAX)
        return explain(why, "it is a whole number from %" PRIu64 " on%s", least, more);
    return explain(why, "it is a whole number from %" PRIu64 " to %" PRIu64 "%s", least, most, more);
}

bool parse_number(const char *text, uint64_t least, uint64_t most, uint64_t *number, char *why)
{
    char *end;

    if (take_digits(text, number, &end) && !*end && *number >= least && *number <= most)
        return true;
    return say_range(least, most, "", why);
}

bool parse_size(const char *text, size_t least, size_t most, size_t *size, char *why)
{
    static const struct {
        const char *name;
        uint64_t factor;
    } suffixes[] = {{"", 1}, {"Ki", 1 << 10}, {"Mi", 1 << 20}, {"Gi", 1 << 30}};
    uint64_t number, product;
    char *end;

    for (size_t i = 0; take_digits(text, &number, &end) && i < sizeof suffixes / sizeof suffixes[0]; i++) {
        if (strcmp(end, suffixes[i].name) != 0 || __builtin_mul_overflow(number, suffixes[i].factor, &product) ||
            product < least || product > most)
            continue;
        *size = (size_t)product;
        return true;
    }
    return say_range(least, most, "; suffixes Ki, Mi, Gi", why);
}

/* ---- lists ------------------------------------------------------------------------------------------------------- */

enum { ITEM_TEXT = 64 };

/* Copies the part before the next comma. false: it is too long. */
static bool cut_item(const char *text, char item[ITEM_TEXT], size_t *len)
{
    *len = strcspn(text, ",");
    if (*len >= ITEM_TEXT)
        return false;
    memcpy(item, text, *len);
    item[*len] = '\0';
    return true;
}

bool parse_items(const char *text, bool (*take)(void *to, const char *item, char *why), void *to, char *why)
{
    char item[ITEM_TEXT], reason[WHY_SIZE];
    const bool several = strchr(text, ',');
    size_t len;

    for (size_t number = 1;; number++, text += len + 1) {
        if (!cut_item(text, item, &len))
            return explain(why, "item %zu is longer than %d characters", number, ITEM_TEXT - 1);
        if (number > MAX_LIST)
            return explain(why, "it has more than %d items", MAX_LIST);
        if (!take(to, item, reason))
            return !several ? explain(why, "%.*s", WHY_SIZE - 1, reason)
                   : len    ? explain(why, "item %zu, %s: %.4000s", number, item, reason)
                            : explain(why, "item %zu is empty: %.4000s", number, reason);
        if (!text[len])
            return true;
    }
}

typedef struct sizes {
    size_list *list;
    size_t least, most;
} sizes;

static bool take_size(void *to, const char *item, char *why)
{
    sizes *s = to;

    return parse_size(item, s->least, s->most, &s->list->items[s->list->count], why) && ++s->list->count;
}

bool parse_list(const char *text, size_t least, size_t most, size_list *l, char *why)
{
    sizes s = {l, least, most};

    l->count = 0;
    return parse_items(text, take_size, &s, why);
}

/* ---- numbers with a unit ----------------------------------------------------------------------------------------- */

/* A decimal number without a sign. *end: what comes after it. */
static bool take_decimal(const char *text, double *number, const char **end)
{
    char *stop;

    if (!strchr("0123456789.", *text) || !*text || text[1] == 'x' || text[1] == 'X')
        return false;
    *number = strtod(text, &stop);
    *end = stop;
    return stop > text && isfinite(*number);
}

/* Moves past the blank between a number and its unit, if there is one. */
static void skip_blank(const char **at)
{
    *at += (*at)[0] == ' ' && (*at)[1];
}

bool parse_positive(const char *text, double *number, char *why)
{
    const char *end;

    return (take_decimal(text, number, &end) && !*end && *number > 0) || explain(why, "it is a number above 0");
}

bool parse_time(const char *text, double unit, double *seconds, char *why)
{
    static const struct {
        const char *name;
        double seconds;
    } units[] = {{"s", 1},     {"sec", 1},     {"ms", 1e-3}, {"msec", 1e-3},
                 {"us", 1e-6}, {"usec", 1e-6}, {"ns", 1e-9}, {"min", 60}};
    const size_t count = sizeof units / sizeof units[0];
    const char *end = text;
    double number;
    size_t i = 0;

    if (take_decimal(text, &number, &end)) {
        skip_blank(&end);
        while (i < count && strcmp(end, units[i].name) != 0)
            i++;
        *seconds = number * (i < count ? units[i].seconds : unit);
        if ((i < count || !*end) && isfinite(*seconds))
            return true;
    }
    return explain(why, "it is a time from 0 on, as 2s, 30ms or 50us; a bare number is %s",
                   unit < 1 ? "milliseconds" : "seconds");
}

/* ---- rates ------------------------------------------------------------------------------------------------------- */

static char small(char c)
{
    return (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
}

/* Moves past the word if it is there, in small letters or capitals. */
static bool skip_word(const char **at, const char *word)
{
    size_t i = 0;

    while (word[i] && small((*at)[i]) == word[i])
        i++;
    *at += word[i] ? 0 : i;
    return !word[i];
}

/* The same, but capitals count: b is a bit, B a byte. */
static bool skip_exactly(const char **at, const char *word)
{
    const size_t len = strlen(word);
    const bool is = !strncmp(*at, word, len);

    *at += is ? len : 0;
    return is;
}

static bool skip_per_second(const char **at)
{
    return skip_exactly(at, "/sec") || skip_exactly(at, "/s");
}

/* Moves past a unit. *bytes: how many bytes it is. Bits may go without a second, bytes may not: 10MB is a size. */
static bool skip_unit(const char **at, double *bytes)
{
    *bytes = 1.0 / 8;
    if (skip_word(at, "bits") || skip_word(at, "bit")) {
        (void)skip_per_second(at);
        return true;
    }
    if (skip_exactly(at, "bps"))
        return true;
    *bytes = 1;
    if (skip_exactly(at, "Bps"))
        return true;
    return (skip_word(at, "bytes") || skip_word(at, "byte") || skip_exactly(at, "B")) && skip_per_second(at);
}

static bool say_rate(const char *what, char *why)
{
    return explain(why, "it is %s with a unit: kbit, Mbit, Gbit or Tbit, also Mbit/s or Mbps, or in bytes MB/s", what);
}

/* *end: where the rate ends. */
static bool take_rate(const char *text, double *bytes, const char **end)
{
    static const char prefixes[] = "kmgt";
    double number, unit = 1, each;
    const char *prefix;

    if (!take_decimal(text, &number, end))
        return false;
    skip_blank(end);
    prefix = **end ? strchr(prefixes, small(**end)) : NULL;
    for (const char *p = prefixes; prefix && p <= prefix; p++)
        unit *= 1e3;
    if (prefix)
        ++*end;
    if (!skip_unit(end, &each))
        return false;
    *bytes = number * unit * each;
    return *bytes > 0 && isfinite(*bytes);
}

bool parse_rate(const char *text, double *bytes, char *why)
{
    const char *end;

    return (take_rate(text, bytes, &end) && !*end) || say_rate("a number above 0", why);
}

bool parse_link(const char *text, double *up, double *down, char *why)
{
    const char *end;

    if (take_rate(text, up, &end)) {
        *down = *up;
        if (!*end || (*end == '/' && take_rate(end + 1, down, &end) && !*end))
            return true;
    }
    return say_rate("a number above 0, or two as UP/DOWN,", why);
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

bool parse_suggest(const char *text, const char *before, const char *const *names, char *why)
{
    tlc_nearest nearest = tlc_nearest_to(text, strlen(text));
    const size_t len = strlen(why);

    while (*names)
        tlc_nearest_offer(&nearest, *names++);
    if (nearest.word)
        snprintf(why + len, WHY_SIZE - len, "; did you mean %s%s?", before, nearest.word);
    return nearest.word != NULL;
}

bool parse_choice(const char *text, const char *const *names, int *choice, char *why)
{
    size_t len;

    for (*choice = 0; names[*choice]; ++*choice) {
        if (!strcmp(text, names[*choice]))
            return true;
    }
    explain(why, "it is %s", names[0]);
    for (size_t i = 1; names[i]; i++) {
        len = strlen(why);
        snprintf(why + len, WHY_SIZE - len, "%s%s", names[i + 1] ? ", " : " or ", names[i]);
    }
    (void)parse_suggest(text, "", names, why);
    return false;
}

bool parse_isa(const char *text, tlc_isa *isa, char *why)
{
    const char *names[TLC_ISA_NEON + 2] = {NULL};
    int choice;

    for (tlc_isa i = TLC_ISA_AUTO; i <= TLC_ISA_NEON; i = (tlc_isa)(i + 1))
        names[i] = tlc_isa_name(i);
    if (!parse_choice(text, names, &choice, why))
        return false;
    *isa = (tlc_isa)choice;
    return true;
}
