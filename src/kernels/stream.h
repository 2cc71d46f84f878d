/* SPDX-License-Identifier: MIT
 *
 * Decoding with non-temporal stores, for an ISA's ternary_quartic file, which defines before it
 *   TARGET               the functions' attribute
 *   STREAM_LINE(to, in)  stores 16 floats past the caches; both are at multiples of 64 bytes
 *   STREAM(x)            x with the ISA's suffix
 *
 * Such a store pays if whole cache lines are filled at a time, and the five streams lie differently to the lines. So each
 * is decoded into a buffer that lies as the stream does; whole lines go on from there. The lines at the ends, which are
 * shared with what is beside the stream, are stored as usual.
 */
#define LINE ((size_t)16) /* floats */
#define STEP ((size_t)64) /* positions at a time: few, so that decoding goes on while lines drain */

/* Stores what is decoded in buffer, count floats from skew on, to the stream's next ones; first: what is below skew is
 * not ours, else it is what was left over. Leaves the last line, if it is not whole, at the start of the buffer. */
TARGET static void stream_lines(float *to, float *buffer, size_t skew, size_t count, int first)
{
    size_t at = 0, end = skew + count;

    if (first && skew) {
        size_t stop = end < LINE ? end : LINE;
        memcpy(to, buffer + skew, (stop - skew) * sizeof *to);
        at = LINE;
    }
    for (; at + LINE <= end; at += LINE)
        STREAM_LINE(to + (ptrdiff_t)(at - skew), buffer + at);
    if (at < end)
        memcpy(buffer, buffer + at, LINE * sizeof *buffer);
}

TARGET void STREAM(tlc_quartic_ternary_stream)(const uint8_t *in, size_t len, float M, float *const out[5],
                                               tlc_lines *lines, unsigned part)
{
    _Alignas(64) float buffer[5][STEP + LINE];
    int first = (part & TLC_PART_FIRST) != 0;
    size_t skew[5];
    float *to[5];

    for (size_t k = 0; k < 5; k++) {
        skew[k] = (uintptr_t)out[k] / sizeof(float) % LINE;
        to[k] = buffer[k] + skew[k];
        if (!first)
            memcpy(buffer[k], lines->left[k], sizeof lines->left[k]);
    }
    for (size_t i = 0, count; i < len; i += count, first = 0) {
        count = len - i < STEP ? len - i : STEP;
        STREAM(tlc_quartic_ternary_decode)(in + i, count, M, to);
        for (size_t k = 0; k < 5; k++)
            stream_lines(out[k] + i, buffer[k], skew[k], count, first);
    }
    for (size_t k = 0; k < 5; k++) {
        if (part & TLC_PART_LAST) {
            size_t rest = (skew[k] + len) % LINE, ours = rest < len || !(part & TLC_PART_FIRST) ? rest : len;
            memcpy(out[k] + (ptrdiff_t)(len - ours), buffer[k] + (rest - ours), ours * sizeof(float));
        } else
            memcpy(lines->left[k], buffer[k], sizeof lines->left[k]);
    }
    if (part & TLC_PART_LAST)
        _mm_sfence(); /* such stores keep no order by themselves: whoever is told that we are done must see them */
}
#undef LINE
#undef STEP
