// bench_plan_errors.c -- how far predictions of published rows are off, and whether they rank layouts. See bench_plan.h.
#include "cmd/bench/bench_plan.h"

#include "base/alloc.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool is_judged(const published_row *row, const char *source)
{
    return row->counted && row->refused.code == OK && row->predicted > 0 &&
           (!source || strcmp(row->text[ROW_SOURCE], source) == 0);
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *x, int n)
{
    qsort(x, (size_t)n, sizeof *x, by_value);
    return n == 0 ? NAN : n % 2 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2;
}

status published_errors_of(const published_rows *r, const char *source, double factor,
                           published_errors *out, err *e)
{
    status result = OK;
    double *off = NULL;
    int n = 0;
    *out = (published_errors){.rows = 0};
    TRY(alloc_array(&off, r->count, sizeof *off, "the errors of rows", e));
    for (size_t i = 0; i < r->count; i++)
        if (is_judged(&r->row[i], source))
            off[n++] = factor * r->row[i].predicted / r->row[i].measured - 1;
    out->rows = n;
    out->bias = median(off, n);
    for (int i = 0; i < n; i++) {
        off[i] = fabs(off[i]);
        out->mean += off[i] / n;
        out->most = fmax(out->most, off[i]);
    }
    out->median = median(off, n);
done:
    free(off);
    return result;
}

double published_calibration(const published_rows *r, const char *source)
{
    for (size_t i = 0; i < r->count; i++)
        if (is_judged(&r->row[i], source)) return r->row[i].measured / r->row[i].predicted;
    return 1;
}

static bool same_group(const published_row *a, const published_row *b)
{
    return strcmp(a->text[ROW_SOURCE], b->text[ROW_SOURCE]) == 0 &&
           strcmp(a->text[ROW_GROUP], b->text[ROW_GROUP]) == 0;
}

double published_tau(const published_rows *r, const char *source, double least, int *pairs)
{
    int agree = 0, all = 0;
    for (size_t i = 0; i < r->count; i++)
        for (size_t k = i + 1; k < r->count; k++) {
            const published_row *a = &r->row[i], *b = &r->row[k];
            if (!is_judged(a, source) || !is_judged(b, source) || !same_group(a, b)) continue;
            if (fabs(log(a->measured / b->measured)) <= log(1 + least)) continue;
            const double found = (a->measured - b->measured) * (a->predicted - b->predicted);
            agree += found > 0 ? 1 : found < 0 ? -1 : 0;
            all++;
        }
    *pairs = all;
    return all ? (double)agree / all : NAN;
}

int published_picks(const published_rows *r, published_pick out[PUBLISHED_GROUPS_MOST])
{
    int groups = 0;
    for (size_t i = 0; i < r->count && groups < PUBLISHED_GROUPS_MOST; i++) {
        const published_row *first = &r->row[i];
        published_pick p = {.rows = 0};
        bool is_first = true;
        for (size_t k = 0; k < r->count; k++) {
            const published_row *row = &r->row[k];
            if (!same_group(row, first)) continue;
            is_first = is_first && k >= i;
            if (!is_judged(row, NULL)) continue;
            p.rows++;
            if (!p.picked || row->predicted > p.picked->predicted) p.picked = row;
            if (!p.best || row->measured > p.best->measured) p.best = row;
        }
        if (!is_first || p.rows < PUBLISHED_GROUP_LEAST) continue;
        p.loss = 1 - p.picked->measured / p.best->measured;
        out[groups++] = p;
    }
    return groups;
}
