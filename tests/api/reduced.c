/* SPDX-License-Identifier: MIT
 *
 * Libraries that were built with some codecs alone: tests/scripts/reduced.sh and cmake.sh.
 *   reduced CODEC...  prints a digest of what each makes, with all kernels, which is the same with the whole library
 *   reduced           with 3lc and raw alone: every other codec is refused by its name, wherever it comes from
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <threelc/frames.h>
#include <threelc/stages.h>

enum { N = 10007, STEPS = 5 };

static void require_at(int line, int holds)
{
    if (!holds) {
        printf("reduced.c:%d\n", line);
        exit(1);
    }
}
#define require(holds) require_at(__LINE__, holds)

static uint64_t fold(uint64_t digest, const void *bytes, size_t len) /* FNV-1a */
{
    for (size_t i = 0; i < len; i++)
        digest = (digest ^ ((const unsigned char *)bytes)[i]) * UINT64_C(0x100000001b3);
    return digest;
}

/* Of the frames of some steps, and what becomes of them. */
static uint64_t digest_of(const char *codec, tlc_isa isa)
{
    static float grad[N], received[N];
    tlc_decode_options opt;
    tlc_config cfg;
    tlc_ctx *ctx;
    uint64_t digest = 1;
    size_t len;

    tlc_decode_options_init(&opt, sizeof opt);
    opt.isa = isa;
    tlc_config_init(&cfg, sizeof cfg);
    cfg.codec = codec;
    cfg.isa = isa;
    require(!tlc_create(&ctx, &cfg, N));
    const size_t bound = tlc_bound(ctx);
    unsigned char *frame = malloc(bound);
    require(frame != NULL);
    for (int step = 1; step <= STEPS; step++) {
        for (int i = 0; i < N; i++)
            grad[i] = (float)((i * 7 + step) % 1009 - 504) * (float)(i % 11) * 1e-5f;
        require(!tlc_compress(ctx, grad, frame, bound, &len));
        require(!tlc_decompress(frame, len, TLC_F32, received, N, &opt));
        require(!tlc_decompress_add(frame, len, 0.3f, received, N, &opt));
        digest = fold(fold(digest, frame, len), received, sizeof received);
    }
    free(frame);
    tlc_destroy(ctx);
    return digest;
}

static void print_digests(const char *codec)
{
    const uint64_t digest = digest_of(codec, TLC_ISA_SCALAR);

    for (tlc_isa isa = TLC_ISA_AVX2; isa <= TLC_ISA_NEON; isa++)
        require(!tlc_isa_supported(isa) || digest_of(codec, isa) == digest);
    printf("%s %016llx\n", codec, (unsigned long long)digest);
}

/* A codec that is not there. */
static void refuse(const char *codec, const char *lacks)
{
    char message[TLC_MESSAGE_SIZE], create[TLC_MESSAGE_SIZE];
    tlc_config cfg;
    tlc_ctx *ctx;
    size_t bound;

    require(tlc_codec_check(codec, message, sizeof message) == TLC_ERR_UNSUPPORTED);
    require(strstr(message, "this build of the library lacks ") && strstr(message, lacks));
    tlc_config_init(&cfg, sizeof cfg);
    cfg.codec = codec;
    cfg.message = create;
    cfg.message_cap = sizeof create;
    require(tlc_create(&ctx, &cfg, N) == TLC_ERR_UNSUPPORTED && strstr(create, lacks));
    require(tlc_codec_bound(codec, TLC_F32, N, &bound) == TLC_ERR_UNSUPPORTED);
}

/* A frame with these bytes for its codec. */
static void refuse_frame(unsigned quantizer, unsigned packer, const char *lacks)
{
    const unsigned char frame[] =
        {TLC_FRAME_VERSION, 0, (unsigned char)quantizer, (unsigned char)packer, 4, 1, 2, 3, 4};
    tlc_frame_info info = {.struct_size = sizeof info};
    char message[TLC_MESSAGE_SIZE];
    float out[4];

    require(tlc_peek(frame, sizeof frame, &info) == TLC_ERR_UNSUPPORTED);
    require(tlc_inspect(frame, sizeof frame, &info) == TLC_ERR_UNSUPPORTED);
    require(tlc_decompress(frame, sizeof frame, TLC_F32, out, 4, NULL) == TLC_ERR_UNSUPPORTED);
    require(tlc_explain(frame, sizeof frame, TLC_FORMAT_FRAME, message, sizeof message) == TLC_ERR_UNSUPPORTED);
    require(strstr(message, lacks) != NULL);
}

