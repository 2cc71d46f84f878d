/* SPDX-License-Identifier: MIT
 *
 * Contexts, decoders, bundles, deltas and messages of weights with many values, frames and entries.
 */
#include "growth.h"
#include <threelc/bundle.h>
#include <threelc/delta.h>
#include <threelc/weights.h>

/* ---- values ------------------------------------------------------------------------------------------------------ */

static const char *codec;

static void with_values(size_t n)
{
    tlc_config cfg = config(codec, TLC_F32, TLC_ISA_AUTO);
    float *values = floats(n);
    size_t written;
    tlc_ctx *ctx;

    fill(DATA_TIES, 1, values, n);
    cfg.alloc = counting_allocator;
    require_status(tlc_create(&ctx, &cfg, n), TLC_OK);
    measure_bytes("bytes");
    const size_t cap = tlc_bound(ctx), size = tlc_state_size(ctx);
    uint8_t *frame = bytes(cap), *state = bytes(size);
    memset(frame, 0, cap); /* so that no page is the first time's */
    memset(state, 0, size);
    MEASURE("compress", written = compress(ctx, values, frame));
    MEASURE("decompress", require_status(tlc_decompress(frame, written, TLC_F32, values, n, NULL), TLC_OK));
    MEASURE("decompress_add", require_status(tlc_decompress_add(frame, written, 1, values, n, NULL), TLC_OK));
    MEASURE("state_save", require_status(tlc_state_save(ctx, state, size, &written), TLC_OK));
    MEASURE("state_load", require_status(tlc_state_load(ctx, state, written), TLC_OK));
    tlc_destroy(ctx);
    free(frame);
    free(state);
    free(values);
}

TEST(of_values)
{
    FOR_EACH_CODEC(c) {
        codec = at.codec = c->text;
        if (!quick() || (c - codecs) % 8 == 0)
            require_linear(codec, with_values, quick() ? 16384 : 131072);
    }
    codec = at.codec = "3lc:block=64";
    require_linear(codec, with_values, quick() ? 16384 : 131072);
    at.codec = NULL;
}

/* ---- frames ------------------------------------------------------------------------------------------------------ */

static void with_frames(size_t n)
{
    enum { VALUES = 64 };
    tlc_config cfg = config("3lc", TLC_F32, TLC_ISA_AUTO);
    tlc_ctx *ctx = create(&cfg, VALUES);
    const size_t cap = tlc_bound(ctx);
    float values[VALUES], sum[VALUES];
    uint8_t *frame = bytes(cap), *space;
    tlc_message *frames = (tlc_message *)(void *)bytes(n * sizeof *frames), bundle;
    tlc_bundle_writer w;
    tlc_bundle_reader r;
    size_t size;

    fill(DATA_LAPLACE, 1, values, VALUES);
    const size_t len = compress(ctx, values, frame);
    require_status(tlc_bundle_bound((uint32_t)n, n * len, &size), TLC_OK);
    space = bytes(size);
    memset(space, 0, size);
    MEASURE("bundle, written", {
        require_status(tlc_bundle_init(&w, space, size, (uint32_t)n), TLC_OK);
        for (size_t i = 0; i < n; i++)
            require_status(tlc_bundle_add(&w, frame, len), TLC_OK);
        require_status(tlc_bundle_finish(&w, &bundle), TLC_OK);
    });
    MEASURE("bundle, read", {
        require_status(tlc_bundle_open(&r, bundle.data, bundle.len), TLC_OK);
        for (size_t i = 0; i < n; i++)
            require_status(tlc_bundle_next(&r, &frames[i].data, &frames[i].len), TLC_OK);
    });
    MEASURE("decompress_add_many",
            require_status(tlc_decompress_add_many(frames, NULL, n, sum, VALUES, NULL,
                                                   &(tlc_decode_options){.struct_size = sizeof(tlc_decode_options),
                                                                         .from_zero = 1}),
                           TLC_OK));
    tlc_destroy(ctx);
    free(frame);
    free(space);
    free(frames);
}

TEST(of_frames)
{
    require_linear("frames", with_frames, quick() ? 1024 : 16384);
}

/* ---- deltas ------------------------------------------------------------------------------------------------------ */

static uint8_t *delta(const char *name, const uint16_t *base, const uint16_t *next, size_t n, size_t *len)
{
    size_t cap;

    require_status(tlc_delta_bound(TLC_BF16, n, &cap), TLC_OK);
    uint8_t *frame = bytes(cap);
    memset(frame, 0, cap);
    MEASURE(name, require_status(tlc_delta_compress(TLC_BF16, base, next, n, frame, cap, len, NULL), TLC_OK));
    return frame;
}

/* One weight in `each` differs. */
static void with_weights(size_t n, size_t each)
{
    uint16_t *base = (uint16_t *)(void *)bytes(n * sizeof *base), *next = (uint16_t *)(void *)bytes(n * sizeof *next);
    size_t len;
    uint8_t *frame;

    for (size_t i = 0; i < n; i++) {
        base[i] = (uint16_t)(i * 7919);
        next[i] = (uint16_t)(base[i] + (i % each == 0));
    }
    frame = delta("delta_compress", base, next, n, &len);
    MEASURE("delta_check", require_status(tlc_delta_check(frame, len, TLC_BF16, base, n, NULL), TLC_OK));
    MEASURE("delta_apply", require_status(tlc_delta_apply(frame, len, TLC_BF16, base, n, NULL), TLC_OK));
    require(same(base, next, n * sizeof *base));
    free(frame);
    free(base);
    free(next);
}

