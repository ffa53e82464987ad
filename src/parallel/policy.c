// policy.c -- the table of policies. See policy.h.
#include "parallel/policy.h"

#include <string.h>

const policy *policy_find(const char *name)
{
    static const policy table[] = {{"ddp", WHOLE, PARTIAL, WHOLE}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strcmp(name, table[i].name) == 0) return &table[i];
    return NULL;
}
