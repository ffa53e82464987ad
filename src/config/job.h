// job.h -- the job: the value of every key of the job file, checked and resolved. The commands, the
// library and session/ read it. No other folder reads job files or arguments.
//
// job_keys.c holds one table row for each key: dotted path, type, default, range or words, help.
// A second table has the keys of a parameter group. The code that parses, overrides, explains, writes job.yaml and compares jobs walks these tables.
#ifndef TRIREME_CONFIG_JOB_H
#define TRIREME_CONFIG_JOB_H

#include "base/err.h"
#include "base/text.h"
#include "data/batch_split.h"
#include "data/dataset.h"
#include "data/sampler.h"
#include "data/samples/samples.h"
#include "device/device.h"
#include "model/config.h"
#include "model/lora.h"
#include "optim/lr.h"
#include "optim/optim.h"
#include "optim/param_group.h"
#include "optim/scaler.h"
#include "parallel/plan.h"

typedef enum resume_mode { RESUME_AUTO, RESUME_NEVER, RESUME_FROM } resume_mode;
typedef enum nonfinite_action {
    NONFINITE_STOP,
    NONFINITE_SKIP,
    NONFINITE_ACTIONS
} nonfinite_action;

// The words of train.precision. All but the last are the types of activations and compute weights; tf32 is
// fp32 whose products of linear layers round their factors to TF32.
typedef enum train_precision {
    PRECISION_FP32 = F32,
    PRECISION_BF16 = BF16,
    PRECISION_FP16 = F16,
    PRECISION_TF32,
    PRECISION_WORDS
} train_precision;

// A call of a program that sets keys.
typedef enum job_call_kind {
    JOB_CALL_OPTION, // "--key=value"
    JOB_CALL_YAML,   // YAML as in a job file
    JOB_CALL_GROUP,  // YAML of an entry, which is appended to the list `groups`
    // Configurations of other systems, "--deepspeed=…". They count as on the command line: calls of the kinds above and
    // keys of arguments override them, before and after.
    JOB_CALL_DIALECT,     // a file
    JOB_CALL_DIALECT_TEXT // its text
} job_call_kind;
typedef struct job_call {
    job_call_kind kind;
    char *text;
} job_call;

// An entry of the list `groups`. job_solve_groups adds the settings that it does not give.
typedef struct job_group {
    param_group value; // the settings that the entry gives; owns `match`
    unsigned given;    // bits of the rows of GROUP_KEYS that the entry gives
} job_group;

// The command line of another system's trainer, which a command takes in place of a job file.
typedef struct job_theirs {
    const char *dialect;
    const char *file; // its configuration; NULL: none
    int argc;
    char *const *argv; // its options, which override the file
} job_theirs;

// A machine that a job is planned for, and that need not be this one.
typedef struct job_planned {
    device_description device; // of one rank; free_bytes 0: not known
    const char *communicator;  // of several ranks; NULL: as launch.comm says
    int ranks_per_host, hosts; // hosts 0: as many as the job asks for
    uint64_t host_bytes;       // memory of a host; 0: not known
} job_planned;

// The parts of a job that a program brings by itself, and that its job file must not name, too; and what another
// launcher has decided.
typedef struct job_own {
    bool model, train, valid;
    bool by_calls;        // calls set the keys: errors name keys without the "--" of a flag
    const job_call *call; // [calls] in order; they override the file and the arguments
    int calls;
    const job_theirs *theirs; // NULL: none
    int64_t positions;        // of a training sample; 1 where samples are not sequences
    const char
        *launcher; // that has started a process for each rank; NULL: Trireme starts the ranks
    int ranks, local_ranks;     // that it has started: on all hosts, and on this one
    bool only_plans;            // nothing runs: this machine may lack the device
    const job_planned *planned; // borrowed while the job is open; NULL: this machine
} job_own;

typedef enum job_loss {
    LOSS_AUTO,
    LOSS_CROSS_ENTROPY,
    LOSS_MSE,
    LOSS_DPO,
    LOSS_ORPO,
    LOSS_KTO,
    JOB_LOSSES
} job_loss;

