// kernel_fit.c -- the curves of kernel_rates.h: each goes through all points of one kind, type and form of a kernel. Its
// value is 1 over the efficiency: how many times longer a call takes than at the roofline.
//
// Most of what makes a small call slow is constant along one of its sizes: packing a factor, the ends of loops, a launch. So
// a curve is first a sum of a constant and of slopes times 1 over each size, none below zero, by least squares. What the
// points are off from that sum is interpolated: a weight times the distance from each point, in the logarithms of the sizes
// (a radial basis function with the linear kernel). With one size that is a line from point to point.
#include "planner/kernel_rates.h"

#include "base/alloc.h"

#include <math.h>
#include <stdlib.h>

enum { TERMS = KERNEL_COST_SIZES + 1 };

static int compare(const void *a, const void *b)
{
    const kernel_point *x = a, *y = b;
    if (x->kind != y->kind) return x->kind < y->kind ? -1 : 1;
    if (x->form != y->form) return x->form < y->form ? -1 : 1;
    if (x->type != y->type) return x->type < y->type ? -1 : 1;
    for (int i = 0; i < KERNEL_COST_SIZES; i++)
        if (x->size[i] != y->size[i]) return x->size[i] < y->size[i] ? -1 : 1;
    return 0;
}

static bool same_curve(const kernel_point *a, const kernel_point *b)
{
    return a->kind == b->kind && a->form == b->form && a->type == b->type;
}

static double distance(const double *a, const double *b)
{
    double sum = 0;
    for (int i = 0; i < KERNEL_COST_SIZES; i++) sum += (a[i] - b[i]) * (a[i] - b[i]);
    return sqrt(sum);
}

// Solves the equations of `rows` rows, each with its right side behind it, by elimination with pivots. Distinct points
// make them regular.
static void solve(double *a, int rows, double *out)
{
    const int cols = rows + 1;
    for (int c = 0; c < rows; c++) {
        int pivot = c;
        for (int r = c + 1; r < rows; r++)
            if (fabs(a[r * cols + c]) > fabs(a[pivot * cols + c])) pivot = r;
        for (int i = c; i < cols && pivot != c; i++) {
            const double x = a[c * cols + i];
            a[c * cols + i] = a[pivot * cols + i];
            a[pivot * cols + i] = x;
        }
        for (int r = c + 1; r < rows; r++) {
            const double factor = a[r * cols + c] / a[c * cols + c];
            for (int i = c; i < cols; i++) a[r * cols + i] -= factor * a[c * cols + i];
        }
    }
    for (int r = rows - 1; r >= 0; r--) {
        double x = a[r * cols + rows];
        for (int i = r + 1; i < rows; i++) x -= a[r * cols + i] * out[i];
        out[r] = x / a[r * cols + r];
    }
}

static double term(const double *log_size, int i)
{
    return i < KERNEL_COST_SIZES ? exp2(-log_size[i]) : 1;
}

static double slopes(const kernel_fit *f, const double *log_size)
{
    double sum = 0;
    for (int i = 0; i < TERMS; i++) sum += f->slope[i] * term(log_size, i);
    return sum;
}

// Minimises the squares of the relative errors, one slope after the other.
static void make_slopes(kernel_fit *f)
{
    enum { ROUNDS = 2000 };
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < TERMS; i++) {
            double above = 0, below = 0;
            for (int p = 0; p < f->points; p++) {
                const double efficient = f->point[p].efficiency,
                             x = term(f->log_size[p], i) * efficient;
                above += x * (1 - slopes(f, f->log_size[p]) * efficient + f->slope[i] * x);
                below += x * x;
            }
            f->slope[i] = fmax(above / below, 0);
        }
}

