/* SPDX-License-Identifier: MIT
 *
 * Codecs of answers that keep up with the pushes.
 */
#ifndef TLC_PULL_CODEC_H
#define TLC_PULL_CODEC_H

#include <threelc/exchange.h>

/* A codec for answers with means, instead of one that starves. NULL: `pull` keeps up, or is not a codec. */
const char *tlc_pull_instead(const char *pull);
#endif
