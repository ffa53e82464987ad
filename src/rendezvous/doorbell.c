// doorbell.c -- waits for a number in shared memory: it spins, then yields, then sleeps.
//
// Called by the rounds, queues and channels of the local communicator, and by the store of one
// machine. It does not know whether ranks are processes or threads: a shared futex works for both. A
// sleeper wakes every 20 ms and checks whether there is a failure or the owner has left. So no list
// of sleepers is kept.
#include "rendezvous/doorbell.h"

#include "base/clock.h"
#include "base/proc.h"

#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

// The spin takes some 20 microseconds. On a busy machine two ranks may share a core although there is one for each:
// then a waiter does not spin, because the other rank runs only when it yields. The yields of ranks that have cores
// of their own take some milliseconds, as long as the kernel may give the core of the awaited rank to another
// program. If the waiter slept then, the kernel would move the awaited rank to its core. On a machine with many more
// programs than cores each yield takes that long, so the yields end after YIELD_MS: only a rank that sleeps says for
// whom it waits.
enum { SPINS = 1000, YIELDS = 200, YIELDS_OF_OWN_CORE = 10000, YIELD_MS = 20 };

// When a sleep takes much longer than SLEEP_MS, the machine slept or this process was stopped
// (Ctrl-Z). The time of a wait counts at most COUNTED_MS of each sleep.
enum { SLEEP_MS = 20, COUNTED_MS = 100 };

static uint16_t core_of_thread(void)
{
    const int core = proc_core();
    return core >= 0 && core < DOORBELL_NO_CORE ? (uint16_t)core : DOORBELL_NO_CORE;
}

bool doorbell_shares_core(const doorbell *b)
{
    const uint16_t core = core_of_thread();
    return core != DOORBELL_NO_CORE && atomic_load_explicit(&b->core, memory_order_relaxed) == core;
}

void doorbell_ring(doorbell *b, uint32_t value)
{
    atomic_store_explicit(&b->core, core_of_thread(), memory_order_relaxed);
    // Both sides are sequentially consistent: either this rank sees the sleeper, or the sleeper
    // sees the new value.
    atomic_exchange(&b->value, value);
    if (atomic_load(&b->sleepers) != 0)
        syscall(SYS_futex, &b->value, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static bool has_failed(const doorbell_limits *l)
{
    return l->failure && comm_failure_known(l->failure);
}

// After it returns true, the owner changes the number no more.
static bool has_left(const _Atomic int *left)
{
    return left && atomic_load(left) != 0;
}

static bool doorbell_sleep(doorbell *b, uint32_t seen, const _Atomic int *left,
                           const doorbell_limits *l)
{
    const struct timespec limit = {0, SLEEP_MS * 1000000};
    const int64_t timeout_ns = atomic_load(l->timeout_ms) * 1000000;
    int64_t waited_ns = 0, last = clock_ns();
    bool changed = false;
    atomic_fetch_add(&b->sleepers, 1);
    while (!(changed = atomic_load(&b->value) != seen) && !has_failed(l)) {
        if (has_left(left)) {
            changed = atomic_load(&b->value) != seen;
            break;
        }
        if (timeout_ns > 0 && waited_ns > timeout_ns) break;
        syscall(SYS_futex, &b->value, FUTEX_WAIT, seen, &limit, NULL, 0);
        if (l->idle) l->idle(l->idle_arg);
        const int64_t now = clock_ns(), slept = now - last;
        waited_ns += slept < COUNTED_MS * 1000000 ? slept : COUNTED_MS * 1000000;
        last = now;
    }
    atomic_fetch_sub(&b->sleepers, 1);
    return changed;
}

bool doorbell_wait(doorbell *b, uint32_t seen, const _Atomic int *left, const doorbell_limits *l)
{
    if (doorbell_read(b) != seen) return true;
    const int spins = l->spin && !doorbell_shares_core(b) ? SPINS : 0;
    const int yields = l->spin ? YIELDS_OF_OWN_CORE : YIELDS;
    for (int i = 0; i < spins; i++) {
        if (doorbell_read(b) != seen) return true;
        proc_pause_core();
    }
    const int64_t until = clock_ns() + YIELD_MS * 1000000;
    for (int i = 0; i < yields && clock_ns() < until; i++) {
        if (doorbell_read(b) != seen) return true;
        if (has_left(left) || has_failed(l)) break;
        sched_yield();
    }
    return doorbell_sleep(b, seen, left, l);
}

bool doorbell_wait_for(doorbell *b, uint32_t target, const doorbell_limits *l)
{
    uint32_t now;
    while ((now = doorbell_read(b)) != target)
        if (!doorbell_wait(b, now, NULL, l)) return false;
    return true;
}
