/* SPDX-License-Identifier: MIT
 *
 * Frames are taken in groups, because what is known of each is on the stack. In a group, frames with blocks of the same
 * size, or without blocks, go side by side: unit by unit, and large units part by part. A part is some columns
 * (coder.h), so within a unit only payloads with equally many streams go side by side.
 */
#include "decode_many.h"
#include "../common/sizes.h"
#include "../common/stack.h"
#include "walk.h"

enum {
    GROUP = 32,  /* frames */
    RANGES = 16, /* that threads share: in each, the tables are read from the first block on, and of a tensor without
                    blocks there is a place for each of them and each frame */
    /* Values of the sum that get the values of all frames before the next ones do, so that they stay in the caches;
       fewer for frames with positions. */
    PART = 1 << 19,
    SCATTERED = 1 << 17,
    LINE = 16 /* floats in a cache line */
};

static float weight_of(const tlc_many *m, size_t i)
{
    return m->weights ? m->weights[i] : 1.0f;
}

/* ---- check ------------------------------------------------------------------------------------------------------- */

static tlc_status check_frame(const tlc_many *m, size_t i)
{
    const tlc_message *message = &m->frames[i];
    tlc_status status;
    tlc_frame f;

    if (!tlc_finite(weight_of(m, i)) || (!message->data && message->len))
        return TLC_ERR_PARAM;
    status = tlc_frame_read(&f, message->data, message->len, &m->n, 1);
    return status ? status : tlc_decode_check(m->k, &f) ? TLC_OK : TLC_ERR_CORRUPT;
}

typedef struct check_work {
    const tlc_many *m;
    size_t first; /* the frame of task 0 */
    tlc_status status[TLC_RANGES_MAX];
} check_work;

static void check_task(void *arg, size_t i)
{
    check_work *w = arg;
    w->status[i] = check_frame(w->m, w->first + i);
}

tlc_status tlc_many_check(const tlc_many *m, size_t *bad)
{
    const size_t most = m->parallel->run ? TLC_RANGES_MAX : 1;
    check_work w;

    w.m = m;
    w.first = 0;
    for (size_t count; w.first < m->count; w.first += count) {
        count = tlc_smaller(m->count - w.first, most);
        tlc_ranges_run(m->parallel, count, check_task, &w);
        for (size_t i = 0; i < count; i++)
            if (w.status[i]) {
                *bad = w.first + i;
                return w.status[i];
            }
    }
    return TLC_OK;
}

/* ---- units side by side ------------------------------------------------------------------------------------------ */

/* Frames of a group that go side by side. */
typedef struct side {
    const tlc_many *m;
    const tlc_frame *frames;
    const tlc_output *outputs;
    size_t count;
    int from_zero;
} side;

static void decode_part(const tlc_walk *w, size_t count, tlc_place *places, size_t from, size_t to)
{
    const tlc_coding *codings[GROUP];

    for (size_t i = 0, some; i < count; i += some) {
        const tlc_coder *coder = tlc_coder_for(w[i].coding.codec);
        for (some = 0; i + some < count && tlc_coder_for(w[i + some].coding.codec) == coder; some++)
            codings[some] = &w[i + some].coding;
        if (TLC_IS_BUILT(TLC_WITH_QUARTIC) && coder == &tlc_coder_of_symbols)
            tlc_unpack_many(codings, places + i, some, from, to);
        else
            for (size_t j = 0; j < some; j++)
                coder->decode(codings[j], &places[i + j], from, to);
    }
}

static size_t streams_of(const tlc_walk *w)
{
    return tlc_coder_for(w->coding.codec)->streams(&w->coding);
}

/* How many of the first units have equally many streams. */
static size_t alike(const tlc_walk *w, size_t count)
{
    size_t i = 1;

    while (i < count && streams_of(&w[i]) == streams_of(&w[0]))
        i++;
    return i;
}

