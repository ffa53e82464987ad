// registry.c -- lists the tables of checks, in the order in which they are printed.
#include "doctor/doctor.h"
#include "doctor/tables.h"

#include <string.h>

const doctor_table *const DOCTOR_TABLES[] = {
    &DOCTOR_MEMORY,
    &DOCTOR_LIMITS,
    &DOCTOR_PROCESSOR,
    &DOCTOR_CONTAINER,
    &DOCTOR_INTERFACES,
    &DOCTOR_NAMES,
    &DOCTOR_RDMA,
    &DOCTOR_KERNEL_LOG,
    &DOCTOR_PCI,
    &DOCTOR_GPU_DRIVER,
    &DOCTOR_GPU_LIBRARIES,
    &DOCTOR_GPU_MODES,
    &DOCTOR_GPU_MEMORY,
    &DOCTOR_GPU_CLOCKS,
    &DOCTOR_GPU_LINKS,
    &DOCTOR_GPU_P2P,
    &DOCTOR_STORAGE,
    &DOCTOR_ENVIRONMENT,
    &DOCTOR_LAUNCH,
    &DOCTOR_MEASURE,
    NULL, // the end
};

void doctor_check_each(void (*visit)(const doctor_table *t, const doctor_check *c, void *arg),
                       void *arg)
{
    for (const doctor_table *const *t = DOCTOR_TABLES; *t; t++)
        for (int i = 0; i < (*t)->count; i++) visit(*t, &(*t)->row[i], arg);
}

const doctor_check *doctor_check_find(const char *code)
{
    for (const doctor_table *const *t = DOCTOR_TABLES; *t; t++)
        for (int i = 0; i < (*t)->count; i++)
            if (strcmp((*t)->row[i].code, code) == 0) return &(*t)->row[i];
    return NULL;
}
