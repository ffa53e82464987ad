// measure_clocks.c -- what lies between two cores: the time in which a cache line goes from one to the other, and whether
// their clocks agree. Called by the checks and by `trireme topo --measure`.
#include "doctor/measure/measure.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/proc.h"

#include <stdalign.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { TURNS = 20000, PAIRS = 64, DRIFT_MS = 250 };
static const int64_t LIMIT_NS = 200 * 1000000; // of a pair

// Two threads take turns to write it: one the even turns, the other the odd ones.
typedef struct clock_pair {
    alignas(128) _Atomic int64_t turn;
    int64_t time_ns; // of the thread that had the last turn
    alignas(128) _Atomic bool stop;
    int64_t best_ns; // of a round trip
    int64_t back_ns
        [2]; // by which a thread's clock was behind the other's, which had been read before it
} clock_pair;

// Waits for the turn; false where the pair's time is over.
static bool await(clock_pair *p, int64_t turn, int64_t end)
{
    for (int spins = 1; atomic_load_explicit(&p->turn, memory_order_acquire) != turn; spins++) {
        if (spins % 256) continue;
        if (atomic_load(&p->stop) || clock_ns() > end) {
            atomic_store(&p->stop, true);
            return false;
        }
    }
    return true;
}

static status take_turns(int index, void *arg, err *e)
{
    (void)e;
    clock_pair *p = arg;
    const int64_t end = clock_ns() + LIMIT_NS;
    int64_t before = 0, back = 0; // of this thread's last turn
    for (int64_t turn = index; turn < TURNS && await(p, turn, end); turn += 2) {
        const int64_t now = clock_ns();
        if (turn && p->time_ns - now > back) back = p->time_ns - now;
        if (index == 0 && before && (p->best_ns == 0 || now - before < p->best_ns))
            p->best_ns = now - before;
        before = now;
        p->time_ns = now;
        atomic_store_explicit(&p->turn, turn + 1, memory_order_release);
    }
    p->back_ns[index] = back;
    return OK;
}

status measure_clock_order(const doctor_context *c, doctor_measured *out, err *e)
{
    status result = OK;
    int *core = NULL, cores = 0;
    TRY(measure_list_cores(c, &core, &cores, e));
    const int pairs = cores - 1 < PAIRS ? cores - 1 : PAIRS;
    TRY(measured_list_make(&out->clock.latency, pairs > 0 ? pairs : 0, e));
    TRY(measured_list_make(&out->clock.back, pairs > 0 ? pairs : 0, e));
    for (int i = 0; i < pairs; i++) {
        const int both[] = {core[0], core[i + 1]};
        clock_pair p = {.turn = 0};
        TRY(measure_run_on_cores(both, 2, take_turns, &p, e));
        out->clock.latency.place[i] = out->clock.back.place[i] = both[1];
        out->clock.latency.value[i] = (double)p.best_ns / 2;
        out->clock.back.value[i] =
            (double)(p.back_ns[0] > p.back_ns[1] ? p.back_ns[0] : p.back_ns[1]);
    }
done:
    free(core);
    return result;
}

// Compares the clock that the system corrects with the one that it does not.
status measure_clock_drift(const doctor_context *c, doctor_measured *out, err *e)
{
    (void)c;
    (void)e;
    struct timespec a, b, pause = {.tv_nsec = DRIFT_MS * 1000000L};
    clock_gettime(CLOCK_MONOTONIC_RAW, &a);
    const int64_t from = clock_ns();
    nanosleep(&pause, NULL);
    clock_gettime(CLOCK_MONOTONIC_RAW, &b);
    const int64_t to = clock_ns();
    const double raw = (double)(b.tv_sec - a.tv_sec) * 1e9 + (double)(b.tv_nsec - a.tv_nsec);
    out->clock.drift_ppm = raw > 0 ? ((double)(to - from) / raw - 1) * 1e6 : 0;
    return OK;
}
