/* SPDX-License-Identifier: MIT
 *
 * What entries of states have of an object's residuals.
 */
#include "object_state.h"

uint64_t tlc_entry_overlap(const tlc_ownership_part *part, const tlc_state_entry *e)
{
    uint64_t part_end = part->first + part->n, entry_end = e->first + e->count;
    uint64_t from = part->first > e->first ? part->first : e->first, to = part_end < entry_end ? part_end : entry_end;

    return from < to ? to - from : 0;
}

tlc_parts tlc_entry_parts(const tlc_sender *s, tlc_parts parts, const tlc_state_entry *e)
{
    size_t low = 0;

    for (size_t high = parts.count; low < high;) { /* the first part that ends after the entry begins */
        const size_t middle = low + (high - low) / 2;
        const tlc_ownership_part *part = tlc_sender_part(s, tlc_parts_at(&parts, middle));
        if (part->first + part->n <= e->first)
            low = middle + 1;
        else
            high = middle;
    }
    parts.list += low;
    parts.count -= low;
    for (low = 0; low < parts.count && tlc_entry_overlap(tlc_sender_part(s, tlc_parts_at(&parts, low)), e);)
        low++;
    parts.count = low;
    return parts;
}

/* To binary32. Values beyond the largest float become the largest float, so that residuals stay finite. */
static float narrow(double x)
{
    return x > FLT_MAX ? FLT_MAX : x < -FLT_MAX ? -FLT_MAX : (float)x;
}

void tlc_entry_take(const tlc_sender *s, size_t p, const tlc_state_entry *e, int add)
{
    const tlc_ownership_part *part = tlc_sender_part(s, p);
    uint64_t from = part->first > e->first ? part->first : e->first, to = from + tlc_entry_overlap(part, e);

    for (uint64_t i = from; i < to; i++) {
        float value = tlc_bits_float(tlc_load32(e->residual + (size_t)(i - e->first) * sizeof(float)));
        float *r = &s->residual[p][i - part->first];
        *r = add ? narrow((double)*r + value) : value;
    }
}

void tlc_residuals_set(const tlc_sender *s, float factor)
{
    for (size_t p = 0; p < s->part_count; p++) {
        const tlc_ownership_part *part = tlc_sender_part(s, p);
        float *r = s->residual[p];
        if (!r)
            continue;
        if (factor <= 0)
            memset(r, 0, part->n * sizeof *r);
        else if (!s->x->tensors[part->tensor].pusher)
            for (size_t i = 0; i < part->n; i++)
                r[i] = narrow((double)r[i] * factor);
    }
}
