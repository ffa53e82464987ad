// measure_copies.c -- the rate at which the cores of each NUMA node copy the node's memory, as `trireme bench kernels` copies,
// and whether memory keeps what is written. Called by the checks and by `trireme topo --measure`.
#define _GNU_SOURCE // sched_setaffinity
#include "doctor/measure/measure.h"

#include "base/alloc.h"
#include "base/proc.h"
#include "device/device.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COPY_SHARE = 8, PASSES = 2 }; // copies take at most this part of the free memory
static const uint64_t COPY_MOST = (uint64_t)128 << 20;
static const double SECONDS = 0.3;

typedef struct node_work {
    cpu_set_t *set; // [nodes]
    uint64_t bytes;
    doctor_measured *out;
} node_work;

// ---- Nodes

// Adds the numbers of a list of the kernel ("0-7,64-71") that are also in `may`.
static void read_set(const char *list, const cpu_set_t *may, cpu_set_t *out)
{
    CPU_ZERO(out);
    for (const char *p = list; *p;) {
        char *end;
        const long first = strtol(p, &end, 10);
        if (end == p) return;
        const long last = *end == '-' ? strtol(end + 1, &end, 10) : first;
        for (long i = first; i <= last && i < CPU_SETSIZE; i++)
            if (CPU_ISSET((size_t)i, may)) CPU_SET((size_t)i, out);
        if (*end != ',') return;
        p = end + 1;
    }
}

// Lists the nodes with cores of this process; one node 0 with all cores where the kernel shows none.
static status list_nodes(const doctor_context *c, node_work *w, err *e)
{
    status result = OK;
    char **names = NULL;
    int count = 0, nodes = 0;
    cpu_set_t may;
    if (sched_getaffinity(0, sizeof may, &may) != 0)
        FAIL(E_IO, "cannot read the cores of this process");
    TRY(doctor_names(c, "/sys/devices/system/node", &names, &count, e));
    TRY(alloc_zeroed(&w->set, (size_t)count + 1, sizeof *w->set, "the nodes", e));
    TRY(measured_list_make(&w->out->copies, count + 1, e));
    for (int i = 0; i < count; i++) {
        char path[128], list[1024];
        int number, ends = 0;
        if (sscanf(names[i], "node%d%n", &number, &ends) != 1 || names[i][ends]) continue;
        snprintf(path, sizeof path, "/sys/devices/system/node/node%d/cpulist", number);
        if (!doctor_read_line(c, path, list, sizeof list)) continue;
        read_set(list, &may, &w->set[nodes]);
        if (CPU_COUNT(&w->set[nodes]) == 0) continue;
        w->out->copies.place[nodes++] = number;
    }
    if (nodes == 0) w->set[nodes++] = may;
    w->out->copies.count = nodes;
done:
    doctor_names_free(names, count);
    return result;
}

// The device's threads run where the thread that opens it may run, and first write the memory that they copy.
static status copy_on_node(int index, void *arg, err *e)
{
    status result = OK;
    const node_work *w = arg;
    device *d = NULL;
    double rate = 0;
    sched_setaffinity(0, sizeof w->set[index], &w->set[index]);
    const device_options o = {.threads = CPU_COUNT(&w->set[index])};
    TRY(device_open("cpu", &o, &d, e));
    TRY(device_copy_rate(d, (size_t)w->bytes, SECONDS, &rate, e));
    w->out->copies.value[index] = rate * 1e-9;
done:
    device_close(d);
    return result;
}

status measure_copies(const doctor_context *c, doctor_measured *out, err *e)
{
    status result = OK;
    node_work w = {.out = out};
    TRY(list_nodes(c, &w, e));
    w.bytes = proc_available_bytes() / COPY_SHARE / (uint64_t)(2 * out->copies.count);
    if (w.bytes > COPY_MOST) w.bytes = COPY_MOST;
    TRY(measure_run_on_cores(NULL, out->copies.count, copy_on_node, &w, e));
done:
    free(w.set);
    return result;
}

// ---- What memory keeps

typedef struct memory_work {
    uint64_t *words, each; // of each thread
    double *wrong;         // [threads]
} memory_work;

static uint64_t pattern(uint64_t i, int pass)
{
    const uint64_t x = (i + 1) * 0x9e3779b97f4a7c15u;
    return pass % 2 ? ~x : x;
}

static status write_and_read(int index, void *arg, err *e)
{
    (void)e;
    const memory_work *w = arg;
    volatile uint64_t *const own = w->words + (uint64_t)index * w->each;
    for (int pass = 0; pass < PASSES; pass++) {
        for (uint64_t i = 0; i < w->each; i++) own[i] = pattern(i, pass);
        for (uint64_t i = 0; i < w->each; i++) w->wrong[index] += own[i] != pattern(i, pass);
    }
    return OK;
}

status measure_memory(const doctor_context *c, doctor_measured *out, err *e)
{
    status result = OK;
    int *core = NULL, count = 0;
    memory_work w = {0};
    const uint64_t asked = (uint64_t)(doctor_threshold(c, "stress_memory_mib", 512) * 1048576),
                   may = proc_available_bytes() / 2;
    TRY(measure_list_cores(c, &core, &count, e));
    w.each = (asked < may ? asked : may) / sizeof *w.words / (uint64_t)count;
    TRY(alloc_array(&w.words, w.each * (uint64_t)count, sizeof *w.words, "the pattern", e));
    TRY(alloc_zeroed(&w.wrong, (size_t)count, sizeof *w.wrong, "the figures", e));
    TRY(measure_run_on_cores(core, count, write_and_read, &w, e));
    out->memory.bytes = (double)(w.each * (uint64_t)count * sizeof *w.words);
    for (int i = 0; i < count; i++) out->memory.wrong += w.wrong[i];
done:
    free(w.words);
    free(w.wrong);
    free(core);
    return result;
}
