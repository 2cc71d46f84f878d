/* SPDX-License-Identifier: MIT
 *
 * Options of the programs of bench/: tables of texts, the values that they stand for, and what is said of those that
 * stand for none. And the word that was probably meant.
 *
 * test_parse UNITS: the file units.txt, which the network script reads, too
 */
#include "../../bench/lib/explain.h"
#include "../../bench/lib/option_table.h"
#include "../../bench/lib/parse.h"
#include "../../src/codec/nearest.h"
#include "../support/support.h"
#include <getopt.h>
#include <math.h>

static char why[WHY_SIZE];

/* ---- rates and times --------------------------------------------------------------------------------------------- */

TEST(every_unit)
{
    char line[128];
    size_t count = 0;

    require(test_argument);
    FILE *f = fopen(test_argument, "r");
    require(f);
    while (fgets(line, sizeof line, f)) {
        double got = -1;
        char *text = strchr(line, ' '), *value = strrchr(line, ' ');
        if (!value || *line == '#')
            continue;
        const bool rate = !strncmp(line, "rate ", 5);
        *text++ = *value++ = '\0';
        value[strcspn(value, "\n")] = *why = '\0';
        at.note = text;
        bool ok = rate ? parse_rate(text, &got, why) : parse_time(text, 1e-3, &got, why);
        require(ok == (strcmp(value, "-") != 0));
        require(!ok || fabs(got - strtod(value, NULL)) <= 1e-12 * got);
        require(ok || strstr(why, rate ? "Mbit, Gbit or Tbit" : "2s, 30ms or 50us"));
        count++;
    }
    require(!fclose(f) && count > 80);
}

TEST(links)
{
    static const struct {
        const char *text;
        double up, down; /* Mbit/s */
    } table[] = {
        {"10Mbit", 10, 10},     {"1Mbit/10Mbit", 1, 10}, {"1Mbit/s/10Mbit/s", 1, 10},        {"1Mbps/10Mbps", 1, 10},
        {"1MB/s/2MB/s", 8, 16}, {"8Mbit/1MB/s", 8, 8},   {"1 Mbits/sec/10 Mbit/sec", 1, 10}, {"1MBps/2MByte/s", 8, 16},
    };
    static const char *const bad[] = {"1Mbit/ 10Mbit",     "1Mbit/",      "/1Mbit", "1Mbit/s/",
                                      "1Mbit/2Mbit/3Mbit", "1Mbit 2Mbit", "",       "1Mbit/0Mbit"};
    double up, down;

    for (size_t i = 0; i < COUNT(table); i++) {
        at.note = table[i].text;
        require(parse_link(table[i].text, &up, &down, why));
        require(fabs(up * 8e-6 - table[i].up) < 1e-9 && fabs(down * 8e-6 - table[i].down) < 1e-9);
    }
    for (size_t i = 0; i < COUNT(bad); i++) {
        at.note = bad[i];
        require(!parse_link(bad[i], &up, &down, why) && strstr(why, "two as UP/DOWN"));
    }
}

/* ---- numbers, lists and names ------------------------------------------------------------------------------------ */

TEST(numbers)
{
    static const char *const good[] = {"1", "4Ki", "1Mi"}, *const bad[] = {"0",   "2Mi", "-1",  "+1", "",
                                                                           " 1",  "1 ",  "1.5", "1K", "1KiKi",
                                                                           "1e3", "x",   "1ki", "Ki", "0x1"};
    static const size_t values[] = {1, 4096, 1 << 20};
    uint64_t number;
    size_t size;

    for (size_t i = 0; i < COUNT(good); i++)
        require(parse_size(good[i], 1, 1 << 20, &size, why) && size == values[i]);
    for (size_t i = 0; i < COUNT(bad); i++) {
        at.note = bad[i];
        require(!parse_size(bad[i], 1, 1 << 20, &size, why));
        require(!strcmp(why, "it is a whole number from 1 to 1048576; suffixes Ki, Mi, Gi"));
    }
    require(!parse_size("18446744073709551616", 1, 1 << 20, &size, why));
    require(!parse_size("18014398509481985Ki", 1, 1 << 20, &size, why)); /* 1024 modulo 2^64 */
    require(parse_number("18446744073709551615", 0, UINT64_MAX, &number, why) && number == UINT64_MAX);
    require(!parse_number("18446744073709551616", 0, UINT64_MAX, &number, why));
    require(!strcmp(why, "it is a whole number from 0 on"));
    require(!parse_number("4Ki", 0, UINT64_MAX, &number, why));
}

TEST(lists)
{
    static const struct {
        const char *text, *said; /* NULL: a list of 2 and 4 */
    } table[] = {
        {"2,4", NULL},
        {"x", "it is a whole number from 1 to 9; suffixes Ki, Mi, Gi"},
        {"2,,4", "item 2 is empty: it is a whole number from 1 to 9; suffixes Ki, Mi, Gi"},
        {"2,4,", "item 3 is empty: it is a whole number from 1 to 9; suffixes Ki, Mi, Gi"},
        {",2", "item 1 is empty: it is a whole number from 1 to 9; suffixes Ki, Mi, Gi"},
        {"2,10", "item 2, 10: it is a whole number from 1 to 9; suffixes Ki, Mi, Gi"},
        {"2,-4", "item 2, -4: it is a whole number from 1 to 9; suffixes Ki, Mi, Gi"},
        {"1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1", "it has more than 32 items"},
        {"2,0000000000000000000000000000000000000000000000000000000000000004", "item 2 is longer than 63 characters"},
    };
    size_list l;

    for (size_t i = 0; i < COUNT(table); i++) {
        at.note = table[i].text;
        bool ok = parse_list(table[i].text, 1, 9, &l, why);
        require(ok == !table[i].said);
        require(ok ? l.count == 2 && l.items[0] == 2 && l.items[1] == 4 : !strcmp(why, table[i].said));
    }
}

