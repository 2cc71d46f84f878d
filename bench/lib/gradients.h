/* SPDX-License-Identifier: MIT
 *
 * Gradients of many ranks for the tensors of a model, made of those of one source.
 *
 * A tensor is made of the tensor of the source whose size is nearest to its own, of those of its kind if there are any.
 * Kinds are told by names: attention (attn, attention), embedding (emb, wte, wpe), norm (norm, ln_), and others. It is
 * filled with pieces of that size, one after the other; the last piece is cut. Each piece is the gradient of one of the
 * recorded steps, times 1 or -1. Step and sign are chosen at random for each rank, step and piece. So values that are
 * large in the recording are large on all ranks, as in a training, but ranks are independent.
 *
 * If a tensor of the source is one of attention, all pieces of a tensor have the same step, and a piece keeps its sign.
 * Then frames of a large tensor have about as many bits a value as those of the recorded one.
 */
#ifndef BENCH_GRADIENTS_H
#define BENCH_GRADIENTS_H

#include "shapes.h"
#include "source.h"

/* Writes the gradient of a rank in a step: all tensors, at their offsets (list->room values). s: f32. The values are
 * the same on every machine. */
void gradients_make(const source *s, const shape_list *list, uint64_t seed, size_t rank, size_t step, float *out);

/* The residual of a rank before the first step, made in the same way of recorded residuals; 0 where there are none. */
void gradients_start(const source *s, const shape_list *list, uint64_t seed, size_t rank, float *out);
#endif