// The keys of a preference loss; each loss has some of them.
typedef struct job_preference {
    double beta, smoothing, tau, desirable, undesirable;
    int kind;        // the place of a word of loss_type
    char *reference; // a folder; NULL: the weights at the start
} job_preference;

typedef struct job {
    job_own own; // all false: the job names everything
    struct {
        char *path;           // NULL when a family is given
        char *init;           // auto | random | checkpoint
        int family;           // index of MODEL_FAMILIES; read where path is NULL
        storage_type storage; // of the frozen weights of linear layers
        model_config config;  // from path/config.json or the family's keys; a program's own model
                              // leaves it unused
        bool eos_of_data;     // config.eos is the token that ends the documents of data.train
        bool has_weights;     // initial weights are read from path
    } model;
    struct {
        model_lora how; // rank 0: no adapters, and all else is unread
        char *
            start; // the folder of an adapter whose weights training starts from; NULL: they are drawn
    } lora;
    struct {
        dataset_source *train, *valid;
        size_t trains, valids;
        int64_t seq_len;
        sampler_order order;
        // Of samples (data/samples): how lines are read, what has labels, how they come into rows.
        samples_format format;
        chat_train_on train_on;
        samples_packing packing;
        samples_truncate truncate;
        bool allow_tokenizer_mismatch;
        uint64_t mock_samples; // number of samples of `mock`
    } data;
    struct {
        int64_t steps;                     // job_resolve_steps sets it from epochs or tokens
        double epochs;                     // 0: not given
        int64_t tokens;                    // 0: not given
        int64_t global_batch, micro_batch; // sequences; micro_batch 0: auto, until job_solve_batch
        int64_t accumulation;              // micro-batches; 0: not given, or solved
        uint64_t seed;
        train_precision precision; // job_dtype is the type that it means
        bool deterministic;        // two runs of the job give the same bits
        scaler_options fp16;       // read only where precision is PRECISION_FP16
        double clip_grad_norm;
        int64_t eval_every, eval_batches, save_every, keep;
        bool async_save; // checkpoints are written beside steps
        bool keep_best;  // the checkpoint of the lowest loss on data.valid
        struct {
            int64_t patience; // evaluations; 0: off
            double threshold; // of loss
        } early_stopping;
        char *out;
        job_loss loss;
    } train;
    job_preference dpo, orpo, kto; // each is read where train.loss names it
    optim_config optimizer;
    lr_scaling scaling;
    lr_config lr;
    strategy strategy; // owns its path and its chunk_blocks (layers of `split`, and the blocks of
                       // embedding and head)
    struct {
        // As given; the mesh may have more replicas. DP_SHARD 0: auto, the ranks that the other axes leave
        // (job_solve_mesh).
        int size[AXES];
        int *split; // [splits] layers of each model chunk; NULL: auto
        size_t splits;
        // [batch_splits] sequences of a micro-batch of each data-parallel rank; NULL: even. The one number 0: the
        // ranks measure their speed (job_measures_split).
        int *batch_split;
        size_t batch_splits;
    } parallel;
    job_group *group; // [groups] in the order of the file
    int groups;
    struct {
        int64_t budget; // bytes of a rank; 0: auto
        bool fit;       // change the strategy until the job fits
    } memory;
    struct {
        int ranks;            // auto: one per GPU or core, or as many as the mesh needs
        int threads_per_rank; // auto: cores / ranks; at least 1 and at most the cores
        bool as_threads;
        char *device;     // a name: `auto` is resolved
        char *passed;     // why `auto` has passed over a device, in one line; NULL: it has not
        char *comm;       // a word of comm_open, for several ranks
        bool cuda_graphs; // a step is recorded and replayed where the device can
    } launch;
    struct {
        int64_t replicas_every; // steps; 0: never
        nonfinite_action nonfinite;
        int64_t watchdog_ms;  // 0: off
        bool desync;          // ranks compare each collective before it runs
        int64_t record_calls; // of the flight recorder; 0: off
        char *record_prefix;  // of its files; NULL: job_record_prefix has the default
    } checks;
    struct {
        int64_t trace_first, trace_last; // steps that are traced, from 1; 0: none
        char *prometheus;                // [ADDRESS:]PORT; NULL: off
        char *textfile;                  // absolute; NULL: off
        bool tensorboard, csv, grad_norm_by_group;
    } observe;
    resume_mode resume; // --resume; not a key of the file
    char *resume_from;
    bool quiet, overwrite, json; // --quiet, --overwrite and --json; not keys of the file
    text warnings;               // a line for each value that has no effect
    text notes;                  // a line for each choice that the user may not expect
    struct job_values *values;   // private to config/: text, origin and line of every key
} job;

