/* SPDX-License-Identifier: MIT */
#include "setup.h"
#include "../../codec/codec.h"
#include "../../common/bytes.h"
#include "../../common/hash.h"
#include "../../common/structs.h"

/* ---- names ------------------------------------------------------------------------------------------------------- */

size_t *tlc_setup_slot(const tlc_setup *x, const char *name, size_t len)
{
    size_t at = (size_t)tlc_hash(name, len, 0);

    for (;; at++) {
        size_t *slot = &x->by_name[at & (x->names - 1)];
        const char *found = *slot ? x->tensors[*slot - 1].name : NULL;
        if (!found || (strlen(found) == len && memcmp(found, name, len) == 0))
            return slot;
    }
}

size_t tlc_setup_find(const tlc_setup *x, const char *name, size_t len)
{
    return *tlc_setup_slot(x, name, len) - 1; /* 0 - 1 is TLC_ALL */
}

/* ---- codecs ------------------------------------------------------------------------------------------------------ */

enum { FEEDBACK = 1, BIAS = 2, NO_CODEC = 4 };

/* Does one of these codecs, with ';' between them, have error feedback by default, or a bias, or is it no codec? */
static int traits_of(const char *list)
{
    int traits = 0;

    for (const char *at = list && *list ? list : NULL; at && !(traits & NO_CODEC);) {
        size_t len = strcspn(at, ";");
        tlc_codec codec;
        if (tlc_codec_parse(&codec, at, len, NULL))
            traits = NO_CODEC;
        else
            traits |= (codec.quantizer->quantize->feedback ? FEEDBACK : 0) | (tlc_codec_unbiased(&codec) ? 0 : BIAS);
        at = at[len] ? at + len + 1 : NULL;
    }
    return traits;
}

int tlc_setup_feedback(const tlc_setup *x, size_t tensor, tlc_direction direction)
{
    const tlc_setup_tensor *t = &x->tensors[tensor];
    int traits = traits_of(t->codec[direction]) | traits_of(x->cfg.reserve);

    return !tlc_is_gossip(x->kind) && (t->small[direction] || (traits & FEEDBACK));
}

int tlc_setup_allows(const tlc_setup *x, const char *codecs)
{
    return !(traits_of(codecs) & (tlc_is_gossip(x->kind) ? FEEDBACK | BIAS | NO_CODEC : NO_CODEC));
}

/* ---- hashes ------------------------------------------------------------------------------------------------------ */

static uint64_t mix(uint64_t hash, const void *bytes, size_t len)
{
    return tlc_hash(bytes, len, hash);
}

static uint64_t mix_number(uint64_t hash, uint64_t number)
{
    uint8_t bytes[8];

    tlc_store64(bytes, number);
    return mix(hash, bytes, sizeof bytes);
}

static uint64_t mix_text(uint64_t hash, const char *text)
{
    return mix(mix_number(hash, strlen(text)), text, strlen(text));
}

uint64_t tlc_setup_fingerprint(const tlc_setup *x)
{
    uint64_t split_n = x->cfg.split_n < UINT32_MAX ? x->cfg.split_n : UINT32_MAX; /* SIZE_MAX differs */
    const uint64_t numbers[] = {x->kind, x->cfg.workers, x->cfg.servers, x->owners, (uint64_t)x->cfg.sum,
                                split_n, x->count};
    uint64_t hash = TLC_MESSAGE_VERSION;

    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        hash = mix_number(hash, numbers[i]);
    for (size_t i = 0; i < x->count; i++) {
        const tlc_setup_tensor *t = &x->tensors[i];
        hash = mix_number(mix_number(mix_text(hash, t->name), t->n), t->pusher);
        for (int d = TLC_PUSH; d <= TLC_PULL; d++)
            hash = mix_number(mix_text(hash, t->codec[d]), (uint64_t)t->small[d]);
    }
    return hash;
}

uint64_t tlc_setup_seed(const tlc_setup *x, const tlc_ownership_part *part, tlc_direction direction)
{
    uint64_t hash = mix_number(mix_number(mix_number(x->cfg.seed, x->rank), direction), part->first);

    return mix_text(hash, x->tensors[part->tensor].name);
}

/* ---- what callers are told --------------------------------------------------------------------------------------- */

tlc_status tlc_setup_outcome(const tlc_setup *x, const tlc_report *r, tlc_outcome *outcome)
{
    tlc_outcome ours = {.status = r->status,
                        .cause = r->finding.cause,
                        .step = r->step,
                        .rank = r->finding.rank,
                        .tensor = r->finding.tensor,
                        .taken = r->has_taken ? r->taken : NULL,
                        .workers = x->cfg.workers,
                        .unknown = r->unknown,
                        .missing = r->missing};

    if (!outcome || outcome->struct_size < sizeof outcome->struct_size)
        return TLC_ERR_PARAM;
    const char *name = ours.tensor < x->count ? x->tensors[ours.tensor].name : NULL;
    tlc_report_sentence(r, name, ours.sentence, sizeof ours.sentence);
    tlc_export(outcome, &ours, sizeof ours);
    return TLC_OK;
}
