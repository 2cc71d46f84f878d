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

static size_t values_of(const tlc_allreduce *owner)
{
    size_t n = 0;

    for (size_t i = 0; i < tlc_allreduce_parts(owner); i++)
        n += part_of(owner, i).n;
    return n;
}

bool owner_step_take(owner_step *s, const tlc_allreduce *owner, float *const *changes)
{
    float *velocity;

    if (!s->velocity)
        s->velocity = calloc(values_of(owner) + 1, sizeof(float));
    velocity = s->velocity;
    for (size_t i = 0; velocity && i < tlc_allreduce_parts(owner); i++) {
        const tlc_part part = part_of(owner, i);
        for (size_t k = 0; k < part.n; k++) {
            velocity[k] = momentum * velocity[k] + part.mean[k];
            changes[i][k] = -velocity[k];
        }
        velocity += part.n;
    }
    return s->velocity != NULL;
}

float *const *owner_step_room(owner_step *s, const tlc_allreduce *owner)
{
    size_t parts = tlc_allreduce_parts(owner), at = 0;

    if (s->at)
        return s->at;
    s->changes = calloc(values_of(owner) + 1, sizeof(float));
    s->at = s->changes ? calloc(parts + 1, sizeof *s->at) : NULL;
    for (size_t i = 0; s->at && i < parts; i++) {
        s->at[i] = s->changes + at;
        at += part_of(owner, i).n;
    }
    return s->at;
}

void owner_step_close(owner_step *s)
{
    free(s->velocity);
    free(s->changes);
    free(s->at);
}
