// calibrated.c -- a machine whose rates were measured, as machine.h wants it. See calibrated.h. The rates are those of
// ranks that all run at the same time; for other numbers of ranks and threads they are scaled.
#include "planner/calibrated.h"

#include "base/alloc.h"
#include "comm/registry.h"
#include "planner/calibrated_file.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct calibrated {
    calibrated_file file; // its rates are scaled
    char communicator[COMM_RATES_NAME];
    int ranks; // of a host
} calibrated;

// ---- Costs

static planner_claim cost_of_kernel(const void *given, const kernel_cost *k)
{
    const calibrated *c = given;
    return kernel_rates_claim(&c->file.kernels, k);
}

static planner_claim cost_of_call(const void *given, const planner_group *g, const comm_call *call,
                                  double bytes)
{
    const calibrated *c = given;
    return comm_rates_claim(&c->file.calls, c->communicator, g, call, bytes,
                            c->file.kernels.memory_bytes_per_s);
}

static double over(double work, double rate)
{
    return rate > 0 ? work / rate : 0;
}

// The memory of the device is the host's: a copy reads and writes it. Ranks of a host share its disks.
static planner_claim cost_of_transfer(const void *given, planner_transfer what, double bytes)
{
    const calibrated *c = given;
    const calibrated_host *h = &c->file.does;
    planner_claim out = {.seconds = 0};
    if (what == TRANSFER_READ || what == TRANSFER_WRITE) {
        const double rate = what == TRANSFER_READ ? h->read_bytes_per_s : h->write_bytes_per_s;
        out.seconds = over(bytes * c->ranks, rate);
        out.share[RESOURCE_STORAGE] = 1;
        return out;
    }
    out.seconds = over(2 * bytes, h->copy_bytes_per_s);
    out.share[RESOURCE_COMPUTE] = 1;
    out.share[RESOURCE_MEMORY] =
        fmin(1, over(h->copy_bytes_per_s, c->file.kernels.memory_bytes_per_s));
    return out;
}

// ---- Other numbers of ranks and threads

// The part of a core that each thread of a host has.
static double core_of(const calibrated_file *f, int ranks, int threads)
{
    return fmin(1, (double)f->cores / ((double)ranks * threads));
}

// Products scale with the cores of a rank. Memory is shared by the ranks of a host, and a core takes so much of it.
static void scale(calibrated_file *f, int ranks, int threads)
{
    const double cores =
        threads * core_of(f, ranks, threads) / (f->threads * core_of(f, f->ranks, f->threads));
    const double memory = fmin(cores, (double)f->ranks / ranks);
    for (int t = 0; t < DTYPES; t++) f->kernels.product_flops[t] *= cores;
    f->kernels.memory_bytes_per_s *= memory;
    f->kernels.cache_bytes *= cores;
    f->does.copy_bytes_per_s *= memory;
    f->calls.threads = threads;
}

// ---- What the reader of a prediction must know

static void add_assumptions(const calibrated_file *f, int ranks, int threads, text *out)
{
    text_addf(out,
              "rates: measured %s on %s (%s, %d cores) by trireme %s, with %d ranks of %d %s\n",
              f->date, f->host, f->cpu, f->cores, f->version, f->ranks, f->threads,
              f->threads == 1 ? "thread" : "threads");
    if (ranks != f->ranks || threads != f->threads)
        text_addf(out,
                  "rates: scaled to %d ranks of %d %s on a host, by their cores and their part of "
                  "the memory bandwidth\n",
                  ranks, threads, threads == 1 ? "thread" : "threads");
    text_addf(out,
              "kernels: take %.3f times as long in a step as alone, as in the step that was "
              "measured; a step takes %.3f ms beside its instructions\n",
              f->does.factor, f->does.step_s * 1e3);
    if (!(f->does.read_bytes_per_s > 0 && f->does.write_bytes_per_s > 0))
        text_add(out, "files: were not measured, and take no time\n");
}

// ---- Opening

static void close_calibrated(planner_machine *m)
{
    calibrated *c = m->own;
    if (c) calibrated_file_clear(&c->file);
    free(c);
}

// One rank of a host makes no calls within it.
static status check_calls(const calibrated *c, const char *path, err *e)
{
    if (comm_rates_have(&c->file.calls, c->communicator) || strcmp(c->communicator, "solo") == 0)
        return OK;
    return err_set(e, E_USAGE,
                   "%s: calls.rows: found none of communicator %s; `trireme bench calibrate --comm "
                   "%s` with 2 ranks or more measures it",
                   path, c->communicator, c->communicator);
}

static uint64_t host_bytes(void)
{
    const long pages = sysconf(_SC_PHYS_PAGES), bytes = sysconf(_SC_PAGESIZE);
    return pages > 0 && bytes > 0 ? (uint64_t)pages * (uint64_t)bytes : 0;
}

static void fill(const calibrated *c, const comm_capabilities *can, planner_machine *out)
{
    out->costs = (planner_costs){.given = c,
                                 .kernel = cost_of_kernel,
                                 .call = cost_of_call,
                                 .transfer = cost_of_transfer,
                                 .streams_apart = can->own_thread,
                                 .sends_wait = can->sends_wait,
                                 .step_s = c->file.does.step_s,
                                 .factor = c->file.does.factor};
    out->communicator = c->communicator;
    out->ranks_per_host = c->ranks;
    out->host_bytes = host_bytes();
    memcpy(out->peak_flops, c->file.kernels.product_flops, sizeof out->peak_flops);
}

status calibrated_open(const char *path, int threads, int ranks_per_host, const char *communicator,
                       planner_machine *out, err *e)
{
    status result = OK;
    calibrated *c = NULL;
    comm_flows_row row;
    const device_options o = {.threads = threads};
    *out = (planner_machine){.close = close_calibrated};
    TRY(alloc_zeroed(&c, 1, sizeof *c, "the machine file", e));
    out->own = c;
    TRY(calibrated_file_read(path, &c->file, e));
    if (!comm_flows_row_of(communicator, &row) || strlen(communicator) >= sizeof c->communicator)
        FAIL(E_USAGE, "communicator: found %s, which this version has not", communicator);
    memcpy(c->communicator, communicator, strlen(communicator) + 1);
    c->ranks = ranks_per_host;
    TRY(check_calls(c, path, e));
    TRY(device_describe("cpu", &o, &out->device, e));
    if (threads <= 0) threads = c->file.threads;
    add_assumptions(&c->file, ranks_per_host, threads, &out->assumptions);
    TRY(text_check(&out->assumptions, e));
    TRY(text_copy(c->file.host, &out->name, e));
    scale(&c->file, ranks_per_host, threads);
    fill(c, row.can, out);
done:
    if (result != OK) planner_machine_close(out);
    return result;
}
