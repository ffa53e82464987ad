// lora.h -- which tensors of a model have low-rank adapters, and of which rank: the settings of PEFT's LoraConfig, and
// its adapter_config.json (lora_file.c). config/ fills them from the job, train/ and infer/ trace models with them
// (model_options.adapter_of). They know neither a model nor its weights.
#ifndef TRIREME_MODEL_LORA_H
#define TRIREME_MODEL_LORA_H

#include "base/err.h"
#include "graph/param.h"

struct model;
struct model_param;

// A number for the modules that a name, or a regular expression, matches.
typedef struct model_lora_number {
    char *name;
    double value;
} model_lora_number;

// A module is called as its tensor without ".weight". Names of modules match a whole name, or its end behind a dot.
typedef struct model_lora {
    int64_t rank;    // 0: no adapters
    double alpha;    // 0: the rank
    double dropout;  // of what A reads
    bool rslora;     // the scale is alpha / sqrt(rank); else alpha / rank
    char **targets;  // [target_count] names; all-linear; or one regular expression of whole names
    char **excluded; // [excluded_count] the same of modules without adapters
    char **saved;    // [saved_count] names of modules that train, and that the adapter's files hold
    int *layers;     // [layer_count] the layers with adapters, from 0; none: all
    model_lora_number *ranks, *alphas; // [rank_count], [alpha_count] of some modules
    bool transposed; // of an adapter's files: the base has the weights as [in, out]
    size_t target_count, excluded_count, saved_count, layer_count, rank_count, alpha_count;
} model_lora;

void model_lora_clear(model_lora *l);
// The adapter of a tensor that a linear layer reads, for model_options.adapter_of. `lora` is a const model_lora *.
graph_adapter model_lora_find(const void *lora, const char *tensor);
// Does training change the tensor: is it a factor of an adapter, or of a module that is saved?
bool model_lora_trains(const void *lora, const char *tensor);
bool model_lora_trains_param(const model_lora *l,
                             const struct model_param *p); // the same of a parameter
// Returns whether a name is a regular expression: it has a character that names do not have.
bool model_lora_is_regex(const char *name);
// E_USAGE where a regular expression cannot be read, or is one that POSIX does not have. *key: the key of PEFT that has
// it.
status model_lora_check(const model_lora *l, const char **key, err *e);
// Checks the names against a model that was traced with them. E_USAGE names the first that matches nothing, or no linear
// layer that takes adapters; *key as above.
status model_lora_check_model(const model_lora *l, const struct model *m, const char **key, err *e);

// ---- The files of PEFT (lora_file.c)

#define MODEL_LORA_CONFIG  "adapter_config.json"
#define MODEL_LORA_WEIGHTS "adapter_model.safetensors"
#define MODEL_LORA_PREFIX  "base_model.model." // before the model's names in the file of weights

// Returns whether the folder holds an adapter.
status model_lora_in_folder(const char *folder, bool *found, err *e);
// Reads the folder's adapter_config.json. *base (NULL allowed; owned by the caller) is the base that it names, NULL: none.
// E_USAGE names what Trireme does not compute.
status model_lora_read(const char *folder, model_lora *out, char **base, err *e);
// Writes it for adapters of model `m`, which was traced with them. `base` NULL: it names none. The caller frees *json.
status model_lora_write(const model_lora *l, const struct model *m, const char *base, char **json,
                        err *e);

#endif
