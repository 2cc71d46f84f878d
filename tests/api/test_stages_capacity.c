/* SPDX-License-Identifier: MIT
 *
 * P1 and P2 for functions of stages.h and bundle.h that write to a buffer of the caller, with every capacity from 0 up.
 * The buffer has exactly that size and lies between guard pages. Below the capacity that the header asks for the call
 * is refused and changes nothing. From there on the result is that of a large buffer. (tlc_compress and tlc_state_save:
 * p1_failed_calls_change_nothing.c.)
 */
#include "../support/support.h"
#include <math.h>
#include <threelc/bundle.h>

enum { MOST = 200, ROOM = 16 * MOST + 64, FILL = 0x3c };

/* What the encoders are given. */
typedef struct matter {
    size_t n;
    float x[MOST];
    int8_t ternary[MOST], binary[MOST];
    uint8_t quartic[MOST], runs[MOST];
    size_t quartic_len, runs_len;
    uint8_t frame[3][ROOM]; /* natural */
    size_t frame_len[3];
} matter;

static void make_frames(matter *m, const char *codec)
{
    for (size_t i = 0; i < 3; i++) {
        tlc_config cfg = config(codec, TLC_F32, TLC_ISA_AUTO);
        cfg.seed = i;
        cfg.checksum = i < 2;
        tlc_ctx *ctx = create(&cfg, m->n);
        m->frame_len[i] = compress(ctx, m->x, m->frame[i]);
        tlc_destroy(ctx);
    }
}

static void make(matter *m, data_kind kind, size_t n)
{
    float M, mean;

    m->n = n;
    fill(kind, n, m->x, n);
    require_status(tlc_ternary_encode(m->x, n, 1.25f, m->ternary, NULL, &M), TLC_OK);
    require_status(tlc_sparse_binary_encode(m->x, n, 0.2, m->binary, NULL, &mean), TLC_OK);
    require_status(tlc_quartic_encode(m->ternary, n, m->quartic, MOST, &m->quartic_len), TLC_OK);
    require_status(tlc_zerorun_encode(m->quartic, m->quartic_len, m->runs, MOST, &m->runs_len), TLC_OK);
    make_frames(m, "natural");
}

/* ---- the encoders: each tells in need the capacity that its header names ----------------------------------------- */

typedef tlc_status encoder(const matter *m, uint8_t *dst, size_t cap, float *residual, size_t *written, size_t *need);

static tlc_status quartic(const matter *m, uint8_t *dst, size_t cap, float *residual, size_t *written, size_t *need)
{
    (void)residual;
    *need = (m->n + 4) / 5;
    return tlc_quartic_encode(m->ternary, m->n, dst, cap, written);
}

static tlc_status zerorun(const matter *m, uint8_t *dst, size_t cap, float *residual, size_t *written, size_t *need)
{
    (void)residual;
    *need = m->quartic_len;
    return tlc_zerorun_encode(m->quartic, m->quartic_len, dst, cap, written);
}

static tlc_status unzerorun(const matter *m, uint8_t *dst, size_t cap, float *residual, size_t *written, size_t *need)
{
    (void)residual;
    *need = m->quartic_len;
    return tlc_zerorun_decode(m->runs, m->runs_len, dst, cap, written);
}

static uint64_t scratch[2 * (MOST / 64 + 1)];

/* The header promises success if the code fits. A call with a large buffer tells its length. */
static tlc_status golomb(const matter *m, const int8_t *q, tlc_golomb_signs signs, uint8_t *dst, size_t cap,
                         size_t *written, size_t *need)
{
    const tlc_golomb_params *params = PARAMS(golomb, .signs = signs, .scratch = scratch);
    uint8_t large[ROOM];

    require_status(tlc_golomb_encode(q, m->n, params, large, sizeof large, need), TLC_OK);
    require(*need <= tlc_golomb_size(m->n, m->n, signs));
    return tlc_golomb_encode(q, m->n, params, dst, cap, written);
}

static tlc_status signed_positions(const matter *m, uint8_t *dst, size_t cap, float *residual, size_t *written,
                                   size_t *need)
{
    (void)residual;
    return golomb(m, m->ternary, TLC_GOLOMB_SIGNED, dst, cap, written, need);
}

