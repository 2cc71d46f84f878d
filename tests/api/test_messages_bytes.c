/* SPDX-License-Identifier: MIT
 *
 * What decoders, deltas and tlc_explain say about bytes that they refuse, and about wrong arguments.
 */
#include "../support/support.h"
#include <math.h>
#include <threelc/bundle.h>
#include <threelc/delta.h>
#include <threelc/gossip.h>

enum { N = 100, ROOM = 2048 };

static char message[TLC_MESSAGE_SIZE];

/* ---- bytes of every format --------------------------------------------------------------------------------------- */

typedef struct sample {
    const char *name; /* how messages call it */
    uint8_t bytes[ROOM];
    size_t len;
} sample;

enum { FRAME, DELTA, BUNDLE, STATE, MESSAGE, OBJECT_STATE, NODE_STATE, SAMPLES };
static sample samples[SAMPLES] = {
    {.name = "frame"},
    {.name = "delta of weights (threelc/delta.h)"},
    {.name = "bundle (threelc/bundle.h)"},
    {.name = "state of a context (tlc_state_save)"},
    {.name = "message of the exchange (threelc/exchange.h)"},
    {.name = "state of a worker, a server or a rank (threelc/exchange.h)"},
    {.name = "state of a node (threelc/gossip.h)"},
};

/* A frame of N values of a codec. */
static void make_frame(sample *s, const char *codec, int checksum)
{
    tlc_config cfg = config(codec, TLC_F32, TLC_ISA_AUTO);
    float g[N];

    fill(DATA_LAPLACE, 1, g, N);
    cfg.checksum = checksum;
    tlc_ctx *ctx = create(&cfg, N);
    s->len = compress(ctx, g, s->bytes);
    size_t len;
    require_status(tlc_state_save(ctx, samples[STATE].bytes, ROOM, &len), TLC_OK);
    samples[STATE].len = len;
    tlc_destroy(ctx);
}

static void make_delta(void)
{
    float base[N], next[N];

    fill(DATA_LAPLACE, 1, base, N);
    fill(DATA_LAPLACE, 2, next, N);
    require_status(tlc_delta_compress(TLC_F32, base, next, N, samples[DELTA].bytes, ROOM, &samples[DELTA].len, NULL),
                   TLC_OK);
}

static void make_bundle(void)
{
    tlc_bundle_writer w;
    tlc_message bundle;
    uint8_t dst[ROOM];

    require_status(tlc_bundle_init(&w, dst, sizeof dst, 2), TLC_OK);
    require_status(tlc_bundle_add(&w, samples[FRAME].bytes, samples[FRAME].len), TLC_OK);
    require_status(tlc_bundle_add(&w, NULL, 0), TLC_OK);
    require_status(tlc_bundle_finish(&w, &bundle), TLC_OK);
    memcpy(samples[BUNDLE].bytes, bundle.data, bundle.len);
    samples[BUNDLE].len = bundle.len;
}

static void make_exchange(void)
{
    const tlc_tensor tensor = {.struct_size = sizeof tensor, .name = "a", .n = 5, .only = TLC_NOBODY};
    const float values[5] = {1}, *const grads[] = {values};
    const uint32_t neighbour = 1;
    const double weights[] = {0.5, 0.5};
    tlc_exchange_config cfg;
    tlc_message messages[2];
    tlc_allreduce *rank;
    tlc_gossip *node;

    require_status(tlc_exchange_config_init(&cfg, sizeof cfg), TLC_OK);
    cfg.workers = 2;
    require_status(tlc_allreduce_create(&rank, &cfg, 0, &tensor, 1), TLC_OK);
    require_status(tlc_allreduce_push(rank, (const void *const *)grads, 1, messages), TLC_OK);
    const tlc_message *some = messages[0].len ? &messages[0] : &messages[1];
    memcpy(samples[MESSAGE].bytes, some->data, some->len);
    samples[MESSAGE].len = some->len;
    tlc_allreduce_destroy(rank);
    require_status(tlc_allreduce_create(&rank, &cfg, 0, &tensor, 1), TLC_OK);
    require_status(tlc_allreduce_state_save(rank, samples[OBJECT_STATE].bytes, ROOM, &samples[OBJECT_STATE].len),
                   TLC_OK);
    tlc_allreduce_destroy(rank);
    cfg.push = "raw";
    cfg.pull = NULL;
    require_status(tlc_gossip_create(&node, &cfg, TLC_GOSSIP_DCD, 0, &neighbour, weights, 1, &tensor, 1, grads),
                   TLC_OK);
    require_status(tlc_gossip_state_save(node, samples[NODE_STATE].bytes, ROOM, &samples[NODE_STATE].len), TLC_OK);
    tlc_gossip_destroy(node);
}

