/* SPDX-License-Identifier: MIT */
#include "npy.h"
#include "explain.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- opening ----------------------------------------------------------------------------------------------------- */

/* Opens a regular file. Other files may block or have no size. */
static bool open_regular(npy_file *file, const char *path, uint64_t *size, char *why)
{
    struct stat st = {0}; /* MemorySanitizer of clang 14 does not see that fstat writes it */
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);

    if (fd < 0)
        return explain(why, "%s", strerror(errno));
    if (fstat(fd, &st) != 0)
        explain(why, "%s", strerror(errno)); /* NOLINT(bugprone-branch-clone): the errors of two calls */
    else if (!S_ISREG(st.st_mode))
        explain(why, "is not a regular file");
    else if (!(file->stream = fdopen(fd, "rb")))
        explain(why, "%s", strerror(errno));
    else {
        *size = (uint64_t)st.st_size;
        return true;
    }
    close(fd);
    return false;
}

/* Rows of an array in Fortran order lie all over the file, so it is read as a whole. */
static bool read_all(npy_file *file, char *why)
{
    const npy_header *h = &file->header;
    const uint64_t size = h->rows * h->cols * h->width;
    const size_t count = (size_t)(h->rows * h->cols);

    file->values = size < SIZE_MAX ? malloc((size_t)size + 1) : NULL;
    if (!file->values)
        return explain(why, "is too large for the memory");
    if (count && fread(file->values, h->width, count, file->stream) != count)
        return explain(why, "%s", ferror(file->stream) ? strerror(errno) : "is shorter than it was");
    return true;
}

static bool read_header(npy_file *file, uint64_t size, char *why)
{
    size_t want = size < NPY_HEADER_MAX ? (size_t)size : NPY_HEADER_MAX;
    unsigned char *bytes = malloc(want + 1);
    bool ok;

    if (!bytes)
        return explain(why, "out of memory");
    if (fread(bytes, 1, want, file->stream) != want)
        ok = explain(why, "%s", ferror(file->stream) ? strerror(errno) : "is shorter than it was");
    else
        ok = npy_parse_header(bytes, want, size, &file->header, why);
    free(bytes);
    if (ok && fseek(file->stream, (long)file->header.offset, SEEK_SET) != 0)
        ok = explain(why, "%s", strerror(errno));
    return ok;
}

bool npy_open(npy_file *file, const char *path, char *why)
{
    uint64_t size = 0;

    *file = (npy_file){.stream = NULL};
    if (!open_regular(file, path, &size, why))
        return false;
    if (read_header(file, size, why) && (!file->header.fortran || read_all(file, why)))
        return true;
    npy_close(file);
    return false;
}

bool npy_has_other_dtype(const char *path, char *descr)
{
    char why[WHY_SIZE];
    npy_file file = {.stream = NULL};
    uint64_t size = 0;

    if (!open_regular(&file, path, &size, why))
        return false;
    (void)read_header(&file, size, why);
    npy_close(&file);
    memcpy(descr, file.header.descr, sizeof file.header.descr);
    return file.header.other_dtype;
}

bool npy_open_raw(npy_file *file, const char *path, tlc_dtype dtype, uint64_t row_values, char *why)
{
    const unsigned width = dtype == TLC_F32 ? 4 : 2;
    uint64_t size = 0, values, cols;

    *file = (npy_file){.stream = NULL};
    if (!open_regular(file, path, &size, why))
        return false;
    values = size / width;
    cols = row_values ? row_values : values;
    if (!size)
        explain(why, "is empty");
    else if (size % width)
        explain(why, "its %" PRIu64 " bytes are not a multiple of %u", size, width);
    else if (values % cols)
        explain(why, "its %" PRIu64 " values are not rows of %" PRIu64, values, cols);
    else if (cols > SIZE_MAX / width)
        explain(why, "is too large");
    else {
        file->header = (npy_header){.dims = row_values ? 2 : 1,
                                    .rows = values / cols,
                                    .cols = cols,
                                    .width = width,
                                    .dtype = dtype};
        return true;
    }
    npy_close(file);
    return false;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static void swap_bytes(unsigned char *value, size_t count, unsigned width)
{
    for (; count; count--, value += width) {
        for (unsigned i = 0; i < width / 2; i++) {
            unsigned char byte = value[i];
            value[i] = value[width - 1 - i];
            value[width - 1 - i] = byte;
        }
    }
}

/* The next row of an array in Fortran order, where the first index moves fastest. */
static void gather_row(npy_file *file, unsigned char *row)
{
    const npy_header *h = &file->header;
    uint64_t index[NPY_MAX_DIMS] = {0}, stride[NPY_MAX_DIMS] = {1}, at = file->next;

    for (unsigned k = 1; k < h->dims; k++)
        stride[k] = stride[k - 1] * h->shape[k - 1];
    for (uint64_t i = 0; i < h->cols; i++, row += h->width) {
        memcpy(row, file->values + at * h->width, h->width);
        for (unsigned k = h->dims - 1; k > 0; k--) { /* the next index: in C order the last one moves fastest */
            at += stride[k];
            if (++index[k] < h->shape[k])
                break;
            at -= stride[k] * h->shape[k];
            index[k] = 0;
        }
    }
}

bool npy_read_row(npy_file *file, void *row, char *why)
{
    const npy_header *h = &file->header;
    const bool machine_big_endian = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__;
    size_t count = (size_t)h->cols;

    if (file->next == h->rows)
        return explain(why, "has no more rows");
    if (h->fortran)
        gather_row(file, row);
    else if (count && fread(row, h->width, count, file->stream) != count)
        return explain(why, "%s", ferror(file->stream) ? strerror(errno) : "is shorter than it was");
    if (h->big_endian != machine_big_endian)
        swap_bytes(row, count, h->width);
    file->next++;
    return true;
}

void npy_close(npy_file *file)
{
    fclose(file->stream);
    free(file->values);
    file->stream = NULL;
    file->values = NULL;
}
