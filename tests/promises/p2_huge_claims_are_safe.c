/* SPDX-License-Identifier: MIT
 *
 * Frames of a few bytes that claim very many values, blocks or positions. No decoder allocates, reads or writes outside
 * its arguments, or runs long. A frame is refused if it claims more than its bytes can hold. A few bytes can say that
 * very many values are 0: then tlc_inspect is as fast as for few values, and decoding is bounded by the caller's n.
 */
#include "../support/no_memory.h"
#include <unistd.h>
#include <xxhash.h>

enum {
    SECONDS = 100, /* for all tests; 2^32 steps of work on one frame would take longer */
    N = 23,
    ROOM = 400,
    OUT = 64 /* bytes of output, far fewer than claimed */
};

/* ---- claims ------------------------------------------------------------------------------------------------------ */

/* Numbers that become small when they are multiplied, or cut to 32 bits. */
static const uint64_t plain_claims[] = {
    UINT64_MAX,
    UINT64_MAX - 1,
    UINT64_MAX - 3,
    UINT64_MAX - 4,
    UINT64_MAX - 7,
    UINT64_MAX - 62,
    UINT64_MAX - 63,
    UINT64_MAX / 2,
    UINT64_MAX / 2 + 1,
    UINT64_MAX / 4,
    UINT64_MAX / 4 + 1,
    UINT64_MAX / 5,
    UINT64_MAX / 5 + 1,
    UINT64_MAX / 8,
    UINT64_MAX / 8 + 1,
    UINT64_MAX / 9,
    UINT64_MAX / 10 + 1,
    UINT64_MAX / 12,
    UINT64_MAX / 16 + 1,
    SIZE_MAX,
    SIZE_MAX - 1,
    SIZE_MAX - 4,
    SIZE_MAX / 2 + 1,
    SIZE_MAX / 4,
    SIZE_MAX / 4 + 1,
    SIZE_MAX / 5 + 1,
    SIZE_MAX / 8 + 1,
    SIZE_MAX / 12 + 1,
    UINT32_MAX,
    UINT64_C(1) << 32,
    (UINT64_C(1) << 32) + 1,
    UINT64_C(1) << 40,
    UINT64_C(1) << 31,
    UINT64_C(1) << 28,
    (UINT64_C(1) << 28) + 1,
    1 << 20,
    10000,
};
/* Added to the true number. */
static const uint64_t added_claims[] = {
    UINT64_C(1) << 32, UINT64_C(1) << 61, UINT64_C(1) << 62, UINT64_C(1) << 63, UINT64_C(3) << 62, UINT64_C(1) << 58,
    UINT64_C(1) << 59, UINT64_C(1) << 60, UINT64_C(1) << 33, UINT64_C(1) << 34, UINT64_C(5) << 32,
};
enum { CLAIMS = COUNT(plain_claims) + COUNT(added_claims) };

static uint64_t claim(size_t i, uint64_t truth)
{
    return i < COUNT(plain_claims) ? plain_claims[i] : truth + added_claims[i - COUNT(plain_claims)];
}

/* Claimed block sizes; 0 leaves the true one. No encoder makes the last ones. */
static const uint64_t blocks[] = {0,
                                  1,
                                  2,
                                  7,
                                  N,
                                  1 << 14,
                                  1 << 28,
                                  (1 << 28) + 1,
                                  UINT64_C(1) << 32,
                                  (UINT64_C(1) << 32) + 1,
                                  UINT64_C(1) << 63,
                                  UINT64_MAX};

static size_t put_leb128(uint8_t *to, uint64_t value)
{
    size_t len = 0;

    for (; value > 127; value >>= 7)
        to[len++] = (uint8_t)(value | 128);
    to[len++] = (uint8_t)value;
    return len;
}

/* ---- frames ------------------------------------------------------------------------------------------------------ */

typedef struct frame {
    uint8_t bytes[ROOM];
    size_t len;
} frame;

/* A valid frame in parts: header up to n; n; block; scalars of an unblocked frame; the rest without the checksum. */
typedef struct truth {
    frame whole;
    const codec_case *codec;
    int blocked, checksum;
    size_t scalars, body; /* where they begin */
} truth;

static truth make(const codec_case *c, tlc_dtype dtype, int checksum, data_kind kind)
{
    tlc_config cfg = config(c->text, dtype, TLC_ISA_AUTO);
    tlc_frame_info info = {.struct_size = sizeof info};
    truth t = {.codec = c, .checksum = checksum, .blocked = block_of(c->text) > 0};
    uint8_t grad[4 * N];

    cfg.checksum = checksum;
    tlc_ctx *ctx = create(&cfg, N);
    require(tlc_bound(ctx) <= ROOM);
    fill_grad(kind, 1, dtype, grad, N);
    t.whole.len = compress(ctx, grad, t.whole.bytes);
    tlc_destroy(ctx);
    require_status(tlc_inspect(t.whole.bytes, t.whole.len, &info), TLC_OK);
    t.body = (size_t)info.header_size;
    t.scalars = t.body - (t.blocked ? 0 : 4 * c->scalars);
    return t;
}