static void clear(const side *s, const tlc_walk *w, size_t from, size_t to)
{
    size_t columns = tlc_columns(&w->coding), n = (size_t)w->coding.unit.n;

    for (size_t first = from; first < n; first += columns)
        memset(s->m->sum + w->coding.unit.first + first, 0, tlc_smaller(to - from, n - first) * sizeof *s->m->sum);
}

/* Are members added here and there, and so many of them that most cache lines get one? A member takes about a byte. */
static int are_scattered(const tlc_walk *w, size_t count)
{
    uint64_t bytes = 0;

    for (size_t i = 0; i < count; i++)
        bytes += w[i].coding.len;
    return streams_of(w) == 1 && tlc_codec_positions(w->coding.codec) && bytes >= w->coding.unit.n / LINE;
}

static int are_slow_in_parts(const tlc_walk *w, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const tlc_coder *coder = tlc_coder_for(w[i].coding.codec);
        if (coder->is_slow_in_parts && coder->is_slow_in_parts(&w[i].coding))
            return 1;
    }
    return 0;
}

/* Asks for the lines of a part of the sum. */
static void fetch(const side *s, const tlc_walk *w, size_t from, size_t to)
{
    const float *sum = s->m->sum + w->coding.unit.first;

    for (to = tlc_smaller(to, (size_t)w->coding.unit.n); from < to; from += LINE)
        __builtin_prefetch(sum + from, 1);
}

/* Decodes columns from .. to - 1 of units that have equally many streams. */
static void decode_columns(const side *s, const tlc_walk *w, size_t count, tlc_place *places, size_t from, size_t to,
                           int from_zero)
{
    const int scattered = are_scattered(w, count);
    size_t part = (scattered ? SCATTERED : PART) / streams_of(w) / TLC_PART_COLUMNS * TLC_PART_COLUMNS;

    if (part >= to - from || (to - from == tlc_columns(&w->coding) && are_slow_in_parts(w, count)))
        part = to - from;
    for (size_t end; from < to; from = end) {
        end = from + tlc_smaller(part, to - from);
        if (from_zero)
            clear(s, w, from, end);
        else if (scattered && part <= SCATTERED)
            fetch(s, w, from, end); /* else each member would wait for its line */
        decode_part(w, count, places, from, end);
    }
}

/* ---- blocks ------------------------------------------------------------------------------------------------------ */

typedef struct blocks_work {
    const side *s;
    tlc_ranges ranges; /* of blocks */
} blocks_work;

static void start_walks(const side *s, tlc_walk *walks)
{
    for (size_t i = 0; i < s->count; i++)
        tlc_walk_start(&walks[i], s->m->k, &s->frames[i], &s->outputs[i]);
}

static void decode_blocks(void *arg, size_t r)
{
    const blocks_work *b = arg;
    size_t next = tlc_range_start(&b->ranges, r), end = tlc_range_start(&b->ranges, r + 1);
    tlc_walk walks[GROUP];

    start_walks(b->s, walks);
    for (size_t i = 0; i < b->s->count; i++)
        tlc_walk_skip(&walks[i], next);
    for (; next < end; next++) {
        for (size_t i = 0; i < b->s->count; i++)
            (void)tlc_walk_next(&walks[i]);
        for (size_t i = 0, count; i < b->s->count; i += count) {
            tlc_place places[GROUP] = {{{0, 0, 0}}};
            count = alike(walks + i, b->s->count - i);
            decode_columns(b->s, walks + i, count, places, 0, tlc_columns(&walks[i].coding), b->s->from_zero && i == 0);
        }
    }
}

TLC_OWN_FRAME static void decode_blocked(const side *s)
{
    size_t block = s->frames[0].codec.block;
    blocks_work b = {s,
                     tlc_ranges_split(s->m->parallel, (size_t)tlc_ceil_div(s->m->n, block), TLC_RANGE_MIN / block + 1)};

    b.ranges.count = tlc_smaller(b.ranges.count, RANGES);
    tlc_ranges_run(s->m->parallel, b.ranges.count, decode_blocks, &b);
}

