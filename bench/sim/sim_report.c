/* SPDX-License-Identifier: MIT */
#include "sim_report.h"
#include "rate.h"
#include "sim_columns.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

/* ---- the best ---------------------------------------------------------------------------------------------------- */

/* The fastest way of floats, of all rows that answer the same question: it may depend on the number of servers. */
static double floats_of(const sim_rows *list, size_t first, size_t end)
{
    double seconds = INFINITY;

    for (size_t i = first; i < end; i++)
        seconds = fmin(seconds, fmin(list->rows[i].out.ring.step, list->rows[i].out.push_pull.step));
    return seconds;
}

static void print_answer(FILE *f, const sim_row *best, double floats)
{
    char link[RATE_TEXT], kind[KIND_TEXT];
    double step = best->out.time.step, halves = best->out.ring_halves.step;

    fprintf(f, "%s, %zu ranks, %s: ", best->model->model, best->in.ranks, rate_link_text(&best->in.rank, link));
    if (step >= floats) {
        fprintf(f, "send floats: %.1f ms; the fastest codec, %s, takes %.1f ms\n", 1e3 * floats, best->codec,
                1e3 * step);
        return;
    }
    fprintf(f, "%s, %s: %.1f ms, %.3g times as fast as floats (halves: %.3g", best->codec,
            sim_kind_text(&best->kind, kind), 1e3 * step, floats / step, halves / step);
    if (best->device)
        fprintf(f, "; direct: %.3g", best->out.direct / step);
    if (best->local_steps)
        fprintf(f, "; floats in each of the %zu steps: %.3g", best->local_steps,
                (best->in.compute + (double)best->local_steps * (floats - best->in.compute)) / step);
    fputs(")\n", f);
}

static void print_answers(FILE *f, const sim_rows *list, bool markdown)
{
    fputc('\n', f);
    for (size_t first = 0, end; first < list->count; first = end) {
        const sim_row *best = sim_rows_best(list, first, &end);
        if (markdown)
            fputs("- ", f);
        print_answer(f, best, floats_of(list, first, end));
    }
}

/* The kernels that are used. */
static tlc_isa isa_of(const sim_options *o)
{
    tlc_isa isa = o->isa;
    tlc_ctx *ctx = NULL;
    tlc_config cfg;

    (void)tlc_config_init(&cfg, sizeof cfg);
    cfg.isa = o->isa;
    if (!tlc_create(&ctx, &cfg, 1))
        isa = tlc_isa_used(ctx);
    tlc_destroy(ctx);
    return isa;
}

/* ---- table and Markdown ------------------------------------------------------------------------------------------ */

static void print_heading(FILE *f, const sim_report *r)
{
    const sim_options *o = r->o;
    bool replayed = false, beside = false;
    char link[RATE_TEXT];

    fprintf(f, "libthreelc %s, ISA %s; latency %.4g ms, compute %.4g ms", tlc_version_string(), tlc_isa_name(isa_of(o)),
            1e3 * o->latency, 1e3 * o->compute);
    if (o->local_steps)
        fprintf(f, "; a step is a round of %zu local steps", o->local_steps);
    if (o->device_text)
        fprintf(f, "; device: %s", o->device_text);
    if (o->server_link.up > 0)
        fprintf(f, "; links of servers: %s", rate_link_text(&o->server_link, link));
    if (o->site_link.up > 0)
        fprintf(f, "; links in sites: %s", rate_link_text(&o->site_link, link));
    fputs("\nsent: by the busiest rank; codec: calls of one core; step: compute, codec, latencies, bytes / link;\n"
          "overlap: the same if all happens at once; floats: what is faster, ring or push and pull;\n"
          "gain: floats / step; break-even: with faster links floats are faster. More: --wide\n",
          f);
    if (o->device_text)
        fputs("device: bytes / the rates of its memory and bus, computed, not measured; codec: of its host;\n"
              "direct: floats that the network takes from the memory of the device\n",
              f);
    for (size_t i = 0; i < r->list->count; i++) {
        replayed = replayed || r->list->rows[i].measured.replayed;
        beside = beside || r->list->rows[i].beside;
    }
    if (replayed)
        fputs("replay: 1: one rank was run, and the messages of the others were replayed\n", f);
    if (beside)
        fputs("~: the fastest row, with drawn laplace values in place of recorded ones\n", f);
}

/* What the values of a model are made of. */
static void print_sources(FILE *f, const sim_report *r, size_t model)
{
    const sim_sources *set = &r->in->set[r->in->use[model]];
    bool marked = false;

    fprintf(f, "%s made of ", r->o->local_steps ? "changes" : "gradients");
    if (source_is_drawn(set->sources))
        fprintf(f, "drawn %s values", set->sources->tensors[0].name);
    else if (!set->sources->run)
        fprintf(f, "those in %s", set->path);
    for (size_t i = 0; i < set->count && set->sources->run; i++)
        fprintf(f, "%s%s", i ? ", " : "", set->sources[i].run);
    for (size_t i = 0; i < r->list->count; i++)
        marked = marked || (r->list->rows[i].model == &r->in->models[model] && !r->list->rows[i].own_run);
    fputc('\n', f);
    if (marked)
        fprintf(f, "*: no run has its s; measured on %s\n", set->sources->run);
}

