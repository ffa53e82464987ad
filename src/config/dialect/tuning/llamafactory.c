// llamafactory.c -- the dialect of LLaMA-Factory's YAML and JSON files and of the options of `llamafactory-cli train`
// (LLaMA-Factory 0.9.5, src/llamafactory/hparams): TrainingArguments (training_arguments.c) with its own keys. Keys
// without a row are in llamafactory_names.c; llamafactory_finish.c and llamafactory_data.c have what several keys decide
// together. dialect.c reads it. See dialect.h.
#include "config/dialect/tuning/llamafactory.h"

static const char *const STAGES[][2] = {{"pt", "pt"},   {"sft", "sft"}, {"dpo", "dpo"},
                                        {"kto", "kto"}, {"rm", NULL},   {"ppo", NULL},
                                        {NULL, NULL}};
static const char *const TYPES[][2] = {
    {"lora", "lora"}, {"full", "full"}, {"freeze", "freeze"}, {"oft", NULL}, {NULL, NULL}};
static const char *const LOSSES[][2] = {{"sigmoid", "dpo"}, {"orpo", "orpo"},   {"hinge", "dpo"},
                                        {"ipo", "dpo"},     {"kto_pair", NULL}, {"simpo", NULL},
                                        {NULL, NULL}};
static const char *const QUANTIZED[][2] = {{"nf4", "nf4"}, {"fp4", NULL}, {NULL, NULL}};
static const char *const METHODS[][2] = {
    {"bnb", "nf4"},  {"bitsandbytes", "nf4"}, {"gptq", NULL}, {"awq", NULL},
    {"aqlm", NULL},  {"quanto", NULL},        {"eetq", NULL}, {"hqq", NULL},
    {"mxfp4", NULL}, {"fp8", NULL},           {NULL, NULL}};
static const char *const MIXES[][2] = {{"concat", "concat"},
                                       {"interleave_under", "weights"},
                                       {"interleave_over", "weights"},
                                       {"interleave_once", "weights"},
                                       {NULL, NULL}};

static const char OTHER_LOSS[] = "it is another loss, which Trireme does not have";
static const char OTHER_RULE[] = "it is another optimizer, which Trireme does not have";
static const char OTHER_TRAINING[] = "it is another training, which Trireme does not have";
static const char ADAPTER[] = "the adapter is plain LoRA or rsLoRA";
static const char NEW_TOKENS[] = "the vocabulary is that of the model's folder; valid: a folder "
                                 "with these tokens, and rows of the embedding for them";
static const char MODEL[] = "config.json of the model's folder says it";
static const char BASE_REFERENCE[] = "the reference is in the type of the weights";

