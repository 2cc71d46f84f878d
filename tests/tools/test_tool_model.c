/* SPDX-License-Identifier: MIT
 *
 * The weights of a file, which is little-endian, in the byte order of this machine, and back.
 */
#include "../../bench/lib/explain.h"
#include "../../bench/tlc-delta/models/dtypes.h"
#include "../../bench/tlc-delta/models/model.h"
#include "../support/support.h"
#include <unistd.h>

static const uint8_t file[16] = {0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0, 1, 2, 3, 4, 5, 6, 7, 8};

/* Opens the file as weights of a dtype, and copies them. */
static void load(tlc_dtype dtype, uint8_t weights[16])
{
    char path[] = "/tmp/test_tool_model.XXXXXX", why[WHY_SIZE] = "";
    const int fd = mkstemp(path);
    model m;

    assert_true(fd >= 0 && write(fd, file, sizeof file) == (ssize_t)sizeof file && close(fd) == 0);
    assert_true(model_open(&m, path, &dtype, why));
    assert_int_equal(m.count, 1);
    assert_string_equal(m.entries[0].name, "data");
    const layout_tensor t = model_tensor(&m, &m.entries[0]);
    assert_int_equal(t.n * dtype_bits(dtype), 8 * sizeof file);
    model_load(&m, &m.entries[0], weights);
    const uint8_t *direct = model_weights(&m, &m.entries[0]);
    assert_true(direct || !dtype_is_same(dtype));
    if (direct)
        assert_memory_equal(direct, weights, sizeof file);
    model_close(&m);
    unlink(path);
}

TEST(weights_are_those_of_this_machine)
{
    union {
        uint8_t bytes[16];
        float f32[4];
        uint16_t u16[8];
        uint32_t u32[4];
        uint64_t u64[2];
    } w;

    load(TLC_F32, w.bytes);
    assert_true(w.f32[0] == 1 && w.f32[1] == -2 && w.u32[2] == 0x04030201);
    load(TLC_I64, w.bytes);
    assert_true(w.u64[1] == UINT64_C(0x0807060504030201));
    load(TLC_BF16, w.bytes);
    assert_true(w.u16[1] == 0x3f80 && w.u16[7] == 0x0807);
    load(TLC_U8, w.bytes);
    assert_memory_equal(w.bytes, file, sizeof file);
    load(TLC_U4, w.bytes);
    assert_memory_equal(w.bytes, file, sizeof file);
}

TEST(turned_twice_they_are_the_file)
{
    uint8_t weights[16];

    for (tlc_dtype dtype = TLC_F32; dtype <= TLC_F64; dtype = (tlc_dtype)(dtype + 1)) {
        load(dtype, weights);
        dtype_turn(dtype, weights, sizeof weights);
        assert_memory_equal(weights, file, sizeof file);
    }
}
