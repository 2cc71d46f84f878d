/* SPDX-License-Identifier: MIT
 *
 * Who owns what (src/exchange/plan/ownership.c): each value has one owner, cuts are at multiples of 16 values, owners'
 * costs are balanced, and frames have the parts that they must have. Some plans are written out, and a hash of many is
 * recorded: machines must make the same plan. What frames cost (cost.c) is about what they have.
 */
#include "../../src/api/context.h"
#include "../../src/exchange/plan/cost.h"
#include "../../src/exchange/plan/ownership.h"
#include "../support/support.h"
#include <inttypes.h>
#include <math.h>

enum { TENSORS_MAX = 200 };

typedef struct plan {
    tlc_memory memory;
    tlc_ownership own;
    tlc_ownership_tensor tensors[TENSORS_MAX];
    size_t count, split_n;
    uint32_t owners;
} plan;

static void make(plan *p)
{
    const tlc_allocator none = {NULL, NULL, NULL};

    p->memory = (tlc_memory){.alloc = tlc_allocator_of(&none)};
    memset(&p->own, 0xa5, sizeof p->own);
    tlc_ownership_plan(&p->own, p->tensors, p->count, p->owners, p->split_n, &p->memory);
    assert_int_equal(p->memory.status, TLC_OK);
}

static void add(plan *p, size_t n, uint64_t cost, int small, uint32_t pusher)
{
    p->tensors[p->count++] = (tlc_ownership_tensor){.n = n, .cost = cost, .small = {small, small}, .pusher = pusher};
}

/* Parts are sorted by owner, then by tensor and first value, and each value is in one part. */
static void check_parts(const plan *p)
{
    size_t total = 0, owned = 0;

    for (size_t t = 0; t < p->count; t++)
        total += p->tensors[t].n;
    assert_int_equal(p->own.begin[0], 0);
    assert_int_equal(p->own.begin[p->owners], p->own.count);
    for (uint32_t o = 0; o < p->owners; o++)
        for (size_t i = p->own.begin[o]; i < p->own.begin[o + 1]; i++) {
            const tlc_ownership_part *part = &p->own.parts[i];
            const tlc_ownership_tensor *t = &p->tensors[part->tensor];
            assert_int_equal(part->owner, o);
            assert_true(part->n > 0 && part->first + part->n <= t->n);
            assert_int_equal(part->first % 16, 0);
            if (t->n < p->split_n)
                assert_int_equal(part->n, t->n);
            if (i > p->own.begin[o])
                assert_true(part[-1].tensor < part->tensor ||
                            (part[-1].tensor == part->tensor && part[-1].first + part[-1].n < part->first));
            owned += part->n;
            for (size_t j = 0; j < p->own.count; j++) { /* no other part has these values */
                const tlc_ownership_part *other = &p->own.parts[j];
                assert_true(i == j || other->tensor != part->tensor || other->first + other->n <= part->first ||
                            part->first + part->n <= other->first);
            }
        }
    assert_int_equal(owned, total);
}

/* Frames of one part come first; small tensors share a frame with others of the same owner and the same `only`. */
static void check_groups(const plan *p, tlc_direction d)
{
    const tlc_grouping *g = &p->own.grouping[d];
    size_t grouped = 0, shared_n = 0;

    assert_int_equal(g->begin[0], 0);
    assert_int_equal(g->begin[p->owners], g->count);
    for (uint32_t o = 0; o < p->owners; o++) {
        size_t next = p->own.begin[o];
        for (size_t i = g->begin[o]; i < g->begin[o + 1]; i++) {
            const tlc_ownership_group *group = &g->groups[i], *before = i > g->begin[o] ? group - 1 : NULL;
            size_t n = 0;
            assert_int_equal(group->begin, next);
            assert_true(group->count > 0 && (group->shared || group->count == 1));
            assert_true(!before || before->shared <= group->shared);
            assert_true(!before || !before->shared || before->pusher < group->pusher);
            for (size_t k = 0; k < group->count; k++) {
                const tlc_ownership_part *part = &p->own.parts[g->order[next + k]];
                const tlc_ownership_tensor *t = &p->tensors[part->tensor];
                assert_int_equal(part->owner, o);
                assert_int_equal(t->small[d], group->shared);
                assert_int_equal(group->pusher, d == TLC_PUSH ? t->pusher : 0);
                assert_true(k == 0 || g->order[next + k - 1] < g->order[next + k]);
                n += part->n;
            }
            assert_true(!before || before->shared || group->shared || g->order[before->begin] < g->order[next]);
            assert_int_equal(group->n, n);
            shared_n = group->shared && n > shared_n ? n : shared_n;
            next += group->count;
            grouped += group->count;
        }
        assert_int_equal(next, p->own.begin[o + 1]);
    }
    assert_int_equal(grouped, p->own.count);
    assert_int_equal(g->shared_n, shared_n);
}

