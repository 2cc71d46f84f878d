/* SPDX-License-Identifier: MIT
 *
 * Tensors so large that sizes overflow. Every n near SIZE_MAX and its fractions is refused with TLC_ERR_SIZE, or all
 * sizes that the library returns and allocates are right.
 */
#include "../support/support.h"

/* ---- numbers of values ------------------------------------------------------------------------------------------- */

/* Around quotients of SIZE_MAX, where sizes overflow: bytes a value, or values a byte. */
static const size_t quotients[] = {1, 2, 3, 4, 5, 8, 9, 10, 12, 16, 20, 32, 64, 1000};
enum { AROUND = 120 };

/* Calls visit for each n, rising around each quotient. SIZE_MAX is the last one around the first quotient. */
static void each_huge(void (*visit)(const codec_case *c, size_t n, void *arg), const codec_case *c, void *arg)
{
    for (size_t q = 0; q < COUNT(quotients); q++) {
        size_t middle = SIZE_MAX / quotients[q], from = middle - 2 * AROUND, step = quick() ? 7 : 3;
        for (size_t i = 0; i <= (q ? 3 * AROUND : 2 * AROUND); i += step) {
            at.n = from + i;
            visit(c, from + i, arg);
        }
    }
}

/* ---- tlc_codec_bound --------------------------------------------------------------------------------------------- */

static size_t header_size(const codec_case *c, size_t n)
{
    size_t size = 4 + 1 + (block_of(c->text) ? 0 : 4 * c->scalars);

    for (size_t rest = n; rest >>= 7;)
        size++;
    for (size_t rest = block_of(c->text); rest; rest >>= 7)
        size++;
    return size;
}

/* Codecs whose largest payload is start + n / unit * step, for whole units. */
typedef struct line {
    size_t unit, start, step; /* unit 0: nowhere */
    tlc_dtype dtype;
} line;

static size_t payload(const codec_case *c, tlc_dtype dtype, size_t n)
{
    size_t bound = 0;

    require_status(tlc_codec_bound(c->text, dtype, n, &bound), TLC_OK);
    return bound - header_size(c, n) - 4;
}

static line line_of(const codec_case *c, tlc_dtype dtype)
{
    size_t block = block_of(c->text), unit = block ? block : 40;
    line l = {unit, 0, payload(c, dtype, 2 * unit) - payload(c, dtype, unit), dtype};

    l.start = payload(c, dtype, unit) - l.step;
    require(payload(c, dtype, 50 * unit) == l.start + 50 * l.step);
    return l;
}

/* For a multiple of the unit the bound is known, or that it overflows. */
static void on_the_line(const codec_case *c, size_t n, const line *l, tlc_status status, size_t bound)
{
    size_t want = 0;
    int over = __builtin_mul_overflow(n / l->unit, l->step, &want);

    over |= __builtin_add_overflow(want, l->start + header_size(c, n) + 4, &want);
    require_status(status, over ? TLC_ERR_SIZE : TLC_OK);
    require(bound == (over ? 77 : want));
}

static void bound_of(const codec_case *c, size_t n, void *arg)
{
    const line *l = arg;
    size_t bound = 77;
    tlc_status status = tlc_codec_bound(c->text, l->dtype, n, &bound);

    if (l->unit && n % l->unit == 0)
        on_the_line(c, n, l, status, bound);
    require(status == TLC_OK || (status == TLC_ERR_SIZE && bound == 77));
    if (!status) { /* the bound of a larger tensor is not smaller */
        size_t half = 0, less = 0;
        require_status(tlc_codec_bound(c->text, l->dtype, n - 1, &less), TLC_OK);
        require_status(tlc_codec_bound(c->text, l->dtype, n / 2, &half), TLC_OK);
        require(less <= bound && half <= bound && bound - half >= half / 2);
    }
}

TEST(bounds)
{
    FOR_EACH_CODEC(c)
        FOR_EACH_DTYPE(dtype) {
            at = (place){.codec = c->text, .dtype = dtype};
            line l = {.dtype = dtype};
            if (block_of(c->text) || c->bound == BOUND_ALWAYS)
                l = line_of(c, dtype);
            each_huge(bound_of, c, &l);
        }
}

/* ---- tlc_create -------------------------------------------------------------------------------------------------- */

typedef struct shape {
    int feedback, parallel;
    float *residual;
} shape;

