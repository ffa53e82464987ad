// environment.h -- the inside of this room: facts about variables, and the probes. Only files of this room include it.
#ifndef TRIREME_DOCTOR_ENVIRONMENT_ENVIRONMENT_H
#define TRIREME_DOCTOR_ENVIRONMENT_ENVIRONMENT_H

#include "doctor/check.h"

// Which values a variable may have.
typedef enum variable_kind {
    VARIABLE_WORD,       // one of the words, in any case
    VARIABLE_EXACT_WORD, // one of the words, as they are written
    VARIABLE_WORDS,      // some of the words with commas between them; "^" before: all others
    VARIABLE_NUMBER,     // a whole number from `least` to `most`
    VARIABLE_ON,         // any; it is looked at where it is on (1)
    VARIABLE_SET,        // any; it is looked at where it is set
} variable_kind;

// What is known of a variable. A row belongs to the check of this code.
typedef struct variable_fact {
    const char *code;
    const char *name;
    variable_kind kind;
    doctor_severity severity;
    const char *valid; // for people: "NVL, PIX, PXB"; also the words, with commas between them
    int64_t least, most;
    const char *effect; // what happens because of it, as the second half of a sentence
} variable_fact;

extern const variable_fact VARIABLE_FACTS[]; // ends with code NULL
// Names without their prefix; each list ends with NULL.
extern const char *const NCCL_NAMES[], *const TORCH_NCCL_NAMES[], *const TRIREME_NAMES[];

// Names that were replaced.
typedef struct variable_rename {
    const char *before, *now; // ends with before NULL
} variable_rename;
extern const variable_rename VARIABLE_RENAMES[];

// A variable's whole number; false where it is not set or is none.
bool environment_number(const doctor_context *c, const char *name, int64_t *out);
// Returns whether it is set and not empty; *value is it then.
bool environment_is_set(const doctor_context *c, const char *name, const char **value);

doctor_probe environment_probe_values, environment_probe_on, environment_probe_unknown,
    environment_probe_renamed, environment_probe_quotes, environment_probe_files,
    environment_probe_conf;
doctor_probe environment_probe_devices, environment_probe_stubs, environment_probe_cuda_mixed,
    environment_probe_preload, environment_probe_temporary, environment_probe_locale,
    environment_probe_threads, environment_probe_proxy;
doctor_probe environment_probe_ranks, environment_probe_master, environment_probe_twice,
    environment_probe_launchers, environment_probe_tf_config, environment_probe_left_over;

#endif
