// cpu_bf16.c -- bf16 products by the CPU's own bf16 instructions (AMX, AVX512_BF16), as oneDNN
// primitives. A primitive is generated code for one shape: it is made at the shape's first use and
// kept, so that a later step makes none. Scratch memory is the context's.
#include "device/cpu/cpu_products.h"

#include <omp.h>
#include <stdlib.h>
#include <string.h>

typedef struct shape {
    int64_t m, n, k, lda, ldb, ldc;
    int32_t trans_a, trans_b, accumulate, bias, c_f32, unused;
} shape;

typedef struct bf16_product {
    shape of;
    dnnl_primitive_t primitive;
    dnnl_memory_t a, b, c, bias, scratch;
} bf16_product;

static uint64_t shape_hash(const shape *s)
{
    uint64_t words[sizeof *s / 8], h = 0;
    memcpy(words, s, sizeof words);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        h = (h ^ words[i]) * 0x9E3779B97F4A7C15u;
        h ^= h >> 29;
    }
    return h;
}

// Where the shape is, or the free slot where it belongs.
static bf16_product **cache_find(bf16_product **cache, size_t slots, const shape *s)
{
    size_t i = shape_hash(s) & (slots - 1);
    while (cache[i] && memcmp(&cache[i]->of, s, sizeof *s) != 0) i = (i + 1) & (slots - 1);
    return &cache[i];
}

static bool cache_grow(cpu_products *p)
{
    size_t slots = p->slots ? p->slots * 2 : 64;
    bf16_product **cache = calloc(slots, sizeof(bf16_product *));
    if (!cache) return false;
    for (size_t i = 0; i < p->slots; i++)
        if (p->cache[i]) *cache_find(cache, slots, &p->cache[i]->of) = p->cache[i];
    free(p->cache);
    p->cache = cache;
    p->slots = slots;
    return true;
}

static void product_free(bf16_product *b)
{
    if (!b) return;
    dnnl_memory_t memories[] = {b->a, b->b, b->c, b->bias, b->scratch};
    for (size_t i = 0; i < sizeof memories / sizeof *memories; i++)
        if (memories[i]) dnnl_memory_destroy(memories[i]);
    if (b->primitive) dnnl_primitive_destroy(b->primitive);
    free(b);
}

void cpu_bf16_cache_free(cpu_products *p)
{
    for (size_t i = 0; i < p->slots; i++) product_free(p->cache[i]);
    free(p->cache);
}

static dnnl_status_t matrix(dnnl_memory_desc_t *out, int64_t rows, int64_t cols, int64_t stride,
                            bool transposed, dnnl_data_type_t type)
{
    dnnl_dims_t dims = {rows, cols}, strides = {stride, 1}, swapped = {1, stride};
    return dnnl_memory_desc_init_by_strides(out, 2, dims, type, transposed ? swapped : strides);
}

// Leaves the enclosing function's loop of calls at the first that fails.
#define DNN(call)                                                                                  \
    do {                                                                                           \
        code = (call);                                                                             \
        if (code != dnnl_success) goto done;                                                       \
    } while (0)

static dnnl_status_t attributes(bool accumulate, dnnl_primitive_attr_t *out)
{
    dnnl_post_ops_t after = NULL;
    dnnl_status_t code;
    DNN(dnnl_primitive_attr_create(out));
    DNN(dnnl_primitive_attr_set_scratchpad_mode(*out, dnnl_scratchpad_mode_user));
    if (accumulate) {
        DNN(dnnl_post_ops_create(&after));
        DNN(dnnl_post_ops_append_sum(after, 1));
        DNN(dnnl_primitive_attr_set_post_ops(*out, after));
    }
done:
    if (after) dnnl_post_ops_destroy(after);
    return code;
}

// Room for oneDNN's scratch memory, shared by all products of the context.
static dnnl_status_t scratch_reserve(cpu_products *p, size_t bytes)
{
    if (bytes <= p->scratch_bytes) return dnnl_success;
    void *at = cpu_pages_map(bytes);
    if (!at) return dnnl_out_of_memory;
    cpu_pages_unmap(p->scratch, p->scratch_bytes);
    p->scratch = at;
    p->scratch_bytes = bytes;
    return dnnl_success;
}

