/* SPDX-License-Identifier: MIT */
#include "setup_check.h"
#include "../../codec/codec.h"
#include "refusal.h"

/* ---- codecs ------------------------------------------------------------------------------------------------------ */

/* The codecs of `reserve`, one after the other. */
static tlc_status check_reserve(const tlc_setup *x)
{
    const char *list = x->cfg.reserve;
    char codec[TLC_CODEC_TEXT + 1];

    for (const char *at = list && *list ? list : NULL; at;) {
        size_t len = strcspn(at, ";"), kept = len < TLC_CODEC_TEXT ? len : TLC_CODEC_TEXT; /* too long all the same */
        memcpy(codec, at, kept);
        codec[kept] = 0;
        tlc_status status = tlc_refuse_codec(x, TLC_ALL, "reserve", codec);
        if (status)
            return status;
        at = at[len] ? at + len + 1 : NULL;
    }
    return TLC_OK;
}

static tlc_status check_codecs(const tlc_setup *x)
{
    tlc_status status = tlc_refuse_codec(x, TLC_ALL, "push", x->cfg.push);

    if (!status && x->cfg.pull)
        status = tlc_refuse_codec(x, TLC_ALL, "pull", x->cfg.pull);
    return status ? status : check_reserve(x);
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

/* A field of the configuration, and what it may be. */
typedef struct field {
    const char *name;
    int64_t value, low, high;
} field;

static tlc_status check_fields(const tlc_setup *x, const field *fields, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const field *f = &fields[i];
        const char *sign = f->value < 0 ? "-" : "", *kind = tlc_kind_words(x->kind);
        unsigned long long size = (unsigned long long)(f->value < 0 ? -f->value : f->value);
        unsigned long long low = (unsigned long long)f->low, high = (unsigned long long)f->high;
        if (f->value >= f->low && f->value <= f->high)
            continue;
        if (low == high)
            return tlc_refuse(x, TLC_ERR_PARAM, TLC_ALL, "%s is %s%llu; in %s it is %llu", f->name, sign, size, kind,
                              low);
        return tlc_refuse(x, TLC_ERR_PARAM, TLC_ALL, "%s is %s%llu; in %s it is %llu to %llu", f->name, sign, size,
                          kind, low, high);
    }
    return TLC_OK;
}

tlc_status tlc_setup_check(const tlc_setup *x)
{
    const tlc_exchange_config *c = &x->cfg;
    const int servers = x->kind == TLC_EXCHANGE_SERVERS, gossip = tlc_is_gossip(x->kind);
    const int64_t ranks = x->role == TLC_ROLE_SERVER ? c->servers : c->workers;
    const field fields[] = {
        {"workers", c->workers, 1, TLC_RANKS_MAX},
        {"servers", c->servers, servers, servers ? TLC_RANKS_MAX : 0},
        {tlc_role_word(x->role), x->rank, 0, ranks - 1},
        {"owners", c->owners, 0, x->kind == TLC_EXCHANGE_ALLREDUCE ? UINT32_MAX : 0},
        {"keep", c->keep, 1, UINT32_MAX},
        {"backup", c->backup, 0, servers ? (int64_t)c->workers - 1 : 0},
        {"gather", c->gather, 0, !servers && !gossip},
        {"sum", c->sum, 0, !gossip},
        {"assume_finite", c->assume_finite, 0, 1},
        {"dtype", (int)c->dtype, TLC_F32, gossip ? TLC_F32 : TLC_BF16},
        {"isa", (int)c->isa, TLC_ISA_AUTO, TLC_ISA_NEON},
    };
    tlc_status status = check_fields(x, fields, sizeof fields / sizeof fields[0]);

    if (status)
        return status;
    if (!c->split_n)
        return tlc_refuse(x, TLC_ERR_PARAM, TLC_ALL, "split_n is 0; it is at least 1");
    if (gossip && c->pull)
        return tlc_refuse(x, TLC_ERR_PARAM, TLC_ALL, "pull is set, but in gossip there are no answers");
    if (!c->alloc.alloc != !c->alloc.free)
        return tlc_refuse(x, TLC_ERR_PARAM, TLC_ALL, "of alloc, only %s is given", c->alloc.alloc ? "alloc" : "free");
    if (tlc_kernels_fault())
        return tlc_refuse(x, TLC_ERR_UNSUPPORTED, TLC_ALL, "%s", tlc_kernels_fault());
    if (!tlc_kernels_for(c->isa))
        return tlc_refuse(x, TLC_ERR_UNSUPPORTED, TLC_ALL, "this machine does not have isa %u", (unsigned)c->isa);
    return check_codecs(x);
}