static void refuse_stages(void)
{
    const float x[4] = {1, 2, 3, 4}, means[2] = {1, -1};
    const int8_t symbols[4] = {1, 0, -1, 0};
    uint64_t scratch[2];
    tlc_random_sparse_params random;
    tlc_golomb_params golomb;
    unsigned char bytes[256] = {0};
    int8_t q[4];
    float out[4], scale;
    uint32_t words[4];
    size_t len;

    tlc_random_sparse_params_init(&random, sizeof random);
    random.scratch = scratch;
    tlc_golomb_params_init(&golomb, sizeof golomb);
    golomb.signs = TLC_GOLOMB_SIGNED;
    golomb.scratch = scratch;
    require(tlc_stochastic_ternary_encode(x, 4, NULL, q, &scale) == TLC_ERR_UNSUPPORTED);
    require(tlc_sparse_binary_encode(x, 4, 0.5, q, NULL, &scale) == TLC_ERR_UNSUPPORTED);
    require(tlc_levels_encode(x, 4, NULL, q, &scale) == TLC_ERR_UNSUPPORTED);
    require(tlc_levels_decode(symbols, 4, TLC_LEVELS_255, 1, out) == TLC_ERR_UNSUPPORTED);
    require(tlc_natural_encode(x, 4, NULL, bytes, sizeof bytes, NULL) == TLC_ERR_UNSUPPORTED);
    require(tlc_natural_decode(bytes, 4, TLC_NATURAL_8, 0, out, 4) == TLC_ERR_UNSUPPORTED);
    require(tlc_onebit_encode(x, 4, bytes, NULL, out) == TLC_ERR_UNSUPPORTED);
    require(tlc_onebit_decode(bytes, 1, means, out, 4) == TLC_ERR_UNSUPPORTED);
    require(tlc_topk_encode(x, 4, NULL, bytes, sizeof bytes, &len) == TLC_ERR_UNSUPPORTED);
    require(tlc_topk_decode(bytes, 4, out, 4) == TLC_ERR_UNSUPPORTED);
    require(tlc_random_sparse_encode(x, 4, &random, bytes, sizeof bytes, &len) == TLC_ERR_UNSUPPORTED);
    require(tlc_random_sparse_decode(bytes, 4, out, 4) == TLC_ERR_UNSUPPORTED);
    require(tlc_golomb_encode(symbols, 4, &golomb, bytes, sizeof bytes, &len) == TLC_ERR_UNSUPPORTED);
    require(tlc_golomb_decode(bytes, 4, TLC_GOLOMB_SIGNED, q, 4) == TLC_ERR_UNSUPPORTED);
    require(tlc_philox(1, 1, 0, 4, words) == TLC_ERR_UNSUPPORTED);
    require(!tlc_ternary_encode(x, 4, 1, q, NULL, &scale) && !tlc_ternary_decode(q, 4, scale, out));
    require(!tlc_quartic_encode(symbols, 4, bytes, sizeof bytes, &len) && !tlc_quartic_decode(bytes, len, q, 4));
}

static void refuse_all(void)
{
    tlc_codec_entry entry = {.struct_size = sizeof entry};
    char message[TLC_MESSAGE_SIZE];
    size_t i = 0;

    refuse("3lc-golomb", "golomb");
    refuse("sbc", "sparse-binary");
    refuse("natural:bits=9", "natural");
    refuse("topk:p=0.1", "topk");
    refuse("ternary+golomb", "golomb");
    refuse_frame(4, 0, "natural");
    refuse_frame(8, 0, "topk");
    refuse_frame(2, 2, "golomb");
    refuse_stages();
    for (; !tlc_codec_list(i, &entry); i++)
        require(!strcmp(entry.name, "3lc") || !strcmp(entry.name, "ternary") || !strcmp(entry.name, "quartic") ||
                !strcmp(entry.name, "zerorun") || !strcmp(entry.name, "raw"));
    require(i == 5);
    require(tlc_codec_check("natura", message, sizeof message) == TLC_ERR_PARAM && !strstr(message, "natural"));
}

int main(int argc, char **argv)
{
    if (argc == 1)
        refuse_all();
    for (int i = 1; i < argc; i++)
        print_digests(argv[i]);
    return 0;
}
