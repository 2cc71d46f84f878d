/* SPDX-License-Identifier: MIT
 *
 * The designs that the papers report on, under the names that the papers give them: the rows of -c papers.
 */
#ifndef BENCH_PAPERS_H
#define BENCH_PAPERS_H

#include <stddef.h>
#include <stdio.h>

/* A codec, and how it is used. */
typedef struct design {
    const char *codec;
    const char *paper; /* what the paper calls it; NULL: it is from no paper */
    int feedback;      /* as in tlc_config; -1: that of all rows */
    size_t delay;      /* steps for each frame; 0: that of all rows */
} design;

/* In the order of the papers' tables. */
const design *papers(size_t *count);

/* Prints a line for each: name, codec, and what is not the codec's default. */
void papers_print(FILE *f);
#endif
