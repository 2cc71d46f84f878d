/* SPDX-License-Identifier: MIT
 *
 * The state of a node as bytes, which src/docs/format.md draws.
 */
#ifndef TLC_GOSSIP_STATE_H
#define TLC_GOSSIP_STATE_H

#include "../wire/reader.h"
#include "gossip.h"

#define TLC_NODE_MAGIC {'T', 'L', 'C', 'G'}
#define TLC_NODE_VERSION 1
#define TLC_NODE_FIXED 16 /* bytes before the numbers of the head */
#endif
