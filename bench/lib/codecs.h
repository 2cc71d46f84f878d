/* SPDX-License-Identifier: MIT
 *
 * What the benchmark needs to know about codecs. It asks the library's list (tlc_codec_list) and the codecs
 * themselves, so there is no second list here.
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

/* Adds every complete codec, in the order of the library's list: short names, stages that turn floats into bytes, and
 * compositions of stages, some of them also with other parameters. A composition that has a short name is left out. No
 * codec is added twice. false: the set is full. */
bool codecs_all(codec_set *set);

/* Prints the library's list, then the codecs of codecs_all and the rows of papers.h. */
void codecs_print(FILE *f);

/* Whether it is a codec. If not, why (WHY_SIZE bytes) says what is wrong with it as the value of an option (--codec,
 * --pull ...), and which word was probably meant. sets: what else the option takes, as "all"; NULL ends it.
 * NULL: nothing else. */
bool codec_check(const char *option, const char *codec, const char *const *sets, char *why);

/* Whether the receiver gets the very bits of the gradient. */
bool codec_is_raw(const char *codec);
/* The name of the stage that takes the floats, as "ternary" of 3lc. name: CODEC_SIZE bytes. false: there is no such
 * codec. */
bool codec_quantizer(const char *codec, char *name);
/* The other stages: quartic+zerorun of 3lc, nothing of natural. stages: CODEC_SIZE bytes. false: there is no such
 * codec. */
bool codec_stages(const char *codec, char *stages);
/* Whether the codec takes values that are not finite. */
bool codec_takes_nonfinite(const char *codec, int feedback);
/* Whether there is error feedback. feedback: as in tlc_config. */
bool codec_has_residual(const char *codec, int feedback);
/* Whether the codec draws a random word for each value. */
bool codec_is_stochastic(const char *codec);
/* Whether frames depend on the seed: the codec draws random words, also if only for a sample of the values. */
bool codec_uses_seed(const char *codec);

/* Whether gossip takes it: it has no bias and no error feedback. */
bool codec_suits_gossip(const char *codec);

/* The sparsity multiplier s; NaN: the codec has none. */
double codec_scale(const char *codec);

/* Whether tlc_natural_aggregate takes its frames. */
bool codec_aggregates(const char *codec);

/* What a codec turns floats into first. */
typedef enum codec_symbols { SYMBOLS_OTHER, SYMBOLS_TERNARY, SYMBOLS_BINARY } codec_symbols;
codec_symbols codec_symbols_of(const char *codec);

/* The order-0 entropy, in bits, of n symbols, of which `nonzero` are not zero: with p = nonzero / n it is
 * n (-p log2 p - (1 - p) log2(1 - p)), and a bit more for each sign if the symbols have signs. */
double codec_entropy(codec_symbols symbols, uint64_t n, uint64_t nonzero);
#endif
