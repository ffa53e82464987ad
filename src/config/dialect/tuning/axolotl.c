// axolotl.c -- the dialect of axolotl's YAML files (axolotl 0.17, src/axolotl/utils/schemas). axolotl_ignored.c has the
// keys that no result depends on, and axolotl_finish.c and axolotl_data.c what several keys decide together. dialect.c
// reads it. See dialect.h.
#include "config/dialect/tuning/axolotl.h"

#include <string.h>

static const char *const OPTIMIZERS[][2] = {TUNING_OPTIMIZER_WORDS,
                                            {"optimi_adamw", "adamw"},
                                            {"flash_adamw", "adamw"},
                                            {"ao_adamw_8bit", "adamw"},
                                            {"ao_adamw_4bit", "adamw"},
                                            {"ao_adamw_fp8", "adamw"},
                                            {"flash_lion", "lion"},
                                            {"lion_pytorch", "lion"},
                                            {"muon", NULL},
                                            {"dion", NULL},
                                            {"sinkgd", NULL},
                                            {"adopt_adamw", NULL},
                                            {"came_pytorch", NULL},
                                            {"flash_adam", NULL},
                                            {"flash_sgd", NULL},
                                            {"flash_sgdw", NULL},
                                            {"q_galore_adamw8bit", NULL},
                                            {NULL, NULL}};
static const char *const SCHEDULES[][2] = {
    TUNING_SCHEDULE_WORDS, {"rex", NULL}, {"one_cycle", NULL}, {"log_sweep", NULL}, {NULL, NULL}};
static const char *const LOSSES[][2] = {{"dpo", "dpo"}, {"kto", "kto"},  {"orpo", "orpo"},
                                        {"ipo", "dpo"}, {"simpo", NULL}, {"grpo", NULL},
                                        {"gdpo", NULL}, {"ebft", NULL},  {NULL, NULL}};
static const char *const ADAPTERS[][2] = {
    {"lora", "lora"}, {"qlora", "qlora"}, {"llama-adapter", NULL}, {"mora", NULL}, {NULL, NULL}};
static const char *const EXCESS[][2] = {
    {"drop", "drop"}, {"truncate", "keep_start"}, {"raise", "error"}, {NULL, NULL}};
static const char *const INITIALS[][2] = {
    {"true", "random"}, {"false", "checkpoint"}, {NULL, NULL}};
static const char *const UNUSED[][2] = {{"true", "zero"}, {"false", "error"}, {NULL, NULL}};
static const char *const STRATEGIES[][2] = {
    {"no", "no"}, {"steps", "steps"}, {"epoch", "epoch"}, {"best", "best"}, {NULL, NULL}};

static const char OTHER_LOSS[] = "it is another loss, which Trireme does not have";
static const char OTHER_RULE[] = "it is another optimizer, which Trireme does not have";
static const char OTHER_SCHEDULE[] = "it is another schedule, which Trireme does not have";
static const char OTHER_TRAINING[] = "it is another training, which Trireme does not have";
static const char ADAPTER[] = "the adapter is plain LoRA or rsLoRA";
static const char OWN_TOKENS[] = "the special tokens of the model's folder are used";
static const char NEW_TOKENS[] = "the vocabulary is that of the model's folder; valid: a folder "
                                 "with these tokens, and rows of the embedding for them";
static const char OWN_TEMPLATE[] = "the chat template of the model's folder is used; valid: this "
                                   "template as its chat_template.jinja";
static const char QUANTIZED[] = "frozen weights are kept as they compute, or in NF4";
static const char IMAGES[] = "models of images and sounds are no part of Trireme";
static const char MODEL[] = "config.json of the model's folder says it";
static const char STREAMED[] =
    "data.train of text is read from token shards, which trireme data prepare makes";

static status convert_seconds(const dialect_reader *r, const dialect_row *row, const yaml_node *n,
                              text *out, err *e)
{
    (void)r, (void)row;
    text_addf(out, "%ss", n->scalar);
    return text_check(out, e);
}

// A list of one loss.
static status convert_loss(const dialect_reader *r, const dialect_row *row, const yaml_node *n,
                           text *out, err *e)
{
    const char *loss = n->first && !n->first->next ? tuning_dpo_loss(n->first) : NULL;
    text_add(out, loss ? loss : "");
    return loss ? text_check(out, e) : tuning_refuse_loss(r, row->theirs, n, "one of", e);
}

