/* SPDX-License-Identifier: MIT
 *
 * The golden vectors of deltas (tests/vectors/delta.txt, which model.py writes) against threelc/delta.h, on every ISA
 * of this machine. Every buffer has exactly the bytes that may be used, at an odd address.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../support/records.h"
#include <threelc/delta.h>

static const char *vectors = "tests/vectors/delta.txt";

static const char *const status_names[] = {"OK",      "PARAM",    "NOMEM",     "CAPACITY", "NONFINITE",
                                           "CORRUPT", "CHECKSUM", "VERSION",   "SIZE",     "UNSUPPORTED",
                                           "STEP",    "ORDER",    "TRANSPORT", "BASE"};
enum { STATUSES = sizeof status_names / sizeof status_names[0] };
static const char *const dtype_names[] = {"f32", "f16", "bf16"};
static const size_t width[] = {4, 2, 2};

static bytes weights(const char *hex, tlc_dtype dtype)
{
    return elements(hex, width[dtype], 1);
}

static int same(const void *a, const void *b, size_t len)
{
    return len == 0 || !memcmp(a, b, len);
}

static void good(const line *r, tlc_dtype dtype, const tlc_delta_options *opt)
{
    const int has_base = strcmp(get(r, "base"), "null") != 0;
    bytes want = unhex(get(r, "frame"), 1), next = weights(get(r, "next"), dtype), base = {NULL, 0};
    const size_t n = next.len / width[dtype];
    size_t bound = 0, written = 0;

    if (has_base)
        base = weights(get(r, "base"), dtype);
    expect_status(tlc_delta_bound(dtype, n, &bound), TLC_OK, "tlc_delta_bound");
    uint8_t *frame = exact(bound, 1), *mine = exact(next.len, 1);
    expect_status(tlc_delta_compress(dtype, has_base ? base.p : NULL, next.p, n, frame, bound, &written, opt), TLC_OK,
                  "tlc_delta_compress");
    expect(written == want.len && same(frame, want.p, written), "frame");
    if (has_base && n)
        memcpy(mine, base.p, base.len);
    expect_status(tlc_delta_apply(want.p, want.len, dtype, mine, n, opt), TLC_OK, "tlc_delta_apply");
    expect(same(mine, next.p, next.len), "weights");
}

static void altered(const line *r, tlc_dtype dtype, const tlc_delta_options *opt)
{
    const tlc_status want = (tlc_status)name_index(get(r, "status"), status_names, STATUSES);
    bytes frame = unhex(get(r, "frame"), 1), mine = weights(get(r, "base"), dtype),
          before = weights(get(r, "base"), dtype);
    tlc_delta_info info = {.struct_size = sizeof info};

    expect_status(tlc_delta_apply(frame.p, frame.len, dtype, mine.p, mine.len / width[dtype], opt), want,
                  "tlc_delta_apply");
    bytes after = want ? before : weights(get(r, "next"), dtype);
    expect(same(mine.p, after.p, after.len), "weights");
    if (want != TLC_ERR_SIZE && want != TLC_ERR_PARAM)
        expect_status(tlc_delta_inspect(frame.p, frame.len, &info), want == TLC_ERR_BASE ? TLC_OK : want,
                      "tlc_delta_inspect");
}

static void record(const line *r, tlc_isa isa)
{
    const tlc_dtype dtype = (tlc_dtype)name_index(get(r, "dtype"), dtype_names, 3);
    tlc_delta_options opt = {.struct_size = sizeof opt, .isa = isa};

    if (find(r, "status")) {
        altered(r, dtype, &opt);
        return;
    }
    opt.without_digests = !number(r, "digests");
    good(r, dtype, &opt);
}

static void all(void **state)
{
    (void)state;
    for (tlc_isa isa = TLC_ISA_SCALAR; isa <= TLC_ISA_NEON; isa++) {
        at_isa = tlc_isa_name(isa);
        if (tlc_isa_supported(isa))
            print_message("# %s: %zu records\n", at_isa, each_record(vectors, isa, record));
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(all)};

    if (argc > 1)
        vectors = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
