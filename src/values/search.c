/* SPDX-License-Identifier: MIT
 *
 * The k-th largest key of a unit is found exactly. A few values first give a guess below it. If it leaves few keys,
 * they are kept, and the k-th largest of them is found bit by bit. If it leaves more, three sweeps make histograms of
 * the bits of the keys: first of the upper 11 bits; then of the next 10 bits, for the keys that share the bits found so
 * far; then of the last 10. Where the guess was too high, histograms are made of all keys.
 */
#include "../common/sizes.h"
#include "../common/stack.h"
#include "kth_largest.h"
#include "selection.h"

enum { FEW = 2048, LEVELS = 3, BINS = 2048 };

/* One value in GUESS_EACH is looked at for a guess, which needs six bits of the mantissa: it may be too low. */
enum { GUESS_EACH = 16, GUESS_MIN = 64, GUESS_MAX = 4096, GUESS_LOWEST = 1 << 17 };
static const unsigned level_shift[LEVELS] = {20, 10, 0}, level_bins[LEVELS] = {BINS, 1024, 1024};

/* One of the selections that are searched in the same sweeps. */
typedef struct search {
    tlc_selection *s; /* least: during the search only its upper bits */
    uint64_t rank;    /* of the key that is searched, among those that share these bits; 0: all keys are members */
    uint64_t ties;    /* how many of the keys that are equal to least are members: the first ones */
    uint64_t likely;  /* about how many keys reach least, before they are counted */
} search;

typedef struct searching {
    const tlc_candidates *c;
    uint64_t count;       /* of the candidates */
    uint64_t start, rest; /* samples: the part of the next one begins at start + rest / samples */
    search search[TLC_SEARCHES];
    size_t searches;
} searching;

/* ---- candidates -------------------------------------------------------------------------------------------------- */

/* Are some of the values drawn? If 0, all of them are candidates. */
static int are_drawn(const tlc_candidates *c)
{
    return c->samples && c->samples < c->n;
}

/* The next samples, from the j-th on. */
static void draw(searching *all, uint64_t j, size_t count, float *buf)
{
    const tlc_candidates *c = all->c;
    const uint64_t whole = c->n / c->samples, part = c->n % c->samples;
    uint32_t words[TLC_CHUNK];

    if (!j)
        all->start = all->rest = 0;
    c->input->k->philox(c->random->seed, c->random->step, c->random->from + c->first + j, count, words);
    for (size_t i = 0; i < count; i++) {
        uint64_t next = all->start + whole;
        all->rest += part;
        if (all->rest >= c->samples) {
            all->rest -= c->samples;
            next++;
        }
        size_t at = (size_t)(all->start + words[i] % (next - all->start));
        buf[i] = *tlc_input_wanted(c->input, c->first + at, 1, buf + i);
        all->start = next;
    }
}

/* The next candidates, from the j-th on. */
static const float *next_chunk(searching *all, uint64_t j, size_t *count, float *buf)
{
    *count = all->count - j < TLC_CHUNK ? (size_t)(all->count - j) : TLC_CHUNK;
    if (!are_drawn(all->c))
        return tlc_input_wanted(all->c->input, all->c->first + (size_t)j, *count, buf);
    draw(all, j, *count, buf);
    return buf;
}

/* ---- guesses ----------------------------------------------------------------------------------------------------- */

/* From one value of `each` candidates: least becomes a key that is most likely below the rank-th largest one. */
static void guess(search *one, const float *values, size_t guessed, uint64_t each)
{
    uint64_t rank = one->rank / each;
    uint32_t keys[GUESS_MAX];

    rank += rank / 4 + 16;
    for (size_t j = 0; j < guessed; j++) {
        uint32_t key = tlc_selection_key(one->s, values[j]);
        keys[j] = key <= TLC_F32_ABS ? key : 0; /* negative, as a signed integer */
    }
    uint32_t found = tlc_kth_largest(keys, guessed, (size_t)rank, GUESS_LOWEST);
    if (found)
        one->s->least = (int32_t)found;
    one->likely = rank * each;
}

