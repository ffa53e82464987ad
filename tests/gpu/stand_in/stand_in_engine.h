// stand_in_engine.h -- the fibers of the block that a thread of the host runs now; the inside of
// stand_in_block.h, for its files only.
#ifndef TRIREME_TESTS_STAND_IN_ENGINE_H
#define TRIREME_TESTS_STAND_IN_ENGINE_H

#include "stand_in_block.h"
#include "stand_in_fiber.h"

#include <signal.h>

#include <vector>

enum fiber_state { FIBER_READY, FIBER_AT_BARRIER, FIBER_IN_WARP, FIBER_PAUSED, FIBER_DONE };

struct pending_copy {
    void *to;
    const void *from;
    bool valid;
};

// A thread of the block.
struct fiber {
    fiber_context context;
    fiber_stack stack; // memory NULL: it has not started, or has ended
    dim3 thread;
    fiber_state state;
    // What it waits for, and for which lanes of its warp.
    stand_in_site site;
    unsigned mask;
    void *operand;
    std::vector<pending_copy> copies; // that no wait has covered
    std::vector<size_t> groups;       // ends of committed groups among them
};

// Which fiber runs next.
enum fiber_order { ORDER_DEPTH, ORDER_BREADTH, ORDER_RANDOM };

struct engine {
    const stand_in_grid *launch;
    void (*thread)(const void *call);
    const void *call;
    fiber_context scheduler;
    fiber_context *left;       // what the running fiber was entered from
    std::vector<fiber> fibers; // of the block, by their number in it
    std::vector<int> starts;   // the order in which they start, and go on after a barrier
    std::vector<int> ready;    // from ready_head on
    size_t ready_head;
    std::vector<int> warp_waiting; // for each warp, its lanes in FIBER_IN_WARP
    int running;                   // number of the running fiber, -1: none
    int at_barrier, paused, done;
    fiber_order order;
    bool descending, late_copies;
    uint64_t random;
    unsigned char *shared; // of the block
    unsigned char *shared_end;
    std::vector<fiber_stack> stacks; // free ones
    size_t stacks_opened;
    engine *outer; // of the kernel that this one runs within, while that waits
};

// The engine of the calling thread; NULL: it runs no kernel.
extern thread_local engine *engine_now;

// The fiber waits: everything else may run before the return. The caller has set its state.
void engine_wait(engine *x);
void engine_make_ready(engine *x, int fiber);
// For a thread's number: its warp's first thread.
static inline int engine_warp_start(int fiber)
{
    return fiber & ~(STAND_IN_LANES - 1);
}
// Explains, and ends the process: no fiber can go on.
[[noreturn]] void engine_stuck(engine *x);

// Shared memory of STAND_IN_SHARED_BYTES that ends at a page that traps; `end` is that page's address.
unsigned char *engine_shared_open();
void engine_shared_close(unsigned char *end);
size_t engine_shared_guard(); // bytes from there on that trap
// Fills the block's shared memory with numbers without a meaning.
void engine_shared_poison(engine *x);
// Checks after a block that nothing around its shared memory was written.
void engine_shared_check(engine *x);

// While a kernel runs, faults of the calling thread are named.
struct fault_watch {
    fault_watch();
    ~fault_watch();
    struct sigaction before[5];
};

#endif
