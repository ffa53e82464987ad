// machine.h -- thresholds of a type of machine, read from YAML files that users can add. Shipped ones are in
// examples/machines/. A file looks like this:
//
//   name: 8 x H100 SXM
//   match: {gpu: "*H100*", gpus: 8}   # globs on what the machine is; all must hold; none: for every machine
//   thresholds: {pcie_gen: 5, pcie_width: 16, nvlinks: 18, ib_gbits: 400, matmul_bf16_tflops: 600}
//
// Keys are those of doctor_threshold calls, listed by machine.c; an unknown one is an error with the nearest.
#ifndef TRIREME_DOCTOR_MACHINE_H
#define TRIREME_DOCTOR_MACHINE_H

#include "base/err.h"

#include <stdbool.h>

typedef struct doctor_machine doctor_machine;

// What a machine is, to choose its file by.
typedef struct doctor_identity {
    const char *gpu; // name of the first GPU; "" where there is none
    int gpus;
    const char *cpu; // "model name" of /proc/cpuinfo
} doctor_identity;

// Reads one file. E_USAGE names file, line and key. The caller closes it.
status doctor_machine_open(const char *path, doctor_machine **out, err *e);
void doctor_machine_close(doctor_machine *m); // NULL is allowed
bool doctor_machine_matches(const doctor_machine *m, const doctor_identity *i);
const char *doctor_machine_name(const doctor_machine *m);
bool doctor_machine_threshold(const doctor_machine *m, const char *key, double *out);

#endif
