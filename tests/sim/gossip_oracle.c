/* SPDX-License-Identifier: MIT
 *
 * What models, estimates and means must be, computed from the frames that nodes send.
 */
#include "forge.h"
#include "gossip.h"
#include <float.h>
#include <math.h>

/* Flags of messages (src/docs/format.md): there are no frames; the node stayed where it was. */
enum { FAILED = 1, FINDING = 8 };

/* ---- values that are drawn --------------------------------------------------------------------------------------- */

float *draw_model(run *r, uint32_t rank, uint64_t step)
{
    const uint32_t only[MOST_TENSORS] = {0};
    float *model = new_values(r);
    uint8_t *raw = take(r, r->sc.values * sizeof(float));

    (void)make_gradient(r, rank, step, only, TLC_F32, raw, model);
    for (size_t t = 0; t < r->sc.count; t++)
        for (size_t i = r->sc.tensor[t].at; i < r->sc.tensor[t].at + r->sc.tensor[t].n; i++)
            if (!isfinite(model[i]))
                model[i] = 0.5f;
    give(r, raw);
    return model;
}

size_t draw_moved(const gossip *w, node *n, size_t *tensor)
{
    run *r = w->run;
    uint8_t *raw = take(r, r->sc.values * sizeof(float));
    float *grad = new_values(r);
    size_t bad = 0;

    (void)make_gradient(r, n->o->rank, n->o->step, w->group.only, TLC_F32, raw, grad);
    for (size_t t = 0; t < r->sc.count; t++) {
        int finite = 1;
        for (size_t i = r->sc.tensor[t].at; i < r->sc.tensor[t].at + r->sc.tensor[t].n; i++) {
            n->moved[i] -= 0.25f * grad[i];
            finite &= isfinite(n->moved[i]) != 0;
        }
        bad += !finite;
        *tensor = finite ? *tensor : t;
    }
    give(r, raw);
    give(r, grad);
    return bad;
}

/* ---- frames ------------------------------------------------------------------------------------------------------ */

/* Tensors in the order of a push: those with a frame of their own, then the small ones, which share one. */
typedef struct layout {
    size_t tensor[MOST_TENSORS], count, own; /* own: how many have a frame of their own */
} layout;

static layout lay_out(const scenario *sc)
{
    layout l = {.count = 0};

    for (int shared = 0; shared < 2; shared++) {
        for (size_t t = 0; t < sc->count; t++) {
            int small;
            (void)scenario_codec(sc, t, PUSH, &small);
            if (small == shared && sc->tensor[t].n)
                l.tensor[l.count++] = t;
        }
        l.own = shared ? l.own : l.count;
    }
    return l;
}

/* What a frame says of n values: decoded, or added to `to` with a weight. */
static void read_frame(run *r, tlc_message frame, size_t n, float weight, float *to)
{
    tlc_status status = weight != 0 ? tlc_decompress_add(frame.data, frame.len, weight, to, n, NULL)
                                    : tlc_decompress(frame.data, frame.len, TLC_F32, to, n, NULL);

    must(r, CALLS, !status, "a frame of a push: %s", tlc_status_string(status));
}

/* Reads the frames of a push into an array of all values. weight 0: they replace what is there. */
static void read_frames(run *r, const blob *push, float weight, float *to)
{
    const layout l = lay_out(&r->sc);
    size_t n = 0;
    tlc_bundle_reader frames;
    tlc_message frame;

    must(r, CALLS, find_bundle(push, &frames), "a push without a bundle");
    must(r, CALLS, tlc_bundle_count(&frames) == l.own + (l.own < l.count), "%u frames", tlc_bundle_count(&frames));
    for (size_t i = 0; i < l.own; i++) {
        const tensor_plan *t = &r->sc.tensor[l.tensor[i]];
        must(r, CALLS, !tlc_bundle_next(&frames, &frame.data, &frame.len), "a frame");
        read_frame(r, frame, t->n, weight, to + t->at);
    }
    if (l.own == l.count)
        return;
    for (size_t i = l.own; i < l.count; i++)
        n += r->sc.tensor[l.tensor[i]].n;
    float *shared = take(r, n * sizeof *shared);
    n = 0;
    for (size_t i = l.own; i < l.count; n += r->sc.tensor[l.tensor[i++]].n)
        memcpy(shared + n, to + r->sc.tensor[l.tensor[i]].at, r->sc.tensor[l.tensor[i]].n * sizeof *shared);
    must(r, CALLS, !tlc_bundle_next(&frames, &frame.data, &frame.len), "a frame");
    read_frame(r, frame, n, weight, shared);
    n = 0;
    for (size_t i = l.own; i < l.count; n += r->sc.tensor[l.tensor[i++]].n)
        memcpy(to + r->sc.tensor[l.tensor[i]].at, shared + n, r->sc.tensor[l.tensor[i]].n * sizeof *shared);
    give(r, shared);
}

