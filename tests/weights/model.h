/* SPDX-License-Identifier: MIT
 *
 * Models for the tests of threelc/weights.h: tensors of all dtypes, empty ones, scalars, long names, views.
 */
#ifndef TLC_TEST_MODEL_H
#define TLC_TEST_MODEL_H

#include "../support/support.h"
#include <threelc/weights.h>

enum { TENSORS_MAX = 24, DIMS = 3 };

/* entry: as a writer wants it. A view has no values: it takes those of its root when it is asked for. */
typedef struct tensor {
    tlc_weights_entry entry;
    uint64_t shape[DIMS], root_strides[DIMS], strides[DIMS];
    uint8_t *values;
} tensor;

typedef struct model {
    tensor tensors[TENSORS_MAX];
    size_t count;
} model;

/* A message, or a part of it. */
typedef struct mail {
    uint8_t *bytes;
    size_t len, room;
    size_t fails_after; /* bytes written, or reads; 0: never */
    int once;           /* one read fails, and no other */
    size_t writes;
} mail;

void model_open(model *m, uint64_t seed);  /* of all kinds of tensors */
void model_small(model *m, uint64_t seed); /* few, of few values */
void model_copy(model *m, const model *from);
void model_step(model *m, uint64_t seed); /* some weights change by a little, in most tensors */
void model_close(model *m);
int model_same(const model *a, const model *b);
size_t tensor_size(const tensor *t); /* bytes of its values */

/* The values of a view, found value by value. */
void view_values(const model *m, const tensor *view, uint8_t *out);

/* tlc_weights_writer_config.write and tlc_weights_reader_config.read of a mail. */
int mail_write(void *opaque, const void *src, size_t len);
int mail_read(void *opaque, uint64_t offset, void *dst, size_t len);
void mail_close(mail *m);

/* A frame of a tensor. base NULL: without one. */
uint8_t *frame_of(const tensor *base, const tensor *next, size_t *len);

/* The message that takes base to next. base NULL: it has all weights. */
mail publish(const model *base, const model *next, uint64_t sequence);

/* Where a receiver has its weights. */
typedef struct receiver {
    model *base, *out;              /* out: base, or another model */
    int (*wants)(const char *name); /* NULL: all */
    uint8_t *views[TENSORS_MAX];    /* memory for views, where it is not that of the root; NULL */
    size_t first, count;            /* of all tensors with at least so many weights; count 0: all of each */
    size_t fails_at;                /* the call of find that fails, from 1 on; 0: none */
    size_t calls;
} receiver;
int receiver_find(void *opaque, const tlc_weights_entry *entry, tlc_weights_place *where);

/* Opens a message in memory, or through mail_read, which must succeed. */
tlc_weights_reader *reader_of(mail *m, int in_memory);

/* Opens bytes and reads all that they have, to a receiver with the weights of base. Whatever the bytes are, an error
 * leaves the weights as they were, and after a success the note and all entries can be read. Returns the first error.
 * */
tlc_status take(const uint8_t *src, size_t len, const model *base, model *out);
#endif
