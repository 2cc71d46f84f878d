/* SPDX-License-Identifier: MIT
 *
 * Messages that take a whole model from one state to another: the deltas of all tensors (threelc/delta.h) with their
 * names, dtypes and shapes, who sent them, in which order, and digests of the model before and after.
 *
 * A trainer makes a frame of each tensor with tlc_delta_compress and adds it to a tlc_weights_writer, whose bytes go
 * piece by piece to a callback. A receiver opens a message in memory, or through a callback that reads any part of it,
 * and takes the tensors that it has: all of them, some of them, or shards. tlc_weights_apply changes all of them or
 * none. Nobody needs memory for the message or for a second model: the longest frame is enough.
 *
 *     tlc_weights_writer_create(&w, &config);                    tlc_weights_open(&r, &config);
 *     for each tensor, in the order of names:                    tlc_weights_apply(r, my_tensors, &model, frame, cap);
 *         tlc_delta_compress(..., frame, cap, &len, NULL);       tlc_weights_close(r);
 *         tlc_weights_add(w, &entry, frame, len);
 *     tlc_weights_finish(w);
 *     tlc_weights_writer_destroy(w);
 *
 * Tensors that share memory, such as tied weights, are sent once: one of them, the root, has a frame. The others are
 * views of its values.
 *
 * Units, structs, failure, messages and threads are as in threelc.h; an object serves one thread at a time.
 * tlc_weights_writer_create and tlc_weights_open allocate, once. Numbers of entries count from 0.
 *
 * The page format.md, which is installed in share/doc/threelc, draws the bytes.
 */
#ifndef THREELC_WEIGHTS_H
#define THREELC_WEIGHTS_H

#include <threelc/delta.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TLC_WEIGHTS_NAME_MAX 4096       /* bytes of the longest name, without its NUL */
#define TLC_WEIGHTS_DIMS_MAX 64         /* dimensions of a tensor */
#define TLC_WEIGHTS_NOTE_MAX (16 << 20) /* bytes of the longest note */
#define TLC_WEIGHTS_TRAINER_SIZE 16     /* bytes of a trainer's identity */

/* A tensor of a message. A writer looks at the fields marked with W. What a reader points to is valid until a call
 * with it for another entry.
 *
 * Of a view: the values of the root lie in memory as root_strides say, each value once, and value (i, j, ...) of the
 * view is at first + i strides[0] + j strides[1] + ... there. root_strides NULL: the view is all of the root, in the
 * same shape; strides and first are ignored. Where two weights share a byte, strides and first are in bytes, and the
 * last dimension, of even length, counts half. */
typedef struct tlc_weights_entry {
    size_t struct_size;
    const char *name;             /* W: UTF-8, 1 to TLC_WEIGHTS_NAME_MAX bytes and a NUL */
    tlc_dtype dtype;              /* W */
    size_t dims;                  /* W: dimensions, at most TLC_WEIGHTS_DIMS_MAX; a scalar has none */
    const uint64_t *shape;        /* W: lengths of the dimensions, in weights, also where two of them share a byte */
    uint64_t n;                   /* weights: the product of the shape */
    uint64_t frame_len;           /* bytes of the frame; 0: it is a view, and the next three are 0 */
    int has_base;                 /* as tlc_delta_peek tells it, as are the next two */
    uint64_t base_digest;         /* of the weights before the message; 0 without a base */
    uint64_t result_digest;       /* of the weights after it */
    int is_view;                  /* W: 1: it is a view. 0: it has a frame, and the fields below are ignored */
    uint64_t root;                /* W: the number of the entry that has the values, with a frame, of the same dtype */
    size_t root_dims;             /* W: dimensions of the root */
    const uint64_t *root_strides; /* W: of these, in weights; or NULL */
    const uint64_t *strides;      /* W: of the view's own dimensions */
    uint64_t first;               /* W */
} tlc_weights_entry;
TLC_API tlc_status tlc_weights_entry_init(tlc_weights_entry *entry, size_t struct_size);

/* ---- writing ---------------------------------------------------------------------------------------------------- */

/* A message while it is written. */
typedef struct tlc_weights_writer tlc_weights_writer;

/* Takes the next len bytes of a message. Returns 0, or another number if it failed. */
typedef int (*tlc_weights_write)(void *opaque, const void *src, size_t len);