static dnnl_status_t product_make(cpu_products *p, const shape *s, bf16_product *out)
{
    dnnl_memory_desc_t a, b, c, bias;
    dnnl_matmul_desc_t matmul;
    dnnl_primitive_attr_t attr = NULL;
    dnnl_primitive_desc_t desc = NULL;
    dnnl_status_t code;
    DNN(matrix(&a, s->m, s->k, s->lda, s->trans_a, dnnl_bf16));
    DNN(matrix(&b, s->k, s->n, s->ldb, s->trans_b, dnnl_bf16));
    DNN(matrix(&c, s->m, s->n, s->ldc, false, s->c_f32 ? dnnl_f32 : dnnl_bf16));
    DNN(matrix(&bias, 1, s->n, s->n, false, dnnl_bf16));
    DNN(attributes(s->accumulate, &attr));
    DNN(dnnl_matmul_desc_init(&matmul, &a, &b, s->bias ? &bias : NULL, &c));
    DNN(dnnl_primitive_desc_create(&desc, &matmul, attr, p->engine, NULL));
    DNN(dnnl_primitive_create(&out->primitive, desc));
    DNN(dnnl_memory_create(&out->a, &a, p->engine, DNNL_MEMORY_NONE));
    DNN(dnnl_memory_create(&out->b, &b, p->engine, DNNL_MEMORY_NONE));
    DNN(dnnl_memory_create(&out->c, &c, p->engine, DNNL_MEMORY_NONE));
    DNN(dnnl_memory_create(&out->bias, &bias, p->engine, DNNL_MEMORY_NONE));
    const dnnl_memory_desc_t *scratch =
        dnnl_primitive_desc_query_md(desc, dnnl_query_scratchpad_md, 0);
    DNN(scratch_reserve(p, dnnl_memory_desc_get_size(scratch)));
    DNN(dnnl_memory_create(&out->scratch, scratch, p->engine, DNNL_MEMORY_NONE));
    out->of = *s;
done:
    if (desc) dnnl_primitive_desc_destroy(desc);
    if (attr) dnnl_primitive_attr_destroy(attr);
    return code;
}

static dnnl_status_t product_get(cpu_products *p, const shape *s, bf16_product **out)
{
    if (2 * (p->used + 1) > p->slots && !cache_grow(p)) return dnnl_out_of_memory;
    bf16_product **slot = cache_find(p->cache, p->slots, s);
    if (!*slot) {
        bf16_product *made = calloc(1, sizeof *made);
        if (!made) return dnnl_out_of_memory;
        dnnl_status_t code = product_make(p, s, made);
        if (code != dnnl_success) {
            product_free(made);
            return code;
        }
        *slot = made;
        p->used++;
    }
    *out = *slot;
    return dnnl_success;
}

static dnnl_status_t product_run(cpu_products *p, const bf16_product *b, const matmul_args *args)
{
    dnnl_status_t code;
    DNN(dnnl_memory_set_data_handle(b->a, (void *)args->a));
    DNN(dnnl_memory_set_data_handle(b->b, (void *)args->b));
    DNN(dnnl_memory_set_data_handle(b->c, args->c));
    DNN(dnnl_memory_set_data_handle(b->bias, (void *)args->bias));
    DNN(dnnl_memory_set_data_handle(b->scratch, p->scratch));
    dnnl_exec_arg_t with[] = {{DNNL_ARG_SRC, b->a},
                              {DNNL_ARG_WEIGHTS, b->b},
                              {DNNL_ARG_DST, b->c},
                              {DNNL_ARG_SCRATCHPAD, b->scratch},
                              {DNNL_ARG_BIAS, b->bias}};
    DNN(dnnl_primitive_execute(b->primitive, p->stream, args->bias ? 5 : 4, with));
    DNN(dnnl_stream_wait(p->stream));
done:
    return code;
}

void cpu_product_bf16(const cpu_context *x, const matmul_args *args)
{
    cpu_products *p = x->products;
    shape s = {args->m,
               args->n,
               args->k,
               args->lda,
               args->ldb,
               args->ldc,
               args->trans_a,
               args->trans_b,
               args->accumulate,
               args->bias != NULL,
               args->c_type == F32,
               0};
    omp_set_num_threads(x->threads); // taken by the primitive when it is made, and when it runs
    bf16_product *b = NULL;
    dnnl_status_t code = product_get(p, &s, &b);
    if (code == dnnl_success) code = product_run(p, b, args);
    if (code != dnnl_success) cpu_products_fail(p, code, args);
}
