/* SPDX-License-Identifier: MIT
 *
 * An experiment: what do deltas cost that are made of lists of changes, read as such, folded, applied to a part of the
 * weights, or have digests of blocks? bfloat16 weights are drawn; a share of them moves at each step, most by one unit
 * in the last place, one in 16 by up to six. Each figure is the median over rounds in which all calls are made in
 * turns, on one thread.
 */
#include "../../lib/channel.h"
#include "../../lib/common_options.h"
#include "../../lib/explain.h"
#include "../../lib/measure.h"
#include "../../train/random.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <threelc/delta.h>

enum { FRAMES_MAX = 256, PIECE = 1 << 18 };

typedef struct options {
    size_t n, frames;
    double percent, seconds;
    uint64_t seed;
    command command;
} options;

#define OPTIONS options

static const option_entry entries[] = {
    {0, "weights", "N", "default 32Mi", OPTION_IN(SIZE, n, 16, (uint64_t)1 << 32)},
    {0, "changed", "PERCENT", "of the weights at each step (default 1)", OPTION_AT(NUMBER, percent)},
    {0, "frames", "N", "of a chain that is folded, 1 to 256 (default 64)", OPTION_IN(SIZE, frames, 1, FRAMES_MAX)},
    {0, "seconds", "X", "to measure the calls for one step (default 3)", OPTION_AT(NUMBER, seconds)},
    {0, "seed", "N", "of weights and changes (default 1)", OPTION_AT(SEED, seed)},
    ENTRY_HELP,
};

static const option_table options_table = {
    .usage =
        "usage: lists [OPTION]...\n"
        "\n"
        "Times deltas of lists of changes, folds, parts of the weights, and digests of blocks, each in milliseconds,\n"
        "beside a memcpy of the weights.\n"
        "\n",
    .entries = entries,
    .count = sizeof entries / sizeof entries[0],
    .notes = "",
    .no_files = "there are options only",
};

enum digests { WHOLE, BLOCKS, NONE, DIGESTS }; /* that a frame has */

/* A step, both ways: weights go to and fro. */
typedef struct step {
    size_t n, k;
    uint16_t *weights[2], *at, *copy; /* before and after; those that are changed; memory for a memcpy */
    uint16_t *part;                   /* an eighth of them, which is changed alone */
    int is_after, part_is_after;      /* at and part are of the second ones */
    uint64_t *positions, *came;       /* came: those that were read */
    uint16_t *listed[2], *values;
    unsigned char *frame[DIGESTS][2], *made;
    size_t len[DIGESTS][2], cap, made_cap, made_len;
} step;

/* ---- weights ----------------------------------------------------------------------------------------------------- */

static void move_weights(const uint16_t *from, uint16_t *to, size_t n, double percent, uint64_t *random)
{
    for (size_t i = 0; i < n; i++) {
        const uint64_t draw = random_next(random);
        uint16_t d = draw & 15 ? 1 : (uint16_t)(1 + (draw >> 4) % 6);
        if (draw >> 63)
            d = (uint16_t)-d;
        to[i] = (uint16_t)(from[i] + ((double)(draw >> 11 & 0xffffffffff) * 0x1p-40 * 100 < percent ? d : 0));
    }
}

/* Bits of floats between 0.004 and 0.12, of both signs. */
static void draw_weights(uint16_t *weights, size_t n, uint64_t *random)
{
    for (size_t i = 0; i < n; i++) {
        const uint64_t draw = random_next(random);
        weights[i] = (uint16_t)((draw & 0x8000) | (0x3b80 + draw % 0x0280));
    }
}

static bool ok(tlc_status status, const char *call, char *why)
{
    return !status || explain(why, "%s: %s", call, tlc_status_string(status));
}

