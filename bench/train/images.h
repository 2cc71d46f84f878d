/* SPDX-License-Identifier: MIT
 *
 * Images of digits: 28 x 28 pixels and a label. They are read from the idx files of MNIST or drawn at random.
 */
#ifndef TRAIN_IMAGES_H
#define TRAIN_IMAGES_H

#include <stdbool.h>
#include <stdint.h>

enum { SIDE = 28, PIXELS = SIDE * SIDE, CLASSES = 10 };

typedef struct image_set {
    uint32_t count;  /* at least 1 */
    uint8_t *pixels; /* count x PIXELS */
    uint8_t *labels; /* count, below CLASSES */
} image_set;

/* Reads FOLDER/PREFIX-images-idx3-ubyte and FOLDER/PREFIX-labels-idx1-ubyte, each with or without ".gz". */
bool images_read(image_set *s, const char *folder, const char *prefix, char *why);

/* Draws count images of ten classes. Equal class_seeds give equal classes; seed chooses the images. */
bool images_draw(image_set *s, uint32_t count, uint64_t class_seed, uint64_t seed, char *why);

void images_free(image_set *s);
#endif
