/* SPDX-License-Identifier: MIT
 *
 * The stages of codecs.def, for tests of codec strings.
 */
#ifndef TLC_TEST_STAGE_LIST_H
#define TLC_TEST_STAGE_LIST_H

#include "../support/support.h"

enum { ROOM = 512 };

enum { FEEDBACK = 1, SYMBOLS = 2, SPARSE = 4 };

/* The lines STAGE of codecs.def: short names and stages in the order of tlc_codec_list. */
#define STAGE(name, kind, takes, gives, parameters, facts) {name, TLC_ENTRY_##kind, takes, gives, parameters, facts},
static const struct {
    const char *name;
    tlc_entry_kind kind;
    const char *takes, *gives, *parameters;
    unsigned facts;
} stages[] = {
#include "../codecs.def"
};

/* Does stage i take what is given, and is it a stage rather than a short name? */
static inline int takes(size_t i, const char *given)
{
    return stages[i].kind != TLC_ENTRY_SHORT_NAME && strchr(stages[i].takes, *given);
}

/* Is it a payload, so that a codec may end here? */
static inline int is_bytes(const char *given)
{
    return strchr("bqm", *given) != NULL;
}

/* Appends a packer to a codec string that gives no bytes yet. */
static inline void complete(char text[ROOM], const char *gives)
{
    for (size_t i = 0; i < COUNT(stages) && !is_bytes(gives); i++)
        if (takes(i, gives)) {
            strcat(strcat(text, "+"), stages[i].name);
            gives = stages[i].gives;
        }
}
#endif