static tlc_status positions(const matter *m, uint8_t *dst, size_t cap, float *residual, size_t *written, size_t *need)
{
    (void)residual;
    return golomb(m, m->binary, TLC_GOLOMB_UNSIGNED, dst, cap, written, need);
}

static tlc_status natural(const matter *m, uint8_t *dst, size_t cap, float *residual, size_t *written, size_t *need)
{
    const tlc_natural_params *params = PARAMS(natural, .shift = 3, .seed = 1, .step = 2, .residual = residual);

    *need = *written = m->n;
    return tlc_natural_encode(m->x, m->n, params, dst, cap, NULL);
}

static tlc_status natural9(const matter *m, uint8_t *dst, size_t cap, float *residual, size_t *written, size_t *need)
{
    const tlc_natural_params *params = PARAMS(natural, .bits = TLC_NATURAL_9, .rounding = TLC_ROUND_NEAREST,
                                              .residual = residual);

    *need = *written = m->n + (m->n + 7) / 8;
    return tlc_natural_encode(m->x, m->n, params, dst, cap, NULL);
}

static tlc_status topk(const matter *m, uint8_t *dst, size_t cap, float *residual, size_t *written, size_t *need)
{
    size_t most = 2 * (size_t)ceil(0.3 * (double)m->n);

    *need = (m->n + 7) / 8 + 4 * (most < m->n ? most : m->n);
    return tlc_topk_encode(m->x, m->n, PARAMS(topk, .p = 0.3, .seed = 1, .step = 2, .residual = residual), dst, cap,
                           written);
}

static tlc_status random_sparse(const matter *m, uint8_t *dst, size_t cap, float *residual, size_t *written,
                                size_t *need)
{
    const tlc_random_sparse_params *params = PARAMS(random_sparse, .p = 0.5, .seed = 1, .step = 2, .scratch = scratch,
                                                    .residual = residual);

    *need = m->n ? tlc_golomb_size(m->n, m->n, TLC_GOLOMB_UNSIGNED) + 4 * m->n : 0;
    return tlc_random_sparse_encode(m->x, m->n, params, dst, cap, written);
}

static tlc_status aggregate(const matter *m, uint8_t *dst, size_t cap, float *residual, size_t *written, size_t *need)
{
    const tlc_message frames[] = {{m->frame[0], m->frame_len[0]},
                                  {m->frame[1], m->frame_len[1]},
                                  {m->frame[2], m->frame_len[2]}};

    (void)residual;
    require_status(tlc_codec_bound("natural", TLC_F32, m->n, need), TLC_OK);
    return tlc_natural_aggregate(frames, COUNT(frames), PARAMS(natural_aggregate, .seed = 1), dst, cap, written);
}

static const struct {
    const char *name;
    encoder *encode;
    int residual; /* has one */
    int exact;    /* does not report its length: it is what was needed */
} encoders[] = {
    {"quartic", quartic, 0, 0},
    {"zerorun", zerorun, 0, 0},
    {"zerorun, decoding", unzerorun, 0, 0},
    {"golomb with signs", signed_positions, 0, 0},
    {"golomb", positions, 0, 0},
    {"natural", natural, 1, 1},
    {"natural, 9 bits", natural9, 1, 1},
    {"topk", topk, 1, 0},
    {"random-sparse", random_sparse, 1, 0},
    {"natural frames", aggregate, 0, 0},
};

/* ---- every capacity ---------------------------------------------------------------------------------------------- */

