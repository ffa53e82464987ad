// machine.c -- see machine.h.
#include "planner/machine.h"

#include <stdlib.h>

void planner_machine_close(planner_machine *m)
{
    if (m->close) m->close(m);
    free(m->name);
    text_clear(&m->assumptions);
    *m = (planner_machine){.name = NULL};
}
