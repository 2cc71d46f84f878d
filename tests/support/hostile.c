/* SPDX-License-Identifier: MIT */
#include "hostile.h"

void hostile_open(hostile *h, size_t most_bytes, size_t most_values)
{
    arena_open(&h->src, most_bytes);
    arena_open(&h->out, most_values * sizeof(float));
}

void hostile_close(hostile *h)
{
    arena_close(&h->src);
    arena_close(&h->out);
}

/* A filled output of size bytes. It ends at a guard page for even ISAs and begins after one for odd ones. */
static uint8_t *output(hostile *h, size_t size, tlc_isa isa)
{
    uint8_t *p = arena_take(&h->out, size, isa % 2 == 0);

    memset(p, HOSTILE_FILL, size);
    return p;
}

static void require_untouched(const hostile *h, tlc_status status)
{
    require(arena_intact(&h->out));
    require(status == TLC_OK || all_bytes(h->out.given, h->out.given_size, HOSTILE_FILL));
}

/* Values that tlc_mask set to 0; all others must be as they were. */
static uint64_t masked(const uint8_t *momentum, size_t n)
{
    uint64_t count = 0;

    for (size_t i = 0; i < n; i++) {
        int zero = all_bytes(momentum + 4 * i, 4, 0);
        require(zero || all_bytes(momentum + 4 * i, 4, HOSTILE_FILL));
        count += (uint64_t)zero;
    }
    return count;
}

static int all_finite(const uint8_t *values, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if ((widened(TLC_F32, values, i) & 0x7fffffffu) >= 0x7f800000u)
            return 0;
    return 1;
}

static void inspect(const hostile *h, const uint8_t *src, size_t len, size_t n, tlc_status decoded, tlc_status mask,
                    int finite)
{
    tlc_frame_info info;

    memset(&info, HOSTILE_FILL, sizeof info);
    info.struct_size = sizeof info;
    tlc_status status = tlc_inspect(src, len, &info);
    if (status) {
        const size_t head = sizeof info.struct_size;
        require(all_bytes((uint8_t *)&info + head, sizeof info - head, HOSTILE_FILL));
        require(decoded != TLC_OK);
        require(decoded == status || decoded == TLC_ERR_SIZE);
        return;
    }
    require(decoded == TLC_OK || decoded == TLC_ERR_SIZE);
    require((decoded == TLC_OK) == (info.n == n));
    require(info.header_size + info.payload_size + (info.checksum ? 4u : 0u) == len);
    require(info.clipped <= info.n);
    require_status(tlc_codec_check(info.codec, NULL, 0), TLC_OK);
    require(decoded != TLC_OK || finite || !strncmp(info.codec, "raw", 3)); /* other codecs send finite values */
    require(decoded != TLC_OK || (mask == TLC_ERR_UNSUPPORTED) == (info.nonzero == TLC_UNKNOWN));
    if (mask == TLC_OK)
        require(masked(h->out.given, n) == info.nonzero);
}

tlc_status hostile_decode(hostile *h, const void *frame, size_t len, size_t n, tlc_isa isa)
{
    const tlc_decode_options opt = {.struct_size = sizeof opt, .isa = isa};
    const uint8_t *src = arena_copy(&h->src, frame, len, 1);
    tlc_status status = TLC_OK, mask;
    int finite = 1;

    FOR_EACH_DTYPE(dtype) {
        tlc_status got = tlc_decompress(src, len, dtype, output(h, n * dtype_size[dtype], isa), n, &opt);
        require(dtype == TLC_F32 || got == status);
        status = got;
        require_untouched(h, status);
        finite &= dtype != TLC_F32 || status || all_finite(h->out.given, n);
    }
    float *sum = (float *)(void *)output(h, n * sizeof *sum, isa);
    require_status(tlc_decompress_add(src, len, 0.75f, sum, n, &opt), status);
    require_untouched(h, status);
    const tlc_message twice[2] = {{src, len}, {src, len}};
    size_t bad = 2;
    sum = (float *)(void *)output(h, n * sizeof *sum, isa);
    require_status(tlc_decompress_add_many(twice, NULL, 2, sum, n, &bad, &opt), status);
    require_untouched(h, status);
    require(bad == (status ? 0 : 2));
    float *momentum = (float *)(void *)output(h, n * sizeof *momentum, isa);
    mask = tlc_mask(src, len, momentum, n, &opt);
    require(mask == status || (!status && mask == TLC_ERR_UNSUPPORTED));
    require_untouched(h, mask);
    inspect(h, src, len, n, status, mask, finite);
    return status;
}
