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
    "Checks every kernel of every supported ISA against the scalar one; TAP on stdout, exit status 1 if one differs.\n"
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

static int run_checks(const tlc_kernels *const *tables, const char *const *names, size_t count)
{
    unsigned kernels = 0, number = 0, failed = 0;
    const check_kernel *kernel;

    for (size_t at = 0; (kernel = check_kernel_at(at)); at++)
        kernels += (unsigned)kernel_selected(kernel->name);
    /* cppcheck-suppress invalidPrintfArgType_uint ; a product of two unsigned */
    printf("1..%u%s\n", kernels * (unsigned)count, count ? "" : " # SKIP none of these ISAs is supported here");
    for (size_t i = 0; i < count; i++)
        for (size_t at = 0; (kernel = check_kernel_at(at)); at++) {
            if (!kernel_selected(kernel->name))
                continue;
            int ok = check_kernel_isa(kernel, tables[i], names[i]);
            failed += !ok;
            printf("%sok %u - %s %s\n", ok ? "" : "not ", ++number, names[i], kernel->name);
            fflush(stdout);
        }
    printf("# %u passed, %u failed\n", number - failed, failed);
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
