// tuning.h -- functions that the dialects of fine-tuning systems share: trainer, trl, axolotl, llamafactory. Private to
// config/dialect/.
#ifndef TRIREME_CONFIG_DIALECT_TUNING_TUNING_H
#define TRIREME_CONFIG_DIALECT_TUNING_TUNING_H

#include "config/dialect/private.h"

// train.save_every or eval_every of a run whose files count other things than steps: more steps than any run has.
#define TUNING_NEVER "1000000000"

extern const char TUNING_NO_MONITOR[], TUNING_NO_UPLOAD[], TUNING_ATTENTION[], TUNING_KERNELS[],
    TUNING_ENCODED[], TUNING_READERS[], TUNING_NO_CODE[];

// The words of transformers' key optim, and ours. NULL: another optimizer. Those in 8 bits follow the same rule.
// clang-format off
#define TUNING_OPTIMIZER_WORDS \
    {"adamw_torch", "adamw"}, \
    {"adamw_torch_fused", "adamw"}, \
    {"adamw_torch_xla", "adamw"}, \
    {"adamw_torch_npu_fused", "adamw"}, \
    {"adamw_hf", "adamw"}, \
    {"adamw_apex_fused", "adamw"}, \
    {"adamw_anyprecision", "adamw"}, \
    {"adamw_bnb_8bit", "adamw"}, \
    {"adamw_8bit", "adamw"}, \
    {"adamw_torch_8bit", "adamw"}, \
    {"adamw_torch_4bit", "adamw"}, \
    {"paged_adamw_32bit", "adamw"}, \
    {"paged_adamw", "adamw"}, \
    {"paged_adamw_8bit", "adamw"}, \
    {"sgd", "sgd"}, \
    {"lion_32bit", "lion"}, \
    {"lion_8bit", "lion"}, \
    {"paged_lion_32bit", "lion"}, \
    {"paged_lion_8bit", "lion"}, \
    {"adafactor", NULL}, \
    {"adagrad", NULL}, \
    {"ademamix", NULL}, \
    {"ademamix_8bit", NULL}, \
    {"paged_ademamix_32bit", NULL}, \
    {"paged_ademamix_8bit", NULL}, \
    {"rmsprop", NULL}, \
    {"rmsprop_bnb", NULL}, \
    {"rmsprop_bnb_8bit", NULL}, \
    {"rmsprop_bnb_32bit", NULL}, \
    {"galore_adamw", NULL}, \
    {"galore_adamw_8bit", NULL}, \
    {"galore_adafactor", NULL}, \
    {"galore_adamw_layerwise", NULL}, \
    {"galore_adamw_8bit_layerwise", NULL}, \
    {"galore_adafactor_layerwise", NULL}, \
    {"lomo", NULL}, \
    {"adalomo", NULL}, \
    {"grokadamw", NULL}, \
    {"schedule_free_radam", NULL}, \
    {"schedule_free_adamw", NULL}, \
    {"schedule_free_sgd", NULL}, \
    {"apollo_adamw", NULL}, \
    {"apollo_adamw_layerwise", NULL}, \
    {"stable_adamw", NULL}
// The words of transformers' lr_scheduler_type, and ours of lr_schedule.lr_decay_style.
#define TUNING_SCHEDULE_WORDS \
    {"linear", "linear"}, \
    {"cosine", "cosine"}, \
    {"constant", "constant"}, \
    {"constant_with_warmup", "constant"}, \
    {"inverse_sqrt", "inverse-square-root"}, \
    {"polynomial", "linear"}, \
    {"cosine_with_min_lr", "cosine"}, \
    {"cosine_with_restarts", "cosine"}, \
    {"warmup_stable_decay", "WSD"}, \
    {"cosine_warmup_with_min_lr", NULL}, \
    {"reduce_lr_on_plateau", NULL}, \
    {"greedy", NULL}
// clang-format on
extern const char *const TUNING_OPTIMIZERS[][2], *const TUNING_SCHEDULES[][2]; // of these words

// ---- values

double tuning_number(const dialect_reader *r, const char *theirs, double otherwise);
// Returns whether the file gives a key, null and "auto" included.
bool tuning_is_given(const dialect_reader *r, const char *theirs);
// Sets our key to a text in quotes.
status tuning_set_text(const dialect_reader *r, const char *key, const char *value,
                       const char *theirs, const char *note, err *e);
