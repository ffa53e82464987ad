// trl_finish.c -- what several keys of TRL decide together: the command, the loss, data, packing, the adapter. trl.c has
// the rows. See trl.h.
#include "config/dialect/tuning/trl.h"

#include <string.h>
#include <strings.h>

// Keys that a command alone has.
static const char *const OF_COMMAND[][2] = {
    {"desirable_weight", "kto"},  {"undesirable_weight", "kto"},       {"beta", "dpo"},
    {"ld_alpha", "dpo"},          {"precompute_ref_log_probs", "dpo"}, {"sync_ref_model", "dpo"},
    {"label_smoothing", "dpo"},   {"f_divergence_type", "dpo"},        {"loss_weights", "dpo"},
    {"max_prompt_length", "dpo"}, {"ref_model_name_or_path", "dpo"},   {NULL, NULL}};

// The command that reads the file: the one that is given, or else the one that has a key of the file. *theirs is the key
// that says so.
static const char *command_of(const dialect_reader *r, const char **theirs)
{
    *theirs = "command";
    if (dialect_value(r, *theirs)) return dialect_text(r, *theirs);
    for (int i = 0; OF_COMMAND[i][0]; i++) {
        *theirs = OF_COMMAND[i][0];
        if (dialect_value(r, *theirs)) return OF_COMMAND[i][1];
    }
    *theirs = "command";
    return "sft";
}

// ---- loss

// Sets dpo.loss_type or kto.loss_type, and refuses a loss that is not the command's own.
static status finish_type_of_loss(const dialect_reader *r, const char *command, err *e)
{
    static const char *const OWN[][2] = {
        {"sft", "nll"}, {"sft", "chunked_nll"}, {"kto", "kto"}, {"kto", "apo_zero_unpaired"}};
    const yaml_node *n = dialect_value(r, "loss_type");
    if (!n) return OK;
    if (n->kind == NODE_LIST && n->first && !n->first->next) n = n->first;
    const char *loss = strcasecmp(command, "dpo") == 0 ? tuning_dpo_loss(n) : NULL;
    if (loss) return dialect_set(r, "dpo.loss_type", loss, "loss_type", NULL, e);
    for (size_t i = 0; n->kind == NODE_SCALAR && i < sizeof OWN / sizeof *OWN; i++)
        if (strcasecmp(OWN[i][0], command) == 0 && strcasecmp(OWN[i][1], n->scalar) == 0)
            return i < 2 ? OK : dialect_set(r, "kto.loss_type", OWN[i][1], "loss_type", NULL, e);
    return tuning_refuse_loss(
        r, "loss_type", n, "nll of trl sft; kto, apo_zero_unpaired of trl kto; of trl dpo one of",
        e);
}

static status finish_kto(const dialect_reader *r, err *e)
{
    status result = OK;
    TRY(dialect_set_number(r, "kto.beta", tuning_number(r, "beta", 0.1), "beta", NULL, e));
    TRY(dialect_set_number(r, "kto.desirable_weight", tuning_number(r, "desirable_weight", 1),
                           "desirable_weight", NULL, e));
    TRY(dialect_set_number(r, "kto.undesirable_weight", tuning_number(r, "undesirable_weight", 1),
                           "undesirable_weight", NULL, e));
done:
    return result;
}

// The folder of the reference, where it is another one than the start.
static status finish_reference(const dialect_reader *r, err *e)
{
    static const char KEY[] = "ref_model_name_or_path";
    const char *name = dialect_text(r, KEY), *model = dialect_text(r, "model_name_or_path");
    if (!name || (model && strcmp(name, model) == 0)) return OK;
    return tuning_set_text(r, "dpo.reference", name, KEY, NULL, e);
}

// Numbers that one type of loss reads. TRL smooths the labels of robust and exo_pair only.
static status finish_shape_of_loss(const dialect_reader *r, err *e)
{
    status result = OK;
    static const char SMOOTHING[] = "label_smoothing", TAU[] = "discopop_tau";
    const yaml_node *n = dialect_value(r, "loss_type");
    if (n && n->kind == NODE_LIST) n = n->first;
    const char *type = n ? tuning_dpo_loss(n) : "sigmoid";
    const bool smooths = type && (strcmp(type, "robust") == 0 || strcmp(type, "exo_pair") == 0);
    const double smoothing = tuning_number(r, SMOOTHING, 0);
    if (smooths && smoothing > 0)
        TRY(dialect_set_number(r, "dpo.label_smoothing", smoothing, SMOOTHING, NULL, e));
    else if (smoothing > 0)
        TRY(dialect_remark_on(r, SMOOTHING, true, e,
                              "found %g, which TRL reads with robust and exo_pair only; "
                              "dpo.label_smoothing is not set",
                              smoothing));
    if (type && strcmp(type, "discopop") == 0 && dialect_value(r, TAU))
        TRY(dialect_set_number(r, "dpo.discopop_tau", tuning_number(r, TAU, 0.05), TAU, NULL, e));
done:
    return result;
}

