/* SPDX-License-Identifier: MIT
 *
 * Turns the text of an option into its value, the same in all programs. false: the text is no such value. Then why
 * (WHY_SIZE bytes, explain.h) says which values there are, in the words "it is ...", and which of them was probably
 * meant. The caller puts before it what was given.
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

/* Digits. */
bool parse_number(const char *text, uint64_t least, uint64_t most, uint64_t *number, char *why);
/* Digits, perhaps with Ki, Mi or Gi: 4Ki is 4096. */
bool parse_size(const char *text, size_t least, size_t most, size_t *size, char *why);
/* Sizes, separated by commas. */
bool parse_list(const char *text, size_t least, size_t most, size_list *l, char *why);
/* Takes each item of a list with commas, which may have at most MAX_LIST. */
bool parse_items(const char *text, bool (*take)(void *to, const char *item, char *why), void *to, char *why);

/* A finite number above 0. */
bool parse_positive(const char *text, double *number, char *why);

/* 2s, 30ms, 50us, 500ns, 1min or a bare number, whose unit is `unit` seconds: 1 or 1e-3. s may be sec, and
 * there may be a blank before the unit. */
bool parse_time(const char *text, double unit, double *seconds, char *why);

/* Rates of links, to bytes a second. Bits are written 10Mbit, 10Mbit/s or 10Mbps, bytes 10MB/s or 10MBps; also bits,
 * byte/s, bytes/s and /sec, and there may be a blank before the unit. There are k, M, G and T, which are powers of 1000
 * and may be small or capital; so may bit and byte, not bps and B. One rate is that of both directions; 1Mbit/10Mbit is
 * up and down. */
bool parse_rate(const char *text, double *bytes, char *why);
bool parse_link(const char *text, double *up, double *down, char *why);

/* The index of text among names; NULL ends them. */
bool parse_choice(const char *text, const char *const *names, int *choice, char *why);
bool parse_isa(const char *text, tlc_isa *isa, char *why); /* its name */

/* Adds "; did you mean WORD?" to why if one of the names is near to the text. NULL ends them. before: stands before the
 * word. Returns whether one is. */
bool parse_suggest(const char *text, const char *before, const char *const *names, char *why);
#endif
