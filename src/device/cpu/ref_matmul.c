// ref_matmul.c -- reference of the matrix product and of the gradient of its bias. Sums run in
// double, in order of k.
#include "device/cpu/ref.h"

void ref_matmul(const cpu_context *x, const void *args)
{
    (void)x;
    const kernel_matmul_args *p = args;
    for (int64_t i = 0; i < p->m; i++) {
        for (int64_t j = 0; j < p->n; j++) {
            double sum = p->bias ? ref_load(p->bias, j, p->type) : 0;
            for (int64_t l = 0; l < p->k; l++) {
                float a = ref_load(p->a, p->trans_a ? l * p->lda + i : i * p->lda + l, p->type);
                float b = ref_load(p->b, p->trans_b ? j * p->ldb + l : l * p->ldb + j, p->type);
                sum += (double)a * b;
            }
            if (p->accumulate) sum += ref_load(p->c, i * p->ldc + j, p->c_type);
            ref_store(p->c, i * p->ldc + j, p->c_type, (float)sum);
        }
    }
}

void ref_bias_grad(const cpu_context *x, const void *args)
{
    (void)x;
    const kernel_bias_grad_args *p = args;
    for (int64_t c = 0; c < p->cols; c++) {
        double sum = p->accumulate ? p->db[c] : 0;
        for (int64_t r = 0; r < p->rows; r++)
            sum += ref_load(p->dy, r * kernel_stride(p->stride, p->cols) + c, p->type);
        p->db[c] = (float)sum;
    }
}
