/* SPDX-License-Identifier: MIT */
#include "sim_columns.h"
#include "rate.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

/* Characters in a line of a table, and with --wide. */
enum { LINE_WIDTH = 100, WIDE_LINE_WIDTH = 240 };

typedef enum column_id {
    CODEC,
    MODEL,
    KIND,
    SERVERS,
    OWNERS,
    GRAPH,
    SITE,
    RANKS,
    VALUES,
    REPLAYED,
    RUN,
    LINK,
    UP,
    DOWN,
    SERVER_UP,
    SERVER_DOWN,
    SITE_UP,
    SITE_DOWN,
    LATENCY,
    SITE_LATENCY,
    COMPUTE,
    SENT_MEAN,
    SENT,
    RECEIVED_MEAN,
    RECEIVED,
    MESSAGES,
    SERVER_SENT,
    SERVER_RECEIVED,
    PUSH_MS,
    REDUCE_MS,
    REDUCE_SITES_MS,
    ANSWER_MS,
    PULL_MS,
    CODEC_MS,
    WIRE_MS,
    STEP_MS,
    OVERLAP_MS,
    FLOATS_MS,
    FLOATS_OVERLAP_MS,
    RING_MS,
    PUSH_PULL_MS,
    HALVES_MS,
    HALVES_OVERLAP_MS,
    SPEEDUP,
    OVERLAP_SPEEDUP,
    WINS,
    BREAK_EVEN,
    WINS_ABOVE,
    COLUMNS
} column_id;

typedef enum column_place { HIDDEN, WIDE, ALWAYS } column_place;

static const struct {
    const char *key;
    column_kind kind;
    column_place place;
    const char *title, *unit;
    double scale;       /* of reals, for tables */
    const char *format; /* of reals, in tables */
} columns[COLUMNS] = {
    [CODEC] = {"codec", TEXT, ALWAYS, "codec", "", 0, NULL},
    [MODEL] = {"model", TEXT, HIDDEN, "", "", 0, NULL},
    [KIND] = {"kind", TEXT, ALWAYS, "kind", "", 0, NULL},
    [SERVERS] = {"servers", COUNT, HIDDEN, "", "", 0, NULL},
    [OWNERS] = {"owners", COUNT, HIDDEN, "", "", 0, NULL},
    [GRAPH] = {"graph", TEXT, HIDDEN, "", "", 0, NULL},
    [SITE] = {"site", COUNT, HIDDEN, "", "", 0, NULL},
    [RANKS] = {"ranks", COUNT, ALWAYS, "ranks", "", 0, NULL},
    [VALUES] = {"values", COUNT, HIDDEN, "", "", 0, NULL},
    [REPLAYED] = {"replayed", COUNT, ALWAYS, "replay", "", 0, NULL},
    [RUN] = {"run", TEXT, HIDDEN, "", "", 0, NULL},
    [LINK] = {"link", TEXT, ALWAYS, "link", "", 0, NULL},
    [UP] = {"up_mbit", REAL, HIDDEN, "", "", 1, NULL},
    [DOWN] = {"down_mbit", REAL, HIDDEN, "", "", 1, NULL},
    [SERVER_UP] = {"server_up_mbit", REAL, HIDDEN, "", "", 1, NULL},
    [SERVER_DOWN] = {"server_down_mbit", REAL, HIDDEN, "", "", 1, NULL},
    [SITE_UP] = {"site_up_mbit", REAL, HIDDEN, "", "", 1, NULL},
    [SITE_DOWN] = {"site_down_mbit", REAL, HIDDEN, "", "", 1, NULL},
    [LATENCY] = {"latency_ms", REAL, HIDDEN, "", "", 1, NULL},
    [SITE_LATENCY] = {"site_latency_ms", REAL, HIDDEN, "", "", 1, NULL},
    [COMPUTE] = {"compute_ms", REAL, HIDDEN, "", "", 1, NULL},
    [SENT_MEAN] = {"sent_mean", REAL, WIDE, "mean", "sent MB", 1e-6, "%.3f"},
    [SENT] = {"sent_busiest", REAL, ALWAYS, "sent", "MB", 1e-6, "%.3f"},
    [RECEIVED_MEAN] = {"received_mean", REAL, WIDE, "mean", "got MB", 1e-6, "%.3f"},
    [RECEIVED] = {"received_busiest", REAL, WIDE, "busiest", "got MB", 1e-6, "%.3f"},
    [MESSAGES] = {"messages", REAL, WIDE, "messages", "", 1, "%.0f"},
    [SERVER_SENT] = {"server_sent", REAL, WIDE, "server", "sent MB", 1e-6, "%.3f"},
    [SERVER_RECEIVED] = {"server_received", REAL, WIDE, "server", "got MB", 1e-6, "%.3f"},
    [PUSH_MS] = {"push_ms", REAL, WIDE, "push", "ms", 1, "%.2f"},
    [REDUCE_MS] = {"reduce_ms", REAL, WIDE, "reduce", "ms", 1, "%.2f"},
    [REDUCE_SITES_MS] = {"reduce_sites_ms", REAL, HIDDEN, "", "", 1, NULL},
    [ANSWER_MS] = {"answer_ms", REAL, HIDDEN, "", "", 1, NULL},
    [PULL_MS] = {"pull_ms", REAL, WIDE, "pull", "ms", 1, "%.2f"},
    [CODEC_MS] = {"codec_ms", REAL, ALWAYS, "codec", "ms", 1, "%.2f"},
    [WIRE_MS] = {"wire_ms", REAL, WIDE, "wire", "ms", 1, "%.2f"},
    [STEP_MS] = {"step_ms", REAL, ALWAYS, "step", "ms", 1, "%.1f"},
    [OVERLAP_MS] = {"overlap_ms", REAL, ALWAYS, "overlap", "ms", 1, "%.1f"},
    [FLOATS_MS] = {"floats_ms", REAL, ALWAYS, "floats", "ms", 1, "%.1f"},
    [FLOATS_OVERLAP_MS] = {"floats_overlap_ms", REAL, WIDE, "floats", "overlap", 1, "%.1f"},
    [RING_MS] = {"ring_ms", REAL, WIDE, "ring", "ms", 1, "%.1f"},
    [PUSH_PULL_MS] = {"push_pull_ms", REAL, WIDE, "pushpull", "ms", 1, "%.1f"},
    [HALVES_MS] = {"halves_ms", REAL, WIDE, "halves", "ms", 1, "%.1f"},
    [HALVES_OVERLAP_MS] = {"halves_overlap_ms", REAL, WIDE, "halves", "overlap", 1, "%.1f"},
    [SPEEDUP] = {"speedup", REAL, ALWAYS, "gain", "x", 1, "%.2f"},
    [OVERLAP_SPEEDUP] = {"overlap_speedup", REAL, WIDE, "overlap", "x", 1, "%.2f"},
    [WINS] = {"wins", TEXT, ALWAYS, "break-even", "", 0, NULL},
    [BREAK_EVEN] = {"break_even_mbit", REAL, HIDDEN, "", "", 1, NULL},
    [WINS_ABOVE] = {"wins_above_mbit", REAL, HIDDEN, "", "", 1, NULL},
};

