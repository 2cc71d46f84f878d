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
#define TEXT_COLUMN(id, key, views, title, value) [id] = {key, TEXT, views, 0, title, "", NULL},
#define COUNT_COLUMN(id, key, views, wide, title, unit, has, value) [id] = {key, COUNT, views, wide, title, unit, NULL},
#define REAL_COLUMN(id, key, views, wide, title, unit, format, value)                                                  \
    [id] = {key, REAL, views, wide, title, unit, format},
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

static const char *text_of(const report *r, const report_row *row, column_id id, bool in_table, char *buffer)
{
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
    const verified *v = &row->verified;
    const exchanged *e = &row->exchange;

    switch (id) {
#define TEXT_COLUMN(id, key, views, title, value)                                                                      \
    case id: return value;
#include "columns.def"
    default: return "";
    }
}

static bool count_of(const report_row *row, column_id id, uint64_t *count)
{
    const verified *v = &row->verified;
    const exchanged *e = &row->exchange;

    switch (id) {
#define COUNT_COLUMN(id, key, views, wide, title, unit, has, value)                                                    \
    case id: *count = (value); return has;
#include "columns.def"
    default: return false;
    }
}

/* As 4Ki, if that is what it is. */
static void print_count(char *buffer, uint64_t count, bool in_table)
{
    int shift = !in_table || !count ? 0 : count % (1 << 20) == 0 ? 20 : count % (1 << 10) == 0 ? 10 : 0;

    snprintf(buffer, CELL, "%" PRIu64 "%s", count >> shift, shift == 20 ? "Mi" : shift == 10 ? "Ki" : "");
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

/* Whether frames of the row were verified, so that it has such a size: RATIO and what follows it. */
static bool has_size(const report_row *row, column_id id)
{
    const bool sent = id == SENT_MEAN || id == SENT_BUSIEST || id == FRAMING, any = id == RATIO || id == BITS;

    if (row->kind == ROW_EXCHANGE)
        return any || sent;
    if (row->kind == ROW_FRAMES)
        return any || id == NONZERO;
    if (row->next)
        return any || id == ENTROPY || id == ENTROPY_X;
    return is_sent(row) && !sent;
}

static double real_of(const report *r, const report_row *row, column_id id)
{
    const timing *t = row->time;
    const verified *v = &row->verified;
    const exchanged *e = &row->exchange;

    if (row->kind == ROW_COPY && row->values && (id == RATIO || id == BITS))
        return id == RATIO ? 1 : 8 * (double)dtype_size(r->dtype);
    if (id >= RATIO && !has_size(row, id))
        return NAN;
    switch (id) {
#define REAL_COLUMN(id, key, views, wide, title, unit, format, value)                                                  \
    case id: return value;
#include "columns.def"
    default: return NAN;
    }
}

const char *column_cell(const report *r, const report_row *row, column_id id, bool in_table, char *buffer)
{
    const column *c = &columns[id];
    double real;
    uint64_t count;

    buffer[0] = '\0';
    if (c->kind == TEXT)
        return text_of(r, row, id, in_table, buffer);
    if (c->kind == COUNT) {
        if (count_of(row, id, &count))
            print_count(buffer, count, in_table);
        return buffer;
    }
    real = real_of(r, row, id);
    if (!isfinite(real))
        return buffer;
    if (!in_table)
        snprintf(buffer, CELL, "%.9g", real);
    else if (id == SUM_ERROR && real >= 0.1) /* without error feedback values are lost */
        snprintf(buffer, CELL, "%.4f", real);
    else if (real >= 100) /* more digits do not fit the column */
        snprintf(buffer, CELL, "%.1f", real);
    else
        snprintf(buffer, CELL, c->format, real);
    return buffer;
}
