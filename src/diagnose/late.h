// late.h -- finds the rank that others waited for, from the lines that their watchdogs of NCCL print: each names the call
// that timed out and the last one that its rank has begun. diagnose.c hands in the lines.
#ifndef TRIREME_DIAGNOSE_LATE_H
#define TRIREME_DIAGNOSE_LATE_H

#include "base/err.h"

#include <stddef.h>

typedef struct late_ranks late_ranks;

status late_open(late_ranks **out, err *e);
void late_close(late_ranks *l); // NULL allowed
void late_add(late_ranks *l, const char *line, size_t bytes);
// The one rank that is behind all others; -1: the lines do not tell.
int late_rank(const late_ranks *l);
// How many ranks have printed such lines.
int late_count(const late_ranks *l);

#endif
