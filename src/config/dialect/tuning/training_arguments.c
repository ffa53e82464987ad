// training_arguments.c -- the keys of TrainingArguments (transformers 5.24, training_args.py), and those of versions before
// 5. training_arguments_finish.c has what several keys decide together. The dialects trainer, trl and llamafactory are
// based on it. See training_arguments.h.
#include "config/dialect/tuning/training_arguments.h"

static const char *const STRATEGIES[][2] = {
    {"no", "no"}, {"steps", "steps"}, {"epoch", "epoch"}, {"best", "best"}, {NULL, NULL}};
static const char *const SAMPLINGS[][2] = {{"random", "torch"},
                                           {"sequential", "sequential"},
                                           {"group_by_length", "torch"},
                                           {"batch_rebalance", "torch"},
                                           {NULL, NULL}};
static const char *const UNUSED[][2] = {{"true", "zero"}, {"false", "error"}, {NULL, NULL}};
static const char *const FORMS[][2] = {
    {"linear", "linear"}, {"cosine", "cosine"}, {"1-sqrt", "minus_sqrt"}, {NULL, NULL}};
static const char *const LINEAR[][2] = {
    {"linear", "linear"}, {"cosine", NULL}, {"1-sqrt", NULL}, {NULL, NULL}};

static const char OTHER_LOSS[] = "it is another loss, which Trireme does not have";
static const char OTHER_RULE[] = "it is another optimizer, which Trireme does not have";
static const char ALWAYS_MEAN[] =
    "the loss is always the mean over the labelled tokens of the global batch";
static const char NO_COMPILER[] = "kernels are compiled already: there is no Python to compile";
static const char LOGS[] = "every step is logged";
static const char RESUME[] = "valid: --resume DIR, or auto, which is the default";
static const char ORDER[] =
    "the order of samples is that of a single sampler, seeded by train.seed";

static status convert_seconds(const dialect_reader *r, const dialect_row *row, const yaml_node *n,
                              text *out, err *e)
{
    (void)r, (void)row;
    text_addf(out, "%ss", n->scalar);
    return text_check(out, e);
}

static status convert_mib(const dialect_reader *r, const dialect_row *row, const yaml_node *n,
                          text *out, err *e)
{
    double mib = 0;
    (void)r, (void)row;
    (void)text_to_double(n->scalar, &mib);
    text_addf(out, "%.0f", mib * 1048576);
    return text_check(out, e);
}

#define KWARG(word)                    READ("lr_scheduler_kwargs." word, DIALECT_NUMBER, NULL)
#define FSDP(word, kind, default, why) NOTHING("fsdp_config.fsdp_" word, kind, default, why)

