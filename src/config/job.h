// job.h -- the internal job: every key of the job file, resolved. Dialects fill this struct and
// nothing else; nobody else reads configuration.
//
// job_keys.c holds one table row per key: dotted path, type, default, range or words, help.
// Parsing, overriding, explaining, writing job.yaml, and comparing for --resume all walk that
// table.
#ifndef TRIREME_CONFIG_JOB_H
#define TRIREME_CONFIG_JOB_H

#include "base/err.h"
#include "base/text.h"
#include "data/dataset.h"
#include "data/sampler.h"
#include "model/config.h"
#include "optim/lr.h"
#include "optim/optim.h"
#include "optim/scaler.h"
#include "parallel/plan.h"

typedef enum resume_mode { RESUME_AUTO, RESUME_NEVER, RESUME_FROM } resume_mode;
typedef enum nonfinite_action {
    NONFINITE_STOP,
    NONFINITE_SKIP,
    NONFINITE_ACTIONS
} nonfinite_action;

// What a call of a program says of keys: "--key=value", or YAML as a job file has it.
typedef struct job_call {
    bool is_yaml;
    char *text;
} job_call;

// What a program that uses the library brings itself. The job must not name it, too.
typedef struct job_own {
    bool model, train, valid;
    bool by_calls;        // its keys are set by calls: errors name them without the "--" of a flag
    const job_call *call; // what it says of keys, in order; it wins over file and arguments
    int calls;
    int64_t positions; // of a sample of its training data; 1 for samples that are not sequences
} job_own;

typedef struct job {
    job_own own; // all false: everything comes from the job
    struct {
        char *path;          // NULL when a family is given
        char *init;          // auto | random | checkpoint
        model_config config; // resolved: from path/config.json, or the family's keys; not used when
                             // the model is the program's own
        bool eos_of_data;    // config.eos is what ends the documents of data.train
        bool has_weights;    // path holds safetensors and init does not say random
    } model;
    struct {
        data_part *train, *valid;
        size_t trains, valids;
        int64_t seq_len;
        sample_order order;
        bool allow_tokenizer_mismatch;
        uint64_t mock_samples; // how many samples `mock` has
    } data;
    struct {
        int64_t steps;  // resolved from steps, epochs or tokens by job_resolve_steps
        double epochs;  // 0 when not given
        int64_t tokens; // 0 when not given
        int64_t global_batch, micro_batch; // micro_batch 0 = auto until job_solve_batch
        uint64_t seed;
        dtype precision;
        scaler_options fp16; // read where precision is F16
        double clip_grad_norm;
        int64_t eval_every, eval_batches, save_every, keep;
        char *out;
    } train;
    optim_config optimizer;
    lr_scaling scaling;
    lr_config lr;
    strategy strategy; // owns its path and its chunk_blocks (layers of `split`, and the blocks of
                       // embedding and head)
    struct {
        int dp_shard;     // 0: auto, the ranks that the other axes leave (job_solve_mesh)
        int dp_replicate; // as given; the mesh may have more replicas
        int tp, pp;
        int *split; // [splits] layers of each model chunk; NULL: auto
        size_t splits;
    } parallel;
    struct {
        int64_t budget; // bytes; 0 = auto
        bool fit;       // change the strategy until it fits
    } memory;
    struct {
        int ranks;            // resolved: auto = one a core, or as many as the mesh needs
        int threads_per_rank; // resolved: auto = cores / ranks, at least 1; never more than cores
        bool as_threads;
        char *device;
    } launch;
    struct {
        int64_t replicas_every; // 0 = never
        nonfinite_action nonfinite;
        int64_t watchdog_ms; // 0 = off
    } checks;
    resume_mode resume; // --resume; not a key of the file
    char *resume_from;
    bool quiet, overwrite;     // --quiet, --overwrite
    text warnings;             // lines for the user about values that have no effect; owned
    struct job_values *values; // private to config/: text, origin and line of every key
} job;

// Reads JOB.yaml, applies `--key value`, `--key=value` and flags (--resume, --quiet, --overwrite)
// in args, checks every value by itself and against the others, reads model.path/config.json. path
// NULL: only args. Paths become absolute. E_USAGE with one line "file:line: key: found …; valid: …;
// did you mean …?". Nothing on disk is changed.
status job_open(const char *path, int argc, char *const *argv, job **out, err *e);
// The same for a program that brings a part of the job itself: that part need not be named, and it
// is an error to name it.
status job_open_own(const char *path, int argc, char *const *argv, const job_own *own, job **out,
                    err *e);