static void append(frame *f, const void *from, size_t len)
{
    require(f->len + len <= ROOM);
    if (len)
        memcpy(f->bytes + f->len, from, len); /* cppcheck-suppress uninitvar ; whole, or len is 0 */
    f->len += len;
}

static void seal(frame *f, int checksum)
{
    uint32_t sum = (uint32_t)XXH3_64bits(f->bytes, f->len);
    uint8_t end[4] = {(uint8_t)sum, (uint8_t)(sum >> 8), (uint8_t)(sum >> 16), (uint8_t)(sum >> 24)};

    append(f, end, checksum ? 4 : 0);
}

/* The same frame with other numbers and another body. */
static frame claiming(const truth *t, uint64_t n, uint64_t block, const uint8_t *body, size_t len)
{
    uint8_t number[10];
    frame f = {{0}, 0};

    append(&f, t->whole.bytes, 4);
    append(&f, number, put_leb128(number, n));
    if (t->blocked && !block)
        append(&f, t->whole.bytes + 5, t->scalars - 5);
    else if (t->blocked)
        append(&f, number, put_leb128(number, block));
    append(&f, t->whole.bytes + t->scalars, t->body - t->scalars);
    append(&f, body, len);
    seal(&f, t->checksum);
    return f;
}

/* ---- decoders ---------------------------------------------------------------------------------------------------- */

static arena src_pages, out_pages;
static size_t described; /* frames that tlc_inspect accepted */

/* All decoders, for a tensor of n values, with much less room. Each must refuse, and write nothing. */
static void refused_by_decoders(const frame *f, size_t n, tlc_status want)
{
    const uint8_t *src = arena_copy(&src_pages, f->bytes, f->len, 1);
    uint8_t *out = arena_take(&out_pages, OUT, 1);
    float *sum = (float *)(void *)out;

    memset(out, 0x3c, OUT);
    FOR_EACH_ISA(isa) {
        const tlc_decode_options opt = {.struct_size = sizeof opt, .isa = isa, .parallel = starved_runner(&runners[1])};
        at.isa = isa;
        FOR_EACH_DTYPE(dtype)
            starved(tlc_decompress(src, f->len, dtype, out, n, &opt), want);
        starved(tlc_decompress_add(src, f->len, 0.5f, sum, n, &opt), want);
        starved(tlc_decompress_add_many(&(tlc_message){src, f->len}, NULL, 1, sum, n, NULL, &opt), want);
        starved(tlc_mask(src, f->len, sum, n, &opt), want);
    }
    require(arena_intact(&out_pages) && all_bytes(out, OUT, 0x3c));
}

/* Only codes of positions can stand for many values in few bytes. In other payloads a byte stands for at most 70. */
static void check_description(const truth *t, const frame *f, const tlc_frame_info *info, uint64_t n)
{
    require(info->n == n && info->header_size + info->payload_size + (t->checksum ? 4 : 0) == f->len);
    require(n / 70 <= f->len || (t->codec->scratch && !info->block) ||
            (t->codec->scratch && n / info->block <= f->len));
    require(info->block <= 1 << 28); /* no block is larger */
    require(info->nonzero == TLC_UNKNOWN || info->nonzero <= 5 * (uint64_t)f->len);
    described++;
}

static void offer(const truth *t, const frame *f, uint64_t n)
{
    const uint8_t *src = arena_copy(&src_pages, f->bytes, f->len, 1);
    tlc_frame_info info;
    tlc_status status;

    memset(&info, 0x3c, sizeof info);
    info.struct_size = sizeof info;
    starve(0);
    status = tlc_inspect(src, f->len, &info);
    feed();
    require(memory.asked == 0);
    if (!status)
        check_description(t, f, &info, n);
    else
        require(all_bytes((uint8_t *)&info + sizeof info.struct_size, sizeof info - sizeof info.struct_size, 0x3c));
    if (n != N)
        refused_by_decoders(f, N, TLC_ERR_SIZE); /* n is checked before the rest */
    if (status && n <= SIZE_MAX)
        refused_by_decoders(f, (size_t)n, status);
}

/* ---- the tests --------------------------------------------------------------------------------------------------- */

