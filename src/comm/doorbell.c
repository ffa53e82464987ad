// doorbell.c -- waiting for a number in shared memory: spin, yield, sleep.
//
// Called by the local communicator's rounds, channels and lanes. Knows nothing of processes or
// threads: the futex is a shared one and works for both. A sleeper looks up every 20 ms whether the
// world has failed or the doorbell's owner has left, so that nobody needs to know who sleeps where.
#include "comm/doorbell.h"

#include "base/clock.h"
#include "comm/shared.h"

#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

// The spin is a few microseconds only: on a busy machine two ranks may share a core although there
// is one for each, and then every round costs a whole spin before the other one runs.
enum { SPINS = 64, YIELDS = 200 };

// A sleep that took much longer than it should has been one of the whole machine, or this process
// was stopped (Ctrl-Z). The watchdog counts no more of it than this.
enum { SLEEP_MS = 20, COUNTED_MS = 100 };

static inline void pause_core(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

void doorbell_ring(doorbell *b, uint32_t value)
{
    // Sequentially consistent on both sides: either we see the sleeper, or it sees the new value.
    atomic_exchange(&b->value, value);
    if (atomic_load(&b->sleepers) != 0)
        syscall(SYS_futex, &b->value, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

// Once *left is seen, the number is as its owner left it.
static bool has_left(const _Atomic int *left)
{
    return left && atomic_load(left) != 0;
}

static bool bell_sleep(doorbell *b, uint32_t seen, const _Atomic int *left, const world *w)
{
    const struct timespec limit = {0, SLEEP_MS * 1000000};
    const int64_t watchdog_ns = atomic_load(&w->watchdog_ms) * 1000000;
    int64_t waited_ns = 0, last = clock_ns();
    bool changed = false;
    atomic_fetch_add(&b->sleepers, 1);
    while (!(changed = atomic_load(&b->value) != seen) && !world_has_failed(w)) {
        if (has_left(left)) {
            changed = atomic_load(&b->value) != seen;
            break;
        }
        if (watchdog_ns > 0 && waited_ns > watchdog_ns) break;
        syscall(SYS_futex, &b->value, FUTEX_WAIT, seen, &limit, NULL, 0);
        const int64_t now = clock_ns(), slept = now - last;
        waited_ns += slept < COUNTED_MS * 1000000 ? slept : COUNTED_MS * 1000000;
        last = now;
    }
    atomic_fetch_sub(&b->sleepers, 1);
    return changed;
}

bool doorbell_wait(doorbell *b, uint32_t seen, const _Atomic int *left, const world *w)
{
    if (doorbell_read(b) != seen) return true;
    for (int i = 0; w->spin && i < SPINS; i++) {
        if (doorbell_read(b) != seen) return true;
        pause_core();
    }
    for (int i = 0; i < YIELDS; i++) {
        if (doorbell_read(b) != seen) return true;
        if (has_left(left) || world_has_failed(w)) break;
        sched_yield();
    }
    return bell_sleep(b, seen, left, w);
}

bool doorbell_wait_for(doorbell *b, uint32_t target, const world *w)
{
    uint32_t now;
    while ((now = doorbell_read(b)) != target)
        if (!doorbell_wait(b, now, NULL, w)) return false;
    return true;
}