static int make_samples(void **state)
{
    (void)state;
    make_frame(&samples[FRAME], "3lc", 0);
    make_delta();
    make_bundle();
    make_exchange();
    return 0;
}

/* ---- decoders ---------------------------------------------------------------------------------------------------- */

/* Options with a buffer for the message. It holds another text. */
#define TOLD(options)                                                                                                  \
    (memset(message, 'x', sizeof message),                                                                             \
     (options){.struct_size = sizeof(options), .message = message, .message_cap = sizeof message})

/* A call with the options `opt`. */
#define SAYS(call, status, words)                                                                                      \
    opt = TOLD(__typeof__(opt));                                                                                       \
    require_status(call, status);                                                                                      \
    require_says(message, words)

/* All decoders refuse the bytes with the same words, and so does tlc_explain, unless the frame itself is right. */
static void refused(const void *src, size_t len, size_t n, tlc_status status, const char *words)
{
    const tlc_message frames[] = {{samples[FRAME].bytes, samples[FRAME].len}, {src, len}};
    float out[N + 1] = {0}, zeros[N + 1] = {0};
    tlc_decode_options opt;
    char many[200];
    size_t bad;

    SAYS(tlc_decompress(src, len, TLC_F32, out, n, &opt), status, words);
    SAYS(tlc_decompress_add(src, len, 1, out, n, &opt), status, words);
    SAYS(tlc_mask(src, len, out, n, &opt), status, words);
    if (n == N) {
        snprintf(many, sizeof many, "frame 1: ... %s", words);
        SAYS(tlc_decompress_add_many(frames, NULL, 2, out, n, &bad, &opt), status, many);
        require(bad == 1);
        SAYS(tlc_explain(src, len, TLC_FORMAT_FRAME, message, sizeof message), status, words);
    }
    require(same(out, zeros, sizeof out));
}

