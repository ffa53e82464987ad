// vec_add.h -- the sum of two tensors on vectors, for K_ADD and for the norm of a sum.
#ifndef TRIREME_DEVICE_CPU_VEC_ADD_H
#define TRIREME_DEVICE_CPU_VEC_ADD_H

#include "device/cpu/vec.h"

// Elements first … last-1 of the call. The multiply-add is named, because a compiler could choose either product for it.
VEC_INLINE void vec_add_range(const kernel_add_args *p, int64_t first, int64_t last, dtype type,
                              dtype residual)
{
    float factor = 1;
    if (p->factor) dtype_convert(&factor, F32, p->factor, p->type, 1);
    vf alpha = v_set(factor * p->alpha), beta = v_set(factor * p->beta);
#define SUM(i, n)                                                                                  \
    v_store_n(p->y, i, n, residual,                                                                \
              v_fma(alpha, v_load_n(p->a, i, n, residual), beta *v_load_n(p->b, i, n, type)))
#define SCALE(i, n) v_store_n(p->y, i, n, residual, alpha *v_load_n(p->a, i, n, residual))
    if (p->b) {
        V_EACH(i, first, last, SUM);
    } else {
        V_EACH(i, first, last, SCALE);
    }
#undef SUM
#undef SCALE
}

#endif
