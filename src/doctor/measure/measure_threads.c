// measure_threads.c -- the cores of this process, and a thread on each of them. All measuring of cores calls it.
#define _GNU_SOURCE // sched_setaffinity
#include "doctor/measure/measure.h"

#include "base/alloc.h"
#include "base/proc.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

void doctor_measured_clear(doctor_measured *m)
{
    measured_list *const all[] = {&m->products,     &m->products_bf16, &m->copies,
                                  &m->bits,         &m->clock.latency, &m->clock.back,
                                  &m->gpu_products, &m->gpu_copies,    &m->sustained};
    for (size_t i = 0; i < sizeof all / sizeof(*all); i++) {
        free(all[i]->place);
        free(all[i]->value);
    }
    *m = (doctor_measured){.all_reduce.wrong_rank = -1};
}

status measured_list_make(measured_list *out, int count, err *e)
{
    status result = OK;
    TRY(alloc_zeroed(&out->place, (size_t)count, sizeof *out->place, "the figures", e));
    TRY(alloc_zeroed(&out->value, (size_t)count, sizeof *out->value, "the figures", e));
    out->count = count;
    for (int i = 0; i < count; i++) out->place[i] = i;
done:
    return result;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double measured_median(const measured_list *l)
{
    double *sorted = NULL, median = 0;
    int count = 0;
    if (alloc_zeroed(&sorted, (size_t)l->count, sizeof *sorted, "the figures", NULL) != OK)
        return 0;
    for (int i = 0; i < l->count; i++)
        if (l->value[i] > 0) sorted[count++] = l->value[i];
    if (count) {
        qsort(sorted, (size_t)count, sizeof *sorted, compare);
        median = (sorted[(count - 1) / 2] + sorted[count / 2]) / 2;
    }
    free(sorted);
    return median;
}

// Returns whether another hardware thread of the same core, with a lower number, is in the set.
static bool follows_sibling(const doctor_context *c, int thread, const cpu_set_t *set)
{
    char path[96], list[256];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list",
             thread);
    if (!doctor_read_line(c, path, list, sizeof list)) return false;
    for (char *p = list; *p;) {
        char *end;
        const long first = strtol(p, &end, 10);
        if (end == p) return false;
        const long last = *end == '-' ? strtol(end + 1, &end, 10) : first;
        for (long i = first; i <= last; i++)
            if (i < thread && i < CPU_SETSIZE && CPU_ISSET((size_t)i, set)) return true;
        p = *end == ',' ? end + 1 : end;
        if (*end && *end != ',') return false;
    }
    return false;
}

status measure_list_cores(const doctor_context *c, int **out, int *count, err *e)
{
    status result = OK;
    cpu_set_t set;
    *count = 0;
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return err_errno(e, "cannot read the cores of this process");
    TRY(alloc_zeroed(out, (size_t)CPU_COUNT(&set), sizeof **out, "the cores", e));
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET((size_t)i, &set) && !follows_sibling(c, i, &set)) (*out)[(*count)++] = i;
done:
    return result;
}

// ---- Threads

typedef struct core_thread {
    pthread_t thread;
    bool started;
    int index, core; // core -1: it is not bound
    measure_on_core fn;
    void *arg;
    status result;
    err failure;
} core_thread;

static void *run(void *arg)
{
    core_thread *t = arg;
    cpu_set_t one;
    CPU_ZERO(&one);
    if (t->core >= 0) {
        CPU_SET((size_t)t->core, &one);
        // Where the core has just been taken from this process, the kernel runs the thread elsewhere.
        sched_setaffinity(0, sizeof one, &one);
    }
    t->result = t->fn(t->index, t->arg, &t->failure);
    return NULL;
}

status measure_run_on_cores(const int *core, int count, measure_on_core fn, void *arg, err *e)
{
    status result = OK;
    core_thread *all = NULL;
    sigset_t before;
    TRY(alloc_zeroed(&all, (size_t)count, sizeof *all, "the threads", e));
    proc_block_signals(&before);
    for (int i = 0; i < count; i++) {
        all[i].index = i;
        all[i].core = core ? core[i] : -1;
        all[i].fn = fn;
        all[i].arg = arg;
        all[i].started = pthread_create(&all[i].thread, NULL, run, &all[i]) == 0;
        if (!all[i].started)
            all[i].result = err_set(&all[i].failure, E_IO, "cannot start a thread");
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    for (int i = 0; i < count; i++) {
        if (all[i].started) pthread_join(all[i].thread, NULL);
        if (result != OK || all[i].result == OK) continue;
        result = all[i].result;
        if (e) *e = all[i].failure;
    }
done:
    free(all);
    return result;
}
