// kernel_rates.h -- rates of kernels: measured efficiencies, as shares of a roofline, between which they are
// interpolated in the logarithm of the sizes. A result is never faster than the roofline.
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

typedef struct kernel_rates {
    double memory_bytes_per_s;    // of a rank while all ranks of the host run
    double product_flops[DTYPES]; // of a rank, likewise; 0: not known
    kernel_point *point;          // [points]
    size_t points;
} kernel_rates;

// Where the rates have no point of its kind, form and type: those of the nearest that they have, in that order.
planner_claim kernel_rates_claim(const kernel_rates *r, const kernel_cost *k);
status kernel_rates_read(const json_t *section, kernel_rates *out, err *e); // E_USAGE names the key
json_t *kernel_rates_write(const kernel_rates *r);                          // NULL: no memory
void kernel_rates_clear(kernel_rates *r);

#endif
