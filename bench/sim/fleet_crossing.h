/* SPDX-License-Identifier: MIT
 *
 * What crosses between the device of rank 0 and its host: it is taken from frames. A context of the codec stands for
 * the kernels that quantize.
 */
#ifndef SIM_FLEET_CROSSING_H
#define SIM_FLEET_CROSSING_H

#include "kernels.h"
#include <stdbool.h>
#include <threelc/frames.h>

/* Positions and values, which rise. */
typedef struct members {
    uint64_t *positions;
    float *values;
    size_t k, room;
} members;

/* A part of the model that has a frame of its own, in pushes or in answers. */
typedef struct crossing {
    size_t tensor, first, n;
    unsigned char *bytes; /* that cross: quartic bytes, or a payload */
    size_t size, room;
    size_t quartic, nonzero; /* quartic bytes of 3-value symbols; with Golomb codes, how many symbols are not 0 */
    float *scalars;          /* with quartic bytes one for each block, with payloads 2 */
    size_t blocks;
    members chosen; /* or these cross */
    /* of what is quantized: */
    tlc_ctx *quantizer, *other; /* other: of the sign that is not sent; NULL: the codec chooses at once */
    float *residual;            /* the caller's */
    float *sent;                /* what members decode to */
    size_t sent_room;
    unsigned char *frame;
    size_t bound;
} crossing;

/* What quantizes the parts of pushes, or of answers. */
typedef struct crossing_device {
    kernels kernels;      /* of their codec */
    unsigned char *frame; /* with room for the largest */
    float *values;        /* of the largest part: residual + gradient */
    members sides[2];
} crossing_device;

void crossing_free_members(members *m);
/* An array from malloc; NULL is allowed. */
void crossing_free_all(crossing *all, size_t count);
/* Whether a call of the library did what it should. If not, why says which. */
bool crossing_done(tlc_status status, const char *call, char *why);
/* What crosses of the n values that it has, in this form. False: out of memory, or there is no such codec. */
bool crossing_make_room(crossing *c, const char *codec, size_t block, kernel_form form);
/* Takes what crosses from a frame. */
bool crossing_take(crossing *c, kernel_form form, const unsigned char *frame, size_t len, char *why);
/* How many Golomb codes crossed; 0 if they would have had more bytes than quartic ones. */
size_t crossing_codes(const crossing *c);
/* What the device makes of its part of a gradient. */
bool crossing_quantize(crossing_device *d, crossing *c, const float *grad, char *why);
#endif