TEST(damaged_frames)
{
    sample f = samples[FRAME], blocks, sum;

    refused(f.bytes, f.len, 99, TLC_ERR_SIZE, "the frame has 100 values, the caller has 99");
    refused(f.bytes, 3, N, TLC_ERR_CORRUPT, "3 bytes are too few for a frame");
    refused(NULL, 0, N, TLC_ERR_CORRUPT, "there are no bytes, where a frame should be");
    refused(f.bytes, f.len - 1, N, TLC_ERR_CORRUPT,
            "the payload of ... bytes from byte 9 on ... \"ternary+quartic+zerorun\" ... 100 values");
    f.bytes[9] ^= 0xff;
    refused(f.bytes, f.len + 1, N, TLC_ERR_CORRUPT, "\"ternary+quartic+zerorun\" ... 100 values");
    f = samples[FRAME];
    f.bytes[0] = 3;
    refused(f.bytes, f.len, N, TLC_ERR_VERSION, "byte 0, the format version of a frame, is 3: this library reads 1");
    f = samples[FRAME];
    f.bytes[2] = 99;
    refused(f.bytes, f.len, N, TLC_ERR_UNSUPPORTED,
            "bytes 2 and 3, the codec of the frame, are 99 and 17: ... no such");
    f = samples[FRAME];
    f.bytes[1] = 0x80;
    refused(f.bytes, f.len, N, TLC_ERR_CORRUPT, "byte 1, the flags of the frame, is 128");
    f = samples[FRAME];
    f.bytes[8] = 0xff; /* of the scale */
    refused(f.bytes, f.len, N, TLC_ERR_CORRUPT, "the scalars in the header");
    memset(f.bytes + 4, 0xff, 10);
    refused(f.bytes, f.len, N, TLC_ERR_CORRUPT, "byte 4 ... do not hold a number of values");

    make_frame(&sum, "3lc", 1);
    sum.bytes[sum.len - 1] ^= 1;
    refused(sum.bytes, sum.len, N, TLC_ERR_CHECKSUM, "the checksum of the frame");

    make_frame(&blocks, "3lc:block=30", 0);
    refused(blocks.bytes, 20, N, TLC_ERR_CORRUPT,
            "table of 4 blocks needs 8 bytes each, but 14 bytes follow the header");
    refused(blocks.bytes, blocks.len - 1, N, TLC_ERR_CORRUPT, "block 3 of 4 is not what ... block=30 ... 10 values");
    refused(blocks.bytes, blocks.len + 1, N, TLC_ERR_CORRUPT, "4 blocks do not end where the frame of ... bytes does");
    blocks.bytes[5] = 0; /* B */
    refused(blocks.bytes, blocks.len, N, TLC_ERR_CORRUPT, "number of values in a block ... 268435456");
    const uint8_t none[] = {1, 0, 2, 17, 0, 5};
    refused(none, sizeof none, 0, TLC_ERR_CORRUPT, "no values, but 1 bytes follow its header");
    make_samples(NULL);
}

TEST(arguments_of_decoders)
{
    const sample *f = &samples[FRAME];
    const tlc_message frames[] = {{f->bytes, f->len}, {f->bytes, f->len}, {NULL, 7}};
    const float weights[] = {1, -INFINITY};
    tlc_decode_options opt;
    char words[100];
    float out[N];
    sample raw;

    SAYS(tlc_decompress(f->bytes, f->len, (tlc_dtype)3, out, N, &opt), TLC_ERR_PARAM, "dtype is 3: ... TLC_BF16 (2)");
    SAYS(tlc_decompress(NULL, 5, TLC_F32, out, N, &opt), TLC_ERR_PARAM, "src is NULL, but len is 5");
    SAYS(tlc_decompress(f->bytes, f->len, TLC_F32, NULL, N, &opt), TLC_ERR_PARAM, "out is NULL, but n is 100");
    SAYS(tlc_decompress_add(f->bytes, f->len, 1, NULL, N, &opt), TLC_ERR_PARAM, "sum is NULL, but n is 100");
    SAYS(tlc_decompress_add(f->bytes, f->len, NAN, out, N, &opt), TLC_ERR_PARAM, "weight is NaN: a finite number");
    SAYS(tlc_mask(f->bytes, f->len, NULL, N, &opt), TLC_ERR_PARAM, "momentum is NULL, but n is 100");
    SAYS((opt.from_zero = 4, tlc_mask(f->bytes, f->len, out, N, &opt)), TLC_ERR_PARAM, "from_zero is 4: 0 or 1");
    SAYS((opt.isa = (tlc_isa)-2, tlc_mask(f->bytes, f->len, out, N, &opt)), TLC_ERR_PARAM, "isa is -2: ");
    SAYS(tlc_decompress_add_many(NULL, NULL, 2, out, N, NULL, &opt), TLC_ERR_PARAM, "frames is NULL, but count is 2");
    SAYS(tlc_decompress_add_many(frames, NULL, 2, NULL, N, NULL, &opt), TLC_ERR_PARAM, "sum is NULL, but n is 100");
    SAYS(tlc_decompress_add_many(frames, weights, 2, out, N, NULL, &opt), TLC_ERR_PARAM,
         "frame 1: weight is -infinity: a finite number");
    SAYS(tlc_decompress_add_many(frames, NULL, 3, out, N, NULL, &opt), TLC_ERR_PARAM,
         "frame 2: data is NULL, but len is 7");
    if (missing_isa()) {
        snprintf(words, sizeof words, "isa is %s, ... does not have", tlc_isa_name(missing_isa()));
        SAYS((opt.isa = missing_isa(), tlc_decompress(f->bytes, f->len, TLC_F32, out, N, &opt)), TLC_ERR_UNSUPPORTED,
             words);
        SAYS((opt.isa = missing_isa(), tlc_decompress_add_many(frames, NULL, 2, out, N, NULL, &opt)),
             TLC_ERR_UNSUPPORTED, words);
    }
    make_frame(&raw, "raw", 0);
    SAYS(tlc_mask(raw.bytes, raw.len, out, N, &opt), TLC_ERR_UNSUPPORTED, "codec \"raw\" has no mask");
    opt = TOLD(tlc_decode_options);
    require_status(tlc_decompress(f->bytes, f->len, TLC_F32, out, N, &opt), TLC_OK);
    require(!*message);
    opt = TOLD(tlc_decode_options);
    opt.struct_size = offsetof(tlc_decode_options, message); /* of a caller who does not know messages */
    require_status(tlc_decompress(f->bytes, 3, TLC_F32, out, N, &opt), TLC_ERR_CORRUPT);
    require(all_bytes(message, sizeof message, 'x'));
    make_samples(NULL);
}

