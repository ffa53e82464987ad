// run_view.h -- a run seen from outside: its log.jsonl and the records of its ranks (base/spans.h), as they lie in the
// run's folder. It works while the run goes and after its end. `report`, `trace`, `top` and the pages read a run through
// it. It knows neither the job nor how the ranks were started.
#ifndef TRIREME_MONITOR_RUN_VIEW_H
#define TRIREME_MONITOR_RUN_VIEW_H

#include "base/spans.h"
#include "base/text.h"

#include <jansson.h>

// A step of log.jsonl. Numbers that the line does not have, or that are no numbers, are NAN.
typedef struct run_step {
    int64_t step;
    double loss, grad_norm, lr, tokens, seconds, tokens_per_s, matmul_share;
    bool skipped;
} run_step;

typedef struct run_eval {
    int64_t step;
    double loss;
} run_eval;

typedef struct run_save {
    int64_t step, bytes;
    double seconds;
} run_save;

typedef struct run_view {
    char *folder;
    int ranks;     // of the run; 0: neither log nor record says it
    spans **rank;  // [ranks]; NULL: no record of this rank is here
    int recorded;  // ranks with a record
    json_t *start; // the last start event; NULL: none
    json_t *end;   // the end event behind it; NULL: none, the run goes on or was killed
    char *error;   // text of the error event behind it; NULL: none
    run_step
        *step; // [steps] with increasing numbers; those of a resumed run replace an earlier run's
    size_t steps, step_room;
    json_t *group_norms; // of the last step, by group; NULL: it has none
    run_eval *eval;      // likewise
    size_t evals, eval_room;
    run_save *save;
    size_t saves, save_room;
    uint64_t log_read; // bytes of log.jsonl that were read
    long log_line;     // lines
} run_view;

// Reads what is there. E_USAGE where the folder is none of a run: it has neither a log nor a record. A damaged record
// is an error that names its file. The caller closes *out.
status run_view_open(const char *folder, run_view **out, err *e);
// Reads what has come since. A log that has become shorter is read anew.
status run_view_refresh(run_view *v, err *e);
void run_view_close(run_view *v); // NULL allowed

// The path of a rank's record: FOLDER/spans/rank-00003.spans. The caller frees *out.
status run_view_spans_path(const char *folder, int rank, char **out, err *e);

// A string or number of the start event; NULL and NAN where it has none.
const char *run_view_text(const run_view *v, const char *key);
double run_view_number(const run_view *v, const char *key);

// Whether the rank's process runs: on this machine by its id, else by the age of its record.
bool run_view_runs(const run_view *v, int rank);
// "running", "ended" (the log has its end), "failed" (it has an error), or "stopped": no rank runs, and the log ends early.
const char *run_view_state(const run_view *v);
// The number of optimizer steps that all recorded ranks have in common: *first and *last of those that every record
// still has. False where there is none.
bool run_view_common_steps(const run_view *v, uint64_t *first, uint64_t *last);
// Copies the record of optimizer step `step` of a rank; false where it is not there.
bool run_view_step_of(const run_view *v, int rank, uint64_t step, spans_step *out);

#endif