/* ---- cells ------------------------------------------------------------------------------------------------------- */

/* In tables, the speed of links from which on floats are faster. */
static const char *wins_of(const sim_row *row, bool in_table, char *buffer)
{
    const model_output *out = &row->out;
    char above[RATE_TEXT], below[RATE_TEXT];

    if (model_never_wins(out))
        return "never";
    if (!in_table)
        return out->above > 0 ? isinf(out->below) ? "above" : "between" : isinf(out->below) ? "always" : "below";
    if (isinf(out->below) && out->above <= 0)
        return "none";
    snprintf(buffer, CELL, "%s%s%s", out->above > 0 ? rate_text(out->above * row->in.rank.up, above) : "",
             out->above > 0 ? " to " : "", isinf(out->below) ? "any" : rate_text(out->below * row->in.rank.up, below));
    return buffer;
}

static const char *text_of(const sim_row *row, column_id id, bool in_table, char *buffer)
{
    switch (id) {
    case CODEC:
        if (!in_table || !row->run || row->own_run)
            return row->codec;
        snprintf(buffer, CELL, "%.*s *", CELL - 3, row->codec);
        return buffer;
    case MODEL: return row->model->model;
    case KIND: return in_table ? sim_kind_text(&row->kind, buffer) : row->kind.kind->name;
    case GRAPH: return row->kind.kind->has_graph ? layout_graph_name(row->kind.graph) : "";
    case RUN: return row->run ? row->run->run : "";
    case LINK: return rate_link_text(&row->in.rank, buffer);
    case WINS: return wins_of(row, in_table, buffer);
    default: return "";
    }
}

static size_t count_of(const sim_row *row, column_id id)
{
    switch (id) {
    case SERVERS: return row->in.servers;
    case OWNERS: return row->kind.owners;
    case SITE: return row->kind.site;
    case RANKS: return row->in.ranks;
    case VALUES: return row->model->values;
    default: return row->measured.replayed;
    }
}

/* Milliseconds of a call, by ranks or servers. */
static double call_of(const sim_row *row, const char *call)
{
    double seconds = NAN;

    for (size_t i = 0; i < row->kind.kind->phase_count; i++) {
        const model_phase *p = &row->in.phase[i];
        if (!strcmp(row->kind.kind->phases[i].call, call))
            seconds = fmax(p->rank.codec, p->server.codec);
    }
    return 1e3 * seconds;
}

static double bytes_of(const sim_row *row, column_id id)
{
    const drive_result *m = &row->measured;

    switch (id) {
    case SENT_MEAN: return m->rank.out_mean;
    case SENT: return m->rank.out_busiest;
    case RECEIVED_MEAN: return m->rank.in_mean;
    case RECEIVED: return m->rank.in_busiest;
    case MESSAGES: return m->rank.messages;
    case SERVER_SENT: return row->in.servers ? m->server.out_busiest : NAN;
    default: return row->in.servers ? m->server.in_busiest : NAN;
    }
}

