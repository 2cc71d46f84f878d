/* SPDX-License-Identifier: MIT
 *
 * The plan of a compression (src/frames/plan.h) as a table: each combination of facts has one row, which says what is
 * swept over and when. Then what must hold for all plans, and what tlc_encode_begin makes of them.
 */
#include "../../src/frames/encode.h"
#include "../../src/frames/plan.h"
#include "../support/support.h"

/* ---- the table --------------------------------------------------------------------------------------------------- */

/* Facts are bits, so that a row can stand for several: NO | YES is any. */
enum { TENSOR = 1, FEW = 2, MANY = 4, BLOCKS = FEW | MANY }; /* blocks: none, or this many */
enum { GRADIENT = 1, RESIDUAL = 2, BOTH = 4 };               /* what there is */
enum { NO = 1, YES = 2, ANY = NO | YES };
enum { SCALE = 1, ONE_SWEEP = 2, VALUES = 4, NOT_ONE_SWEEP = SCALE | VALUES, EACH = 7 }; /* how the quantizer chooses */

typedef struct plan_row {
    unsigned blocks, source, finite, exact, chooses;
    tlc_plan want; /* first, keep, add, max */
} plan_row;

static const plan_row rows[] = {
    /* The bytes of the gradient are sent as they are. */
    {TENSOR | BLOCKS, GRADIENT, ANY, YES, EACH, {TLC_FIRST_NONE, 0, 0, TLC_MAX_NONE}},

    /* One unit, one source: the first sweep measures it. */
    {TENSOR, GRADIENT, ANY, NO, NOT_ONE_SWEEP, {TLC_FIRST_MAX, 0, 0, TLC_MAX_FIRST}},
    {TENSOR, GRADIENT, ANY, NO, ONE_SWEEP, {TLC_FIRST_CHOOSE, 0, 0, TLC_MAX_FIRST}},
    {TENSOR, RESIDUAL, ANY, ANY, NOT_ONE_SWEEP, {TLC_FIRST_MAX, 0, 0, TLC_MAX_FIRST}},
    {TENSOR, RESIDUAL, ANY, ANY, ONE_SWEEP, {TLC_FIRST_CHOOSE, 0, 0, TLC_MAX_FIRST}},

    /* One unit, both sources: checked first, or added at once if it is finite. */
    {TENSOR, BOTH, NO, ANY, SCALE, {TLC_FIRST_MAX, 0, 0, TLC_MAX_FIRST}},
    {TENSOR, BOTH, NO, ANY, ONE_SWEEP, {TLC_FIRST_CHOOSE, 0, 0, TLC_MAX_FIRST}},
    {TENSOR, BOTH, NO, ANY, VALUES, {TLC_FIRST_MAX, 0, 1, TLC_MAX_FIRST}},
    {TENSOR, BOTH, YES, ANY, NOT_ONE_SWEEP, {TLC_FIRST_ADD, 0, 0, TLC_MAX_FIRST}},
    {TENSOR, BOTH, YES, ANY, ONE_SWEEP, {TLC_FIRST_ADD, 0, 0, TLC_MAX_CHOOSE}},

    /* Blocks, one source, not known to be finite: all are checked first; few enough keep their maxima. */
    {FEW, GRADIENT, NO, NO, NOT_ONE_SWEEP, {TLC_FIRST_MAX, 1, 0, TLC_MAX_FIRST}},
    {FEW, RESIDUAL, NO, ANY, NOT_ONE_SWEEP, {TLC_FIRST_MAX, 1, 0, TLC_MAX_FIRST}},
    {MANY, GRADIENT, NO, NO, NOT_ONE_SWEEP, {TLC_FIRST_MAX, 0, 0, TLC_MAX_SWEEP}},
    {MANY, RESIDUAL, NO, ANY, NOT_ONE_SWEEP, {TLC_FIRST_MAX, 0, 0, TLC_MAX_SWEEP}},
    {BLOCKS, GRADIENT, NO, NO, ONE_SWEEP, {TLC_FIRST_MAX, 0, 0, TLC_MAX_CHOOSE}},
    {BLOCKS, RESIDUAL, NO, ANY, ONE_SWEEP, {TLC_FIRST_MAX, 0, 0, TLC_MAX_CHOOSE}},

    /* Blocks, one source, finite: each is swept when its turn comes. */
    {BLOCKS, GRADIENT, YES, NO, NOT_ONE_SWEEP, {TLC_FIRST_NONE, 0, 0, TLC_MAX_SWEEP}},
    {BLOCKS, RESIDUAL, YES, ANY, NOT_ONE_SWEEP, {TLC_FIRST_NONE, 0, 0, TLC_MAX_SWEEP}},
    {BLOCKS, GRADIENT, YES, NO, ONE_SWEEP, {TLC_FIRST_NONE, 0, 0, TLC_MAX_CHOOSE}},
    {BLOCKS, RESIDUAL, YES, ANY, ONE_SWEEP, {TLC_FIRST_NONE, 0, 0, TLC_MAX_CHOOSE}},

    /* Blocks, both sources, not known to be finite. */
    {FEW, BOTH, NO, ANY, SCALE, {TLC_FIRST_MAX, 1, 0, TLC_MAX_FIRST}},
    {FEW, BOTH, NO, ANY, VALUES, {TLC_FIRST_MAX, 1, 1, TLC_MAX_FIRST}},
    {MANY, BOTH, NO, ANY, SCALE, {TLC_FIRST_MAX, 0, 0, TLC_MAX_SWEEP}},
    {MANY, BOTH, NO, ANY, VALUES, {TLC_FIRST_MAX, 0, 1, TLC_MAX_ADD}},
    {BLOCKS, BOTH, NO, ANY, ONE_SWEEP, {TLC_FIRST_MAX, 0, 0, TLC_MAX_CHOOSE}},

    /* Blocks, both sources, finite: each is added when its turn comes. */
    {BLOCKS, BOTH, YES, ANY, NOT_ONE_SWEEP, {TLC_FIRST_NONE, 0, 1, TLC_MAX_ADD}},
    {BLOCKS, BOTH, YES, ANY, ONE_SWEEP, {TLC_FIRST_NONE, 0, 1, TLC_MAX_CHOOSE}},
};

