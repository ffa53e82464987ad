// trainer.c -- the dialect of files and options of scripts that use transformers' Trainer: TrainingArguments
// (training_arguments.c), and the arguments of transformers' own run_clm.py. dialect.c reads it. See dialect.h.
#include "config/dialect/tuning/training_arguments.h"

#include <string.h>

static const char ADAPTER[] =
    "it is a key of a script, not of the Trainer; valid: the section lora of the job, and "
    "model.storage: nf4";
static const char OTHER_SPLIT[] = "valid: data.valid, a file of its own";

// clang-format off
static const dialect_row ROW[] = {
    READ("model_name_or_path", DIALECT_TEXT, NULL),
    READ("model_revision", DIALECT_TEXT, "main"),
    REFUSED("config_name", DIALECT_TEXT, NULL, "config.json of the model's folder is used"),
    REFUSED("config_overrides", DIALECT_TEXT, NULL, "valid: a folder with the config.json that they make"),
    READ("tokenizer_name", DIALECT_TEXT, NULL),
    READ("model_type", DIALECT_TEXT, NULL),
    NOTHING("use_fast_tokenizer", DIALECT_BOOL, "true", NULL),
    NOTHING("trust_remote_code", DIALECT_BOOL, "false", TUNING_NO_CODE),
    NOTHING("torch_dtype", DIALECT_TEXT, NULL, "train.precision sets the type of the weights that compute"),
    NOTHING("dtype", DIALECT_TEXT, NULL, "train.precision sets the type of the weights that compute"),
    NOTHING("low_cpu_mem_usage", DIALECT_BOOL, "false", "ranks read what they own of a checkpoint"),
    NOTHING("attn_implementation", DIALECT_TEXT, NULL, TUNING_ATTENTION),
    READ("dataset_name", DIALECT_TEXT, NULL),
    NOTHING("dataset_config_name", DIALECT_TEXT, NULL, NULL),
    READ("train_file", DIALECT_TEXT, NULL),
    READ("validation_file", DIALECT_TEXT, NULL),
    SETS_WITH("block_size", DIALECT_WHOLE, NULL, "data.seq_len", .low = 1),
    LOST("max_train_samples", DIALECT_WHOLE, NULL, "all samples of data.train are read"),
    LOST("max_eval_samples", DIALECT_WHOLE, NULL, "valid: train.eval_batches, which counts global batches"),
    LOST("validation_split_percentage", DIALECT_NUMBER, "5", OTHER_SPLIT),
    NOTHING("streaming", DIALECT_BOOL, "false", NULL),
    NOTHING("overwrite_cache", DIALECT_BOOL, "false", TUNING_ENCODED),
    NOTHING("preprocessing_num_workers", DIALECT_WHOLE, NULL, TUNING_ENCODED),
    NOTHING("keep_linebreaks", DIALECT_BOOL, "true", NULL),
    NOTHING("cache_dir", DIALECT_TEXT, NULL, NULL),
    NOTHING("token", DIALECT_TEXT, NULL, NULL),
    NOTHING("use_auth_token", DIALECT_TEXT, NULL, NULL),

    // Of scripts of users
    SETS_WITH("model_max_length", DIALECT_WHOLE, NULL, "data.seq_len", .low = 1),
    READ("data_path", DIALECT_TEXT, NULL),
    REFUSED("use_peft", DIALECT_BOOL, "false", ADAPTER),
    REFUSED("use_lora", DIALECT_BOOL, "false", ADAPTER),
    REFUSED("q_lora", DIALECT_BOOL, "false", ADAPTER),
    REFUSED("lora_r", DIALECT_WHOLE, NULL, ADAPTER),
    REFUSED("lora_rank", DIALECT_WHOLE, NULL, ADAPTER),
    REFUSED("load_in_8bit", DIALECT_BOOL, "false", ADAPTER),
    REFUSED("load_in_4bit", DIALECT_BOOL, "false", ADAPTER),
};
// clang-format on

// Sets data.train or data.valid to a file that is here.
static status take_file(const dialect_reader *r, const char *ours, const char *theirs, err *e)
{
    status result = OK;
    const char *name = dialect_text(r, theirs);
    text path = {0};
    if (!name) return OK;
    TRY(tuning_find_file(r, name, NULL, &path, e));
    const char *end = path.chars ? strrchr(path.chars, '.') : NULL;
    if (end && (strcmp(end, ".jsonl") == 0 || strcmp(end, ".idx") == 0))
        TRY(tuning_set_text(r, ours, path.chars, theirs, NULL, e));
    else if (end && strcmp(end, ".txt") == 0)
        TRY(dialect_remark_on(r, theirs, true, e,
                              "found %.*s; valid: the PREFIX of token shards, which trireme data "
                              "prepare makes of it",
                              TEXT_CUT(name, 200)));
    else
        TRY(tuning_no_data(r, theirs, name, e));
done:
    text_clear(&path);
    return result;
}

static status finish(const dialect_reader *r, err *e)
{
    status result = OK;
    const char *model = dialect_text(r, "model_name_or_path"),
               *tokenizer = dialect_text(r, "tokenizer_name");
    TRY(training_arguments_finish(r, e));
    TRY(tuning_model(r, "model_name_or_path", "model_revision", e));
    if (tokenizer && (!model || strcmp(model, tokenizer) != 0))
        return dialect_refuse(r, "tokenizer_name", e,
                              "found %.*s; valid: the tokenizer of the model's folder",
                              TEXT_CUT(tokenizer, 200));
    if (dialect_text(r, "model_type") && !model)
        return dialect_refuse(
            r, "model_type", e,
            "found %.*s without model_name_or_path: a new model of default sizes; "
            "valid: model.family, and model.layers and the like, of the job",
            TEXT_CUT(dialect_text(r, "model_type"), 100));
    TRY(take_file(r, "data.train", "data_path", e));
    TRY(take_file(r, "data.train", "train_file", e));
    TRY(take_file(r, "data.valid", "validation_file", e));
    if (dialect_text(r, "dataset_name") && !dialect_text(r, "train_file"))
        TRY(tuning_no_data(r, "dataset_name", dialect_text(r, "dataset_name"), e));
done:
    return result;
}

const dialect dialect_trainer = {
    .name = "trainer",
    .system = "transformers' Trainer",
    .is_json = true,
    .ignores_other = true,
    .has_options = true,
    .base = &dialect_training_arguments,
    .rows = ROW,
    .row_count = sizeof ROW / sizeof *ROW,
    .finish = finish,
    .dtypes = "master weights fp32 in both, where the Trainer loads the model in fp32 (with dtype "
              "bfloat16 it updates bf16 weights); gradients are summed over ranks in "
              "train.reduce_dtype, fp32 by default (the Trainer: in the type of the weights); both "
              "divide the loss by the labelled tokens of the global batch",
};
