// measure_probes.h -- what the probes of this room share, and the probes for the table of measure_rows.c.
#ifndef TRIREME_DOCTOR_MEASURE_PROBES_H
#define TRIREME_DOCTOR_MEASURE_PROBES_H

#include "doctor/measure/measure.h"

enum { MEASURE_NUMBER = 32 };

typedef status (*measure_function)(const doctor_context *c, doctor_measured *out, err *e);

// The numbers of a check: those that the context brings, or measured now. Where it could not be measured, the check is
// blind with the reason, and *there is false. The caller gives them back.
status measure_take(const doctor_context *c, measure_function measure, doctor_measured *m,
                    bool *there, doctor_findings *out, err *e);
void measure_give_back(const doctor_context *c, doctor_measured *m);
void measure_write_number(char out[MEASURE_NUMBER], double value);
// A finding for each place ("core 3") whose number is more than `percent` below the median.
void measure_find_slower(const measured_list *l, const char *kind, const char *type, double percent,
                         doctor_findings *out);
// A finding where a number is below the threshold of this key.
void measure_find_below(const doctor_context *c, const char *key, double otherwise, double value,
                        const char *where, doctor_findings *out);

doctor_probe measure_probe_products;
doctor_probe measure_probe_bits;
doctor_probe measure_probe_copies;
doctor_probe measure_probe_clock_order;
doctor_probe measure_probe_clock_drift;
doctor_probe measure_probe_sums;
doctor_probe measure_probe_all_reduce;
doctor_probe measure_probe_disk_write;
doctor_probe measure_probe_disk_read;
doctor_probe measure_probe_fsync;
doctor_probe measure_probe_gpu_products;
doctor_probe measure_probe_gpu_copies;
doctor_probe measure_probe_memory;
doctor_probe measure_probe_sustained;

#endif
