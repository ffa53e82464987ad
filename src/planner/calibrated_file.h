// calibrated_file.h -- what a machine file holds, as `trireme bench calibrate` writes it and calibrated.c reads it. The file
// is one JSON object: who measured, when and how; then a section for kernels (kernel_rates.h), one for calls
// (comm_rates.h), and one for the host and its files.
#ifndef TRIREME_PLANNER_CALIBRATED_FILE_H
#define TRIREME_PLANNER_CALIBRATED_FILE_H

#include "planner/comm_rates.h"
#include "planner/kernel_rates.h"

enum { CALIBRATED_NAME = 96 };

typedef struct calibrated_host {
    double step_s;           // of a step beside its instructions
    double factor;           // by which kernels take longer in a step than alone
    double copy_bytes_per_s; // of a rank, read and written, while all ranks copy
    double read_bytes_per_s,
        write_bytes_per_s; // of the files of all ranks together; 0: not measured
} calibrated_host;

typedef struct calibrated_file {
    char host[CALIBRATED_NAME], cpu[CALIBRATED_NAME]; // names
    char version[CALIBRATED_NAME];                    // of the program
    char date[CALIBRATED_NAME];
    int ranks, threads; // of the host while it was measured, and of each rank
    int cores;          // that the ranks could use
    kernel_rates kernels;
    comm_rates calls;
    calibrated_host does;
} calibrated_file;

// E_USAGE names the file, the key and what is valid. The caller clears *out, also after a failure.
status calibrated_file_read(const char *path, calibrated_file *out, err *e);
// Replaces the file at once, when it is complete.
status calibrated_file_write(const calibrated_file *f, const char *path, err *e);
void calibrated_file_clear(calibrated_file *f);

#endif
