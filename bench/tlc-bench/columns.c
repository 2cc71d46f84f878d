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
    [TENSOR] = {"tensor", TEXT, 0, 0, NULL, NULL, NULL},
    [KIND] = {"kind", TEXT, 0, 0, NULL, NULL, NULL},
    [CODEC] = {"codec", TEXT, ALL, 0, "codec", "", NULL},
    [PAPER] = {"paper", TEXT, ALL, 0, "in the paper", "", NULL},
    [ISA] = {"isa", TEXT, 0, 0, NULL, NULL, NULL},
    [DTYPE] = {"dtype", TEXT, 0, 0, NULL, NULL, NULL},
    [FEEDBACK] = {"feedback", COUNT, 0, 0, NULL, NULL, NULL},
    [ASSUME_FINITE] = {"assume_finite", COUNT, 0, 0, NULL, NULL, NULL},
    [THREADS] = {"threads", COUNT, ALL, 0, "threads", "", NULL},
    [STEPS] = {"steps", COUNT, 0, 0, NULL, NULL, NULL},
    [DELAY] = {"delay", COUNT, 0, 0, NULL, NULL, NULL},
    [INPUTS] = {"inputs", COUNT, VIEW_AGGREGATE, 0, "inputs", "", NULL},
    [FRAMES] = {"frames", COUNT, MANY, 0, "frames", "", NULL},
    [MODEL] = {"model", TEXT, EXCHANGE, 0, "model", "", NULL},
    [ALGORITHM] = {"algorithm", TEXT, EXCHANGE, 0, "algorithm", "", NULL},
    [RANKS] = {"ranks", COUNT, EXCHANGE, 0, "ranks", "", NULL},
    [OWNERS] = {"owners", COUNT, EXCHANGE, 0, "owners", "", NULL},
    [NEXT] = {"next", TEXT, DELTA, 0, "next", "", NULL},
    [CHANGED] = {"changed_percent", REAL, DELTA, 0, "changed", "%", "%.2f"},
    [VALUES] = {"values", COUNT, ALL & ~(EXCHANGE | DELTA), EXCHANGE | DELTA, "values", "", NULL},
    [ROUNDS] = {"rounds", COUNT, 0, 0, NULL, NULL, NULL},
    [RUN] = {"run", TEXT, 0, 0, NULL, NULL, NULL},
    [RUN_S] = {"run_s", REAL, 0, 0, NULL, NULL, NULL},
    [START] = {"start", TEXT, 0, 0, NULL, NULL, NULL},
    [MEMCPY] = {"memcpy_gb_s", REAL, 0, 0, NULL, NULL, NULL},
    [MEMCPY_BEST] = {"memcpy_best_gb_s", REAL, 0, 0, NULL, NULL, NULL},
    [COMPRESS] = {"compress_gb_s", REAL, SPEEDS | DELTA, 0, "compress", "GB/s", "%.2f"},
    [COMPRESS_BEST] = {"compress_best_gb_s", REAL, 0, 0, NULL, NULL, NULL},
    [COMPRESS_NS] = {"compress_ns", REAL, VIEW_SMALL, 0, "compress", "ns", "%.1f"},
    [COMPRESS_X] = {"compress_x_memcpy", REAL, 0, SPEEDS, "memcpy", "x", "%.3f"},
    [COMPRESS_BOTH_X] = {"compress_x_memcpy_of_both", REAL, DELTA, 0, "memcpy", "x", "%.3f"},
    [COMPRESS_ROOF] = {"compress_roofline", REAL, SPEEDS | DELTA, 0, "roofline", "x", "%.3f"},
    [RANDOM] = {"random_share", REAL, 0, SPEEDS, "random", "share", "%.3f"},
    [DECOMPRESS] = {"decompress_gb_s", REAL, SPEEDS, 0, "decompress", "GB/s", "%.2f"},
    [DECOMPRESS_BEST] = {"decompress_best_gb_s", REAL, 0, 0, NULL, NULL, NULL},
    [DECOMPRESS_NS] = {"decompress_ns", REAL, VIEW_SMALL, 0, "decompress", "ns", "%.1f"},
    [DECOMPRESS_X] = {"decompress_x_memcpy", REAL, 0, SPEEDS, "memcpy", "x", "%.3f"},
    [DECOMPRESS_ROOF] = {"decompress_roofline", REAL, SPEEDS, 0, "roofline", "x", "%.3f"},
    [ADD] = {"decompress_add_gb_s", REAL, SIZES | MANY, CODECS, "add", "GB/s", "%.2f"},
    [ADD_BEST] = {"decompress_add_best_gb_s", REAL, 0, 0, NULL, NULL, NULL},
    [ADD_NS] = {"decompress_add_ns", REAL, VIEW_SMALL, 0, "decompress-add", "ns", "%.1f"},
    [ADD_X] = {"decompress_add_x_memcpy", REAL, 0, SPEEDS | MANY, "memcpy", "x", "%.3f"},
    [ADD_ROOF] = {"add_roofline", REAL, SIZES, CODECS, "roofline", "x", "%.3f"},
    [ADD_MANY] = {"add_many_gb_s", REAL, MANY, 0, "add many", "GB/s", "%.2f"},
    [ADD_MANY_X] = {"add_many_x_memcpy", REAL, 0, MANY, "memcpy", "x", "%.3f"},
    [ADD_MANY_GAIN] = {"add_many_x_add", REAL, MANY, 0, "add", "x", "%.3f"},
    [ADD_MANY_ROOF] = {"add_many_roofline", REAL, MANY, 0, "roofline", "x", "%.3f"},
    [FROM_ZERO] = {"from_zero_gb_s", REAL, MANY, 0, "from zero", "GB/s", "%.2f"},
    [FROM_ZERO_X] = {"from_zero_x_memcpy", REAL, 0, MANY, "memcpy", "x", "%.3f"},
    [FROM_ZERO_GAIN] = {"from_zero_x_add", REAL, MANY, 0, "add", "x", "%.3f"},
    [FROM_ZERO_ROOF] = {"from_zero_roofline", REAL, MANY, 0, "roofline", "x", "%.3f"},
    [APPLY] = {"apply_gb_s", REAL, DELTA, 0, "apply", "GB/s", "%.2f"},
    [APPLY_BEST] = {"apply_best_gb_s", REAL, 0, 0, NULL, NULL, NULL},
    [APPLY_X] = {"apply_x_memcpy", REAL, DELTA, 0, "memcpy", "x", "%.3f"},
    [APPLY_ROOF] = {"apply_roofline", REAL, DELTA, 0, "roofline", "x", "%.3f"},
    [AGGREGATE_ATE] = {"aggregate_g_ate_s", REAL, VIEW_AGGREGATE, 0, "aggregate", "G ATE/s", "%.3f"},
    [AGGREGATE] = {"aggregate_gb_s", REAL, VIEW_AGGREGATE, 0, "frames", "GB/s", "%.2f"},
    [AGGREGATE_X] = {"aggregate_x_memcpy", REAL, VIEW_AGGREGATE, 0, "memcpy", "x", "%.3f"},
    [STEP_MS] = {"step_ms", REAL, EXCHANGE, 0, "step", "ms", "%.2f"},
    [STEP_BEST_MS] = {"step_best_ms", REAL, 0, 0, NULL, NULL, NULL},
    [CODECS_MS] = {"codecs_ms", REAL, EXCHANGE, 0, "codecs", "ms", "%.2f"},
    [CODECS_BEST_MS] = {"codecs_best_ms", REAL, 0, 0, NULL, NULL, NULL},
    [ADD_MANY_MS] = {"add_many_ms", REAL, 0, EXCHANGE, "add many", "ms", "%.2f"},
    [OTHER] = {"other_percent", REAL, EXCHANGE, 0, "other", "%", "%.1f"},
    [OTHER_BEST] = {"other_best_percent", REAL, 0, 0, NULL, NULL, NULL},
    [RATIO] = {"ratio", REAL, CODECS | DELTA, 0, "ratio", "", "%.2f"},
    [BITS] = {"bits_per_value", REAL, CODECS | MANY | EXCHANGE | DELTA, 0, "bits per", "value", "%.4f"},
    [SENT_MEAN] = {"sent_mean_x", REAL, EXCHANGE, 0, "mean", "x", "%.3f"},
    [SENT_BUSIEST] = {"sent_busiest_x", REAL, EXCHANGE, 0, "busiest", "x", "%.3f"},
    [FRAMING] = {"framing_percent", REAL, EXCHANGE, 0, "framing", "%", "%.2f"},
    [ENTROPY] = {"entropy_bits_per_value", REAL, 0, 0, NULL, NULL, NULL},
    [ENTROPY_X] = {"bits_x_entropy", REAL, DELTA, CODECS, "entropy", "x", "%.3f"},
    [CLIPPED] = {"clipped", COUNT, ALL, 0, "clipped", "values", NULL},
    [NONZERO] = {"nonzero_percent", REAL, CODECS | VIEW_DENSITY, MANY, "non-zero", "%", "%.3f"},
    [STEP_ERROR] = {"step_relative_error", REAL, 0, CODECS, "error of", "one step", "%.4f"},
    [SUM_ERROR] = {"sum_relative_error", REAL, 0, CODECS, "error of", "the sum", "%.1e"},
    [RESIDUAL_X] = {"residual_relative_norm", REAL, 0, CODECS, "residual", "rel.norm", "%.3f"},
    [RESIDUAL] = {"residual_norm", REAL, 0, 0, NULL, NULL, NULL},
    [FRAME_BYTES] = {"frame_bytes", COUNT, 0, 0, NULL, NULL, NULL},
    [CRC] = {"crc32", TEXT, 0, 0, NULL, NULL, NULL},
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

    switch (id) {
    case TENSOR: return row->tensor ? row->tensor : "";
    case KIND: return kinds[row->kind];
    case CODEC: return codec_of(row, in_table, buffer);
    case PAPER: return row->paper ? row->paper : "";
    case NEXT: return row->next ? row->next : "";
    case MODEL: return row->model ? row->model : "";
    case ALGORITHM: return row->model ? row->exchange.algorithm : "";
    case ISA: return report_row_has_codec(row) ? tlc_isa_name(row->verified.isa) : "";
    case DTYPE: return dtype_name(r->dtype);
    case RUN: return row->run ? row->run->run : "";
    case START: return is_sent(row) ? starts[row->verified.start] : "";
    case CRC: snprintf(buffer, CELL, "%08" PRIx32, row->verified.crc); return is_sent(row) ? buffer : "";
    default: return "";
    }
}

