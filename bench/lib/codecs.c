/* SPDX-License-Identifier: MIT */
#include "codecs.h"
#include "explain.h"
#include "papers.h"
#include "parse.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <threelc/gossip.h>
#include <threelc/stages.h>

/* ---- what the library says -------------------------------------------------------------------------------------- */

static bool entry_at(size_t i, tlc_codec_entry *e)
{
    *e = (tlc_codec_entry){.struct_size = sizeof *e};
    return !tlc_codec_list(i, e);
}

static bool takes_floats(const tlc_codec_entry *e)
{
    return e->kind == TLC_ENTRY_SHORT_NAME || e->kind == TLC_ENTRY_QUANTIZER;
}

/* The length of the name at the start of a codec string. */
static size_t name_length(const char *codec)
{
    return strcspn(codec, ":+");
}

/* Whether codec begins with just this name. */
static bool begins_with(const char *codec, const char *name)
{
    return name_length(codec) == strlen(name) && !strncmp(codec, name, strlen(name));
}

static bool find_entry(const char *codec, tlc_codec_entry *e)
{
    for (size_t i = 0; entry_at(i, e); i++) {
        if (begins_with(codec, e->name))
            return true;
    }
    return false;
}

/* ---- all codecs ------------------------------------------------------------------------------------------------- */

/* Codecs with other parameters than the defaults, which the papers report on. */
static const char *const variants[] = {"3lc:s=1.75",
                                       "sbc:p=0.001",
                                       "natural:rounding=nearest",
                                       "natural:bits=9",
                                       "qsgd:bits=4",
                                       "topk:p=0.01,bits=1+golomb",
                                       "topk:p=0.03,bits=2+golomb"};

static bool add(codec_set *set, const char *codec)
{
    for (size_t i = 0; i < set->count; i++) {
        if (!strcmp(set->codecs[i], codec))
            return true;
    }
    if (set->count == MAX_CODECS || strlen(codec) >= CODEC_SIZE)
        return false;
    strcpy(set->codecs[set->count++], codec);
    return true;
}

static bool add_variants(codec_set *set, const char *name)
{
    bool ok = true;

    for (size_t i = 0; ok && i < sizeof variants / sizeof variants[0]; i++) {
        if (begins_with(variants[i], name) && !tlc_codec_check(variants[i], NULL, 0))
            ok = add(set, variants[i]);
    }
    return ok;
}

static bool has_short_name(const char *codec)
{
    tlc_codec_entry e;

    for (size_t i = 0; entry_at(i, &e); i++) {
        if (e.list && !strcmp(e.list, codec))
            return true;
    }
    return false;
}

/* Adds the codecs that begin with these stages. */
/* NOLINTNEXTLINE(misc-no-recursion): it is as deep as a codec has stages */
static bool add_compositions(codec_set *set, const char *stages)
{
    char longer[CODEC_SIZE];
    tlc_codec_entry e;
    bool ok = true;

    for (size_t i = 0; ok && entry_at(i, &e); i++) {
        if (snprintf(longer, sizeof longer, "%s+%s", stages, e.name) >= CODEC_SIZE || tlc_codec_check(longer, NULL, 0))
            continue;
        ok = (has_short_name(longer) || add(set, longer)) && add_compositions(set, longer);
    }
    return ok;
}

bool codecs_all(codec_set *set)
{
    tlc_codec_entry e;
    bool ok = true;

    for (size_t i = 0; ok && entry_at(i, &e); i++) {
        if (e.codec)
            ok = add(set, e.name) && add_variants(set, e.name);
        if (ok && !e.list && takes_floats(&e))
            ok = add_compositions(set, e.name);
    }
    return ok;
}

/* ---- the list --------------------------------------------------------------------------------------------------- */

static void print_entry(FILE *f, const tlc_codec_entry *e)
{
    fprintf(f, "  %-18s ", e->name);
    if (e->list)
        fprintf(f, "%s", e->list);
    else
        fprintf(f, "%s to %s", e->takes, e->gives);
    fprintf(f, "%s\n%21s%s\n", takes_floats(e) ? e->feedback ? "; error feedback" : "; no error feedback" : "", "",
            e->meaning);
    for (const tlc_codec_param *p = e->param; p < e->param + e->param_count; p++)
        fprintf(f, "%21s%-9s%s\n%30s%s\n", "", p->key, p->range, "", p->meaning);
    if (*e->source)
        fprintf(f, "%21s%s\n", "", e->source);
}

