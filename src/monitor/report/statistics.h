// statistics.h -- medians and slopes that outliers do not move. The report and the search for stragglers call it.
#ifndef TRIREME_MONITOR_REPORT_STATISTICS_H
#define TRIREME_MONITOR_REPORT_STATISTICS_H

#include <stddef.h>

// The value at a share of the sorted values, from 0 to 1; 0.5 is the median, of an even number the lower one. It changes
// the order of `values`; 0 where there are none.
double statistics_quantile(double *values, size_t count, double share);
double statistics_median(double *values, size_t count);
// The median distance from the median, times 1.4826: the deviation of a normal distribution. It changes `values`.
double statistics_deviation(double *values, size_t count);

#endif