static uint64_t cost_of(const plan *p, uint32_t owner)
{
    double cost = 0;

    for (size_t i = p->own.begin[owner]; i < p->own.begin[owner + 1]; i++) {
        const tlc_ownership_part *part = &p->own.parts[i];
        const tlc_ownership_tensor *t = &p->tensors[part->tensor];
        cost += (double)t->cost * (double)part->n / (double)t->n;
    }
    return (uint64_t)cost;
}

static uint64_t fold(uint64_t hash, uint64_t word)
{
    return (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15) ^ hash >> 29;
}

/* Random plans keep all rules, and are those that were recorded. */
TEST(random_plans)
{
    static plan p;
    const uint64_t recorded = UINT64_C(0x703800b848d08f3a);
    uint64_t hash = 0;
    for (uint64_t seed = 1; seed <= (quick() ? 100 : 2000); seed++) {
        rng r = {seed};
        p = (plan){.owners = 1 + (uint32_t)rng_below(&r, seed % 3 ? 9 : 70)};
        p.split_n = 1 + rng_below(&r, 6000);
        for (size_t count = rng_below(&r, 40); count-- > 0;) {
            size_t n = rng_below(&r, rng_below(&r, 2) ? 300 : 9000);
            uint64_t cost = n / (1 + rng_below(&r, 6)) + 40;
            uint32_t pusher = rng_below(&r, 4) ? 0 : 1 + (uint32_t)rng_below(&r, 3);
            add(&p, n, cost, n < 256, pusher);
        }
        make(&p);
        check_parts(&p);
        check_groups(&p, TLC_PUSH);
        check_groups(&p, TLC_PULL);
        for (size_t i = 0; seed <= 100 && i < p.own.count; i++) {
            const tlc_ownership_part *part = &p.own.parts[i];
            hash = fold(fold(fold(fold(hash, part->tensor), part->first), part->n), part->owner);
        }
        tlc_memory_free(&p.memory);
    }
    if (hash != recorded)
        fail_msg("the plans have the hash 0x%" PRIx64, hash);
}

/* Whole tensors go to the owners that a plain search gives them: the most costly one next, to who has least. */
TEST(searched)
{
    static plan p;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        uint64_t load[8] = {0};
        uint32_t owner[TENSORS_MAX];
        int dealt[TENSORS_MAX] = {0};
        rng r = {seed};
        p = (plan){.owners = 1 + (uint32_t)rng_below(&r, 8), .split_n = 1000000};
        for (size_t count = 1 + rng_below(&r, 60); count-- > 0;)
            add(&p, 100, rng_below(&r, 40), 0, 0);
        make(&p);
        for (size_t left = p.count; left-- > 0;) {
            size_t next = p.count;
            uint32_t least = 0;
            for (size_t t = 0; t < p.count; t++)
                if (!dealt[t] && (next == p.count || p.tensors[t].cost > p.tensors[next].cost))
                    next = t;
            for (uint32_t o = 0; o < p.owners; o++)
                if (load[o] < load[least])
                    least = o;
            dealt[next] = 1;
            owner[next] = least;
            load[least] += p.tensors[next].cost;
        }
        assert_int_equal(p.own.count, p.count);
        for (size_t i = 0; i < p.own.count; i++)
            assert_int_equal(p.own.parts[i].owner, owner[p.own.parts[i].tensor]);
        tlc_memory_free(&p.memory);
    }
}

/* Whole tensors go to who has least, the most costly first; equal ones in their order. */
TEST(dealt_out)
{
    static plan p;
    static const uint32_t owner[] = {1, 2, 0, 2, 1, 0};
    p = (plan){.owners = 3, .split_n = 1000000};
    add(&p, 600, 600, 0, 0);
    add(&p, 500, 500, 0, 0);
    add(&p, 900, 900, 0, 0);
    add(&p, 300, 300, 0, 0);
    add(&p, 250, 250, 0, 0);
    add(&p, 100, 100, 0, 0); /* costs are 900, 850, 800: it goes to owner 2 */
    make(&p);
    for (size_t i = 0; i < p.own.count; i++)
        if (p.own.parts[i].tensor < 5)
            assert_int_equal(p.own.parts[i].owner, owner[p.own.parts[i].tensor]);
        else
            assert_int_equal(p.own.parts[i].owner, 2);
    tlc_memory_free(&p.memory);
}

/* Two tensors of 64000 and 16 values, and a whole one. The owner of the whole one gets less of the split ones. */
TEST(levelled)
{
    static plan p;
    p = (plan){.owners = 2, .split_n = 10000};
    add(&p, 64000, 64000, 0, 0);
    add(&p, 9000, 16000, 0, 0);
    make(&p);
    check_parts(&p);
    assert_in_range(cost_of(&p, 0), 39800, 40200);
    assert_in_range(cost_of(&p, 1), 39800, 40200);
    tlc_memory_free(&p.memory);
}

