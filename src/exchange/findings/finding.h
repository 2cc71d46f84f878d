/* SPDX-License-Identifier: MIT
 *
 * What went wrong, who is at fault, and the sentence that says it.
 */
#ifndef TLC_FINDING_H
#define TLC_FINDING_H

#include "../../codec/text.h"
#include "kinds.h"
#include <threelc/exchange.h>

/* The numbers are part of the layout of messages and never change. */
typedef enum tlc_reason {
    TLC_REASON_NONE = 0,
    TLC_REASON_GRADIENT = 1, /* of a tensor: not finite */
    TLC_REASON_SUM = 2,      /* residual + gradient of a tensor: not finite */
    TLC_REASON_MEAN = 3,     /* of a tensor, or residual + mean: not finite */
    TLC_REASON_DELTA = 4,    /* of a tensor, or residual + delta: not finite */
    TLC_REASON_MISSING = 5,  /* no message came */
    TLC_REASON_CORRUPT = 6,
    TLC_REASON_CHECKSUM = 7,
    TLC_REASON_VERSION = 8,
    TLC_REASON_KIND = 9, /* of another object or phase */
    TLC_REASON_FINGERPRINT = 10,
    TLC_REASON_SENDER = 11,   /* got: who sent it */
    TLC_REASON_STEP = 12,     /* got: its step */
    TLC_REASON_FRAME = 13,    /* of a tensor: bad */
    TLC_REASON_RECEIVER = 14, /* got: who should have it */
    TLC_REASON_MOVED = 15,    /* of a tensor: where a node moved to, or its new model, is not finite */
    /* these are not sent */
    TLC_REASON_WEIGHT,  /* a node has another weight for our edge */
    TLC_REASON_ROW,     /* the weights of a node do not add up to 1 */
    TLC_REASON_REPLICA, /* of a tensor of a node: not finite */
    TLC_REASON_MODEL,   /* the model of a node is not our replica */
    TLC_REASON_START,   /* of a tensor of a model of the caller: not finite */
    TLC_REASON_TWICE,   /* another message for the same step */
    TLC_REASON_TAKEN,   /* owners do not agree who took part */
    TLC_REASON_SAID,    /* a call was refused: the sentence is in the report (refusal.h) */
    TLC_REASON_CANCELLED,
    TLC_REASON_STATE_TWICE, /* rank: it has two states */
    TLC_REASON_STATE_STEP,  /* got, step: two states have different steps */
    TLC_REASON_NAMES        /* no error: a state was loaded */
} tlc_reason;

typedef struct tlc_finding {
    tlc_reason reason;
    tlc_status cause;
    tlc_role role;
    uint32_t rank;    /* at fault, or TLC_NOBODY */
    uint32_t told_by; /* who found it; TLC_NOBODY: this object */
    size_t tensor;    /* at fault, or TLC_ALL */
    uint64_t got;
} tlc_finding;

/* `got` with this bit says more of three reasons: of CORRUPT which format the bytes have (formats.h), of VERSION which
 * version, of KIND in the lowest byte what it is (src/docs/format.md), and above it what it should be. */
#define TLC_GOT_MORE (UINT64_C(1) << 40)

#define TLC_SENTENCE sizeof((tlc_outcome *)0)->sentence

/* What `_outcome` tells: a finding, and how the call ended. */
typedef struct tlc_report {
    tlc_status status;
    tlc_finding finding;
    uint64_t step;
    int has_taken;
    uint8_t *taken;          /* TLC_BITMAP(workers) bytes */
    size_t unknown, missing; /* after a state was loaded: entries without a place, tensors without an entry */
    char unknown_name[64];   /* the first of these names, perhaps cut */
    char said[TLC_SENTENCE]; /* SAID: the sentence. NAMES: the states that are lost, or nothing */
} tlc_report;

/* Messages have steps 1 .. TLC_STEP_MAX. A run begins, or goes on from a state, with a step up to TLC_STEP_START, and
 * counts from there without a check: nothing takes 2^62 steps. */
#define TLC_STEP_MAX (UINT64_MAX / 2)
#define TLC_STEP_START (UINT64_C(1) << 62)

static inline int tlc_step_valid(uint64_t step)
{
    return step - 1 < TLC_STEP_MAX;
}

/* Can an object go on with this step? */
static inline int tlc_step_starts(uint64_t step)
{
    return step - 1 < TLC_STEP_START;
}

#define TLC_BITMAP(workers) (((size_t)(workers) + 7) / 8)

/* A finding without rank and tensor, with the status that belongs to its reason. */
tlc_finding tlc_finding_of(tlc_reason reason);

/* A report of a call in `step`. */
static inline void tlc_report_set(tlc_report *r, uint64_t step, tlc_status status, const tlc_finding *finding)
{
    r->status = status;
    r->finding = *finding;
    r->step = step;
    r->has_taken = 0;
    r->unknown = r->missing = 0;
    if (finding->reason != TLC_REASON_SAID)
        r->said[0] = 0;
}

/* Copies a report, but not who was taken. */
static inline void tlc_report_copy(tlc_report *to, const tlc_report *from)
{
    uint8_t *taken = to->taken;

    *to = *from;
    to->taken = taken;
    to->has_taken = 0;
}

/* An entry of a state, with this name, has no place. */
static inline void tlc_report_unknown(tlc_report *r, const uint8_t *name, size_t len)
{
    size_t most = sizeof r->unknown_name - 1;

    if (r->unknown++)
        return;
    memcpy(r->unknown_name, name, len < most ? len : most);
    r->unknown_name[len < most ? len : most] = 0;
}

/* Writes "rank 3", or "unknown rank". */
void tlc_say_who(tlc_text *w, tlc_role role, uint32_t rank);

/* Writes a name in quotes. Long names are cut, so that the sentence ends. */
void tlc_say_name(tlc_text *w, const char *name);

/* Writes the sentence of a report. name: of the tensor at fault, or NULL. */
void tlc_report_sentence(const tlc_report *r, const char *name, char *text, size_t cap);
#endif
