// doctor.h -- runs the checks of `trireme doctor` and keeps what they found. cmd/doctor/ prints it, cmd/train.c runs the
// passive ones. The rows are described in check.h.
#ifndef TRIREME_DOCTOR_DOCTOR_H
#define TRIREME_DOCTOR_DOCTOR_H

#include "base/json.h"
#include "base/text.h"
#include "doctor/check.h"
#include "doctor/machine.h"

// What the checks look at. Tests give folders and libraries of their own, in which faults are planted.
struct doctor_context {
    const char *
        root; // stands before /proc, /sys, /dev, /etc, /run and the paths below; "" is this machine
    char *const *environment; // NAME=VALUE, ends with NULL
    const char *nvml;   // the library of NVIDIA's driver that probes open; "libnvidia-ml.so.1"
    const char *folder; // where a run would write (train.out); NULL: the working folder
    const char *const
        *paths;       // files and folders that a job reads, which ends with NULL; may be NULL
    int ranks;        // that would run on this host; 0: one for each device
    int port;         // of the store, 29500 by default
    const char *peer; // host that ranks meet at (--master-addr); NULL: none
    bool python;      // also asks the python3 of PATH for its packages
    const doctor_machine *machine; // thresholds of this machine's type; NULL: the built-in ones
    // Numbers in the place of those that active checks would measure (measure/measure.h), for tests; NULL: they measure.
    const struct doctor_measured *measured;
};

typedef enum doctor_state {
    DOCTOR_PASSED,
    DOCTOR_FOUND,   // at least one finding
    DOCTOR_SKIPPED, // does not concern this machine
    DOCTOR_BLIND,   // could not read what it needs
} doctor_state;

typedef struct doctor_value {
    char *name, *text;
} doctor_value;

typedef struct doctor_finding {
    doctor_severity severity;
    doctor_value *value; // [count]
    size_t count, room;
} doctor_finding;

typedef struct doctor_number {
    char *key, *unit;
    double value;
    bool compares;
} doctor_number;

// What one check found. Also the argument of probes.
struct doctor_findings {
    const doctor_check *check;
    doctor_state state;
    char *why; // of DOCTOR_SKIPPED and DOCTOR_BLIND
    doctor_finding *finding;
    size_t count, room;
    doctor_number *number;
    size_t number_count, number_room;
    doctor_value *fact;
    size_t fact_count, fact_room;
    double seconds;
    status failed; // E_MEMORY where a call of a probe had none
};

typedef struct doctor_report {
    char *host;
    doctor_findings *of; // [count], in the order of the tables
    size_t count;
} doctor_report;

// ---- The tables

extern const doctor_table *const DOCTOR_TABLES[]; // registry.c; ends with NULL
const doctor_check *doctor_check_find(const char *code);
// Calls `visit` for every row, in order.
void doctor_check_each(void (*visit)(const doctor_table *t, const doctor_check *c, void *arg),
                       void *arg);

// ---- Running them

// Runs all checks up to `most`, or, where `codes` is given (ends with NULL), those alone, whatever their level. E_USAGE
// where a code does not exist, with the nearest one. The caller calls doctor_report_clear.
status doctor_run(const doctor_context *c, doctor_level most, const char *const *codes,
                  doctor_report *out, err *e);
void doctor_report_clear(doctor_report *r);
void doctor_findings_clear(doctor_findings *f);
// The worst severity of all findings; false where there is none.
bool doctor_worst(const doctor_report *r, doctor_severity *out);

// A text of a row with the values of a finding in the place of {names}. The caller frees *out.
status doctor_expand(const char *form, const doctor_finding *f, char **out, err *e);

// ---- Printing

// Adds a text of a row as a sentence: with a capital letter where its first word is a word, and not the name of a key.
void doctor_add_sentence(text *out, const char *sentence);
const char *doctor_severity_name(doctor_severity s); // "note", "warning", "error"
// A table of what was found: findings with what helps, then what could not be seen, then one line of what passed. With
// `all`, also each check that passed or was skipped.
void doctor_add_text(text *out, const doctor_report *r, bool all);
status doctor_to_json(const doctor_report *r, json_t **out, err *e);
// Reads what doctor_to_json wrote, on another host. E_USAGE where it is not that.
status doctor_from_json(const json_t *from, doctor_report *out, err *e);

#endif
