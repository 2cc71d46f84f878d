/* SPDX-License-Identifier: MIT */
#include "exchange_scene.h"

void scene_open(scene *s, const tlc_exchange_config *cfg, const tlc_tensor *tensors)
{
    fleet_open(&s->f, cfg, tensors, 1);
    ledger_open(&s->l, &s->f);
    for (uint64_t step = 1; step <= 2; step++)
        ledger_step(&s->l, step);
    require_pulled(&s->f, TLC_OK);
    ledger_check(&s->l);
    for (uint32_t w = 0; w < RANKS; w++) {
        s->failed[w] = member_stats(s->f.worker[w]).failed;
        s->steps[w] = member_stats(s->f.worker[w]).steps;
    }
}

void require_steps(const scene *s, uint64_t steps, uint64_t failed)
{
    for (uint32_t w = 0; w < RANKS; w++) {
        at.i = w;
        require(member_stats(s->f.worker[w]).steps == s->steps[w] + steps);
        require(member_stats(s->f.worker[w]).failed == s->failed[w] + failed);
        require(member_step(s->f.worker[w]) == s->steps[w] + steps + 1);
    }
}

void scene_close(scene *s)
{
    ledger_check(&s->l);
    s->f.via = NULL;
    s->f.delta = NULL;
    ledger_step(&s->l, 77);
    require_pulled(&s->f, TLC_OK);
    ledger_check(&s->l);
    require(s->l.means > 0);
    ledger_close(&s->l);
    fleet_close(&s->f);
}

void require_outcome(member m, uint32_t server, const want *told)
{
    tlc_outcome o = member_outcome(m, server);

    if (strcmp(o.sentence, told->sentence) != 0)
        print_error("\"%s\" instead of \"%s\"\n", o.sentence, told->sentence);
    require(o.status == told->status && o.cause == told->cause && o.rank == told->rank && o.tensor == told->tensor);
    require(!strcmp(o.sentence, told->sentence));
}

void each_outcome(const scene *s, const want *told)
{
    for (uint32_t w = 0; w < RANKS; w++) {
        at.i = w;
        require_outcome(s->f.worker[w], 0, told);
    }
}

const char *role(const fleet *f)
{
    return f->cfg.servers ? "worker" : "rank";
}

/* ", says rank 0", if it is somebody else */
const char *says(const fleet *f, uint32_t who, uint32_t owner)
{
    static char text[32];

    snprintf(text, sizeof text, ", says %s %u", f->cfg.servers ? "server" : "rank", owner);
    return is_gathered(f) || (!f->cfg.servers && who == owner) ? "" : text;
}

void poison(fleet *f, uint32_t w, size_t t, float value)
{
    if (f->tensors[t].n)
        memcpy(f->grad[w * TENSORS + t] + (f->tensors[t].n - 1) * sizeof value, &value, sizeof value);
}

void grow(scene *s, uint32_t w, size_t t, float value)
{
    float *r = s->f.residual[w * TENSORS + t];

    s->l.worker[w].given[s->l.begin[t]] += (double)value - (double)*r;
    *r = value;
}
