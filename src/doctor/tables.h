// tables.h -- the tables of the rooms, one of each. registry.c lists them.
#ifndef TRIREME_DOCTOR_TABLES_H
#define TRIREME_DOCTOR_TABLES_H

#include "doctor/check.h"

extern const doctor_table DOCTOR_MEMORY; // memory/memory.c

#endif
