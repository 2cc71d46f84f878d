/* SPDX-License-Identifier: MIT
 *
 * The command line of tlc-sim.
 */
#ifndef SIM_OPTIONS_H
#define SIM_OPTIONS_H

#include "../lib/codecs.h"
#include "../lib/grid.h"
#include "../lib/parse.h"
#include "../lib/program.h"
#include "../lib/source.h"
#include "link_model.h"
#include "sim_kind.h"

enum { MAX_MODELS = 8, MAX_SIM_RANKS = 1024, MAX_LOCAL_STEPS = 1000000 };

typedef struct sim_options {
    command command;
    const char *shapes[MAX_MODELS]; /* lists of tensors (shapes.h) */
    size_t shape_count;
    sim_choice choice;
    size_list ranks;
    model_link links[MAX_LIST];
    size_t link_count;
    model_link server_link;  /* 0: as those of the ranks */
    model_link site_link;    /* 0: as those of the ranks */
    const char *device_text; /* of --device; NULL: gradients are on the host */
    model_device device;
    double latency, compute; /* seconds */
    double site_latency;     /* below 0: as latency */
    size_t local_steps;      /* in a round; 0: an exchange in every step */
    const char *traces;      /* gradients are made of these; NULL: they are drawn */
    source_options source;
    size_t warmup, rounds;
    size_t memory;           /* bytes that machines may take; 0: half of what there is */
    const char *memory_text; /* as it was given; NULL: it was not */
    tlc_isa isa;
    report_format format;
    bool wide, quiet;
} sim_options;

/* false: why (WHY_SIZE bytes, explain.h) says what is wrong. o has pointers into argv and into itself, so it must not
 * be moved. */
bool sim_options_parse(sim_options *o, int argc, char **argv, char *why);

extern const option_table sim_options_table;
#endif
