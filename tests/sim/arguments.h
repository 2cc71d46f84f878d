/* SPDX-License-Identifier: MIT */
#ifndef TLC_SIM_ARGUMENTS_H
#define TLC_SIM_ARGUMENTS_H

#include "object.h"

/* NULL in place of the object or of an argument, and structs of other sizes. */
void refuse_arguments(object *o);

#endif
