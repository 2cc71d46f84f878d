/* SPDX-License-Identifier: MIT
 *
 * tlc_parse_number against strtof and strtod of the C library, which round correctly: numbers of codec strings, and
 * whole numbers up to the largest that is taken.
 */
#include "../../src/codec/codec.h"

#include "../support/support.h"
#include <float.h>

enum { DIGITS = TLC_CODEC_TEXT };

static void same_as_libc(const char *text)
{
    double value = -1;
    float want = strtof(text, NULL);

    set_note(text);
    require(tlc_parse_number(text, strlen(text), 24, &value));
    /* no parameter is subnormal; there tlc_parse_number keeps more bits */
    require(value == (double)want || want < FLT_MIN);
    require(tlc_parse_number(text, strlen(text), 53, &value) && value == strtod(text, NULL));
}

static void refused(const char *text)
{
    double value;

    set_note(text);
    require(!tlc_parse_number(text, strlen(text), 24, &value) && !tlc_parse_number(text, strlen(text), 53, &value));
}

TEST(by_hand)
{
    static const char *const good[] = {
        "0",
        "00000",
        "0.0",
        "1",
        "01",
        "16777216",
        "16777217",
        "16777218",
        "16777219", /* 2^24 + 1: ties */
        "33554434",
        "33554438",
        "9007199254740992",
        "9007199254740993",
        "9007199254740995",
        "9007199254740993.0000001",
        "9007199254740992.5",
        "9007199254740993.5",
        "9223372036854775807",
        "9223372036854775808",
        "9223372036854775809",
        "9223372036854776832",
        "9223372036854776832.1",
        "9223372036854776831.9", /* in the middle of two doubles */
        "18446744073709551615",
        "18446744073709551615.9999",
        "18446744073709550592",
        "18446744073709550591",
        "000000000000000000000000000000018446744073709551615",
    };
    static const char *const bad[] = {
        "",
        ".",
        "1.",
        ".1",
        "1..2",
        "1.2.3",
        "-1",
        "+1",
        " 1",
        "1 ",
        "1e3",
        "0x1",
        "1,5",
        "inf",
        "nan",
        "1/",
        "1:",
        "18446744073709551616",
        "18446744073709551620",
        "20000000000000000000",
        "184467440737095516150",
        "99999999999999999999",
    };

    for (at.i = 0; at.i < COUNT(good); at.i++)
        same_as_libc(good[at.i]);
    for (at.i = 0; at.i < COUNT(bad); at.i++)
        refused(bad[at.i]);
}

/* Numbers of any size, among them numbers close to the middle between two neighbours. */
TEST(random_numbers)
{
    char text[DIGITS + 100];
    rng r = {4};

    for (at.i = 0; at.i < (quick() ? 2000u : 50000u); at.i++) {
        uint64_t whole = rng_next(&r) >> rng_below(&r, 64);
        int kind = (int)(at.i % 3), digits = 1 + (int)rng_below(&r, 60);
        if (kind == 1 && whole >= UINT64_C(1) << 25) { /* a tie of binary32, or of binary64 */
            int drop = 64 - __builtin_clzll(whole) - (at.i % 2 && whole >> 54 ? 53 : 24);
            whole = (whole >> drop << drop) | (uint64_t)1 << (drop - 1);
        }
        int len = snprintf(text, sizeof text, "%llu", (unsigned long long)whole);
        if (kind != 1 || at.i % 4 == 1) {
            text[len++] = '.';
            for (int i = 0; i < digits; i++) /* mostly zeros: the digit that decides may come late */
                text[len++] = (char)('0' + (rng_below(&r, 3) && kind ? 0 : rng_below(&r, 10)));
            text[len] = 0;
        }
        same_as_libc(text);
    }
}

/* A codec string holds no more digits than there is room for. */
TEST(many_digits)
{
    char text[DIGITS + 4] = "1.";
    double value = -1;

    for (size_t digits = 1; digits <= DIGITS + 1; digits++) {
        memset(text + 2, '0', digits - 1);
        text[1 + digits] = '1';
        text[2 + digits] = 0;
        at.i = digits;
        require(tlc_parse_number(text, 2 + digits, 53, &value) == (digits <= DIGITS));
        require(value == strtod(text, NULL));
    }
    for (size_t zeros = 1; zeros < DIGITS - 2; zeros++) { /* far below binary32 */
        snprintf(text, sizeof text, "0.%0*d", (int)zeros, 1);
        same_as_libc(text);
    }
}