/* ---- stages.h ---------------------------------------------------------------------------------------------------- */

TEST(quartic_frames)
{
    const uint8_t symbols[20] = {121, 243};
    const float scales[] = {1, -2}, infinite[] = {1, INFINITY};
    const char *codec = "ternary:block=50+quartic";
    uint8_t dst[ROOM];
    size_t len;

/* NOLINTBEGIN(bugprone-macro-parentheses): fields of structs */
#define QUARTIC_SAYS(c, type, room, src, count, scale, to, cap, status, words)                                         \
    memset(message, 'x', sizeof message);                                                                              \
    require_status(tlc_compress_quartic(src, count, scale, N,                                                          \
                                        PARAMS(quartic, .codec = c, .dtype = type, .scratch = room,                    \
                                               .message = message, .message_cap = sizeof message),                     \
                                        to, cap, &len),                                                                \
                   status);                                                                                            \
    require_says(message, words)
    QUARTIC_SAYS(NULL, 0, NULL, symbols, 20, scales, dst, ROOM, TLC_ERR_PARAM, "codec is NULL");
    QUARTIC_SAYS("3cl", 0, NULL, symbols, 20, scales, dst, ROOM, TLC_ERR_PARAM, "codec \"3cl\" at 0");
    QUARTIC_SAYS("sbc", 0, NULL, symbols, 20, scales, dst, ROOM, TLC_ERR_PARAM, "codec \"sbc\" has no 3-value symbols");
    QUARTIC_SAYS(codec, 3, NULL, symbols, 20, scales, dst, ROOM, TLC_ERR_PARAM, "dtype is 3: ");
    QUARTIC_SAYS(codec, 0, NULL, NULL, 20, scales, dst, ROOM, TLC_ERR_PARAM, "quartic is NULL");
    QUARTIC_SAYS(codec, 0, NULL, symbols, 20, NULL, dst, ROOM, TLC_ERR_PARAM, "scales is NULL");
    QUARTIC_SAYS(codec, 0, NULL, symbols, 20, scales, NULL, ROOM, TLC_ERR_PARAM, "dst is NULL");
    QUARTIC_SAYS("3lc-golomb", 0, NULL, symbols, 20, scales, dst, ROOM, TLC_ERR_PARAM,
                 "scratch is NULL: tlc_quartic_scratch");
    QUARTIC_SAYS(codec, 0, NULL, symbols, 20, scales, dst, 9, TLC_ERR_CAPACITY, "cap is 9 bytes, 42 are needed");
    QUARTIC_SAYS(codec, 0, NULL, symbols, 19, scales, dst, ROOM, TLC_ERR_SIZE,
                 "len is 19, but 100 values have 20 quartic");
    QUARTIC_SAYS(codec, 0, NULL, symbols, 20, scales, dst, ROOM, TLC_ERR_CORRUPT, "quartic: the bytes of block 0 of 2");
    const uint8_t good[20] = {121, 121};
    QUARTIC_SAYS(codec, 0, NULL, good, 20, scales, dst, ROOM, TLC_ERR_NONFINITE, "scales[1] is negative");
    QUARTIC_SAYS(codec, 0, NULL, good, 20, infinite, dst, ROOM, TLC_ERR_NONFINITE, "scales[1] is infinity");
#undef QUARTIC_SAYS
}

