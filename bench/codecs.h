/* SPDX-License-Identifier: MIT
 *
 * What the benchmark wants to know of codecs. The library's list (tlc_codec_list) and the codecs themselves are asked:
 * there is no second list here.
 */
#ifndef BENCH_CODECS_H
#define BENCH_CODECS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <threelc/threelc.h>

enum { CODEC_SIZE = 128, MAX_CODECS = 64 };

/* Codec strings. */
typedef struct codec_set {
    size_t count;
    char codecs[MAX_CODECS][CODEC_SIZE];
} codec_set;

/* Adds every complete codec, in the order of the library's list: short names and stages that make bytes of floats,
 * compositions of stages (one that is a short name's is left out), and beside them some with other parameters. Those that
 * are in the set already are not added again. false: there is no more room. */
bool codecs_all(codec_set *set);

/* The library's list, and then the codecs of codecs_all. */
void codecs_print(FILE *f);

/* Whether what is sent comes back bit for bit. */
bool codec_is_raw(const char *codec);
/* Whether the codec takes values that are not finite. */
bool codec_takes_nonfinite(const char *codec, int feedback);
/* Whether there is error feedback; feedback as tlc_config has it. */
bool codec_has_residual(const char *codec, int feedback);
/* Whether there is a random word for each value. */
bool codec_is_stochastic(const char *codec);

/* Whether tlc_natural_aggregate takes its frames. */
bool codec_aggregates(const char *codec);

/* What a codec makes of floats first. */
typedef enum codec_symbols { SYMBOLS_OTHER, SYMBOLS_TERNARY, SYMBOLS_BINARY } codec_symbols;
codec_symbols codec_symbols_of(const char *codec);

/* The order-0 entropy, in bits, of n symbols of which so many are not zero: n (-p log2 p - (1 - p) log2(1 - p)) and, if
 * they have one, a bit for each sign. */
double codec_entropy(codec_symbols symbols, uint64_t n, uint64_t nonzero);
#endif
