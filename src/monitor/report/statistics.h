// statistics.h -- medians and slopes that outliers do not move. The report and the search for stragglers call it.
#ifndef TRIREME_MONITOR_REPORT_STATISTICS_H
#define TRIREME_MONITOR_REPORT_STATISTICS_H

#include <stddef.h>

// The value at a share of the sorted values, from 0 to 1. All three change the order of `values`, and are 0 where there are
// none.
double statistics_quantile(double *values, size_t count, double share);
// Of an even number, the mean of the two in the middle.
double statistics_median(double *values, size_t count);
// The median distance from the median, times 1.4826: the deviation of a normal distribution.
double statistics_deviation(double *values, size_t count);

#endif
