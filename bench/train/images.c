/* SPDX-License-Identifier: MIT
 *
 * The idx format: two zero bytes, 8 for unsigned bytes, the number of dimensions, then each dimension as a big-endian
 * u32, then the values. zlib's gzread also reads files that are not compressed.
 */
#include "images.h"
#include "../lib/explain.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

enum { MOST_IMAGES = 1 << 21 /* gzread counts bytes as int */, PATH_ROOM = 4096 };

static uint32_t big_endian(const uint8_t b[4])
{
    return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

/* *count: the first dimension. The others must be SIDE. */
static bool read_header(gzFile f, const char *path, int dimensions, uint32_t *count, char *why)
{
    uint8_t head[16];
    int size = 4 + 4 * dimensions;

    if (gzread(f, head, (unsigned)size) != size)
        return explain(why, "%s: is too short for an idx file", path);
    if (head[0] || head[1])
        return explain(why, "%s: begins with %02x%02x; an idx file begins with 0000", path, head[0], head[1]);
    if (head[2] != 8 || head[3] != dimensions)
        return explain(why, "%s: is an idx file of type 0x%02x with %d dimensions; here it needs bytes (0x08) with %d",
                       path, head[2], head[3], dimensions);
    *count = big_endian(head + 4);
    if (*count == 0 || *count > MOST_IMAGES)
        return explain(why, "%s: has %lu images; 1 to %d can be read", path, (unsigned long)*count, MOST_IMAGES);
    for (int i = 1; i < dimensions; i++)
        if (big_endian(head + 4 + 4 * i) != SIDE)
            return explain(why, "%s: dimension %d is %lu; images are %d x %d", path, i,
                           (unsigned long)big_endian(head + 4 + 4 * i), SIDE, SIDE);
    return true;
}

static bool read_values(gzFile f, const char *path, size_t size, uint8_t **values, char *why)
{
    uint8_t *v = malloc(size + 1); /* the last byte shows whether the file is too long */

    if (!v)
        return explain(why, "%s: out of memory", path);
    const int got = gzread(f, v, (unsigned)(size + 1));
    if (got != (int)size) {
        free(v);
        return got < 0 ? explain(why, "%s: its compressed data is damaged", path)
                       : explain(why, "%s: its header promises %zu values, it has %s", path, size,
                                 got < (int)size ? "fewer" : "more");
    }
    *values = v;
    return true;
}

/* Opens FOLDER/PREFIX-KIND or the same with ".gz". path: PATH_ROOM bytes, becomes the name. NULL: neither is there. */
static gzFile open_one(char *path, const char *folder, const char *prefix, const char *kind, char *why)
{
    gzFile f;

    snprintf(path, PATH_ROOM, "%s/%s-%s", folder, prefix, kind);
    const bool plain = !access(path, F_OK);
    if (!plain)
        snprintf(path, PATH_ROOM, "%s/%s-%s.gz", folder, prefix, kind);
    errno = 0;
    f = gzopen(path, "rb");
    if (!f)
        explain(why, "%s: %s%s", path, errno ? strerror(errno) : "out of memory",
                plain ? "" : ", and none without .gz");
    return f;
}

static bool read_file(const char *folder, const char *prefix, const char *kind, int dimensions, uint32_t *count,
                      uint8_t **values, char *why)
{
    char path[PATH_ROOM];
    gzFile f = open_one(path, folder, prefix, kind, why);
    bool ok;

    if (!f)
        return false;
    ok = read_header(f, path, dimensions, count, why) &&
         read_values(f, path, (size_t)*count * (dimensions == 3 ? PIXELS : 1), values, why);
    gzclose(f);
    return ok;
}

static bool check_labels(const image_set *s, uint32_t labels, const char *prefix, char *why)
{
    if (labels != s->count)
        return explain(why, "%s: %lu images have %lu labels", prefix, (unsigned long)s->count, (unsigned long)labels);
    for (uint32_t i = 0; i < s->count; i++)
        if (s->labels[i] >= CLASSES)
            return explain(why, "%s: label %lu is %d", prefix, (unsigned long)i, s->labels[i]);
    return true;
}

bool images_read(image_set *s, const char *folder, const char *prefix, char *why)
{
    uint32_t labels = 0;

    *s = (image_set){.count = 0};
    if (read_file(folder, prefix, "images-idx3-ubyte", 3, &s->count, &s->pixels, why) &&
        read_file(folder, prefix, "labels-idx1-ubyte", 1, &labels, &s->labels, why) &&
        check_labels(s, labels, prefix, why))
        return true;
    images_free(s);
    return false;
}

void images_free(image_set *s)
{
    free(s->pixels);
    free(s->labels);
    *s = (image_set){.count = 0};
}
