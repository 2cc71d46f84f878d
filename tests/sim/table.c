/* SPDX-License-Identifier: MIT */
#include "table.h"

static const uint32_t largest_of[RANK_CLASSES] = {1, 3, 8, MOST_RANKS};
static const char *const class_names[RANK_CLASSES] = {"1", "2-3", "4-8", "9-64"};

static size_t class_of(uint32_t ranks)
{
    size_t i = 0;

    while (ranks > largest_of[i])
        i++;
    return i;
}

/* ---- codecs ------------------------------------------------------------------------------------------------------ */

/* The name that a codec begins with. */
static size_t name_len(const codec_case *c)
{
    return strcspn(c->text, ":+");
}

/* Codecs whose names begin alike are one family, in the order of the manifest. */
static size_t family_of(const codec_case *c)
{
    size_t before_it = 0;

    for (const codec_case *first = codecs; first < codecs + codec_count; first++) {
        int is_first = 1;
        for (const codec_case *before = codecs; before < first; before++)
            is_first &= name_len(before) != name_len(first) || strncmp(before->text, first->text, name_len(first)) != 0;
        if (!is_first)
            continue;
        if (name_len(first) == name_len(c) && !strncmp(first->text, c->text, name_len(c)))
            return before_it;
        before_it++;
    }
    return CODEC_FAMILIES - 1; /* raw, for small tensors */
}

static void count_codecs(table *t, const scenario *sc)
{
    static size_t families[256]; /* of each codec of the list, plus 1 */
    int used[CODEC_FAMILIES] = {0};

    for (size_t i = 0; i < sc->count; i++)
        for (int d = PUSH; d <= PULL; d++) {
            int small;
            const codec_case *c = scenario_codec(sc, i, d, &small);
            size_t number = small ? 0 : (size_t)(c - codecs);
            if (!small && !families[number])
                families[number] = family_of(c) + 1;
            if (!small && sc->tensor[i].n)
                used[families[number] - 1] = 1;
        }
    for (size_t i = 0; i < CODEC_FAMILIES; i++)
        t->codec[i][sc->family] += (uint64_t)used[i];
}

/* ---- add --------------------------------------------------------------------------------------------------------- */

void table_add(table *t, const scenario *sc, const findings *f)
{
    size_t ranks = class_of(sc->workers);

    t->seeds[sc->family][ranks]++;
    t->steps[sc->family][ranks] += f->steps;
    t->failed[sc->family][ranks] += f->failed;
    t->broken[sc->family][ranks] += (uint64_t)f->broken;
    for (int i = 0; i < FAULTS; i++) {
        t->injected[i][sc->family] += f->injected[i];
        t->with_fault[i][sc->family] += f->injected[i] != 0;
    }
    for (int i = 0; i < PROMISES; i++)
        t->checks[i] += f->checks[i];
    count_codecs(t, sc);
    if (!f->broken)
        return;
    t->breaks[f->which]++;
    if (t->failures == MOST_FAILURES)
        return;
    failure *kept = &t->failure[t->failures++];
    *kept = (failure){.seed = sc->seed, .which = f->which};
    memcpy(kept->text, f->text, sizeof kept->text);
}

void table_merge(table *t, const table *other)
{
    const uint64_t *from = (const uint64_t *)other;
    uint64_t *to = (uint64_t *)t;

    for (size_t i = 0; i < offsetof(table, failure) / sizeof *to; i++)
        to[i] += from[i];
    for (size_t i = 0; i < other->failures && t->failures < MOST_FAILURES; i++)
        t->failure[t->failures++] = other->failure[i];
}

static uint64_t sum(const uint64_t counts[FAMILIES][RANK_CLASSES])
{
    uint64_t all = 0;

    for (size_t f = 0; f < FAMILIES; f++)
        for (size_t c = 0; c < RANK_CLASSES; c++)
            all += counts[f][c];
    return all;
}

uint64_t table_seeds(const table *t)
{
    return sum(t->seeds);
}

