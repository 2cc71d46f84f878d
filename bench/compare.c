/* SPDX-License-Identifier: MIT
 *
 * Compares the speed of two builds of the library in one process: compare OLD.so NEW.so [SECONDS A ROW]
 *
 * Each row is one operation on one codec and size. Both builds do it in turn, pinned to one core, on the same data; a
 * round is one measurement of each. It prints the median of new / old speed over all rounds (above 1: the new one is
 * faster). Both must make the same frames, and decode each other's. The last line has the geometric mean and the least.
 */
#include <dlfcn.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <threelc/threelc.h>

enum { ROUNDS_MAX = 4001, STEPS = 4 };

typedef struct build {
    tlc_status (*config_init)(tlc_config *cfg, size_t struct_size);
    tlc_status (*create)(tlc_ctx **out, const tlc_config *cfg, size_t n);
    void (*destroy)(tlc_ctx *ctx);
    size_t (*bound)(const tlc_ctx *ctx);
    tlc_status (*compress)(tlc_ctx *ctx, const void *grad, void *dst, size_t cap, size_t *written);
    tlc_status (*decompress)(const void *src, size_t len, tlc_dtype dtype, void *out, size_t n,
                             const tlc_decode_options *opt);
    tlc_status (*decompress_add)(const void *src, size_t len, float weight, float *sum, size_t n,
                                 const tlc_decode_options *opt);
} build;

static void *symbol(void *library, const char *name)
{
    void *found = dlsym(library, name);

    if (!found) {
        fprintf(stderr, "compare: %s\n", dlerror());
        exit(1);
    }
    return found;
}

static build load(const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    build b = {0};

    if (!library) {
        fprintf(stderr, "compare: %s\n", dlerror());
        exit(1);
    }
    *(void **)&b.config_init = symbol(library, "tlc_config_init");
    *(void **)&b.create = symbol(library, "tlc_create");
    *(void **)&b.destroy = symbol(library, "tlc_destroy");
    *(void **)&b.bound = symbol(library, "tlc_bound");
    *(void **)&b.compress = symbol(library, "tlc_compress");
    *(void **)&b.decompress = symbol(library, "tlc_decompress");
    *(void **)&b.decompress_add = symbol(library, "tlc_decompress_add");
    return b;
}

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void require(int condition, const char *what)
{
    if (condition)
        return;
    fprintf(stderr, "compare: %s\n", what);
    exit(1);
}

/* Laplace gradients of a few steps, one after the other. */
static float *gradients(size_t n)
{
    float *x = malloc((n * STEPS + 1) * sizeof *x);
    unsigned long long state = 12345;

    require(x != NULL, "out of memory");
    for (size_t i = 0; i < n * STEPS; i++) {
        state = state * 6364136223846793005ull + 1442695040888963407ull;
        double u = ((double)(state >> 11) + 0.5) * 0x1p-53 - 0.5;
        x[i] = (float)(u < 0 ? log1p(2 * u) : -log1p(-2 * u)) * 1e-3f;
    }
    return x;
}

typedef struct side {
    build b;
    tlc_ctx *ctx;
    unsigned char *frame;
    size_t cap, len;
    float *out, *sum; /* with SLACK floats more */
    size_t shift;     /* floats: where in them the values begin */
} side;

enum { SLACK = 1024, SHIFT = 80 };

typedef enum operation { COMPRESS, DECOMPRESS, ADD, OPERATIONS } operation;
static const char *const operation_name[] = {"compress", "decompress", "add"};

