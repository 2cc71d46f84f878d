/* SPDX-License-Identifier: MIT
 *
 * A code begins where the one before it ends, so each lane waits for itself. Two vectors of eight lanes go side by
 * side. From each word a lane takes as many codes as its first 57 bits have, with as many tries as the other
 * lanes; a code that does not fit is taken from the next word.
 */
#include "avx512.h"
#include "golomb_codes.h"

#if defined(__x86_64__)

/* At -O0 gcc has gathers as macros, which convert masks to char. */
#pragma GCC diagnostic ignored "-Wsign-conversion"

enum { EACH = 8, VECTORS = TLC_GOLOMB_LANES / EACH };

typedef struct shape {
    const uint8_t *bytes;
    __m512i least;     /* bits of the shortest code */
    __m128i by, below; /* its bits; those below the first bit that is not of the quotient and the remainder */
    unsigned tries;    /* how many codes a word has, more or less */
} shape;

typedef struct eight {
    __m512i bit, end, codes, rests;
    __m512i word, room, used, taken; /* the inverted bits left; bits that may be used; of all codes; of those taken */
    __mmask8 active;
} eight;

TLC_AVX512_INLINE eight begin(const tlc_golomb_run *lanes, const uint64_t *end)
{
    const __m512i every = _mm512_setr_epi64(0, 3, 6, 9, 12, 15, 18, 21); /* 64-bit numbers from bit to bit */
    eight e = {.codes = _mm512_setzero_si512(), .rests = _mm512_setzero_si512()};

    e.bit = _mm512_i64gather_epi64(every, lanes, 8);
    e.end = _mm512_loadu_si512(end);
    e.active = _mm512_cmplt_epu64_mask(e.bit, e.end);
    return e;
}

TLC_AVX512_INLINE void load(eight *e, const shape *s)
{
    const __m512i reversed = _mm512_broadcast_i32x4(
        _mm_setr_epi8(7, 6, 5, 4, 3, 2, 1, 0, 15, 14, 13, 12, 11, 10, 9, 8));
    __m512i word = _mm512_mask_i64gather_epi64(_mm512_setzero_si512(), e->active, _mm512_srli_epi64(e->bit, 3),
                                               s->bytes, 1);
    __m512i left = _mm512_min_epu64(_mm512_sub_epi64(e->end, e->bit), _mm512_set1_epi64(TLC_GOLOMB_LONGEST));

    word = _mm512_andnot_si512(_mm512_shuffle_epi8(word, reversed), _mm512_set1_epi64(-1));
    e->word = _mm512_sllv_epi64(word, _mm512_and_si512(e->bit, _mm512_set1_epi64(7)));
    e->room = _mm512_sub_epi64(left, s->least);
    e->used = e->taken = _mm512_setzero_si512();
}

/* A lane that has no room for a code has none for the next one, because the bits used only grow. */
TLC_AVX512_INLINE void take(eight *e, const shape *s)
{
    __m512i quotient = _mm512_lzcnt_epi64(e->word);
    __mmask8 fits;

    e->used = _mm512_add_epi64(e->used, quotient);
    fits = _mm512_mask_cmple_epi64_mask(e->active, e->used, e->room);
    e->used = _mm512_add_epi64(e->used, s->least);
    e->word = _mm512_sllv_epi64(e->word, quotient);
    e->rests = _mm512_mask_add_epi64(e->rests, fits, e->rests, _mm512_srl_epi64(e->word, s->below));
    e->word = _mm512_sll_epi64(e->word, s->by);
    e->codes = _mm512_mask_add_epi64(e->codes, fits, e->codes, _mm512_set1_epi64(1));
    e->taken = _mm512_mask_mov_epi64(e->taken, fits, e->used);
}

TLC_AVX512_INLINE void advance(eight *e)
{
    e->bit = _mm512_add_epi64(e->bit, e->taken);
    e->active = _mm512_mask_test_epi64_mask(e->active, e->taken, e->taken);
    e->active = _mm512_mask_cmplt_epu64_mask(e->active, e->bit, e->end);
}

TLC_AVX512_INLINE void finish(const eight *e, const tlc_golomb_codes *c, tlc_golomb_run *lanes)
{
    uint64_t bit[EACH], codes[EACH], rests[EACH];

    _mm512_storeu_si512(bit, e->bit);
    _mm512_storeu_si512(codes, e->codes);
    _mm512_storeu_si512(rests, e->rests);
    for (size_t i = 0; i < EACH; i++) {
        uint64_t quotients = bit[i] - lanes[i].bit - codes[i] * (1 + c->b + c->signs);
        lanes[i].bit = bit[i];
        lanes[i].count += codes[i];
        lanes[i].next += (quotients << c->b) + (codes[i] << (c->b + 1)) - rests[i];
    }
}

TLC_AVX512 void tlc_golomb_skip_avx512(const tlc_golomb_codes *c, tlc_golomb_run *lanes, const uint64_t *end)
{
    const unsigned least = 1 + c->b + c->signs;
    const shape s = {c->bytes, _mm512_set1_epi64(least), _mm_cvtsi32_si128((int)least),
                     _mm_cvtsi32_si128((int)(63 - c->b)), TLC_GOLOMB_LONGEST / (least + 1)};
    eight v[VECTORS];

    for (size_t i = 0; i < VECTORS; i++)
        v[i] = begin(lanes + i * EACH, end + i * EACH);
    while (v[0].active | v[1].active) {
        load(&v[0], &s);
        load(&v[1], &s);
        for (unsigned i = 0; i < s.tries; i++) {
            take(&v[0], &s);
            take(&v[1], &s);
        }
        advance(&v[0]);
        advance(&v[1]);
    }
    for (size_t i = 0; i < VECTORS; i++)
        finish(&v[i], c, lanes + i * EACH);
}
#endif