// Reads the job file at `path` (NULL: none), applies `--key value`, `--key=value` and the flags
// --resume, --quiet, --overwrite and --json in argv, reads model.path/config.json, and checks each value by
// itself and against the others. Paths become absolute. Changes nothing on disk. E_USAGE with one
// line "file:line: key: found …; valid: …; did you mean …?".
status job_open(const char *path, int argc, char *const *argv, job **out, err *e);
// The same for a program that brings parts of the job by itself. E_USAGE where the job names one of
// these parts.
status job_open_own(const char *path, int argc, char *const *argv, const job_own *own, job **out,
                    err *e);
void job_close(job *j); // NULL allowed

// The type of activations and compute weights, and the word of train.precision.
dtype job_dtype(const job *j);
const char *job_precision_name(const job *j);
const char *job_loss_name(const job *j); // the word of train.loss
// Appends an entry of `groups` as YAML, for JOB_CALL_GROUP. `settings` are keys of the entry as
// "lr_scale: 2, weight_decay: 0"; NULL: none.
void job_write_group(const char *match, const char *settings, text *out);
// Checks each key of the file (NULL: none) and of call[calls] by itself, not against the others,
// while a program is still setting keys.
status job_check_settings(const char *path, const job_call *call, int calls, err *e);

// The ranks that this machine starts: all, where no other launcher has started some elsewhere.
static inline int job_local_ranks(const job *j)
{
    return j->own.local_ranks ? j->own.local_ranks : j->launch.ranks;
}
// The device of the job's ranks, of the machine that the job is planned for or else of this one. Errors are those of
// device_describe.
status job_describe_device(const job *j, const device_options *o, device_description *out, err *e);

// The mesh of `ranks` ranks. dp_shard auto takes the ranks that the other axes leave; under ddp,
// which shards nothing, they become replicas. E_USAGE names launch.ranks, the product of the sizes
// and the nearest valid numbers. job_open has checked the mesh of launch.ranks.
status job_solve_mesh(const job *j, int ranks, mesh *out, err *e);

// Appends the prefix of the flight recorder's files, to which the rank's number is added.
void job_record_prefix(const job *j, text *out);

// E_USAGE where this machine cannot start launch.ranks ranks. A mesh that is only planned may have
// more (MESH_RANKS).
status job_check_local(const job *j, err *e);

// The parameter groups of the job: *out[*count]. What an entry does not give is the job's own
// setting, or the default of an optimizer that is not the job's. Group `groups` has match NULL and
// the job's own settings. With adapters these are for the tensors that train, and as many groups, frozen, follow for
// those of the base. Patterns and job are borrowed; the caller frees *out.
status job_solve_groups(const job *j, param_group **out, int *count, err *e);
// Puts "file:line: groups[1].lr_scale: " before the text of *e. `key` is one of an entry.
void job_place_group(const job *j, int group, const char *key, err *e);
// The same for a key of the section lora.
void job_place_lora(const job *j, const char *key, err *e);

// Whether ranks measure their speed before step 1 and agree on a split of the batch. Until then it is even.
bool job_measures_split(const job *j);
// The micro-batches of the data-parallel ranks of a mesh; the split borrows the job's list. A micro-batch that is
// not solved counts as one sequence.
batch_split job_batch_split(const job *j, const mesh *m);
// E_USAGE where the list has not one number for each data-parallel rank of m, which a plan may try in place of the
// job's own mesh.
status job_check_split(const job *j, const mesh *m, err *e);
// Makes j have the split of[ranks], which it borrows, for a copy that is written.
void job_set_split(job *j, const int *of, int ranks);
// Takes the list of an earlier run from its job.yaml, where that has one for the ranks of this job.
status job_take_split(job *j, const char *old_yaml_path, err *e);
// The micro-batches of each rank in a step.
int64_t job_micro_batches(const job *j, const mesh *m);