// Sets our key to a list: theirs, or the words between commas of theirs.
status tuning_set_list(const dialect_reader *r, const char *key, const yaml_node *n,
                       const char *theirs, const char *note, err *e);
// Includes a file of DeepSpeed that a key names, or its keys themselves.
status tuning_deepspeed(const dialect_reader *r, const char *theirs, err *e);

// ---- model

// Sets model.path to a folder, or to the snapshot of a model in the hub's cache. A model that is in neither is a remark.
// `revision` is a key; NULL: main.
status tuning_model(const dialect_reader *r, const char *theirs, const char *revision, err *e);
// Adds a remark at a key that names a chat template: that of the model's folder is used. Refuses one where the folder is
// there and has none.
status tuning_template(const dialect_reader *r, const char *theirs, const char *model, err *e);

// ---- data

typedef struct tuning_source {
    char *path;
    const char *format; // NULL: not given
    double share;       // of the mixture; 0: not given
} tuning_source;

// Sources of data.train while a file is read. Start with {0}; the owner calls tuning_sources_clear.
typedef struct tuning_sources {
    tuning_source *item; // [count]
    size_t count, room;
    bool
        repeats; // shares count until the last source runs out, so that others are repeated; else until the first does
} tuning_sources;

void tuning_sources_clear(tuning_sources *s);
// The path of a file: as it is, or beside the file that names it. An empty text where it is in neither.
status tuning_find_file(const dialect_reader *r, const char *name, const char *folder, text *out,
                        err *e);
// Adds the file at `path`, which is copied. A share of 0 is not given; a format may be NULL.
status tuning_sources_add(tuning_sources *s, const char *path, const char *format, double share,
                          err *e);
// Sets our key. Shares of the mixture become weights, which say how often a file's samples are taken.
status tuning_sources_set(const dialect_reader *r, const tuning_sources *s, const char *key,
                          const char *theirs, err *e);
// Adds a remark that a data set is no JSONL file here.
status tuning_no_data(const dialect_reader *r, const char *theirs, const char *name, err *e);
// Sets data.seq_len of preferences from their limit of one answer: a row has two, and one that is too long has half of it.
status tuning_pair_length(const dialect_reader *r, const char *theirs, err *e);
// Returns whether the first line of a JSONL file has both keys.
bool tuning_first_line_has(const char *path, const char *a, const char *b);

// ---- losses of pairs

// dpo.loss_type of one word of theirs, which is TRL's; NULL: another loss.
const char *tuning_dpo_loss(const yaml_node *n);
// Refuses what a key of theirs says instead. `valid` stands before the words of dpo.loss_type.
status tuning_refuse_loss(const dialect_reader *r, const char *theirs, const yaml_node *n,
                          const char *valid, err *e);

// ---- adapters

// Keys of theirs that make a LoRA. NULL: their system has none.
typedef struct tuning_lora {
    const char *rank, *alpha, *dropout, *target, *rslora, *save;
} tuning_lora;

// Sets lora.* from these keys. Targets all, all-linear and all_linear are all-linear.
status tuning_lora_set(const dialect_reader *r, const tuning_lora *k, err *e);

// ---- schedule of the learning rate, as transformers computes it

typedef struct tuning_schedule {
    const char *name, *name_key; // a word of transformers, and the key that it stands at
    const char *kwargs;          // a section
    const char *rate;            // the key of the learning rate
} tuning_schedule;

// Sets lr_schedule, but for the warm-up.
status tuning_schedule_set(const dialect_reader *r, const tuning_schedule *s, err *e);
// Sets the warm-up: a number of steps from 1, or a share of the run below 1.
status tuning_warmup_set(const dialect_reader *r, double warmup, const char *theirs,
                         const char *note, err *e);
typedef struct tuning_optimizer {
    const char *name, *beta1, *beta2, *eps; // keys
} tuning_optimizer;
// Sets optimizer.name and what belongs to it from a word of transformers.
status tuning_optimizer_set(const dialect_reader *r, const tuning_optimizer *k, err *e);

#endif
