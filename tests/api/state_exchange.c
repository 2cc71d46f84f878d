/* SPDX-License-Identifier: MIT
 *
 * States that move between processes and machines. `state_exchange save DIR` runs every codec for some steps, then
 * writes the state and the results of the next steps to a file for each codec. `state_exchange load DIR` loads such
 * states, of any machine, and must get the same results. scripts/state-exchange.sh runs both.
 */
#include "../support/support.h"

enum { N = 1003, SAVED = 3, END = 6, ROOM = 3 * (12 * N + 1024) + 4 * N + 256 };

typedef struct run {
    tlc_ctx *ctx;
    tlc_dtype dtype;
    uint8_t bytes[ROOM];
    size_t len;
} run;

static _Noreturn void failed(const char *what)
{
    fprintf(stderr, "%s: codec %s, %s, file %zu\n", what, at.codec, dtype_name[at.dtype], at.i);
    exit(1);
}

static void start(run *r, const codec_case *c, tlc_dtype dtype, int feedback, uint64_t seed)
{
    tlc_config cfg;

    r->dtype = dtype;
    r->len = 0;
    if (tlc_config_init(&cfg, sizeof cfg))
        failed("tlc_config_init");
    cfg.codec = c->text;
    cfg.dtype = dtype;
    cfg.feedback = feedback;
    cfg.checksum = 1;
    cfg.seed = seed;
    if (tlc_create(&r->ctx, &cfg, N))
        failed("tlc_create");
}

/* Kinds of gradients that are the same on every machine: they are made without the logarithm of the C library. */
static void go(run *r, uint64_t from, uint64_t to)
{
    static const data_kind kinds[] = {DATA_TIES, DATA_DENSE, DATA_WIDE};
    uint8_t grad[4 * N];
    size_t written = 0;

    r->len = 0;
    for (uint64_t step = from; step < to; step++, r->len += written) {
        fill_grad(kinds[step % COUNT(kinds)], step, r->dtype, grad, N);
        if (tlc_compress(r->ctx, grad, r->bytes + r->len, ROOM - r->len, &written))
            failed("tlc_compress");
    }
}

/* Appends the state. */
static void save(run *r)
{
    size_t written = 0;

    if (tlc_state_save(r->ctx, r->bytes + r->len, ROOM - r->len, &written))
        failed("tlc_state_save");
    r->len += written;
}

static FILE *open_file(const char *dir, const char *mode)
{
    char path[4096];

    snprintf(path, sizeof path, "%s/%03zu", dir, at.i);
    FILE *f = fopen(path, mode);
    if (!f)
        failed(path);
    return f;
}

/* A length in decimal, a line feed, the bytes. */
static void put(FILE *f, const run *r)
{
    if (fprintf(f, "%zu\n", r->len) < 0 || fwrite(r->bytes, 1, r->len, f) != r->len)
        failed("writing");
}

static size_t get(FILE *f, uint8_t *to)
{
    size_t len = 0;
    char line[32];

    if (!fgets(line, sizeof line, f) || (len = strtoul(line, NULL, 10)) > ROOM || fread(to, 1, len, f) != len)
        failed("reading");
    return len;
}

static void save_file(const char *dir, run *r)
{
    FILE *f = open_file(dir, "wb");

    go(r, 0, SAVED);
    r->len = 0;
    save(r);
    put(f, r);
    go(r, SAVED, END);
    save(r);
    put(f, r);
    if (fclose(f))
        failed("closing");
}

static void load_file(const char *dir, run *r)
{
    static uint8_t theirs[ROOM];
    FILE *f = open_file(dir, "rb");
    size_t len = get(f, theirs);

    go(r, 7, 9); /* earlier steps must not matter after loading */
    if (tlc_state_load(r->ctx, theirs, len))
        failed("tlc_state_load");
    len = get(f, theirs);
    go(r, SAVED, END);
    save(r);
    if (r->len != len || memcmp(r->bytes, theirs, len) != 0)
        failed("the run goes on otherwise");
    fclose(f);
}

int main(int argc, char **argv)
{
    const int saving = argc == 3 && !strcmp(argv[1], "save");
    static run r;

    if (!saving && (argc != 3 || strcmp(argv[1], "load") != 0)) {
        fprintf(stderr, "usage: state_exchange save|load DIR\n");
        return 2;
    }
    FOR_EACH_CODEC(c)
        FOR_EACH_DTYPE(dtype)
            for (int feedback = 0; feedback < 2; feedback++) {
                at.codec = c->text;
                at.dtype = dtype;
                start(&r, c, dtype, feedback, saving ? 42 : 1);
                (saving ? save_file : load_file)(argv[2], &r);
                tlc_destroy(r.ctx);
                at.i++;
            }
    printf("%zu states %s\n", at.i, saving ? "saved" : "loaded, and their runs go on the same");
    return 0;
}
