// cpu_kernels.c -- fills the kernel table of a CPU level: first the reference, then the overrides. Runs a
// call of the table, and says what workspace calls need. Called when a device is opened, and for every
// launch.
#include "device/cpu/cpu_products.h"

#include "base/size.h"

void cpu_kernels_fill(cpu_kernels *k, cpu_level level)
{
    ref_kernels_fill(k);
    if (level >= CPU_AVX2) vec_kernels_fill_avx2(k);
    if (level >= CPU_AVX512) vec_kernels_fill_avx512(k);
    k->run[K_MATMUL] = cpu_matmul;
}

// The states before all chunks and one gradient of a state, of the value heads of some key heads.
static size_t delta_bytes(const kernel_delta_rule_args *p)
{
    enum { VECTOR = 16 }; // floats of the longest one
    const int64_t chunks = size_ceil_div(p->rows.full_seq, KERNEL_DELTA_CHUNK),
                  slots = size_min(p->batch * p->key_heads, CPU_DELTA_SLOTS) *
                          (p->heads / p->key_heads),
                  row = size_ceil_div(p->value_dim, VECTOR) * VECTOR;
    return sizeof(float) * (size_t)(slots * (chunks + 1) * p->key_dim * row);
}

// Vector forms need room for states, and for two lists of numbers of the rows, which are sorted by their ids.
static size_t vec_workspace_bytes(const kernel_call *c)
{
    if (c->kind == K_DELTA_RULE_GRAD) return delta_bytes(&c->u.delta_rule_grad.fwd);
    if (c->kind != K_EMBEDDING_GRAD || !c->u.embedding_grad.d_tokens) return 0;
    return 2 * sizeof(int32_t) * (size_t)c->u.embedding_grad.rows;
}

const kernel_needs *cpu_kernel_needs(cpu_level level)
{
    static const kernel_needs reference = {.workspace_bytes = NULL},
                              vec = {.workspace_bytes = vec_workspace_bytes};
    return level >= CPU_AVX2 ? &vec : &reference;
}

void cpu_kernels_run(const cpu_kernels *k, cpu_context *x, const kernel_call *call)
{
    const size_t need = kernel_workspace_bytes(cpu_kernel_needs(x->level), call);
    if (call->workspace_bytes < need) {
        if (x->failure.code == OK)
            err_set(&x->failure, E_INTERNAL,
                    "a launch of %s has %zu bytes of workspace; it needs %zu",
                    kernel_name(call->kind), call->workspace_bytes, need);
        return;
    }
    x->workspace = call->workspace;
    k->run[call->kind](x, &call->u);
}
