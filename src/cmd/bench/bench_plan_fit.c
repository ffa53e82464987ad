// bench_plan_fit.c -- fits those constants of described clusters to the rows of one source: one constant after the other,
// each along a few steps within a range that is possible for hardware. See bench_plan.h.
#include "cmd/bench/bench_plan.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

typedef struct fit_constant {
    const char *name;
    size_t offset; // in published_predictor
    double least, most;
} fit_constant;

#define OF(field) offsetof(published_predictor, field)
static const fit_constant FITTED[] = {
    {"product_fp8", OF(constants.product_fp8), 0.6, 1},
    {"memory", OF(constants.memory), 0.65, 0.92},
    {"link", OF(constants.link), 0.5, 0.95},
    {"network", OF(constants.network), 0.4, 0.95},
    {"call_compute", OF(constants.call_compute), 0.05, 0.25},
    {"async_tp", OF(software.async_tp), 0, 0.95},
    {"eager", OF(software.eager), 1, 5},
    {"power", OF(constants.power), 0.2, 0.8},
};
enum { FITTED_COUNT = sizeof FITTED / sizeof *FITTED, STEPS = 3, ROUNDS = 2 };

static double *constant_of(published_predictor *p, const fit_constant *f)
{
    return (double *)((char *)p + f->offset);
}

static status error_of(const published_predictor *p, published_rows *r, const char *source,
                       double *out, err *e)
{
    status result = OK;
    published_errors found;
    for (size_t i = 0; i < r->count; i++)
        if (r->row[i].counted && strcmp(r->row[i].text[ROW_SOURCE], source) == 0)
            TRY(published_row_predict(p, &r->row[i], e));
    TRY(published_errors_of(r, source, 1, &found, e));
    if (found.rows == 0)
        FAIL(E_USAGE, "bench plan: --fit %s: no counted rows of this source", source);
    *out = found.mean;
done:
    return result;
}

// Tries steps on both sides of a constant, each half of the one before.
static status fit_one(published_predictor *p, published_rows *r, const char *source,
                      const fit_constant *f, double width, double *best, err *e)
{
    status result = OK;
    double *const c = constant_of(p, f);
    for (int k = 0; k < STEPS; k++, width /= 2)
        for (int side = -1; side <= 1; side += 2) {
            const double before = *c;
            double found;
            *c = fmin(f->most, fmax(f->least, before + side * width * (f->most - f->least)));
            TRY(error_of(p, r, source, &found, e));
            if (found < *best)
                *best = found;
            else
                *c = before;
        }
done:
    return result;
}

status published_fit(published_predictor *p, published_rows *r, const char *source, err *e)
{
    status result = OK;
    double best;
    TRY(error_of(p, r, source, &best, e));
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < FITTED_COUNT; i++)
            TRY(fit_one(p, r, source, &FITTED[i], round == 0 ? 0.3 : 0.1, &best, e));
done:
    return result;
}

void published_fit_print(const published_predictor *p, text *out)
{
    for (int i = 0; i < FITTED_COUNT; i++)
        text_addf(out, "%s%s %.3g", i ? ", " : "constants: ", FITTED[i].name,
                  *(const double *)((const char *)p + FITTED[i].offset));
    text_add(out, "\n");
}
