/* SPDX-License-Identifier: MIT
 *
 * Weights that have moved a little, sent without loss.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <threelc/delta.h>

enum { N = 1 << 20 };
static uint16_t base[N], next[N], served[N]; /* bf16 */

static unsigned draw(unsigned below)
{
    static uint32_t state = 1;
    state = state * 1664525 + 1013904223;
    return (state >> 8) % below;
}

int main(void)
{
    size_t cap, len;

    for (size_t i = 0; i < N; i++) {
        base[i] = served[i] = (uint16_t)(0x3c00 + draw(512));
        next[i] = (uint16_t)(base[i] + (draw(50) ? 0 : draw(2) ? 1 : -1)); /* 2% differ */
    }
    tlc_delta_bound(TLC_BF16, N, &cap);
    void *frame = malloc(cap);
    if (!frame || tlc_delta_compress(TLC_BF16, base, next, N, frame, cap, &len, NULL) != TLC_OK)
        return 1;
    if (tlc_delta_apply(frame, len, TLC_BF16, served, N, NULL) != TLC_OK) /* there, in place */
        return 1;
    printf("%zu bytes in place of %zu, %s\n", len, sizeof next, memcmp(served, next, sizeof next) ? "wrong" : "exact");
    free(frame);
    return 0;
}
