/* SPDX-License-Identifier: MIT
 *
 * check_kernels: checks the kernels, or with --bench times them.
 */
#include "check.h"
#include <stdio.h>
#include <stdlib.h>

check_options check_opt = {.seed = 1};

static const struct {
    tlc_isa id;
    const char *name;
} isas[] = {{TLC_ISA_SCALAR, "scalar"}, {TLC_ISA_NEON, "neon"}, {TLC_ISA_AVX2, "avx2"}, {TLC_ISA_AVX512, "avx512"}};

enum { ISAS = sizeof isas / sizeof isas[0] };

static const char usage[] =
    "usage: check_kernels [option]...\n"
    "Checks every kernel of every supported ISA against the scalar one, and that the scalar one stays in its buffers.\n"
    "TAP on stdout; the exit status is 1 if a check fails or a kernel has none.\n"
    "  --quick           lengths to 130 and 4 alignments (for emulators); so does TLC_TEST_QUICK in the environment\n"
    "  --quicker         lengths to 70 and 2 alignments (for slow ones)\n"
    "  --exhaustive      f32_to_f16 and f32_to_bf16 on all 2^32 values\n"
    "  --isa NAME        scalar, neon, avx2 or avx512 alone\n"
    "  --kernel NAME     this kernel alone\n"
    "  --except NAME     all but this kernel\n"
    "  --data DIRECTORY  also check on the float32 .npy files in it\n"
    "  --seed N          of the random input; 1 if not given\n"
    "  --bench           time the kernels instead\n"
    "  --list            name the kernels and the supported ISAs\n"
    "  --help\n";

static int selected(const char *wanted, const char *name)
{
    return !wanted || strcmp(wanted, name) == 0;
}

static int kernel_selected(const char *name)
{
    return selected(check_opt.kernel, name) && !(check_opt.except && selected(check_opt.except, name));
}

/* The first kernel without a check, or KERNEL_COUNT. */
static kernel_id unchecked(void)
{
    for (kernel_id id = 0; id < KERNEL_COUNT; id++) {
        const check_kernel *kernel;
        size_t at = 0;

        while ((kernel = check_kernel_at(at)) && kernel->kernel != id)
            at++;
        if (!kernel)
            return id;
    }
    return KERNEL_COUNT;
}

/* The ISA whose function table i takes, if that function is checked in this run or is what it would be compared with;
 * else NULL. */
static const char *taken_from(const tlc_kernels *const *tables, const char *const *names, size_t i, kernel_id kernel)
{
    const tlc_kernels *scalar = tlc_kernels_for(TLC_ISA_SCALAR);

    if (tables[i] != scalar && same_kernel(tables[i], scalar, kernel))
        return "scalar";
    for (size_t k = 0; k < i; k++)
        if (same_kernel(tables[i], tables[k], kernel))
            return names[k];
    return NULL;
}

/* "# avx512 takes avx2's: zerorun_decode, ones" */
static void tell_taken(const tlc_kernels *const *tables, const char *const *names, size_t i)
{
    for (size_t isa = 0; isa < ISAS; isa++) {
        int some = 0;

        for (kernel_id id = 0; id < KERNEL_COUNT; id++) {
            const char *from = taken_from(tables, names, i, id);

            if (!from || strcmp(from, isas[isa].name) != 0)
                continue;
            if (some++)
                printf(", %s", kernel_names[id]);
            else
                printf("# %s takes %s's: %s", names[i], from, kernel_names[id]);
        }
        if (some)
            printf("\n");
    }
}

