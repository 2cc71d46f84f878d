/* SPDX-License-Identifier: MIT
 *
 * P5: tlc_create makes one allocation, tlc_destroy frees it, and nothing else allocates. (scripts/symbols.sh tests that
 * decoding does not call malloc.)
 */
#include "../support/no_memory.h"

enum { N = 8191, MOST = 8 };

static tlc_config counted(const char *codec, tlc_dtype dtype, tlc_isa isa, counter *c)
{
    tlc_config cfg = config(codec, dtype, isa);

    *c = (counter){.left = SIZE_MAX};
    cfg.alloc = (tlc_allocator){counted_alloc, counted_free, c};
    cfg.reserve = reserve_all();
    at = (place){.codec = codec, .dtype = dtype, .isa = isa, .n = N};
    return cfg;
}

/* Every call that takes a context. */
static void use(tlc_ctx *ctx, tlc_dtype dtype)
{
    uint8_t *grad = bytes(4 * N), *dst = bytes(tlc_bound(ctx)), *out = bytes(4 * N);
    tlc_frame_info info = {.struct_size = sizeof info};

    for (uint64_t step = 0; step < 3; step++) {
        fill_grad(step == 1 ? DATA_TIES : DATA_SPARSE, step, dtype, grad, N);
        size_t len = compress(ctx, grad, dst);
        require_status(tlc_decompress(dst, len, dtype, out, N, NULL), TLC_OK);
        require_status(tlc_inspect(dst, len, &info), TLC_OK);
        if (tlc_residual(ctx)) {
            require_status(tlc_accumulate(ctx, grad), TLC_OK);
            require_status(tlc_residual_scale(ctx, 0.5f), TLC_OK);
        }
        snapshot s = snap(ctx);
        FOR_EACH_CODEC(c) {
            require_status(tlc_set_codec(ctx, c->text), TLC_OK);
            if ((size_t)(c - codecs) % (quick() ? 16 : 4) == step)
                compress(ctx, grad, dst);
        }
        require_status(tlc_state_load(ctx, s.state, s.size), TLC_OK);
        snap_free(&s);
    }
    tlc_reset(ctx);
    free(grad);
    free(dst);
    free(out);
}

TEST(p5_one_allocation)
{
    FOR_EACH_CODEC(c)
        FOR_EACH_DTYPE(dtype)
            FOR_EACH_ISA(isa)
                for (int own = 0; own < 2; own++) {
                    counter count;
                    tlc_config cfg = counted(c->text, dtype, isa, &count);
                    float *residual = floats(N);
                    memset(residual, 0, 4 * N);
                    if (own) {
                        cfg.residual = residual;
                        cfg.feedback = 1;
                    }
                    cfg.parallel = runners[(size_t)dtype % runner_count].parallel;
                    tlc_ctx *ctx = create(&cfg, N);
                    require(count.made == 1 && count.freed == 0);
                    count.left = 0; /* every further allocation fails */
                    use(ctx, dtype);
                    require(count.made == 1 && count.freed == 0);
                    tlc_destroy(ctx);
                    require(count.made == 1 && count.freed == 1);
                    free(residual);
                }
}

/* The k-th allocation fails, for k = 1, 2, ... until tlc_create succeeds. */
TEST(p5_no_memory)
{
    FOR_EACH_CODEC(c)
        for (int feedback = 0; feedback < 2; feedback++) {
            tlc_status status = TLC_ERR_NOMEM;
            for (size_t k = 0; status; k++) {
                counter count;
                tlc_config cfg = counted(c->text, TLC_F32, TLC_ISA_AUTO, &count);
                tlc_ctx *ctx = (tlc_ctx *)(void *)&count;
                at.i = k;
                require(k < MOST);
                cfg.feedback = feedback;
                count.left = k;
                status = tlc_create(&ctx, &cfg, N);
                if (status) {
                    require_status(status, TLC_ERR_NOMEM);
                    require((void *)ctx == (void *)&count);
                } else
                    tlc_destroy(ctx);
                require(count.made == count.freed);
            }
        }
}

/* A configuration that is refused allocates nothing. */
TEST(p5_refused_before_allocating)
{
    counter count;
    tlc_ctx *ctx = NULL;
    tlc_config cfg = counted("no such codec", TLC_F32, TLC_ISA_AUTO, &count);

    require_status(tlc_create(&ctx, &cfg, N), TLC_ERR_PARAM);
    cfg = counted("3lc", TLC_F32, TLC_ISA_AUTO, &count);
    require_status(tlc_create(&ctx, &cfg, SIZE_MAX), TLC_ERR_SIZE);
    require(ctx == NULL && count.made == 0 && count.freed == 0);
}

SETUP(print_isas)
