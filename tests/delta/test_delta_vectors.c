/* SPDX-License-Identifier: MIT
 *
 * The golden vectors of deltas (tests/vectors/delta.txt, which model.py writes) against threelc/delta.h, on every ISA
 * of this machine. Every buffer has exactly the bytes that may be used, at an odd address.
 */
#include "../support/records.h"
#include <threelc/delta.h>

static octets weights(const char *hex, tlc_dtype dtype)
{
    return elements(hex, weight_bits(dtype) < 8 ? 1 : weights_size(dtype, 1), 1);
}

static size_t count_of(octets b, tlc_dtype dtype)
{
    return weight_bits(dtype) == 4 ? 2 * b.len : b.len / weights_size(dtype, 1);
}

static void good(const line *r, tlc_dtype dtype, const tlc_delta_options *opt)
{
    const int has_base = strcmp(get(r, "base"), "null") != 0;
    octets want = unhex(get(r, "frame"), 1), next = weights(get(r, "next"), dtype), base = {NULL, 0};
    const size_t n = count_of(next, dtype);
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
    const tlc_status want = status_of(r, "status");
    octets frame = unhex(get(r, "frame"), 1), mine = weights(get(r, "base"), dtype),
           before = weights(get(r, "base"), dtype);
    tlc_delta_info info = {.struct_size = sizeof info};

    expect_status(tlc_delta_apply(frame.p, frame.len, dtype, mine.p, count_of(mine, dtype), opt), want,
                  "tlc_delta_apply");
    octets after = want ? before : weights(get(r, "next"), dtype);
    expect(same(mine.p, after.p, after.len), "weights");
    if (want != TLC_ERR_SIZE && want != TLC_ERR_PARAM)
        expect_status(tlc_delta_inspect(frame.p, frame.len, &info), want == TLC_ERR_BASE ? TLC_OK : want,
                      "tlc_delta_inspect");
}

enum { LINKS_MOST = 8 };

/* A chain, and the frame that it becomes. */
static void folded(const line *r, const tlc_delta_options *opt)
{
    const tlc_status want = status_of(r, "status");
    const void *frames[LINKS_MOST] = {NULL};
    size_t lens[LINKS_MOST] = {0}, count = 0, bound = 0, written = 0;
    tlc_delta_info info = {.struct_size = sizeof info};

    for (; r->key; r++)
        if (!strcmp(r->key, "link")) {
            octets frame = unhex(r->value, 1);
            expect(count < LINKS_MOST, "links");
            frames[count] = frame.p;
            lens[count++] = frame.len;
        } else if (!strcmp(r->key, "fold")) {
            octets fold = unhex(r->value, 1);
            expect_status(tlc_delta_peek(frames[0], lens[0], &info), TLC_OK, "tlc_delta_peek");
            expect_status(tlc_delta_fold_bound(info.dtype, (size_t)info.n, count, &bound), TLC_OK,
                          "tlc_delta_fold_bound");
            uint8_t *dst = exact(bound, 1);
            expect_status(tlc_delta_fold(frames, lens, count, dst, bound, &written, opt), want, "tlc_delta_fold");
            expect(want || (written == fold.len && same(dst, fold.p, written)), "fold");
        }
}

static void record(const line *r, tlc_isa isa)
{
    const tlc_dtype dtype = dtype_of(r);
    tlc_delta_options opt = {.struct_size = sizeof opt, .isa = isa};

    if (find(r, "fold")) {
        folded(r, &opt);
        return;
    }
    if (find(r, "status")) {
        altered(r, dtype, &opt);
        return;
    }
    opt.without_digests = !number(r, "digests");
    opt.block_digests = number(r, "digests") == 2;
    good(r, dtype, &opt);
}

TEST(all)
{
    const char *vectors = test_argument ? test_argument : "tests/vectors/delta.txt";

    FOR_EACH_ISA(isa) {
        at_isa = tlc_isa_name(isa);
        print_message("# %s: %zu records\n", at_isa, each_record(vectors, isa, record));
    }
}