#define KWARG(word) READ("lr_scheduler_kwargs." word, DIALECT_NUMBER, NULL)

// clang-format off
static const dialect_row ROW[] = {
    // Model
    READ("base_model", DIALECT_TEXT, NULL),
    READ("base_model_config", DIALECT_TEXT, NULL),
    READ("tokenizer_config", DIALECT_TEXT, NULL),
    READ("revision_of_model", DIALECT_TEXT, NULL),
    REFUSED("overrides_of_model_config", DIALECT_ANY, NULL, MODEL),
    NOTHING("overrides_of_model_kwargs", DIALECT_ANY, NULL, MODEL),
    REFUSED("rope_scaling", DIALECT_ANY, NULL, MODEL),
    REFUSED("model_quantization_config", DIALECT_TEXT, NULL, QUANTIZED),
    SETS_WITH("reinit_weights", DIALECT_WORD, NULL, "model.init", .words = INITIALS),
    LOST("trust_remote_code", DIALECT_BOOL, "false", TUNING_NO_CODE),
    LOST("resize_token_embeddings_to_32x", DIALECT_BOOL, "false", "the vocabulary is that of the model's folder: there are no rows that no token has"),
    REFUSED("shrink_embeddings", DIALECT_BOOL, "false", NEW_TOKENS),
    OPEN_SECTION("special_tokens"),
    NOTHING("special_tokens.pad_token", DIALECT_TEXT, NULL, "rows are padded without a token that is trained"),
    LOST("special_tokens.bos_token", DIALECT_TEXT, NULL, OWN_TOKENS),
    LOST("special_tokens.eos_token", DIALECT_TEXT, NULL, OWN_TOKENS),
    LOST("special_tokens.unk_token", DIALECT_TEXT, NULL, OWN_TOKENS),
    REFUSED("special_tokens.additional_special_tokens", DIALECT_ANY, NULL, NEW_TOKENS),
    READ("tokens", DIALECT_ANY, NULL),
    REFUSED("added_tokens_overrides", DIALECT_ANY, NULL, NEW_TOKENS),

    // Data
    READ("datasets", DIALECT_LIST, NULL),
    READ("test_datasets", DIALECT_LIST, NULL),
    READ("pretraining_dataset", DIALECT_ANY, NULL),
    READ_WITH("val_set_size", DIALECT_NUMBER, "0.0", .low = 0),
    NOTHING("streaming", DIALECT_BOOL, NULL, STREAMED),
    READ("chat_template", DIALECT_TEXT, NULL),
    REFUSED("chat_template_jinja", DIALECT_TEXT, NULL, OWN_TEMPLATE),
    REFUSED("chat_template_kwargs", DIALECT_ANY, NULL, "templates are given messages and tools"),
    LOST("fix_untrained_tokens", DIALECT_ANY, NULL, "rows of the embedding are as the model's folder has them"),
    LOST("eot_tokens", DIALECT_ANY, NULL, "the end of a turn is what the template writes"),
    LOST("default_system_message", DIALECT_TEXT, NULL, "the system message is that of the template"),
    READ("train_on_inputs", DIALECT_BOOL, "false"),
    SETS_WITH("sequence_len", DIALECT_WHOLE, "512", "data.seq_len", .states = true, .low = 1),
    READ_WITH("excess_length_strategy", DIALECT_WORD, "drop", .words = EXCESS),
    LOST("min_sample_len", DIALECT_WHOLE, NULL, "short samples are trained, too"),
    LOST("max_prompt_len", DIALECT_WHOLE, NULL, "data.truncate shortens prompt and completion together"),
    READ("sample_packing", DIALECT_BOOL, "false"),
    READ("sample_packing_sequentially", DIALECT_BOOL, "false"),
    NOTHING("batch_flattening", DIALECT_TEXT, NULL, "data.packing leaves no padding"),
    READ("curriculum_sampling", DIALECT_BOOL, "false"),
    LOST("group_by_length", DIALECT_BOOL, "false", "samples of one length do not stand together"),
    LOST("dataset_shard_num", DIALECT_WHOLE, NULL, "all lines of data.train are read"),
    NOTHING("dataset_shard_idx", DIALECT_WHOLE, NULL, NULL),
    LOST("dataset_exact_deduplication", DIALECT_BOOL, "false", "equal samples are trained as often as they stand in data.train"),
    REFUSED("max_packed_sequence_len", DIALECT_WHOLE, NULL, "axolotl refuses it, too; valid: sample_packing"),
    REFUSED("processor_type", DIALECT_TEXT, NULL, IMAGES),
    REFUSED("processor_kwargs", DIALECT_ANY, NULL, IMAGES),
    REFUSED("image_size", DIALECT_ANY, NULL, IMAGES),
    NOTHING("image_resize_algorithm", DIALECT_TEXT, NULL, NULL),
    REFUSED("use_pose", DIALECT_BOOL, "false", OTHER_TRAINING),
    NOTHING("pretraining_sample_concatenation", DIALECT_BOOL, NULL, "data.packing joins samples"),

    // Batch, length, optimizer
    SETS_WITH("micro_batch_size", DIALECT_WHOLE, "1", "train.micro_batch", .states = true, .low = 1),
    SETS_WITH("gradient_accumulation_steps", DIALECT_WHOLE, "1", "train.accumulation", .states = true, .low = 1),
    REFUSED("batch_size", DIALECT_WHOLE, NULL, "axolotl refuses it, too; valid: gradient_accumulation_steps"),
    READ_WITH("num_epochs", DIALECT_NUMBER, "1.0", .low = 0),
    READ("max_steps", DIALECT_WHOLE, NULL),
    SETS_WITH("learning_rate", DIALECT_NUMBER, NULL, "optimizer.lr", .low = 0),
    SETS_WITH("weight_decay", DIALECT_NUMBER, "0.0", "optimizer.weight_decay", .states = true),
    SETS_WITH("max_grad_norm", DIALECT_NUMBER, "1.0", "train.clip_grad_norm", .states = true),
    SETS_WITH("seed", DIALECT_WHOLE, "42", "train.seed", .states = true),
    READ_WITH("optimizer", DIALECT_WORD, "adamw_torch_fused", .words = OPTIMIZERS),
    REFUSED("optim_args", DIALECT_ANY, NULL, "valid: keys of the section optimizer"),
    REFUSED("optim_target_modules", DIALECT_ANY, NULL, OTHER_RULE),
    READ_WITH("adam_beta1", DIALECT_NUMBER, "0.9", .low = 0),
    READ_WITH("adam_beta2", DIALECT_NUMBER, "0.999", .low = 0),
    READ_WITH("adam_epsilon", DIALECT_NUMBER, "1e-08", .low = 0),
    REFUSED("adam_beta3", DIALECT_NUMBER, NULL, OTHER_RULE),
    REFUSED("adam_epsilon2", DIALECT_NUMBER, NULL, OTHER_RULE),
    REFUSED("embedding_lr", DIALECT_NUMBER, NULL, "valid: groups: [{match: NAME, lr_scale: N}]"),
    REFUSED("embedding_lr_scale", DIALECT_NUMBER, NULL, "valid: groups: [{match: NAME, lr_scale: N}]"),
    REFUSED("lr_groups", DIALECT_ANY, NULL, "valid: groups: [{match: NAME, lr_scale: N}]"),
    READ_WITH("lr_scheduler", DIALECT_WORD, "cosine", .words = SCHEDULES),
    SECTION("lr_scheduler_kwargs"),
    KWARG("num_cycles"), KWARG("power"), KWARG("lr_end"), KWARG("min_lr"), KWARG("min_lr_rate"), KWARG("num_decay_steps"),
    KWARG("num_stable_steps"), KWARG("min_lr_ratio"),
    REFUSED("lr_quadratic_warmup", DIALECT_BOOL, "false", OTHER_SCHEDULE),
    READ_WITH("cosine_min_lr_ratio", DIALECT_NUMBER, NULL, .low = 0),
    REFUSED("cosine_constant_lr_ratio", DIALECT_NUMBER, NULL, OTHER_SCHEDULE),
    REFUSED("lr_div_factor", DIALECT_NUMBER, NULL, OTHER_SCHEDULE),
    READ_WITH("warmup_steps", DIALECT_WHOLE, NULL, .low = 0),
    READ_WITH("warmup_ratio", DIALECT_NUMBER, NULL, .low = 0),
    LOST("auto_find_batch_size", DIALECT_BOOL, "false", "train.micro_batch auto takes the largest batch that fits"),
    REFUSED("neftune_noise_alpha", DIALECT_NUMBER, NULL, "noise on embeddings is another training"),
    REFUSED("noisy_embedding_alpha", DIALECT_NUMBER, NULL, "noise on embeddings is another training"),
    REFUSED("unfrozen_parameters", DIALECT_ANY, NULL, "its patterns are regular expressions; valid: groups: [{match: NAME, trainable: false}], where * stands for any characters"),
    REFUSED("use_eaft", DIALECT_BOOL, "false", OTHER_LOSS),
    REFUSED("relora", DIALECT_BOOL, "false", OTHER_TRAINING),
    REFUSED("lisa_n_layers", DIALECT_WHOLE, NULL, OTHER_TRAINING),
    REFUSED("scaling_softmax", DIALECT_BOOL, "false", OTHER_TRAINING),
    REFUSED("trainer_cls", DIALECT_TEXT, NULL, OTHER_TRAINING),
    REFUSED("s2_attention", DIALECT_BOOL, "false", OTHER_TRAINING),
    REFUSED("use_onebitllms", DIALECT_BOOL, "false", OTHER_TRAINING),
    REFUSED("jagged_restart_steps", DIALECT_WHOLE, NULL, OTHER_SCHEDULE),
    READ("plugins", DIALECT_LIST, NULL),

    // Precision, memory
    READ("bf16", DIALECT_TEXT, "auto"),
    READ("bfloat16", DIALECT_BOOL, NULL),
    READ("fp16", DIALECT_BOOL, NULL),
    READ("float16", DIALECT_BOOL, NULL),
    READ("float32", DIALECT_BOOL, NULL),
    READ("tf32", DIALECT_TEXT, "auto"),
    REFUSED("fp8", DIALECT_BOOL, "false", "products in 8 bits are planned for GPUs that have them; valid: bf16"),
    READ("gradient_checkpointing", DIALECT_TEXT, "false"),
    LOST("activation_offloading", DIALECT_TEXT, "false", "activations stay on the device; parallel.recompute makes them fewer"),
    LOST("layer_offloading", DIALECT_BOOL, "false", "parallel.offload.weights chooses where weights are"),
    LOST("selective_checkpointing", DIALECT_ANY, "false", "valid: parallel.recompute: selective, which recomputes attention"),
    LOST("gpu_memory_limit", DIALECT_TEXT, NULL, "memory.budget limits the memory of a rank"),
    LOST("max_memory", DIALECT_ANY, NULL, "memory.budget limits the memory of a rank"),
    REFUSED("quantize_moe_experts", DIALECT_BOOL, "false", QUANTIZED),
    REFUSED("qat", DIALECT_ANY, NULL, OTHER_TRAINING),
    REFUSED("quantization", DIALECT_ANY, NULL, "a checkpoint is not quantized; valid: trireme checkpoint export"),

    // Adapter
    READ_WITH("adapter", DIALECT_WORD, NULL, .words = ADAPTERS),
    READ_WITH("lora_r", DIALECT_WHOLE, NULL, .low = 1),
    READ("lora_alpha", DIALECT_NUMBER, NULL),
    READ_WITH("lora_dropout", DIALECT_NUMBER, "0.0", .low = 0),
    READ("lora_target_modules", DIALECT_ANY, NULL),
    READ("lora_target_linear", DIALECT_BOOL, "false"),
    REFUSED("lora_target_parameters", DIALECT_ANY, NULL, "adapters are of linear layers"),
    READ("lora_modules_to_save", DIALECT_ANY, NULL),
    READ("lora_model_dir", DIALECT_TEXT, NULL),
    SETS("lora_rank_pattern", DIALECT_ANY, NULL, "lora.rank_pattern"),
    SETS("lora_alpha_pattern", DIALECT_ANY, NULL, "lora.alpha_pattern"),
    NOTHING("lora_fan_in_fan_out", DIALECT_BOOL, "false", "the model's family says it"),
    REFUSED("peft_use_dora", DIALECT_BOOL, "false", ADAPTER),
    READ("peft_use_rslora", DIALECT_BOOL, "false"),
    SETS("peft_layers_to_transform", DIALECT_LIST, NULL, "lora.layers_to_transform"),
    REFUSED("peft_layers_pattern", DIALECT_ANY, NULL, ADAPTER),
    REFUSED("peft_layer_replication", DIALECT_ANY, NULL, ADAPTER),
    REFUSED("peft_trainable_token_indices", DIALECT_ANY, NULL, ADAPTER),
    REFUSED("peft_init_lora_weights", DIALECT_TEXT, "true", "lora_A is drawn and lora_B is 0 at the start"),
    REFUSED("peft", DIALECT_ANY, NULL, "LoftQ's start is another training"),
    REFUSED("loraplus_lr_ratio", DIALECT_NUMBER, NULL, "lora_A and lora_B have one learning rate"),
    LOST("load_in_8bit", DIALECT_BOOL, "false", "frozen weights are kept as they compute: more memory, and no rounding to 8 bits"),
    READ("load_in_4bit", DIALECT_BOOL, "false"),
    REFUSED("gptq", DIALECT_BOOL, "false", QUANTIZED),
    REFUSED("bnb_config_kwargs", DIALECT_ANY, NULL, QUANTIZED),

    // Preferences
    READ_WITH("rl", DIALECT_WORD, NULL, .words = LOSSES),
    READ("rl_beta", DIALECT_NUMBER, NULL),
    READ("dpo_beta", DIALECT_NUMBER, NULL),
    READ("orpo_alpha", DIALECT_NUMBER, NULL),
    READ("kto_desirable_weight", DIALECT_NUMBER, "1"),
    READ("kto_undesirable_weight", DIALECT_NUMBER, "1"),
    REFUSED("dpo_use_weighting", DIALECT_BOOL, "false", OTHER_LOSS),
    SETS("dpo_label_smoothing", DIALECT_NUMBER, NULL, "dpo.label_smoothing"),
    SETS_WITH("dpo_loss_type", DIALECT_LIST, NULL, "dpo.loss_type", .convert = convert_loss),
    REFUSED("dpo_loss_weights", DIALECT_ANY, NULL, OTHER_LOSS),
    REFUSED("dpo_norm_loss", DIALECT_BOOL, "false", OTHER_LOSS),
    REFUSED("rpo_alpha", DIALECT_NUMBER, NULL, OTHER_LOSS),
    NOTHING("precompute_ref_log_probs", DIALECT_BOOL, "false", "the reference is computed once, and kept"),
    REFUSED("num_labels", DIALECT_WHOLE, NULL, "classifiers of text are no part of Trireme"),
    REFUSED("cls_model_config", DIALECT_TEXT, NULL, "classifiers of text are no part of Trireme"),
    REFUSED("center_rewards_coefficient", DIALECT_NUMBER, NULL, "reward models are no part of Trireme"),
    REFUSED("reward_model", DIALECT_BOOL, "false", "reward models are no part of Trireme"),
    REFUSED("process_reward_model", DIALECT_BOOL, "false", "reward models are no part of Trireme"),

    // Strategy
    READ("deepspeed", DIALECT_ANY, NULL),
    TUNING_FSDP_ROWS,
    NOTHING("fsdp_version", DIALECT_WHOLE, NULL, NULL),
    NOTHING("fsdp_final_state_dict_type", DIALECT_TEXT, NULL, "a checkpoint is always a HuggingFace folder"),
    SETS_WITH("dp_shard_size", DIALECT_WHOLE, NULL, "parallel.dp_shard", .low = 1),
    SETS_WITH("dp_replicate_size", DIALECT_WHOLE, NULL, "parallel.dp_replicate", .low = 1),
    SETS_WITH("tensor_parallel_size", DIALECT_WHOLE, NULL, "parallel.tp", .low = 1),
    SETS_WITH("context_parallel_size", DIALECT_WHOLE, NULL, "parallel.cp", .low = 1),
    SETS_WITH("ddp_find_unused_parameters", DIALECT_WORD, NULL, "parallel.unused_parameters", .words = UNUSED),
    SETS_WITH("ddp_timeout", DIALECT_WHOLE, NULL, "checks.watchdog", .low = 1, .convert = convert_seconds),
    NOTHING("flash_attention", DIALECT_TEXT, NULL, TUNING_ATTENTION),

    // Evaluation, checkpoints, reports
    SETS_WITH("output_dir", DIALECT_TEXT, "./model-out", "train.out", .states = true, .note = "checkpoints are checkpoints/step-N in it"),
    READ_WITH("eval_steps", DIALECT_NUMBER, NULL, .low = 0),
    LOST("evals_per_epoch", DIALECT_WHOLE, NULL, "train.eval_every counts steps"),
    READ_WITH("eval_strategy", DIALECT_WORD, NULL, .words = STRATEGIES),
    READ_WITH("save_steps", DIALECT_NUMBER, NULL, .low = 0),
    LOST("saves_per_epoch", DIALECT_WHOLE, NULL, "train.save_every counts steps; the end of the run saves"),
    READ_WITH("save_strategy", DIALECT_WORD, "epoch", .words = STRATEGIES),
    SETS_WITH("save_total_limit", DIALECT_WHOLE, "4", "train.keep", .states = true, .low = 0),
    LOST("save_only_model", DIALECT_BOOL, "false", "a checkpoint has the optimizer's state, too"),
    SETS("early_stopping_patience", DIALECT_WHOLE, NULL, "train.early_stopping.patience"),
    SETS("load_best_model_at_end", DIALECT_BOOL, "false", "train.keep_best"),
    REFUSED("metric_for_best_model", DIALECT_TEXT, "eval_loss", "the best checkpoint has the lowest loss on data.valid"),
    SETS("use_tensorboard", DIALECT_BOOL, NULL, "observe.tensorboard"),
    LOST("wandb_project", DIALECT_TEXT, "", TUNING_NO_MONITOR),
    LOST("use_wandb", DIALECT_BOOL, "false", TUNING_NO_MONITOR),
    LOST("use_mlflow", DIALECT_BOOL, "false", TUNING_NO_MONITOR),
    LOST("use_comet", DIALECT_BOOL, "false", TUNING_NO_MONITOR),
    LOST("use_trackio", DIALECT_BOOL, "false", TUNING_NO_MONITOR),
    LOST("hub_model_id", DIALECT_TEXT, "", TUNING_NO_UPLOAD),
    LOST("resume_from_checkpoint", DIALECT_TEXT, "", "valid: --resume DIR, or auto, which is the default"),
    LOST("save_first_step", DIALECT_BOOL, "false", "no checkpoint stands after the first step"),
    LOST("do_bench_eval", DIALECT_BOOL, "false", "the loss and the perplexity of data.valid are computed"),
    LOST("do_causal_lm_eval", DIALECT_BOOL, "false", "the loss and the perplexity of data.valid are computed"),
    LOST("generate_samples", DIALECT_BOOL, "false", "valid: trireme generate, trireme chat"),
    LOST("loss_watchdog_threshold", DIALECT_NUMBER, NULL, "checks.nonfinite stops a run whose loss is NaN or Inf"),
};
// clang-format on

static const char *const RENAMED[][2] = {{"sequence_parallel_degree", "context_parallel_size"},
                                         {"evaluation_strategy", "eval_strategy"},
                                         {"model_revision", "revision_of_model"},
                                         {"model_type", "type_of_model"},
                                         {"model_config", "overrides_of_model_config"},
                                         {"model_kwargs", "overrides_of_model_kwargs"},
                                         {"lr_scheduler_type", "lr_scheduler"},
                                         {NULL, NULL}};
static const char *const BEGUN[][2] = {{"fsdp_config", "fsdp_"}, {NULL, NULL}};

const dialect dialect_axolotl = {
    .name = "axolotl",
    .system = "axolotl",
    .ignores_other = true,
    .has_options = true,
    .rows = ROW,
    .row_count = sizeof ROW / sizeof *ROW,
    .names = AXOLOTL_IGNORED,
    .renamed = RENAMED,
    .begun = BEGUN,
    .finish = axolotl_finish,
    .dtypes =
        "master weights fp32 here (axolotl loads the model in the type that computes, and updates "
        "bf16 weights: losses differ a little); gradients are summed over ranks in "
        "train.reduce_dtype, fp32 by default; both divide the loss by the labelled tokens of "
        "the global batch",
};
