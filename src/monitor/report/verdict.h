// verdict.h -- one word about a run, with its evidence and the next thing to try. report.c calls it. The thresholds are one
// table, which docs/what-is-my-run-doing.md repeats.
#ifndef TRIREME_MONITOR_REPORT_VERDICT_H
#define TRIREME_MONITOR_REPORT_VERDICT_H

#include "base/text.h"
#include "monitor/report/measures.h"

typedef enum verdict_kind {
    VERDICT_UNKNOWN, // no rank has a record
    VERDICT_HEALTHY,
    VERDICT_COMPUTE,
    VERDICT_INPUT,
    VERDICT_COMM,
    VERDICT_CHECKPOINT,
    VERDICT_MEMORY,
    VERDICT_COMPUTE_STRAGGLER,
    VERDICT_INPUT_STRAGGLER,
    VERDICT_LINK_STRAGGLER,
    VERDICT_KINDS
} verdict_kind;

enum { VERDICT_STEPS = 10 }; // with fewer, a run is healthy

typedef struct verdict {
    verdict_kind kind;
    const char *word;           // "COMPUTE STRAGGLER"
    int rank;                   // that it is about; -1: none
    const char *host;           // likewise, borrowed from the measures; NULL: none
    const straggler *straggler; // borrowed from the measures; NULL: none
    double share;               // of the time, that the cause takes
    text line;                  // the word, and what it is about
    text evidence;              // lines, each with its newline
    text next;                  // a sentence
} verdict;

const char *verdict_word(verdict_kind kind);
// The owner calls verdict_clear, also after a failure. E_MEMORY.
status verdict_make(const run_measures *m, verdict *out, err *e);
void verdict_clear(verdict *v);
// "29.8 ms", in a unit that fits.
void verdict_time(char out[24], double ns);

#endif
