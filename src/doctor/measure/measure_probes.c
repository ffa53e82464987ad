// measure_probes.c -- which of the numbers measured of cores, memory and clocks are faults, and how a measured number becomes a
// finding. A place that is slower than the median of its like needs no threshold; others have one in the machine file.
#include "doctor/measure/measure_probes.h"

#include <math.h>
#include <stdio.h>

status measure_take(const doctor_context *c, measure_function measure, doctor_measured *m,
                    bool *there, doctor_findings *out, err *e)
{
    status result = OK;
    err why = {0};
    *there = true;
    *m = (doctor_measured){.all_reduce.wrong_rank = -1};
    if (c->measured) {
        *m = *c->measured;
        return OK;
    }
    result = measure(c, m, &why);
    if (result == OK) return OK;
    doctor_measured_clear(m);
    *there = false;
    if (result == E_MEMORY) {
        if (e) *e = why;
        return result;
    }
    doctor_blind(out, "%s", why.text);
    return OK;
}

void measure_give_back(const doctor_context *c, doctor_measured *m)
{
    if (!c->measured) doctor_measured_clear(m);
}

void measure_write_number(char out[MEASURE_NUMBER], double value)
{
    snprintf(out, MEASURE_NUMBER, fabs(value) < 1000 ? "%.3g" : "%.0f", value);
}

void measure_find_slower(const measured_list *l, const char *kind, const char *type, double percent,
                         doctor_findings *out)
{
    const double median = measured_median(l);
    for (int i = 0; i < l->count; i++) {
        char where[MEASURE_NUMBER], value[MEASURE_NUMBER], middle[MEASURE_NUMBER],
            below[MEASURE_NUMBER];
        if (l->value[i] >= median * (1 - percent / 100)) continue;
        snprintf(where, sizeof where, "%s %d", kind, l->place[i]);
        measure_write_number(value, l->value[i]);
        measure_write_number(middle, median);
        snprintf(below, sizeof below, "%.0f", 100 * (1 - l->value[i] / median));
        doctor_find(out, "where", where, "rate", value, "median", middle, "percent", below, "type",
                    type, NULL);
    }
}

void measure_find_below(const doctor_context *c, const char *key, double otherwise, double value,
                        const char *where, doctor_findings *out)
{
    const double least = doctor_threshold(c, key, otherwise);
    char found[MEASURE_NUMBER], needed[MEASURE_NUMBER];
    if (value >= least) return;
    measure_write_number(found, value);
    measure_write_number(needed, least);
    doctor_find(out, "where", where, "rate", found, "least", needed, NULL);
}

// ---- Cores

status measure_probe_products(const doctor_context *c, doctor_findings *out, err *e)
{
    doctor_measured m;
    bool there;
    const double percent = doctor_threshold(c, "core_spread_percent", 20);
    const status result = measure_take(c, measure_products, &m, &there, out, e);
    if (result != OK || !there) return result;
    doctor_measure(out, "matmul_fp32_gflops", measured_median(&m.products), "GFLOP/s", true);
    doctor_measure(out, "matmul_bf16_gflops", measured_median(&m.products_bf16), "GFLOP/s", true);
    measure_find_slower(&m.products, "core", "fp32", percent, out);
    measure_find_slower(&m.products_bf16, "core", "bf16", percent, out);
    measure_give_back(c, &m);
    return OK;
}

status measure_probe_bits(const doctor_context *c, doctor_findings *out, err *e)
{
    doctor_measured m;
    bool there;
    const status result = measure_take(c, measure_bits, &m, &there, out, e);
    if (result != OK || !there) return result;
    for (int i = 0; i < m.bits.count; i++) {
        char where[MEASURE_NUMBER], count[MEASURE_NUMBER];
        if (m.bits.value[i] <= 0) continue;
        snprintf(where, sizeof where, "core %d", m.bits.place[i]);
        snprintf(count, sizeof count, "%.0f", m.bits.value[i]);
        doctor_find(out, "where", where, "count", count, NULL);
    }
    measure_give_back(c, &m);
    return OK;
}