static double time_of(const sim_row *row, column_id id)
{
    const model_output *out = &row->out;

    switch (id) {
    case LATENCY: return 1e3 * row->in.latency;
    case SITE_LATENCY: return row->kind.site ? 1e3 * row->in.site_latency : NAN;
    case COMPUTE: return 1e3 * row->in.compute;
    case PUSH_MS: return call_of(row, "push");
    case REDUCE_MS: return call_of(row, "reduce");
    case REDUCE_SITES_MS: return call_of(row, "reduce sites");
    case ANSWER_MS: return call_of(row, "answer");
    case PULL_MS: return call_of(row, "pull");
    case CODEC_MS: return 1e3 * out->codec;
    case WIRE_MS: return 1e3 * out->time.wire;
    case STEP_MS: return 1e3 * out->time.step;
    case OVERLAP_MS: return 1e3 * out->time.overlapped;
    case FLOATS_MS: return 1e3 * fmin(out->ring.step, out->push_pull.step);
    case FLOATS_OVERLAP_MS: return 1e3 * fmin(out->ring.overlapped, out->push_pull.overlapped);
    case RING_MS: return 1e3 * out->ring.step;
    case PUSH_PULL_MS: return 1e3 * out->push_pull.step;
    case HALVES_MS: return 1e3 * out->ring_halves.step;
    default: return 1e3 * out->ring_halves.overlapped;
    }
}

static double real_of(const sim_row *row, column_id id)
{
    const model_input *in = &row->in;
    const model_output *out = &row->out;
    bool wins = !model_never_wins(out);

    switch (id) {
    case UP: return rate_mbit(in->rank.up);
    case DOWN: return rate_mbit(in->rank.down);
    case SERVER_UP: return in->servers ? rate_mbit(in->server.up) : NAN;
    case SERVER_DOWN: return in->servers ? rate_mbit(in->server.down) : NAN;
    case SITE_UP: return row->kind.site ? rate_mbit(in->site.up) : NAN;
    case SITE_DOWN: return row->kind.site ? rate_mbit(in->site.down) : NAN;
    case SPEEDUP: return out->speedup;
    case OVERLAP_SPEEDUP: return out->overlapped_speedup;
    case BREAK_EVEN: return wins ? rate_mbit(out->below * in->rank.up) : NAN;
    case WINS_ABOVE: return wins && out->above > 0 ? rate_mbit(out->above * in->rank.up) : NAN;
    default: return id >= SENT_MEAN && id <= SERVER_RECEIVED ? bytes_of(row, id) : time_of(row, id);
    }
}

static const char *cell_of(const void *list, size_t at, size_t id_, bool in_table, char *buffer)
{
    const sim_row *row = &((const sim_rows *)list)->rows[at];
    column_id id = (column_id)id_;
    double real;

    buffer[0] = '\0';
    switch (columns[id].kind) {
    case TEXT: return text_of(row, id, in_table, buffer);
    case COUNT:
        if (count_of(row, id) || id == REPLAYED) /* no servers; or all ranks are owners, or none */
            snprintf(buffer, CELL, "%zu", count_of(row, id));
        return buffer;
    default: real = real_of(row, id);
    }
    if (!isfinite(real))
        return buffer;
    if (!in_table) {
        snprintf(buffer, CELL, "%.17g", real);
        return buffer;
    }
    real *= columns[id].scale;
    snprintf(buffer, CELL, real >= 10000 ? "%.0f" : real >= 1000 ? "%.1f" : columns[id].format, real);
    return buffer;
}

/* ---- the grid ---------------------------------------------------------------------------------------------------- */

/* Tables do without columns that have nothing to tell. */
static bool is_telling(const sim_rows *list, column_id id)
{
    bool tells = id != REPLAYED && id != SERVER_SENT && id != SERVER_RECEIVED;

    for (size_t i = 0; !tells && i < list->count; i++)
        tells = id == REPLAYED ? list->rows[i].measured.replayed : list->rows[i].in.servers > 0;
    return tells;
}

size_t sim_column_count(void)
{
    return COLUMNS;
}

grid sim_grid(const sim_rows *list, bool wide, grid_column *all)
{
    for (size_t i = 0; i < COLUMNS; i++) {
        bool shown = columns[i].place == ALWAYS || (columns[i].place == WIDE && wide);
        all[i] = (grid_column){columns[i].key, columns[i].kind, columns[i].title, columns[i].unit,
                               shown && is_telling(list, (column_id)i)};
    }
    return (grid){.columns = all,
                  .column_count = COLUMNS,
                  .rows = list->count,
                  .name = CODEC,
                  .width = wide ? WIDE_LINE_WIDTH : LINE_WIDTH,
                  .cell = cell_of,
                  .report = list};
}
