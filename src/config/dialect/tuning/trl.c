// trl.c -- the dialect of TRL's configuration files and options, as `trl sft --config FILE` and `trl dpo` take them (trl
// 1.16): TrainingArguments (training_arguments.c) with SFTConfig, DPOConfig, KTOConfig, ModelConfig, ScriptArguments and
// DatasetMixtureConfig, and the keys of the alignment handbook and of older versions. trl_finish.c has what several keys
// decide together. dialect.c reads it. See dialect.h.
#include "config/dialect/tuning/trl.h"

static const char *const COMMANDS[][2] = {
    {"sft", "cross_entropy"}, {"dpo", "dpo"},         {"kto", "kto"},
    {"orpo", "orpo"},         {"grpo", NULL},         {"rloo", NULL},
    {"reward", NULL},         {"distillation", NULL}, {NULL, NULL}};
static const char *const TRUNCATIONS[][2] = {
    {"keep_start", "keep_start"}, {"keep_end", "keep_end"}, {NULL, NULL}};
static const char *const PACKINGS[][2] = {{"bfd", "bfd"},          {"bfd_split", "bfd"},
                                          {"bfd-requeue", "bfd"},  {"ffd", "bfd"},
                                          {"wrapped", "next_fit"}, {NULL, NULL}};
static const char *const DIVERGENCES[][2] = {{"reverse_kl", "reverse_kl"},
                                             {"js_divergence", NULL},
                                             {"alpha_divergence", NULL},
                                             {"forward_kl", NULL},
                                             {NULL, NULL}};
static const char *const QUANTIZED[][2] = {{"nf4", "nf4"}, {"fp4", NULL}, {NULL, NULL}};
static const char *const STRATEGIES[][2] = {
    {"single_gpu", "ddp"}, {"multi_gpu", "ddp"}, {"zero1", "zero1"}, {"zero2", "zero2"},
    {"zero3", "zero3"},    {"fsdp1", "zero3"},   {"fsdp2", "zero3"}, {NULL, NULL}};

static const char OTHER_LOSS[] = "it is another loss, which Trireme does not have";
static const char OWN_TEMPLATE[] = "the chat template of the model's folder is used; valid: this "
                                   "template as its chat_template.jinja";
static const char OWN_TOKENS[] = "the special tokens of the model's folder are used";
static const char DYNAMIC[] = "the reference weights do not change within a run";
static const char ADAPTER[] = "the adapter is plain LoRA or rsLoRA";
static const char GENERATES[] = "reinforcement learning by generated samples is no part of "
                                "Trireme; valid: trl sft, dpo, kto or orpo";
static const char SPLITS[] = "data.valid is a file of its own";