/* Start from tlc_weights_writer_config_init. */
typedef struct tlc_weights_writer_config {
    size_t struct_size;
    tlc_weights_write write;                         /* where the message goes */
    void *opaque;                                    /* the first argument of write */
    unsigned char trainer[TLC_WEIGHTS_TRAINER_SIZE]; /* who sends it: random bytes, the same in all messages of a run */
    uint64_t sequence;   /* the number of the message among those of its trainer, from 1 on */
    uint64_t count;      /* entries of the message */
    const void *note;    /* bytes of the caller, for example the files that tensors lie in; copied into the message */
    size_t note_len;     /* at most TLC_WEIGHTS_NOTE_MAX */
    tlc_allocator alloc; /* of the writer: 8 count bytes, and about 20 KiB */
    char *message;       /* message_cap bytes, which outlive the writer: why a call failed, but for a bad struct_size */
    size_t message_cap;  /* 0: no message */
} tlc_weights_writer_config;
TLC_API tlc_status tlc_weights_writer_config_init(tlc_weights_writer_config *config, size_t struct_size);

/* Makes a writer, and writes the head of the message. On failure *out does not change. TLC_ERR_PARAM, TLC_ERR_SIZE,
 * TLC_ERR_NOMEM; TLC_ERR_TRANSPORT: write failed. */
TLC_API tlc_status tlc_weights_writer_create(tlc_weights_writer **out, const tlc_weights_writer_config *config);

/* Writes the next entry, whose name comes after those of all entries before it, in the order of bytes. frame: of len
 * bytes, with digests, for entry->n weights of the entry's dtype; NULL and 0 for a view. Only the frame's head is
 * looked at. Whether a view fits its root, which may come later, is the caller's to know: readers refuse one that does
 * not. TLC_ERR_PARAM: anything else is not as this header says; nothing was written, and another entry may be added.
 * TLC_ERR_ORDER: the message has count entries already, or writing has failed. TLC_ERR_TRANSPORT: write failed; the
 * message cannot be finished. */
TLC_API tlc_status tlc_weights_add(tlc_weights_writer *w, const tlc_weights_entry *entry, const void *frame,
                                   size_t len);

/* Writes the end of the message. Without it a message is refused. TLC_ERR_ORDER: entries are missing, or the message
 * has an end, or writing has failed. TLC_ERR_TRANSPORT: write failed. */
TLC_API tlc_status tlc_weights_finish(tlc_weights_writer *w);
TLC_API void tlc_weights_writer_destroy(tlc_weights_writer *w); /* NULL is allowed; the message may be unfinished */

/* ---- reading ---------------------------------------------------------------------------------------------------- */

/* A message that is read. */
typedef struct tlc_weights_reader tlc_weights_reader;

/* Copies the len bytes from offset on, all of which the message has, to dst. Returns 0, or another number if it
 * failed. */
typedef int (*tlc_weights_read)(void *opaque, uint64_t offset, void *dst, size_t len);

/* Start from tlc_weights_reader_config_init. */
typedef struct tlc_weights_reader_config {
    size_t struct_size;
    const void *src;       /* the message, in memory that outlives the reader; NULL: read has it */
    tlc_weights_read read; /* NULL with src */
    void *opaque;          /* the first argument of read */
    uint64_t size;         /* bytes of the message */
    tlc_isa isa;           /* for tlc_weights_apply; default TLC_ISA_AUTO */
    tlc_parallel parallel; /* for tlc_weights_apply */
    tlc_allocator alloc;   /* of the reader: about 32 KiB */
    char *message;      /* message_cap bytes, which outlive the reader: why a call failed, but for a bad struct_size */
    size_t message_cap; /* 0: no message */
} tlc_weights_reader_config;
TLC_API tlc_status tlc_weights_reader_config_init(tlc_weights_reader_config *config, size_t struct_size);

/* What a message says of itself. struct_size is as in tlc_frame_info.
 * Digests are of names, dtypes, shapes and digests of frames; views do not count. */
typedef struct tlc_weights_info {
    size_t struct_size;
    uint32_t version;                                /* of the format */
    unsigned char trainer[TLC_WEIGHTS_TRAINER_SIZE]; /* as in tlc_weights_writer_config */
    uint64_t sequence;                               /* the same */
    uint64_t count;                                  /* entries */
    uint64_t note_len;                               /* bytes of the note */
    uint64_t size;                                   /* bytes of the message */
    int full;                                        /* 1: no frame has a base, so that the message has all weights */
    uint64_t base_digest;   /* of the model before, as far as frames have a base; 0: none has one */
    uint64_t result_digest; /* of the model after. If all frames of the next message have a base, its base_digest */
    uint64_t frame_max;     /* bytes of the longest frame */
} tlc_weights_info;
TLC_API tlc_status tlc_weights_info_init(tlc_weights_info *info, size_t struct_size);

/* Opens a message, which may be any bytes, and checks all of it but the note, and frames after their heads. It takes
 * time and calls of read in proportion to count. On failure *out does not change. Errors, in this order: TLC_ERR_PARAM,
 * TLC_ERR_UNSUPPORTED (isa), TLC_ERR_NOMEM, TLC_ERR_CORRUPT (too short, or no such message), TLC_ERR_VERSION,
 * TLC_ERR_CHECKSUM (head or tail), TLC_ERR_CORRUPT (anything else), and those of entry after entry: TLC_ERR_CHECKSUM,
 * TLC_ERR_CORRUPT, TLC_ERR_VERSION (of a frame). TLC_ERR_TRANSPORT: read failed. */
