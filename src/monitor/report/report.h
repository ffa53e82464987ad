// report.h -- the verdict of a run, with its evidence and what to try next. `report` and the page show it.
#ifndef TRIREME_MONITOR_REPORT_REPORT_H
#define TRIREME_MONITOR_REPORT_REPORT_H

#include "monitor/run_view.h"

typedef struct report {
    const char *verdict; // "COMPUTE-BOUND"
    char *line;          // the one line
    char **evidence;     // [evidences]
    int evidences;
    char *next;   // what to try
    json_t *json; // report.json
} report;

#endif