TLC_OWN_FRAME static void guess_all(searching *all, uint64_t k)
{
    const tlc_candidates *c = all->c;
    const size_t guessed = tlc_smaller((size_t)all->count / GUESS_EACH, GUESS_MAX);
    float values[GUESS_MAX], buf[1];

    if (guessed < GUESS_MIN || k > all->count / 4)
        return;
    for (size_t j = 0; j < guessed; j++)
        values[j] = *tlc_input_wanted(c->input, c->first + j * (size_t)(c->n / guessed), 1, buf);
    for (size_t i = 0; i < all->searches; i++)
        guess(&all->search[i], values, guessed, all->count / guessed);
}

/* Forgets all guesses if `found` keys reach that of a search, and maybe there are no more, but smaller ones. */
static int was_too_high(searching *all, const search *one, uint64_t found)
{
    if (found > one->rank || one->s->least == 1)
        return 0;
    for (size_t i = 0; i < all->searches; i++)
        all->search[i].s->least = 1;
    return 1;
}

/* ---- few keys ---------------------------------------------------------------------------------------------------- */

/* Keeps the keys that reach the guesses. 0: there are more than FEW. */
static int keep(searching *all, uint32_t keys[TLC_SEARCHES][FEW], size_t count[TLC_SEARCHES])
{
    float buf[TLC_CHUNK], found[TLC_CHUNK];
    size_t n;

    for (uint64_t j = 0; j < all->count; j += n) {
        const float *x = next_chunk(all, j, &n, buf);
        for (size_t i = 0; i < all->searches; i++) {
            const tlc_selection *s = all->search[i].s;
            size_t some = all->c->input->k->threshold_values(x, n, s->flip, s->keep, s->least, found);
            if (some > FEW - count[i])
                return 0;
            for (size_t at = 0; at < some; at++)
                keys[i][count[i]++] = tlc_selection_key(s, found[at]);
        }
    }
    return 1;
}

static void find_among(search *one, const uint32_t *keys, size_t count)
{
    size_t above = 0, equal = 0;

    if (one->rank >= count)
        return; /* all are members */
    one->s->least = (int32_t)tlc_kth_largest(keys, count, (size_t)one->rank, 1);
    for (size_t i = 0; i < count; i++) {
        above += (int32_t)keys[i] > one->s->least;
        equal += (int32_t)keys[i] == one->s->least;
    }
    one->ties = above + equal > one->rank ? one->rank - above : UINT64_MAX;
}

/* 0: nothing was found, for the keys are too many or the guess was too high. */
TLC_OWN_FRAME static int search_few(searching *all)
{
    uint32_t keys[TLC_SEARCHES][FEW];
    size_t count[TLC_SEARCHES] = {0};

    for (size_t i = 0; i < all->searches; i++)
        if (all->search[i].likely > FEW)
            return 0;
    if (!keep(all, keys, count))
        return 0;
    for (size_t i = 0; i < all->searches; i++)
        if (was_too_high(all, &all->search[i], count[i]))
            return 0;
    for (size_t i = 0; i < all->searches; i++)
        find_among(&all->search[i], keys[i], count[i]);
    return 1;
}

/* ---- histograms -------------------------------------------------------------------------------------------------- */

/* Counts the keys of n values by the bits of a level; after the first level only those that share the bits before. */
static void count_keys(const tlc_selection *s, int level, const float *x, size_t n, size_t bins[BINS])
{
    unsigned shift = level_shift[level], above = level ? level_shift[level - 1] : 31;
    uint32_t prefix = level ? (uint32_t)s->least >> above : 0;

    for (size_t i = 0; i < n; i++) { /* no branch: it would often be mispredicted */
        uint32_t key = tlc_selection_key(s, x[i]);
        bins[key >> shift & (level_bins[level] - 1)] += key >> above == prefix;
    }
}

