// tables.h -- the tables of the rooms, one of each. registry.c lists them.
#ifndef TRIREME_DOCTOR_TABLES_H
#define TRIREME_DOCTOR_TABLES_H

#include "doctor/check.h"

extern const doctor_table DOCTOR_MEMORY;     // memory/memory.c
extern const doctor_table DOCTOR_GPU_DRIVER; // gpu/
extern const doctor_table DOCTOR_GPU_MODES;
extern const doctor_table DOCTOR_GPU_LIBRARIES;
extern const doctor_table DOCTOR_GPU_MEMORY;
extern const doctor_table DOCTOR_GPU_CLOCKS;
extern const doctor_table DOCTOR_GPU_LINKS;
extern const doctor_table DOCTOR_GPU_P2P;
extern const doctor_table DOCTOR_PCI;        // pci/pci_checks.c
extern const doctor_table DOCTOR_KERNEL_LOG; // kernel_log/kernel_log_checks.c
extern const doctor_table DOCTOR_MEASURE;    // measure/measure_rows.c

#endif
