/* SPDX-License-Identifier: MIT
 *
 * What must be true of residuals, means and results, computed in binary64 from what the caller sees: gradients,
 * residuals, means, results. It uses no message.
 */
#ifndef TLC_SIM_ORACLE_H
#define TLC_SIM_ORACLE_H

#include "object.h"
#include "values.h"

typedef enum push_kind {
    PUSH_NONE, /* nothing was pushed yet */
    PUSH_GOOD,
    PUSH_ABSENT, /* not in the round */
    PUSH_FAILED, /* the gradient was not finite */
    PUSH_WAITS   /* of a worker that joined: the gradient waits in the residual */
} push_kind;

/* The last push of a worker. Arrays of all values: the residual before it, the gradient, the residual after it. */
typedef struct pushed {
    uint64_t step;
    push_kind kind;
    double weight;
    float *before, *grad, *after;
    uint8_t *raw; /* the gradient in the dtype of the worker */
} pushed;

pushed pushed_open(const object *o);

/* Makes the gradient of a step and notes the residual. Then tensors[] are the arguments of a push, or *absent. */
gradient note_gradient(pushed *p, const object *o, int absent, const void **tensors);

/* Notes the residual after a push. The outcome says whether the gradient was dropped. */
void note_push(pushed *p, const object *o, const gradient *g, int joined);

/* ---- E6a: gradients = frames that took part + residuals ---------------------------------------------------------- */

/* Nothing came back to this part since the push. */
void check_kept(const object *o, const pushed *p, const part_place *part);
/* The frame of this part came back. Returns how many values it could not take. */
size_t check_returned(const object *o, const pushed *p, const part_place *part);

static inline int is_taken(const uint8_t *taken, uint32_t worker)
{
    return taken[worker / 8] >> worker % 8 & 1;
}

typedef enum certainty { NO, PERHAPS, YES } certainty;

/* Checks the mean (or sum) of a part over those who are taken. error: of what `mean` was rounded to since, relative;
 * 0 for binary32. pusher[i]: of worker i. */
void check_mean(const group *g, const part_place *part, const object *const *worker, const pushed *const *push,
                const uint8_t *taken, const float *mean, double error);

/* Is the mean of a part not finite? */
certainty overflows(const group *g, const part_place *part, const object *const *worker, const pushed *const *push,
                    const uint8_t *taken);

/* ---- E6b: means or deltas = results + residuals ------------------------------------------------------------------ */

/* before, after: residuals of the answers of this part, or NULL. given: what was answered. result: what receivers got,
 * in dtype. */
void check_answer(const object *owner, const part_place *part, const float *before, const float *after,
                  const float *given, const uint8_t *result, tlc_dtype dtype);

/* The largest magnitude that a frame of these values may have. */
double largest(const codec_case *codec, const float *x, size_t n);

/* ---- masks ------------------------------------------------------------------------------------------------------- */

/* momentum was `filled` everywhere. In a part that was taken, exactly the values that were sent are +0. */
void check_mask(const object *o, const pushed *p, const part_place *part, int taken, const float *momentum,
                float filled);

#endif
