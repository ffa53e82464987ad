// effective.h -- from the time of one step to the time, the energy and the price of a training: what failures and their
// checkpoints cost, and what ranks cost that are slower than others. Pure functions of numbers.
//
// session/plan/ calls it. It knows no machine, no job and no list.
#ifndef TRIREME_PLANNER_EFFECTIVE_H
#define TRIREME_PLANNER_EFFECTIVE_H

#include <stdbool.h>
#include <stddef.h>

// ---- Failures

// Failures of all ranks come independently, at a rate that does not change, also while a checkpoint is written and
// while the job restarts. A failure of one rank ends the work of all.
typedef struct planner_failures {
    double per_hour;     // of one rank
    double ranks;        // that fail so
    double checkpoint_s; // for which a checkpoint keeps the ranks from training
    double restart_s;    // from a failure to the first step behind it
} planner_failures;

typedef struct planner_effective {
    double between_failures_s; // mean of all ranks together; INFINITY: none fails
    double
        interval_s; // of training between two checkpoints, for which the expected time is least; INFINITY: never
    double young_s; // the same by the formula of first order
    double daly_s;  // the same by the formula of higher order
    double
        useful; // expected share of all time in which the job advances, at interval_s; 1: all of it
} planner_effective;

// The optimum of planner_useful_share: exact, by Young's formula sqrt(2 d M) (J. W. Young, "A first order approximation
// to the optimum checkpoint interval", CACM 17(9), 1974), and by Daly's sqrt(2 d M) (1 + sqrt(d / 2M) / 3 + d / 18M) - d,
// or M where d >= 2M (J. T. Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps",
// Future Generation Computer Systems 22(3), 2006). d: checkpoint_s, M: between_failures_s.
planner_effective planner_effective_of(const planner_failures *f);
// The expected share of useful time where a checkpoint follows each interval_s seconds of training (Daly 2006):
// interval / (M exp(restart / M) (exp((interval + checkpoint) / M) - 1)).
double planner_useful_share(const planner_failures *f, double interval_s);

// ---- Stragglers

// The factors by which the compute of a rank takes longer than that of the median rank, drawn anew for each rank and
// step. A step waits for the slowest one.
typedef struct planner_stragglers {
    double sigma; // the logarithm of the factor is normal with this deviation; where factor is NULL
    const double *factor; // [factors] ascending: of measured steps
    size_t factors;
} planner_stragglers;

// The expected largest factor of `ranks`: 1 where none differ.
double planner_straggler_factor(const planner_stragglers *s, double ranks);

// ---- A training

typedef struct planner_training {
    double tokens;       // to train on
    double tokens_per_s; // of all ranks
    double ranks;
    double useful;         // share of time, of planner_effective; 1: nothing fails
    double watts;          // of one rank; 0: not known
    double price_per_hour; // likewise
} planner_training;

typedef struct planner_bill {
    double days_without_failures, days; // with failures, expected
    double kilowatt_hours;              // in `days`; NAN: not known
    double price;                       // likewise
} planner_bill;

planner_bill planner_bill_of(const planner_training *t);
// Energy and price of `seconds` of all ranks, in joules and in the unit of price_per_hour; NAN: not known.
double planner_joules(double watts, double ranks, double seconds);
double planner_price(double price_per_hour, double ranks, double seconds);

#endif