static void print_entries(FILE *f, bool short_names)
{
    tlc_codec_entry e;

    for (size_t i = 0; entry_at(i, &e); i++) {
        if ((e.list != NULL) == short_names)
            print_entry(f, &e);
    }
}

void codecs_print(FILE *f)
{
    codec_set set = {.count = 0};

    fputs("Short names. Each is a whole codec. Error feedback is shown as it is by default.\n", f);
    print_entries(f, true);
    fputs("\nStages. Join those that fit together with +.\n", f);
    print_entries(f, false);
    fputs("\nEvery short name, and every stage that takes floats, also has the parameter block: as many values\n"
          "are coded together, with a scale of their own.\n"
          "\nThe codecs of -c all\n",
          f);
    codecs_all(&set);
    for (size_t i = 0; i < set.count; i++)
        fprintf(f, "  %s\n", set.codecs[i]);
    fputs("\nThe rows of -c papers\n", f);
    papers_print(f);
}

/* ---- what codecs do --------------------------------------------------------------------------------------------- */

static tlc_ctx *open_codec(const char *codec, int feedback, uint64_t seed, size_t n)
{
    tlc_ctx *ctx = NULL;
    tlc_config cfg;

    if (tlc_config_init(&cfg, sizeof cfg))
        return NULL;
    cfg.codec = codec;
    cfg.feedback = feedback;
    cfg.seed = seed;
    return tlc_create(&ctx, &cfg, n) ? NULL : ctx;
}

/* One frame of n values, in memory that the caller frees. NULL: it cannot be made. */
static unsigned char *one_frame(const char *codec, uint64_t seed, const float *values, size_t n, size_t *len)
{
    tlc_ctx *ctx = open_codec(codec, 0, seed, n);
    unsigned char *frame = ctx ? malloc(tlc_bound(ctx) + 1) : NULL;

    if (frame && tlc_compress(ctx, values, frame, tlc_bound(ctx), len)) {
        free(frame);
        frame = NULL;
    }
    tlc_destroy(ctx);
    return frame;
}

bool codec_check(const char *option, const char *codec, const char *const *sets, char *why)
{
    static const char *const no_sets[] = {NULL};
    char message[1024];

    if (!tlc_codec_check(codec, message, sizeof message))
        return true;
    explain(why, "%s %s: %s", option, codec, message);
    (void)parse_suggest(codec, "", sets ? sets : no_sets, why);
    return false;
}

bool codec_quantizer(const char *codec, char *name)
{
    tlc_codec_entry e;

    if (!find_entry(codec, &e))
        return false;
    if (e.list)
        snprintf(name, CODEC_SIZE, "%.*s", (int)name_length(e.list), e.list);
    else
        snprintf(name, CODEC_SIZE, "%s", e.name);
    return true;
}

bool codec_stages(const char *codec, char *stages)
{
    const char *others = strchr(codec, '+');
    tlc_codec_entry e;

    if (!find_entry(codec, &e))
        return false;
    const char *first = e.list ? strchr(e.list, '+') : NULL;
    snprintf(stages, CODEC_SIZE, "%s%s%s", first ? first + 1 : "", first && others ? "+" : "",
             others ? others + 1 : "");
    return true;
}

bool codec_is_raw(const char *codec)
{
    return codec_takes_nonfinite(codec, 0);
}

bool codec_takes_nonfinite(const char *codec, int feedback)
{
    tlc_ctx *ctx = open_codec(codec, feedback, 0, 1);
    unsigned char frame[256];
    float nan = NAN;
    size_t len;
    bool takes = ctx && tlc_bound(ctx) <= sizeof frame && !tlc_compress(ctx, &nan, frame, sizeof frame, &len);

    tlc_destroy(ctx);
    return takes;
}

bool codec_has_residual(const char *codec, int feedback)
{
    tlc_ctx *ctx = open_codec(codec, feedback, 0, 1);
    bool has = ctx && tlc_residual(ctx);

    tlc_destroy(ctx);
    return has;
}

