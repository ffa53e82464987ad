// report.h -- the report of a run: a verdict with its evidence, the next thing to try, and the figures behind it, as
// report.json and as text. The end of a run, `trireme report` and the pages call it. It reads a run_view, so it works while
// the run goes, too, and it takes time in proportion to the recorded steps of all ranks.
#ifndef TRIREME_MONITOR_REPORT_REPORT_H
#define TRIREME_MONITOR_REPORT_REPORT_H

#include "monitor/report/measures.h"

typedef struct report {
    const char *verdict; // "COMPUTE-BOUND"
    int rank;            // that the verdict is about; -1: none
    const char *host;    // likewise; NULL: none
    char *line;          // the verdict, and what it is about, in one line
    char **evidence;     // [evidences]
    int evidences;
    char *next;    // the next thing to try, a sentence
    bool is_short; // too few steps for a verdict, or no records
    json_t *json;  // report.json
    run_measures *measures;
} report;

// The view is borrowed, and must live as long as the report. E_MEMORY.
status report_make(const run_view *v, report **out, err *e);
void report_close(report *r); // NULL allowed
// Writes FOLDER/report.json of the run's folder; it appears by a rename.
status report_write(const report *r, err *e);
// Adds the verdict, the evidence, the next thing to try, and a table of phases by rank: those that kept the others waiting
// most, and the medians.
void report_add_text(const report *r, text *out);

// What differs between two runs: step time, phases, loss, memory, settings; which one is faster, and by what. The caller
// calls json_decref(*json).
status report_compare(const report *a, const report *b, json_t **json, text *out, err *e);

#endif