static bool make_frames(step *s, char *why)
{
    for (int d = 0; d < DIGESTS; d++) {
        const tlc_delta_options with = {.struct_size = sizeof with,
                                        .block_digests = d == BLOCKS,
                                        .without_digests = d == NONE};
        for (int i = 0; i < 2; i++)
            if (!ok(tlc_delta_compress(TLC_BF16, s->weights[i], s->weights[!i], s->n, s->frame[d][i], s->cap,
                                       &s->len[d][i], &with),
                    "tlc_delta_compress", why))
                return false;
    }
    return true;
}

static bool list_changes(step *s, char *why)
{
    for (size_t i = 0; i < s->n; i++)
        s->k += s->weights[0][i] != s->weights[1][i];
    (void)tlc_delta_changes_bound(TLC_BF16, s->k, s->n, &s->made_cap);
    s->positions = channel_buffer((s->k + 1) * sizeof *s->positions);
    s->listed[0] = channel_buffer(2 * s->k + 2);
    s->listed[1] = channel_buffer(2 * s->k + 2);
    s->made = channel_buffer(s->made_cap);
    if (!s->positions || !s->listed[0] || !s->listed[1] || !s->made)
        return explain(why, "out of memory");
    for (size_t i = 0, j = 0; i < s->n; i++)
        if (s->weights[0][i] != s->weights[1][i]) {
            s->listed[0][j] = s->weights[0][i];
            s->listed[1][j] = s->weights[1][i];
            s->positions[j++] = i;
        }
    return true;
}

static bool open_step(step *s, const options *o, uint64_t *random, char *why)
{
    *s = (step){.n = o->n};
    (void)tlc_delta_bound(TLC_BF16, o->n, &s->cap);
    for (int i = 0; i < 2; i++) {
        s->weights[i] = channel_buffer(2 * o->n);
        for (int d = 0; d < DIGESTS; d++)
            s->frame[d][i] = channel_buffer(s->cap);
        if (!s->weights[i] || !s->frame[WHOLE][i] || !s->frame[BLOCKS][i] || !s->frame[NONE][i])
            return explain(why, "out of memory");
    }
    s->at = channel_buffer(2 * o->n);
    s->part = channel_buffer(2 * (o->n / 8));
    s->copy = channel_buffer(2 * o->n);
    s->came = channel_buffer(PIECE * sizeof *s->came);
    s->values = channel_buffer(PIECE * sizeof *s->values);
    if (!s->at || !s->part || !s->copy || !s->came || !s->values)
        return explain(why, "out of memory");
    draw_weights(s->weights[0], o->n, random);
    move_weights(s->weights[0], s->weights[1], o->n, o->percent, random);
    memcpy(s->at, s->weights[0], 2 * o->n);
    memcpy(s->part, s->weights[0] + o->n / 2, 2 * (o->n / 8));
    return list_changes(s, why) && make_frames(s, why);
}

static void close_step(step *s)
{
    for (int i = 0; i < 2; i++) {
        free(s->weights[i]);
        for (int d = 0; d < DIGESTS; d++)
            free(s->frame[d][i]);
        free(s->listed[i]);
    }
    free(s->at);
    free(s->part);
    free(s->copy);
    free(s->came);
    free(s->values);
    free(s->positions);
    free(s->made);
}

/* ---- the calls of one step --------------------------------------------------------------------------------------- */

enum call { COPY, COMPRESS, FROM_CHANGES, CHANGES, APPLY, CALLS = APPLY + 9 };

/* Ways to apply a frame: all weights or an eighth of them, in place or to other memory, which copies the base, too. */
static const struct way {
    const char *name;
    enum digests digests;
    bool is_part, apart;
} ways[CALLS - APPLY] = {
    {"apply", WHOLE, false, false},
    {"apply, digests of blocks", BLOCKS, false, false},
    {"apply, no digests", NONE, false, false},
    {"all apart", WHOLE, false, true},
    {"all apart, no digests", NONE, false, true},
    {"an eighth", WHOLE, true, false},
    {"an eighth, no digests", NONE, true, false},
    {"an eighth apart", WHOLE, true, true},
    {"an eighth apart, no digests", NONE, true, true},
};