/* Fills the bins of the searches that go on; the others have zeros. */
static void count_level(searching *all, int level, size_t bins[TLC_SEARCHES][BINS])
{
    float buf[TLC_CHUNK], found[TLC_CHUNK];
    size_t n;

    memset(bins, 0, TLC_SEARCHES * sizeof bins[0]);
    for (uint64_t j = 0; j < all->count; j += n) {
        const float *x = next_chunk(all, j, &n, buf);
        for (size_t i = 0; i < all->searches; i++) {
            const tlc_selection *s = all->search[i].s;
            int32_t least = s->least ? s->least : 1; /* no zeros */
            if (all->search[i].rank) {
                size_t some = all->c->input->k->threshold_values(x, n, s->flip, s->keep, least, found);
                count_keys(s, level, found, some, bins[i]);
            }
        }
    }
}

/* Finds the bin of the rank-th largest key. The rank becomes that within the bin. */
static void find_bin(search *one, int level, const size_t *bins)
{
    size_t bin = level_bins[level] - 1;

    for (; bins[bin] < one->rank; bin--)
        one->rank -= bins[bin];
    one->s->least = (int32_t)((level ? (uint32_t)one->s->least : 0) | (uint32_t)bin << level_shift[level]);
    one->ties = bins[bin] > one->rank ? one->rank : UINT64_MAX;
}

static uint64_t sum_of(const size_t bins[BINS])
{
    uint64_t sum = 0;

    for (size_t i = 0; i < BINS; i++)
        sum += bins[i];
    return sum;
}

/* Counts the first level, from a guess on if that is low enough. Where at most k keys are above 0, all are members. */
static void count_first(searching *all, size_t bins[TLC_SEARCHES][BINS])
{
    count_level(all, 0, bins);
    for (size_t i = 0; i < all->searches; i++)
        if (was_too_high(all, &all->search[i], sum_of(bins[i])))
            count_level(all, 0, bins);
    for (size_t i = 0; i < all->searches; i++)
        if (sum_of(bins[i]) <= all->search[i].rank)
            all->search[i].rank = 0;
}

static int goes_on(const searching *all)
{
    return all->search[0].rank || (all->searches > 1 && all->search[1].rank);
}

TLC_OWN_FRAME static void search_levels(searching *all)
{
    size_t bins[TLC_SEARCHES][BINS];

    count_first(all, bins);
    for (int level = 0; level < LEVELS && goes_on(all); level++) {
        if (level)
            count_level(all, level, bins);
        for (size_t i = 0; i < all->searches; i++)
            if (all->search[i].rank)
                find_bin(&all->search[i], level, bins[i]);
    }
}

/* ---- ties -------------------------------------------------------------------------------------------------------- */

/* The index of the last member whose key is equal to least. */
TLC_OWN_FRAME static uint64_t find_last(searching *all, const search *one)
{
    const tlc_selection *s = one->s;
    uint64_t mask[TLC_CHUNK / 64], ties = one->ties, last = 0;
    float buf[TLC_CHUNK];
    size_t n;

    for (uint64_t j = 0; ties; j += n) {
        const float *x = next_chunk(all, j, &n, buf);
        (void)all->c->input->k->threshold_mask(x, n, s->flip, s->keep, s->least, mask);
        for (size_t w = 0; w * 64 < n; w++)
            for (uint64_t bits = mask[w]; bits && ties; bits &= bits - 1) {
                size_t i = w * 64 + (size_t)__builtin_ctzll(bits);
                if (tlc_selection_key(s, x[i]) == (uint32_t)s->least) {
                    ties--;
                    last = j + i;
                }
            }
    }
    return last;
}

void tlc_search(const tlc_candidates *c, uint64_t k, tlc_selection *selections, size_t count)
{
    searching all = {.c = c, .count = c->samples ? c->samples : c->n, .searches = count};

    for (size_t i = 0; i < count; i++) {
        selections[i].least = 1;
        selections[i].last = UINT64_MAX;
        all.search[i] = (search){&selections[i], .rank = k, .ties = UINT64_MAX, .likely = all.count};
    }
    guess_all(&all, k);
    if (!search_few(&all))
        search_levels(&all);
    for (size_t i = 0; i < count && !c->samples; i++)
        if (all.search[i].ties != UINT64_MAX)
            selections[i].last = find_last(&all, &all.search[i]);
}
