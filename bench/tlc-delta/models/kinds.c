/* SPDX-License-Identifier: MIT */
#include "kinds.h"
#include "../../lib/explain.h"
#include "dtypes.h"
#include "npy_layout.h"
#include "safetensors.h"
#include <inttypes.h>
#include <string.h>

static bool ends_with(const char *text, const char *end)
{
    const size_t len = strlen(text), end_len = strlen(end);

    return len >= end_len && !strcmp(text + len - end_len, end);
}

file_kind kind_of(const char *path, const uint8_t *bytes, uint64_t len)
{
    if (len >= 6 && !memcmp(bytes, "\x93NUMPY", 6))
        return FILE_NPY;
    return ends_with(path, ".safetensors") ? FILE_SAFETENSORS : FILE_RAW;
}

/* All of the file is one tensor. */
static bool find_raw(tlc_dtype dtype, uint64_t size, layout *l, char *why)
{
    const layout_tensor t = {.dtype = dtype, .n = dtype_count(dtype, size), .size = size};

    if (dtype_bits(dtype) > 8 && size % (dtype_bits(dtype) / 8))
        return explain(why, "its %" PRIu64 " bytes are not a multiple of %u", size, dtype_bits(dtype) / 8);
    return layout_add(l, &t, NULL, why);
}

bool kind_find(file_kind kind, tlc_dtype dtype, const uint8_t *bytes, uint64_t len, uint64_t size, layout *l, char *why)
{
    uint64_t first = 0;
    bool ok;

    *l = (layout){.count = 0};
    if (len > size)
        return explain(why, "has %" PRIu64 " bytes, and %" PRIu64 " of them are no tensors", size, len);
    if (kind == FILE_SAFETENSORS)
        ok = safetensors_find(bytes, len, size, l, &first, why);
    else if (kind == FILE_NPY)
        ok = npy_find(bytes, len, size, l, &first, why);
    else
        ok = find_raw(dtype, size, l, why);
    if (ok && layout_settle(l, first, size, why))
        return true;
    layout_free(l);
    return false;
}