// clang-format off
static const dialect_row ROW[] = {
    SETS_WITH("output_dir", DIALECT_TEXT, "trainer_output", "train.out", .states = true, .note = "checkpoints are checkpoints/step-N in it"),
    SETS_WITH("per_device_train_batch_size", DIALECT_WHOLE, "8", "train.micro_batch", .states = true, .low = 1),
    SETS_WITH("gradient_accumulation_steps", DIALECT_WHOLE, "1", "train.accumulation", .states = true, .low = 1),
    READ_WITH("num_train_epochs", DIALECT_NUMBER, "3.0", .low = -1),
    READ("max_steps", DIALECT_WHOLE, "-1"),
    SETS_WITH("learning_rate", DIALECT_NUMBER, "5e-05", "optimizer.lr", .states = true),
    SETS_WITH("weight_decay", DIALECT_NUMBER, "0.0", "optimizer.weight_decay", .states = true),
    SETS_WITH("max_grad_norm", DIALECT_NUMBER, "1.0", "train.clip_grad_norm", .states = true),
    SETS_WITH("seed", DIALECT_WHOLE, "42", "train.seed", .states = true),
    READ_WITH("lr_scheduler_type", DIALECT_WORD, "linear", .words = TUNING_SCHEDULES),
    SECTION("lr_scheduler_kwargs"),
    KWARG("num_cycles"), KWARG("power"), KWARG("lr_end"), KWARG("min_lr"), KWARG("min_lr_rate"), KWARG("num_decay_steps"),
    KWARG("num_stable_steps"), KWARG("min_lr_ratio"),
    REFUSED("lr_scheduler_kwargs.timescale", DIALECT_NUMBER, NULL, "the scale of inverse_sqrt is the length of the warm-up"),
    READ_WITH("lr_scheduler_kwargs.decay_type", DIALECT_WORD, "cosine", .words = FORMS),
    READ_WITH("lr_scheduler_kwargs.warmup_type", DIALECT_WORD, "linear", .words = LINEAR),
    READ_WITH("warmup_steps", DIALECT_NUMBER, "0", .low = 0),
    READ_WITH("warmup_ratio", DIALECT_NUMBER, NULL, .low = 0),
    READ_WITH("optim", DIALECT_WORD, "adamw_torch_fused", .words = TUNING_OPTIMIZERS),
    REFUSED("optim_args", DIALECT_TEXT, NULL, "valid: keys of the section optimizer"),
    REFUSED("optim_target_modules", DIALECT_ANY, NULL, OTHER_RULE),
    REFUSED("adafactor", DIALECT_BOOL, "false", OTHER_RULE),
    READ_WITH("adam_beta1", DIALECT_NUMBER, "0.9", .low = 0),
    READ_WITH("adam_beta2", DIALECT_NUMBER, "0.999", .low = 0),
    READ_WITH("adam_epsilon", DIALECT_NUMBER, "1e-08", .low = 0),
    LOST("average_tokens_across_devices", DIALECT_BOOL, "true", ALWAYS_MEAN),
    REFUSED("label_smoothing_factor", DIALECT_NUMBER, "0.0", OTHER_LOSS),
    REFUSED("neftune_noise_alpha", DIALECT_NUMBER, NULL, "noise on embeddings is another training"),
    READ("bf16", DIALECT_BOOL, "false"),
    READ("fp16", DIALECT_BOOL, "false"),
    READ("tf32", DIALECT_BOOL, NULL),
    NOTHING("bf16_full_eval", DIALECT_BOOL, "false", "an evaluation computes as training does"),
    NOTHING("fp16_full_eval", DIALECT_BOOL, "false", "an evaluation computes as training does"),
    READ("activation_checkpointing", DIALECT_BOOL, NULL),
    READ("gradient_checkpointing", DIALECT_BOOL, NULL),
    NOTHING("activation_checkpointing_kwargs", DIALECT_ANY, NULL, NULL),
    NOTHING("gradient_checkpointing_kwargs", DIALECT_ANY, NULL, NULL),
    NOTHING("torch_compile", DIALECT_BOOL, "false", NO_COMPILER),
    NOTHING("torch_compile_backend", DIALECT_TEXT, NULL, NO_COMPILER),
    NOTHING("torch_compile_mode", DIALECT_TEXT, NULL, NO_COMPILER),
    NOTHING("use_liger_kernel", DIALECT_BOOL, "false", TUNING_KERNELS),
    NOTHING("liger_kernel_config", DIALECT_ANY, NULL, TUNING_KERNELS),
    LOST("auto_find_batch_size", DIALECT_BOOL, "false", "the batch does not shrink by itself; train.micro_batch auto takes the largest that fits"),
    NOTHING("logging_steps", DIALECT_NUMBER, "500", LOGS),
    READ_WITH("eval_strategy", DIALECT_WORD, "no", .words = STRATEGIES),
    READ_WITH("eval_steps", DIALECT_NUMBER, NULL, .low = 0),
    LOST("eval_delay", DIALECT_NUMBER, "0", "evaluations begin with the first interval"),
    LOST("eval_on_start", DIALECT_BOOL, "false", "no evaluation stands before the first step"),
    READ_WITH("save_strategy", DIALECT_WORD, "steps", .words = STRATEGIES),
    READ_WITH("save_steps", DIALECT_NUMBER, "500", .low = 0),
    READ_WITH("save_total_limit", DIALECT_WHOLE, NULL, .low = 0),
    LOST("save_only_model", DIALECT_BOOL, "false", "a checkpoint has the optimizer's state, too"),
    NOTHING("enable_jit_checkpoint", DIALECT_BOOL, "false", "a signal saves a checkpoint in any case"),
    READ("load_best_model_at_end", DIALECT_BOOL, "false"),
    READ("metric_for_best_model", DIALECT_TEXT, NULL),
    READ("greater_is_better", DIALECT_BOOL, NULL),
    LOST("push_to_hub", DIALECT_BOOL, "false", TUNING_NO_UPLOAD),
    LOST("ignore_data_skip", DIALECT_BOOL, "false", "a run that resumes goes on with its next sample"),
    NOTHING("full_determinism", DIALECT_BOOL, "false", "every run has the same bits"),
    READ("data_seed", DIALECT_WHOLE, NULL),
    READ("use_cpu", DIALECT_BOOL, "false"),
    READ("no_cuda", DIALECT_BOOL, "false"),
    OPEN_SECTION("accelerator_config"),
    REFUSED("accelerator_config.split_batches", DIALECT_BOOL, "false", "per_device_train_batch_size is the batch of a rank"),
    NOTHING("accelerator_config.dispatch_batches", DIALECT_BOOL, NULL, TUNING_READERS),
    NOTHING("accelerator_config.even_batches", DIALECT_BOOL, "true", "all ranks have equally many samples"),
    LOST("accelerator_config.use_seedable_sampler", DIALECT_BOOL, "true", ORDER),
    NOTHING("accelerator_config.non_blocking", DIALECT_BOOL, "false", NULL),
    NOTHING("accelerator_config.gradient_accumulation_kwargs", DIALECT_ANY, NULL, NULL),
    NOTHING("accelerator_config.use_configured_state", DIALECT_BOOL, "false", NULL),
    REFUSED("parallelism_config", DIALECT_ANY, NULL, "valid: parallel.tp, parallel.cp, parallel.dp_shard and parallel.dp_replicate of the job, or --accelerate FILE"),
    LOST("dataloader_drop_last", DIALECT_BOOL, "false", "a step has a whole batch; the last one of a run begins the next epoch where samples run out"),
    READ_WITH("train_sampling_strategy", DIALECT_WORD, "random", .words = SAMPLINGS),
    LOST("group_by_length", DIALECT_BOOL, "false", "samples of one length do not stand together; data.packing bfd leaves no padding"),
    SETS_WITH("ddp_find_unused_parameters", DIALECT_WORD, NULL, "parallel.unused_parameters", .words = UNUSED),
    SETS_WITH("ddp_bucket_cap_mb", DIALECT_NUMBER, NULL, "parallel.bucket_bytes", .note = "MiB", .low = 1e-3, .convert = convert_mib),
    SETS_WITH("ddp_timeout", DIALECT_WHOLE, "1800", "checks.watchdog", .low = 1, .convert = convert_seconds),
    TUNING_FSDP_ROWS,
    READ("deepspeed", DIALECT_ANY, NULL),
    READ("report_to", DIALECT_ANY, "none"),
    LOST("resume_from_checkpoint", DIALECT_TEXT, NULL, RESUME),
    LOST("use_mps_device", DIALECT_BOOL, "false", "Apple's GPUs are no device of Trireme"),

    OPEN_SECTION("launcher"), // options of torchrun, deepspeed or accelerate launch in a script
    READ_WITH("launcher.nproc_per_node", DIALECT_WHOLE, NULL, .low = 1),
    READ_WITH("launcher.num_processes", DIALECT_WHOLE, NULL, .low = 1),
    READ_WITH("launcher.num_gpus", DIALECT_WHOLE, NULL, .low = 1),
    READ_WITH("launcher.nnodes", DIALECT_WHOLE, "1", .low = 1),
    NOTHING("launcher.*", DIALECT_ANY, NULL, NULL),
};
// clang-format on