static void try_capacities(arena *a, const matter *m, size_t e)
{
    uint8_t want[ROOM];
    float rest[MOST], residual[MOST];
    size_t len = 0, written, need = 0;

    memset(rest, FILL, sizeof rest);
    require_status(encoders[e].encode(m, want, sizeof want, encoders[e].residual ? rest : NULL, &len, &need), TLC_OK);
    require(len <= need && need < ROOM);
    for (size_t cap = 0; cap <= need + 1; cap++) {
        uint8_t *dst = arena_take(&a[0], cap, 1);
        at.i = cap;
        memset(dst, FILL, cap);
        memset(residual, FILL, sizeof residual);
        written = 77;
        tlc_status status = encoders[e].encode(m, dst, cap, encoders[e].residual ? residual : NULL, &written, &need);
        require_status(status, cap < need ? TLC_ERR_CAPACITY : TLC_OK);
        require(arena_intact(&a[0]));
        if (status) {
            require(all_bytes(dst, cap, FILL) && all_bytes(residual, sizeof residual, FILL));
            require(encoders[e].exact || written == 77);
        } else
            require(written == len && same(dst, want, len) && same(residual, rest, sizeof rest));
    }
}

TEST(stages)
{
    static const data_kind kinds[] = {DATA_LAPLACE, DATA_SPARSE, DATA_DENSE, DATA_ZERO, DATA_TIES};
    static const size_t sizes[] = {0, 1, 4, 5, 8, 63, 64, 65, MOST};
    matter m;
    arena a;

    arena_open(&a, ROOM);
    for (size_t s = 0; s < COUNT(sizes); s++)
        for (size_t k = 0; k < COUNT(kinds); k++) {
            at = (place){.n = sizes[s]};
            make(&m, kinds[k], sizes[s]);
            for (size_t e = 0; e < COUNT(encoders); e++) {
                at.note = encoders[e].name;
                try_capacities(&a, &m, e);
            }
        }
    arena_close(&a);
}

/* ---- bundles ----------------------------------------------------------------------------------------------------- */

static const size_t lengths[] = {5, 0, 17, 1};

/* Adds as many frames as cap allows; returns their number. */
static size_t write_bundle(arena *a, size_t cap, int commit, tlc_message *bundle)
{
    uint8_t *dst = arena_take(a, cap, 1), frame[20], before[100];
    tlc_bundle_writer w;
    size_t i = 0, space = 0, used = 7 + 10 * COUNT(lengths);
    void *to = NULL;

    memset(dst, FILL, cap);
    memset(frame, 1, sizeof frame);
    tlc_status status = tlc_bundle_init(&w, dst, cap, COUNT(lengths));
    require_status(status, cap < used ? TLC_ERR_CAPACITY : TLC_OK);
    if (status) {
        require(all_bytes(dst, cap, FILL));
        return 0;
    }
    for (; i < COUNT(lengths); i++, used += lengths[i - 1]) {
        const tlc_bundle_writer saved = w;
        memcpy(before, dst, cap);
        require_status(tlc_bundle_space(&w, &to, &space), TLC_OK);
        require(space == cap - used && (uint8_t *)to == dst + used);
        status = commit ? tlc_bundle_commit(&w, lengths[i]) : tlc_bundle_add(&w, frame, lengths[i]);
        require_status(status, lengths[i] > cap - used ? TLC_ERR_CAPACITY : TLC_OK);
        if (status) {
            require(same(dst, before, cap) && same(&w, &saved, sizeof w));
            break;
        }
    }
    require_status(tlc_bundle_finish(&w, bundle), i < COUNT(lengths) ? TLC_ERR_PARAM : TLC_OK);
    require(arena_intact(a));
    if (i == COUNT(lengths))
        require((const uint8_t *)bundle->data + bundle->len == dst + used &&
                bundle->len == used - 4 - 9 * COUNT(lengths));
    return i;
}

TEST(bundles)
{
    size_t need = 0, frames = 0, before;
    arena a;

    at = (place){.note = "bundle"};
    arena_open(&a, 100);
    for (size_t i = 0; i < COUNT(lengths); i++)
        frames += lengths[i];
    require_status(tlc_bundle_bound(COUNT(lengths), frames, &need), TLC_OK);
    for (int commit = 0; commit < 2; commit++)
        for (size_t cap = before = 0; cap <= need; cap++) {
            at.i = cap;
            tlc_message bundle = {NULL, 77};
            size_t in = write_bundle(&a, cap, commit, &bundle);
            require(in >= before && (in == COUNT(lengths)) == (cap == need));
            require(in == COUNT(lengths) || (!bundle.data && bundle.len == 77));
            before = in;
        }
    arena_close(&a);
}
