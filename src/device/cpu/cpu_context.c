// cpu_context.c -- opens the context in which kernels run: its level, threads, and scratch memory.
// Called by the cpu device, and by the late device of the tests. It knows no stream.
#define _GNU_SOURCE // MAP_ANONYMOUS
#include "base/proc.h"
#include "device/cpu/cpu.h"
#include "device/cpu/cpu_team.h"

#include <sys/mman.h>

static void *pages_map(size_t bytes)
{
    void *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) return NULL;
    madvise(pages, bytes, MADV_HUGEPAGE); // advice: a refusal costs only speed
    return pages;
}

static void pages_unmap(void *pages, size_t bytes)
{
    if (pages) munmap(pages, bytes);
}

static bool use_bf16_instructions(cpu_level level)
{
    cpu_features features;
    cpu_features_read(&features);
    return level == CPU_AMX || (level == CPU_AVX512 && features.fast_bf16_dot);
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
    out->threads = threads ? threads : proc_usable_cores();
    out->scratch = pages_map(cpu_scratch_bytes(out->threads));
    if (!out->scratch) FAIL(E_FIT, "out of memory for the scratch of %d threads", out->threads);
    out->shared = out->scratch + (size_t)out->threads * CPU_SCRATCH_BYTES;
    out->bf16_instructions = use_bf16_instructions(out->level);
    TRY(cpu_team_open(out->threads, &out->team, e));
done:
    if (result != OK) cpu_context_close(out);
    return result;
}

void cpu_context_close(cpu_context *x)
{
    cpu_team_close(x->team);
    if (x->scratch) pages_unmap(x->scratch, cpu_scratch_bytes(x->threads));
    *x = (cpu_context){0};
}

status cpu_context_failure(cpu_context *x, err *e)
{
    const status result = x->failure.code;
    if (result != OK && e) *e = x->failure;
    x->failure.code = OK;
    return result;
}
