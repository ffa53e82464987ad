// causes.c -- the list of the tables of causes. See cause.h.
#include "diagnose/cause.h"
#include "diagnose/tables.h"

#include <stddef.h>

// Special subjects stand before general ones.
const diagnose_table *const DIAGNOSE_TABLES[] = {
    &DIAGNOSE_OWN,   &DIAGNOSE_MEMORY, &DIAGNOSE_GPU,      &DIAGNOSE_NETWORK, &DIAGNOSE_START,
    &DIAGNOSE_FILES, &DIAGNOSE_MODEL,  &DIAGNOSE_SOFTWARE, &DIAGNOSE_ENDS,    NULL,
};

int diagnose_cause_count(void)
{
    int count = 0;
    for (int i = 0; DIAGNOSE_TABLES[i]; i++) count += DIAGNOSE_TABLES[i]->count;
    return count;
}

const diagnose_cause *diagnose_cause_at(int index)
{
    int table = 0;
    for (; index >= DIAGNOSE_TABLES[table]->count; table++) index -= DIAGNOSE_TABLES[table]->count;
    return &DIAGNOSE_TABLES[table]->row[index];
}