void job_close(job *j); // NULL allowed
// Checks each key of the file (NULL: none) and of one call (NULL: none) by itself, not against the
// others: what can be said while a program is still putting its job together.
status job_check_settings(const char *path, const job_call *call, err *e);

// The mesh of `ranks` ranks. dp_shard auto takes what the other axes leave; where nothing is ever
// sharded on it (ddp) those ranks are replicas instead. E_USAGE names launch.ranks, what the sizes
// make, and the nearest valid numbers. That of launch.ranks is checked by job_open.
status job_solve_mesh(const job *j, int ranks, mesh *out, err *e);

// Can this machine start launch.ranks ranks? A mesh to be planned may have more (MESH_RANKS).
// E_USAGE.
status job_check_local(const job *j, err *e);

// The batch rule: global_batch = micro_batch * accumulation * data-parallel ranks. micro_batch
// auto: the largest divisor of a data-parallel rank's share that is <= micro_limit (0: no limit),
// and with a pipeline leaves at least 2 pp micro-batches, as far as there are so many. E_USAGE
// lists the nearest valid global batches and the valid numbers of ranks. A given micro_batch is
// checked by job_open.
status job_solve_batch(job *j, int ranks, int64_t micro_limit, err *e);
// steps from epochs or tokens, once the number of samples is known; fills lr.total_steps.
status job_resolve_steps(job *j, uint64_t samples, err *e);

// The id that ends the documents of data.train becomes the end token of a model that is given by
// its family, unless the job names one itself, or an earlier call did.
void job_set_end_token(job *j, int64_t id);

// `changed` is a plain copy of j with other values in some keys. What differs, as arguments:
// "--train.micro_batch 2 --parallel.dp zero2"; nothing where nothing does.
void job_describe_changes(const job *j, const job *changed, text *out);
// Makes them j's own; explain names `who` (a literal) as their origin.
status job_take_changes(job *j, const job *changed, const char *who, err *e);

// Complete: `trireme train out/job.yaml` repeats the run from any folder, and writing what was read
// back gives the same bytes.
void job_write_yaml(const job *j, text *out);
// Every effective value and its origin: default | default (auto) | file:line | command line |
// config.json. json: an object of {"value", "origin"} by dotted path.
void job_explain(const job *j, bool json, text *out);

// A key as help tells it. Strings are borrowed from the table of keys.
typedef struct key_help {
    const char *path, *help;  // dotted; a sentence that says what the key does
    const char *type, *unit;  // "whole number"; "tokens", or NULL
    text fallback, valid;     // the default, "-" when there is none; what may stand there
    text read_with, also;     // other keys that must say so for this one to be read; other names of
                              // the key or of its values; empty: none
    const char *const *words; // valid words, ended by NULL; NULL: none
    const char *special;      // another valid word: auto, null; NULL: none
    bool may_change;          // when a run goes on
} key_help;

// Calls visit for every key, in order; the texts live until it returns.
void job_help_each(void (*visit)(const key_help *k, void *arg), void *arg);
// Every key of the job file with its default, what is valid, and what it does.
void job_help(text *out);
// The same of one key, with all that is known of it, or of the keys of a section. E_USAGE: there is
// none of that name, did you mean …
status job_help_topic(const char *word, text *out, err *e);
// The name under which `word`, a key or a section, is known to help: itself, or that of a model's
// field by HuggingFace's name. NULL: there is none.
const char *job_help_find(const char *word);
// A key's value in this job and where it came from. False: the job does not read the key.
bool job_find_value(const job *j, const char *path, text *value, text *from);
// Compares with the job.yaml of an earlier run in the same `out`. *different receives the keys that
// differ and may not (train.steps, cadences, launch, parallel, memory, checks may) with both
// values; nothing where the job is the same. E_USAGE when the file is not one.
status job_compare_run(const job *j, const char *old_yaml_path, text *different, err *e);
// The same of the model: appends the fields of folder's config.json that make it another model than
// the job's. Dropout, initialisation and token ids do not. E_USAGE when it is no model folder.
status job_compare_model(const job *j, const char *folder, text *different, err *e);

#endif
