/* SPDX-License-Identifier: MIT
 *
 * The input is a text. All functions that take a codec string must agree on whether it is one. If not, there must be a
 * message. If it is, the codec must work, and its decoding form must be a codec string, too.
 */
#include "fuzz.h"

enum { N = 70, MOST_INPUT = 4096 };

/* The text in a buffer of exactly its size. */
static char *text_of(const uint8_t *data, size_t size)
{
    const uint8_t *nul = size ? memchr(data, 0, size) : NULL;
    const size_t len = nul ? (size_t)(nul - data) : size;
    char *text = (char *)bytes(len + 1);

    if (len)
        memcpy(text, data, len);
    text[len] = 0;
    return text;
}

/* With any room the message ends in a NUL, and is_shortened() says what it is. A text that itself has the words before
 * a list, which the message quotes, hides where the list begins. */
static void explained(const char *text, tlc_status want)
{
    char whole[512], cut[512];

    memset(whole, 1, sizeof whole);
    require_status(tlc_codec_check(text, whole, sizeof whole), want);
    size_t len = strnlen(whole, sizeof whole);
    require(len < sizeof whole && (len > 0) == (want != TLC_OK));
    for (size_t i = 0; i < len; i++)
        require(whole[i] >= ' ' && whole[i] <= '~');
    for (size_t cap = 0; cap <= len + 1; cap += 1 + len / 7) {
        memset(cut, 1, sizeof cut);
        require_status(tlc_codec_check(text, cut, cap), want);
        require(all_bytes(cut + cap, sizeof cut - cap, 1));
        require(!cap || (strstr(text, "; there are ") ? memchr(cut, 0, cap) != NULL : is_shortened(cut, cap, whole)));
    }
    if (!strncmp(whole, "at ", 3))
        require(strtoul(whole + 3, NULL, 10) <= strlen(text));
    fuzz_fold(whole, len, 1);
}

static void works(const char *text)
{
    tlc_config cfg = config(text, TLC_F32, TLC_ISA_AUTO);
    tlc_frame_info info = {.struct_size = sizeof info};
    float grad[N], out[N];
    size_t bound = 0, most = 0, len = 0;

    fill(DATA_LAPLACE, 1, grad, N);
    tlc_ctx *ctx = create(&cfg, N);
    require_status(tlc_codec_bound(text, TLC_F32, N, &bound), TLC_OK);
    require(tlc_bound(ctx) == bound - 4); /* without a checksum */
    uint8_t *dst = bytes(bound);
    tlc_status status = tlc_compress(ctx, grad, dst, tlc_bound(ctx), &len);
    require(status == TLC_OK || (status == TLC_ERR_NONFINITE && strstr(text, "p="))); /* x / p may be infinite */
    if (status == TLC_OK) {
        fuzz_fold(dst, len, 1);
        require_status(tlc_decompress(dst, len, TLC_F32, out, N, NULL), TLC_OK);
        require_status(tlc_inspect(dst, len, &info), TLC_OK);
        require_status(tlc_codec_check(info.codec, NULL, 0), TLC_OK);
    }
    require_status(tlc_set_codec(ctx, text), TLC_OK);
    tlc_status huge = tlc_codec_bound(text, TLC_F32, SIZE_MAX, &most);
    require(huge == TLC_ERR_SIZE || (huge == TLC_OK && most > bound));
    free(dst);
    tlc_destroy(ctx);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tlc_ctx *ctx = NULL;
    size_t bound = 77;

    if (size > MOST_INPUT)
        return 0;
    char *text = text_of(data, size);
    at = (place){.codec = text, .n = N};
    tlc_status status = tlc_codec_check(text, NULL, 0);
    require(status == TLC_OK || status == TLC_ERR_PARAM);
    explained(text, status);
    if (status) {
        tlc_config cfg = config(text, TLC_F32, TLC_ISA_AUTO);
        require_status(tlc_codec_bound(text, TLC_F32, N, &bound), TLC_ERR_PARAM);
        require(bound == 77);
        require_status(tlc_create(&ctx, &cfg, N), TLC_ERR_PARAM);
        cfg.codec = "raw";
        ctx = create(&cfg, N);
        require_status(tlc_set_codec(ctx, text), TLC_ERR_PARAM);
        tlc_destroy(ctx);
    } else {
        works(text);
    }
    /* As tlc_config.reserve, a list that is split at ';'. */
    tlc_config cfg = config("raw", TLC_F32, TLC_ISA_AUTO);
    cfg.reserve = text;
    ctx = NULL;
    tlc_status reserved = tlc_create(&ctx, &cfg, N);
    require(reserved == TLC_OK || reserved == TLC_ERR_PARAM);
    require(status || reserved == TLC_OK);
    require((ctx != NULL) == (reserved == TLC_OK));
    fuzz_fold_number(reserved);
    tlc_destroy(ctx);
    free(text);
    return 0;
}
