/* SPDX-License-Identifier: MIT
 *
 * The input is a .safetensors file, a .npy file or the note of a message, for tlc-delta. The tensors that it finds lie
 * in the file and do not overlap. With the rest they are all of the file. The rest alone, as a message has it, says the
 * same.
 */
#include "../../bench/lib/explain.h"
#include "../../bench/tlc-delta/models/dtypes.h"
#include "../../bench/tlc-delta/models/note.h"
#include "fuzz.h"

enum { MOST_INPUT = 1 << 17 };

static void explained(const char *why)
{
    const size_t len = strnlen(why, WHY_SIZE);

    require(len > 0 && len < WHY_SIZE);
    for (size_t i = 0; i < len; i++)
        require(why[i] >= ' ' && why[i] <= '~');
}

/* A tensor is as long as its weights, and these as many as its shape says. */
static void check_tensor(const layout_tensor *t)
{
    uint64_t product = 1;

    require(t->dims <= TLC_WEIGHTS_DIMS_MAX);
    for (size_t i = 0; i < t->dims; i++)
        product *= t->shape[i]; /* of 0s it may overflow */
    require(product == t->n && dtype_count(t->dtype, t->size) == t->n);
    require(dtype_bits(t->dtype) < 8 ? !(t->n & 1) : t->n * (dtype_bits(t->dtype) / 8) == t->size);
    require(!t->name || (*t->name && strlen(t->name) <= TLC_WEIGHTS_NAME_MAX));
    fuzz_fold_number((uint64_t)t->dtype);
    fuzz_fold_number(t->n);
    fuzz_fold_number(t->offset);
}

/* The rest of a file, which has what it is. */
static uint8_t *copy_rest(const layout *l, const uint8_t *data, size_t size)
{
    uint8_t *rest = malloc((size_t)l->rest + 1);
    uint64_t offset, len, done = 0;

    if (!rest)
        fail_msg("no memory for the test");
    for (size_t part = 0; layout_rest(l, size, &part, &offset, &len); done += len) {
        require(offset <= size && len <= size - offset && len <= l->rest - done);
        memcpy(rest + done, data + offset, (size_t)len);
    }
    require(done == l->rest);
    return rest;
}

static void check_file(file_kind kind, const uint8_t *data, size_t size)
{
    char why[WHY_SIZE] = "";
    layout found, again;
    uint64_t end = 0, used = 0;

    const bool ok = kind_find(kind, TLC_U8, data, size, size, &found, why);
    fuzz_fold_number(ok);
    if (!ok) {
        explained(why);
        return;
    }
    for (size_t i = 0; i < found.count; i++) {
        const layout_tensor *t = &found.tensors[i];
        require(t->offset >= end && t->offset <= size && t->size <= size - t->offset);
        end = t->offset + t->size;
        used += t->size;
        check_tensor(t);
    }
    require(used + found.rest == size);
    uint8_t *rest = copy_rest(&found, data, size);
    require(kind_find(kind, TLC_U8, rest, found.rest, size, &again, why));
    require(again.count == found.count && again.rest == found.rest);
    for (size_t i = 0; i < found.count; i++)
        require(again.tensors[i].offset == found.tensors[i].offset && again.tensors[i].size == found.tensors[i].size);
    free(rest);
    layout_free(&found);
    layout_free(&again);
}

static void check_note(const uint8_t *data, size_t size)
{
    char why[WHY_SIZE] = "";
    model m;

    const bool ok = note_read(data, size, &m, why);
    fuzz_fold_number(ok);
    if (!ok) {
        explained(why);
        return;
    }
    for (size_t i = 0; i < m.file_count; i++) {
        const char *path = m.files[i].path;
        require(*path && *path != '/' && *path != '.' && !strstr(path, "/.") && !strstr(path, "//"));
        require(path[strlen(path) - 1] != '/' && (!i || strcmp(m.files[i - 1].path, path) < 0));
        fuzz_fold_number(m.files[i].size);
    }
    char *note = note_write(&m, why);
    require(note);
    fuzz_fold(note, strlen(note), 1);
    free(note);
    model_close(&m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!size || size > MOST_INPUT)
        return 0;
    switch (data[0] % 3) {
    case 0: check_file(FILE_SAFETENSORS, data + 1, size - 1); break;
    case 1: check_file(FILE_NPY, data + 1, size - 1); break;
    default: check_note(data + 1, size - 1);
    }
    return 0;
}