/* ---- tensors without blocks -------------------------------------------------------------------------------------- */

typedef struct tensors_work {
    const side *s;
    const tlc_walk *walks; /* of frames with equally many streams */
    size_t count, columns;
    int from_zero;
    tlc_ranges ranges; /* of columns, in multiples of TLC_PART_COLUMNS */
    tlc_place places[RANGES][GROUP];
} tensors_work;

static size_t range_start(const tensors_work *w, size_t r)
{
    return tlc_smaller(tlc_range_start(&w->ranges, r) * TLC_PART_COLUMNS, w->columns);
}

/* Finds the places of frame i where ranges begin. */
static void find_places(void *arg, size_t i)
{
    tensors_work *w = arg;
    const tlc_coding *c = &w->walks[i].coding;

    memset(&w->places[0][i], 0, sizeof w->places[0][i]);
    for (size_t r = 1; r < w->ranges.count; r++) {
        w->places[r][i] = w->places[r - 1][i];
        if (tlc_coder_for(c->codec)->skip)
            tlc_coder_for(c->codec)->skip(c, &w->places[r][i], range_start(w, r - 1), range_start(w, r));
    }
}

static void decode_range(void *arg, size_t r)
{
    tensors_work *w = arg;
    decode_columns(w->s, w->walks, w->count, w->places[r], range_start(w, r), range_start(w, r + 1), w->from_zero);
}

static void decode_alike(const side *s, const tlc_walk *walks, size_t count, int from_zero)
{
    const tlc_parallel *parallel = s->m->parallel;
    tensors_work w;

    w.s = s;
    w.walks = walks;
    w.count = count;
    w.columns = tlc_columns(&walks->coding);
    w.from_zero = from_zero;
    w.ranges = tlc_ranges_split(parallel, (size_t)tlc_ceil_div(w.columns, TLC_PART_COLUMNS),
                                TLC_RANGE_MIN / TLC_PART_COLUMNS);
    w.ranges.count = tlc_smaller(w.ranges.count, RANGES);
    if (w.ranges.count > 1)
        tlc_ranges_run(parallel, count, find_places, &w);
    else
        memset(w.places[0], 0, sizeof w.places[0]);
    tlc_ranges_run(parallel, w.ranges.count, decode_range, &w);
}

TLC_OWN_FRAME static void decode_unblocked(const side *s)
{
    tlc_walk walks[GROUP];

    start_walks(s, walks);
    for (size_t i = 0, count; i < s->count; i += count) {
        count = alike(walks + i, s->count - i);
        decode_alike(s, walks + i, count, s->from_zero && i == 0);
    }
}

/* ---- groups ------------------------------------------------------------------------------------------------------ */

static void add_group(const tlc_many *m, size_t first, size_t count)
{
    tlc_output outputs[GROUP];
    tlc_frame frames[GROUP];

    for (size_t i = 0; i < count; i++) {
        const tlc_message *message = &m->frames[first + i];
        (void)tlc_frame_read(&frames[i], message->data, message->len, NULL, 0);
        outputs[i] = (tlc_output){.k = m->k, .mode = TLC_OUTPUT_ADD, .dtype = TLC_F32, .out = m->sum};
        outputs[i].weight = weight_of(m, first + i);
        tlc_output_for(&outputs[i], &frames[i]);
    }
    for (size_t i = 0, some; i < count; i += some) {
        for (some = 1; i + some < count && frames[i + some].codec.block == frames[i].codec.block;)
            some++;
        side s = {m, frames + i, outputs + i, some, m->from_zero && first + i == 0};
        if (frames[i].codec.block)
            decode_blocked(&s);
        else
            decode_unblocked(&s);
    }
}

void tlc_many_add(const tlc_many *m)
{
    if (m->n && m->from_zero && !m->count)
        memset(m->sum, 0, m->n * sizeof *m->sum);
    for (size_t i = 0; m->n && i < m->count; i += GROUP)
        add_group(m, i, tlc_smaller(m->count - i, GROUP));
}
