// stand_in_block.cpp -- runs a grid: the order of blocks, the order of fibers, barriers, and what happens
// when no fiber can go on.
#include "stand_in_engine.h"

#include <atomic>
#include <memory>
#include <numeric>
#include <utility>

thread_local stand_in_place stand_in_now;
thread_local engine *engine_now;

// ---- Engines: a thread keeps those that it has used

struct engine_list {
    std::vector<std::unique_ptr<engine>> free;
    ~engine_list()
    {
        for (auto &x : free) {
            for (fiber_stack &s : x->stacks) fiber_stack_close(&s);
            engine_shared_close(x->shared_end);
        }
    }
};
static thread_local engine_list engines;

static std::unique_ptr<engine> take_engine()
{
    if (engines.free.empty()) {
        auto x = std::make_unique<engine>();
        x->shared_end = engine_shared_open();
        return x;
    }
    auto x = std::move(engines.free.back());
    engines.free.pop_back();
    return x;
}

// ---- Orders

static uint64_t next_random(engine *x)
{
    x->random += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t z = x->random;
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static int below(engine *x, size_t n)
{
    return (int)(next_random(x) % n);
}

// The orders of one launch. Every launch has its own.
static void choose_orders(engine *x)
{
    static std::atomic<uint64_t> launches;
    const uint64_t seed = stand_in_order(), launch = launches.fetch_add(1);
    x->random = seed * UINT64_C(0xd1342543de82ef95) + launch;
    x->order = seed == 0   ? ORDER_DEPTH
               : seed == 1 ? ORDER_BREADTH
                           : (fiber_order)below(x, ORDER_RANDOM + 1);
    x->descending = seed == 1;
    x->late_copies = seed % 2 == 0;
}

static void choose_starts(engine *x)
{
    const size_t n = x->starts.size();
    if (stand_in_order() < 2) return;
    for (size_t i = n; i > 1; i--) std::swap(x->starts[i - 1], x->starts[(size_t)below(x, i)]);
}

static int next_ready(engine *x)
{
    if (x->ready_head > x->fibers.size()) { // more are gone than can be left
        x->ready.erase(x->ready.begin(), x->ready.begin() + (long)x->ready_head);
        x->ready_head = 0;
    }
    if (x->order == ORDER_BREADTH) return x->ready[x->ready_head++];
    if (x->order == ORDER_RANDOM) {
        const size_t left = x->ready.size() - x->ready_head;
        std::swap(x->ready[x->ready_head + (size_t)below(x, left)], x->ready.back());
    }
    const int fiber = x->ready.back();
    x->ready.pop_back();
    return fiber;
}

void engine_make_ready(engine *x, int fiber)
{
    x->fibers[(size_t)fiber].state = FIBER_READY;
    x->ready.push_back(fiber);
}

// Makes all fibers of a state ready. Under ORDER_DEPTH the last one runs first.
static void make_all_ready(engine *x, fiber_state state)
{
    const size_t n = x->starts.size();
    for (size_t i = 0; i < n; i++) {
        const int fiber = x->starts[x->order == ORDER_DEPTH ? n - 1 - i : i];
        if (x->fibers[(size_t)fiber].state == state) engine_make_ready(x, fiber);
    }
}

// ---- Fibers

static void fiber_main()
{
    engine *x = engine_now;
    fiber_entered(x->left);
    x->thread(x->call);
    fiber *f = &x->fibers[(size_t)x->running];
    f->state = FIBER_DONE;
    fiber_switch(&f->context, &x->scheduler, true);
    __builtin_unreachable();
}

// Goes from the running context to a fiber, which may start here.
static void enter(engine *x, fiber_context *from, int number)
{
    fiber *f = &x->fibers[(size_t)number];
    if (!f->stack.memory) {
        if (x->stacks.empty()) x->stacks.push_back(fiber_stack_open(x->stacks_opened++));
        f->stack = x->stacks.back();
        x->stacks.pop_back();
        fiber_prepare(&f->context, &f->stack, fiber_main);
    }
    x->running = number;
    x->left = from;
    stand_in_now.thread = f->thread;
    fiber_switch(from, &f->context, false);
}

// Runs fibers until one is done, or none is ready.
static void resume(engine *x)
{
    enter(x, &x->scheduler, next_ready(x));
    fiber *f = &x->fibers[(size_t)x->running];
    x->running = -1;
    if (f->state == FIBER_DONE) {
        x->stacks.push_back(f->stack);
        f->stack.memory = nullptr;
        x->done++;
    }
}

// The next fiber is entered from this one, which costs half of the way over the scheduler.
void engine_wait(engine *x)
{
    const int self = x->running;
    fiber_context *from = &x->fibers[(size_t)self].context;
    if (x->ready_head == x->ready.size()) {
        fiber_switch(from, &x->scheduler, false);
        return;
    }
    const int next = next_ready(x);
    if (next != self) enter(x, from, next);
}

void stand_in_yield()
{
    engine *x = engine_now;
    x->fibers[(size_t)x->running].state = FIBER_PAUSED;
    x->paused++;
    engine_wait(x);
}

static void check_same_barrier(const engine *x)
{
    const stand_in_site *first = &x->fibers[0].site;
    for (const fiber &f : x->fibers)
        if (f.site.line != first->line || f.site.file != first->file)
            stand_in_broken("threads of the block wait at different barriers: %s:%d and %s:%d",
                            first->file, first->line, f.site.file, f.site.line);
}

void stand_in_barrier(stand_in_site site)
{
    engine *x = engine_now;
    fiber *f = &x->fibers[(size_t)x->running];
    f->site = site;
    f->state = FIBER_AT_BARRIER;
    if (++x->at_barrier == (int)x->fibers.size()) {
        check_same_barrier(x);
        x->at_barrier = 0;
        make_all_ready(x, FIBER_AT_BARRIER);
    }
    engine_wait(x);
}

// ---- Blocks

// What all blocks of a launch have.
static void start_launch(engine *x)
{
    const dim3 b = x->launch->block;
    const size_t n = (size_t)b.x * b.y * b.z;
    x->fibers.resize(n);
    x->starts.resize(n);
    for (size_t i = 0; i < n; i++) {
        const unsigned k = (unsigned)i;
        x->fibers[i].thread = dim3(k % b.x, k / b.x % b.y, k / b.x / b.y);
        x->starts[i] = (int)(x->descending ? n - 1 - i : i);
    }
}

static void start_block(engine *x, dim3 block)
{
    x->warp_waiting.assign(x->fibers.size() / STAND_IN_LANES, 0);
    x->ready.clear();
    x->ready_head = 0;
    x->at_barrier = x->paused = x->done = 0;
    x->running = -1;
    for (fiber &f : x->fibers) {
        f.state = FIBER_READY;
        f.copies.clear();
        f.groups.clear();
    }
    choose_starts(x);
    make_all_ready(x, FIBER_READY);
    engine_shared_poison(x);
    stand_in_now = {dim3(0, 0, 0), block, x->launch->block, x->launch->grid};
}

static void run_block(engine *x, dim3 block)
{
    start_block(x, block);
    while (x->done < (int)x->fibers.size()) {
        if (x->ready_head < x->ready.size()) {
            resume(x);
        } else if (x->paused > 0) {
            x->paused = 0;
            x->ready.clear();
            x->ready_head = 0;
            stand_in_pause();
            make_all_ready(x, FIBER_PAUSED);
        } else {
            engine_stuck(x);
        }
    }
    engine_shared_check(x);
}

// Runs the blocks in an order that visits each once: `step` and their number have no common factor.
static void run_blocks(engine *x, dim3 grid)
{
    const uint64_t n = (uint64_t)grid.x * grid.y * grid.z;
    uint64_t at = x->descending ? n - 1 : 0, step = x->descending ? n - 1 : 1;
    if (stand_in_order() > 1) {
        at = next_random(x) % n;
        do step = next_random(x) % n + 1;
        while (std::gcd(step, n) != 1);
    }
    for (uint64_t i = 0; i < n; i++, at = (at + step) % n)
        run_block(x, dim3((unsigned)(at % grid.x), (unsigned)(at / grid.x % grid.y),
                          (unsigned)(at / grid.x / grid.y)));
}

void stand_in_run_grid(const stand_in_grid *launch, void (*thread)(const void *call),
                       const void *call)
{
    std::unique_ptr<engine> x = take_engine();
    const stand_in_place outer = stand_in_now;
    const fault_watch watch;
    x->launch = launch;
    x->thread = thread;
    x->call = call;
    x->outer = engine_now;
    x->shared = x->shared_end - (launch->shared_bytes + 127) / 128 * 128;
    choose_orders(x.get());
    start_launch(x.get());
    engine_now = x.get();
    run_blocks(x.get(), launch->grid);
    engine_now = x->outer;
    stand_in_now = outer;
    engines.free.push_back(std::move(x));
}
