/* SPDX-License-Identifier: MIT
 *
 * A file is the head, the text of the settings, the weights, the optimiser's two arrays, the states of the handles, and
 * the CRC-32 of all that.
 */
#include "checkpoint.h"
#include "../lib/disk.h"
#include "../lib/explain.h"
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

static const char magic[8] = "TLCTRAI2";

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static bool put(FILE *f, const void *data, size_t size, uLong *crc)
{
    *crc = crc32_z(*crc, data, size);
    return !size || fwrite(data, size, 1, f) == 1;
}

static bool put_all(FILE *f, const checkpoint *c)
{
    const size_t floats = (size_t)c->head.values * sizeof(float);
    checkpoint_head head = c->head;
    uLong crc = 0;
    uint32_t end;

    memcpy(head.magic, magic, sizeof magic);
    if (!put(f, &head, sizeof head, &crc) || !put(f, c->settings, (size_t)head.settings, &crc) ||
        !put(f, c->weights, floats, &crc) || !put(f, c->mean, floats, &crc) || !put(f, c->square, floats, &crc) ||
        !put(f, c->state.data, c->state.len, &crc))
        return false;
    end = (uint32_t)crc;
    return put(f, &end, sizeof end, &crc);
}

bool checkpoint_write(const checkpoint *c, const char *path, char *why)
{
    char part[WHY_SIZE];
    FILE *f;

    snprintf(part, sizeof part, "%s.part", path);
    f = fopen(part, "wb");
    if (!f)
        return explain(why, "%s: %s", part, strerror(errno));
    if (put_all(f, c))
        return disk_take_place(f, part, path) || explain(why, "%s: %s", path, strerror(errno));
    explain(why, "%s: %s", path, strerror(errno));
    fclose(f);
    return false;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* The whole file, in new memory. */
static unsigned char *read_whole(const char *path, size_t *size, char *why)
{
    unsigned char *block = NULL;
    long length = -1;
    FILE *f;

    errno = 0;
    f = fopen(path, "rb");
    if (f && !fseek(f, 0, SEEK_END))
        length = ftell(f);
    if (length >= 0 && !fseek(f, 0, SEEK_SET)) {
        *size = (size_t)length;
        block = malloc(*size + sizeof(float)); /* room for align() */
    }
    if (block && fread(block, 1, *size, f) != *size) {
        free(block);
        block = NULL;
    }
    if (!block)
        explain(why, "%s: %s", path, errno ? strerror(errno) : "is shorter than it was");
    if (f)
        fclose(f);
    return block;
}

/* Takes `size` bytes from the front of what is left. */
static const void *take(const unsigned char **at, size_t *left, uint64_t size)
{
    const void *taken = *at;

    if (size > *left)
        return NULL;
    *at += (size_t)size;
    *left -= (size_t)size;
    return taken;
}

static bool take_all(checkpoint *c, const unsigned char *block, size_t size)
{
    const unsigned char *at = block;
    const void *head = take(&at, &size, sizeof c->head);

    if (!head)
        return false;
    memcpy(&c->head, head, sizeof c->head);
    const checkpoint_head *h = &c->head;
    const uint64_t floats = h->values * sizeof(float);
    if (memcmp(h->magic, magic, sizeof magic) != 0 || h->values > size)
        return false;
    c->settings = take(&at, &size, h->settings);
    if (!c->settings || !memchr(c->settings, '\0', (size_t)h->settings))
        return false;
    c->weights = take(&at, &size, floats);
    c->mean = take(&at, &size, floats);
    c->square = take(&at, &size, floats);
    c->state = (tlc_message){take(&at, &size, h->state), (size_t)h->state};
    return c->weights && c->mean && c->square && c->state.data && !size;
}

/* Floats follow a text of any length: moves all of them to an address where a machine may read floats. */
static bool align(checkpoint *c, unsigned char *block, size_t size)
{
    const size_t over = (uintptr_t)c->weights % _Alignof(float), by = over ? _Alignof(float) - over : 0;

    memmove(block + by, block, size);
    return take_all(c, block + by, size);
}

bool checkpoint_read(checkpoint *c, const char *path, char *why)
{
    size_t size = 0;
    unsigned char *block = read_whole(path, &size, why);
    uint32_t end;

    *c = (checkpoint){.block = block};
    if (!block)
        return false;
    if (size > sizeof end) {
        size -= sizeof end;
        memcpy(&end, block + size, sizeof end);
        if (end == (uint32_t)crc32_z(0, block, size) && take_all(c, block, size) && align(c, block, size))
            return true;
    }
    checkpoint_free(c);
    return explain(why, "%s: is not a whole checkpoint", path);
}

void checkpoint_free(checkpoint *c)
{
    free(c->block);
    *c = (checkpoint){.block = NULL};
}
