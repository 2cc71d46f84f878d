/* SPDX-License-Identifier: MIT
 *
 * Kinds of exchange as the command line names them: a kind of layout, and what comes after its colon.
 */
#ifndef SIM_KIND_H
#define SIM_KIND_H

#include "../lib/codecs.h"
#include "../lib/parse.h"
#include "layout.h"

enum { MIN_RANKS = 2, MAX_SERVERS = 64, KIND_TEXT = 32 };

/* A kind of layout with its number of servers, or of owners if not all ranks are owners, of ranks of a site,
 * or its graph. */
typedef struct sim_kind {
    const layout_kind *kind;
    size_t servers, owners, site;
    tlc_graph_kind graph;
} sim_kind;

/* Whether the codec goes with it. */
static inline bool sim_kind_takes(const sim_kind *kind, const char *codec)
{
    return !kind->kind->takes || kind->kind->takes(codec);
}

/* As on the command line. buffer: KIND_TEXT bytes. */
const char *sim_kind_text(const sim_kind *kind, char *buffer);

/* Which kinds with which codecs. */
typedef struct sim_choice {
    sim_kind kinds[MAX_LIST];
    size_t kind_count;
    const char *codecs[MAX_CODECS];
    size_t codec_count;
    codec_set all; /* the codecs of "all", if it was given */
} sim_choice;

/* false: why (WHY_SIZE bytes) says what is wrong. */

bool sim_choice_add_codec(sim_choice *c, const char *codec, char *why);
/* A name, and perhaps a colon and a number or a graph. sites: kinds with sites are taken, too. */
bool sim_choice_add_kind(sim_choice *c, const char *text, bool sites, char *why);

/* Kinds and codecs where none were named. Kinds that take only codecs without bias and feedback have those of
 * `unbiased`, which NULL ends. */
void sim_choice_set_defaults(sim_choice *c, const char *const *unbiased);

/* Whether all codecs are codecs, each kind takes some of them, and each codec goes with some kind, so that nothing is
 * left out unsaid. Codecs of "all" may be left out. sets: as for codec_check. */
bool sim_choice_check(const sim_choice *c, const char *const *sets, char *why);

bool sim_choice_has_servers(const sim_choice *c);
#endif