static bool read_changes(step *s, char *why)
{
    tlc_delta_piece p = {.struct_size = sizeof p, .end = s->n, .positions = s->came, .values = s->values, .cap = PIECE};
    size_t k = 0;

    do {
        if (!ok(tlc_delta_changes(s->frame[WHOLE][0], s->len[WHOLE][0], TLC_BF16, s->n, &p, NULL), "tlc_delta_changes",
                why))
            return false;
        k += p.k;
    } while (p.next < p.end);
    return k == s->k || explain(why, "tlc_delta_changes: %zu of %zu came", k, s->k);
}

static bool apply(step *s, const struct way *w, char *why)
{
    const size_t first = w->is_part ? s->n / 2 : 0, count = w->is_part ? s->n / 8 : s->n;
    uint16_t *in_place = w->is_part ? s->part : s->at;
    int *is_after = w->is_part ? &s->part_is_after : &s->is_after;
    const int from = w->apart ? 0 : *is_after;
    const unsigned char *frame = s->frame[w->digests][from];
    const size_t len = s->len[w->digests][from];

    if (!w->apart)
        *is_after = !from;
    if (!w->apart && !w->is_part)
        return ok(tlc_delta_apply(frame, len, TLC_BF16, in_place, s->n, NULL), "tlc_delta_apply", why);
    return ok(tlc_delta_apply_range(frame, len, TLC_BF16, w->apart ? s->weights[0] + first : in_place,
                                    w->apart ? s->copy : in_place, s->n, first, count, NULL),
              "tlc_delta_apply_range", why);
}

static bool pass(const void *subject, int which, char *why)
{
    step *s = (step *)(uintptr_t)subject;
    const tlc_delta_options plain = {.struct_size = sizeof plain, .without_digests = 1};

    switch (which) {
    case COPY: memcpy(s->copy, s->at, 2 * s->n); return true;
    case COMPRESS:
        return ok(tlc_delta_compress(TLC_BF16, s->weights[0], s->weights[1], s->n, s->copy, s->cap, &s->made_len,
                                     &plain),
                  "tlc_delta_compress", why);
    case FROM_CHANGES:
        return ok(tlc_delta_from_changes(TLC_BF16, s->positions, s->listed[0], s->listed[1], s->k, s->n, NULL, s->made,
                                         s->made_cap, &s->made_len, NULL),
                  "tlc_delta_from_changes", why);
    case CHANGES: return read_changes(s, why);
    default: return apply(s, &ways[which - APPLY], why);
    }
}

static bool time_step(const options *o, step *s, char *why)
{
    static const char *const names[APPLY] = {"memcpy", "compress", "from_changes", "changes"};
    operation operations[CALLS];
    timing timings[CALLS];
    size_t rounds;

    for (int i = 0; i < CALLS; i++)
        operations[i] = (operation){pass, s, i, 1};
    if (!measure(operations, CALLS, o->seconds, timings, &rounds, why))
        return false;
    printf("%zu changes in %zu weights, %zu bytes, with digests of blocks %zu; %zu rounds\n", s->k, s->n,
           s->len[WHOLE][0], s->len[BLOCKS][0], rounds);
    printf("%-27s %10s %10s %12s\n", "", "median ms", "best ms", "M changes/s");
    for (int i = 0; i < CALLS; i++)
        printf("%-27s %10.2f %10.2f %12.1f\n", i < APPLY ? names[i] : ways[i - APPLY].name, 1e3 * timings[i].median,
               1e3 * timings[i].best, (double)s->k / timings[i].median / 1e6);
    return true;
}

/* ---- chains ------------------------------------------------------------------------------------------------------ */

typedef struct chain {
    const step *s;
    unsigned char *frame[FRAMES_MAX], *fold;
    size_t len[FRAMES_MAX], count, cap, fold_len, bytes;
} chain;

