/* SPDX-License-Identifier: MIT
 *
 * What is on the stack, and how long. threelc.h promises how much a call takes.
 */
#ifndef TLC_STACK_H
#define TLC_STACK_H

/* A function whose arrays are on the stack only while it runs. Compilers that inline it, and others beside it, put the
 * arrays of all of them into one frame. */
#define TLC_OWN_FRAME __attribute__((noinline))

/* A function that is part of the loops that call it: what is constant there is constant in it. Without optimisation
 * nothing is constant, and each value would have a place of its own in the frame of the caller. */
#if defined(__OPTIMIZE__)
#define TLC_FORCED always_inline
#else
#define TLC_FORCED unused
#endif
#endif