// clang-format off
static const dialect_row ROW[] = {
    // Of TrainingArguments, where LLaMA-Factory does otherwise
    SETS_WITH("output_dir", DIALECT_TEXT, "trainer_output", "train.out", .states = true, .note = "checkpoints are checkpoints/step-N in it"),
    NOTHING("overwrite_output_dir", DIALECT_BOOL, "false", NULL),

    // Model
    READ("model_name_or_path", DIALECT_TEXT, NULL),
    READ("model_revision", DIALECT_TEXT, "main"),
    READ("adapter_name_or_path", DIALECT_TEXT, NULL),
    NOTHING("adapter_folder", DIALECT_TEXT, NULL, NULL),
    READ("create_new_adapter", DIALECT_BOOL, "false"),
    NOTHING("trust_remote_code", DIALECT_BOOL, "false", TUNING_NO_CODE),
    REFUSED("resize_vocab", DIALECT_BOOL, "false", NEW_TOKENS),
    REFUSED("add_tokens", DIALECT_TEXT, NULL, NEW_TOKENS),
    REFUSED("add_special_tokens", DIALECT_TEXT, NULL, NEW_TOKENS),
    REFUSED("new_special_tokens_config", DIALECT_TEXT, NULL, NEW_TOKENS),
    LOST("split_special_tokens", DIALECT_BOOL, "false", "text that spells a control token is always encoded as text"),
    REFUSED("rope_scaling", DIALECT_TEXT, NULL, MODEL),
    NOTHING("flash_attn", DIALECT_TEXT, "auto", TUNING_ATTENTION),
    REFUSED("shift_attn", DIALECT_BOOL, "false", OTHER_TRAINING),
    REFUSED("mixture_of_depths", DIALECT_TEXT, NULL, OTHER_TRAINING),
    NOTHING("use_unsloth", DIALECT_BOOL, "false", TUNING_KERNELS),
    NOTHING("use_unsloth_gc", DIALECT_BOOL, "false", "parallel.recompute full saves the inputs of blocks alone"),
    NOTHING("enable_liger_kernel", DIALECT_BOOL, "false", TUNING_KERNELS),
    LOST("moe_aux_loss_coef", DIALECT_NUMBER, NULL, "the coefficient of config.json is used"),
    READ("disable_gradient_checkpointing", DIALECT_BOOL, "false"),
    NOTHING("upcast_layernorm", DIALECT_BOOL, "false", "norms compute in fp32"),
    NOTHING("upcast_lmhead_output", DIALECT_BOOL, "false", "the loss computes in fp32"),
    READ("train_from_scratch", DIALECT_BOOL, "false"),
    READ("quantization_bit", DIALECT_WHOLE, NULL),
    READ_WITH("quantization_method", DIALECT_WORD, "bnb", .words = METHODS),
    READ_WITH("quantization_type", DIALECT_WORD, "nf4", .words = QUANTIZED),
    LOST("double_quantization", DIALECT_BOOL, "true", "the scales of NF4 are quantized, too"),
    REFUSED("use_kt", DIALECT_BOOL, "false", "experts on the CPU are no part of Trireme"),

    // Data
    READ("template", DIALECT_TEXT, NULL),
    READ("dataset", DIALECT_ANY, NULL),
    READ("eval_dataset", DIALECT_ANY, NULL),
    READ("dataset_dir", DIALECT_TEXT, "data"),
    SETS_WITH("cutoff_len", DIALECT_WHOLE, "2048", "data.seq_len", .states = true, .low = 1),
    READ("train_on_prompt", DIALECT_BOOL, "false"),
    READ("mask_history", DIALECT_BOOL, "false"),
    NOTHING("streaming", DIALECT_BOOL, "false", TUNING_READERS),
    READ_WITH("mix_strategy", DIALECT_WORD, "concat", .words = MIXES),
    READ("interleave_probs", DIALECT_ANY, NULL),
    LOST("max_samples", DIALECT_WHOLE, NULL, "all lines of data.train are read"),
    REFUSED("ignore_pad_token_for_loss", DIALECT_BOOL, "true", "padding has no labels"),
    LOST("val_size", DIALECT_NUMBER, "0.0", "valid: data.valid, a file with lines that data.train has not"),
    LOST("eval_on_each_dataset", DIALECT_BOOL, "false", "data.valid has one loss"),
    READ("packing", DIALECT_BOOL, NULL),
    READ("neat_packing", DIALECT_BOOL, "false"),
    LOST("tool_format", DIALECT_TEXT, NULL, "tools are written by the template of the model's folder"),
    LOST("default_system", DIALECT_TEXT, NULL, "the system message is that of the template"),
    NOTHING("enable_thinking", DIALECT_BOOL, "true", "the template of the model's folder says it"),
    NOTHING("preserve_thinking", DIALECT_BOOL, "false", "the template of the model's folder says it"),
    REFUSED("tokenized_path", DIALECT_TEXT, NULL, "encoded data are token shards here, which trireme data prepare --sft writes"),

    // Training
    READ_WITH("stage", DIALECT_WORD, "sft", .words = STAGES),
    READ_WITH("finetuning_type", DIALECT_WORD, "lora", .words = TYPES),
    READ_WITH("freeze_trainable_layers", DIALECT_WHOLE, "2", .low = -1000),
    READ("freeze_trainable_modules", DIALECT_TEXT, "all"),
    READ("freeze_extra_modules", DIALECT_TEXT, NULL),
    READ_WITH("lora_rank", DIALECT_WHOLE, "8", .low = 1),
    READ("lora_alpha", DIALECT_NUMBER, NULL),
    READ_WITH("lora_dropout", DIALECT_NUMBER, "0.0", .low = 0),
    READ("lora_target", DIALECT_ANY, "all"),
    READ("additional_target", DIALECT_ANY, NULL),
    READ("use_rslora", DIALECT_BOOL, "false"),
    REFUSED("use_dora", DIALECT_BOOL, "false", ADAPTER),
    REFUSED("pissa_init", DIALECT_BOOL, "false", "lora_A is drawn and lora_B is 0 at the start"),
    REFUSED("loraplus_lr_ratio", DIALECT_NUMBER, NULL, "lora_A and lora_B have one learning rate"),
    READ_WITH("pref_beta", DIALECT_NUMBER, "0.1", .low = 0),
    REFUSED("pref_ftx", DIALECT_NUMBER, "0.0", OTHER_LOSS),
    REFUSED("pref_bco_weight", DIALECT_NUMBER, "0.0", OTHER_LOSS),
    READ_WITH("pref_loss", DIALECT_WORD, "sigmoid", .words = LOSSES),
    READ_WITH("dpo_label_smoothing", DIALECT_NUMBER, "0.0", .low = 0),
    REFUSED("ld_alpha", DIALECT_NUMBER, NULL, OTHER_LOSS),
    READ("kto_chosen_weight", DIALECT_NUMBER, "1.0"),
    READ("kto_rejected_weight", DIALECT_NUMBER, "1.0"),
    READ("ref_model", DIALECT_TEXT, NULL),
    REFUSED("ref_model_adapters", DIALECT_TEXT, NULL, "the reference is a folder without an adapter; valid: trireme checkpoint export --merge"),
    LOST("ref_model_quantization_bit", DIALECT_WHOLE, NULL, BASE_REFERENCE),
    LOST("pure_bf16", DIALECT_BOOL, "false", "master weights are fp32: more memory, and small updates are not lost"),
    REFUSED("use_llama_pro", DIALECT_BOOL, "false", OTHER_TRAINING),
    REFUSED("use_galore", DIALECT_BOOL, "false", OTHER_RULE),
    REFUSED("use_apollo", DIALECT_BOOL, "false", OTHER_RULE),
    REFUSED("use_badam", DIALECT_BOOL, "false", OTHER_RULE),
    REFUSED("use_adam_mini", DIALECT_BOOL, "false", OTHER_RULE),
    REFUSED("use_muon", DIALECT_BOOL, "false", OTHER_RULE),
    REFUSED("use_dft_loss", DIALECT_BOOL, "false", OTHER_LOSS),
    REFUSED("use_asft_loss", DIALECT_BOOL, "false", OTHER_LOSS),
    REFUSED("use_eaft_loss", DIALECT_BOOL, "false", OTHER_LOSS),
    REFUSED("use_mca", DIALECT_BOOL, "false", "valid: parallel.tp, parallel.pp and parallel.cp of the job"),
    REFUSED("use_megatron_bridge", DIALECT_BOOL, "false", "valid: parallel.tp, parallel.pp and parallel.cp of the job"),
    REFUSED("use_hyper_parallel", DIALECT_BOOL, "false", "valid: parallel.cp and parallel.dp of the job"),
    REFUSED("freeze_language_model", DIALECT_BOOL, "false", "models of images and sounds are no part of Trireme"),
    READ("disable_shuffling", DIALECT_BOOL, "false"),
    SETS_WITH("early_stopping_steps", DIALECT_WHOLE, NULL, "train.early_stopping.patience", .low = 1),
    REFUSED("fp8", DIALECT_BOOL, "false", "products in 8 bits are planned for GPUs that have them; valid: bf16"),
    REFUSED("predict_with_generate", DIALECT_BOOL, "false", "valid: trireme generate, trireme predict"),
    LOST("use_swanlab", DIALECT_BOOL, "false", TUNING_NO_MONITOR),
    LOST("enable_torch_profiler", DIALECT_BOOL, "false", "valid: observe.trace_steps"),
};
// clang-format on

const dialect dialect_llamafactory = {
    .name = "llamafactory",
    .system = "LLaMA-Factory",
    .is_json = true,
    .has_options = true,
    .command = "llamafactory-cli",
    .base = &dialect_training_arguments,
    .rows = ROW,
    .row_count = sizeof ROW / sizeof *ROW,
    .names = LLAMAFACTORY_NAMES,
    .finish = llamafactory_finish,
    .dtypes =
        "master weights fp32 in both, but with pure_bf16; gradients are summed over ranks in "
        "train.reduce_dtype, fp32 by default (LLaMA-Factory: in the type of the weights); both "
        "divide the loss by the labelled tokens of the global batch",
};