/* ---- what is compressed ------------------------------------------------------------------------------------------ */

/* How far a decoded value may be from z. max: the largest magnitude of the tensor. */
static double distance(const codec_case *codec, double z, double max)
{
    const char *p = strstr(codec->text, "p=");

    if (codec->lossless)
        return 0;
    if (!strncmp(codec->text, "qsgd", 4))
        return max / (strstr(codec->text, "bits=4") ? 7 : 127);
    if (!strncmp(codec->text, "random-sparse", 13))
        return fabs(z) / (p ? strtod(p + 2, NULL) : 0.25);
    if (!strncmp(codec->text, "natural", 7)) /* magnitudes that it clips */
        return fabs(z) > 0x1p-10 && fabs(z) < 0x1p10 && !strstr(codec->text, "shift") ? fabs(z) : HUGE_VAL;
    return max;
}

/* Can this be what the values z were compressed to? slack: the rounding of z, relative to `scale`. */
static void check_compressed(const node *n, size_t tensor, const double *z, const double *scale, const float *decoded,
                             double slack)
{
    const codec_case *codec = n->o->codec[PUSH][tensor];
    double max = 0;
    size_t count = n->o->run->sc.tensor[tensor].n;

    for (size_t i = 0; i < count; i++)
        max = fmax(max, fabs(z[i]) + slack * scale[i]);
    for (size_t i = 0; i < count && codec != &unknown_codec; i++) {
        double rounding = slack * scale[i] + 16 * (double)FLT_TRUE_MIN,
               room = distance(codec, fabs(z[i]) + rounding, max) * (1 + 0x1p-20) + rounding;
        must(n->o->run, CALLS, isfinite(decoded[i]) && fabs(decoded[i] - z[i]) <= room,
             "%s: tensor %zu, value %zu of %zu: %.9g was sent as %.9g", codec->text, tensor, i, count, z[i],
             decoded[i]);
        must(n->o->run, CALLS, fabs(z[i]) <= rounding || !(decoded[i] * z[i] < 0),
             "%s: tensor %zu, value %zu of %zu: %.9g was sent as %.9g", codec->text, tensor, i, count, z[i],
             decoded[i]);
    }
}

/* z of a step: DCD moved - x, ECD (1 - t/2) x + (t/2) moved. */
static void check_sent(const gossip *w, const node *n, const float *x, const float *moved, const float *decoded)
{
    const scenario *sc = &w->run->sc;
    double t = (double)n->o->step + 1, *z = take(w->run, sc->values * sizeof *z),
           *scale = take(w->run, sc->values * sizeof *scale);

    for (size_t i = 0; i < sc->count; i++) {
        const tensor_plan *plan = &sc->tensor[i];
        for (size_t v = 0; v < plan->n; v++) {
            double from = x[plan->at + v], to = moved[plan->at + v];
            z[v] = sc->kind == TLC_GOSSIP_DCD ? (float)(to - from) : (1 - t / 2) * from + t / 2 * to;
            scale[v] = sc->kind == TLC_GOSSIP_DCD ? 0 : t * (fabs(from) + fabs(to));
        }
        check_compressed(n, i, z, scale, decoded + plan->at, 0x1p-23);
    }
    give(w->run, z);
    give(w->run, scale);
}

/* ---- models and estimates ---------------------------------------------------------------------------------------- */

static float *copy_values(run *r, const float *values)
{
    return memcpy(take(r, r->sc.values * sizeof(float)), values, r->sc.values * sizeof(float));
}

/* DCD: x + C(z). ECD: (1 - 2/t) estimate + (2/t) C(z). Computed twice: to the bit, and in binary64. */
static float *advanced(const gossip *w, uint64_t step, const float *before, const blob *push, const float *decoded)
{
    run *r = w->run;
    double t = (double)step + 1, keep = r->sc.kind == TLC_GOSSIP_DCD ? 1 : 1 - 2 / t,
           add = r->sc.kind == TLC_GOSSIP_DCD ? 1 : 2 / t;
    float *after = copy_values(r, before);

    for (size_t i = 0; i < r->sc.count; i++)
        for (size_t v = r->sc.tensor[i].at; v < r->sc.tensor[i].at + r->sc.tensor[i].n; v++)
            after[v] *= (float)keep;
    read_frames(r, push, (float)add, after);
    for (size_t i = 0; i < r->sc.count; i++)
        for (size_t v = r->sc.tensor[i].at; v < r->sc.tensor[i].at + r->sc.tensor[i].n; v++) {
            double want = keep * before[v] + add * decoded[v], size = fabs(keep * before[v]) + fabs(add * decoded[v]);
            must(r, CALLS, fabs(after[v] - want) <= 0x1p-22 * size + 4 * (double)FLT_TRUE_MIN,
                 "tensor %zu: %.9g becomes %.9g instead of %.9g", i, before[v], after[v], want);
        }
    return after;
}