static double run(side *s, operation op, const float *grad, size_t n, size_t repeat, size_t *step)
{
    double start = now();

    for (size_t i = 0; i < repeat; i++) {
        tlc_status status = TLC_OK;
        switch (op) {
        case COMPRESS: status = s->b.compress(s->ctx, grad + (*step)++ % STEPS * n, s->frame, s->cap, &s->len); break;
        case DECOMPRESS: status = s->b.decompress(s->frame, s->len, TLC_F32, s->out + s->shift, n, NULL); break;
        default: status = s->b.decompress_add(s->frame, s->len, 0.5f, s->sum + s->shift, n, NULL); break;
        }
        require(status == TLC_OK, "a call has failed");
    }
    return now() - start;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double compare(side s[2], operation op, const float *grad, size_t n, double seconds)
{
    static double ratio[ROUNDS_MAX];
    size_t steps[2] = {0, 0}, repeat = 1, rounds = 0;
    double begin = now();

    while (run(&s[0], op, grad, n, repeat, &steps[0]) < 50e-6)
        repeat *= 2;
    (void)run(&s[1], op, grad, n, repeat, &steps[1]);
    while (rounds < ROUNDS_MAX && (rounds < 5 || now() - begin < seconds)) {
        double t[2];
        s[0].shift = s[1].shift = rounds * SHIFT % SLACK; /* how arrays lie to each other within pages matters */
        for (unsigned i = 0; i < 2; i++) {
            unsigned which = (unsigned)(i ^ (rounds & 1));
            t[which] = run(&s[which], op, grad, n, repeat, &steps[which]);
        }
        ratio[rounds++] = t[0] / t[1];
    }
    qsort(ratio, rounds, sizeof *ratio, by_size);
    return ratio[rounds / 2];
}

static void check_same(side s[2], const float *grad, size_t n)
{
    for (size_t step = 0; step < STEPS; step++) {
        for (int i = 0; i < 2; i++)
            require(!s[i].b.compress(s[i].ctx, grad + step * n, s[i].frame, s[i].cap, &s[i].len),
                    "compress has failed");
        require(s[0].len == s[1].len && !memcmp(s[0].frame, s[1].frame, s[0].len), "frames differ");
        for (int i = 0; i < 2; i++)
            require(!s[i].b.decompress(s[!i].frame, s[!i].len, TLC_F32, s[i].out, n, NULL), "decompress has failed");
        require(!memcmp(s[0].out, s[1].out, n * sizeof(float)), "decoded values differ");
    }
}

static tlc_ctx *create(const build *b, const char *codec, float *residual, size_t n)
{
    tlc_config cfg;
    tlc_ctx *ctx = NULL;

    require(!b->config_init(&cfg, sizeof cfg), "config_init has failed");
    cfg.codec = codec;
    cfg.residual = residual;
    if (b->create(&ctx, &cfg, n)) { /* a codec without error feedback takes no residual */
        cfg.residual = NULL;
        require(!b->create(&ctx, &cfg, n), "create has failed");
    }
    return ctx;
}

static void *aligned(size_t size)
{
    void *p = aligned_alloc(4096, (size + 4095) / 4096 * 4096);

    require(p != NULL, "out of memory");
    memset(p, 0, size);
    return p;
}

/* Both builds work in the same memory, one after the other: pages that lie well for one lie well for the other. */
static void row(const build b[2], const char *codec, size_t n, double seconds, double *log_sum, double *least,
                int *rows)
{
    float *grad = gradients(n), *residual = aligned(n * sizeof(float));
    side s[2];

    for (int i = 0; i < 2; i++) {
        s[i].b = b[i];
        s[i].ctx = create(&b[i], codec, NULL, n);
        s[i].cap = b[i].bound(s[i].ctx);
        s[i].frame = aligned(s[i].cap);
        s[i].out = aligned((n + SLACK) * sizeof(float));
        s[i].shift = 0;
    }
    check_same(s, grad, n);
    free(s[1].frame);
    free(s[1].out);
    s[1].frame = s[0].frame;
    s[1].out = s[0].out;
    s[0].sum = s[1].sum = aligned((n + SLACK) * sizeof(float));
    for (int i = 0; i < 2; i++) {
        b[i].destroy(s[i].ctx);
        s[i].ctx = create(&b[i], codec, residual, n);
    }
    printf("%-36s %9zu", codec, n);
    for (operation op = COMPRESS; op < OPERATIONS; op++) {
        double ratio = compare(s, op, grad, n, seconds);
        if (op == COMPRESS) { /* one frame, which both decode */
            require(!s[0].b.compress(s[0].ctx, grad, s[0].frame, s[0].cap, &s[0].len), "compress has failed");
            s[1].len = s[0].len;
        }
        printf("  %s %.3f", operation_name[op], ratio);
        *log_sum += log(ratio);
        *least = ratio < *least ? ratio : *least;
        ++*rows;
    }
    printf("\n");
    fflush(stdout);
    for (int i = 0; i < 2; i++)
        b[i].destroy(s[i].ctx);
    free(s[0].frame);
    free(s[0].out);
    free(s[0].sum);
    free(residual);
    free(grad);
}

int main(int argc, char **argv)
{
    static const size_t sizes[] = {64, 4096, 65536, 1 << 20, 1 << 24};
    static const char *const codecs[] = {
        "3lc:s=1.75",
        "3lc-golomb",
        "ternary+quartic",
        "sbc",
        "sbc:p=0.001",
        "stochastic-ternary+quartic",
        "stochastic-ternary+quartic+zerorun",
        "stochastic-ternary+golomb",
        "natural",
        "natural:rounding=nearest",
        "natural:bits=9",
        "int8",
        "qsgd",
        "qsgd:bits=4",
        "onebit",
        "topk",
        "random-sparse",
        "raw",
        "3lc:block=65536",
    };
    cpu_set_t one;
    double log_sum = 0, least = 1e9, seconds = 0.3;
    char *end = "";
    int rows = 0;

    if (argc > 3)
        seconds = strtod(argv[3], &end);
    if (argc < 3 || argc > 4 || *end || !(seconds > 0)) {
        fprintf(stderr, "usage: compare OLD.so NEW.so [SECONDS A ROW]\n");
        return 2;
    }
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    (void)sched_setaffinity(0, sizeof one, &one);
    const build b[2] = {load(argv[1]), load(argv[2])};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        row(b, "3lc", sizes[i], seconds, &log_sum, &least, &rows);
    for (size_t i = 0; i < sizeof codecs / sizeof *codecs; i++)
        row(b, codecs[i], 1 << 20, seconds, &log_sum, &least, &rows);
    printf("geometric mean %.3f, least %.3f, %d rows\n", exp(log_sum / rows), least, rows);
    return 0;
}
