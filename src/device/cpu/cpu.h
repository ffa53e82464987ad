// cpu.h -- shared by the files of the cpu device: the context in which a kernel runs, the table of
// kernels, and how the table is filled. Only registry.c, device/cpu/ and tests/ include it.
//
// A kernel is a function of a context and of its own args struct (a member of kernel_call.u). It
// allocates nothing, keeps no state, and its results do not depend on the number of threads. The
// specification is device/kernels.h. The table is filled in layers:
//   ref_*.c        the complete reference in plain C, for every level
//   vec_*.c        override the kernels that have a vector form; compiled once per level
//   cpu_matmul.c   is K_MATMUL of every level, and chooses how a product is computed
#ifndef TRIREME_DEVICE_CPU_CPU_H
#define TRIREME_DEVICE_CPU_CPU_H

#include "base/err.h"
#include "device/device.h"
#include "device/kernel_needs.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Levels of CPU instructions. Each level includes those before it.
//   AVX2     also FMA and F16C
//   AVX512   F, BW, DQ and VL
//   AMX      tiles with bf16, and AVX512_BF16
typedef enum cpu_level { CPU_GENERIC, CPU_AVX2, CPU_AVX512, CPU_AMX, CPU_LEVELS } cpu_level;

enum {
    CPU_SCRATCH_BYTES = 4 << 20, // of each thread; a page costs memory only when it is written
    CPU_SHARED_BYTES = 4 << 20,  // of the team
    CPU_DELTA_SLOTS =
        32, // pairs of a sequence and a key head whose states a workspace holds, at most
};

struct cpu_team;

// The context in which kernels run. Each thread that issues work has one: a rank, or a stream of
// the late device.
typedef struct cpu_context {
    int threads;            // of the team
    struct cpu_team *team;  // cpu_team.h
    cpu_level level;        // of the table in use
    unsigned char *scratch; // [threads][CPU_SCRATCH_BYTES], aligned to 4096, contents undefined
    unsigned char *shared;  // [CPU_SHARED_BYTES], for example partial sums of fixed blocks
    void *workspace;        // of the call that runs
    bool bf16_instructions; // use them for bf16 products
    err failure;            // the first since cpu_context_failure; code OK when none
} cpu_context;

// The scratch memory of one thread of the team.
static inline void *cpu_scratch(const cpu_context *x, int thread)
{
    return x->scratch + (size_t)thread * CPU_SCRATCH_BYTES;
}

// `args` points to the kernel's args struct. Pointers in it are aligned to their elements, not
// more. Counts may be 0.
typedef void (*cpu_kernel)(const cpu_context *x, const void *args);

typedef struct cpu_kernels {
    cpu_kernel run[KERNELS];
} cpu_kernels;

// Fills every entry with the reference in plain C.
void ref_kernels_fill(cpu_kernels *k);

// Override the entries that have a vector form at this level. Files vec_*.c define them; they are
// compiled with -DCPU_LEVEL=avx2|avx512 and -DVEC_BYTES=32|64.
void vec_kernels_fill_avx2(cpu_kernels *k);
void vec_kernels_fill_avx512(cpu_kernels *k);

// Fills the table of a level: the reference, the overrides of the levels up to it, and the
// products.
void cpu_kernels_fill(cpu_kernels *k, cpu_level level);

// Returns the needs of a level's kernels, for plans. Static.
const kernel_needs *cpu_kernel_needs(cpu_level level);

// Runs a call with its workspace. A workspace that is too small becomes a failure of the context.
void cpu_kernels_run(const cpu_kernels *k, cpu_context *x, const kernel_call *call);

// Returns the features of the processor that the operating system lets programs use.
typedef struct cpu_features {
    cpu_level best;
    bool avx512_bf16;   // the instructions exist
    bool fast_bf16_dot; // they beat fp32 multiply-add; a fixed rule by vendor, never a timing
} cpu_features;

void cpu_features_read(cpu_features *out);
const char *cpu_level_name(cpu_level level); // "generic", …

// Gives the level that `isa` names. With NULL or "auto" it is the level that the environment
// variable TRIREME_CPU names, or the best of this machine. E_USAGE for an unknown name, or a level
// that the machine lacks.
status cpu_level_choose(const char *isa, cpu_level *out, err *e);

// Bytes of scratch memory of a context with so many threads, the shared memory included.
size_t cpu_scratch_bytes(int threads);
// Opens a context for the calling thread. threads 0 means all cores that this process may use. The
// caller closes it. E_USAGE as cpu_level_choose; E_FIT when there is no memory.
status cpu_context_open(const device_options *options, cpu_context *out, err *e);
void cpu_context_close(cpu_context *x); // x may be zeroed
// Returns and clears the first failure of a kernel since the last call: a workspace that was too
// small.
status cpu_context_failure(cpu_context *x, err *e);

// The device "cpu" of registry.c: what device_describe says of it, without name and index, and the
// device itself. E_USAGE as cpu_level_choose, and for threads below 0; E_FIT as cpu_context_open.
status cpu_device_describe(const device_options *o, device_description *out, err *e);
status cpu_device_open(const device_options *o, device **out, err *e);

// K_MATMUL of every level.
void cpu_matmul(const cpu_context *x, const void *args);

#endif
