/* SPDX-License-Identifier: MIT
 *
 * Tensors that lie one after the other in one buffer.
 */
#include "../../common/sizes.h"
#include "../../values/dtype.h"
#include <threelc/exchange.h>

tlc_status tlc_tensor_pointers(void *base, tlc_dtype dtype, const tlc_tensor *tensors, size_t count, void **pointers)
{
    if ((count && (!tensors || !pointers)) || !tlc_dtype_valid(dtype))
        return TLC_ERR_PARAM;
    const size_t stride = count ? tensors->struct_size : 0, most = PTRDIFF_MAX / tlc_dtype_size(dtype);
    if (count && stride < offsetof(tlc_tensor, n) + sizeof tensors->n)
        return TLC_ERR_PARAM;
    for (int check_only = 1; check_only >= 0; check_only--) {
        uint64_t values = 0;
        for (size_t i = 0; i < count; i++) {
            const tlc_tensor *t = (const void *)((const char *)tensors + i * stride);
            if (!check_only)
                pointers[i] = base ? (char *)base + values * tlc_dtype_size(dtype) : NULL;
            values = tlc_sum(values, t->n);
        }
        if (values > most)
            return TLC_ERR_SIZE;
        if (values && !base)
            return TLC_ERR_PARAM;
    }
    return TLC_OK;
}