TEST(aggregations)
{
    sample f[4];
    uint8_t dst[ROOM];
    size_t len;

    make_frame(&f[0], "natural", 0);
    make_frame(&f[1], "natural:bits=9", 0);
    make_frame(&f[2], "natural:block=50", 0);
    make_frame(&f[3], "raw", 0);
    tlc_message frames[] = {{f[0].bytes, f[0].len}, {f[0].bytes, f[0].len}, {f[0].bytes, f[0].len}};
#define NATURAL_SAYS(last, size, which, count, to, cap, status, words)                                                 \
    frames[2] = (tlc_message){last, size};                                                                             \
    memset(message, 'x', sizeof message);                                                                              \
    require_status(tlc_natural_aggregate(frames, count,                                                                \
                                         PARAMS(natural_aggregate, .rounding = which, .message = message,              \
                                                .message_cap = sizeof message),                                        \
                                         to, cap, &len),                                                               \
                   status);                                                                                            \
    require_says(message, words)
    NATURAL_SAYS(f[1].bytes, f[1].len, 0, 3, dst, ROOM, TLC_ERR_PARAM, "frame 2: its bits or its shift");
    NATURAL_SAYS(f[2].bytes, f[2].len, 0, 3, dst, ROOM, TLC_ERR_UNSUPPORTED,
                 "frame 2: its codec is \"natural\" with blocks");
    NATURAL_SAYS(f[3].bytes, f[3].len, 0, 3, dst, ROOM, TLC_ERR_UNSUPPORTED,
                 "frame 2: its codec is \"raw\": natural without");
    NATURAL_SAYS(samples[DELTA].bytes, samples[DELTA].len, 0, 3, dst, ROOM, TLC_ERR_VERSION,
                 "frame 2: these are the bytes of a");
    NATURAL_SAYS(NULL, 3, 0, 3, dst, ROOM, TLC_ERR_PARAM, "frame 2: data is NULL, but len is 3");
    NATURAL_SAYS(f[0].bytes, f[0].len, 0, 0, dst, ROOM, TLC_ERR_PARAM, "count is 0");
    NATURAL_SAYS(f[0].bytes, f[0].len, 0, 3, NULL, ROOM, TLC_ERR_PARAM, "dst is NULL");
    NATURAL_SAYS(f[0].bytes, f[0].len, 9, 3, dst, ROOM, TLC_ERR_PARAM, "rounding is 9: ... (0) or ... (1)");
    NATURAL_SAYS(f[0].bytes, f[0].len, 0, 3, dst, 5, TLC_ERR_CAPACITY, "cap is 5 bytes, 109 are needed");
    require_status(tlc_natural_aggregate(frames, 3,
                                         PARAMS(natural_aggregate, .message = message, .message_cap = sizeof message),
                                         dst, ROOM, &len),
                   TLC_OK);
    require(!*message);
#undef NATURAL_SAYS
    make_samples(NULL);
}
/* NOLINTEND(bugprone-macro-parentheses) */

/* ---- one format in place of another ------------------------------------------------------------------------------ */