static status finish_loss(const dialect_reader *r, const char *command, const char *theirs, err *e)
{
    status result = OK;
    TRY(finish_type_of_loss(r, command, e));
    if (strcasecmp(command, "sft") == 0) return OK;
    TRY(dialect_set(r, "train.loss", command, theirs,
                    strcmp(theirs, "command") == 0
                        ? NULL
                        : "trl sft has no such key; --trl.command kto or orpo are others",
                    e));
    if (!dialect_value(r, "learning_rate")) {
        TRY(dialect_set(r, "optimizer.lr", "1e-6", "learning_rate", NULL, e));
        TRY(dialect_effective(r, "learning_rate", json_real(1e-6), e));
    }
    TRY(dialect_set(r, "data.format", "preference", theirs, NULL, e));
    if (strcasecmp(command, "kto") == 0) return finish_kto(r, e);
    TRY(dialect_set_number(r, strcasecmp(command, "orpo") == 0 ? "orpo.beta" : "dpo.beta",
                           tuning_number(r, "beta", 0.1), "beta", NULL, e));
    if (strcasecmp(command, "dpo") == 0) TRY(finish_reference(r, e));
    if (strcasecmp(command, "dpo") == 0) TRY(finish_shape_of_loss(r, e));
done:
    return result;
}

// ---- data

// One entry of the list `datasets`.
static status take_dataset(const dialect_reader *r, const yaml_node *n, tuning_sources *all, err *e)
{
    status result = OK;
    const yaml_node *path = yaml_node_entry(n, "path"), *files = yaml_node_entry(n, "data_files"),
                    *share = yaml_node_entry(n, "fraction");
    double weight = 0;
    text found = {0};
    if (files && files->kind == NODE_LIST) files = files->first;
    const yaml_node *name = files && files->kind == NODE_SCALAR ? files : path;
    if (n->kind != NODE_MAP || !name || name->kind != NODE_SCALAR)
        return dialect_refuse(r, "datasets", e, "found an entry without path; valid: {path: NAME}");
    if (share && share->kind == NODE_SCALAR) (void)text_to_double(share->scalar, &weight);
    TRY(tuning_find_file(r, name->scalar, NULL, &found, e));
    if (found.bytes > 6 && strcmp(found.chars + found.bytes - 6, ".jsonl") == 0)
        TRY(tuning_sources_add(all, found.chars, NULL, weight, e));
    else
        TRY(tuning_no_data(r, "datasets", name->scalar, e));
done:
    text_clear(&found);
    return result;
}

// Names of the alignment handbook's mixtures, {name: share}, or {datasets: [{id: name}]}.
static status take_mixture(const dialect_reader *r, const char *theirs, err *e)
{
    status result = OK;
    const yaml_node *n = dialect_value(r, theirs);
    const yaml_node *list = n && n->kind == NODE_MAP ? yaml_node_entry(n, "datasets") : NULL;
    if (!n) return OK;
    for (const yaml_node *one = list ? list->first : n->first; one; one = one->next) {
        const yaml_node *id = list && one->kind == NODE_MAP ? yaml_node_entry(one, "id") : NULL;
        const char *name = id && id->kind == NODE_SCALAR ? id->scalar : one->key;
        if (name) TRY(tuning_no_data(r, theirs, name, e));
    }
done:
    return result;
}

// Sets data.train, and what is trained of it. *pairs: prompts with completions.
static status finish_files(const dialect_reader *r, bool *pairs, err *e)
{
    status result = OK;
    tuning_sources all = {.item = NULL};
    const yaml_node *list = dialect_value(r, "datasets");
    const char *name = list ? NULL : dialect_text(r, "dataset_name");
    text path = {0};
    for (const yaml_node *n = list ? list->first : NULL; n; n = n->next)
        TRY(take_dataset(r, n, &all, e));
    TRY(tuning_sources_set(r, &all, "data.train", "datasets", e));
    TRY(take_mixture(r, "dataset_mixer", e));
    TRY(take_mixture(r, "dataset_mixture", e));
    if (!name) goto done;
    TRY(tuning_find_file(r, name, NULL, &path, e));
    if (path.bytes > 6 && strcmp(path.chars + path.bytes - 6, ".jsonl") == 0) {
        TRY(tuning_set_text(r, "data.train", path.chars, "dataset_name", NULL, e));
        *pairs = tuning_first_line_has(path.chars, "prompt", "completion");
    } else {
        TRY(tuning_no_data(r, "dataset_name", name, e));
    }
done:
    tuning_sources_clear(&all);
    text_clear(&path);
    return result;
}

