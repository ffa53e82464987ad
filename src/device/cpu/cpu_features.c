// cpu_features.c -- reads the instructions that the processor and the operating system offer, and
// chooses the level. Called when a cpu context is opened. It knows no kernel. Every choice is a
// fixed rule and never a timing, so two runs on one machine take the same path.
#include "device/cpu/cpu.h"

#include <cpuid.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    XSTATE_AVX = 0x6,      // the system saves SSE and AVX registers
    XSTATE_AVX512 = 0xe6,  // and AVX-512 registers
    XSTATE_AMX = 0x60000,  // the system saves tile configuration and data
    AMX_DATA_FEATURE = 18, // argument of arch_prctl
    REQUEST_PERMISSION = 0x1023,
};

// Bits of the registers that cpuid fills: leaf 1, leaf 7, and leaf 7 with subleaf 1.
enum {
    LEAF1_ECX_FMA = 12,
    LEAF1_ECX_OSXSAVE = 27,
    LEAF1_ECX_AVX = 28,
    LEAF1_ECX_F16C = 29,
    LEAF7_EBX_AVX2 = 5,
    LEAF7_EBX_AVX512F = 16,
    LEAF7_EBX_AVX512DQ = 17,
    LEAF7_EBX_AVX512BW = 30,
    LEAF7_EBX_AVX512VL = 31,
    LEAF7_EDX_AMX_BF16 = 22,
    LEAF7_EDX_AMX_TILE = 24,
    LEAF7_1_EAX_AVX512_BF16 = 5,
};

typedef struct cpu_cpuid {
    uint32_t a, b, c, d;
} cpu_cpuid;

static cpu_cpuid cpuid(uint32_t leaf, uint32_t sub)
{
    cpu_cpuid w = {0};
    if (!__get_cpuid_count(leaf, sub, &w.a, &w.b, &w.c, &w.d)) return (cpu_cpuid){0};
    return w;
}

static bool has(uint32_t word, int bit)
{
    return word >> bit & 1;
}

// The register files that the operating system saves, as XSTATE_ bits.
static uint64_t saved_states(cpu_cpuid leaf1)
{
    if (!has(leaf1.c, LEAF1_ECX_OSXSAVE)) return 0;
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

static bool is_amd(void)
{
    cpu_cpuid w = cpuid(0, 0);
    return w.b == signature_AMD_ebx && w.c == signature_AMD_ecx && w.d == signature_AMD_edx;
}

// Linux hands the tile registers to a process only on request.
static bool amx_permitted(void)
{
    return syscall(SYS_arch_prctl, REQUEST_PERMISSION, AMX_DATA_FEATURE) == 0;
}

void cpu_features_read(cpu_features *out)
{
    *out = (cpu_features){.best = CPU_GENERIC};
    cpu_cpuid leaf1 = cpuid(1, 0), leaf7 = cpuid(7, 0), leaf7_1 = cpuid(7, 1);
    uint64_t saved = saved_states(leaf1);
    bool avx2 = (saved & XSTATE_AVX) == XSTATE_AVX && has(leaf1.c, LEAF1_ECX_AVX) &&
                has(leaf1.c, LEAF1_ECX_FMA) && has(leaf1.c, LEAF1_ECX_F16C) &&
                has(leaf7.b, LEAF7_EBX_AVX2);
    if (!avx2) return;
    out->best = CPU_AVX2;
    bool avx512 = (saved & XSTATE_AVX512) == XSTATE_AVX512 && has(leaf7.b, LEAF7_EBX_AVX512F) &&
                  has(leaf7.b, LEAF7_EBX_AVX512DQ) && has(leaf7.b, LEAF7_EBX_AVX512BW) &&
                  has(leaf7.b, LEAF7_EBX_AVX512VL);
    if (!avx512) return;
    out->best = CPU_AVX512;
    out->avx512_bf16 = has(leaf7_1.a, LEAF7_1_EAX_AVX512_BF16);
    // Zen 4 and later run the bf16 dot product at twice the rate of fp32 multiply-add; Intel's
    // cores run it at half that rate and have AMX for the purpose.
    out->fast_bf16_dot = out->avx512_bf16 && is_amd();
    bool amx = (saved & XSTATE_AMX) == XSTATE_AMX && has(leaf7.d, LEAF7_EDX_AMX_TILE) &&
               has(leaf7.d, LEAF7_EDX_AMX_BF16);
    if (amx && out->avx512_bf16 && amx_permitted()) out->best = CPU_AMX;
}

static const char *const level_names[CPU_LEVELS] = {"generic", "avx2", "avx512", "amx"};

const char *cpu_level_name(cpu_level level)
{
    return level_names[level];
}

status cpu_level_choose(const char *isa, cpu_level *out, err *e)
{
    status result = OK;
    const char *source = "isa"; // names the setting in messages
    if (!isa || strcmp(isa, "auto") == 0) {
        isa = getenv("TRIREME_CPU");
        source = "TRIREME_CPU";
    }
    cpu_features features;
    cpu_features_read(&features);
    *out = features.best;
    if (!isa || !*isa || strcmp(isa, "auto") == 0) goto done;
    int level = 0;
    while (level < CPU_LEVELS && strcmp(isa, level_names[level]) != 0) level++;
    if (level == CPU_LEVELS)
        FAIL(E_USAGE, "%s=%s: valid are auto, generic, avx2, avx512 and amx", source, isa);
    if (level > (int)features.best)
        FAIL(E_USAGE, "%s=%s: this machine has no more than %s", source, isa,
             cpu_level_name(features.best));
    *out = (cpu_level)level;
done:
    return result;
}
