// devices.h -- the GPUs of this host for Prometheus, under the names and labels of dcgm-exporter. The exporter calls it
// where no dcgm-exporter runs, whose samples would else be there twice. It asks NVML, which opens no GPU, and knows neither
// ranks nor CUDA.
#ifndef TRIREME_MONITOR_METRICS_DEVICES_H
#define TRIREME_MONITOR_METRICS_DEVICES_H

#include "monitor/metrics/metrics.h"

// Opens NVML under this name of its library. *out is NULL where it is not there, or has no GPU. The caller closes it.
status metrics_devices_open(const char *library, metrics_devices **out, err *e);
int metrics_devices_count(const metrics_devices *d); // NULL: 0
// Appends the labels of a GPU.
void metrics_devices_label(const metrics_devices *d, int gpu, text *labels);
// The value of a metric of NVIDIA; NAN where the GPU does not say it.
double metrics_devices_value(const metrics_devices *d, int gpu, metric m);
void metrics_devices_close(metrics_devices *d); // NULL allowed

#endif
