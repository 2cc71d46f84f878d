/* SPDX-License-Identifier: MIT
 *
 * How parts of the programs fail: they write one line that says what is wrong, and return false. main prints the line.
 */
#ifndef BENCH_EXPLAIN_H
#define BENCH_EXPLAIN_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

#define WHY_SIZE 5120 /* a path of any length and a sentence */

/* why: WHY_SIZE bytes. Always returns false. */
__attribute__((format(printf, 2, 3))) static inline bool explain(char *why, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(why, WHY_SIZE, format, args);
    va_end(args);
    return false;
}

#ifdef __clang_analyzer__ /* it does not look into variadic functions, so it has to be told the result */
static inline bool explain_is_false(bool told)
{
    (void)told;
    return false;
}
#define explain(...) explain_is_false(explain(__VA_ARGS__))
#endif
#endif
