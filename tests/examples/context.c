/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <threelc/threelc.h>

int main(void)
{
    enum { N = 100000 };
    static float grad[N], received[N];
    tlc_config cfg;
    tlc_ctx *ctx;
    size_t len;

    tlc_config_init(&cfg, sizeof cfg);
    cfg.codec = "3lc-golomb";
    if (tlc_create(&ctx, &cfg, N)) /* one context per tensor: it keeps the residual */
        return 1;
    unsigned char *frame = (unsigned char *)malloc(tlc_bound(ctx));
    for (int step = 1; step <= 3; step++) {
        for (int i = 0; i < N; i++) /* your gradient */
            grad[i] = (float)((i * 7 + step) % 1009 - 504) * (float)(i % 11) * 1e-5f;
        if (tlc_compress(ctx, grad, frame, tlc_bound(ctx), &len))
            return 1;
        printf("step %d: %zu bytes become %zu\n", step, sizeof grad, len);
        if (tlc_decompress(frame, len, TLC_F32, received, N, NULL)) /* on the other machine */
            return 1;
    }
    free(frame);
    tlc_destroy(ctx);
    return 0;
}