// Keys that no result depends on, or of tools that Trireme replaces.
static const char *const HARMLESS[] = {"use_cache",
                                       "torch_empty_cache_steps",
                                       "logging_strategy",
                                       "logging_first_step",
                                       "log_on_each_node",
                                       "logging_nan_inf_filter",
                                       "logging_dir",
                                       "include_num_input_tokens_seen",
                                       "include_tokens_per_second",
                                       "include_inputs_for_metrics",
                                       "log_level",
                                       "log_level_replica",
                                       "disable_tqdm",
                                       "run_name",
                                       "project",
                                       "trackio_space_id",
                                       "trackio_bucket_id",
                                       "trackio_static_space_id",
                                       "per_device_eval_batch_size",
                                       "prediction_loss_only",
                                       "eval_do_concat_batches",
                                       "eval_use_gather_object",
                                       "eval_accumulation_steps",
                                       "include_for_metrics",
                                       "batch_eval_metrics",
                                       "save_on_each_node",
                                       "save_safetensors",
                                       "hub_token",
                                       "hub_private_repo",
                                       "hub_model_id",
                                       "hub_strategy",
                                       "hub_always_push",
                                       "hub_revision",
                                       "restore_callback_states_from_checkpoint",
                                       "dataloader_num_workers",
                                       "dataloader_pin_memory",
                                       "dataloader_persistent_workers",
                                       "dataloader_prefetch_factor",
                                       "dataloader_multiprocessing_context",
                                       "dataloader_in_order",
                                       "remove_unused_columns",
                                       "label_names",
                                       "length_column_name",
                                       "ddp_broadcast_buffers",
                                       "ddp_static_graph",
                                       "ddp_backend",
                                       "debug",
                                       "skip_memory_metrics",
                                       "do_train",
                                       "do_eval",
                                       "do_predict",
                                       "local_rank",
                                       "overwrite_output_dir",
                                       "jit_mode_eval",
                                       "use_ipex",
                                       "half_precision_backend",
                                       "fp16_backend",
                                       "fp16_opt_level",
                                       "tpu_num_cores",
                                       "tpu_metrics_debug",
                                       "past_index",
                                       "ray_scope",
                                       "mp_parameters",
                                       "push_to_hub_model_id",
                                       "push_to_hub_organization",
                                       "push_to_hub_token",
                                       "torchdynamo",
                                       "use_legacy_prediction_loop",
                                       "fsdp_min_num_params",
                                       "fsdp_transformer_layer_cls_to_wrap",
                                       NULL};

static const dialect_names NAMES[] = {
    {HARMLESS, {.theirs = "*", .type = DIALECT_ANY, .effect = EFFECT_NOTHING}}, {.names = NULL}};

static const char *const RENAMED[][2] = {
    {"evaluation_strategy", "eval_strategy"},
    {"per_gpu_train_batch_size", "per_device_train_batch_size"},
    {"per_gpu_eval_batch_size", "per_device_eval_batch_size"},
    {NULL, NULL}};

static const char *const BEGUN[][2] = {{"fsdp_config", "fsdp_"}, {NULL, NULL}};

const dialect dialect_training_arguments = {
    .name = "training_arguments",
    .system = "TrainingArguments",
    .rows = ROW,
    .row_count = sizeof ROW / sizeof *ROW,
    .names = NAMES,
    .renamed = RENAMED,
    .begun = BEGUN,
};