static bool open_chain(chain *c, const options *o, step *s, uint64_t *random, char *why)
{
    *c = (chain){.s = s};
    memcpy(s->at, s->weights[0], 2 * s->n);
    for (; c->count < o->frames; c->count++) {
        const size_t i = c->count;
        move_weights(s->at, s->copy, s->n, o->percent, random);
        if (!ok(tlc_delta_compress(TLC_BF16, s->at, s->copy, s->n, s->frame[WHOLE][0], s->cap, &c->len[i], NULL),
                "tlc_delta_compress", why))
            return false;
        c->frame[i] = malloc(c->len[i]);
        if (!c->frame[i])
            return explain(why, "out of memory");
        memcpy(c->frame[i], s->frame[WHOLE][0], c->len[i]);
        c->bytes += c->len[i];
        memcpy(s->at, s->copy, 2 * s->n);
    }
    (void)tlc_delta_fold_bound(TLC_BF16, s->n, c->count, &c->cap);
    c->fold = channel_buffer(c->cap);
    return c->fold || explain(why, "out of memory");
}

static void close_chain(chain *c)
{
    for (size_t i = 0; i < c->count; i++)
        free(c->frame[i]);
    free(c->fold);
}

static bool time_chain(chain *c, step *s, char *why)
{
    enum { ROUNDS = 5 };
    double fold[ROUNDS], applied[ROUNDS], at_once[ROUNDS];

    memcpy(s->weights[1], s->at, 2 * s->n); /* where the chain ends */
    for (int r = 0; r < ROUNDS; r++) {
        double start = measure_now();
        if (!ok(tlc_delta_fold((const void *const *)c->frame, c->len, c->count, c->fold, c->cap, &c->fold_len, NULL),
                "tlc_delta_fold", why))
            return false;
        fold[r] = measure_now() - start;
        memcpy(s->at, s->weights[0], 2 * s->n);
        start = measure_now();
        for (size_t i = 0; i < c->count; i++)
            if (!ok(tlc_delta_apply(c->frame[i], c->len[i], TLC_BF16, s->at, s->n, NULL), "tlc_delta_apply", why))
                return false;
        applied[r] = measure_now() - start;
        memcpy(s->at, s->weights[0], 2 * s->n);
        start = measure_now();
        if (!ok(tlc_delta_apply(c->fold, c->fold_len, TLC_BF16, s->at, s->n, NULL), "tlc_delta_apply", why))
            return false;
        at_once[r] = measure_now() - start;
        if (memcmp(s->at, s->weights[1], 2 * s->n) != 0)
            return explain(why, "the fold makes other weights");
    }
    printf(
        "%zu frames, %zu bytes; their fold %zu bytes: to fold them %.1f ms, to apply them %.1f ms, to apply the fold "
        "%.1f ms\n",
        c->count, c->bytes, c->fold_len, 1e3 * measure_summary(fold, ROUNDS).median,
        1e3 * measure_summary(applied, ROUNDS).median, 1e3 * measure_summary(at_once, ROUNDS).median);
    return true;
}

static bool run(const options *o, char *why)
{
    uint64_t random = o->seed;
    step s;
    chain c = {.count = 0};
    const bool done = open_step(&s, o, &random, why) && time_step(o, &s, why) && open_chain(&c, o, &s, &random, why) &&
                      time_chain(&c, &s, why);

    close_chain(&c);
    close_step(&s);
    return done;
}

int main(int argc, char **argv)
{
    char why[WHY_SIZE];
    options o = {.n = (size_t)32 << 20, .frames = 64, .percent = 1, .seconds = 3, .seed = 1};
    bool done = option_table_parse(&options_table, &o, argc, argv, why);

    if (done && o.command == COMMAND_HELP)
        option_table_print(stdout, &options_table);
    else if (done)
        done = run(&o, why);
    return done ? program_close_output("lists") : program_fail("lists", EXIT_USAGE, why);
}
