/* SPDX-License-Identifier: MIT
 *
 * Speeds of links as text: 10Mbit, 2.5Gbit, or 1Mbit/10Mbit for up and down. parse.h reads them.
 */
#ifndef SIM_RATE_H
#define SIM_RATE_H

#include "link_model.h"

enum { RATE_TEXT = 32 };

/* bytes: a second. At most 4 digits. buffer: RATE_TEXT bytes. */
const char *rate_text(double bytes, char *buffer);
const char *rate_link_text(const model_link *link, char *buffer);

static inline double rate_mbit(double bytes)
{
    return bytes * 8e-6;
}
#endif
