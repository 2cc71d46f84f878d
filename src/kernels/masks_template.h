/* SPDX-License-Identifier: MIT
 *
 * The loops of masks_avx2.c and masks_neon.c. 64 values become a word of bits. The last word is made of the last 64
 * values, and the bits of those that are in the word before are shifted out. Parameters, undefined at the end:
 *   TARGET, INLINE           attributes of kernels, and of functions that are inlined into them
 *   NAME(kernel)             its function for this ISA
 * And functions:
 *   nonzero64, minus64       the words of 64 symbols
 *   threshold_of, reached64  the parameters of threshold_mask in vectors, and its word of 64 values
 *   limits_of, drawn64       those of random_mask
 *   expand_word              expands 64 values; at least 64 members are left. Returns how many it took.
 */

/* Inlined once with `negative` and once without. */
INLINE uint64_t symbols(const int8_t *q, size_t n, uint64_t *nonzero, uint64_t *negative)
{
    uint64_t count = 0;
    size_t i = 0;

    for (; n - i >= WORD; i += WORD) {
        uint64_t any = nonzero64(q + i);

        count += (uint64_t)__builtin_popcountll(any);
        nonzero[i / WORD] = any;
        if (negative)
            negative[i / WORD] = minus64(q + i);
    }
    if (i == n)
        return count;
    unsigned known = (unsigned)(WORD - (n - i));
    nonzero[i / WORD] = nonzero64(q + n - WORD) >> known;
    if (negative)
        negative[i / WORD] = minus64(q + n - WORD) >> known;
    return count + (uint64_t)__builtin_popcountll(nonzero[i / WORD]);
}

TARGET uint64_t NAME(symbol_masks)(const int8_t *q, size_t n, uint64_t *nonzero, uint64_t *negative)
{
    if (n < WORD)
        return tlc_symbol_masks_scalar(q, n, nonzero, negative);
    return negative ? symbols(q, n, nonzero, negative) : symbols(q, n, nonzero, NULL);
}

TARGET uint64_t NAME(threshold_mask)(const float *x, size_t n, uint32_t flip, uint32_t keep, int32_t least,
                                     uint64_t *mask)
{
    const threshold t = threshold_of(flip, keep, least);
    uint64_t count = 0;
    size_t i = 0;

    if (n < WORD)
        return tlc_threshold_mask_scalar(x, n, flip, keep, least, mask);
    for (; n - i >= WORD; i += WORD) {
        mask[i / WORD] = reached64(x + i, t);
        count += (uint64_t)__builtin_popcountll(mask[i / WORD]);
    }
    if (i == n)
        return count;
    mask[i / WORD] = reached64(x + n - WORD, t) >> (WORD - (n - i));
    return count + (uint64_t)__builtin_popcountll(mask[i / WORD]);
}

TARGET uint64_t NAME(random_mask)(const float *x, const uint32_t *words, size_t n, uint32_t limit, uint64_t *mask)
{
    const limits all = limits_of(limit);
    uint64_t count = 0;
    size_t i = 0;

    if (n < WORD)
        return tlc_random_mask_scalar(x, words, n, limit, mask);
    for (; n - i >= WORD; i += WORD) {
        mask[i / WORD] = drawn64(x + i, words + i, all);
        count += (uint64_t)__builtin_popcountll(mask[i / WORD]);
    }
    if (i == n)
        return count;
    mask[i / WORD] = drawn64(x + n - WORD, words + n - WORD, all) >> (WORD - (n - i));
    return count + (uint64_t)__builtin_popcountll(mask[i / WORD]);
}

TARGET size_t NAME(expand)(const uint64_t *mask, size_t n, const void *values, size_t have, float *out)
{
    const uint8_t *from = values;
    size_t at = 0, i = 0;

    for (; i < n / WORD && have - at >= WORD; i++)
        at += expand_word(mask[i], from + 4 * at, 0, 0, out + i * WORD);
    return at + tlc_expand_scalar(mask + i, n - i * WORD, from + 4 * at, have - at, out + i * WORD);
}

TARGET size_t NAME(expand_add)(const uint64_t *mask, size_t n, const void *values, size_t have, float weight,
                               float *sum)
{
    const uint8_t *from = values;
    size_t at = 0, i = 0;

    for (; i < n / WORD && have - at >= WORD; i++)
        at += expand_word(mask[i], from + 4 * at, 1, weight, sum + i * WORD);
    return at + tlc_expand_add_scalar(mask + i, n - i * WORD, from + 4 * at, have - at, weight, sum + i * WORD);
}

#undef TARGET
#undef INLINE
#undef NAME