TEST(every_format_is_recognised)
{
    static const tlc_format formats[] = {TLC_FORMAT_FRAME, TLC_FORMAT_DELTA, TLC_FORMAT_BUNDLE, TLC_FORMAT_STATE};
    char words[200];

    for (size_t given = 0; given < SAMPLES; given++)
        for (size_t i = 0; i < COUNT(formats); i++) {
            const sample *s = &samples[given];
            at.i = given;
            at.note = samples[i].name;
            memset(message, 'x', sizeof message);
            tlc_status status = tlc_explain(s->bytes, s->len, formats[i], message, sizeof message);
            require((status == TLC_OK) == (given == i));
            require_status(tlc_explain(s->bytes, s->len, formats[i], NULL, 0), status);
            snprintf(words, sizeof words, "these are the bytes of a %s, not of a %s", s->name, samples[i].name);
            if (given == i)
                require(!*message);
            else
                require(!strcmp(message, words));
        }
}

/* tlc_explain has the status of the function that reads the bytes, whatever they are. */
TEST(explanations_of_any_bytes)
{
    rng r = {5};

    for (int i = 0; i < (quick() ? 2000 : 40000); i++) {
        sample s = samples[rng_below(&r, SAMPLES)];
        tlc_frame_info frame = {.struct_size = sizeof frame};
        tlc_delta_info delta = {.struct_size = sizeof delta};
        tlc_bundle_reader reader;

        s.len = rng_below(&r, 4) ? s.len : rng_below(&r, s.len + 1);
        for (size_t j = rng_below(&r, 4); j > 0 && s.len; j--)
            s.bytes[rng_below(&r, rng_below(&r, 2) ? s.len : s.len < 12 ? s.len : 12)] = (uint8_t)rng_below(&r, 256);
        require_status(tlc_explain(s.bytes, s.len, TLC_FORMAT_FRAME, message, sizeof message),
                       tlc_inspect(s.bytes, s.len, &frame));
        require(!*message == !tlc_inspect(s.bytes, s.len, &frame));
        require_status(tlc_explain(s.bytes, s.len, TLC_FORMAT_DELTA, message, sizeof message),
                       tlc_delta_inspect(s.bytes, s.len, &delta));
        require(!*message == !tlc_delta_inspect(s.bytes, s.len, &delta));
        require_status(tlc_explain(s.bytes, s.len, TLC_FORMAT_BUNDLE, message, sizeof message),
                       tlc_bundle_open(&reader, s.bytes, s.len));
        require(!*message == !tlc_bundle_open(&reader, s.bytes, s.len));
        if (tlc_explain(s.bytes, s.len, TLC_FORMAT_STATE, message, sizeof message))
            require_says(message, "");
    }
    require_status(tlc_explain(NULL, 3, TLC_FORMAT_FRAME, message, sizeof message), TLC_ERR_PARAM);
    require_says(message, "src is NULL, but len is 3");
    require_status(tlc_explain(samples[0].bytes, 3, (tlc_format)4, message, sizeof message), TLC_ERR_PARAM);
    require_says(message, "format is 4: ... (0) to ... (3)");
}

TEST(damaged_bundles_and_states)
{
    sample b = samples[BUNDLE];

#define EXPLAINS(s, n, format, status, words)                                                                          \
    require_status(tlc_explain((s).bytes, n, format, message, sizeof message), status);                                \
    require_says(message, words)
    EXPLAINS(b, b.len - 1, TLC_FORMAT_BUNDLE, TLC_ERR_CORRUPT,
             "frames of the bundle have ... bytes ... follow its head");
    EXPLAINS(b, 1, TLC_FORMAT_BUNDLE, TLC_ERR_CORRUPT, "1 bytes are too few for a bundle");
    EXPLAINS(b, 5, TLC_FORMAT_BUNDLE, TLC_ERR_CORRUPT, "frame 0 of the bundle");
    EXPLAINS(b, 3, TLC_FORMAT_BUNDLE, TLC_ERR_CORRUPT, "count of the bundle's frames");
    b.bytes[1] = 1;
    EXPLAINS(b, b.len, TLC_FORMAT_BUNDLE, TLC_ERR_VERSION, "byte 1 ... of a bundle ... is 1: this library reads 2");
    b.bytes[0] = 'b';
    EXPLAINS(b, b.len, TLC_FORMAT_BUNDLE, TLC_ERR_CORRUPT, "not the bytes of a bundle ... begins with \"B\"");
    b = samples[STATE];
    b.bytes[40] ^= 1;
    EXPLAINS(b, b.len, TLC_FORMAT_STATE, TLC_ERR_CHECKSUM, "checksum of the state");
}

