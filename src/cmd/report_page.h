// report_page.h -- the page of a run (monitor/page/), written to a file or served. `trireme report` calls it.
#ifndef TRIREME_CMD_REPORT_PAGE_H
#define TRIREME_CMD_REPORT_PAGE_H

#include "base/err.h"

// Writes the page of the run in folder `run` to `file`, which appears by a rename. Errors of run_view_open; E_IO.
status report_write_html(const char *run, const char *file, err *e);
// Serves the page on "[ADDRESS:]PORT" until a signal ends the command, and says where. Each request reads what has come
// to the run since. "/" is the page, "/data.json" its data, "/report.json" the report.
status report_serve(const char *run, const char *address, err *e);

#endif