static int run_checks(const tlc_kernels *const *tables, const char *const *names, size_t count)
{
    unsigned kernels = 0, number = 0, failed = 0, skipped = 0;
    kernel_id missing = unchecked();
    const check_kernel *kernel;

    if (!count) {
        printf("1..0 # SKIP none of these ISAs is supported here\n");
        return 0;
    }

    for (size_t at = 0; (kernel = check_kernel_at(at)); at++)
        kernels += (unsigned)kernel_selected(kernel->name);
    /* cppcheck-suppress invalidPrintfArgType_uint ; made of unsigned numbers */
    printf("1..%u\n", 1 + kernels * (unsigned)count);
    if (missing < KERNEL_COUNT) {
        printf("# %s has none\n", kernel_names[missing]);
        failed++;
    }
    printf("%sok %u - every kernel has a check\n", failed ? "not " : "", ++number);
    for (size_t i = 0; i < count; i++) {
        const char *how = tables[i]->isa == TLC_ISA_SCALAR ? ": inputs and surroundings" : "";

        tell_taken(tables, names, i);
        for (size_t at = 0; (kernel = check_kernel_at(at)); at++) {
            const char *from = taken_from(tables, names, i, kernel->kernel);

            if (!kernel_selected(kernel->name))
                continue;
            if (from) {
                skipped++;
                printf("ok %u - %s %s # SKIP it is %s's\n", ++number, names[i], kernel->name, from);
                continue;
            }
            int ok = check_kernel_isa(kernel, tables[i], names[i]);
            failed += !ok;
            printf("%sok %u - %s %s%s\n", ok ? "" : "not ", ++number, names[i], kernel->name, how);
            fflush(stdout);
        }
    }
    printf("# %u passed, %u failed, %u skipped\n", number - failed - skipped, failed, skipped);
    return failed != 0;
}

static void list(const char *const *names, size_t count)
{
    const check_kernel *kernel;

    for (size_t at = 0; (kernel = check_kernel_at(at)); at++)
        printf("kernel %s\n", kernel->name);
    for (size_t i = 0; i < count; i++)
        printf("isa %s\n", names[i]);
}

static int known(const char *isa, const char *kernel)
{
    int known_isa = !isa, known_kernel = !kernel;
    const check_kernel *k;

    for (size_t i = 0; i < ISAS; i++)
        known_isa |= selected(isa, isas[i].name);
    for (size_t at = 0; (k = check_kernel_at(at)); at++)
        known_kernel |= selected(kernel, k->name);
    return known_isa && known_kernel;
}

/* Returns a mode ('c'heck, 'b'ench, 'l'ist, 'h'elp), or 0 for arguments that make no sense. */
static char parse(int argc, char **argv)
{
    char mode = 'c';

    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        const char **text = strcmp(argv[i], "--isa") == 0      ? &check_opt.isa
                            : strcmp(argv[i], "--kernel") == 0 ? &check_opt.kernel
                            : strcmp(argv[i], "--except") == 0 ? &check_opt.except
                            : strcmp(argv[i], "--data") == 0   ? &check_opt.data
                                                               : NULL;
        int seed = strcmp(argv[i], "--seed") == 0;

        if (text || seed) {
            if (!value)
                return 0;
            if (seed)
                check_opt.seed = strtoull(value, NULL, 0);
            else
                *text = value;
            i++;
        } else if (strcmp(argv[i], "--quick") == 0)
            check_opt.effort = QUICK;
        else if (strcmp(argv[i], "--quicker") == 0)
            check_opt.effort = QUICKER;
        else if (strcmp(argv[i], "--exhaustive") == 0)
            check_opt.exhaustive = 1;
        else if (strcmp(argv[i], "--bench") == 0 || strcmp(argv[i], "--list") == 0 || strcmp(argv[i], "--help") == 0)
            mode = argv[i][2];
        else
            return 0;
    }
    return known(check_opt.isa, check_opt.kernel) && known(NULL, check_opt.except) ? mode : 0;
}

int main(int argc, char **argv)
{
    const tlc_kernels *tables[ISAS];
    const char *names[ISAS];
    size_t count = 0;
    char mode;

    check_opt.effort = getenv("TLC_TEST_QUICK") ? QUICK : FULL;
    mode = parse(argc, argv);
    if (!mode || mode == 'h') {
        fputs(usage, mode ? stdout : stderr);
        return mode ? 0 : 2;
    }
    for (size_t i = 0; i < ISAS; i++) {
        const tlc_kernels *table = tlc_kernels_for(isas[i].id);

        if (!selected(check_opt.isa, isas[i].name) && !(mode == 'b' && isas[i].id == TLC_ISA_SCALAR))
            continue;
        if (!table)
            printf("# %s: not supported here, skipped\n", isas[i].name);
        else {
            names[count] = isas[i].name;
            tables[count++] = table;
        }
    }
    if (mode == 'l') {
        list(names, count);
        return 0;
    }
    rng_seed(check_opt.seed);
    inputs_init();
    if (mode == 'b') {
        check_bench(tables, names, count);
        return 0;
    }
    if (!inputs_load(check_opt.data))
        printf("# real values: no float32 .npy files, skipped (--data %s)\n",
               check_opt.data ? check_opt.data : "not given");
    check_begin();
    return run_checks(tables, names, count);
}
