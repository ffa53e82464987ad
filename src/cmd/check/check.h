// check.h -- `trireme translate --check`: some steps of a job under Trireme, and the same steps under the system whose
// configuration the job comes from. check.c runs both, check_report.c compares them. Private to cmd/.
#ifndef TRIREME_CMD_CHECK_H
#define TRIREME_CMD_CHECK_H

#include "base/json.h"
#include "base/text.h"
#include "config/dialect/dialect.h"
#include "config/job.h"

enum { CHECK_STEPS_MOST = 1000 };

// The request of a user; everything is borrowed.
typedef struct check_request {
    const char *from, *file; // the name of a dialect, and a file of it
    int keys;
    char **key;         // [keys] arguments of a job
    int64_t steps;      // 1 … CHECK_STEPS_MOST
    const char *python; // an interpreter that has the packages of the original
    bool json;
} check_request;

typedef struct check_step {
    double loss;      // the mean over all tokens of the global batch
    double grad_norm; // before clipping; NAN: not known
    double lr;
} check_step;

// One of the two runs.
typedef struct check_side {
    check_step step[CHECK_STEPS_MOST];
    int64_t steps;     // that it has done
    double peak_bytes; // of the largest rank: resident on a CPU, allocated on a GPU; 0: not known
    double base_bytes; // of that before it had a model: Python and its libraries; 0: not known
} check_side;

typedef struct check {
    const check_request *q;
    const dialect *of;
    char *folder; // a temporary one, which check_run removes
    // Of the job
    json_t *request; // for original.py; owned
    int ranks;
    const char *precision,
        *reduction; // borrowed, as train.precision and train.reduce_dtype have it
    int64_t steps, accumulation;
    bool without_dropout; // dropout was turned off for both
    bool has_samples;     // data.train is JSONL, and each encodes it; else token shards
    bool has_adapter;     // of LoRA

    check_side *own, *original; // `own` is memory that the ranks share
    text versions, notes;       // of the original; notes are lines
    text cannot;                // why it cannot run here; empty: it can
} check;

// Runs both, prints what it found, and returns the exit code: 0 the same run, 1 another run, 2 the original cannot run here.
int check_run(const check_request *q);

// Runs the steps of the job here, and makes c->request (check_own.c). Fills c->own. E_USAGE where the original could not
// have the same model or data.
status check_run_own(check *c, err *e);
// Starts original.py on `ranks` ranks with c->request; `word` is its second argument, or NULL. Fills c->original, versions,
// notes and cannot (check_original.c). E_INTERRUPTED: a signal stopped it.
status check_run_original(check *c, int ranks, const char *word, err *e);
// Prints the table and the verdict. *same receives whether the two agree (check_report.c).
status check_report(const check *c, bool *same, err *e);
// Prints the verdict that the original cannot run here.
status check_report_cannot(const check *c, err *e);

// The source of original.py, which the build writes into the program.
extern const char CHECK_ORIGINAL[];

#endif
