/* SPDX-License-Identifier: MIT
 *
 * The method of the scalar kernel, with the instructions for bits that came with AVX2: shifts that take their count
 * from any register, and leading zeros.
 */
#include "avx2.h"
#include "golomb_codes.h"

#if defined(__x86_64__)

TLC_AVX2_INLINE size_t read_groups(const tlc_golomb_codes *c, tlc_golomb_run *run, unsigned group, unsigned signs,
                                   size_t *index, uint8_t *negative, size_t cap)
{
    const unsigned least = 1 + c->b + signs, below = 63 - c->b - signs;
    const uint8_t *end = c->bytes + c->size;
    tlc_golomb_source from = tlc_golomb_source_at(c->bytes, run->bit);
    uint64_t last = run->next - 1;
    size_t count = 0;

    while (cap - count >= group && end - from.from >= 8) {
        tlc_golomb_refill(&from);
        uint64_t word = from.word, at = last, quotients = 0;
        for (unsigned i = 0; i < group; i++) {
            uint64_t quotient = _lzcnt_u64(word), low;
            word <<= quotient & 63;
            low = word >> (below & 63);
            word <<= least & 63;
            quotients += quotient;
            at += (quotient << c->b) + ((uint64_t)2 << c->b);
            at -= low >> signs;
            index[count + i] = (size_t)at;
            if (signs)
                negative[count + i] = (uint8_t)low;
        }
        quotients += group * least;
        if (__builtin_expect(quotients > 56, 0))
            break;
        from.word = word;
        from.valid -= (unsigned)quotients;
        last = at;
        count += group;
    }
    for (size_t i = 0; signs && i < count; i++)
        negative[i] = ~negative[i] & 1;
    *run = (tlc_golomb_run){(uint64_t)(from.from - c->bytes) * 8 - from.valid, run->count + count, last + 1};
    return count;
}

TLC_AVX2 size_t tlc_golomb_read_avx2(const tlc_golomb_codes *c, tlc_golomb_run *run, size_t *index, uint8_t *negative,
                                     size_t cap)
{
    if (tlc_golomb_group(c) == 2)
        return c->signs ? read_groups(c, run, 2, 1, index, negative, cap) : read_groups(c, run, 2, 0, index, NULL, cap);
    return c->signs ? read_groups(c, run, 4, 1, index, negative, cap) : read_groups(c, run, 4, 0, index, NULL, cap);
}
#endif
