/* SPDX-License-Identifier: MIT
 *
 * count_kernels: runs each kernel, and whole calls of 3lc, between two getppid(), for tests/count_plugin.c to count
 * their instructions. Writes a line for each: "NAME COUNT UNIT ISA". The first is of nothing at all.
 */
#include "check.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { KERNEL_VALUES = 65536, WARM_UP = 50, GRADIENTS = 4 };

check_options check_opt; /* for check_list.c */

static const tlc_isa isas[] = {TLC_ISA_SCALAR, TLC_ISA_NEON};

static void *allocate(size_t size)
{
    void *bytes = calloc(1, size);

    if (!bytes) {
        fputs("count_kernels: out of memory\n", stderr);
        exit(2);
    }
    return bytes;
}

static void require(tlc_status status)
{
    if (!status)
        return;
    fprintf(stderr, "count_kernels: %s\n", tlc_status_string(status));
    exit(2);
}

static void counted(const char *name, size_t count, const char *unit, tlc_isa isa)
{
    printf("%s %zu %s %s\n", name, count, unit, tlc_isa_name(isa));
}

/* ---- kernels ----------------------------------------------------------------------------------------------------- */

static unsigned streams_of(const check_kernel *kernel)
{
    unsigned streams = 1;

    for (size_t i = 0; i < CHECK_OPERANDS; i++)
        streams = kernel->operand[i].streams > streams ? kernel->operand[i].streams : streams;
    return streams;
}

static void count_kernel(const check_kernel *kernel, tlc_isa isa)
{
    const tlc_kernels *table = tlc_kernels_for(isa);
    check_args a = {.n = KERNEL_VALUES / streams_of(kernel)};
    size_t slots = 0;

    rng_seed(1); /* the same input for every ISA */
    for (size_t i = 0; i < CHECK_OPERANDS && kernel->operand[i].type; i++)
        for (size_t stream = 0; stream < kernel->operand[i].streams; stream++) {
            a.size[slots] = type_bytes(kernel->operand[i].type, a.n);
            a.p[slots++] = allocate((a.n + CHECK_EXTRA) * sizeof(float));
        }
    kernel->fill(&a, KIND_BENCH);
    getppid();
    kernel->call(table, &a);
    getppid();
    counted(kernel->name, a.n * streams_of(kernel), kernel->flags & BYTE_SIDE ? "bytes" : "values", isa);
    while (slots)
        free(a.p[--slots]);
}

/* ---- whole calls ------------------------------------------------------------------------------------------------- */

typedef struct call {
    tlc_ctx *ctx;
    float *g[GRADIENTS], *out;
    void *frame;
    size_t cap, len;
    tlc_decode_options decode;
} call;

static void compress(call *c, size_t step)
{
    require(tlc_compress(c->ctx, c->g[step % GRADIENTS], c->frame, c->cap, &c->len));
}

/* s = 1, the residual carried, Laplace: what tlc-bench measures. */
static void count_calls(size_t n, tlc_isa isa)
{
    call c = {.decode = {.struct_size = sizeof c.decode, .isa = isa}};
    tlc_config cfg;
    float M;

    require(tlc_config_init(&cfg, sizeof cfg));
    cfg.isa = isa;
    require(tlc_create(&c.ctx, &cfg, n));
    c.cap = tlc_bound(c.ctx);
    c.frame = allocate(c.cap);
    c.out = allocate(n * sizeof(float));
    rng_seed(1);
    for (size_t i = 0; i < GRADIENTS; i++) {
        c.g[i] = allocate(n * sizeof(float));
        floats_begin(KIND_BENCH, &M);
        floats_fill((uint32_t *)c.g[i], NULL, n);
    }
    for (size_t step = 0; step < WARM_UP; step++)
        compress(&c, step);

    getppid();
    compress(&c, WARM_UP);
    getppid();
    counted("tlc_compress", n, "values", isa);
    getppid();
    require(tlc_decompress(c.frame, c.len, TLC_F32, c.out, n, &c.decode));
    getppid();
    counted("tlc_decompress", n, "values", isa);
    getppid();
    require(tlc_decompress_add(c.frame, c.len, 1.0f, c.out, n, &c.decode));
    getppid();
    counted("tlc_decompress_add", n, "values", isa);

    tlc_destroy(c.ctx);
    for (size_t i = 0; i < GRADIENTS; i++)
        free(c.g[i]);
    free(c.out);
    free(c.frame);
}

int main(void)
{
    static const size_t sizes[] = {65536, 1048576};
    enum { ISAS = sizeof isas / sizeof isas[0] };
    const check_kernel *kernel;

    getppid();
    getppid();
    counted("nothing", 0, "values", TLC_ISA_AUTO);
    inputs_init();
    for (size_t at = 0; (kernel = check_kernel_at(at)); at++)
        for (size_t i = 0; i < ISAS; i++)
            count_kernel(kernel, isas[i]);
    for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++)
        for (size_t i = 0; i < ISAS; i++)
            count_calls(sizes[k], isas[i]);
    return ferror(stdout) || fclose(stdout) ? 2 : 0;
}