uint64_t table_breaks(const table *t)
{
    return sum(t->broken);
}

/* ---- print ------------------------------------------------------------------------------------------------------- */

static void print_number(uint64_t n)
{
    printf(" %12llu", (unsigned long long)n);
}

static void print_head(const char *what)
{
    printf("\n%-20s", what);
    for (size_t f = 0; f < FAMILIES; f++)
        printf(" %12s", family_names[f]);
    printf("\n");
}

static void print_ranks(const table *t)
{
    printf("%-12s %-7s %12s %12s %12s %12s\n", "kind", "ranks", "seeds", "steps", "failed", "broken");
    for (size_t f = 0; f < FAMILIES; f++)
        for (size_t c = 0; c < RANK_CLASSES; c++) {
            printf("%-12s %-7s", family_names[f], class_names[c]);
            print_number(t->seeds[f][c]);
            print_number(t->steps[f][c]);
            print_number(t->failed[f][c]);
            print_number(t->broken[f][c]);
            printf("\n");
        }
}

static void print_faults(const table *t)
{
    print_head("faults injected");
    for (int i = 0; i < FAULTS; i++) {
        printf("%-20s", fault_names[i]);
        for (size_t f = 0; f < FAMILIES; f++)
            print_number(t->injected[i][f]);
        printf("\n");
    }
    print_head("seeds with faults");
    for (int i = 0; i < FAULTS; i++) {
        printf("%-20s", fault_names[i]);
        for (size_t f = 0; f < FAMILIES; f++)
            print_number(t->with_fault[i][f]);
        printf("\n");
    }
}

static void print_codecs(const table *t)
{
    size_t next = 0;

    print_head("seeds with codec");
    for (const codec_case *c = codecs; c < codecs + codec_count; c++) {
        if (family_of(c) != next)
            continue;
        printf("%-20.*s", (int)name_len(c), c->text);
        for (size_t f = 0; f < FAMILIES; f++)
            print_number(t->codec[next][f]);
        printf("\n");
        next++;
    }
}

static void print_promises(const table *t)
{
    printf("\n%-20s %12s %12s\n", "promise", "checks", "broken");
    for (int i = 0; i < PROMISES; i++) {
        printf("%-20s", promise_names[i]);
        print_number(t->checks[i]);
        print_number(t->breaks[i]);
        printf("  %s\n", promise_meanings[i]);
    }
    printf("values lost: %llu\n", (unsigned long long)t->breaks[E6]);
}

static void print_failures(const table *t)
{
    for (size_t i = 0; i < t->failures; i++)
        printf("seed %llu breaks %s: %s\n", (unsigned long long)t->failure[i].seed, promise_names[t->failure[i].which],
               t->failure[i].text);
}

void table_print(const table *t, double seconds)
{
    print_ranks(t);
    print_faults(t);
    print_codecs(t);
    print_promises(t);
    printf("\n%llu seeds, %llu steps, digest %016llx, %.1f s, %.0f seeds/s\n", (unsigned long long)table_seeds(t),
           (unsigned long long)sum(t->steps), (unsigned long long)t->digest, seconds,
           (double)table_seeds(t) / (seconds > 0 ? seconds : 1));
    print_failures(t);
}

void table_print_tap(const table *t)
{
    printf("1..%d\n", PROMISES);
    for (int i = 0; i < PROMISES; i++)
        printf("%s %d - %s: %s (%llu checks)\n", t->breaks[i] || !t->checks[i] ? "not ok" : "ok", i + 1,
               promise_names[i], promise_meanings[i], (unsigned long long)t->checks[i]);
    for (size_t i = 0; i < t->failures; i++)
        printf("# seed %llu breaks %s: %s\n", (unsigned long long)t->failure[i].seed,
               promise_names[t->failure[i].which], t->failure[i].text);
    printf("# %llu seeds, digest %016llx\n", (unsigned long long)table_seeds(t), (unsigned long long)t->digest);
}