/* ---- deltas ------------------------------------------------------------------------------------------------------ */

TEST(deltas)
{
    sample d = samples[DELTA];
    const sample *f = &samples[FRAME];
    float base[N], other[N] = {0};
    tlc_delta_options opt;
    char words[200];
    uint64_t have, want;

    fill(DATA_LAPLACE, 1, base, N);
    SAYS(tlc_delta_apply(d.bytes, d.len, TLC_F32, base, 99, &opt), TLC_ERR_SIZE,
         "the delta is for 100 weights, the caller has 99");
    SAYS(tlc_delta_apply(d.bytes, d.len, TLC_BF16, base, N, &opt), TLC_ERR_PARAM,
         "the delta is for f32 weights, the caller has bf16");
    SAYS(tlc_delta_apply(f->bytes, f->len, TLC_F32, base, N, &opt), TLC_ERR_CORRUPT,
         "these are the bytes of a frame, not of a delta of weights");
    SAYS(tlc_delta_apply(d.bytes, 5, TLC_F32, base, N, &opt), TLC_ERR_CORRUPT, "5 bytes are too few for a delta");
    SAYS(tlc_delta_apply(d.bytes, d.len - 1, TLC_F32, base, N, &opt), TLC_ERR_CHECKSUM, "checksum of the delta");
    require_status(tlc_delta_digest(TLC_F32, other, N, &have, NULL), TLC_OK);
    require_status(tlc_delta_digest(TLC_F32, base, N, &want, NULL), TLC_OK);
    snprintf(words, sizeof words, "not the base of the delta, which has digest %llu: theirs is %llu",
             (unsigned long long)want, (unsigned long long)have);
    SAYS(tlc_delta_apply(d.bytes, d.len, TLC_F32, other, N, &opt), TLC_ERR_BASE, words);
    SAYS(tlc_delta_apply(NULL, 9, TLC_F32, base, N, &opt), TLC_ERR_PARAM, "src is NULL, but len is 9");
    SAYS(tlc_delta_apply(d.bytes, d.len, TLC_F32, NULL, N, &opt), TLC_ERR_PARAM, "weights is NULL, but n is 100");
    SAYS(tlc_delta_apply(d.bytes, d.len, (tlc_dtype)11, base, N, &opt), TLC_ERR_PARAM,
         "dtype is 11: TLC_F32 (0) to TLC_F64 (10)");
    opt = TOLD(tlc_delta_options);
    require_status(tlc_delta_apply(d.bytes, d.len, TLC_F32, base, N, &opt), TLC_OK);
    require(!*message);
    d.bytes[1] = 9;
    SAYS(tlc_delta_apply(d.bytes, d.len, TLC_F32, base, N, &opt), TLC_ERR_VERSION,
         "byte 1, the format version of a delta of weights (threelc/delta.h), is 9: this library reads 1 to 3");
}