bool codec_suits_gossip(const char *codec)
{
    enum { N = 1024 }; /* more than small tensors have */
    static const float zeros[N];
    const float *model = zeros;
    const tlc_tensor only = {.struct_size = sizeof only, .name = "t", .n = N, .only = TLC_NOBODY};
    const double weights[] = {0.5, 0.5};
    tlc_gossip *object = NULL;
    tlc_exchange_config cfg;
    bool ok;

    (void)tlc_exchange_config_init(&cfg, sizeof cfg);
    cfg.workers = 2;
    cfg.push = codec;
    ok = !tlc_gossip_create(&object, &cfg, TLC_GOSSIP_DCD, 0, &(uint32_t){1}, weights, 1, &only, 1, &model);
    tlc_gossip_destroy(object);
    return ok;
}

/* Whether seeds 0 and `seed` give other frames. */
static bool seed_matters(const char *codec, uint64_t seed, const float *values, size_t n)
{
    size_t len = 0, other_len = 0;
    unsigned char *frame = one_frame(codec, 0, values, n, &len), *other = one_frame(codec, seed, values, n, &other_len);
    bool differ = frame && other && (len != other_len || memcmp(frame, other, len) != 0);

    free(frame);
    free(other);
    return differ;
}

/* Such a codec gives another frame for another seed; the chance that it does not is 2^-100 or less. Some codecs only
 * take a random sample of the values; of few values the sample is all of them, so their frames are the same. */
bool codec_is_stochastic(const char *codec)
{
    enum { N = 512 };
    float values[N];

    for (size_t i = 0; i < N; i++)
        values[i] = (i & 1 ? -1.0f : 1.0f) + (float)i * 0.001f;
    return seed_matters(codec, 1, values, N);
}

/* The sample of N values is a part of them. Two samples may give the same frame, but not SEEDS of them. */
bool codec_uses_seed(const char *codec)
{
    enum { N = 1 << 15, SEEDS = 16 };
    float *values = malloc(N * sizeof *values);
    bool uses = false;

    for (size_t i = 0; values && i < N; i++)
        values[i] = (float)(i * 40503 % N) - 0.5f * (float)N; /* all different */
    for (uint64_t seed = 1; values && !uses && seed < SEEDS; seed++)
        uses = seed_matters(codec, seed, values, N);
    free(values);
    return uses;
}

/* The value 1 alone decodes to s: M = s max|x|, and 1 is more than M / 2. */
double codec_scale(const char *codec)
{
    const float one = 1;
    float decoded;
    size_t len = 0;
    tlc_codec_entry e;
    unsigned char *frame;
    bool known = find_entry(codec, &e), has = false;

    for (size_t i = 0; known && i < e.param_count; i++)
        has = has || !strcmp(e.param[i].key, "s");
    frame = has ? one_frame(codec, 0, &one, 1, &len) : NULL;
    has = frame && !tlc_decompress(frame, len, TLC_F32, &decoded, 1, NULL);
    free(frame);
    return has ? (double)decoded : NAN;
}

bool codec_aggregates(const char *codec)
{
    float value = 1;
    size_t len = 0, made;
    unsigned char *frame = one_frame(codec, 0, &value, 1, &len), dst[256];
    bool takes = frame && !tlc_natural_aggregate(&(tlc_message){frame, len}, 1, NULL, dst, sizeof dst, &made);

    free(frame);
    return takes;
}

/* ---- symbols ---------------------------------------------------------------------------------------------------- */

codec_symbols codec_symbols_of(const char *codec)
{
    tlc_codec_entry e;

    if (!find_entry(codec, &e) || !e.symbols)
        return SYMBOLS_OTHER;
    return e.sparse ? SYMBOLS_BINARY : SYMBOLS_TERNARY;
}

double codec_entropy(codec_symbols symbols, uint64_t n, uint64_t nonzero)
{
    double k = (double)nonzero, rest = (double)(n - nonzero), bits = symbols == SYMBOLS_TERNARY ? k : 0;

    if (nonzero && nonzero < n)
        bits += k * log2((double)n / k) + rest * log2((double)n / rest);
    return bits;
}
