/* SPDX-License-Identifier: MIT
 *
 * The speeds of the kernels, from the same descriptions: for each size, the median over many turns. memcpy and the
 * kernel of every ISA take turns, so that a busy machine slows all of them alike.
 */
#include "check.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { ROUNDS = 15, MOST_TIMED = 6, ALIGN = 64, MOST_SLOW = 256 };
#define ROUND_NS 60e3 /* a turn lasts at least this long: the clock costs nothing beside it */

typedef struct arena { /* the streams of an operand follow one another, as the partitions of a tensor do */
    uint8_t *map, *at;
} arena;

static arena arenas[CHECK_OPERANDS + 1];

/* A lower speed than this is more than the noise of a shared machine. */
#define SLOWER 0.97
static struct {
    const char *kernel, *isa;
    size_t values;
    double ratio;
} slow[MOST_SLOW];
static size_t slow_count;

static void arenas_alloc(size_t values)
{
    for (size_t i = 0; i <= CHECK_OPERANDS; i++) {
        arenas[i].map = calloc((values + CHECK_EXTRA) * sizeof(float) + ALIGN, 1);
        if (!arenas[i].map) {
            fputs("check_kernels: out of memory\n", stderr);
            exit(2);
        }
        arenas[i].at = arenas[i].map + (ALIGN - (uintptr_t)arenas[i].map % ALIGN);
    }
}

static unsigned streams_of(const check_kernel *kernel)
{
    unsigned streams = 1;

    for (size_t i = 0; i < CHECK_OPERANDS; i++)
        streams = kernel->operand[i].streams > streams ? kernel->operand[i].streams : streams;
    return streams;
}

static void arrange(const check_kernel *kernel, check_args *a)
{
    size_t slot = 0;

    for (size_t i = 0; i < CHECK_OPERANDS && kernel->operand[i].type; i++)
        for (size_t stream = 0; stream < kernel->operand[i].streams; stream++) {
            a->size[slot] = type_bytes(kernel->operand[i].type, a->n);
            a->p[slot] = arenas[i].at + stream * a->size[slot];
            slot++;
        }
    kernel->fill(a, KIND_BENCH);
}

static double now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* One turn of `calls` calls, in ns a call; tables NULL: memcpy of `bytes`. */
static double turn(const check_kernel *kernel, const tlc_kernels *tables, const check_args *a, size_t bytes,
                   size_t calls)
{
    double start = now_ns();

    for (size_t i = 0; i < calls; i++) {
        if (tables)
            kernel->call(tables, a);
        else
            memcpy(arenas[CHECK_OPERANDS].at, arenas[0].at, bytes);
        __asm__ __volatile__("" : : : "memory");
    }
    return (now_ns() - start) / (double)calls;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void bench_size(const check_kernel *kernel, const tlc_kernels *const *tables, const char *const *names,
                       size_t count, size_t values)
{
    double ns[MOST_TIMED][ROUNDS], scalar = 0;
    size_t calls[MOST_TIMED], bytes;
    check_args a = {.n = values / streams_of(kernel)};

    bytes = a.n * streams_of(kernel) * (kernel->flags & BYTE_SIDE ? 1 : sizeof(float));
    arrange(kernel, &a);
    for (size_t i = 0; i <= count; i++) {
        double once = turn(kernel, i ? tables[i - 1] : NULL, &a, bytes, 2);
        calls[i] = once < ROUND_NS ? (size_t)(ROUND_NS / (once + 1)) + 1 : 1;
    }
    for (size_t round = 0; round < ROUNDS; round++)
        for (size_t i = 0; i <= count; i++)
            ns[i][round] = turn(kernel, i ? tables[i - 1] : NULL, &a, bytes, calls[i]);
    for (size_t i = 0; i <= count; i++) {
        qsort(ns[i], ROUNDS, sizeof ns[i][0], by_value);
        double median = ns[i][ROUNDS / 2];

        if (i == 0)
            continue;
        scalar = tables[i - 1]->isa == TLC_ISA_SCALAR ? median : scalar;
        printf("%-24s %8zu  %-8s %8.2f %8.3f %8.2f\n", kernel->name, values, names[i - 1], (double)bytes / median,
               ns[0][ROUNDS / 2] / median, scalar / median);
        if (scalar / median < SLOWER && slow_count < MOST_SLOW) {
            slow[slow_count].kernel = kernel->name;
            slow[slow_count].isa = names[i - 1];
            slow[slow_count].values = values;
            slow[slow_count++].ratio = scalar / median;
        }
    }
    fflush(stdout);
}

void check_bench(const tlc_kernels *const *tables, const char *const *names, size_t count)
{
    static const size_t sizes[] = {64, 4096, 65536, 1048576};
    const check_kernel *kernel;

    arenas_alloc(sizes[3]);
    printf("GB/s of the float32 side (zerorun, bytes_max: of the plain bytes), against a memcpy of as many bytes\n");
    printf("%-24s %8s  %-8s %8s %8s %8s\n", "kernel", "values", "isa", "GB/s", "/memcpy", "/scalar");
    for (size_t at = 0; (kernel = check_kernel_at(at)); at++)
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
            if (!check_opt.kernel || strcmp(check_opt.kernel, kernel->name) == 0)
                bench_size(kernel, tables, names, count, sizes[i]);
    for (size_t i = 0; i < slow_count; i++)
        printf("SLOWER THAN SCALAR: %s %s at %zu values, %.2fx\n", slow[i].isa, slow[i].kernel, slow[i].values,
               slow[i].ratio);
    if (!slow_count)
        printf("none is slower than scalar\n");
    for (size_t i = 0; i <= CHECK_OPERANDS; i++)
        free(arenas[i].map);
}
