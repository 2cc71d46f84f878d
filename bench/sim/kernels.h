/* SPDX-License-Identifier: MIT
 *
 * Which codecs have kernels for devices, and how many bytes these move (kernels.def).
 */
#ifndef SIM_KERNELS_H
#define SIM_KERNELS_H

#include <stdbool.h>
#include <stddef.h>

/* What crosses between a device and its host. VALUES: there are no kernels. */
typedef enum kernel_form { VALUES, QUARTIC, PAYLOAD, MEMBERS } kernel_form;

/* Bytes through the memory of the device. */
typedef struct stage_bytes {
    double quartic, nonzero, payload; /* for each quartic byte, symbol that is not 0, and byte of the payload */
} stage_bytes;

typedef struct kernels {
    kernel_form push, answer;
    double push_bytes, answer_bytes;        /* of a value, through the memory of the device, without what crosses */
    stage_bytes push_stages, answer_stages; /* of lossless stages on the device */
    size_t block;                           /* values of a block; 0: the tensor is one */
    size_t scalars;                         /* of an unblocked payload */
    bool adds;                              /* owners are computed as if on the device: of 3-value symbols */
    bool both_sides;                        /* of MEMBERS: those of both signs cross, of which one is sent */
    bool decoded;                           /* of MEMBERS: values cross as they are decoded */
    bool returns; /* of MEMBERS: what they decode to goes back to the device, for the residual */
} kernels;

kernels kernels_of(const char *codec);
#endif
