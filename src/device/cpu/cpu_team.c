// cpu_team.c -- the threads of cpu_team.h. Called by the kernels through their context. It knows no
// kernel. It uses plain threads and atomics, which ThreadSanitizer follows. OpenMP's teams spin
// while they have a core, and that costs a busy machine most of its time.
//
// Each call of cpu_team_run is a job with a number. The items of one thread are one word: the job's
// number, and the number of items left. So a thread takes an item by one compare-and-swap, which
// fails when the job is over. A slow thread may read the fields of a job that is over, but it uses
// them only after it has taken an item of that job.
#include "device/cpu/cpu_team.h"

#include "base/clock.h"
#include "base/proc.h"

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    LINE = 64,
    SPIN_NS = 50000, // a step's kernels follow each other faster than this
    PAUSES = 32,     // between two readings of the clock
};

// The items of one thread.
typedef struct cpu_team_items {
    _Alignas(LINE) _Atomic uint64_t left; // job << 32 | items not begun
    _Atomic uint32_t end;                 // the item after the last
} cpu_team_items;

typedef struct cpu_team_member {
    struct cpu_team *team;
    pthread_t thread;
    int number;
} cpu_team_member;

struct cpu_team {
    _Alignas(LINE) _Atomic uint32_t job; // number of the latest job; a futex
    _Atomic uint32_t sleepers;           // members that sleep until the next job
    _Atomic bool closing;
    _Alignas(LINE) _Atomic uint32_t unfinished; // items of the job; a futex
    _Atomic uint32_t caller_sleeps;
    _Alignas(LINE) _Atomic(cpu_team_work) work;
    _Atomic(const void *) arg;
    int threads, started;     // members 1 … started are threads of their own
    cpu_team_items *items;    // [threads]
    cpu_team_member *members; // [threads]
};

// Spins for up to SPIN_NS until *word differs from `seen`. Returns whether it does.
static bool spin(const _Atomic uint32_t *word, uint32_t seen)
{
    const int64_t end = clock_ns() + SPIN_NS;
    do {
        for (int i = 0; i < PAUSES; i++) {
            if (atomic_load_explicit(word, memory_order_acquire) != seen) return true;
            proc_pause_core();
        }
    } while (clock_ns() < end);
    return false;
}

static void futex_sleep(_Atomic uint32_t *word, uint32_t seen)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word, int count)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

// Both sides are sequentially consistent: either this thread sees that the caller sleeps, or the
// caller sees the zero.
static void finish_item(cpu_team *t)
{
    if (atomic_fetch_sub(&t->unfinished, 1) == 1 && atomic_load(&t->caller_sleeps))
        futex_wake(&t->unfinished, 1);
}

// Runs the items left of one thread. Returns false when the job is over.
static bool take_items_of(cpu_team *t, cpu_team_items *items, uint32_t job, int thread)
{
    uint64_t left = atomic_load_explicit(&items->left, memory_order_acquire);
    for (;;) {
        if (left >> 32 != job) return false;
        if ((uint32_t)left == 0) return true;
        cpu_team_work work = atomic_load_explicit(&t->work, memory_order_relaxed);
        const void *arg = atomic_load_explicit(&t->arg, memory_order_relaxed);
        uint32_t end = atomic_load_explicit(&items->end, memory_order_relaxed);
        if (!atomic_compare_exchange_weak_explicit(&items->left, &left, left - 1,
                                                   memory_order_acq_rel, memory_order_acquire))
            continue;
        work(arg, end - (uint32_t)left, thread);
        finish_item(t);
        left = atomic_load_explicit(&items->left, memory_order_acquire);
    }
}

// Runs the thread's own items first, then those of the other threads.
static void take_items(cpu_team *t, uint32_t job, int thread)
{
    for (int i = 0; i < t->threads; i++)
        if (!take_items_of(t, &t->items[(thread + i) % t->threads], job, thread)) return;
}

static uint32_t wait_for_job(cpu_team *t, uint32_t seen)
{
    if (!spin(&t->job, seen)) {
        // As in finish_item: either the caller sees this sleeper, or this thread sees the new job.
        atomic_fetch_add(&t->sleepers, 1);
        while (atomic_load(&t->job) == seen) futex_sleep(&t->job, seen);
        atomic_fetch_sub(&t->sleepers, 1);
    }
    return atomic_load_explicit(&t->job, memory_order_acquire);
}