// Which tokens have labels.
static status finish_labels(const dialect_reader *r, bool pairs, err *e)
{
    static const char ASSISTANT[] = "assistant_only_loss", COMPLETION[] = "completion_only_loss";
    if (dialect_is_on(r, ASSISTANT))
        return dialect_set(r, "data.train_on", "assistant", ASSISTANT, NULL, e);
    const bool completion = dialect_value(r, COMPLETION) ? dialect_is_on(r, COMPLETION) : pairs;
    return dialect_set(r, "data.train_on", completion ? "completion" : "all", COMPLETION,
                       completion ? NULL : "TRL trains on all tokens of conversations and texts",
                       e);
}

static status finish_rows(const dialect_reader *r, const char *command, err *e)
{
    status result = OK;
    static const char STRATEGY[] = "packing_strategy", LENGTH[] = "max_length";
    const bool sft = strcasecmp(command, "sft") == 0, packs = sft && dialect_is_on(r, "packing");
    const char *strategy = dialect_text(r, STRATEGY);
    const bool splits = packs && strncasecmp(strategy, "bfd", 3) == 0 && strlen(strategy) > 3;
    const bool wraps = packs && strcasecmp(strategy, "wrapped") == 0;
    if (tuning_is_given(r, LENGTH) && !dialect_value(r, LENGTH))
        TRY(dialect_remark_on(r, LENGTH, true, e,
                              "found no limit; a row has data.seq_len tokens, and longer samples "
                              "are an error"));
    else if (sft)
        TRY(dialect_set(r, "data.seq_len", dialect_text(r, LENGTH), LENGTH, NULL, e));
    else
        TRY(tuning_pair_length(r, LENGTH, e));
    TRY(dialect_set(r, "data.packing", packs ? dialect_our_word(r, STRATEGY) : "none",
                    packs ? STRATEGY : "packing", NULL, e));
    TRY(dialect_set(r, "data.truncate",
                    splits || wraps ? "split"
                    : packs         ? "keep_start"
                                    : dialect_our_word(r, "truncation_mode"),
                    packs ? STRATEGY : "truncation_mode", NULL, e));
    if (wraps)
        TRY(dialect_remark_on(r, STRATEGY, true, e,
                              "found wrapped, which joins samples to one text; here the samples of "
                              "a row do not see each other"));
done:
    return result;
}

// ---- model

// Says where TRL would update weights of 16 bits.
static status finish_type(const dialect_reader *r, err *e)
{
    static const char *const KEYS[] = {"dtype", "torch_dtype", "model_init_kwargs.dtype",
                                       "model_init_kwargs.torch_dtype"};
    for (int i = 0; i < 4; i++) {
        const char *type = dialect_value(r, KEYS[i]) ? dialect_text(r, KEYS[i]) : NULL;
        if (!type || strcmp(type, "float32") == 0 || strcmp(type, "auto") == 0) continue;
        return dialect_remark_on(r, KEYS[i], true, e,
                                 "found %.*s, in which TRL keeps and updates the weights; here "
                                 "master weights are fp32, and losses differ a little",
                                 TEXT_CUT(type, 60));
    }
    return OK;
}

static status finish_adapter(const dialect_reader *r, err *e)
{
    status result = OK;
    static const tuning_lora KEYS = {.rank = "lora_r",
                                     .alpha = "lora_alpha",
                                     .dropout = "lora_dropout",
                                     .target = "lora_target_modules",
                                     .rslora = "use_rslora",
                                     .save = "lora_modules_to_save"};
    if (dialect_is_on(r, "use_peft")) TRY(tuning_lora_set(r, &KEYS, e));
    if (!dialect_is_on(r, "load_in_4bit")) goto done;
    if (!dialect_is_on(r, "use_peft"))
        return dialect_refuse(r, "load_in_4bit", e,
                              "found true without use_peft; valid: with it, because weights in "
                              "4 bits are frozen");
    TRY(dialect_set(r, "model.storage", "nf4", "load_in_4bit", NULL, e));
    if (!dialect_is_on(r, "use_bnb_nested_quant"))
        TRY(dialect_remark_on(r, "load_in_4bit", true, e,
                              "the scales of NF4 are quantized, too, as use_bnb_nested_quant: true "
                              "does"));
done:
    return result;
}

status trl_finish(const dialect_reader *r, err *e)
{
    status result = OK;
    const char *theirs, *command = command_of(r, &theirs);
    const bool sft = strcasecmp(command, "sft") == 0;
    bool pairs = false;
    TRY(training_arguments_finish(r, e));
    TRY(tuning_model(r, "model_name_or_path", "model_revision", e));
    TRY(finish_type(r, e));
    TRY(finish_loss(r, command, theirs, e));
    TRY(finish_files(r, &pairs, e));
    if (sft) TRY(finish_labels(r, pairs, e));
    TRY(finish_rows(r, command, e));
    TRY(finish_adapter(r, e));
    if (dialect_value(r, "accelerate_config"))
        TRY(dialect_set(r, "parallel.dp", dialect_our_word(r, "accelerate_config"),
                        "accelerate_config", NULL, e));
done:
    return result;
}
