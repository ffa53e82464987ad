// kernel_rates.h -- rates of kernels: measured efficiencies, as shares of a roofline, between which they are interpolated
// (kernel_fit.c). Beyond the sizes that were measured a result is never faster than the roofline.
//
// `trireme bench calibrate` measures them, and calibrated.c asks for claims.
#ifndef TRIREME_PLANNER_KERNEL_RATES_H
#define TRIREME_PLANNER_KERNEL_RATES_H

#include "base/err.h"
#include "planner/cost.h"

#include <jansson.h>

typedef struct kernel_point {
    kernel_kind kind;
    dtype type;
    int form;
    double size[KERNEL_COST_SIZES];
    double efficiency; // share of the roofline's rate; may exceed 1 where arrays stay in a cache
} kernel_point;

// The points of one kind, type and form, and the curve through them (kernel_rates_fit).
typedef struct kernel_fit {
    kernel_kind kind;
    dtype type;
    int form;
    const kernel_point *point; // [points] of the rates
    int points;
    double low[KERNEL_COST_SIZES],
        high[KERNEL_COST_SIZES];           // logarithms of the least and the largest sizes
    double (*log_size)[KERNEL_COST_SIZES]; // [points]
    double *weight;                        // [points]
    double slope[KERNEL_COST_SIZES + 1];   // of 1 over each size; then a constant
    double least;                          // of 1 over an efficiency
} kernel_fit;

typedef struct kernel_rates {
    double memory_bytes_per_s;    // of a rank while all ranks of the host run
    double product_flops[DTYPES]; // of a rank, likewise; 0: not known
    double cache_bytes;  // that the caches of a rank's cores have to themselves; 0: not known
    kernel_point *point; // [points]
    size_t points;
    kernel_fit *fit; // [fits] kernel_rates_fit
    size_t fits;
} kernel_rates;

// Sorts the points and makes the curves (kernel_fit.c). Call it when the points are complete. E_USAGE where two points are of one call.
status kernel_rates_fit(kernel_rates *r, err *e);
// 1 over the efficiency at these logarithms (log2) of the sizes.
double kernel_fit_slowness(const kernel_fit *f, const double *log_size);
// Where the rates have no point of its kind, form and type: those of the nearest that they have, in that order.
planner_claim kernel_rates_claim(const kernel_rates *r, const kernel_cost *k);
// The points of a section, and their curves. E_USAGE names the key.
status kernel_rates_read(const json_t *section, kernel_rates *out, err *e);
json_t *kernel_rates_write(const kernel_rates *r); // NULL: no memory
void kernel_rates_clear(kernel_rates *r);

// Seconds of a call at the roofline of the rates: its FLOPs at the rate of products or its bytes at that of memory, whichever
// is longer.
double kernel_rates_roofline(const kernel_rates *r, const kernel_cost *k);

#endif