/* The allocation has room for the scratch and, if the context owns it, for the residual. */
static void create_one(const codec_case *c, size_t n, void *arg)
{
    const shape *s = arg;
    tlc_config cfg = config(c->text, TLC_F32, TLC_ISA_AUTO);
    tlc_ctx *ctx = NULL;
    size_t need = 0, bound = 0, fixed = 0;

    cfg.alloc = no_allocator;
    cfg.feedback = s->feedback;
    cfg.residual = s->residual;
    cfg.checksum = 1;
    cfg.parallel = s->parallel ? runners[1].parallel : runners[0].parallel;
    refused_bytes = 0;
    tlc_status status = tlc_create(&ctx, &cfg, 0);
    require_status(status, TLC_ERR_NOMEM);
    fixed = refused_bytes;
    refused_bytes = 0;
    status = tlc_create(&ctx, &cfg, n);
    require(ctx == NULL && (status == TLC_ERR_SIZE || status == TLC_ERR_NOMEM));
    require((status == TLC_ERR_NOMEM) == (refused_bytes > 0));
    if (tlc_codec_bound(c->text, TLC_F32, n, &bound) || (s->feedback && n > SIZE_MAX / 4)) {
        require_status(status, TLC_ERR_SIZE); /* a residual of n floats is too large, whoever owns it */
        return;
    }
    if (status == TLC_ERR_SIZE)
        return;
    need = s->feedback && !s->residual ? 4 * n : 0;
    require(refused_bytes >= need && refused_bytes - need >= 8 * scratch_words(c, n));
    require(refused_bytes - need - 8 * scratch_words(c, n) >= fixed - 128); /* two alignments */
}

TEST(contexts)
{
    float residual[1] = {0};
    const shape shapes[] = {{0, 0, NULL}, {0, 1, NULL}, {1, 0, NULL}, {1, 1, NULL}, {1, 0, residual}, {1, 1, residual}};

    FOR_EACH_CODEC(c)
        for (size_t i = 0; i < COUNT(shapes); i++) {
            shape s = shapes[i];
            at = (place){.codec = c->text, .i = i};
            each_huge(create_one, c, &s);
        }
}

/* ---- what a context says ----------------------------------------------------------------------------------------- */

/* A context of a huge tensor is small if it keeps nothing for each value: here the caller owns the residual. */
TEST(states)
{
    float residual[1] = {0};
    uint8_t dst[64];
    size_t written = 77, made = 0;

    for (size_t less = 0; less < 40; less++) {
        const size_t n = SIZE_MAX / 4 - less, need = 4 * n, head = 32 + strlen("3lc") + 4;
        tlc_config cfg = config("3lc", TLC_F32, TLC_ISA_AUTO);
        tlc_ctx *ctx = NULL;
        at = (place){.codec = "3lc", .n = n};
        cfg.residual = residual;
        require_status(tlc_create(&ctx, &cfg, n), TLC_OK);
        size_t size = tlc_state_size(ctx);
        require(size == (need > SIZE_MAX - head ? SIZE_MAX : need + head));
        memset(dst, 0x3c, sizeof dst);
        require_status(tlc_state_save(ctx, dst, sizeof dst, &written), TLC_ERR_CAPACITY);
        require(written == 77 && all_bytes(dst, sizeof dst, 0x3c));
        require_status(tlc_set_codec(ctx, "raw"), TLC_ERR_CAPACITY); /* not reserved, or too large for any */
        require_status(tlc_set_codec(ctx, "ternary:block=1+quartic"), TLC_ERR_CAPACITY);
        made += size == SIZE_MAX;
        tlc_destroy(ctx);
    }
    require(made > 0 && made < 40);
}

TEST(stage_sizes)
{
    size_t size = 0;

    at = (place){.note = "stages alone"};
    require(tlc_quartic_size(SIZE_MAX) == SIZE_MAX / 5); /* which is a multiple of 5 */
    require(tlc_quartic_size(SIZE_MAX - 1) == SIZE_MAX / 5 && tlc_quartic_size(SIZE_MAX - 4) == SIZE_MAX / 5);
    require(tlc_quartic_size(SIZE_MAX - 5) == SIZE_MAX / 5 - 1);
    for (size_t i = 0; i < COUNT(quotients); i++)
        for (tlc_golomb_signs signs = TLC_GOLOMB_UNSIGNED; signs <= TLC_GOLOMB_SIGNED; signs++) {
            size_t n = SIZE_MAX / quotients[i], before = 0;
            at.n = n;
            for (size_t k = 0; k < n / 3; k = 3 * k + 1, before = size) {
                size = tlc_golomb_size(n, k, signs);
                require(size >= before && size > k / 8);
            }
            size = tlc_golomb_size(n, SIZE_MAX, signs);
            require(size >= before && size == tlc_golomb_size(n, n, signs));
        }
}
