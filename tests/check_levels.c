/* SPDX-License-Identifier: MIT */
#include "check.h"

const check_kernel check_level_kernels[] = {
    {0},
};