// clang-format off
static const dialect_row ROW[] = {
    READ_WITH("command", DIALECT_WORD, NULL, .words = COMMANDS), // trl COMMAND; no key of TRL's files
    SETS_WITH("learning_rate", DIALECT_NUMBER, "2e-05", "optimizer.lr", .states = true),
    READ("bf16", DIALECT_BOOL, "true"),
    READ("gradient_checkpointing", DIALECT_BOOL, "true"),
    NOTHING("logging_steps", DIALECT_NUMBER, "10", "every step is logged"),

    // SFTConfig and DPOConfig
    OPEN_SECTION("model_init_kwargs"),
    READ("model_init_kwargs.revision", DIALECT_TEXT, NULL),
    READ("model_init_kwargs.dtype", DIALECT_TEXT, NULL),
    READ("model_init_kwargs.torch_dtype", DIALECT_TEXT, NULL),
    NOTHING("model_init_kwargs.*", DIALECT_ANY, NULL, "the model's folder says it"),
    NOTHING("trust_remote_code", DIALECT_BOOL, "false", TUNING_NO_CODE),
    LOST("router_aux_loss_coef", DIALECT_NUMBER, NULL, "the coefficient of config.json is used"),
    REFUSED("chat_template_path", DIALECT_TEXT, NULL, OWN_TEMPLATE),
    LOST("dataset_text_field", DIALECT_TEXT, "text", "the field text of a line is read"),
    NOTHING("dataset_kwargs", DIALECT_ANY, NULL, TUNING_ENCODED),
    NOTHING("dataset_num_proc", DIALECT_WHOLE, NULL, TUNING_ENCODED),
    LOST("eos_token", DIALECT_TEXT, NULL, OWN_TOKENS),
    NOTHING("pad_token", DIALECT_TEXT, NULL, "rows are padded without a token that is trained"),
    READ_WITH("max_length", DIALECT_WHOLE, "1024", .low = 1),
    READ_WITH("truncation_mode", DIALECT_WORD, "keep_start", .words = TRUNCATIONS),
    NOTHING("shuffle_dataset", DIALECT_BOOL, "false", "the order of samples is drawn in each epoch"),
    READ("packing", DIALECT_BOOL, "false"),
    READ_WITH("packing_strategy", DIALECT_WORD, "bfd", .words = PACKINGS),
    NOTHING("padding_free", DIALECT_BOOL, "false", "data.packing leaves no padding between samples"),
    NOTHING("pad_to_multiple_of", DIALECT_TEXT, "auto", "rows have data.seq_len tokens"),
    LOST("eval_packing", DIALECT_BOOL, NULL, "data.packing holds for data.valid, too"),
    READ("completion_only_loss", DIALECT_BOOL, NULL),
    READ("assistant_only_loss", DIALECT_BOOL, "false"),
    READ("loss_type", DIALECT_ANY, NULL),
    LOST("activation_offloading", DIALECT_BOOL, "false", "activations stay on the device; parallel.recompute makes them fewer"),
    NOTHING("disable_dropout", DIALECT_BOOL, "true", "the reference has no dropout"),
    NOTHING("precompute_ref_log_probs", DIALECT_BOOL, "false", "the reference is computed once, and kept"),
    NOTHING("precompute_ref_batch_size", DIALECT_WHOLE, NULL, NULL),
    REFUSED("loss_weights", DIALECT_LIST, NULL, OTHER_LOSS),
    REFUSED("ld_alpha", DIALECT_NUMBER, NULL, OTHER_LOSS),
    READ_WITH("f_divergence_type", DIALECT_WORD, "reverse_kl", .words = DIVERGENCES),
    NOTHING("f_alpha_divergence_coef", DIALECT_NUMBER, "0.5", NULL),
    READ_WITH("label_smoothing", DIALECT_NUMBER, "0.0", .low = 0),
    READ("beta", DIALECT_NUMBER, "0.1"),
    REFUSED("use_weighting", DIALECT_BOOL, "false", OTHER_LOSS),
    READ("discopop_tau", DIALECT_NUMBER, "0.05"),
    REFUSED("sync_ref_model", DIALECT_BOOL, "false", DYNAMIC),
    NOTHING("ref_model_mixup_alpha", DIALECT_NUMBER, "0.6", NULL),
    NOTHING("ref_model_sync_steps", DIALECT_WHOLE, "512", NULL),
    READ("desirable_weight", DIALECT_NUMBER, "1.0"),
    READ("undesirable_weight", DIALECT_NUMBER, "1.0"),

    // ModelConfig
    READ("model_name_or_path", DIALECT_TEXT, NULL),
    READ("model_revision", DIALECT_TEXT, "main"),
    READ("dtype", DIALECT_TEXT, "float32"),
    NOTHING("attn_implementation", DIALECT_TEXT, NULL, TUNING_ATTENTION),
    READ("use_peft", DIALECT_BOOL, "false"),
    READ_WITH("lora_r", DIALECT_WHOLE, "16", .low = 1),
    READ("lora_alpha", DIALECT_NUMBER, "32"),
    READ_WITH("lora_dropout", DIALECT_NUMBER, "0.05", .low = 0),
    READ("lora_target_modules", DIALECT_ANY, NULL),
    REFUSED("lora_target_parameters", DIALECT_ANY, NULL, "adapters are of linear layers"),
    READ("lora_modules_to_save", DIALECT_ANY, NULL),
    UNEQUAL("lora_task_type", DIALECT_TEXT, "CAUSAL_LM", EFFECT_REFUSED, "models are causal"),
    READ("use_rslora", DIALECT_BOOL, "false"),
    REFUSED("use_dora", DIALECT_BOOL, "false", ADAPTER),
    REFUSED("load_in_8bit", DIALECT_BOOL, "false", "frozen weights are kept as they compute, or in NF4: load_in_4bit"),
    READ("load_in_4bit", DIALECT_BOOL, "false"),
    READ_WITH("bnb_4bit_quant_type", DIALECT_WORD, "nf4", .words = QUANTIZED),
    READ("use_bnb_nested_quant", DIALECT_BOOL, "false"),
    NOTHING("bnb_4bit_quant_storage", DIALECT_TEXT, NULL, NULL),

    // ScriptArguments and DatasetMixtureConfig
    READ("dataset_name", DIALECT_TEXT, NULL),
    NOTHING("dataset_config", DIALECT_TEXT, NULL, NULL),
    LOST("dataset_train_split", DIALECT_TEXT, "train", "all lines of data.train are read"),
    LOST("dataset_test_split", DIALECT_TEXT, "test", SPLITS),
    NOTHING("dataset_streaming", DIALECT_BOOL, "false", TUNING_READERS),
    NOTHING("ignore_bias_buffers", DIALECT_BOOL, "false", NULL),
    READ("datasets", DIALECT_LIST, NULL),
    NOTHING("streaming", DIALECT_BOOL, "false", TUNING_READERS),
    LOST("test_split_size", DIALECT_NUMBER, NULL, SPLITS),

    // Of the command line of `trl`, and of the files' other keys
    NOTHING("env", DIALECT_ANY, NULL, NULL),
    READ_WITH("accelerate_config", DIALECT_WORD, NULL, .words = STRATEGIES),
    SETS_WITH("num_processes", DIALECT_WHOLE, NULL, "launch.ranks", .low = 1),
    NOTHING("config", DIALECT_TEXT, NULL, NULL),

    // Older versions, and the alignment handbook
    READ("torch_dtype", DIALECT_TEXT, NULL),
    NOTHING("use_flash_attention_2", DIALECT_BOOL, "false", TUNING_ATTENTION),
    NOTHING("model_code_revision", DIALECT_TEXT, NULL, NULL),
    UNEQUAL("tokenizer_name_or_path", DIALECT_TEXT, NULL, EFFECT_LOST, "the tokenizer of the model's folder is used"),
    REFUSED("chat_template", DIALECT_TEXT, NULL, OWN_TEMPLATE),
    READ("dataset_mixer", DIALECT_ANY, NULL),
    READ("dataset_mixture", DIALECT_ANY, NULL),
    NOTHING("dataset_splits", DIALECT_ANY, NULL, NULL),
    NOTHING("dataset_configs", DIALECT_ANY, NULL, NULL),
    NOTHING("preprocessing_num_workers", DIALECT_WHOLE, NULL, TUNING_ENCODED),
    REFUSED("base_model_revision", DIALECT_TEXT, NULL, "the base model is in one folder"),
    LOST("max_prompt_length", DIALECT_WHOLE, NULL, "data.truncate shortens prompt and completion together, at data.seq_len"),
    LOST("max_completion_length", DIALECT_WHOLE, NULL, "data.truncate shortens prompt and completion together, at data.seq_len"),
    NOTHING("is_encoder_decoder", DIALECT_BOOL, "false", NULL),
    NOTHING("padding_value", DIALECT_ANY, NULL, NULL),
    NOTHING("label_pad_token_id", DIALECT_ANY, NULL, NULL),
    REFUSED("rpo_alpha", DIALECT_NUMBER, NULL, OTHER_LOSS),
    REFUSED("reference_free", DIALECT_BOOL, "false", OTHER_LOSS),
    REFUSED("force_use_ref_model", DIALECT_BOOL, "false", "the reference of an adapter is its base"),
    READ("ref_model_name_or_path", DIALECT_TEXT, NULL),
    NOTHING("hub_model_revision", DIALECT_TEXT, NULL, NULL),
    NOTHING("generate_during_eval", DIALECT_BOOL, "false", NULL),
    NOTHING("dataset_batch_size", DIALECT_WHOLE, NULL, TUNING_ENCODED),
    NOTHING("num_of_sequences", DIALECT_WHOLE, NULL, NULL),
    NOTHING("chars_per_token", DIALECT_NUMBER, NULL, NULL),
    NOTHING("use_liger", DIALECT_BOOL, "false", TUNING_KERNELS),
    NOTHING("use_liger_loss", DIALECT_BOOL, "false", TUNING_KERNELS),
    NOTHING("max_steps_per_epoch", DIALECT_ANY, NULL, NULL),
    NOTHING("system_prompt", DIALECT_TEXT, NULL, NULL),
    NOTHING("benchmarks", DIALECT_ANY, NULL, NULL),
    NOTHING("callbacks", DIALECT_ANY, NULL, NULL),
    NOTHING("overwrite_hub_revision", DIALECT_BOOL, "false", NULL),
    NOTHING("wandb_project", DIALECT_TEXT, NULL, NULL),
    NOTHING("wandb_entity", DIALECT_TEXT, NULL, NULL),
    NOTHING("wandb_run_group", DIALECT_TEXT, NULL, NULL),
};
// clang-format on