static void with_few_changes(size_t n)
{
    with_weights(n, 100);
}

static void with_many_changes(size_t n)
{
    with_weights(n, 2);
}

TEST(of_weights)
{
    require_linear("weights, few differ", with_few_changes, quick() ? 65536 : 1048576);
    require_linear("weights, many differ", with_many_changes, quick() ? 65536 : 262144);
}

/* A chain of deltas becomes one. */
static void with_chain(size_t n)
{
    enum { WEIGHTS = 4096 };
    uint16_t *weights = (uint16_t *)(void *)bytes(2 * WEIGHTS * sizeof *weights), *next = weights + WEIGHTS;
    const void **frames = (const void **)(void *)bytes(n * sizeof *frames);
    size_t *lens = (size_t *)(void *)bytes(n * sizeof *lens), cap, len;

    memset(weights, 0, 2 * WEIGHTS * sizeof *weights);
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < 40; k++)
            next[(i * 101 + k * 97) % WEIGHTS] ^= 1;
        frames[i] = delta("delta_compress, all", weights, next, WEIGHTS, &lens[i]);
        memcpy(weights, next, WEIGHTS * sizeof *weights);
    }
    require_status(tlc_delta_fold_bound(TLC_BF16, WEIGHTS, n, &cap), TLC_OK);
    uint8_t *folded = bytes(cap);
    MEASURE("delta_fold", require_status(tlc_delta_fold(frames, lens, n, folded, cap, &len, NULL), TLC_OK));
    for (size_t i = 0; i < n; i++)
        free((void *)(uintptr_t)frames[i]);
    free(folded);
    free(frames);
    free(lens);
    free(weights);
}

TEST(of_chains)
{
    require_linear("deltas of a chain", with_chain, quick() ? 16 : 64);
}

/* ---- messages of weights ----------------------------------------------------------------------------------------- */

typedef struct sink {
    uint8_t *bytes;
    size_t len, cap;
} sink;

static int take(void *opaque, const void *src, size_t len)
{
    sink *s = opaque;

    if (len > s->cap - s->len)
        return 1;
    memcpy(s->bytes + s->len, src, len);
    s->len += len;
    return 0;
}

static int find(void *opaque, const tlc_weights_entry *entry, tlc_weights_place *where)
{
    uint16_t *weights = opaque;

    *where = (tlc_weights_place){.base = weights, .out = weights, .count = (size_t)entry->n};
    return 0;
}

static void write_message(sink *s, size_t n, const uint8_t *frame, size_t len, size_t weights)
{
    const uint64_t shape[1] = {weights};
    tlc_weights_writer_config cfg;
    tlc_weights_writer *w;
    tlc_weights_entry entry;
    char name[32];

    require_status(tlc_weights_writer_config_init(&cfg, sizeof cfg), TLC_OK);
    cfg.write = take;
    cfg.opaque = s;
    cfg.sequence = 1;
    cfg.count = n;
    cfg.alloc = counting_allocator;
    require_status(tlc_weights_writer_create(&w, &cfg), TLC_OK);
    measure_bytes("writer's bytes");
    require_status(tlc_weights_entry_init(&entry, sizeof entry), TLC_OK);
    entry.dtype = TLC_BF16;
    entry.n = weights;
    entry.dims = 1;
    entry.shape = shape;
    entry.name = name;
    for (size_t i = 0; i < n; i++) {
        (void)snprintf(name, sizeof name, "tensor.%08zu", i);
        require_status(tlc_weights_add(w, &entry, frame, len), TLC_OK);
    }
    require_status(tlc_weights_finish(w), TLC_OK);
    tlc_weights_writer_destroy(w);
}

static void with_entries(size_t n)
{
    enum { WEIGHTS = 16 };
    uint16_t weights[WEIGHTS] = {0}, read[WEIGHTS] = {0};
    tlc_weights_reader_config cfg;
    tlc_weights_reader *r;
    tlc_weights_entry entry;
    size_t len;
    uint8_t *frame = delta("delta_compress of one", NULL, weights, WEIGHTS, &len);
    sink s = {bytes(n * 512 + 4096), 0, n * 512 + 4096};

    memset(s.bytes, 0, s.cap);
    MEASURE("writer", write_message(&s, n, frame, len, WEIGHTS));
    require_status(tlc_weights_reader_config_init(&cfg, sizeof cfg), TLC_OK);
    cfg.src = s.bytes;
    cfg.size = s.len;
    MEASURE("open", require_status(tlc_weights_open(&r, &cfg), TLC_OK));
    require_status(tlc_weights_entry_init(&entry, sizeof entry), TLC_OK);
    MEASURE("at, of each", {
        for (uint64_t i = 0; i < n; i++)
            require_status(tlc_weights_at(r, i, &entry), TLC_OK);
    });
    MEASURE("apply", require_status(tlc_weights_apply(r, find, read, NULL, 0), TLC_OK));
    tlc_weights_close(r);
    free(s.bytes);
    free(frame);
}

TEST(of_entries)
{
    require_linear("entries", with_entries, quick() ? 256 : 1024);
}
