// page.h -- a run as one self-contained HTML page: verdict, loss, rates, phases, a step over ranks, memory, waits. It
// needs no network and works from a file. `report --html` and `report --serve` call it. It knows neither the job nor the
// terminal; page.js draws what page_data writes.
#ifndef TRIREME_MONITOR_PAGE_PAGE_H
#define TRIREME_MONITOR_PAGE_PAGE_H

#include "base/text.h"
#include "monitor/run_view.h"

struct report;

// Appends the page. `r` is the run's report; NULL: the page has no verdict.
status page_make(const run_view *v, const struct report *r, text *out, err *e);
// Appends what the page shows as one JSON object. Long runs and large ones are thinned: the object has a few hundred KB
// at most.
status page_data(const run_view *v, const struct report *r, text *out, err *e);
// Writes the page to FOLDER/report.html of the run's folder; it appears by a rename.
status page_write(const run_view *v, const struct report *r, err *e);
// Appends the report as JSON; null where it is NULL.
status page_report(const struct report *r, text *out, err *e);

#endif