status measure_probe_copies(const doctor_context *c, doctor_findings *out, err *e)
{
    doctor_measured m;
    bool there;
    const status result = measure_take(c, measure_copies, &m, &there, out, e);
    if (result != OK || !there) return result;
    const double median = measured_median(&m.copies), percent = 20;
    const double least =
        fmax(doctor_threshold(c, "copy_gb_per_s", 0), median * (1 - percent / 100));
    doctor_measure(out, "copy_gb_per_s", median, "GB/s", true);
    for (int i = 0; i < m.copies.count; i++) {
        char where[MEASURE_NUMBER], rate[MEASURE_NUMBER], needed[MEASURE_NUMBER];
        if (m.copies.value[i] >= least) continue;
        snprintf(where, sizeof where, "NUMA node %d", m.copies.place[i]);
        measure_write_number(rate, m.copies.value[i]);
        measure_write_number(needed, least);
        doctor_find(out, "where", where, "rate", rate, "least", needed, NULL);
    }
    measure_give_back(c, &m);
    return OK;
}

// ---- Clocks

status measure_probe_clock_order(const doctor_context *c, doctor_findings *out, err *e)
{
    doctor_measured m;
    bool there;
    const status result = measure_take(c, measure_clock_order, &m, &there, out, e);
    if (result != OK || !there) return result;
    if (m.clock.back.count == 0) doctor_skip(out, "this process may use one core only");
    if (m.clock.latency.count)
        doctor_measure(out, "core_latency_ns", measured_median(&m.clock.latency), "ns", false);
    for (int i = 0; i < m.clock.back.count; i++) {
        char where[MEASURE_NUMBER], ns[MEASURE_NUMBER];
        if (m.clock.back.value[i] <= 0) continue;
        snprintf(where, sizeof where, "core %d", m.clock.back.place[i]);
        snprintf(ns, sizeof ns, "%.0f", m.clock.back.value[i]);
        doctor_find(out, "where", where, "ns", ns, NULL);
    }
    measure_give_back(c, &m);
    return OK;
}

status measure_probe_clock_drift(const doctor_context *c, doctor_findings *out, err *e)
{
    doctor_measured m;
    bool there;
    const double most = doctor_threshold(c, "clock_drift_ppm", 600);
    const status result = measure_take(c, measure_clock_drift, &m, &there, out, e);
    if (result != OK || !there) return result;
    doctor_measure(out, "clock_drift_ppm", m.clock.drift_ppm, "ppm", false);
    if (fabs(m.clock.drift_ppm) > most) {
        char found[MEASURE_NUMBER], valid[MEASURE_NUMBER];
        snprintf(found, sizeof found, "%.0f", m.clock.drift_ppm);
        snprintf(valid, sizeof valid, "%.0f", most);
        doctor_find(out, "where", "clock", "ppm", found, "most", valid, NULL);
    }
    measure_give_back(c, &m);
    return OK;
}

// ---- For long

status measure_probe_memory(const doctor_context *c, doctor_findings *out, err *e)
{
    doctor_measured m;
    bool there;
    const status result = measure_take(c, measure_memory, &m, &there, out, e);
    if (result != OK || !there) return result;
    if (m.memory.wrong > 0) {
        char size[24], wrong[MEASURE_NUMBER];
        text_bytes(size, m.memory.bytes);
        snprintf(wrong, sizeof wrong, "%.0f", m.memory.wrong);
        doctor_find(out, "where", "memory", "size", size, "wrong", wrong, NULL);
    }
    measure_give_back(c, &m);
    return OK;
}

status measure_probe_sustained(const doctor_context *c, doctor_findings *out, err *e)
{
    doctor_measured m;
    bool there;
    const double percent = doctor_threshold(c, "sustained_drop_percent", 15);
    const double seconds = doctor_threshold(c, "stress_seconds", 60);
    const status result = measure_take(c, measure_sustained, &m, &there, out, e);
    if (result != OK || !there) return result;
    for (int i = 0; i < m.sustained.count; i++) {
        char where[MEASURE_NUMBER], drop[MEASURE_NUMBER], time[MEASURE_NUMBER];
        if (m.sustained.value[i] >= 1 - percent / 100) continue;
        snprintf(where, sizeof where, "core %d", m.sustained.place[i]);
        snprintf(drop, sizeof drop, "%.0f", 100 * (1 - m.sustained.value[i]));
        measure_write_number(time, seconds);
        doctor_find(out, "where", where, "percent", drop, "seconds", time, NULL);
    }
    measure_give_back(c, &m);
    return OK;
}