/* ---- all combinations -------------------------------------------------------------------------------------------- */

static unsigned bit(unsigned i)
{
    return 1u << i;
}

static int row_is_of(const plan_row *row, const tlc_plan_facts *f)
{
    const unsigned blocks = !f->blocks ? TENSOR : f->blocks <= TLC_KEPT_MAX ? FEW : MANY;
    const unsigned source = f->has_gradient && f->has_residual ? BOTH : f->has_gradient ? GRADIENT : RESIDUAL;
    const unsigned chooses = f->chooses == TLC_CHOOSES_SCALE          ? SCALE
                             : f->chooses == TLC_CHOOSES_IN_ONE_SWEEP ? ONE_SWEEP
                                                                      : VALUES;

    return row->blocks & blocks && row->source & source && row->finite & bit((unsigned)f->assume_finite) &&
           row->exact & bit((unsigned)f->exact) && row->chooses & chooses;
}

/* Calls check for every combination. There is always a gradient or a residual. Returns how many there were. */
static size_t each_combination(void (*check)(const tlc_plan_facts *f, const tlc_plan *plan))
{
    static const size_t blocks[] = {0, 1, 2, TLC_KEPT_MAX - 1, TLC_KEPT_MAX, TLC_KEPT_MAX + 1, 1000000, SIZE_MAX};
    static const tlc_chooses chooses[] = {TLC_CHOOSES_SCALE, TLC_CHOOSES_IN_ONE_SWEEP, TLC_CHOOSES_BY_VALUES};
    size_t count = 0;

    for (at = (place){.note = "plan"}; at.i < COUNT(blocks) * COUNT(chooses) * 16; at.i++) {
        const size_t flags = at.i % 16, rest = at.i / 16;
        const tlc_plan_facts f = {
            .blocks = blocks[rest / COUNT(chooses)],
            .has_gradient = flags & 1 ? 1 : 0,
            .has_residual = flags & 2 ? 1 : 0,
            .assume_finite = flags & 4 ? 1 : 0,
            .exact = flags & 8 ? 1 : 0,
            .chooses = chooses[rest % COUNT(chooses)],
        };
        if (!f.has_gradient && !f.has_residual)
            continue;
        const tlc_plan plan = tlc_plan_of(&f);
        check(&f, &plan);
        count++;
    }
    return count;
}

static size_t used[COUNT(rows)];

static void check_row(const tlc_plan_facts *f, const tlc_plan *plan)
{
    const plan_row *row = NULL;

    for (size_t i = 0; i < COUNT(rows); i++)
        if (row_is_of(&rows[i], f)) {
            require(!row); /* one only */
            row = &rows[i];
            used[i]++;
        }
    require(row != NULL);
    /* cppcheck-suppress nullPointer ; required */
    require(plan->first == row->want.first && plan->keep_maxima == row->want.keep_maxima &&
            plan->add == row->want.add && plan->max == row->want.max);
}

TEST(table)
{
    require(each_combination(check_row) == 8 * 3 * 12);
    for (size_t i = 0; i < COUNT(rows); i++)
        require(used[i] > 0);
}

/* ---- what holds for all ------------------------------------------------------------------------------------------ */

