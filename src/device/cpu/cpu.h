// cpu.h -- what the files of the cpu back end share: the context that a kernel runs in, the table
// of kernels, and how the table is filled. Nobody outside device/cpu and tests/ includes it.
//
// A kernel is a function of a context and of its own args struct (a member of kernel_call.u). The
// table starts as the complete plain-C reference (ref_*.c); files vec_*.c, compiled once per level
// of instructions, override the slots that they have a faster form of; the products go to oneDNN
// (cpu_matmul.c). A kernel allocates nothing, keeps no state, and its results do not depend on
// `threads`.
#ifndef TRIREME_DEVICE_CPU_CPU_H
#define TRIREME_DEVICE_CPU_CPU_H

#include "base/err.h"
#include "device/device.h"
#include "device/kernels.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Levels of CPU instructions; each has those below it. AVX2 implies FMA and F16C; AVX512 is F, BW,
// DQ and VL; AMX is tiles with bf16 (and AVX512_BF16).
typedef enum cpu_level { CPU_GENERIC, CPU_AVX2, CPU_AVX512, CPU_AMX, CPU_LEVELS } cpu_level;

enum {
    CPU_SCRATCH_BYTES = 4 << 20, // of each thread; a page costs memory only once it is grad_written
    CPU_SHARED_BYTES = 4 << 20,  // of the whole team
};

struct cpu_products;
struct cpu_team;

// Where kernels run: one per issuing thread (a rank, or a stream of the late device).
typedef struct cpu_context {
    int threads;            // of the team
    struct cpu_team *team;  // cpu_team.h
    cpu_level level;        // of the table in use
    unsigned char *scratch; // threads x CPU_SCRATCH_BYTES, aligned to 4096, contents undefined
    unsigned char *shared;  // CPU_SHARED_BYTES, e.g. for partial sums of fixed blocks; likewise
    struct cpu_products *products; // state of cpu_matmul.c
} cpu_context;

// The scratch memory of one thread of the team.
static inline void *cpu_scratch(const cpu_context *x, int thread)
{
    return x->scratch + (size_t)thread * CPU_SCRATCH_BYTES;
}

// `args` points at the kernel's args struct. Pointers in it are as aligned as their elements only;
// counts may be 0.
typedef void (*cpu_kernel)(const cpu_context *x, const void *args);

typedef struct cpu_kernels {
    cpu_kernel run[KERNELS];
} cpu_kernels;

// Fills every slot with the plain-C reference.
void ref_kernels_fill(cpu_kernels *k);

// Override the slots that have a faster form at this level. Defined by vec_*.c, which are compiled
// with -DCPU_LEVEL=avx2|avx512 and -DVEC_BYTES=32|64.
void vec_kernels_fill_avx2(cpu_kernels *k);
void vec_kernels_fill_avx512(cpu_kernels *k);

// The table of a level: reference, overrides of the levels up to it, products.
void cpu_kernels_fill(cpu_kernels *k, cpu_level level);

// What the processor and the operating system offer.
typedef struct cpu_features {
    cpu_level best;
    bool avx512_bf16;   // the instructions exist
    bool fast_bf16_dot; // and beat fp32 multiply-add: a fixed rule from the vendor, never a timing
} cpu_features;

void cpu_features_read(cpu_features *out);
const char *cpu_level_name(cpu_level level); // "generic", …

// The level named by `isa` (NULL or "auto": by TRIREME_CPU, else the best of this machine). E_USAGE
// for an unknown word or a level that the machine lacks.
status cpu_level_choose(const char *isa, cpu_level *out, err *e);

// Opens a context for the calling thread. threads 0 = all cores that this process may use. E_USAGE
// as cpu_level_choose, E_FIT. oneDNN is told the level of the first context of the process; its
// products stay at that level for contexts opened later.
// Bytes of scratch memory that a context with so many threads has, its team's part included.
size_t cpu_scratch_bytes(int threads);
status cpu_context_open(const device_options *options, cpu_context *out, err *e);
void cpu_context_close(cpu_context *x); // a zeroed context is fine
// The first failure of a kernel since the last call (a product that oneDNN refused), and clears it.
status cpu_context_failure(const cpu_context *x, err *e);

// The device of device_open("cpu"); errors as cpu_context_open.
status cpu_device_open(const device_options *options, device **out, err *e);

// C = op(A) op(B) through oneDNN: the K_MATMUL of every level.
void cpu_matmul(const cpu_context *x, const void *args);

#endif