static void *member_main(void *p)
{
    cpu_team_member *m = p;
    for (uint32_t job = 0;;) {
        job = wait_for_job(m->team, job);
        if (atomic_load(&m->team->closing)) return NULL;
        take_items(m->team, job, m->number);
    }
}

static void announce(cpu_team *t, uint32_t job, int64_t items)
{
    atomic_store(&t->job, job);
    if (atomic_load(&t->sleepers) != 0) futex_wake(&t->job, items < INT_MAX ? (int)items : INT_MAX);
}

static void wait_for_items(cpu_team *t)
{
    uint32_t left;
    int64_t end = clock_ns() + SPIN_NS;
    while ((left = atomic_load_explicit(&t->unfinished, memory_order_acquire)) != 0) {
        if (clock_ns() < end) {
            spin(&t->unfinished, left);
            continue;
        }
        atomic_store(&t->caller_sleeps, 1);
        left = atomic_load(&t->unfinished);
        if (left != 0) futex_sleep(&t->unfinished, left);
        atomic_store(&t->caller_sleeps, 0);
    }
}

void cpu_team_run(cpu_team *t, int64_t items, cpu_team_work work, const void *arg)
{
    if (items <= 1 || t->threads == 1) {
        for (int64_t i = 0; i < items; i++) work(arg, i, 0);
        return;
    }
    const uint32_t job = atomic_load_explicit(&t->job, memory_order_relaxed) + 1;
    // No thread uses these before its word below carries the new number.
    atomic_store_explicit(&t->work, work, memory_order_relaxed);
    atomic_store_explicit(&t->arg, arg, memory_order_relaxed);
    atomic_store_explicit(&t->unfinished, (uint32_t)items, memory_order_relaxed);
    for (int i = 0; i < t->threads; i++) {
        int64_t first = items * i / t->threads, end = items * (i + 1) / t->threads;
        atomic_store_explicit(&t->items[i].end, (uint32_t)end, memory_order_relaxed);
        atomic_store_explicit(&t->items[i].left, (uint64_t)job << 32 | (uint64_t)(end - first),
                              memory_order_release);
    }
    announce(t, job, items - 1);
    take_items(t, job, 0);
    wait_for_items(t);
}

static status start_members(cpu_team *t, err *e)
{
    status result = OK;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); // the program's own threads take signals
    for (int i = 1; i < t->threads && result == OK; i++) {
        t->members[i] = (cpu_team_member){.team = t, .number = i};
        int code = pthread_create(&t->members[i].thread, NULL, member_main, &t->members[i]);
        if (code != 0)
            result = err_set(e, E_FIT, "cannot start thread %d of %d: %s", i + 1, t->threads,
                             strerror(code));
        else
            t->started = i;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return result;
}

status cpu_team_open(int threads, cpu_team **out, err *e)
{
    status result = OK;
    *out = NULL;
    cpu_team *t = aligned_alloc(LINE, sizeof *t);
    if (!t) FAIL(E_FIT, "out of memory for a team of %d threads", threads);
    memset(t, 0, sizeof *t);
    t->threads = threads;
    t->items = aligned_alloc(LINE, sizeof *t->items * (size_t)threads);
    t->members = calloc((size_t)threads, sizeof *t->members);
    if (!t->items || !t->members) FAIL(E_FIT, "out of memory for a team of %d threads", threads);
    memset(t->items, 0, sizeof *t->items * (size_t)threads);
    TRY(start_members(t, e));
done:
    if (result != OK) {
        cpu_team_close(t);
        t = NULL;
    }
    *out = t;
    return result;
}

void cpu_team_close(cpu_team *t)
{
    if (!t) return;
    atomic_store(&t->closing, true);
    announce(t, atomic_load(&t->job) + 1, INT_MAX);
    for (int i = 1; i <= t->started; i++) pthread_join(t->members[i].thread, NULL);
    free(t->members);
    free(t->items);
    free(t);
}