/* A table for each model. */
static void print_tables(FILE *f, const sim_report *r, const grid *g, bool markdown)
{
    const sim_rows *list = r->list;

    for (size_t first = 0, end; first < list->count; first = end) {
        const shape_list *model = list->rows[first].model;
        for (end = first; end < list->count && list->rows[end].model == model;)
            end++;
        fprintf(f, "\n%s: %zu tensors, %zu values\n", model->model, model->count, model->values);
        print_sources(f, r, (size_t)(model - r->in->models));
        (markdown ? grid_markdown : grid_table)(f, g, first, end);
    }
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

static void json_load(FILE *f, const char *machine, const model_load *load)
{
    fprintf(f, "\"%s\": {\"out\": %.17g, \"in\": %.17g, \"codec_ms\": %.17g}", machine, load->out, load->in,
            1e3 * load->codec);
}

/* What the busiest rank and the busiest server do in each phase. */
static void json_phases(FILE *f, const sim_row *row)
{
    fputs(", \"phases\": [", f);
    for (size_t i = 0; i < row->kind.kind->phase_count; i++) {
        const model_phase *p = &row->in.phase[i];
        fprintf(f, "%s{\"call\": \"%s\", \"inside\": %s, ", i ? ", " : "", row->kind.kind->phases[i].call,
                p->inside ? "true" : "false");
        json_load(f, "rank", &p->rank);
        fputs(", ", f);
        json_load(f, "server", &p->server);
        if (row->device)
            fprintf(f, ", \"device\": {\"memory\": %.17g, \"to_host\": %.17g, \"to_device\": %.17g}", p->device.memory,
                    p->device.to_host, p->device.to_device);
        fputc('}', f);
    }
    fputc(']', f);
}

static void json_answers(FILE *f, const sim_rows *list)
{
    char link[RATE_TEXT];

    for (size_t first = 0, end; first < list->count; first = end) {
        const sim_row *best = sim_rows_best(list, first, &end);
        double floats = floats_of(list, first, end);
        bool wins = best->out.time.step < floats;
        fprintf(f, "%s\n    {\"model\": ", first ? "," : "");
        grid_json_text(f, best->model->model);
        fprintf(f, ", \"ranks\": %zu, \"link\": \"%s\", \"codec\": ", best->in.ranks,
                rate_link_text(&best->in.rank, link));
        grid_json_text(f, wins ? best->codec : NULL);
        fputs(", \"kind\": ", f);
        grid_json_text(f, wins ? best->kind.kind->name : NULL);
        fputs(", \"graph\": ", f);
        grid_json_text(f, wins && best->kind.kind->has_graph ? layout_graph_name(best->kind.graph) : NULL);
        fprintf(f, ", \"servers\": %zu, \"owners\": %zu, \"site\": %zu, \"step_ms\": %.17g, \"floats_ms\": %.17g}",
                wins ? best->in.servers : 0, wins ? best->kind.owners : 0, wins ? best->kind.site : 0,
                1e3 * best->out.time.step, 1e3 * floats);
    }
}

static void print_json(FILE *f, const sim_report *r, const grid *g)
{
    const sim_options *o = r->o;

    fprintf(f, "{\n  \"program\": \"tlc-sim\",\n  \"version\": \"%s\",\n  \"isa\": \"%s\",\n", tlc_version_string(),
            tlc_isa_name(isa_of(o)));
    fputs("  \"gradients\": ", f);
    grid_json_text(f, o->traces ? o->traces : r->in->set[USE_GRADIENTS].sources->tensors[0].name);
    fprintf(f, ",\n  \"seed\": %" PRIu64 ",\n  \"warmup\": %zu,\n  \"rounds\": %zu,\n  \"rows\": [", o->source.seed,
            o->warmup, o->rounds);
    for (size_t i = 0; i < r->list->count; i++) {
        fputs(i ? ",\n    {" : "\n    {", f);
        grid_json_row(f, g, i);
        json_phases(f, &r->list->rows[i]);
        fputc('}', f);
    }
    fputs("\n  ],\n  \"best\": [", f);
    json_answers(f, r->list);
    fputs("\n  ]\n}\n", f);
}

bool sim_report_print(FILE *f, const sim_report *r)
{
    grid_column *all = calloc(sim_column_count(), sizeof *all);
    grid g;

    if (!all)
        return false;
    g = sim_grid(r->list, r->o->wide, all);
    if (r->o->format == REPORT_CSV) {
        grid_csv(f, &g);
    } else if (r->o->format == REPORT_JSON) {
        print_json(f, r, &g);
    } else {
        bool markdown = r->o->format == REPORT_MARKDOWN;
        print_heading(f, r);
        print_tables(f, r, &g, markdown);
        print_answers(f, r->list, markdown);
    }
    free(all);
    return true;
}
