// measure_probes_io.c -- which of the numbers measured of ranks, disks and GPUs are faults. Called by the table of measure_rows.c.
#include "doctor/measure/measure_probes.h"

#include <math.h>
#include <stdio.h>

static const char *folder_of(const doctor_context *c)
{
    return c->folder ? c->folder : ".";
}

// ---- Ranks

status measure_probe_sums(const doctor_context *c, doctor_findings *out, err *e)
{
    doctor_measured m;
    bool there;
    const status result = measure_take(c, measure_all_reduce, &m, &there, out, e);
    if (result != OK || !there) return result;
    if (m.all_reduce.wrong_rank >= 0) {
        char where[MEASURE_NUMBER], wrong[MEASURE_NUMBER];
        snprintf(where, sizeof where, "rank %d", m.all_reduce.wrong_rank);
        snprintf(wrong, sizeof wrong, "%.0f", m.all_reduce.wrong);
        doctor_find(out, "where", where, "wrong", wrong, NULL);
    }
    measure_give_back(c, &m);
    return OK;
}

status measure_probe_all_reduce(const doctor_context *c, doctor_findings *out, err *e)
{
    doctor_measured m;
    bool there;
    const status result = measure_take(c, measure_all_reduce, &m, &there, out, e);
    if (result != OK || !there) return result;
    char where[MEASURE_NUMBER];
    snprintf(where, sizeof where, "%d ranks", m.all_reduce.ranks);
    doctor_measure(out, "all_reduce_gb_per_s", m.all_reduce.rate, "GB/s", true);
    measure_find_below(c, "all_reduce_gb_per_s", 0.1, m.all_reduce.rate, where, out);
    measure_give_back(c, &m);
    return OK;
}

// ---- Disk

status measure_probe_disk_write(const doctor_context *c, doctor_findings *out, err *e)
{
    doctor_measured m;
    bool there;
    const status result = measure_take(c, measure_disk_write, &m, &there, out, e);
    if (result != OK || !there) return result;
    doctor_measure(out, "disk_write_gb_per_s", m.disk.write, "GB/s", true);
    measure_find_below(c, "disk_write_gb_per_s", 0.05, m.disk.write, folder_of(c), out);
    measure_give_back(c, &m);
    return OK;
}

status measure_probe_disk_read(const doctor_context *c, doctor_findings *out, err *e)
{
    doctor_measured m;
    bool there;
    const status result = measure_take(c, measure_disk_read, &m, &there, out, e);
    if (result != OK || !there) return result;
    doctor_measure(out, "disk_read_gb_per_s", m.disk.read, "GB/s", true);
    measure_find_below(c, "disk_read_gb_per_s", 0.05, m.disk.read, folder_of(c), out);
    measure_give_back(c, &m);
    return OK;
}

status measure_probe_fsync(const doctor_context *c, doctor_findings *out, err *e)
{
    doctor_measured m;
    bool there;
    const double most = doctor_threshold(c, "fsync_ms", 100);
    const status result = measure_take(c, measure_fsync, &m, &there, out, e);
    if (result != OK || !there) return result;
    doctor_measure(out, "fsync_ms", m.disk.fsync_ms, "ms", false);
    if (m.disk.fsync_ms > most) {
        char found[MEASURE_NUMBER], valid[MEASURE_NUMBER];
        measure_write_number(found, m.disk.fsync_ms);
        measure_write_number(valid, most);
        doctor_find(out, "where", folder_of(c), "ms", found, "most", valid, NULL);
    }
    measure_give_back(c, &m);
    return OK;
}

// ---- GPUs

// Where there is none, what was measured is given back.
static bool has_no_gpu(const doctor_context *c, doctor_measured *m, const measured_list *l,
                       doctor_findings *out)
{
    if (l->count > 0) return false;
    doctor_skip(out, "there is no GPU that Trireme can use");
    measure_give_back(c, m);
    return true;
}

status measure_probe_gpu_products(const doctor_context *c, doctor_findings *out, err *e)
{
    doctor_measured m;
    bool there;
    const status result = measure_take(c, measure_gpu_products, &m, &there, out, e);
    if (result != OK || !there || has_no_gpu(c, &m, &m.gpu_products, out)) return result;
    doctor_measure(out, "gpu_matmul_bf16_tflops", measured_median(&m.gpu_products) * 1e-3,
                   "TFLOP/s", true);
    const double least = doctor_threshold(c, "matmul_bf16_tflops", 0) * 1e3;
    const double median = measured_median(&m.gpu_products);
    const double spread = doctor_threshold(c, "gpu_spread_percent", 5);
    const double needed = fmax(least, median * (1 - spread / 100));
    for (int i = 0; i < m.gpu_products.count; i++) {
        char where[MEASURE_NUMBER], rate[MEASURE_NUMBER], valid[MEASURE_NUMBER];
        if (m.gpu_products.value[i] >= needed) continue;
        snprintf(where, sizeof where, "GPU %d", m.gpu_products.place[i]);
        measure_write_number(rate, m.gpu_products.value[i] * 1e-3);
        measure_write_number(valid, needed * 1e-3);
        doctor_find(out, "where", where, "rate", rate, "least", valid, NULL);
    }
    measure_give_back(c, &m);
    return OK;
}

status measure_probe_gpu_copies(const doctor_context *c, doctor_findings *out, err *e)
{
    doctor_measured m;
    bool there;
    const status result = measure_take(c, measure_gpu_copies, &m, &there, out, e);
    if (result != OK || !there || has_no_gpu(c, &m, &m.gpu_copies, out)) return result;
    doctor_measure(out, "gpu_copy_gb_per_s", measured_median(&m.gpu_copies), "GB/s", true);
    measure_find_slower(&m.gpu_copies, "GPU", "copies",
                        doctor_threshold(c, "gpu_spread_percent", 5), out);
    measure_give_back(c, &m);
    return OK;
}
