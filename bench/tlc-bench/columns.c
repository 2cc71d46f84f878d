/* SPDX-License-Identifier: MIT */
#include "columns.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

#define CODECS VIEW_CODECS
#define SIZES (VIEW_ROOFLINE | VIEW_DENSITY)
#define SPEEDS (CODECS | SIZES)
#define MANY VIEW_FRAMES
#define EXCHANGE VIEW_EXCHANGE
#define DELTA VIEW_DELTA
#define ALL (SPEEDS | VIEW_SMALL | VIEW_AGGREGATE | MANY | EXCHANGE | DELTA)

const column columns[COLUMNS] = {
#define TEXT_COLUMN(id, key, views, title, value) [id] = {key, TEXT, views, 0, title, ""},
#define COUNT_COLUMN(id, key, views, wide, title, unit, has, value) [id] = {key, COUNT, views, wide, title, unit},
#define REAL_COLUMN(id, key, views, wide, title, unit, format, value) [id] = {key, REAL, views, wide, title, unit},
#include "columns.def"
};

/* Whether the row has a value in this column that is not the usual one. */
static bool is_telling(const report *r, const report_row *row, column_id id)
{
    char buffer[CELL];

    switch (id) {
    case PAPER: return row->paper;
    case THREADS: return row->threads > 1;
    case CLIPPED: return row->verified.clipped;
    case RANDOM:
    case ENTROPY_X: return *column_cell(r, row, id, true, buffer);
    default: return true;
    }
}

static bool has_paper(const report *r)
{
    for (size_t i = 0; i < r->count; i++) {
        if (r->rows[i].paper)
            return true;
    }
    return false;
}

/* Tables do without columns that have nothing new in any row. Unless they are wide, the names of papers take the room
 * of the rooflines. */
bool column_shown(const report *r, column_id id)
{
    unsigned views = columns[id].views | (r->wide ? columns[id].wide : 0);

    if (!(views & (unsigned)r->view) || (id == VALUES && report_has_one_shape(r)))
        return false;
    if ((id == COMPRESS_ROOF || id == DECOMPRESS_ROOF) && !r->wide && has_paper(r))
        return false;
    for (size_t i = 0; i < r->count; i++) {
        if (is_telling(r, &r->rows[i], id))
            return true;
    }
    return false;
}

static bool is_sent(const report_row *row)
{
    return (row->kind == ROW_CODEC || row->kind == ROW_PEER) && !row->inputs && !row->next;
}

/* Whether frames were counted, but not verified as those of codecs are. The rows of deltas are such, with peers. */
static bool has_frames(const report_row *row)
{
    return row->kind == ROW_FRAMES || row->kind == ROW_EXCHANGE || row->next;
}

/* The name. In tables also delay and assume_finite, and a mark for codecs without a run of their own s. */
static const char *codec_of(const report_row *row, bool in_table, char *buffer)
{
    char delay[32] = "";

    bool marked = report_row_is_marked(row);

    if (!in_table || (!row->assume_finite && row->delay <= 1 && !marked) || strlen(row->name) > CELL / 2)
        return row->name;
    if (row->delay > 1)
        snprintf(delay, sizeof delay, " (delay %zu)", row->delay);
    snprintf(buffer, CELL, "%s%s%s%s", row->name, delay, row->assume_finite ? " (assume_finite)" : "",
             marked ? " *" : "");
    return buffer;
}

static const char *crc_of(const report_row *row, char *buffer)
{
    snprintf(buffer, CELL, "%08" PRIx32, row->verified.crc);
    return buffer;
}

static const char *const kinds[] = {
    [ROW_COPY] = "copy",           [ROW_ROOFLINE] = "roofline", [ROW_CODEC] = "codec",       [ROW_PEER] = "peer",
    [ROW_AGGREGATE] = "aggregate", [ROW_FRAMES] = "frames",     [ROW_EXCHANGE] = "exchange", [ROW_DELTA] = "delta",
};
static const char *const starts[] = {
    [START_NO_RESIDUAL] = "",
    [START_ZERO] = "zero",
    [START_MIXED] = "mixed",
    [START_RECORDED] = "recorded",
};

