// tables.h -- the tables of the rooms, one of each. registry.c lists them.
#ifndef TRIREME_DOCTOR_TABLES_H
#define TRIREME_DOCTOR_TABLES_H

#include "doctor/check.h"

extern const doctor_table DOCTOR_MEMORY;        // memory/table_memory.c
extern const doctor_table DOCTOR_LIMITS;        // memory/table_limits.c
extern const doctor_table DOCTOR_PROCESSOR;     // processor/table_processor.c
extern const doctor_table DOCTOR_CONTAINER;     // container/table_container.c
extern const doctor_table DOCTOR_KERNEL_LOG;    // kernel_log/kernel_log_checks.c
extern const doctor_table DOCTOR_PCI;           // pci/pci_checks.c
extern const doctor_table DOCTOR_GPU_DRIVER;    // gpu/gpu_driver.c
extern const doctor_table DOCTOR_GPU_LIBRARIES; // gpu/gpu_libraries.c
extern const doctor_table DOCTOR_GPU_MODES;     // gpu/gpu_modes.c
extern const doctor_table DOCTOR_GPU_MEMORY;    // gpu/gpu_memory.c
extern const doctor_table DOCTOR_GPU_CLOCKS;    // gpu/gpu_clocks.c
extern const doctor_table DOCTOR_GPU_LINKS;     // gpu/gpu_links.c
extern const doctor_table DOCTOR_GPU_P2P;       // gpu/gpu_p2p.c
extern const doctor_table DOCTOR_STORAGE;       // storage/table.c
extern const doctor_table DOCTOR_ENVIRONMENT;   // environment/table.c
extern const doctor_table DOCTOR_LAUNCH;        // launch/table.c
extern const doctor_table DOCTOR_INTERFACES;    // network/interface_rows.c
extern const doctor_table DOCTOR_NAMES;         // network/name_rows.c
extern const doctor_table DOCTOR_MEASURE;       // measure/measure_rows.c
extern const doctor_table DOCTOR_RDMA;          // network/rdma_rows.c

#endif