/* Shapes as of ResNet-50, 2 to 64 owners: the busiest has at most 2% more than the mean, and there are few cuts. */
TEST(balanced)
{
    static plan p;
    for (uint32_t owners = 2; owners <= 64; owners *= 2) {
        uint64_t all = 0, most = 0;
        p = (plan){.owners = owners, .split_n = 4096};
        for (size_t i = 0; i < 160; i++) {
            size_t n = i % 3 ? (size_t)64 << i % 6 : (size_t)4096 << i % 10;
            add(&p, n, n / 5 + 30, n < 256, 0);
        }
        make(&p);
        check_parts(&p);
        for (uint32_t o = 0; o < owners; o++) {
            uint64_t cost = cost_of(&p, o);
            all += cost;
            most = cost > most ? cost : most;
        }
        assert_true((double)most < 1.02 * (double)all / owners);
        assert_true(p.own.count < p.count + owners);
        tlc_memory_free(&p.memory);
    }
}

/* With one owner nothing is cut, and tensors without values have no part. */
TEST(one_owner)
{
    static plan p;
    p = (plan){.owners = 1, .split_n = 1};
    add(&p, 100000, 20000, 0, 0);
    add(&p, 0, 8, 1, 0);
    add(&p, 17, 40, 1, 2);
    add(&p, 33, 40, 1, 0);
    add(&p, 5, 40, 1, 2);
    make(&p);
    check_parts(&p);
    check_groups(&p, TLC_PUSH);
    assert_int_equal(p.own.count, 4);
    assert_int_equal(p.own.grouping[TLC_PUSH].count, 3);
    assert_int_equal(p.own.grouping[TLC_PULL].count, 2);
    assert_int_equal(p.own.grouping[TLC_PUSH].groups[2].pusher, 2);
    assert_int_equal(p.own.grouping[TLC_PUSH].groups[2].n, 22);
    assert_int_equal(p.own.grouping[TLC_PULL].shared_n, 55);
    tlc_memory_free(&p.memory);
}

/* ---- costs ------------------------------------------------------------------------------------------------------- */

static uint64_t frame_cost(const char *codec, size_t n, size_t piece)
{
    uint64_t cost = 0;

    assert_int_equal(tlc_frame_cost(codec, n, piece, &cost), TLC_OK);
    return cost;
}

/* Frames of a fixed size cost what they have, those with zero-runs n^(3/4), and all others a third of their bound. */
TEST(costs)
{
    uint64_t cost = 77;
    size_t bound;
    for (size_t n = 1; n < SIZE_MAX / 64; n += n / 3 + 1) {
        double want = n < (size_t)1 << 31 ? pow((double)n, 0.75) + 12 : 0;
        assert_true(want == 0 || fabs((double)frame_cost("3lc", n, n) - want) <= 2 + want / 400);
        assert_int_equal(frame_cost("3lc-golomb", n, SIZE_MAX), frame_cost("3lc", n, n));
        assert_int_equal(tlc_codec_bound("ternary+quartic", TLC_F32, n, &bound), TLC_OK);
        assert_int_equal(frame_cost("ternary+quartic", n, n), bound);
        assert_int_equal(tlc_codec_bound("sbc", TLC_F32, n, &bound), TLC_OK);
        assert_int_equal(frame_cost("sbc", n, n), (bound + 2) / 3);
    }
    assert_int_equal(frame_cost("3lc", 1000, 100), 10 * frame_cost("3lc", 100, 100));
    assert_int_equal(frame_cost("3lc", 1001, 100), 11 * frame_cost("3lc", 100, 100));
    assert_int_equal(frame_cost("3lc:block=64", 1000, 1000), 16 * frame_cost("3lc", 64, 64));
    assert_int_equal(frame_cost("3lc:block=64", 30, 30), frame_cost("3lc", 30, 30));
    assert_int_equal(frame_cost("3lc", 0, 1), 12);
    assert_int_equal(tlc_frame_cost("4lc", 10, 10, &cost), TLC_ERR_PARAM);
    assert_int_equal(tlc_frame_cost("raw", SIZE_MAX, 10, &cost), TLC_ERR_SIZE);
    assert_int_equal(cost, 77);
}

/* The frames of recorded gradients have half of their cost to all of it. */
static void cost_of_trace(const trace *t)
{
    tlc_config cfg = config("3lc", TLC_F32, TLC_ISA_AUTO);
    tlc_ctx *ctx = create(&cfg, t->cols);
    uint8_t *dst = bytes(tlc_bound(ctx));
    double sum = 0, cost = (double)frame_cost("3lc", t->cols, t->cols) * (double)t->rows;

    memcpy(tlc_residual(ctx), t->residual, t->cols * sizeof(float));
    for (size_t row = 0; row < t->rows; row++)
        sum += (double)compress(ctx, t->values + row * t->cols, dst);
    if (t->s <= 1)
        assert_true(sum >= 0.5 * cost && sum <= cost);
    free(dst);
    tlc_destroy(ctx);
}

TEST(costs_of_traces)
{
    if (!each_trace(cost_of_trace))
        skip_test("TLC_TEST_DATA names no folder of runs");
}