// The weights add up to zero, so that the curve has bounds.
static status make_weights(kernel_fit *f, err *e)
{
    status result = OK;
    const int rows = f->points + 1, cols = rows + 1;
    double *a = NULL;
    TRY(alloc_zeroed(&a, (size_t)(rows * cols), sizeof *a, "the curves of kernels", e));
    TRY(alloc_zeroed(&f->weight, (size_t)rows, sizeof *f->weight, "the curves of kernels", e));
    for (int i = 0; i < f->points; i++) {
        for (int k = 0; k < f->points; k++)
            a[i * cols + k] = distance(f->log_size[i], f->log_size[k]);
        a[i * cols + f->points] = a[f->points * cols + i] = 1;
        a[i * cols + rows] = 1 / f->point[i].efficiency - slopes(f, f->log_size[i]);
    }
    solve(a, rows, f->weight);
    f->slope[KERNEL_COST_SIZES] += f->weight[f->points];
done:
    free(a);
    return result;
}

static status make_curve(kernel_fit *f, err *e)
{
    status result = OK;
    TRY(alloc_array(&f->log_size, (size_t)f->points, sizeof *f->log_size, "the curves of kernels",
                    e));
    f->least = INFINITY;
    for (int i = 0; i < f->points; i++) {
        for (int k = 0; k < KERNEL_COST_SIZES; k++) f->log_size[i][k] = log2(f->point[i].size[k]);
        f->least = fmin(f->least, 1 / f->point[i].efficiency);
    }
    make_slopes(f);
    TRY(make_weights(f, e));
done:
    return result;
}

static void set_limits(kernel_fit *f)
{
    for (int k = 0; k < KERNEL_COST_SIZES; k++) {
        f->low[k] = f->high[k] = f->log_size[0][k];
        for (int i = 1; i < f->points; i++) {
            f->low[k] = fmin(f->low[k], f->log_size[i][k]);
            f->high[k] = fmax(f->high[k], f->log_size[i][k]);
        }
    }
}

static void clear_fits(kernel_rates *r)
{
    for (size_t i = 0; i < r->fits; i++) {
        free(r->fit[i].weight);
        free(r->fit[i].log_size);
    }
    free(r->fit);
    r->fit = NULL;
    r->fits = 0;
}

status kernel_rates_fit(kernel_rates *r, err *e)
{
    status result = OK;
    size_t curves = 0;
    clear_fits(r);
    if (r->points > 1) qsort(r->point, r->points, sizeof *r->point, compare);
    for (size_t i = 0; i < r->points; i++) {
        if (i > 0 && compare(&r->point[i - 1], &r->point[i]) == 0)
            FAIL(E_USAGE, "points: found two of %s of %s with sizes %g, %g, %g; valid: one",
                 kernel_name(r->point[i].kind), dtype_name(r->point[i].type), r->point[i].size[0],
                 r->point[i].size[1], r->point[i].size[2]);
        curves += i == 0 || !same_curve(&r->point[i - 1], &r->point[i]);
    }
    TRY(alloc_zeroed(&r->fit, curves, sizeof *r->fit, "the curves of kernels", e));
    for (size_t i = 0; i < r->points; i++) {
        const kernel_point *p = &r->point[i];
        if (i == 0 || !same_curve(p - 1, p))
            r->fit[r->fits++] =
                (kernel_fit){.kind = p->kind, .type = p->type, .form = p->form, .point = p};
        r->fit[r->fits - 1].points++;
    }
    for (size_t i = 0; i < r->fits; i++) {
        TRY(make_curve(&r->fit[i], e));
        set_limits(&r->fit[i]);
    }
done:
    return result;
}

double kernel_fit_slowness(const kernel_fit *f, const double *log_size)
{
    double sum = slopes(f, log_size);
    for (int p = 0; p < f->points; p++) sum += f->weight[p] * distance(log_size, f->log_size[p]);
    return fmax(sum, f->least / 2);
}

void kernel_rates_clear(kernel_rates *r)
{
    clear_fits(r);
    free(r->point);
    *r = (kernel_rates){.points = 0};
}