TEST(choices)
{
    static const char *const names[] = {"table", "markdown", "csv", NULL};
    int choice;
    tlc_isa isa;

    require(parse_choice("csv", names, &choice, why) && choice == 2);
    require(!parse_choice("cvs", names, &choice, why));
    require(!strcmp(why, "it is table, markdown or csv; did you mean csv?"));
    require(!parse_choice("xml", names, &choice, why) && !strcmp(why, "it is table, markdown or csv"));
    require(!parse_choice("", names, &choice, why) && !strcmp(why, "it is table, markdown or csv"));
    require(parse_isa("neon", &isa, why) && isa == TLC_ISA_NEON);
    require(!parse_isa("AVX2", &isa, why));
    require(!strcmp(why, "it is auto, scalar, avx2, avx512 or neon; did you mean avx2?"));
}

/* ---- options ----------------------------------------------------------------------------------------------------- */

#define OPTIONS struct tested
struct tested {
    bool quiet;
    const char *link;
    int latency;
    size_list aggregate;
};

static bool take_aggregate(void *got, const char *value, char *reason)
{
    return !value || parse_list(value, 1, 9, &((struct tested *)got)->aggregate, reason);
}

TEST(options)
{
    static const char *const switches[] = {"on", "off", NULL};
    static const option_entry entries[] = {{'q', "quiet", NULL, "", OPTION_AT(FLAG, quiet)},
                                           {0, "link", "LIST", "", OPTION_AT(TEXT, link)},
                                           {0, "latency", "MS", "", OPTION_OF(CHOICE, latency, switches)},
                                           {0, "aggregate", "[LIST]", "", OPTION_BY(take_aggregate)}};
    static const option_table t = {"", entries, COUNT(entries), "", "it is no option"};
    static const struct {
        const char *argument, *value, *said; /* NULL: it is taken */
    } table[] = {
        {"--link", "x", NULL},
        {"--li", "x", NULL},
        {"--lnik", "x", "--lnik: there is no such option; did you mean --link?"},
        {"--lnik=5", NULL, "--lnik=5: there is no such option; did you mean --link?"},
        {"--bogus", NULL, "--bogus: there is no such option (--help lists them)"},
        {"--l", "x", "--l: it may be --link or --latency"},
        {"-x", NULL, "-x: there is no such option (--help lists them)"},
        {"--link", NULL, "--link: it needs a value"},
        {"--quiet=1", NULL, "--quiet=1: it takes no value"},
        {"--quiet", "x", "x: it is no option"},
        {"--latency", "onn", "--latency onn: it is on or off; did you mean on?"},
    };

    for (size_t i = 0; i < COUNT(table); i++) {
        char program[] = "p", argument[16], value[16];
        char *argv[] = {program, argument, value, NULL};
        struct tested got = {.latency = 0};
        at.note = table[i].argument;
        at.i = i;
        snprintf(argument, sizeof argument, "%s", table[i].argument);
        snprintf(value, sizeof value, "%s", table[i].value ? table[i].value : "");
        if (!table[i].value)
            argv[2] = NULL;
        optind = 0;
        bool ok = option_table_parse(&t, &got, table[i].value ? 3 : 2, argv, why);
        require(ok == !table[i].said);
        require(ok ? !strcmp(got.link, "x") && !got.quiet : !strcmp(why, table[i].said));
    }
}

/* ---- the nearest word -------------------------------------------------------------------------------------------- */

static const char *nearest(const char *text, size_t len)
{
    static const char *const words[] = {"3lc",  "sbc",    "ternary", "stochastic-ternary",
                                        "int8", "server", "shift",   "a-word-of-more-than-thirty-two-letters"};
    tlc_nearest n = tlc_nearest_to(text, len);

    for (size_t i = 0; i < COUNT(words); i++)
        tlc_nearest_offer(&n, words[i]);
    return n.word ? n.word : "";
}

TEST(nearest_words)
{
    static const char *const table[][2] = {{"3cl", "3lc"},
                                           {"4lc", "3lc"},
                                           {"3l", ""},
                                           {"3LC", "3lc"},
                                           {"3lcc", "3lc"},
                                           {"bsc", "sbc"},
                                           {"tern", "ternary"},
                                           {"trenary", "ternary"},
                                           {"ternray", "ternary"},
                                           {"stochastic", "stochastic-ternary"},
                                           {"stochastic_ternery", "stochastic-ternary"},
                                           {"int4", "int8"},
                                           {"severs", "server"},
                                           {"nothing", ""},
                                           {"", ""},
                                           {"sihft", "shift"},
                                           {"xyz", ""},
                                           {"t", ""}};
    char bytes[40];

    for (size_t i = 0; i < COUNT(table); i++) {
        at.note = table[i][0];
        require(!strcmp(nearest(table[i][0], strlen(table[i][0])), table[i][1]));
    }
    require(!*nearest("a-word-of-more-than-thirty-two-letters", 38));
    require(!strcmp(nearest("3lc:s=2", 3), "3lc")); /* its length counts */
    memset(bytes, 0xff, sizeof bytes);
    for (size_t len = 0; len <= sizeof bytes; len++)
        require(!*nearest(bytes + sizeof bytes - len, len));
}
