/* SPDX-License-Identifier: MIT
 *
 * How much stack a call takes: what is below it is painted, and the lowest place that was written is found afterwards.
 *
 *     stack_paint();
 *     status = tlc_compress(...);
 *     stack_check();
 *
 * Both are called from the function that makes the call. Nothing is measured with sanitizers, which put more on the
 * stack, and with valgrind, which guards what is below it.
 */
#ifndef TLC_TEST_STACK_H
#define TLC_TEST_STACK_H

enum { STACK_MOST = 80 * 1024 }; /* bytes that a call may take, as threelc.h says */

void stack_paint(void);
void stack_check(void); /* fails the test if the call took more */

#endif