static bool count_of(const report_row *row, column_id id, uint64_t *count)
{
    switch (id) {
    case STEPS: *count = row->steps; return true;
    case VALUES: *count = row->values; return true;
    case THREADS: *count = row->threads; return true;
    case DELAY: *count = row->delay; return row->kind == ROW_CODEC;
    case INPUTS: *count = row->inputs; return row->inputs;
    case FRAMES: *count = row->frames; return row->kind == ROW_FRAMES;
    case RANKS: *count = row->exchange.ranks; return row->kind == ROW_EXCHANGE;
    case OWNERS: *count = row->exchange.owners; return row->exchange.owners;
    case CLIPPED: *count = row->verified.clipped; return row->kind == ROW_CODEC || row->kind == ROW_AGGREGATE;
    case ROUNDS: *count = row->rounds; return true;
    case ASSUME_FINITE: *count = row->assume_finite; return row->kind == ROW_CODEC || row->kind == ROW_EXCHANGE;
    case FEEDBACK: *count = row->verified.feedback; return is_sent(row) || has_frames(row);
    case FRAME_BYTES: *count = row->verified.frame_bytes; return is_sent(row) || has_frames(row);
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
    return over(row->time[TIME_MEMCPY].median, row->time[time].median) * decoded(row);
}

static double speed_of(const report_row *row, column_id id)
{
    const timing *t = row->time;

    switch (id) {
    case RANDOM: return over(t[TIME_RANDOM].median, t[TIME_COMPRESS].median);
    case AGGREGATE_ATE: return over((double)row->inputs * (double)row->values * 1e-9, t[TIME_AGGREGATE].median);
    case AGGREGATE: return speed(row, t[TIME_AGGREGATE].median);
    case AGGREGATE_X: return over(t[TIME_MEMCPY].median, t[TIME_AGGREGATE].median);
    case MEMCPY: return speed(row, t[TIME_MEMCPY].median);
    case MEMCPY_BEST: return speed(row, t[TIME_MEMCPY].best);
    case COMPRESS: return speed(row, t[TIME_COMPRESS].median);
    case COMPRESS_BEST: return speed(row, t[TIME_COMPRESS].best);
    case COMPRESS_NS: return nanoseconds(row, TIME_COMPRESS);
    case COMPRESS_X: return over(t[TIME_MEMCPY].median, t[TIME_COMPRESS].median);
    case COMPRESS_BOTH_X: return over(t[TIME_MEMCPY_BOTH].median, t[TIME_COMPRESS].median);
    case COMPRESS_ROOF: return over(t[TIME_COMPRESS_ROOF].median, t[TIME_COMPRESS].median);
    case DECOMPRESS: return decoded_speed(row, t[TIME_DECOMPRESS].median);
    case DECOMPRESS_BEST: return decoded_speed(row, t[TIME_DECOMPRESS].best);
    case DECOMPRESS_NS: return nanoseconds(row, TIME_DECOMPRESS);
    case DECOMPRESS_X: return decoded_x(row, TIME_DECOMPRESS);
    case DECOMPRESS_ROOF: return over(t[TIME_DECOMPRESS_ROOF].median, t[TIME_DECOMPRESS].median);
    case ADD: return decoded_speed(row, t[TIME_ADD].median);
    case ADD_BEST: return decoded_speed(row, t[TIME_ADD].best);
    case ADD_NS: return nanoseconds(row, TIME_ADD);
    case ADD_X: return decoded_x(row, TIME_ADD);
    case ADD_ROOF: return over(t[TIME_ADD_ROOF].median, t[TIME_ADD].median);
    case ADD_MANY: return decoded_speed(row, t[TIME_ADD_MANY].median);
    case ADD_MANY_X: return decoded_x(row, TIME_ADD_MANY);
    case ADD_MANY_GAIN: return over(t[TIME_ADD].median, t[TIME_ADD_MANY].median);
    case ADD_MANY_ROOF: return over(t[TIME_ADD_MANY_ROOF].median, t[TIME_ADD_MANY].median);
    case FROM_ZERO: return decoded_speed(row, t[TIME_FROM_ZERO].median);
    case FROM_ZERO_X: return decoded_x(row, TIME_FROM_ZERO);
    case FROM_ZERO_GAIN: return over(t[TIME_ADD].median, t[TIME_FROM_ZERO].median);
    case FROM_ZERO_ROOF: return over(t[TIME_FROM_ZERO_ROOF].median, t[TIME_FROM_ZERO].median);
    case APPLY: return speed(row, t[TIME_APPLY].median);
    case APPLY_BEST: return speed(row, t[TIME_APPLY].best);
    case APPLY_X: return over(t[TIME_MEMCPY].median, t[TIME_APPLY].median);
    case APPLY_ROOF: return over(t[TIME_APPLY_ROOF].median, t[TIME_APPLY].median);
    case STEP_MS: return 1e3 * t[TIME_STEP].median;
    case STEP_BEST_MS: return 1e3 * t[TIME_STEP].best;
    case CODECS_MS: return 1e3 * t[TIME_CODECS].median;
    case CODECS_BEST_MS: return 1e3 * t[TIME_CODECS].best;
    case ADD_MANY_MS: return 1e3 * t[TIME_ADD_MANY].median;
    case CHANGED: return row->next ? 100 * row->changed : NAN;
    case OTHER: return row->model ? 100 * row->exchange.other : NAN;
    case OTHER_BEST: return row->model ? 100 * row->exchange.other_best : NAN;
    default: return NAN;
    }
}

static double exchange_of(const exchanged *e, column_id id)
{
    switch (id) {
    case SENT_MEAN: return e->mean;
    case SENT_BUSIEST: return e->busiest;
    case FRAMING: return 100 * e->framing;
    default: return NAN;
    }
}

static double size_of(const report *r, const report_row *row, column_id id)
{
    const verified *v = &row->verified;

    if (row->kind == ROW_EXCHANGE && id != RATIO && id != BITS)
        return exchange_of(&row->exchange, id);
    if (row->kind == ROW_FRAMES && id != RATIO && id != BITS && id != NONZERO)
        return NAN;
    if (row->next && id != RATIO && id != BITS && id != ENTROPY && id != ENTROPY_X)
        return NAN;
    if (!is_sent(row) && !has_frames(row)) {
        if (row->kind != ROW_COPY || !row->values)
            return NAN;
        return id == RATIO ? 1 : id == BITS ? 8 * (double)dtype_size(r->dtype) : NAN;
    }
    switch (id) {
    case RATIO: return v->values ? over((double)v->input_bytes, (double)v->frame_bytes) : NAN;
    case BITS: return 8 * over((double)v->frame_bytes, (double)v->values);
    case ENTROPY: return v->entropy_bits > 0 ? v->entropy_bits / (double)v->values : NAN;
    case ENTROPY_X: return over(8 * (double)v->frame_bytes, v->entropy_bits);
    case NONZERO: return 100 * over((double)v->nonzero * (double)row->delay, (double)v->values);
    case STEP_ERROR: return v->step_error;
    case SUM_ERROR: return v->sum_error;
    case RESIDUAL_X: return v->feedback ? over(v->residual_norm, v->grad_norm) : NAN;
    case RESIDUAL: return v->feedback ? v->residual_norm : NAN;
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
    real = id == RUN_S ? (row->run ? row->run->s : NAN) : id < RATIO ? speed_of(row, id) : size_of(r, row, id);
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