TLC_API tlc_status tlc_weights_open(tlc_weights_reader **out, const tlc_weights_reader_config *config);
TLC_API tlc_status tlc_weights_describe(const tlc_weights_reader *r, tlc_weights_info *info);
TLC_API void tlc_weights_close(tlc_weights_reader *r); /* NULL is allowed */

/* Copies the note. dst: cap bytes, at least info.note_len, else TLC_ERR_CAPACITY. TLC_ERR_CHECKSUM: it was altered; dst
 * may have been written. TLC_ERR_TRANSPORT. */
TLC_API tlc_status tlc_weights_note(tlc_weights_reader *r, void *dst, size_t cap);

/* *entry: entry i. Names rise from entry to entry, in the order of bytes. TLC_ERR_PARAM: i is not below count.
 * TLC_ERR_CORRUPT, TLC_ERR_CHECKSUM: the message has changed since it was opened. TLC_ERR_TRANSPORT. */
TLC_API tlc_status tlc_weights_at(tlc_weights_reader *r, uint64_t i, tlc_weights_entry *entry);

/* *frame: the frame of entry i, entry.frame_len bytes, which tlc_delta_check and others check. It lies in the message
 * if that is in memory, and dst may be NULL. Else it is read to dst, of cap bytes, at least entry.frame_len, or
 * TLC_ERR_CAPACITY. TLC_ERR_PARAM: there is no such entry, or it is a view. Others are those of tlc_weights_at. */
TLC_API tlc_status tlc_weights_frame(tlc_weights_reader *r, uint64_t i, void *dst, size_t cap, const void **frame);

/* Copies the values of view i to out, which has as many weights as the view. values: all weights of its root.
 * TLC_ERR_PARAM: there is no such entry, or it is no view. Other errors are those of tlc_weights_at. */
TLC_API tlc_status tlc_weights_copy_view(tlc_weights_reader *r, uint64_t i, const void *values, void *out);

/* The weights of a receiver that an entry is for. */
typedef struct tlc_weights_place {
    const void *base;    /* count weights before the message; ignored if the frame has no base, and for views */
    void *out;           /* where the next ones go: base, or memory apart from it. NULL: the tensor is not wanted, or it
                            is a view and shares its memory with the root */
    size_t first, count; /* the weights first .. first + count - 1 of the tensor, such as a shard; of views all */
} tlc_weights_place;

/* Fills *place, which is zeros, for an entry. Returns 0, or another number to end the call with TLC_ERR_TRANSPORT. It
 * is called several times for each entry, and gives the same place each time. */
typedef int (*tlc_weights_find)(void *opaque, const tlc_weights_entry *entry, tlc_weights_place *place);

/* Takes the weights of a receiver to those after the message, all of them or none: all places, frames and bases are
 * checked before the first write. The base of a part of a tensor cannot be checked. frame: memory for a frame, cap
 * bytes, at least info.frame_max, else TLC_ERR_CAPACITY; NULL and 0 if the message is in memory. Whether the message is
 * in order is the caller's to ask: tlc_weights_follows.
 * Errors are those of tlc_delta_apply and tlc_weights_frame. TLC_ERR_PARAM: also a view whose root is not there, or not
 * all of it. Weights are half written only if the call is cut off, as when a read fails that went well before, or if
 * the message or the weights change during the call. The same message completes what was cut off: tensors with base ==
 * out that have their result already stay as they are. Of parts of tensors that is not known. */
TLC_API tlc_status tlc_weights_apply(tlc_weights_reader *r, tlc_weights_find find, void *opaque, void *frame,
                                     size_t cap);

/* The last message that a receiver has taken; zeros: none. */
typedef struct tlc_weights_heard {
    unsigned char trainer[TLC_WEIGHTS_TRAINER_SIZE]; /* of tlc_weights_info */
    uint64_t sequence;                               /* of tlc_weights_info, too */
} tlc_weights_heard;

/* May a receiver take this message now? TLC_OK: it is the next one, or has all weights and is not old, or it is the
 * first. TLC_ERR_ORDER: it is old, or came twice. TLC_ERR_BASE: one before it was missed, or it is of another trainer,
 * and it does not have all weights. After tlc_weights_apply the caller sets *heard to the message's. message:
 * message_cap bytes for the reason, or NULL. */
TLC_API tlc_status tlc_weights_follows(const tlc_weights_info *info, const tlc_weights_heard *heard, char *message,
                                       size_t message_cap);

#ifdef __cplusplus
}
#endif
#endif
