/* SPDX-License-Identifier: MIT */
#include "safetensors.h"
#include "../../lib/explain.h"
#include "json.h"
#include "printable.h"
#include <inttypes.h>
#include <string.h>

enum { LENGTH_SIZE = 8 };

/* ---- dtypes ------------------------------------------------------------------------------------------------------ */

/* bits: of a value, which is `weights` weights of the dtype. Integers of 16 bits go like floats of 16 bits: that takes
 * 10% to 26% less than as bytes. */
static const struct known_dtype {
    const char *name;
    unsigned bits;
    tlc_dtype dtype;
    unsigned weights;
} dtypes[] = {
    {"F64", 64, TLC_F64, 1},        {"F32", 32, TLC_F32, 1},
    {"F16", 16, TLC_F16, 1},        {"BF16", 16, TLC_BF16, 1},
    {"F8_E4M3", 8, TLC_F8_E4M3, 1}, {"F8_E4M3FNUZ", 8, TLC_F8_E4M3, 1},
    {"F8_E5M2", 8, TLC_F8_E5M2, 1}, {"F8_E5M2FNUZ", 8, TLC_F8_E5M2, 1},
    {"F8_E8M0", 8, TLC_U8, 1},      {"F4", 4, TLC_F4_E2M1, 1},
    {"BOOL", 8, TLC_U8, 1},         {"U8", 8, TLC_U8, 1},
    {"I8", 8, TLC_U8, 1},           {"U16", 16, TLC_BF16, 1},
    {"I16", 16, TLC_BF16, 1},       {"U32", 32, TLC_I32, 1},
    {"I32", 32, TLC_I32, 1},        {"U64", 64, TLC_I64, 1},
    {"I64", 64, TLC_I64, 1},        {"C64", 64, TLC_F32, 2},
};

static const struct known_dtype *find_dtype(const char *name)
{
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++) {
        if (!strcmp(name, dtypes[i].name))
            return &dtypes[i];
    }
    return NULL;
}

/* ---- a tensor ---------------------------------------------------------------------------------------------------- */

static bool is_size(const json_t *value)
{
    return json_is_integer(value) && json_integer_value(value) >= 0;
}

/* Two offsets, from the end of the header on. */
static bool take_offsets(const json_t *offsets, uint64_t *begin, uint64_t *end)
{
    if (!json_is_array(offsets) || json_array_size(offsets) != 2 || !is_size(json_array_get(offsets, 0)) ||
        !is_size(json_array_get(offsets, 1)))
        return false;
    *begin = (uint64_t)json_integer_value(json_array_get(offsets, 0));
    *end = (uint64_t)json_integer_value(json_array_get(offsets, 1));
    return *begin <= *end;
}

/* Of a shape with its zeros left out, so that a shape with a 0 cannot hide that it is too large. */
static bool take_shape(const json_t *array, uint64_t shape[TLC_WEIGHTS_DIMS_MAX], size_t *dims, uint64_t *count)
{
    uint64_t product = 1;
    bool is_empty = false;

    *dims = json_array_size(array);
    for (size_t i = 0; i < *dims; i++) {
        const json_t *length = json_array_get(array, i);
        if (!is_size(length))
            return false;
        const uint64_t number = (uint64_t)json_integer_value(length);
        is_empty = is_empty || !number;
        if (number && __builtin_mul_overflow(product, number, &product))
            return false;
        if (i < TLC_WEIGHTS_DIMS_MAX)
            shape[i] = number;
    }
    *count = is_empty ? 0 : product;
    return json_is_array(array);
}

/* Adds a tensor of a dtype that is known. t: its name, offset and size. */
static bool add_known(layout *l, layout_tensor *t, const struct known_dtype *known, const json_t *array, char *why)
{
    char name[PRINTABLE_SIZE];
    uint64_t shape[TLC_WEIGHTS_DIMS_MAX], values, bits;

    if (!take_shape(array, shape, &t->dims, &values) || __builtin_mul_overflow(values, known->bits, &bits))
        return explain(why, "%s: its shape is malformed or too large", printable(name, t->name));
    if (bits % 8 || bits / 8 != t->size)
        return explain(why, "%s: %" PRIu64 " values of %s are not %" PRIu64 " bytes", printable(name, t->name), values,
                       known->name, t->size);
    t->dtype = known->dtype;
    t->n = values * known->weights;
    const bool more = known->weights > 1, fits = t->dims + more <= TLC_WEIGHTS_DIMS_MAX;
    if (fits && more)
        shape[t->dims++] = known->weights;
    return layout_add(l, t, fits ? shape : NULL, why);
}

static bool add_tensor(layout *l, const char *name, const json_t *entry, uint64_t header, char *why)
{
    const char *dtype = json_string_value(json_object_get(entry, "dtype"));
    char text[PRINTABLE_SIZE];
    uint64_t begin, end;

    if (!*name || strlen(name) > TLC_WEIGHTS_NAME_MAX)
        return explain(why, "a tensor has a name of %zu bytes; 1 to %d are possible", strlen(name),
                       TLC_WEIGHTS_NAME_MAX);
    if (!dtype || !take_offsets(json_object_get(entry, "data_offsets"), &begin, &end))
        return explain(why, "%s: its dtype or data_offsets are missing or malformed", printable(text, name));
    /* a header ends below 2^63 + 100,000,008 */
    layout_tensor t = {.name = (char *)(uintptr_t)name, .offset = header + begin, .size = end - begin};
    const struct known_dtype *known = find_dtype(dtype);
    if (known)
        return add_known(l, &t, known, json_object_get(entry, "shape"), why);
    t.dtype = TLC_U8;
    t.n = t.size;
    return layout_add(l, &t, NULL, why);
}

/* ---- the header -------------------------------------------------------------------------------------------------- */

bool safetensors_find(const uint8_t *bytes, uint64_t len, uint64_t size, layout *l, uint64_t *first, char *why)
{
    const char *name;
    json_t *root, *entry;
    uint64_t length = 0;
    bool ok = true;

    if (len < LENGTH_SIZE)
        return explain(why, "is too short for a .safetensors file");
    for (unsigned i = 0; i < LENGTH_SIZE; i++)
        length |= (uint64_t)bytes[i] << 8 * i;
    if (length > SAFETENSORS_HEADER_MAX)
        return explain(why, "is no .safetensors file: its header would have %" PRIu64 " bytes", length);
    if (length > len - LENGTH_SIZE)
        return explain(why, "is cut: its header has %" PRIu64 " bytes, the file %" PRIu64, length, size);
    root = json_read(bytes + LENGTH_SIZE, (size_t)length, why);
    if (!root)
        return false;
    *first = LENGTH_SIZE + length;
    if (!json_is_object(root))
        ok = explain(why, "its header is no JSON object");
    json_object_foreach(root, name, entry)
    {
        if (ok && strcmp(name, "__metadata__") != 0)
            ok = add_tensor(l, name, entry, *first, why);
    }
    json_decref(root);
    return ok;
}