/* In tables as 4Ki, if that is what it is. */
static const char *print_count(uint64_t count, bool in_table, char *buffer)
{
    int shift = !in_table || !count ? 0 : count % (1 << 20) == 0 ? 20 : count % (1 << 10) == 0 ? 10 : 0;

    snprintf(buffer, CELL, "%" PRIu64 "%s", count >> shift, shift == 20 ? "Mi" : shift == 10 ? "Ki" : "");
    return buffer;
}

static const char *print_real(double real, const char *format, bool in_table, char *buffer)
{
    if (isfinite(real)) /* more digits do not fit the column */
        snprintf(buffer, CELL, !in_table ? "%.9g" : real >= 100 ? "%.1f" : format, real);
    return buffer;
}

/* NaN where b is 0. */
static double over(double a, double b)
{
    return b > 0 ? a / b : NAN;
}

/* A time divided by another one. */
static double quotient(const report_row *row, int time, int of)
{
    return over(row->time[time].median, row->time[of].median);
}

static double speed(const report_row *row, double seconds)
{
    return row->gigabytes > 0 ? row->gigabytes / seconds : NAN;
}

static double nanoseconds(const report_row *row, int time)
{
    return row->time[time].median / (double)row->calls * 1e9;
}

/* For decoding: a frame decodes to the values of one step, whatever the delay. */
static double decoded(const report_row *row)
{
    return (double)row->frames / (double)row->delay;
}

static double decoded_speed(const report_row *row, double seconds)
{
    return speed(row, seconds) * decoded(row);
}

/* The speed divided by that of memcpy. */
static double decoded_x(const report_row *row, int time)
{
    return quotient(row, TIME_MEMCPY, time) * decoded(row);
}

static double ratio_of(const report_row *row)
{
    const verified *v = &row->verified;

    if (row->kind == ROW_COPY)
        return 1;
    return v->values ? over((double)v->input_bytes, (double)v->frame_bytes) : NAN;
}

static double bits_of(const report *r, const report_row *row)
{
    const verified *v = &row->verified;

    return 8 * (row->kind == ROW_COPY ? (double)dtype_size(r->dtype) : over((double)v->frame_bytes, (double)v->values));
}

/* Whether the row has such a figure. Sizes and errors, RATIO and what follows it, are those of frames. */
static bool has_real(const report_row *row, column_id id)
{
    const bool sent = id == SENT_MEAN || id == SENT_BUSIEST || id == FRAMING, any = id == RATIO || id == BITS;

    if (id < RATIO)
        return true;
    if (row->kind == ROW_COPY)
        return any && row->values;
    if (row->kind == ROW_EXCHANGE)
        return any || sent;
    if (row->kind == ROW_FRAMES)
        return any || id == NONZERO;
    if (row->next)
        return any || id == ENTROPY || id == ENTROPY_X;
    return is_sent(row) && !sent;
}

const char *column_cell(const report *r, const report_row *row, column_id which, bool in_table, char *buffer)
{
    const timing *t = row->time;
    const verified *v = &row->verified;
    const exchanged *e = &row->exchange;

    buffer[0] = '\0';
    switch (which) {
#define TEXT_COLUMN(id, key, views, title, value)                                                                      \
    case id: return value;
#define COUNT_COLUMN(id, key, views, wide, title, unit, has, value)                                                    \
    case id: return (has) ? print_count(value, in_table, buffer) : buffer;
#define REAL_COLUMN(id, key, views, wide, title, unit, format, value)                                                  \
    case id: return print_real(has_real(row, id) ? (value) : NAN, format, in_table, buffer);
#include "columns.def"
    default: return buffer;
    }
}
