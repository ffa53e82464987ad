// stand_in_block.h -- runs the blocks of a kernel, one after another, and the threads of a block as fibers
// of one thread of the host. gpu_stand_in.h calls it with the words of kernels; the runtime (runtime.h)
// calls it through a piece of work. Several threads of the host may each have a kernel. It does not know streams,
// and nothing of what a kernel computes.
//
// A fiber runs until it waits: at a barrier, for the other lanes of its warp, or for a flag. Which fiber
// runs next, and which block, is drawn from a seed. A fiber for which nothing can arrive
// any more has broken a rule.
#ifndef TRIREME_TESTS_STAND_IN_BLOCK_H
#define TRIREME_TESTS_STAND_IN_BLOCK_H

#include "runtime.h"

#include <stddef.h>
#include <stdint.h>

// The running thread of a kernel.
typedef struct stand_in_place {
    dim3 thread, block, block_dim, grid_dim;
} stand_in_place;

extern thread_local stand_in_place stand_in_now;

typedef struct stand_in_grid {
    const char *what;
    dim3 grid, block;
    size_t shared_bytes;
} stand_in_grid;

// A call of a word, for messages; threads that meet must have called the same.
typedef struct stand_in_site {
    const char *word, *file;
    int line;
} stand_in_site;

typedef enum stand_in_kind {
    STAND_IN_SYNC,
    STAND_IN_BALLOT,
    STAND_IN_LANE,
    STAND_IN_XOR,
    STAND_IN_DOWN,
} stand_in_kind;

enum { STAND_IN_SHARED_BYTES = 227 * 1024, STAND_IN_LANES = 32 };

// The seed of the order of blocks and threads: 0 runs them in ascending order, 1 in descending order,
// every other one in an order drawn from the seed, which differs from launch to launch. It starts as
// stand_in_seed() (runtime.h). Under an odd seed shared memory starts as large numbers, else as NaN.
void stand_in_set_order(uint64_t seed);
uint64_t stand_in_order();

// Ends the process: "cuda stand-in: kernel norm, block (1,0,0), thread (3,0,0): RULE".
void stand_in_broken(const char *rule, ...) __attribute__((format(printf, 1, 2), noreturn));

// Runs thread(call) for every thread of every block.
void stand_in_run_grid(const stand_in_grid *launch, void (*thread)(const void *call),
                       const void *call);

// ---- Of the running fiber

// The block's shared memory, which must have `bytes` bytes.
void *stand_in_shared(size_t bytes);
// Returns when every thread of the block has called it.
void stand_in_barrier(stand_in_site site);
// Lets every other fiber run before it returns, and then other work.
void stand_in_yield();

// Returns when every lane of the mask has called it: a vote, or what lane `lane`, lane ^ `lane` or lane +
// `lane` of the group of `width` lanes passed as value.
uint64_t stand_in_shuffle(stand_in_kind kind, unsigned mask, uint64_t value, int lane, int width,
                          stand_in_site site);
// gpu_mma_* and gpu_ldmatrix* of gpu_cuda.h, for which a whole warp meets. to_float reads an element.
void stand_in_mma(float d[4], const uint32_t a[4], const uint32_t b[2], float (*to_float)(uint16_t),
                  stand_in_site site);
void stand_in_ldmatrix(uint32_t out[4], const void *row, bool transposed, stand_in_site site);

// gpu_copy16, _commit and _wait of gpu_cuda.h. Under an even seed a copy happens in the wait for it, as
// late as is legal, and its target has no meaning until then. Under an odd seed it happens at once.
void stand_in_copy16(void *to, const void *from, bool valid);
void stand_in_copy_commit();
void stand_in_copy_wait(int groups);

#endif