static void check_laws(const tlc_plan_facts *f, const tlc_plan *plan)
{
    const int sent_as_is = f->exact && !f->has_residual, in_one_sweep = f->chooses == TLC_CHOOSES_IN_ONE_SWEEP;
    const int adds = plan->add || plan->first == TLC_FIRST_ADD;

    /* Nothing is written before a sweep has checked all values, unless the caller has, or any value will do. */
    require(plan->first != TLC_FIRST_ADD || f->assume_finite);
    require(plan->first != TLC_FIRST_NONE || f->assume_finite || sent_as_is);

    /* What is added exists, and is added once. */
    require(!adds || (f->has_gradient && f->has_residual));
    require(!(plan->add && plan->first == TLC_FIRST_ADD));
    /* A quantizer that reads x several times finds it in the residual. */
    require(!(f->chooses == TLC_CHOOSES_BY_VALUES && f->has_gradient && f->has_residual) || adds);
    /* Values that are known to be finite are added in the sweep that measures them. */
    require(!(f->assume_finite && f->has_gradient && f->has_residual) || adds);

    /* A maximum comes from where there is one. */
    switch (plan->max) {
    case TLC_MAX_NONE: require(sent_as_is); break;
    case TLC_MAX_FIRST: require(plan->first != TLC_FIRST_NONE && (!f->blocks || plan->keep_maxima)); break;
    case TLC_MAX_ADD: require(plan->add); break;
    case TLC_MAX_SWEEP: require(f->blocks && !plan->add && !plan->keep_maxima); break;
    case TLC_MAX_CHOOSE: require(in_one_sweep); break;
    }
    require(!sent_as_is || (plan->first == TLC_FIRST_NONE && !plan->keep_maxima && !adds && plan->max == TLC_MAX_NONE));
    require(plan->first != TLC_FIRST_CHOOSE || (in_one_sweep && !f->blocks));
    require(!in_one_sweep || sent_as_is || plan->first == TLC_FIRST_CHOOSE || plan->max == TLC_MAX_CHOOSE);

    /* Only maxima that are found are kept, and only where there is room; then they are used. */
    require(!plan->keep_maxima || (plan->first == TLC_FIRST_MAX && f->blocks && f->blocks <= TLC_KEPT_MAX));
    require(!plan->keep_maxima || plan->max == TLC_MAX_FIRST);
}

TEST(laws)
{
    (void)each_combination(check_laws);
}

/* ---- carried out ------------------------------------------------------------------------------------------------- */

/* A plan that adds gives units without gradient, and a residual that has it; any other leaves both alone. */
static void begun(const tlc_stage *quantizer, const float *g, const float *before, size_t n, int assume_finite)
{
    float *residual = floats(n);
    tlc_codec codec;
    tlc_coding c;

    tlc_codec_fill(&codec, quantizer, NULL, NULL);
    tlc_job job = {
        .codec = &codec,
        .input = {.k = tlc_kernels_for(TLC_ISA_AUTO), .grad = (const uint8_t *)g, .residual = before ? residual : NULL},
        .n = n,
        .assume_finite = assume_finite,
    };
    const tlc_plan_facts facts = {
        .has_gradient = g != NULL,
        .has_residual = before != NULL,
        .assume_finite = assume_finite,
        .exact = quantizer->quantize->exact,
        .chooses = quantizer->quantize->chooses,
    };
    const tlc_plan plan = tlc_plan_of(&facts);
    const int adds = plan.add || plan.first == TLC_FIRST_ADD;
    if (before)
        memcpy(residual, before, n * sizeof *residual);
    require_status(tlc_encode_begin(&job, &c), TLC_OK);
    require(job.input.grad == (adds ? NULL : (const uint8_t *)g) && job.input.residual == (before ? residual : NULL));
    require(c.unit.input == &job.input && c.unit.n == n && c.unit.first == 0);
    for (size_t i = 0; before && i < n; i++)
        require(residual[i] == (adds ? before[i] + g[i] : before[i]));
    free(residual);
}

TEST(carried_out)
{
    enum { N = 2100 };
    float g[N], r[N];
    size_t quantizers = 0, listed = 0;
    tlc_codec_entry entry = {.struct_size = sizeof entry};

    fill(DATA_LAPLACE, 1, g, N);
    fill(DATA_LAPLACE, 2, r, N);
    for (size_t i = 0; tlc_codec_stage(i); i++) {
        const tlc_stage *stage = tlc_codec_stage(i);
        if (!stage->quantize)
            continue;
        at = (place){.codec = stage->name, .n = N};
        for (int finite = 0; finite < 2; finite++) {
            begun(stage, g, r, N, finite);
            begun(stage, g, NULL, N, finite);
            begun(stage, NULL, r, N, finite);
        }
        quantizers++;
    }
    for (size_t i = 0; tlc_codec_list(i, &entry) == TLC_OK; i++)
        listed += entry.kind == TLC_ENTRY_QUANTIZER;
    require(quantizers == listed && listed > 0);
}
