// straggler_charge.h -- out of one step of all ranks: who kept whom waiting, for how long, and by what part of its own work.
// straggler.c calls it with each step.
#ifndef TRIREME_MONITOR_REPORT_STRAGGLER_CHARGE_H
#define TRIREME_MONITOR_REPORT_STRAGGLER_CHARGE_H

#include "monitor/report/straggler.h"

// What a rank or a host is charged with in one step; zero where it kept nobody waiting.
typedef struct straggler_charge {
    int64_t wait_ns; // of the others
    double share;    // of the step
    // By how much each part of its own work takes longer than that of the others; negative where it takes less. The one
    // that is unclear is its time between the steps.
    int64_t excess_ns[STRAGGLER_CAUSES];
} straggler_charge;

typedef struct straggler_charger straggler_charger;
status straggler_charger_open(const straggler_location *locations, int ranks,
                              straggler_charger **out, err *e);
void straggler_charger_close(straggler_charger *c);           // NULL allowed
double straggler_charger_step_ns(const straggler_charger *c); // of the last step, median over ranks
int straggler_charger_hosts(const straggler_charger *c);
int straggler_charger_members(const straggler_charger *c, int stage); // recorded ranks of a stage
// Fills `charge` [ranks + hosts]. *number is the step's. False where no rank has a record of it.
bool straggler_charge_step(straggler_charger *c, const spans_step *step, straggler_charge *charge,
                           uint64_t *number);

#endif
