// table.h -- the table of `trireme plan`, which table.c fills and two files print. Private to this folder.
#ifndef TRIREME_SESSION_PLAN_TABLE_H
#define TRIREME_SESSION_PLAN_TABLE_H

#include "session/plan/advice.h"
#include "session/plan/effective_print.h"
#include "session/plan/fit_search.h"
#include "session/plan/search.h"

typedef struct table_row {
    const char *group; // "policy", "recompute", "offload"
    char name[48];
    job changed;
    bool is_job; // `changed` equals the job
    memory_estimate estimate;
    err refused; // code OK: the plan allows it
    bool is_predicted;
    prediction prediction;
    session_training training;
} table_row;

typedef struct table {
    const job *j;
    const session_inputs *in;
    const session_plan_options *o;
    int ranks;
    memory_estimate_base base;
    uint64_t budget;
    table_row *row;
    int rows;
    fit_search fit;
    bool searched;
    search_result found;
    search_change change;
    advice advice[ADVICE_RULES];
} table;

bool table_has_tiers(const table *t); // the device has a memory of its own
// Whether a row fits; `unknown` where there is no budget.
const char *table_fits_word(const table *t, const memory_estimate *n, const char *unknown,
                            const char *yes, const char *no);
// The times of its rows, what they rest on, what guides say, and what the search found.
void table_print_times(const table *t, text *out);
// Appends all of it, for a terminal of so many columns (0: no limit), or as one JSON object.
status table_print(const table *t, int columns, text *out, err *e);
void table_print_json(const table *t, text *out);

#endif
