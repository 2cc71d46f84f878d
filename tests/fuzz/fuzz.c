/* SPDX-License-Identifier: MIT */
#include "fuzz.h"
#include <xxhash.h>

uint64_t fuzz_digest;

/* Outside of a test cmocka's fail() calls exit, and fuzzers do not count that as a crash. */
__attribute__((constructor)) static void abort_on_failure(void)
{
    static char setting[] = "CMOCKA_TEST_ABORT=1";

    putenv(setting);
}

void fuzz_fold(const void *elements, size_t count, size_t width)
{
    const uint16_t one = 1;
    const uint8_t *from = elements;

    if (!count)
        return;
    if (width == 1 || *(const uint8_t *)&one) {
        fuzz_digest = XXH3_64bits_withSeed(from, count * width, fuzz_digest);
        return;
    }
    uint8_t *swapped = bytes(count * width);
    for (size_t i = 0; i < count * width; i++)
        swapped[i] = from[i / width * width + width - 1 - i % width];
    fuzz_digest = XXH3_64bits_withSeed(swapped, count * width, fuzz_digest);
    free(swapped);
}

void fuzz_fold_number(uint64_t number)
{
    fuzz_fold(&number, 1, sizeof number);
}

void fuzz_seal(uint8_t *data, size_t size)
{
    if (size < 4)
        return;
    const uint64_t sum = XXH3_64bits(data, size - 4);
    for (size_t i = 0; i < 4; i++)
        data[size - 4 + i] = (uint8_t)(sum >> (8 * i));
}

void fuzz_with_checksum(const uint8_t *data, size_t size, tlc_status (*try_one)(const uint8_t *src, size_t len))
{
    if (try_one(data, size) != TLC_ERR_CHECKSUM)
        return;
    uint8_t *sealed = bytes(size);
    memcpy(sealed, data, size);
    fuzz_seal(sealed, size);
    require(try_one(sealed, size) != TLC_ERR_CHECKSUM);
    free(sealed);
}

uint8_t take_byte(fuzz_input *in)
{
    return in->at < in->end ? *in->at++ : 0;
}

uint32_t take_number(fuzz_input *in, unsigned count)
{
    uint32_t number = 0;

    for (unsigned i = 0; i < count; i++)
        number |= (uint32_t)take_byte(in) << (8 * i);
    return number;
}

void take_line(fuzz_input *in, char *text, size_t cap)
{
    size_t len = 0;

    while (in->at < in->end && *in->at != '\n') {
        if (len + 1 < cap)
            text[len++] = (char)*in->at;
        in->at++;
    }
    in->at += in->at < in->end;
    text[len] = 0;
}
