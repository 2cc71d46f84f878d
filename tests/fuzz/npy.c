/* SPDX-License-Identifier: MIT
 *
 * The input is a file for the bench's readers, .npy and raw: what they accept must be in the file, a raw file must fit
 * exactly, and what they refuse they must explain.
 */
#include "../../bench/lib/explain.h"
#include "../../bench/lib/npy.h"
#include "fuzz.h"
#include <sys/mman.h>
#include <unistd.h>

enum { MOST_INPUT = 1 << 17, MOST_ROWS = 64 };

static void explained(const char *why)
{
    size_t len = strnlen(why, WHY_SIZE);
    require(len > 0 && len < WHY_SIZE);
}

/* The header alone, as of a file that is longer or shorter, too. */
static bool header(const uint8_t *data, size_t size, npy_header *h)
{
    char why[WHY_SIZE] = "";
    npy_header other;

    memset(h, 0, sizeof *h);
    bool ok = npy_parse_header(data, size, size, h, why);
    fuzz_fold_number(ok);
    if (!ok) {
        explained(why);
        return false;
    }
    require(h->offset <= size && h->width == (h->dtype == TLC_F32 ? 4 : 2));
    const size_t values = (size_t)(h->rows * h->cols * h->width);
    require(values + h->trailing == size - h->offset);
    require(h->cols <= SIZE_MAX / h->width);
    require(npy_parse_header(data, size, (uint64_t)size + 1, &other, why) && other.trailing == h->trailing + 1);
    if (values) { /* which are not all there if the file ends sooner */
        require(!npy_parse_header(data, size, (uint64_t)h->offset + values - 1, &other, why));
        explained(why);
    }
    fuzz_fold_number(h->trailing);
    fuzz_fold_number(h->rows);
    fuzz_fold_number(h->cols);
    return true;
}

static void read_rows(npy_file *file)
{
    char why[WHY_SIZE] = "";
    const npy_header *h = &file->header;
    /* Where the file does not say in which order bytes are, the values depend on the machine: not for the digest.
     * A raw file has no descr, and its values are little-endian. */
    const bool same_everywhere = !*h->descr || strpbrk(h->descr, "<>");
    uint8_t *row = bytes((size_t)h->cols * h->width);

    for (uint64_t i = 0; i < h->rows && i < MOST_ROWS; i++) {
        require(npy_read_row(file, row, why));
        if (same_everywhere)
            fuzz_fold(row, (size_t)h->cols, h->width);
    }
    if (h->rows <= MOST_ROWS && h->rows && h->cols) {
        require(!npy_read_row(file, row, why)); /* no more */
        explained(why);
    }
    free(row);
    npy_close(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[32], why[WHY_SIZE] = "";
    npy_header h;
    npy_file file;

    if (size > MOST_INPUT)
        return 0;
    bool ok = header(data, size, &h);

    int fd = memfd_create("npy", MFD_CLOEXEC);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        fail_msg("no memory for the test");
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    require(npy_open(&file, path, why) == ok);
    if (ok) {
        const npy_header *read = &file.header;
        require(read->offset == h.offset && read->rows == h.rows && read->cols == h.cols && read->width == h.width);
        read_rows(&file);
    } else {
        explained(why);
    }
    uint64_t row = size && data[0] & 1 ? data[size / 2] : 0; /* 0: all in one */
    const tlc_dtype dtype = (tlc_dtype)(size % 3);
    const size_t width = dtype == TLC_F32 ? 4 : 2;
    ok = npy_open_raw(&file, path, dtype, row, why);
    require(ok == (size && size % width == 0 && (!row || size / width % row == 0)));
    if (ok)
        read_rows(&file);
    else
        explained(why);
    close(fd);
    return 0;
}
