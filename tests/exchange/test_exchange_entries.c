/* SPDX-License-Identifier: MIT
 *
 * Entries of states of the exchange that do not suit the object that loads them: tensors that share a frame here or
 * there, codecs that fit some parts of a tensor, parts that are none.
 */
#include "../support/exchange_view.h"

enum { RANKS = 3, BIAS = 0, WIDE = 3, STAT = 4, GAIN = 6 };

/* ---- tensors that are small in one run alone --------------------------------------------------------------------- */

/* Where tensors share a frame it stays raw, whatever codec a state has for them. */
TEST(codecs_of_small_tensors)
{
    FOR_EACH_KIND(kind) {
        tlc_exchange_config cfg = fleet_config(kind, RANKS, small_tensors), old = cfg;
        fleet a, b, like_b;
        old.min_n = 0;
        fleet_open(&a, &old, small_tensors, 0);
        fleet_open(&b, &cfg, small_tensors, 0);
        fleet_open(&like_b, &cfg, small_tensors, 0);
        for (uint32_t i = 0; i < RANKS + cfg.servers; i++) {
            tlc_message saved = member_save(i < RANKS ? a.worker[i] : a.owner[i - RANKS]);
            const member to = i < RANKS ? b.worker[i] : b.owner[i - RANKS];
            require_status(MEMBER(to, state_salvage, &saved, 1), TLC_OK); /* owners have other parts */
            blob_free(&saved);
        }
        fleet_step(&b, 1);
        fleet_step(&like_b, 1);
        require_pulled(&b, TLC_OK);
        for (uint32_t i = 0; i < RANKS * b.lanes; i++)
            require(blob_same(b.push[i], like_b.push[i]));
        for (uint32_t o = 0; o < b.owners; o++)
            require(blob_same(b.answer[o], like_b.answer[o]));
        fleet_close(&a);
        fleet_close(&b);
        fleet_close(&like_b);
    }
}

static int owns(member m, size_t tensor)
{
    for (size_t i = 0; i < member_parts(m); i++)
        if (member_part(m, i).tensor == tensor)
            return 1;
    return 0;
}

/* Entries of small tensors in a state of `from` that are about what `to` has, too: pushes, and answers. */
static size_t small_entries(member from, member to)
{
    static const size_t small[] = {BIAS, STAT, GAIN};
    size_t entries = from.server ? 0 : COUNT(small);

    for (size_t i = 0; i < COUNT(small); i++)
        entries += (size_t)(owns(from, small[i]) && owns(to, small[i]));
    return entries;
}

/* Small tensors keep residuals. Where they are not small, their codec may keep none: then the state's have no place. */
TEST(residuals_without_place)
{
    FOR_EACH_KIND(kind) {
        tlc_exchange_config old = fleet_config(kind, RANKS, small_tensors), cfg;
        fleet a, b;
        old.push = "natural";
        cfg = old;
        cfg.min_n = 0;
        cfg.reserve = "raw";
        fleet_open(&a, &old, small_tensors, 0);
        fleet_open(&b, &cfg, small_tensors, 0);
        for (uint32_t i = 0; i < 1 + cfg.servers; i++) {
            const member from = i ? a.owner[i - 1] : a.worker[0], to = i ? b.owner[i - 1] : b.worker[0];
            tlc_message saved = member_save(from);
            require_status(MEMBER(to, state_salvage, &saved, 1), TLC_OK); /* owners have other parts */
            require(member_outcome(to, 0).unknown == small_entries(from, to));
            blob_free(&saved);
        }
        fleet_close(&a);
        fleet_close(&b);
    }
}

/* ---- parts of a tensor ------------------------------------------------------------------------------------------- */

/* The codec of a state fits the last part of a tensor, but not the first, which is larger. */
TEST(codec_of_each_part)
{
    enum { BLOCK = 32 };
    tlc_tensor list[] = {
        {.struct_size = sizeof *list,
         .name = "cut",
         .n = 700,
         .only = TLC_NOBODY,
         .push = "3lc:block=1024",
         .pull = "3lc:block=1024"},
        {.struct_size = sizeof *list, .name = "a", .n = 250, .only = TLC_NOBODY},
        {.struct_size = sizeof *list, .name = "b", .n = 249, .only = TLC_NOBODY},
        {.struct_size = sizeof *list,
         .name = "c",
         .n = 40,
         .only = TLC_NOBODY}, /* so that rank 1 has room for some values of `cut` only */
    };
    tlc_exchange_config cfg = fleet_config(SHARDED, 2, large_tensors);
    member here = {.rank = NULL}, there = {.rank = NULL};

    cfg.push = "raw";
    require_status(tlc_allreduce_create(&here.rank, &cfg, 1, list, COUNT(list)), TLC_OK);
    tlc_part part = member_part(here, 0);
    require(part.tensor == 0 && part.first > BLOCK && part.n <= BLOCK && part.first + part.n == list[0].n);
    list[0].push = list[0].pull = "3lc:block=32";
    require_status(tlc_allreduce_create(&there.rank, &cfg, 1, list, COUNT(list)), TLC_OK);
    tlc_message saved = member_save(there), before = member_save(here);
    require_status(member_load(here, saved), TLC_ERR_CAPACITY);
    require(member_outcome(here, 0).tensor == 0);
    require_state(here, before);
    blob_free(&saved);
    blob_free(&before);
    member_destroy(here);
    member_destroy(there);
}

/* A part that ends past its tensor. */
TEST(too_many_values)
{
    size_t altered = 0;

    FOR_EACH_KIND(kind) {
        tlc_exchange_config cfg = fleet_config(kind, RANKS, small_tensors);
        const uint8_t begin[] = {4, 'w', 'i', 'd', 'e', (uint8_t)small_tensors[WIDE].n};
        fleet f;
        watch w;
        cfg.push = "natural"; /* no residual follows the entry */
        fleet_open(&f, &cfg, small_tensors, 0);
        fleet_step(&f, 1); /* now there are means, which the watch reads */
        watch_open(&w, &f, f.worker[0], 0);
        tlc_message saved = member_save(f.worker[0]);
        uint8_t *p = (uint8_t *)(uintptr_t)saved.data;
        const uint8_t *end = p + saved.len;
        while ((p = memmem(p, (size_t)(end - p), begin, sizeof begin))) {
            p += sizeof begin; /* the first value, and how many, of a byte each: object_state.h */
            const uint8_t first = p[0], count = p[1];
            require(first + count <= small_tensors[WIDE].n);
            p[1] = (uint8_t)(small_tensors[WIDE].n - first + 1);
            blob_seal((uint8_t *)(uintptr_t)saved.data, saved.len);
            REFUSED(&w, member_load(f.worker[0], saved), TLC_ERR_CORRUPT);
            p[1] = count;
            altered += first > 0;
        }
        blob_free(&saved);
        watch_close(&w);
        fleet_close(&f);
    }
    require(altered > 0);
}
