// tables.h -- the tables of causes, one for each subject, in causes_*.c. causes.c lists them.
#ifndef TRIREME_DIAGNOSE_TABLES_H
#define TRIREME_DIAGNOSE_TABLES_H

#include "diagnose/cause.h"

extern const diagnose_table DIAGNOSE_OWN, DIAGNOSE_MEMORY, DIAGNOSE_GPU, DIAGNOSE_NETWORK,
    DIAGNOSE_START, DIAGNOSE_FILES, DIAGNOSE_MODEL, DIAGNOSE_SOFTWARE, DIAGNOSE_ENDS;

#endif
