/* SPDX-License-Identifier: MIT */
#include "p7_run.h"

const way plain = {TLC_ISA_SCALAR, &runners[0], MODE_DEFAULT};

static uint64_t mode_before;

void way_enter(const way *w)
{
    if (!mode_enter(w->mode))
        fail_msg("no %s here", mode_name[w->mode]);
    mode_before = mode_read();
}

int way_leave(void)
{
    uint64_t mode_after = mode_read();

    mode_leave();
    return mode_after == mode_before;
}

uint8_t *note(journal *j, const char *what, size_t size)
{
    uint8_t *p = j->bytes + j->len;

    require(j->room - j->len >= size && j->count < COUNT(j->entries));
    j->entries[j->count++] = (entry){what, j->len};
    memset(p, 0xa5, size);
    j->len += size;
    return p;
}

void require_same_journal(const journal *a, const journal *b)
{
    for (size_t e = 0; e < b->count; e++) {
        size_t start = b->entries[e].start, end = e + 1 < b->count ? b->entries[e + 1].start : b->len;
        if (e < a->count && end <= a->len && same(a->bytes + start, b->bytes + start, end - start))
            continue;
        print_error("%s differs\n", b->entries[e].what);
        require_failed("bit-identical", __FILE__, __LINE__);
    }
    require(a->len == b->len && a->count == b->count);
}

void input_open(input *in)
{
    size_t size = in->n * dtype_size[in->dtype];

    in->grad = bytes(in->steps * size);
    in->sum = floats(in->n);
    for (uint64_t step = 0; step < in->steps; step++)
        fill_grad(in->kind, step, in->dtype, in->grad + step * size, in->n);
    fill(DATA_LAPLACE, 99, in->sum, in->n);
}

void input_close(input *in)
{
    free(in->grad);
    free(in->sum);
}

static void decode(const input *in, const way *w, journal *j, const uint8_t *frame, size_t len)
{
    const size_t n = in->n;
    const tlc_decode_options opt = {.struct_size = sizeof opt, .isa = w->isa, .parallel = w->runner->parallel};
    tlc_frame_info info;
    float *sum = floats(n);

    uint8_t *out = note(j, "decoded", n * dtype_size[in->dtype]);
    IN_MODE(w, tlc_decompress(frame, len, in->dtype, out, n, &opt));
    memcpy(sum, in->sum, 4 * n);
    IN_MODE(w, tlc_decompress_add(frame, len, 0.3f, sum, n, &opt));
    const tlc_message frames[3] = {{frame, len}, {frame, len}, {frame, len}};
    const float weights[3] = {-0.7f, 1e-30f, 3.0f};
    IN_MODE(w, tlc_decompress_add_many(frames, weights, 3, sum, n, NULL, &opt));
    memcpy(note(j, "sum", 4 * n), sum, 4 * n);
    memset(&info, 0, sizeof info);
    info.struct_size = sizeof info;
    IN_MODE(w, tlc_inspect(frame, len, &info));
    const uint64_t numbers[] = {info.version,     (uint64_t)info.dtype, info.n,      info.block, info.nonzero,
                                info.header_size, info.payload_size,    info.clipped};
    memcpy(note(j, "info", sizeof numbers), numbers, sizeof numbers);
    if (info.nonzero != TLC_UNKNOWN) {
        IN_MODE(w, tlc_mask(frame, len, sum, n, &opt));
        memcpy(note(j, "masked", 4 * n), sum, 4 * n);
    }
    free(sum);
}

static tlc_status make(tlc_ctx **ctx, const input *in, const way *w)
{
    tlc_config cfg;
    tlc_status status = tlc_config_init(&cfg, sizeof cfg);

    cfg.codec = in->codec;
    cfg.dtype = in->dtype;
    cfg.feedback = in->feedback;
    cfg.assume_finite = in->assume_finite;
    cfg.isa = w->isa;
    cfg.checksum = 1;
    cfg.parallel = w->runner->parallel;
    return status ? status : tlc_create(ctx, &cfg, in->n);
}

void run(const input *in, const way *w, journal *j, uint8_t *frame)
{
    const uint8_t *grad = in->grad;
    tlc_ctx *ctx = NULL;
    size_t len = 0;

    j->len = j->count = 0;
    at = (place){.codec = in->codec,
                 .dtype = in->dtype,
                 .isa = w->isa,
                 .n = in->n,
                 .note = w->mode ? mode_name[w->mode] : w->runner->name};
    IN_MODE(w, make(&ctx, in, w));
    for (size_t step = 0; step < in->steps; step++, grad += in->n * dtype_size[in->dtype]) {
        at.i = step;
        if (in->feedback && step) {
            IN_MODE(w, tlc_residual_scale(ctx, 0.7f));
            IN_MODE(w, tlc_accumulate(ctx, grad));
        }
        IN_MODE(w, tlc_compress(ctx, grad, frame, tlc_bound(ctx), &len));
        memcpy(note(j, "frame", len), frame, len);
        decode(in, w, j, frame, len);
    }
    size_t size = tlc_state_size(ctx);
    uint8_t *state = note(j, "state", size);
    IN_MODE(w, tlc_state_save(ctx, state, size, &len));
    IN_MODE(w, tlc_state_load(ctx, state, size));
    tlc_destroy(ctx);
}

bench bench_open(size_t n, size_t steps)
{
    size_t room = steps * (9 * n + 9 * n + 4 * n + 1024) + 4 * n + 1024;
    return (bench){{.bytes = bytes(room), .room = room}, {.bytes = bytes(room), .room = room}, bytes(12 * n + 1024)};
}

void bench_close(bench *b)
{
    free(b->want.bytes);
    free(b->got.bytes);
    free(b->frame);
}
