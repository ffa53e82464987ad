// verdict_text.h -- the sentences of a verdict: its line, the evidence, the next thing to try. Private to verdict.c.
#ifndef TRIREME_MONITOR_REPORT_VERDICT_TEXT_H
#define TRIREME_MONITOR_REPORT_VERDICT_TEXT_H

#include "monitor/report/verdict.h"

void verdict_add_line(const run_measures *m, const verdict *v, text *out);
void verdict_add_evidence(const run_measures *m, const verdict *v, text *out); // a line each
void verdict_add_next(const run_measures *m, const verdict *v, text *out);

#endif
