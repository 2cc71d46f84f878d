/* SPDX-License-Identifier: MIT
 *
 * Kinds of exchange as the command line names them: a kind of layout, and what comes after its colon.
 */
#ifndef SIM_KIND_H
#define SIM_KIND_H

#include "../lib/codecs.h"
#include "layout.h"

enum { MIN_RANKS = 2, MAX_SERVERS = 64, KIND_TEXT = 32 };

/* A kind of layout with its number of servers, or of owners if not all ranks are owners, of ranks of a site,
 * or its graph. */
typedef struct sim_kind {
    const layout_kind *kind;
    size_t servers, owners, site;
    tlc_graph_kind graph;
} sim_kind;

/* Whether each of the kinds takes some codec, and each codec goes with some kind: nothing is left out unsaid. Codecs of
 * the set `all` may be left out. false: why says what does not. */
bool sim_kind_check(const sim_kind *kinds, size_t kind_count, const char *const *codecs, size_t codec_count,
                    const codec_set *all, char *why);

/* Whether the codec goes with it. */
static inline bool sim_kind_takes(const sim_kind *kind, const char *codec)
{
    return !kind->kind->takes || kind->kind->takes(codec);
}

/* A name, and perhaps a colon and a number or a graph. sites: kinds with sites are taken, too. false: the text is no
 * such kind, and why (WHY_SIZE bytes) says which there are. */
bool sim_kind_parse(const char *text, bool sites, sim_kind *kind, char *why);

/* As on the command line. buffer: KIND_TEXT bytes. */
const char *sim_kind_text(const sim_kind *kind, char *buffer);
#endif