static int is_large(float x)
{
    return isfinite(x) && fabsf(x) > 1e36f;
}

int is_huge(const gossip *w, const node *n)
{
    const uint64_t s = n->o->step;
    int huge = 0;

    for (size_t t = 0; t < w->run->sc.count; t++)
        for (size_t i = w->run->sc.tensor[t].at; i < w->run->sc.tensor[t].at + w->run->sc.tensor[t].n; i++)
            huge |= is_large(n->moved[i]) || is_large(n->model[s][i]) || is_large(n->estimate[s][i]);
    return huge;
}

void note_frames(gossip *w, node *n, const blob *push, int finite)
{
    run *r = w->run;
    uint64_t s = n->o->step;
    int failed = push->data[FLAGS] & FAILED, ecd = r->sc.kind == TLC_GOSSIP_ECD;

    n->failed[s] = failed;
    n->stayed[s] = (push->data[FLAGS] & FINDING) != 0;
    must(r, CALLS, finite ? !n->stayed[s] || is_huge(w, n) : n->stayed[s], "node %u %s", n->o->rank,
         finite ? "stayed where it was" : "moved to what is not finite");
    must(r, CALLS, n->stayed[s] || !failed, "a failed push without a cause");
    must(r, CALLS, ecd || !n->stayed[s] || failed, "a node of DCD stayed, and sends frames");
    must(r, CALLS, !ecd || !failed || is_huge(w, n), "a node of ECD that stays where it was sends no frames");
    n->model[s + 1] = n->model[s];
    n->estimate[s + 1] = n->estimate[s];
    if (failed)
        return;
    float *decoded = new_values(r);
    read_frames(r, push, 0, decoded);
    check_sent(w, n, n->model[s], n->stayed[s] ? n->model[s] : n->moved, decoded);
    n->estimate[s + 1] = advanced(w, s, n->estimate[s], push, decoded);
    n->model[s + 1] = n->stayed[s] ? n->model[s] : ecd ? copy_values(r, n->moved) : n->estimate[s + 1];
    give(r, decoded);
}

/* ---- checks of an object ----------------------------------------------------------------------------------------- */

void check_model(const gossip *w, const node *n, uint64_t step)
{
    run *r = w->run;

    for (size_t t = 0; t < r->sc.count; t++) {
        const tensor_plan *plan = &r->sc.tensor[t];
        const float *x = tlc_gossip_model(n->o->it, t);
        must(r, CALLS, !x == !plan->n, "the model of tensor %zu", t);
        for (size_t i = 0; i < plan->n; i++)
            must(r, E4, float_bits(x[i]) == float_bits(n->model[step][plan->at + i]),
                 "node %u, step %llu: tensor %zu, value %zu of the model is %.9g instead of %.9g", n->o->rank,
                 (unsigned long long)step, t, i, x[i], n->model[step][plan->at + i]);
        for (size_t i = 0; i < plan->n; i++)
            must(r, E6, isfinite(x[i]), "node %u: a value of its model is not finite", n->o->rank);
    }
    must(r, CALLS, !tlc_gossip_model(n->o->it, r->sc.count), "a model of no tensor");
}

/* mean = x + the sum of W_ij (x_j - x), rounded to binary32 after each operation. */
static float mean_of(const gossip *w, const node *n, size_t value)
{
    uint64_t s = n->o->step;
    float own = n->estimate[s][value], mean = own;

    for (size_t i = 0; i < n->edges->degree; i++) {
        if (is_lost(n, i))
            continue;
        float change = neighbour_of(w, n, i)->estimate[s][value] - own;
        change *= (float)n->edges->weight[i];
        mean += change;
    }
    return mean;
}

void check_mean_of_models(const gossip *w, node *n)
{
    run *r = w->run;

    for (size_t t = 0; t < r->sc.count; t++) {
        const tensor_plan *plan = &r->sc.tensor[t];
        const float *mean = tlc_gossip_mean(n->o->it, t);
        must(r, CALLS, !mean == !plan->n, "the mean of tensor %zu", t);
        for (size_t i = 0; i < plan->n; i++) {
            float want = mean_of(w, n, plan->at + i);
            must(r, E4, float_bits(mean[i]) == float_bits(want) || (isnan(mean[i]) && isnan(want)),
                 "node %u, step %llu: tensor %zu, value %zu of the mean is %.9g instead of %.9g", n->o->rank,
                 (unsigned long long)n->o->step, t, i, mean[i], want);
            n->moved[plan->at + i] = mean[i];
        }
    }
    must(r, CALLS, !tlc_gossip_mean(n->o->it, r->sc.count), "a mean of no tensor");
}
