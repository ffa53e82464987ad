// vec_qk_norm.h -- shared by vec_qk_norm.c and vec_qk_layer_norm.c: the forms of K_QK_NORM and K_QK_NORM_GRAD with
// layer_norm.
#ifndef TRIREME_DEVICE_CPU_VEC_QK_NORM_H
#define TRIREME_DEVICE_CPU_VEC_QK_NORM_H

#include "device/cpu/vec.h"

void VEC(qk_layer_norm)(const cpu_context *x, const void *args);
void VEC(qk_layer_norm_grad)(const cpu_context *x, const void *args);

#endif
