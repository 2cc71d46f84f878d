/* SPDX-License-Identifier: MIT */
#include "npy_layout.h"
#include "../../lib/npy_header.h"
#include "dtypes.h"
#include <string.h>

/* Of values that are as long as those of a dtype of deltas, and little-endian. NumPy's own names of other dtypes have
 * an order before them. */
static tlc_dtype other_dtype(const char *descr)
{
    static const struct {
        const char *descr;
        tlc_dtype dtype;
    } known[] = {{"'<f8'", TLC_F64}, {"'<i8'", TLC_I64}, {"'<u8'", TLC_I64},  {"'<i4'", TLC_I32},
                 {"'<u4'", TLC_I32}, {"'<c8'", TLC_F32}, {"'<c16'", TLC_F64}, {"'<i2'", TLC_BF16}};

    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (!strcmp(descr, known[i].descr))
            return known[i].dtype;
    }
    return TLC_U8;
}

bool npy_find(const uint8_t *bytes, uint64_t len, uint64_t size, layout *l, uint64_t *first, char *why)
{
    const size_t have = len < NPY_HEADER_MAX ? (size_t)len : NPY_HEADER_MAX;
    npy_header h;

    if (!npy_parse_header(bytes, have, size, &h, why) && !h.other_dtype)
        return false;
    *first = h.offset;
    layout_tensor t = {.dtype = h.dtype, .dims = h.dims, .offset = h.offset};
    const bool swapped = h.descr[1] == '>'; /* whatever order this machine has */
    if (!h.other_dtype && !swapped) {
        t.n = h.rows * h.cols;
        t.size = t.n * h.width;
        return layout_add(l, &t, h.fortran ? NULL : h.shape, why);
    }
    t.size = size - h.offset;
    t.dtype = swapped ? TLC_U8 : other_dtype(h.descr);
    if (t.size % (dtype_bits(t.dtype) / 8))
        t.dtype = TLC_U8;
    t.n = dtype_count(t.dtype, t.size);
    return layout_add(l, &t, NULL, why);
}