// Fields of the configurations that train on samples which the model generates, and of reward models.
static const char *const GENERATING[] = {"num_generations",
                                         "num_generations_eval",
                                         "reward_funcs",
                                         "reward_weights",
                                         "reward_model_name_or_path",
                                         "use_vllm",
                                         "vllm_mode",
                                         "num_iterations",
                                         "epsilon",
                                         "epsilon_high",
                                         "scale_rewards",
                                         "steps_per_generation",
                                         "generation_batch_size",
                                         "temperature",
                                         "top_p",
                                         "top_k",
                                         "center_rewards_coefficient",
                                         "reward_model_path",
                                         "sft_model_path",
                                         "num_ppo_epochs",
                                         "teacher_model_name_or_path",
                                         "lmbda",
                                         NULL};

static const dialect_names NAMES[] = {
    {GENERATING, {.theirs = "*", .type = DIALECT_ANY, .effect = EFFECT_REFUSED, .note = GENERATES}},
    {.names = NULL}};

static const char *const RENAMED[][2] = {{"max_seq_length", "max_length"}, {NULL, NULL}};

const dialect dialect_trl = {
    .name = "trl",
    .system = "TRL",
    .has_options = true,
    .command = "trl",
    .reads_samples = true,
    .base = &dialect_training_arguments,
    .rows = ROW,
    .row_count = sizeof ROW / sizeof *ROW,
    .names = NAMES,
    .renamed = RENAMED,
    .finish = trl_finish,
    .dtypes =
        "master weights fp32 in both, where TRL loads the model in fp32, its default (with dtype "
        "bfloat16 it updates bf16 weights, and loses small updates); gradients are summed "
        "over ranks in train.reduce_dtype, fp32 by default (TRL: in the type of the weights); "
        "both divide the loss by the labelled tokens of the global batch",
};
