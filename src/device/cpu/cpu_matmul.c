// cpu_matmul.c -- K_MATMUL of the cpu device: it chooses how a product is computed. Called through
// the kernel table. The choice is a fixed rule of the CPU level and the shape. It is never a
// timing, and it does not depend on the number of threads.
//
//   AVX2 and above   a few rows (decoding)                      vec_few.c
//                    bf16 where its instructions beat fp32's    cpu_bf16.c (see cpu_features.c)
//                    all others                                 vec_product.c
//   below AVX2       16-bit types                               cpu_widen.c, then oneDNN
//                    fp32                                       oneDNN
//
// The order of sums in oneDNN depends on its threads and on the shape. So it gets fixed pieces of
// c, and one thread for each.
#include "base/size.h"
#include "device/cpu/cpu_products.h"
#include "device/cpu/cpu_team.h"

#include <dnnl.h>
#include <omp.h>
#include <stdatomic.h>
#include <string.h>

enum { PIECE = 256 }; // rows and columns of a piece of c that oneDNN computes

// A product in fp32.
typedef struct cpu_sgemm_work {
    const kernel_matmul_args *p;
    int64_t down;      // pieces from the top of c to its bottom
    _Atomic int *code; // an answer of oneDNN that is not success
} cpu_sgemm_work;

static void multiply_piece(const void *arg, int64_t item, int thread)
{
    (void)thread;
    const cpu_sgemm_work *w = arg;
    const kernel_matmul_args *p = w->p;
    int64_t i = item % w->down * PIECE, j = item / w->down * PIECE;
    const float *a = (const float *)p->a + (p->trans_a ? i : i * p->lda);
    const float *b = (const float *)p->b + (p->trans_b ? j * p->ldb : j);
    const int threads = omp_get_max_threads(); // the setting of the program that uses the library
    omp_set_num_threads(1);
    dnnl_status_t code =
        dnnl_sgemm(p->trans_a ? 'T' : 'N', p->trans_b ? 'T' : 'N', size_min(PIECE, p->m - i),
                   size_min(PIECE, p->n - j), p->k, 1, a, p->lda, b, p->ldb, p->accumulate ? 1 : 0,
                   (float *)p->c + i * p->ldc + j, p->ldc);
    omp_set_num_threads(threads);
    if (code != dnnl_success) atomic_store(w->code, (int)code);
}

static void keep_failure(cpu_products *s, int code, const kernel_matmul_args *p)
{
    if (s->failure.code != OK) return;
    err_set(&s->failure, code == dnnl_out_of_memory ? E_FIT : E_INTERNAL,
            "oneDNN refused the product m=%ld n=%ld k=%ld of %s (status %d)", (long)p->m,
            (long)p->n, (long)p->k, dtype_name(p->type), code);
}

void cpu_product_f32(const cpu_context *x, const kernel_matmul_args *p)
{
    _Atomic int code = dnnl_success;
    cpu_sgemm_work w = {p, size_ceil_div(p->m, PIECE), &code};
    cpu_team_run(x->team, w.down * size_ceil_div(p->n, PIECE), multiply_piece, &w);
    if (code != dnnl_success) keep_failure(x->products, code, p);
}

// Sets c to bias (+ c), or to zero. oneDNN's sgemm has no bias, so its product is added to this.
static void write_bias(const kernel_matmul_args *p)
{
    for (int64_t i = 0; i < p->m; i++) {
        float *row = (float *)p->c + i * p->ldc;
        const float *bias = p->bias;
        if (!p->accumulate) {
            if (bias) memcpy(row, bias, sizeof(float) * (size_t)p->n);
            if (!bias) memset(row, 0, sizeof(float) * (size_t)p->n);
        } else if (bias) {
            for (int64_t j = 0; j < p->n; j++) row[j] += bias[j];
        }
    }
}

static void multiply_by_onednn(const cpu_context *x, kernel_matmul_args p)
{
    if (p.bias || p.k <= 0) {
        write_bias(&p);
        p.accumulate = true;
    }
    if (p.k > 0) cpu_product_f32(x, &p);
}

// Chooses the file that computes the product; cpu_products.h lists them. The vec_product_few
// functions return false when `a` has more than a few rows.
void cpu_matmul(const cpu_context *x, const void *args)
{
    const kernel_matmul_args *p = args;
    const bool avx512 = x->level >= CPU_AVX512, vectors = x->level >= CPU_AVX2 && p->k > 0;
    if (p->m <= 0 || p->n <= 0) return;
    if (vectors && (avx512 ? vec_product_few_avx512 : vec_product_few_avx2)(x, p)) return;
    if (vectors && p->type == BF16 && x->products->bf16_instructions) {
        cpu_product_bf16(x, p);
    } else if (vectors) {
        (avx512 ? vec_product_avx512 : vec_product_avx2)(x, p);
    } else if (p->type != F32) {
        cpu_product_widen(x, p);
    } else {
        multiply_by_onednn(x, *p);
    }
}
