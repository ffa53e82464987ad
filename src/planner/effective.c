// effective.c -- see effective.h.
#include "planner/effective.h"

#include <math.h>

static const double HOUR_S = 3600, DAY_S = 86400;

// ---- Failures

static double mean_between(const planner_failures *f)
{
    const double per_hour = f->per_hour * f->ranks;
    return per_hour > 0 ? HOUR_S / per_hour : INFINITY;
}

double planner_useful_share(const planner_failures *f, double interval_s)
{
    const double m = mean_between(f);
    if (isinf(m)) return isinf(interval_s) ? 1 : interval_s / (interval_s + f->checkpoint_s);
    return interval_s / (m * exp(f->restart_s / m) * expm1((interval_s + f->checkpoint_s) / m));
}

// The derivative of the expected time is zero where (1 - x) exp(x + d) = 1, with x = interval / M and d = checkpoint / M.
// The logarithm of the left side falls from d at x = 0 to minus infinity at x = 1, so halving finds the only root.
static double find_optimum(double checkpoint)
{
    enum { HALVINGS = 100 };
    double low = 0, high = 1;
    for (int i = 0; i < HALVINGS; i++) {
        const double x = (low + high) / 2;
        if (log1p(-x) + x + checkpoint > 0)
            low = x;
        else
            high = x;
    }
    return (low + high) / 2;
}

planner_effective planner_effective_of(const planner_failures *f)
{
    const double m = mean_between(f), d = f->checkpoint_s;
    planner_effective x = {.between_failures_s = m, .useful = 1};
    x.interval_s = x.young_s = x.daly_s = INFINITY;
    if (isinf(m)) return x;
    x.young_s = sqrt(2 * d * m);
    x.daly_s = d < 2 * m ? x.young_s * (1 + sqrt(d / (2 * m)) / 3 + d / (18 * m)) - d : m;
    x.interval_s = m * find_optimum(d / m);
    // Checkpoints that cost nothing are written all the time, and only restarts are lost.
    x.useful = x.interval_s > 0 ? planner_useful_share(f, x.interval_s) : exp(-f->restart_s / m);
    return x;
}

// ---- Stragglers

// The logarithm of the share of a normal distribution below z, exact in both tails.
static double log_below(double z)
{
    return z > 0 ? log1p(-erfc(z * M_SQRT1_2) / 2) : log(erfc(-z * M_SQRT1_2) / 2);
}

// The largest of n normal numbers has the density n f(z) F(z)^(n - 1), of which exp(sigma z) is averaged. The sum over equal
// steps of a smooth function that vanishes at both ends converges faster than any power of the step.
static double largest_lognormal(double sigma, double n)
{
    enum { STEPS = 4000 };
    const double low = -12, high = 12 + sigma + sqrt(2 * log(n));
    const double step = (high - low) / STEPS, root = sqrt(2 * M_PI);
    double sum = 0;
    for (int i = 0; i <= STEPS; i++) {
        const double z = low + i * step;
        sum += exp(log(n) - z * z / 2 + (n - 1) * log_below(z) + sigma * z);
    }
    return sum * step / root;
}

// Each draw takes one of the measured factors.
static double largest_measured(const planner_stragglers *s, double n)
{
    double sum = 0, below = 0;
    for (size_t i = 0; i < s->factors; i++) {
        const double up_to = pow((double)(i + 1) / (double)s->factors, n);
        sum += s->factor[i] * (up_to - below);
        below = up_to;
    }
    return sum;
}

double planner_straggler_factor(const planner_stragglers *s, double ranks)
{
    if (s->factors > 0) return largest_measured(s, ranks);
    return s->sigma > 0 ? largest_lognormal(s->sigma, ranks) : 1;
}

// ---- A training

double planner_joules(double watts, double ranks, double seconds)
{
    return watts > 0 ? watts * ranks * seconds : NAN;
}

double planner_price(double price_per_hour, double ranks, double seconds)
{
    return price_per_hour > 0 ? price_per_hour * ranks * seconds / HOUR_S : NAN;
}

planner_bill planner_bill_of(const planner_training *t)
{
    const double alone = t->tokens / t->tokens_per_s, seconds = alone / t->useful;
    return (planner_bill){.days_without_failures = alone / DAY_S,
                          .days = seconds / DAY_S,
                          .kilowatt_hours =
                              planner_joules(t->watts, t->ranks, seconds) / (1000 * HOUR_S),
                          .price = planner_price(t->price_per_hour, t->ranks, seconds)};
}
