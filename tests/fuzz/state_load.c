/* SPDX-License-Identifier: MIT
 *
 * The input is a saved state: any bytes, tried with a right checksum, too. It is loaded into a context as its header
 * describes one, and into others of another n, dtype, feedback and without room for its codec. What is refused must
 * change nothing; what is accepted must be saved as the same bytes, on every ISA go on to the same frame, and be what
 * tlc_state_save writes.
 */
#include "fuzz.h"

enum { MOST_BYTES = 1 << 16, MOST_VALUES = 4096 };

typedef struct header {
    tlc_dtype dtype;
    int feedback;
    size_t n;
} header;

/* What a header says, made fit for a context. */
static header claimed(const uint8_t *src, size_t len)
{
    fuzz_input in = {src + (len < 5 ? len : 5), src + len};
    header h;

    h.dtype = (tlc_dtype)(take_byte(&in) % 3);
    h.feedback = take_byte(&in) & 1;
    (void)take_byte(&in);
    h.n = take_number(&in, 4) % (MOST_VALUES + 1);
    return h;
}

/* roomy: with room for most codecs. */
static tlc_ctx *context(const header *h, int roomy, tlc_isa isa)
{
    tlc_config cfg = config("onebit", h->dtype, isa);

    cfg.reserve = roomy ? "raw:block=1;3lc-golomb" : NULL;
    cfg.feedback = h->feedback;
    cfg.seed = 99;
    return create(&cfg, h->n);
}

/* Loads into a context of its own; returns the status. */
static tlc_status refused_or_same(const uint8_t *src, size_t len, const header *h, int roomy)
{
    tlc_ctx *ctx = context(h, roomy, TLC_ISA_AUTO);
    snapshot before = snap(ctx);
    tlc_status status = tlc_state_load(ctx, src, len);

    if (status) {
        require_same_state(ctx, &before);
    } else {
        snapshot after = snap(ctx);
        require(after.size == len && same(after.state, src, len));
        require(after.bound == before.bound);
        snap_free(&after);
    }
    snap_free(&before);
    tlc_destroy(ctx);
    return status;
}

/* The frame of the residual alone, or of a gradient of zeros, after loading. */
static size_t next_frame(const uint8_t *src, size_t len, const header *h, tlc_isa isa, uint8_t **dst,
                         tlc_status *status)
{
    tlc_ctx *ctx = context(h, 1, isa);
    uint8_t *zeros = bytes(h->n * 4);
    size_t written = 0;

    memset(zeros, 0, h->n * 4);
    require_status(tlc_state_load(ctx, src, len), TLC_OK);
    *dst = bytes(tlc_bound(ctx));
    *status = tlc_compress(ctx, h->feedback ? NULL : zeros, *dst, tlc_bound(ctx), &written);
    require(*status == TLC_OK || *status == TLC_ERR_NONFINITE); /* a residual may hold anything */
    free(zeros);
    tlc_destroy(ctx);
    return written;
}

static void goes_on(const uint8_t *src, size_t len, const header *h)
{
    uint8_t *want, *got;
    tlc_status status, other;
    size_t size = next_frame(src, len, h, TLC_ISA_SCALAR, &want, &status);

    fuzz_fold(want, size, 1);
    FOR_EACH_ISA(isa) {
        at.isa = isa;
        size_t size2 = next_frame(src, len, h, isa, &got, &other);
        require(size2 == size && other == status && same(got, want, size));
        free(got);
    }
    free(want);
}

static tlc_status one_state(const uint8_t *src, size_t len)
{
    const header h = claimed(src, len);
    at = (place){.n = h.n, .dtype = h.dtype};
    tlc_status status = refused_or_same(src, len, &h, 1), tight = refused_or_same(src, len, &h, 0);

    fuzz_fold_number(status);
    fuzz_fold_number(tight);
    require(tight == status || (!status && tight == TLC_ERR_CAPACITY));
    require(refused_or_same(src, len, &(header){h.dtype, h.feedback, h.n + 1}, 1) != TLC_OK);
    require(refused_or_same(src, len, &(header){(tlc_dtype)((h.dtype + 1) % 3), h.feedback, h.n}, 1) != TLC_OK);
    require(refused_or_same(src, len, &(header){h.dtype, !h.feedback, h.n}, 1) != TLC_OK);
    if (!status)
        goes_on(src, len, &h);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size <= MOST_BYTES)
        fuzz_with_checksum(data, size, one_state);
    return 0;
}