/* Calls attack for frames of every codec. */
static void each_truth(void (*attack)(const truth *t))
{
    static const data_kind kinds[] = {DATA_ZERO, DATA_LAPLACE, DATA_DENSE};
    size_t turn = 0;

    arena_open(&src_pages, ROOM);
    arena_open(&out_pages, OUT);
    FOR_EACH_CODEC(c)
        for (size_t k = 0; k < COUNT(kinds); k++, turn++) {
            at = (place){.codec = c->text, .dtype = dtypes[turn % 3], .n = N, .note = "claims"};
            truth t = make(c, dtypes[turn % 3], (int)turn % 2, kinds[k]);
            attack(&t);
        }
    arena_close(&src_pages);
    arena_close(&out_pages);
}

/* Other n and block; the rest is unchanged, or missing. */
static void other_numbers(const truth *t)
{
    const uint8_t *body = t->whole.bytes + t->body;
    size_t len = t->whole.len - t->body - (t->checksum ? 4 : 0);

    for (at.i = 0; at.i < CLAIMS; at.i++)
        for (size_t b = 0; b < (t->blocked ? COUNT(blocks) : 1); b++) {
            frame f = claiming(t, claim(at.i, N), blocks[b], body, len);
            offer(t, &f, claim(at.i, N));
            f = claiming(t, claim(at.i, N), blocks[b], body, 0);
            offer(t, &f, claim(at.i, N));
        }
}

TEST(many_values)
{
    described = 0;
    each_truth(other_numbers);
    require(described > 100); /* positions of few among many */
}

/* A payload that begins with a number, of positions or of clipped values, and then repeats one byte. A blocked frame
 * has as much of a table as there is room for. */
static size_t claiming_body(const truth *t, uint64_t k, uint8_t b, uint8_t rest, uint8_t *body)
{
    size_t len = 0, scalars = 4 * t->codec->scalars;
    uint8_t payload[24], size;

    memset(payload, rest, sizeof payload);
    size = (uint8_t)put_leb128(payload, k);
    payload[size++] = b;
    size = (uint8_t)(size + 8);
    if (t->blocked) {
        memset(body, 0, scalars + 4);
        body[scalars] = size;
        len = scalars + 4;
    }
    memcpy(body + len, payload, size);
    return len + size;
}

static void other_positions(const truth *t)
{
    static const uint8_t rests[] = {0, 0xff, 0x55, 121, 0x40};
    static const uint8_t bs[] = {0, 1, 4, 20, 21, 48, 49};
    uint8_t body[64];

    for (at.i = 0; at.i < CLAIMS; at.i++)
        for (size_t r = 0; r < COUNT(rests); r++) {
            uint64_t n = r % 2 ? claim(at.i, N) : UINT64_MAX;
            uint8_t b = bs[(at.i + r) % COUNT(bs)];
            frame f = claiming(t, n, 1 << 28, body, claiming_body(t, claim(at.i, 1), b, rests[r], body));
            offer(t, &f, n);
            f = claiming(t, N, 1 << 28, body, claiming_body(t, claim(at.i, 1), b, rests[r], body));
            offer(t, &f, N);
        }
}

TEST(many_positions)
{
    each_truth(other_positions);
}

/* Lengths of blocks whose sum, or whose lower 32 bits, match the bytes that there are. */
static void other_lengths(const truth *t)
{
    static const uint32_t lens[][2] = {{UINT32_MAX, 9},          {0x7fffffff, 9},
                                       {0x7fffffff, 0x7fffffff}, {0x80000000u, 0x80000008u},
                                       {0xfffffff8u, 16},        {0x40000000, 0x40000000},
                                       {8, 0xffffffffu}};
    const size_t entry = 4 * t->codec->scalars + 4;
    uint8_t body[64] = {0};

    for (at.i = 0; t->blocked && at.i < COUNT(lens); at.i++) {
        for (size_t e = 0; e < 2; e++)
            for (size_t k = 0; k < 4; k++)
                body[entry * (e + 1) - 4 + k] = (uint8_t)(lens[at.i][e] >> 8 * k);
        frame f = claiming(t, 2, 1, body, 2 * entry + 8);
        offer(t, &f, 2);
        f = claiming(t, UINT64_C(1) << 29, 1 << 28, body, 2 * entry + 8);
        offer(t, &f, UINT64_C(1) << 29);
    }
}

TEST(long_blocks)
{
    each_truth(other_lengths);
}

