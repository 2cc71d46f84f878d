/* SPDX-License-Identifier: MIT
 *
 * Turns the text of an option into its value. false: the text is not such a value.
 */
#ifndef BENCH_PARSE_H
#define BENCH_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <threelc/threelc.h>

enum { MAX_LIST = 32 };

/* 4Ki,64Ki,... */
typedef struct list {
    size_t count;
    size_t items[MAX_LIST];
} size_list;

/* Digits; if suffixes are allowed, Ki or Mi may follow. */
bool parse_number(const char *text, bool suffixes, uint64_t *number);
bool parse_size(const char *text, size_t *size); /* with suffixes */
bool parse_list(const char *text, size_list *l); /* sizes, separated by commas */
/* Sizes, each from 1 to most. */
bool parse_counts(const char *text, size_t most, size_list *l);
bool parse_seconds(const char *text, double *seconds);
/* Calls take for each item of a list with commas. false: it did, or an item is too long. */
bool parse_items(const char *text, bool (*take)(void *to, const char *item), void *to);
/* Of an option in milliseconds. */
bool parse_milliseconds(const char *text, double *seconds);
/* The index of text among names; NULL ends them. */
bool parse_choice(const char *text, const char *const *names, int *choice);
bool parse_isa(const char *text, tlc_isa *isa); /* its name */
#endif
