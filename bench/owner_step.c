/* SPDX-License-Identifier: MIT */
#include "owner_step.h"
#include <stdlib.h>

static const float momentum = 0.9f;

static tlc_part part_of(const tlc_allreduce *owner, size_t i)
{
    tlc_part part = {.struct_size = sizeof part};

    (void)tlc_allreduce_part(owner, i, &part);
    return part;
}

static bool allocate(owner_step *s, const tlc_allreduce *owner)
{
    size_t parts = tlc_allreduce_parts(owner), n = 0;

    for (size_t i = 0; i < parts; i++)
        n += part_of(owner, i).n;
    s->velocity = calloc(n + 1, sizeof(float));
    s->changes = calloc(n + 1, sizeof(float));
    s->at = calloc(parts + 1, sizeof *s->at);
    if (!s->velocity || !s->changes || !s->at)
        return false;
    n = 0;
    for (size_t i = 0; i < parts; i++) {
        s->at[i] = s->changes + n;
        n += part_of(owner, i).n;
    }
    return true;
}

const float *const *owner_step_take(owner_step *s, const tlc_allreduce *owner)
{
    size_t at = 0;

    if (!s->at && !allocate(s, owner))
        return NULL;
    for (size_t i = 0; i < tlc_allreduce_parts(owner); i++) {
        const tlc_part part = part_of(owner, i);
        for (size_t k = 0; k < part.n; k++, at++) {
            s->velocity[at] = momentum * s->velocity[at] + part.mean[k];
            s->changes[at] = -s->velocity[at];
        }
    }
    return s->at;
}

void owner_step_close(owner_step *s)
{
    free(s->velocity);
    free(s->changes);
    free(s->at);
}
