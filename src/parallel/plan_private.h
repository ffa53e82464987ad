// plan_private.h -- shared by plan.c, plan_redistribute.c and plan_print.c.
#ifndef TRIREME_PARALLEL_PLAN_PRIVATE_H
#define TRIREME_PARALLEL_PLAN_PRIVATE_H

#include "parallel/plan.h"

status plan_make_redistributions(plan *p, err *e);
void plan_free_redistributions(plan *p);

#endif
