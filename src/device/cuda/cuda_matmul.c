// cuda_matmul.c -- K_MATMUL of the cuda device: which part cuBLASLt computes, which part the kernel of
// cuda_matmul_bias.cu, and which part the kernels of activations. Called through the kernel table. cuda_blas.c has the algorithms.
#include "base/size.h"
#include "device/cuda/libraries/cuda_blas.h"

// cuBLASLt adds a bias whose elements have the type of c, and reads it 16 bytes at a time.
static bool bias_fits_epilogue(const kernel_matmul_args *p)
{
    return p->c_type == p->type && (uintptr_t)p->bias % 16 == 0;
}

bool cuda_matmul_split(const kernel_matmul_args *p, kernel_matmul_args *product)
{
    *product = *p;
    if (p->k > 0 && (!p->bias || bias_fits_epilogue(p))) return false;
    product->bias = NULL;
    product->accumulate = true;
    return p->bias || !p->accumulate;
}

// cuBLASLt has the tanh form of GELU. Its leading dimension of aux is a multiple of 8 elements, and how
// exactly it computes is not documented: F32 keeps our kernels, whose errors are those of F32.
bool cuda_matmul_may_join(const kernel_matmul_args *p)
{
    return p->epilogue != EPILOGUE_NONE && p->act == ACT_GELU_TANH && p->k > 0 &&
           p->c_type == p->type && p->type != F32 && p->n % 8 == 0 && p->ldc == p->n &&
           (uintptr_t)p->aux % 16 == 0 && (uintptr_t)p->bias % 16 == 0;
}

kernel_matmul_args cuda_matmul_without_epilogue(const kernel_matmul_args *p)
{
    kernel_matmul_args plain = *p;
    plain.c = kernel_matmul_sums(p);
    plain.aux = NULL;
    plain.epilogue = EPILOGUE_NONE;
    return plain;
}

// In 16-bit types cuBLASLt has fast algorithms only for rows, columns and terms that are multiples of 8. On an H200 the logits
// of 50,257 words take 7 times as long as those of 50,240, so what is beyond a multiple of 64 is a product of its own.
enum { PIECE_ALIGN = 64, PIECE_LEAST = 1024 };

// The part of a dimension that is fast; all of it where it is as it should be, or small.
static int64_t fast_part(const kernel_matmul_args *p, int64_t dim)
{
    return p->type == F32 || dim < PIECE_LEAST || dim % 8 == 0 ? dim : dim - dim % PIECE_ALIGN;
}

// Rows first … first+count-1 of a matrix whose rows may be columns. The address may not be a real one (cuda_blas_prepare).
static void *part_of(const void *p, dtype type, int64_t first, int64_t ld, bool by_rows)
{
    const size_t elements = (size_t)first * (by_rows ? (size_t)ld : 1);
    return (void *)((uintptr_t)p + elements * dtype_bytes(type));
}

static kernel_matmul_args rows_of(kernel_matmul_args p, int64_t first, int64_t count)
{
    p.a = part_of(p.a, p.type, first, p.lda, !p.trans_a);
    p.c = part_of(p.c, p.c_type, first, p.ldc, true);
    p.m = count;
    return p;
}

static kernel_matmul_args columns_of(kernel_matmul_args p, int64_t first, int64_t count)
{
    p.b = part_of(p.b, p.type, first, p.ldb, p.trans_b);
    p.c = part_of(p.c, p.c_type, first, p.ldc, false);
    if (p.bias) p.bias = part_of(p.bias, p.c_type, first, 1, true);
    p.n = count;
    return p;
}

static kernel_matmul_args terms_of(kernel_matmul_args p, int64_t first, int64_t count)
{
    p.a = part_of(p.a, p.type, first, p.lda, p.trans_a);
    p.b = part_of(p.b, p.type, first, p.ldb, !p.trans_b);
    p.k = count;
    return p;
}

// The few terms come first: what they round to 16 bits is small beside the sum of the many, which is added to it.
static int add_terms(const kernel_matmul_args *p, kernel_matmul_args *out)
{
    const int64_t fast = fast_part(p, p->k);
    if (fast == p->k) {
        out[0] = *p;
        return 1;
    }
    out[0] = terms_of(*p, fast, p->k - fast);
    out[0].bias = NULL;
    out[1] = terms_of(*p, 0, fast);
    out[1].accumulate = true;
    return 2;
}

static int add_columns(const kernel_matmul_args *p, kernel_matmul_args *out)
{
    const int64_t fast = fast_part(p, p->n);
    const kernel_matmul_args many = columns_of(*p, 0, fast),
                             few = columns_of(*p, fast, p->n - fast);
    const int count = add_terms(&many, out);
    return few.n > 0 ? count + add_terms(&few, out + count) : count;
}

int cuda_matmul_pieces(const kernel_matmul_args *p, kernel_matmul_args out[CUDA_MATMUL_PIECES])
{
    const int64_t fast = fast_part(p, p->m);
    const kernel_matmul_args many = rows_of(*p, 0, fast), few = rows_of(*p, fast, p->m - fast);
    const int count = add_columns(&many, out);
    return few.m > 0 ? count + add_columns(&few, out + count) : count;
}

static status multiply(const cuda_context *x, const kernel_matmul_args *p, err *e)
{
    status result = OK;
    kernel_matmul_args product, piece[CUDA_MATMUL_PIECES];
    if (cuda_matmul_split(p, &product)) cuda_matmul_bias(x, p);
    if (product.k <= 0) return OK;
    const int count = cuda_matmul_pieces(&product, piece);
    for (int i = 0; i < count; i++) TRY(cuda_blas_multiply(x, &piece[i], e));
done:
    return result;
}

// The activation of the sums, in a launch of its own.
static void activate(const cuda_context *x, const kernel_matmul_args *p)
{
    const bool grad = p->epilogue == EPILOGUE_ACTIVATION_GRAD;
    const kernel_activation_args a = {.count = p->m * p->n,
                                      .x = grad ? p->aux : kernel_matmul_sums(p),
                                      .dy = p->c,
                                      .y = p->c,
                                      .act = p->act,
                                      .type = p->c_type};
    (grad ? cuda_activation_grad : cuda_activation)(x, &a);
}

static status multiply_and_activate(const cuda_context *x, const kernel_matmul_args *p, err *e)
{
    status result = OK;
    bool joins = false;
    TRY(cuda_blas_joins(x->blas, p, &joins, e));
    if (joins) {
        TRY(cuda_blas_multiply(x, p, e));
    } else {
        const kernel_matmul_args plain = cuda_matmul_without_epilogue(p);
        TRY(multiply(x, &plain, e));
    }
    // The library's activation has other bits than ours.
    if (!joins || p->act_of_aux) activate(x, p);
done:
    return result;
}

void cuda_matmul(const cuda_context *x, const void *args)
{
    const kernel_matmul_args *p = args;
    if (p->m <= 0 || p->n <= 0) return;
    err e = {0};
    const bool plain = p->epilogue == EPILOGUE_NONE;
    if ((plain ? multiply : multiply_and_activate)(x, p, &e) != OK)
        cuda_failed(x, "matmul", e.text);
}