TEST(making_deltas)
{
    tlc_delta_options opt;
    char words[100];
    float x[N] = {0};
    uint8_t dst[ROOM];
    size_t bound, len;
    uint64_t digest;

    require_status(tlc_delta_bound(TLC_F32, N, &bound), TLC_OK);
    snprintf(words, sizeof words, "cap is 12 bytes, tlc_delta_bound is %zu", bound);
    SAYS(tlc_delta_compress(TLC_F32, x, x, N, dst, 12, &len, &opt), TLC_ERR_CAPACITY, words);
    SAYS(tlc_delta_compress(TLC_F32, x, x, N, NULL, ROOM, &len, &opt), TLC_ERR_PARAM, "dst is NULL");
    SAYS(tlc_delta_compress(TLC_F32, x, x, N, dst, ROOM, NULL, &opt), TLC_ERR_PARAM, "written is NULL");
    SAYS(tlc_delta_compress(TLC_F32, x, NULL, N, dst, ROOM, &len, &opt), TLC_ERR_PARAM, "next is NULL, but n is 100");
    SAYS(tlc_delta_compress((tlc_dtype)-1, x, x, N, dst, ROOM, &len, &opt), TLC_ERR_PARAM, "dtype is -1: ");
    SAYS(tlc_delta_compress(TLC_U4, x, x, N - 1, dst, ROOM, &len, &opt), TLC_ERR_PARAM,
         "n is 99, an odd number, and u4 has two weights in a byte");
    SAYS(tlc_delta_compress(TLC_F32, x, x, SIZE_MAX, dst, ROOM, &len, &opt), TLC_ERR_SIZE, "n is ... address space");
    SAYS((opt.without_digests = 2, tlc_delta_digest(TLC_F32, x, N, &digest, &opt)), TLC_ERR_PARAM,
         "without_digests is 2: 0 or 1");
    SAYS((opt.isa = (tlc_isa)8, tlc_delta_digest(TLC_F32, x, N, &digest, &opt)), TLC_ERR_PARAM, "isa is 8: ");
    SAYS(tlc_delta_digest(TLC_F32, NULL, N, &digest, &opt), TLC_ERR_PARAM, "weights is NULL, but n is 100");
    SAYS(tlc_delta_digest(TLC_F32, x, N, NULL, &opt), TLC_ERR_PARAM, "digest is NULL");
    if (missing_isa()) {
        snprintf(words, sizeof words, "isa is %s, ... does not have", tlc_isa_name(missing_isa()));
        SAYS((opt.isa = missing_isa(), tlc_delta_digest(TLC_F32, x, N, &digest, &opt)), TLC_ERR_UNSUPPORTED, words);
        SAYS((opt.isa = missing_isa(), tlc_delta_compress(TLC_F32, x, x, N, dst, ROOM, &len, &opt)),
             TLC_ERR_UNSUPPORTED, words);
    }
}

/* ---- the buffers ------------------------------------------------------------------------------------------------- */

/* Messages of every room, from 0 bytes on, are the whole one, or its beginning and "...", with a NUL. */
TEST(every_room)
{
    const sample *d = &samples[DELTA], *f = &samples[FRAME];
    char decoding[TLC_MESSAGE_SIZE], applying[TLC_MESSAGE_SIZE];
    tlc_delta_options delta = TOLD(tlc_delta_options);
    tlc_decode_options opt = TOLD(tlc_decode_options);
    guard_buffer b;
    float out[N];

    require(!guard_alloc(&b, TLC_MESSAGE_SIZE));
    opt.message = decoding;
    delta.message = applying;
    require_status(tlc_decompress(d->bytes, d->len, TLC_F32, out, N, &opt), TLC_ERR_VERSION);
    require_status(tlc_delta_apply(f->bytes, f->len, TLC_F32, out, N, &delta), TLC_ERR_CORRUPT);
    for (size_t cap = 0; cap <= strlen(applying) + strlen(decoding); cap++) {
        opt.message = delta.message = (char *)guard_at_end(&b, cap);
        opt.message_cap = delta.message_cap = cap;
        (void)tlc_decompress(d->bytes, d->len, TLC_F32, out, N, &opt);
        require(!cap || is_shortened(opt.message, cap, decoding));
        (void)tlc_delta_apply(f->bytes, f->len, TLC_F32, out, N, &delta);
        require(!cap || is_shortened(opt.message, cap, applying));
        (void)tlc_explain(d->bytes, d->len, TLC_FORMAT_FRAME, opt.message, cap);
        require(!cap || is_shortened(opt.message, cap, decoding));
    }
    guard_free(&b);
}

SETUP(make_samples)
