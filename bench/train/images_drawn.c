/* SPDX-License-Identifier: MIT
 *
 * Drawn images, for runs without data. Each class has a pattern of bright pixels. An image shows half of them in
 * changing brightness, and a few bright pixels elsewhere.
 */
#include "../lib/explain.h"
#include "images.h"
#include "random.h"
#include <stdlib.h>
#include <string.h>

enum { PATTERN = 120, STRAY = 60 }; /* pixels of a class, and those that belong to none: MNIST has about 150 together */

static void draw_pattern(uint16_t pattern[PATTERN], uint64_t *state)
{
    for (int i = 0; i < PATTERN; i++)
        pattern[i] = (uint16_t)random_below(state, PIXELS);
}

static void draw_image(uint8_t pixels[PIXELS], const uint16_t pattern[PATTERN], uint64_t *state)
{
    memset(pixels, 0, PIXELS);
    for (int i = 0; i < STRAY; i++)
        pixels[random_below(state, PIXELS)] = (uint8_t)random_below(state, 256);
    for (int i = 0; i < PATTERN; i++)
        if (random_below(state, 2))
            pixels[pattern[i]] = (uint8_t)(128 + random_below(state, 128));
}

bool images_draw(image_set *s, uint32_t count, uint64_t class_seed, uint64_t seed, char *why)
{
    uint16_t patterns[CLASSES][PATTERN];

    *s = (image_set){.count = count, .pixels = malloc((size_t)count * PIXELS), .labels = malloc(count)};
    if (!s->pixels || !s->labels) {
        images_free(s);
        return explain(why, "out of memory");
    }
    for (int i = 0; i < CLASSES; i++)
        draw_pattern(patterns[i], &class_seed);
    for (uint32_t i = 0; i < count; i++) {
        s->labels[i] = (uint8_t)random_below(&seed, CLASSES);
        draw_image(s->pixels + (size_t)i * PIXELS, patterns[s->labels[i]], &seed);
    }
    return true;
}
