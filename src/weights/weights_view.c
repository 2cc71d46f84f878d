/* SPDX-License-Identifier: MIT */
#include "weights_view.h"
#include "../common/sizes.h"
#include "../delta/delta_frame.h"

/* A tensor as units, which are weights, or bytes where two weights share one. */
typedef struct units {
    uint64_t shape[TLC_WEIGHTS_DIMS_MAX];
    size_t dims;
    size_t size; /* bytes of a unit */
    uint64_t n;
} units;

/* Returns 0 if two weights share a byte, but not all bytes have two of the last dimension. */
static int units_of(units *u, const tlc_weights_entry *e)
{
    tlc_delta d;
    int whole = 1;

    tlc_delta_of(&d, e->dtype, e->n);
    u->dims = e->dims;
    u->n = e->n;
    memcpy(u->shape, e->shape, e->dims * sizeof *u->shape);
    if (tlc_unit_width(d.unit) != 4) {
        u->size = (size_t)tlc_delta_size(&d, 1);
        return whole;
    }
    u->size = 1;
    u->n /= 2;
    whole = e->dims && e->shape[e->dims - 1] % 2 == 0;
    if (whole)
        u->shape[e->dims - 1] /= 2;
    return whole;
}

/* The dimension of more than one unit that has this stride; u->dims: there is none. */
static size_t with_stride(const units *u, const uint64_t *strides, uint64_t stride)
{
    size_t i = 0;

    while (i < u->dims && (u->shape[i] < 2 || strides[i] != stride))
        i++;
    return i;
}

/* Lie the units of a tensor as these strides say, each once? Its dimensions of more than one unit, the innermost first,
 * are at *order, *count of them. */
static int is_dense(const units *u, const uint64_t *strides, size_t *order, size_t *count)
{
    uint64_t at = 1;

    *count = 0;
    for (size_t i; (i = with_stride(u, strides, at)) < u->dims; at *= u->shape[i])
        order[(*count)++] = i;
    return at == u->n;
}

/* How many units of memory a tensor that is not empty reaches over. */
static uint64_t reach(const units *u, const uint64_t *strides)
{
    uint64_t last = 0;

    for (size_t i = 0; i < u->dims; i++)
        last = tlc_sum(last, tlc_product(u->shape[i] - 1, strides[i]));
    return tlc_sum(last, 1);
}

int tlc_weights_view_fits(const tlc_weights_entry *view, const tlc_weights_entry *root)
{
    size_t order[TLC_WEIGHTS_DIMS_MAX], count;
    units mine, all;

    if (root->is_view || root->dtype != view->dtype)
        return 0;
    if (!view->root_strides)
        return view->dims == root->dims && !memcmp(view->shape, root->shape, root->dims * sizeof *root->shape);
    return view->n && root->n && view->root_dims == root->dims && units_of(&mine, view) && units_of(&all, root) &&
           is_dense(&all, view->root_strides, order, &count) &&
           tlc_sum(view->first, reach(&mine, view->strides)) <= all.n;
}

/* Where the unit at `at` of the root's memory is among its values. */
static size_t value_at(const units *all, const uint64_t *root_strides, const size_t *order, size_t count, uint64_t at)
{
    uint64_t value = 0;

    for (size_t j = 0; j < count; j++) {
        uint64_t step = 1; /* of dimension order[j] among the values */
        for (size_t i = order[j] + 1; i < all->dims; i++)
            step *= all->shape[i];
        value += at / root_strides[order[j]] % all->shape[order[j]] * step;
    }
    return (size_t)value;
}

void tlc_weights_view_copy(const tlc_weights_entry *view, const tlc_weights_entry *root, const void *values, void *out)
{
    size_t order[TLC_WEIGHTS_DIMS_MAX], count;
    uint64_t index[TLC_WEIGHTS_DIMS_MAX] = {0}, at = view->first;
    units mine, all;

    (void)units_of(&mine, view);
    (void)units_of(&all, root);
    if (!view->root_strides) {
        if (all.n)
            memcpy(out, values, (size_t)all.n * all.size);
        return;
    }
    (void)is_dense(&all, view->root_strides, order, &count);
    for (uint64_t i = 0; i < mine.n; i++) {
        const size_t from = value_at(&all, view->root_strides, order, count, at);
        memcpy((uint8_t *)out + (size_t)i * mine.size, (const uint8_t *)values + from * mine.size, mine.size);
        for (size_t d = mine.dims; d-- > 0;) {
            at += view->strides[d];
            if (++index[d] < mine.shape[d])
                break;
            at -= view->strides[d] * mine.shape[d];
            index[d] = 0;
        }
    }
}
