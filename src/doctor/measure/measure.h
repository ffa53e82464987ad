// measure.h -- what the active checks measure, with the kernels, collectives and files of training. measure_*.c measure,
// each for a bounded time, and measure_probes*.c say what of it is a fault; `trireme topo --measure` prints some of it. A test gives numbers
// of its own in the place of measured ones (doctor_context.measured).
#ifndef TRIREME_DOCTOR_MEASURE_H
#define TRIREME_DOCTOR_MEASURE_H

#include "base/dtype.h"
#include "doctor/doctor.h"

// Numbers of several places: cores, NUMA nodes, GPUs.
typedef struct measured_list {
    int count;
    int *place;    // [count] the number of the core, node or GPU
    double *value; // [count]
} measured_list;

// Rates are GFLOP/s and GB/s (1e9). What a check does not measure is zero.
struct doctor_measured {
    measured_list products, products_bf16; // of each core
    measured_list copies;                  // of each NUMA node; bytes read and written
    measured_list bits;                    // of each core: results that differ from those of most
    struct {
        int ranks;
        double rate;    // GB/s of the bus, as nccl-tests counts them
        int wrong_rank; // the first one with a wrong sum; -1: none
        double wrong;   // elements of it
    } all_reduce;
    struct {
        double write, read; // GB/s; `write` includes the fsync
        double fsync_ms;    // the median of small writes
    } disk;
    struct {
        measured_list latency; // ns from the first core to each other one, one way
        measured_list back;    // ns by which a core's clock was behind that of the first core
        double drift_ppm;      // of the corrected clock against the raw one
    } clock;
    measured_list gpu_products, gpu_copies; // of each GPU; 0: it failed
    struct {
        double bytes;
        double wrong; // words of 64 bits
    } memory;
    measured_list sustained; // of each core: the rate at the end, as a share of that at the begin
};
typedef struct doctor_measured doctor_measured;

void doctor_measured_clear(doctor_measured *m);
// [count] zeros, with places 0 to count - 1.
status measured_list_make(measured_list *out, int count, err *e);
// Of the values above zero; 0: there are none.
double measured_median(const measured_list *l);

// ---- Cores

// One hardware thread of each core that this process may use. The caller frees *out.
status measure_list_cores(const doctor_context *c, int **out, int *count, err *e);
// Called on a thread of its own, which is bound to a core.
typedef status (*measure_on_core)(int index, void *arg, err *e);
// Calls `fn` on one thread for each core, all at once, and returns the first failure. `core` NULL: threads are not bound.
status measure_run_on_cores(const int *core, int count, measure_on_core fn, void *arg, err *e);

// Each of these sets its members of *out, which the caller clears also after a failure.
status measure_products(const doctor_context *c, doctor_measured *out, err *e);
status measure_bits(const doctor_context *c, doctor_measured *out, err *e);
status measure_copies(const doctor_context *c, doctor_measured *out, err *e);
status measure_clock_order(const doctor_context *c, doctor_measured *out, err *e);
status measure_clock_drift(const doctor_context *c, doctor_measured *out, err *e);
status measure_all_reduce(const doctor_context *c, doctor_measured *out, err *e);
status measure_disk_write(const doctor_context *c, doctor_measured *out, err *e);
status measure_disk_read(const doctor_context *c, doctor_measured *out, err *e);
status measure_fsync(const doctor_context *c, doctor_measured *out, err *e);
status measure_gpu_products(const doctor_context *c, doctor_measured *out, err *e);
status measure_gpu_copies(const doctor_context *c, doctor_measured *out, err *e);
status measure_memory(const doctor_context *c, doctor_measured *out, err *e);
status measure_sustained(const doctor_context *c, doctor_measured *out, err *e);

// GB/s of large messages from one device to another, by the communicator of ranks on them.
status measure_link(const char *device_name, int from, int to, double *out, err *e);

#endif
