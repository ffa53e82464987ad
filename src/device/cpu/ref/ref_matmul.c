// ref_matmul.c -- reference of the matrix product and of the gradient of its bias. Sums run in
// double, in order of k.
#include "device/cpu/ref/ref.h"

// The epilogue of element `at`, whose sum is stored.
static void activate(const kernel_matmul_args *p, int64_t at)
{
    const ref_real sum = ref_load(kernel_matmul_sums(p), at, p->c_type);
    if (p->epilogue == EPILOGUE_ACTIVATION)
        ref_store(p->c, at, p->c_type, (ref_real)ref_activate(p->act, sum));
    if (p->epilogue == EPILOGUE_ACTIVATION_GRAD)
        ref_store(p->c, at, p->c_type,
                  (ref_real)(ref_activate_slope(p->act, ref_load(p->aux, at, p->c_type)) * sum));
}

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
            ref_store(kernel_matmul_sums(p), i * p->ldc + j, p->c_type, (float)sum);
            activate(p, i * p->ldc + j);
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
