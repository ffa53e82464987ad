// exporter.h -- exports the metrics of a run while it goes: to Prometheus over HTTP, and into a file for node_exporter's
// textfile collector. session/ runs it in a process of its own, beside the ranks of a host; it reads the run's folder, so
// no rank does anything for it. It also exports the GPUs of the host, where no dcgm-exporter does.
#ifndef TRIREME_MONITOR_METRICS_EXPORTER_H
#define TRIREME_MONITOR_METRICS_EXPORTER_H

#include "monitor/metrics/metrics.h"

typedef struct exporter exporter;

// Texts are borrowed.
typedef struct exporter_options {
    metrics_options metrics;
    const char *address;  // of http_open; NULL: nothing is served
    const char *textfile; // NULL: none
} exporter_options;

// Listens, and writes the first file. The caller closes *out. E_USAGE and E_IO name the address or the file.
status exporter_open(const exporter_options *o, exporter **out, err *e);
// The address with its port; "" where nothing is served. Borrowed.
const char *exporter_address(const exporter *x);
// Exports until something can be read from `alive`, or its other end is closed, and then writes the file a last time.
status exporter_run(exporter *x, int alive, err *e);
void exporter_close(exporter *x); // NULL allowed

#endif