/* Numbers that are cut short, too long, or not in their shortest form. */
TEST(malformed_numbers)
{
    static const struct {
        size_t len;
        uint8_t leb[14];
    } numbers[] = {
        {1, {0x80}},
        {2, {0x80, 0}},
        {2, {0xff, 0x80}},
        {10, {0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 2}},
        {11, {0x81, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0}},
        {11, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}},
        {14, {0x97, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1}},
    };

    arena_open(&src_pages, ROOM);
    arena_open(&out_pages, OUT);
    FOR_EACH_CODEC(c)
        for (at = (place){.codec = c->text, .note = "numbers"}; at.i < COUNT(numbers); at.i++) {
            truth t = make(c, TLC_F32, 0, DATA_LAPLACE);
            frame f = {{0}, 0};
            append(&f, t.whole.bytes, t.blocked ? 5 : 4);
            append(&f, numbers[at.i].leb, numbers[at.i].len);
            tlc_frame_info info = {.struct_size = sizeof info};
            starved(tlc_inspect(f.bytes, f.len, &info), TLC_ERR_CORRUPT);
            refused_by_decoders(&f, N, TLC_ERR_CORRUPT);
        }
    arena_close(&src_pages);
    arena_close(&out_pages);
}

/* ---- without a header -------------------------------------------------------------------------------------------- */

/* Stages alone, with few bytes for very many values. n is the caller's, and nothing is written before all of src is
 * checked. Neither bytes of zeros nor bytes of ones are a code of that many values. */
TEST(stages_alone)
{
    uint8_t zeros[16] = {0}, ones[16];
    int8_t *q;
    float *out;
    size_t written = 77;

    arena_open(&out_pages, OUT);
    q = (int8_t *)arena_take(&out_pages, OUT, 1);
    out = (float *)(void *)q;
    memset(q, 0x3c, OUT);
    memset(ones, 0xff, sizeof ones);
    for (at = (place){.note = "stages alone"}; at.i < CLAIMS; at.i++) {
        if (claim(at.i, 16) > SIZE_MAX)
            continue;
        size_t n = at.n = (size_t)claim(at.i, 16);
        starved(tlc_quartic_decode(ones, 16, q, n), TLC_ERR_SIZE);
        starved(tlc_natural_decode(zeros, 16, TLC_NATURAL_8, 0, out, n), TLC_ERR_SIZE);
        starved(tlc_natural_decode(zeros, 16, TLC_NATURAL_9, 0, out, n), TLC_ERR_SIZE);
        starved(tlc_onebit_decode(zeros, 16, (float[]){1, -1}, out, n), TLC_ERR_SIZE);
        starved(tlc_topk_decode(zeros, 16, out, n), TLC_ERR_CORRUPT);
        starved(tlc_topk_decode(ones, 16, out, n), TLC_ERR_CORRUPT);
        starved(tlc_golomb_decode(ones, 16, TLC_GOLOMB_SIGNED, q, n), TLC_ERR_CORRUPT);
        starved(tlc_golomb_decode(zeros, 16, TLC_GOLOMB_UNSIGNED, q, n), TLC_ERR_CORRUPT);
        starved(tlc_random_sparse_decode(ones, 16, out, n), TLC_ERR_CORRUPT);
        starved(tlc_random_sparse_decode(zeros, 16, out, n), TLC_ERR_CORRUPT);
    }
    starved(tlc_zerorun_decode(ones, 16, q, OUT, &written), TLC_ERR_CAPACITY); /* 224 */
    require(tlc_zerorun_decoded_size(ones, 16) == 14 * 16 && written == 77);
    require(arena_intact(&out_pages) && all_bytes(q, OUT, 0x3c));
    arena_close(&out_pages);
}

/* An aggregator does not trust the n of the first frame. */
static void aggregated(const truth *t)
{
    const uint8_t *body = t->whole.bytes + t->body;
    size_t len = t->whole.len - t->body - (t->checksum ? 4 : 0), written = 77;
    uint8_t *dst = arena_take(&out_pages, OUT, 1);

    memset(dst, 0x3c, OUT);
    for (at.i = 0; at.i < CLAIMS; at.i++)
        for (size_t first = 0; first < 2; first++) {
            frame f = claiming(t, claim(at.i, N), 0, body, len);
            const tlc_message other_frame = {f.bytes, f.len}, true_frame = {t->whole.bytes, t->whole.len};
            const tlc_message frames[] = {first ? other_frame : true_frame, first ? true_frame : other_frame};
            starve(0);
            tlc_status status = tlc_natural_aggregate(frames, 2, NULL, dst, OUT, &written);
            feed();
            int other = strncmp(t->codec->text, "natural", 7) != 0 || t->blocked;
            require(status == TLC_ERR_CORRUPT || status == (other ? TLC_ERR_UNSUPPORTED : TLC_ERR_SIZE));
            require(memory.asked == 0 && written == 77 && all_bytes(dst, OUT, 0x3c));
        }
}

TEST(aggregators)
{
    each_truth(aggregated);
}

static int start(void **state)
{
#if !defined(_WIN32)
    (void)alarm(SECONDS);
#endif
    return print_isas(state);
}

SETUP(start)