// Solves the batch rule: global_batch = micro_batch * accumulation * data-parallel ranks.
// micro_batch auto becomes the largest divisor of the sequences of a data-parallel rank that is at
// most `micro_limit` (0: no limit). With a pipeline it leaves at least 2 pp micro-batches where the
// batch has so many. E_USAGE lists the nearest valid global batches and the valid numbers of ranks.
// job_open has checked a given micro_batch.
status job_solve_batch(job *j, int ranks, int64_t micro_limit, err *e);
// Sets train.steps from epochs or tokens, which needs the number of samples, and lr.total_steps.
status job_resolve_steps(job *j, uint64_t samples, err *e);

// Makes the id that ends the documents of data.train the end token of a model that the job gives by
// its family. It does nothing where the job names an end token or an earlier call set one.
void job_set_end_token(job *j, int64_t id);

// `changed` is a plain copy of j with other values in some keys. Appends these keys as arguments:
// "--train.micro_batch 2 --parallel.dp zero2".
void job_describe_changes(const job *j, const job *changed, text *out);
// Sets these keys in j. explain names `origin` (a literal) as the origin of their values.
status job_take_changes(job *j, const job *changed, const char *origin, err *e);

// Appends every effective value as a job file: `trireme train out/job.yaml` repeats the run from
// any folder. A job that is read from this text writes the same bytes.
void job_write_yaml(const job *j, text *out);
// Appends every effective value with its origin: default, default (auto), file:line, command line,
// config.json. With `json`, one object of {"value", "origin"} by dotted path.
void job_explain(const job *j, bool json, text *out);

// Appends what configurations of other systems over the job hold beside its keys: a line for each, or with `json` the list
// "other_systems" of {"text", "lost"} behind a comma.
void job_explain_remarks(const job *j, bool json, text *out);

// Appends the job file that configurations of another system mean: file[files] of `dialect` (deepspeed, accelerate, …),
// under the keys of argv. Each line says where it comes from; comments say what has no equal. The job is checked as a whole
// where it names a model and data. `json`: one object {"settings", "remarks", "effective"}, in which `effective` has their
// own value of every key. E_USAGE with one line as job_open's.
status job_translate(const char *dialect, int files, char *const *file, int argc, char *const *argv,
                     bool json, text *out, err *e);

// The description of a key that help prints. Strings are borrowed from the table of keys.
typedef struct key_help {
    const char *path, *help;  // dotted; a sentence that says what the key does
    const char *type, *unit;  // "whole number"; "tokens", or NULL
    text fallback;            // the default; "-": none
    text valid;               // the valid values
    text read_with;           // values of other keys with which this key is read; empty: always
    text also;                // other names of the key or of its values; empty: none
    const char *const *words; // valid words, ended by NULL; NULL: none
    const char *special;      // another valid word: auto, null; NULL: none
    bool may_change;          // a resumed run may have another value
    bool of_entry;            // a key of an entry of a list; it is no flag
} key_help;

// Calls `visit` for every key in order. The texts of k live until `visit` returns.
void job_help_each(void (*visit)(const key_help *k, void *arg), void *arg);
// Appends every key with its default, valid values and help.
void job_help(text *out);
// Appends everything about one key, or the keys of a section. E_USAGE for an unknown name, with the
// nearest one.
status job_help_topic(const char *word, text *out, err *e);
// The name of a key or section in help: `word` itself, or Trireme's name of a model field that
// `word` names as HuggingFace does. NULL: unknown.
const char *job_help_find(const char *word);
// Appends a key's value in this job and its origin; for a key of an entry the whole list. False: the
// job does not read the key.
bool job_find_value(const job *j, const char *path, text *value, text *from);
// Compares the job with the job.yaml of an earlier run in the same folder. Appends the keys that
// must not change when the run resumes and differ, with both values. E_USAGE where the file is not
// a job.
status job_compare_run(const job *j, const char *old_yaml_path, text *different, err *e);
// Compares the job's model with the one in `folder`. Appends the fields that make it another model;
// dropout, initialization and token ids do not. E_USAGE where the folder holds no model.
status job_compare_model(const job *j, const char *folder, text *different, err *e);

#endif
