// statistics.c -- see statistics.h. Quickselect, so that a median of a thousand ranks takes microseconds.
#include "monitor/report/statistics.h"

#include <math.h>

static void swap(double *a, double *b)
{
    const double kept = *a;
    *a = *b;
    *b = kept;
}

// Moves values below a pivot to its left; the bounds of those that equal it are *left and *right.
static void divide(double *v, size_t first, size_t end, size_t *left, size_t *right)
{
    const double pivot = v[first + (end - first) / 2];
    size_t low = first, i = first, high = end;
    while (i < high) {
        if (v[i] < pivot)
            swap(&v[low++], &v[i++]);
        else if (v[i] > pivot)
            swap(&v[i], &v[--high]);
        else
            i++;
    }
    *left = low;
    *right = high;
}

double statistics_quantile(double *values, size_t count, double share)
{
    if (!count) return 0;
    const size_t wanted = (size_t)(share * (double)(count - 1));
    size_t first = 0, end = count;
    while (end - first > 1) {
        size_t left, right;
        divide(values, first, end, &left, &right);
        if (wanted < left)
            end = left;
        else if (wanted >= right)
            first = right;
        else
            return values[wanted];
    }
    return values[wanted];
}

double statistics_median(double *values, size_t count)
{
    const double low = statistics_quantile(values, count, 0.5);
    if (count % 2) return low;
    // Those behind the lower one are not smaller than it.
    double high = INFINITY;
    for (size_t i = count / 2; i < count; i++) high = fmin(high, values[i]);
    return count ? (low + high) / 2 : 0;
}

double statistics_deviation(double *values, size_t count)
{
    const double middle = statistics_median(values, count);
    for (size_t i = 0; i < count; i++) values[i] = fabs(values[i] - middle);
    return 1.4826 * statistics_median(values, count);
}
