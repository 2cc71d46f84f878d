/* SPDX-License-Identifier: MIT */
#include "support.h"
#include <dirent.h>
#include <math.h>

#define CODEC(string, form, golden, ...) {string, form, __VA_ARGS__},
const codec_case codecs[] = {
#include "../codecs.def"
};
const size_t codec_count = COUNT(codecs);

const tlc_dtype dtypes[3] = {TLC_F32, TLC_F16, TLC_BF16};
const char *const dtype_name[11] = {"f32", "f16", "bf16", "f8_e4m3", "f8_e5m2", "f4_e2m1",
                                    "u8",  "u4",  "i32",  "i64",     "f64"};
const size_t dtype_size[3] = {4, 2, 2};

const codec_case *codec_by_form(const char *form)
{
    const size_t len = strcspn(form, ":+");

    FOR_EACH_CODEC(c)
        if (strcspn(c->decoding, ":+") == len && !strncmp(c->decoding, form, len))
            return c;
    return NULL;
}

size_t block_of(const char *text)
{
    const char *block = strstr(text, "block=");
    return block ? (size_t)strtoull(block + 6, NULL, 10) : 0;
}

size_t header_scalars(const tlc_frame_info *info, const uint8_t *frame, float scalars[2])
{
    static const char *const forms[] = {"ternary", "stochastic-ternary", "sparse-binary", "int8", "qsgd", "topk:bits=1",
                                        "onebit",  "topk:bits=2"}; /* from onebit on: 2 */
    const uint8_t *end = frame + info->header_size;
    size_t count = 0;

    for (size_t i = 0; info->n && !info->block && i < COUNT(forms); i++)
        if (strncmp(info->codec, forms[i], strlen(forms[i])) == 0)
            count = i < 6 ? 1 : 2;
    for (size_t i = 0; i < count; i++) {
        const uint8_t *p = end - 4 * (count - i);
        scalars[i] = bits_float((uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24);
    }
    return count;
}

size_t scratch_words(const codec_case *c, size_t n)
{
    size_t block = block_of(c->text), unit = block && block < n ? block : n;
    return (unit + 63) / 64 * c->scratch;
}

const char *reserve_all(void)
{
    static char text[4096];

    if (*text)
        return text;
    strcpy(text, "raw:block=1");
    FOR_EACH_CODEC(c)
        if (strlen(text) + strlen(c->text) + 2 <= sizeof text)
            strcat(strcat(text, ";"), c->text);
        else
            fail_msg("the list of codecs is too long");
    return text;
}

tlc_isa missing_isa(void)
{
    for (tlc_isa isa = TLC_ISA_SCALAR; isa <= TLC_ISA_NEON; isa++)
        if (!tlc_isa_supported(isa))
            return isa;
    return TLC_ISA_AUTO;
}

int quick(void)
{
    const char *set = getenv("TLC_TEST_QUICK");
    return set && *set && strcmp(set, "0") != 0;
}

/* ---- contexts ---------------------------------------------------------------------------------------------------- */

tlc_config config(const char *codec, tlc_dtype dtype, tlc_isa isa)
{
    tlc_config cfg;

    require_status(tlc_config_init(&cfg, sizeof cfg), TLC_OK);
    cfg.codec = codec;
    cfg.dtype = dtype;
    cfg.isa = isa;
    return cfg;
}

tlc_ctx *create(const tlc_config *cfg, size_t n)
{
    tlc_ctx *ctx = NULL;

    require_status(tlc_create(&ctx, cfg, n), TLC_OK);
    require(ctx != NULL);
    return ctx;
}

size_t compress(tlc_ctx *ctx, const void *grad, void *dst)
{
    size_t written = SIZE_MAX;

    require_status(tlc_compress(ctx, grad, dst, tlc_bound(ctx), &written), TLC_OK);
    require(written <= tlc_bound(ctx));
    return written;
}

size_t refused_times, refused_bytes;

static void *no_memory(void *opaque, size_t size)
{
    (void)opaque;
    refused_times++;
    refused_bytes = size;
    return NULL;
}

static void no_free(void *opaque, void *p)
{
    (void)opaque;
    (void)p;
}

const tlc_allocator no_allocator = {.alloc = no_memory, .free = no_free};

snapshot snap(const tlc_ctx *ctx)
{
    snapshot s = {NULL, tlc_state_size(ctx), tlc_bound(ctx)};
    size_t written = 0;

    require(s.size < SIZE_MAX); /* there is a state that can be saved */
    s.state = bytes(s.size);
    require_status(tlc_state_save(ctx, s.state, s.size, &written), TLC_OK);
    require(written == s.size);
    return s;
}

void require_same_state(const tlc_ctx *ctx, const snapshot *before)
{
    snapshot now = snap(ctx);

    require(now.size == before->size && same(now.state, before->state, now.size));
    require(now.bound == before->bound);
    snap_free(&now);
}

void snap_free(snapshot *s)
{
    free(s->state);
    s->state = NULL;
}

/* ---- data -------------------------------------------------------------------------------------------------------- */

uint64_t rng_next(rng *r)
{
    uint64_t z = r->state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

size_t rng_below(rng *r, size_t n)
{
    return (size_t)(rng_next(r) % n);
}

double rng_double(rng *r)
{
    return ((double)(rng_next(r) >> 12) + 0.5) / 4503599627370496.0; /* 2^52 */
}

/* By a table of quantiles of the exponential distribution, with straight lines between them: it is fast. */
static float laplace(rng *r)
{
    static float quantile[1025];
    uint64_t bits = rng_next(r);
    size_t i = (size_t)(bits >> 54);

    if (quantile[1024] == 0.0f)
        for (size_t k = 0; k <= 1024; k++)
            quantile[k] = (float)(0.01 * log(1024.5 / (1024.5 - (double)k)));
    float x = quantile[i] + (quantile[i + 1] - quantile[i]) * ((float)(bits >> 30 & 0xffffff) / 16777216.0f);
    return bits & 1 ? x : -x;
}

static float signed_value(rng *r, double magnitude)
{
    return (float)(rng_next(r) & 1 ? magnitude : -magnitude);
}

/* What is left of a stretch of zeros and of the values after it. */
typedef struct stretches {
    size_t zeros, values;
} stretches;

static float sparse_value(rng *r, stretches *s)
{
    if (s->zeros) {
        s->zeros--;
        return 0.0f;
    }
    if (s->values) {
        s->values--;
        return laplace(r);
    }
    s->zeros = rng_below(r, (size_t)1 << rng_below(r, 14));
    s->values = rng_below(r, 30);
    return 0.0f;
}

static float tie(rng *r)
{
    static const float values[] = {0.0f, 0.25f, 1.0f, 1.0f, 1.5f, 1.5f, 3.0f, 1e-20f};
    return values[rng_below(r, COUNT(values))] * (rng_next(r) & 1 ? 1.0f : -1.0f);
}

/* Any mantissa; magnitudes below 2^-126 are subnormal. */
static float wide(rng *r)
{
    uint32_t exponent = (uint32_t)rng_below(r, 127 + 90), mantissa = (uint32_t)rng_next(r) & 0x7fffffu;

    if (!exponent)
        mantissa >>= rng_below(r, 23);
    return bits_float((uint32_t)(rng_next(r) & 0x80000000u) | exponent << 23 | mantissa);
}

void fill(data_kind kind, uint64_t seed, float *x, size_t n)
{
    rng r = {seed * 8 + (uint64_t)kind};
    stretches s = {rng_below(&r, 90), 0};

    for (size_t i = 0; i < n; i++)
        switch (kind) {
        case DATA_LAPLACE: x[i] = laplace(&r); break;
        case DATA_SPARSE: x[i] = sparse_value(&r, &s); break;
        case DATA_DENSE: x[i] = signed_value(&r, 0.95 + 0.05 * rng_double(&r)); break;
        case DATA_TINY: x[i] = bits_float((uint32_t)(rng_next(&r) & 0x803fffffu)); break;
        case DATA_POSITIVE: x[i] = fabsf(laplace(&r)); break;
        case DATA_NEGATIVE: x[i] = -fabsf(laplace(&r)); break;
        case DATA_TIES: x[i] = tie(&r); break;
        case DATA_WIDE: x[i] = wide(&r); break;
        default: x[i] = 0.0f; break;
        }
}

void fill_grad(data_kind kind, uint64_t seed, tlc_dtype dtype, void *grad, size_t n)
{
    float *x = floats(n);

    fill(kind, seed, x, n);
    for (size_t i = 0; dtype == TLC_F16 && i < n; i++) /* so that sums are finite */
        x[i] = fminf(fmaxf(x[i], -1000.0f), 1000.0f);
    require_status(tlc_convert(TLC_F32, x, dtype, grad, n), TLC_OK);
    free(x);
}

uint8_t *bytes(size_t n)
{
    uint8_t *p = malloc(n ? n : 1);

    if (!p)
        fail_msg("no memory for the test");
    return p;
}

float *floats(size_t n)
{
    return (float *)(void *)bytes(n * sizeof(float));
}

int is_shortened(const char *part, size_t cap, const char *whole)
{
    const char *list = NULL;
    size_t len = strlen(whole);

    for (const char *p = strstr(whole, "; there are "); p; p = strstr(p + 1, "; there are "))
        list = p;
    if (len >= cap && list)
        len = (size_t)(list - whole);
    const size_t kept = len < cap ? len : cap > 3 ? cap - 4 : cap - 1;
    return !memcmp(part, whole, kept) && !strcmp(part + kept, len < cap || cap <= 3 ? "" : "...");
}

int all_bytes(const void *p, size_t len, uint8_t value)
{
    const uint8_t *b = p;
    return !len || (*b == value && memcmp(b, b + 1, len - 1) == 0); /* each byte equals the one before it */
}

int same(const void *a, const void *b, size_t len)
{
    /* NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker) */
    return !len || memcmp(a, b, len) == 0;
}

float bits_float(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

uint32_t float_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

uint32_t widened(tlc_dtype dtype, const void *src, size_t i)
{
    uint32_t word;
    uint16_t half;

    if (dtype == TLC_F32) {
        memcpy(&word, (const uint8_t *)src + 4 * i, sizeof word);
        return word;
    }
    memcpy(&half, (const uint8_t *)src + 2 * i, sizeof half);
    if (dtype == TLC_BF16)
        word = (uint32_t)half << 16;
    else {
        uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 31, mantissa = half & 0x3ff;
        if (exponent == 0)
            word = sign | float_bits((float)mantissa / 16777216.0f); /* times 2^-24, exact */
        else if (exponent == 31)
            word = sign | 0x7f800000u | mantissa << 13;
        else
            word = sign | (exponent + 112) << 23 | mantissa << 13;
    }
    if ((word & 0x7fffffffu) > 0x7f800000u)
        word |= 0x00400000u; /* a change of dtype makes NaN quiet */
    return word;
}

void widen(tlc_dtype dtype, const void *src, float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = bits_float(widened(dtype, src, i));
}

/* ---- traces ------------------------------------------------------------------------------------------------------ */

/* Version 1 files of C-ordered little-endian float32, one or two dimensions. */
static float *npy_load(const char *path, size_t *rows, size_t *cols)
{
    FILE *f = fopen(path, "rb");
    uint8_t head[10];
    char text[1024];
    unsigned long a = 0, b = 0;

    if (!f || fread(head, 1, 10, f) != 10 || memcmp(head, "\x93NUMPY\1", 7) != 0)
        fail_msg("cannot read %s", path);
    /* NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult) */
    size_t len = head[8] | (size_t)head[9] << 8;
    if (len >= sizeof text || fread(text, 1, len, f) != len)
        fail_msg("cannot read %s", path);
    text[len] = 0;
    const char *shape = strstr(text, "'shape': (");
    /* NOLINTNEXTLINE(cert-err34-c): the size is that of the file's data, or reading fails */
    int dims = shape ? sscanf(shape + 10, "%lu, %lu", &a, &b) : 0;
    if (dims < 1 || !strstr(text, "'<f4'") || strstr(text, "True"))
        fail_msg("%s: not what this test reads", path);
    *rows = dims == 2 ? a : 1;
    *cols = dims == 2 ? b : a;
    uint8_t *p = bytes(*rows * *cols * 4);
    if (fread(p, 4, *rows * *cols, f) != *rows * *cols)
        fail_msg("%s: too short", path);
    fclose(f);
    for (size_t i = 0; i < *rows * *cols; i++) {
        uint32_t word = 0;
        for (size_t k = 4; k-- > 0;)
            word = word << 8 | p[4 * i + k];
        memcpy(p + 4 * i, &word, 4);
    }
    return (float *)(void *)p;
}

static int ends_with(const char *text, const char *end)
{
    size_t len = strlen(text), tail = strlen(end);

    return len > tail && strcmp(text + len - tail, end) == 0;
}

/* path: that of the gradients, without .npy. */
static void load_trace(const char *path, const char *name, void (*test)(const trace *t))
{
    char file[4096];
    const char *folder_s = strstr(name, "-s");
    size_t rows, cols;
    trace t = {.name = name, .s = folder_s ? strtod(folder_s + 2, NULL) : 0};

    snprintf(file, sizeof file, "%.4000s.npy", path);
    float *values = npy_load(file, &t.rows, &t.cols);
    snprintf(file, sizeof file, "%.4000s.residual.npy", path);
    float *residual = npy_load(file, &rows, &cols);
    if (rows != 1 || cols != t.cols || t.s < 1)
        fail_msg("%s: not the residual of a run", file);
    t.values = values;
    t.residual = residual;
    test(&t);
    free(values);
    free(residual);
}

static size_t each_trace_of(const char *data, const char *folder, void (*test)(const trace *t))
{
    char path[4096], name[512];
    size_t count = 0;
    DIR *dir;

    snprintf(path, sizeof path, "%.2000s/%.255s", data, folder);
    dir = opendir(path);
    for (const struct dirent *e; dir && (e = readdir(dir));) {
        if (!ends_with(e->d_name, ".npy") || ends_with(e->d_name, ".residual.npy"))
            continue;
        int stem = (int)strlen(e->d_name) - 4;
        snprintf(name, sizeof name, "%.255s/%.*s", folder, stem < 250 ? stem : 250, e->d_name);
        snprintf(path, sizeof path, "%.2000s/%s", data, name);
        load_trace(path, name, test);
        count++;
    }
    if (dir)
        closedir(dir);
    return count;
}

size_t each_trace(void (*test)(const trace *t))
{
    const char *data = getenv("TLC_TEST_DATA");
    DIR *dir = data ? opendir(data) : NULL;
    size_t count = 0;

    for (const struct dirent *e; dir && (e = readdir(dir));)
        count += e->d_name[0] == '.' ? 0 : each_trace_of(data, e->d_name, test);
    if (dir)
        closedir(dir);
    return count;
}

/* ---- guarded buffers --------------------------------------------------------------------------------------------- */

enum { MARGIN = 64, MARGIN_BYTE = 0xc7 };

void arena_open(arena *a, size_t size)
{
    if (guard_alloc(&a->pages, size + MARGIN))
        fail_msg("no memory for the test");
    a->given = NULL;
    a->given_size = 0;
}

void arena_close(arena *a)
{
    guard_free(&a->pages);
}

uint8_t *arena_take(arena *a, size_t size, int end)
{
    if (size + MARGIN > (size_t)(a->pages.end - a->pages.start))
        fail_msg("the test's arena is too small");
    a->given = end ? guard_at_end(&a->pages, size) : a->pages.start;
    a->given_size = size;
    memset(end ? a->given - MARGIN : a->given + size, MARGIN_BYTE, MARGIN);
    return a->given;
}

uint8_t *arena_copy(arena *a, const void *src, size_t size, int end)
{
    uint8_t *p = arena_take(a, size, end);

    if (size)
        memcpy(p, src, size);
    return p;
}

int arena_intact(const arena *a)
{
    const uint8_t *margin = a->given == a->pages.start ? a->given + a->given_size : a->given - MARGIN;
    return all_bytes(margin, MARGIN, MARGIN_BYTE);
}

void arena_readonly(arena *a, int on)
{
    if (guard_readonly(&a->pages, on))
        fail_msg("the pages cannot be protected");
}
