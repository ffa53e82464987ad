// cpu_context.c -- opens the context in which kernels run: its level, threads, scratch memory, and
// oneDNN. Called by the cpu device, and by the late device of the tests. It knows no stream.
#define _GNU_SOURCE // MAP_ANONYMOUS
#include "device/cpu/cpu_products.h"
#include "device/cpu/cpu_team.h"

#include <dnnl.h>
#include <stdlib.h>
#include <sys/mman.h>

void *cpu_pages_map(size_t bytes)
{
    void *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) return NULL;
    madvise(pages, bytes, MADV_HUGEPAGE); // advice: a refusal costs only speed
    return pages;
}

void cpu_pages_unmap(void *pages, size_t bytes)
{
    if (pages) munmap(pages, bytes);
}

static size_t panel_bytes(void)
{
    return sizeof(float) * ((size_t)WIDEN_ROWS * WIDEN_DEPTH + (size_t)WIDEN_COLS * WIDEN_DEPTH +
                            (size_t)WIDEN_ROWS * WIDEN_COLS);
}

// oneDNN chooses its instructions once per process, so the first context sets them.
static void limit_onednn(cpu_level level)
{
    static const dnnl_cpu_isa_t isa[CPU_LEVELS] = {dnnl_cpu_isa_sse41, dnnl_cpu_isa_avx2,
                                                   dnnl_cpu_isa_avx512_core_bf16, dnnl_cpu_isa_all};
    dnnl_set_max_cpu_isa(isa[level]);
}

static bool use_bf16_instructions(cpu_level level)
{
    cpu_features features;
    cpu_features_read(&features);
    return level == CPU_AMX || (level == CPU_AVX512 && features.fast_bf16_dot);
}

status cpu_products_open(cpu_level level, cpu_products **out, err *e)
{
    status result = OK;
    cpu_products *p = calloc(1, sizeof *p);
    if (!p) FAIL(E_FIT, "out of memory for a cpu device");
    limit_onednn(level);
    p->bf16_instructions = use_bf16_instructions(level);
    p->a = cpu_pages_map(panel_bytes());
    if (!p->a) FAIL(E_FIT, "out of memory for the panels of a cpu device");
    p->b = p->a + (size_t)WIDEN_ROWS * WIDEN_DEPTH;
    p->c = p->b + (size_t)WIDEN_COLS * WIDEN_DEPTH;
done:
    if (result != OK) {
        cpu_products_close(p);
        p = NULL;
    }
    *out = p;
    return result;
}

void cpu_products_close(cpu_products *p)
{
    if (!p) return;
    cpu_pages_unmap(p->a, panel_bytes());
    free(p);
}

size_t cpu_scratch_bytes(int threads)
{
    return (size_t)threads * CPU_SCRATCH_BYTES + CPU_SHARED_BYTES;
}

status cpu_context_open(const device_options *options, cpu_context *out, err *e)
{
    status result = OK;
    *out = (cpu_context){0};
    int threads = options ? options->threads : 0;
    TRY(cpu_level_choose(options ? options->isa : NULL, &out->level, e));
    out->threads = threads ? threads : cpu_team_cores();
    out->scratch = cpu_pages_map(cpu_scratch_bytes(out->threads));
    if (!out->scratch) FAIL(E_FIT, "out of memory for the scratch of %d threads", out->threads);
    out->shared = out->scratch + (size_t)out->threads * CPU_SCRATCH_BYTES;
    TRY(cpu_products_open(out->level, &out->products, e));
    TRY(cpu_team_open(out->threads, &out->team, e));
done:
    if (result != OK) cpu_context_close(out);
    return result;
}

void cpu_context_close(cpu_context *x)
{
    cpu_team_close(x->team);
    cpu_products_close(x->products);
    if (x->scratch) cpu_pages_unmap(x->scratch, cpu_scratch_bytes(x->threads));
    *x = (cpu_context){0};
}

status cpu_context_failure(const cpu_context *x, err *e)
{
    err *kept = &x->products->failure;
    status result = kept->code;
    if (result != OK && e) *e = *kept;
    kept->code = OK;
    return result;
}
