// deepspeed.c -- the dialect of DeepSpeed's JSON (deepspeed 0.19.6, runtime/config.py and runtime/zero/config.py; later
// versions refuse elasticity, amp and others). Sizes are numbers of elements. This file is the table; deepspeed_finish.c
// has what several keys decide together. dialect.c reads it. See dialect.h.
#include "config/dialect/deepspeed.h"

#include <string.h>
#include <strings.h>

static const char *const STAGES[][2] = {
    {"0", "ddp"}, {"1", "zero1"}, {"2", "zero2"}, {"3", "zero3"}, {NULL, NULL}};
static const char *const OPTIMIZERS[][2] = {
    {"Adam", "adamw"}, {"AdamW", "adamw"},   {"Lion", "lion"},      {"SGD", "sgd"},
    {"Lamb", NULL},    {"OneBitAdam", NULL}, {"ZeroOneAdam", NULL}, {"OneBitLamb", NULL},
    {"Adagrad", NULL}, {"Muon", NULL},       {"MuAdam", NULL},      {"MuAdamW", NULL},
    {"MuSGD", NULL},   {NULL, NULL}};
static const char *const SCHEDULERS[][2] = {{"LRRangeTest", "LRRangeTest"},
                                            {"OneCycle", "OneCycle"},
                                            {"WarmupLR", "WarmupLR"},
                                            {"WarmupDecayLR", "WarmupDecayLR"},
                                            {"WarmupCosineLR", "WarmupCosineLR"},
                                            {NULL, NULL}};
static const char *const WARMUPS[][2] = {{"log", "log"}, {"linear", "linear"}, {NULL, NULL}};
static const char *const TIERS[][2] = {
    {"none", "device"}, {"cpu", "host"}, {"nvme", "file"}, {NULL, NULL}};
static const char *const DTYPES[][2] = {
    {"fp32", "fp32"}, {"bf16", "bf16"}, {"bfp16", "bf16"}, {"fp16", "fp16"}, {NULL, NULL}};
static const char *const REDUCTIONS[][2] = {{"mean", "mean"}, {"sum", NULL}, {NULL, NULL}};

static const char *const TAGS[][2] = {
    {"Ignore", "Ignore"}, {"Warn", "Warn"}, {"Fail", "Fail"}, {NULL, NULL}};

static const char ALWAYS[] = "Trireme always does so";
static const char PLANNED[] =
    "the plan decides it: the bytes of a rank are known before the first step";
static const char FEW[] =
    "at most two gathered blocks are alive, and the next one is gathered ahead";
static const char TIMES[] = "trireme bench train measures a step";
static const char NO_MONITOR[] = "log.jsonl in train.out has these values";
static const char NO_ZEROPP[] =
    "weights and gradients travel unquantized: the same losses as without it, and more bytes";

// Elements of a gradient's type to bytes.
static status convert_elements(const dialect_reader *r, const dialect_row *row, const yaml_node *n,
                               text *out, err *e)
{
    int64_t elements = 0;
    const char *type = dialect_text(r, "communication_data_type");
    const bool is_short = type && strcasecmp(type, "fp32") != 0;
    (void)row;
    if (!text_to_count(n->scalar, &elements) || elements > INT64_MAX / 4) elements = INT64_MAX / 4;
    text_addf(out, "%lld", (long long)(elements * (is_short ? 2 : 4)));
    return text_check(out, e);
}

// At least two slots, which a transfer and an update need at once.
static status convert_slots(const dialect_reader *r, const dialect_row *row, const yaml_node *n,
                            text *out, err *e)
{
    int64_t slots = 0;
    (void)r, (void)row;
    const bool enough = text_to_count(n->scalar, &slots) && slots >= 2;
    text_addf(out, "%lld", enough ? (long long)slots : 2LL);
    return text_check(out, e);
}

// zero_optimization: true was stage 1 and false stage 0, before 2020.
static status convert_legacy(const dialect_reader *r, const dialect_row *row, const yaml_node *n,
                             text *out, err *e)
{
    bool on;
    (void)row;
    if (n->kind != NODE_SCALAR || !text_to_bool(n->scalar, &on))
        return dialect_refuse(r, "zero_optimization", e, "valid: a section, or true or false");
    text_add(out, on ? "zero1" : "ddp");
    return text_check(out, e);
}

#define SCHEDULE(word, kind)                                                                       \
    SETS_WITH("scheduler.params." word, kind, NULL, "lr_schedule." word, .unquoted = true)
// A number of elements that needs no setting.
#define SIZE(path, default, why)                                                                   \
    {                                                                                              \
        .theirs = (path), .type = DIALECT_WHOLE, .fallback = (default), .effect = EFFECT_NOTHING,  \
        .note = (why)                                                                              \
    }
// Their parameters have no defaults of the file; `value` is what loses nothing.
#define REFUSED_UNLESS(path, kind, value, why)                                                     \
    {                                                                                              \
        .theirs = (path), .type = (kind), .effect = EFFECT_REFUSED, .same = (value),               \
        .note = (why), .low = -1e300                                                               \
    }

// clang-format off
static const dialect_row ROW[] = {
    SETS_WITH("train_batch_size", DIALECT_WHOLE, NULL, "train.global_batch", .low = 1, .unquoted = true),
    SETS_WITH("train_micro_batch_size_per_gpu", DIALECT_WHOLE, NULL, "train.micro_batch", .low = 1, .unquoted = true),
    SETS_WITH("gradient_accumulation_steps", DIALECT_WHOLE, NULL, "train.accumulation", .low = 1, .unquoted = true),
    NOTHING("managed_gradient_accumulation", DIALECT_BOOL, "true", "the plan places a step's end"),
    SETS_WITH("gradient_clipping", DIALECT_NUMBER, "1.0", "train.clip_grad_norm", .unquoted = true),
    NOTHING("steps_per_print", DIALECT_WHOLE, NULL, "a line is shown for each step, and log.jsonl has all"),
    NOTHING("prescale_gradients", DIALECT_BOOL, "false", "gradients are summed in fp32, which needs no scaling before it"),
    NOTHING("gradient_predivide_factor", DIALECT_NUMBER, "1.0", "gradients are summed in fp32, which needs no scaling before it"),
    READ_WITH("gradient_allreduce_op", DIALECT_WORD, "mean", .words = REDUCTIONS),
    LOST("sparse_gradients", DIALECT_BOOL, "false", "gradients of embeddings are reduced whole"),
    SETS_WITH("communication_data_type", DIALECT_WORD, NULL, "train.reduce_dtype", .words = DTYPES),
    NOTHING("seq_parallel_communication_data_type", DIALECT_TEXT, "fp32", "gradients of ranks that share a sequence are summed in train.reduce_dtype"),
    NOTHING("disable_allgather", DIALECT_BOOL, "false", "no result depends on it"),
    NOTHING("dump_state", DIALECT_BOOL, "false", "trireme explain shows the job"),
    NOTHING("disable_python_gc", DIALECT_BOOL, "false", "there is no Python"),
    NOTHING("wall_clock_breakdown", DIALECT_BOOL, "false", TIMES),
    NOTHING("memory_breakdown", DIALECT_BOOL, "false", "trireme plan shows the bytes of a rank by category"),
    NOTHING("dataloader_drop_last", DIALECT_BOOL, "false", "an epoch that does not end with a batch goes on into the next"),
    NOTHING("log_level", DIALECT_TEXT, NULL, "the commands have --quiet"),
    NOTHING("vocabulary_size", DIALECT_WHOLE, NULL, "the model says it"),
    NOTHING("graph_harvesting", DIALECT_BOOL, "false", "launch.cuda_graphs records a step by itself"),
    NOTHING("zero_allow_untested_optimizer", DIALECT_BOOL, "false", "every optimizer works with every strategy"),
    NOTHING("zero_force_ds_cpu_optimizer", DIALECT_BOOL, "true", "every optimizer works with every strategy"),
    NOTHING("allgather_size", DIALECT_WHOLE, NULL, "parallel.bucket_bytes serves both"),
    NOTHING("use_data_before_expert_parallelism", DIALECT_BOOL, "false", "it orders experts' ranks alone"),
    SETS_WITH("sequence_parallel_size", DIALECT_WHOLE, "1", "parallel.cp", .note = "Ulysses' all-to-all becomes context parallelism", .low = 1),

    SECTION("fp16"),
    READ("fp16.enabled", DIALECT_BOOL, "false"),
    NOTHING("fp16.auto_cast", DIALECT_BOOL, "false", "activations always have the type of train.precision"),
    SETS("fp16.loss_scale", DIALECT_NUMBER, "0", "train.fp16.loss_scale"),
    SETS_WITH("fp16.initial_scale_power", DIALECT_WHOLE, "16", "train.fp16.initial_scale_power", .states = true),
    SETS_WITH("fp16.loss_scale_window", DIALECT_WHOLE, "1000", "train.fp16.loss_scale_window", .states = true, .low = 1),
    SETS_WITH("fp16.hysteresis", DIALECT_WHOLE, "2", "train.fp16.hysteresis", .states = true, .low = 1),
    SETS_WITH("fp16.consecutive_hysteresis", DIALECT_BOOL, "false", "train.fp16.consecutive_hysteresis", .states = true),
    SETS_WITH("fp16.min_loss_scale", DIALECT_WHOLE, "1", "train.fp16.min_loss_scale", .states = true),
    REFUSED("fp16.fp16_master_weights_and_grads", DIALECT_BOOL, "false", "master weights are fp32 here"),
    SECTION("bf16"),
    READ("bf16.enabled", DIALECT_BOOL, "false"),
    NOTHING("bf16.immediate_grad_update", DIALECT_BOOL, "false", "no result depends on it"),
    NOTHING("bf16.check_grad_overflow", DIALECT_BOOL, "true", "checks.nonfinite chooses what a step with NaN or Inf does"),
    REFUSED("bf16.bf16_master_weights_and_grads", DIALECT_BOOL, "false", "master weights are fp32 here"),
    REFUSED("bf16.bf16_optimizer_states", DIALECT_BOOL, "false", "the optimizer's state is fp32 here"),
    OPEN_SECTION("amp"),
    REFUSED("amp.enabled", DIALECT_BOOL, "false", "apex's casts differ from layer to layer; valid: bf16 or fp16"),
    NOTHING("amp.opt_level", DIALECT_TEXT, NULL, "amp is off"),
    OPEN_SECTION("torch_autocast"),
    READ("torch_autocast.enabled", DIALECT_BOOL, "false"),
    READ("torch_autocast.dtype", DIALECT_TEXT, NULL),
    NOTHING("torch_autocast.lower_precision_safe_modules", DIALECT_LIST, NULL, "norms, softmax and the loss compute in fp32, all other layers in train.precision"),
    OPEN_SECTION("data_types"),
    READ("data_types.grad_accum_dtype", DIALECT_TEXT, NULL),
    LOST("data_types.param_dtype", DIALECT_TEXT, NULL, "weights have the type of train.precision, and groups of parameters may have fp32 (groups.dtype)"),
    NOTHING("data_types.buffer_dtype", DIALECT_TEXT, NULL, "models have no buffers: rotary tables are fp32"),
    NOTHING("data_types.keep_in_fp32_modules", DIALECT_ANY, NULL, "models have no buffers: rotary tables are fp32"),

    SETS_WITH("zero_optimization", DIALECT_SECTION, NULL, "parallel.dp", .note = "the form of 2020", .convert = convert_legacy),
    SETS_WITH("zero_optimization.stage", DIALECT_WORD, "0", "parallel.dp", .words = STAGES, .states = true),
    NOTHING("zero_optimization.contiguous_gradients", DIALECT_BOOL, "true", ALWAYS),
    NOTHING("zero_optimization.reduce_scatter", DIALECT_BOOL, "true", ALWAYS),
    SETS_WITH("zero_optimization.reduce_bucket_size", DIALECT_WHOLE, "500000000", "parallel.bucket_bytes", .note = "elements become bytes", .low = 1, .convert = convert_elements),
    NOTHING("zero_optimization.use_multi_rank_bucket_allreduce", DIALECT_BOOL, "true", "no result depends on it"),
    NOTHING("zero_optimization.allgather_partitions", DIALECT_BOOL, "true", ALWAYS),
    SIZE("zero_optimization.allgather_bucket_size", "500000000", "parallel.bucket_bytes serves both"),
    NOTHING("zero_optimization.overlap_comm", DIALECT_BOOL, NULL, "communication always overlaps computation"),
    NOTHING("zero_optimization.compute_grad_norm", DIALECT_BOOL, "true", ALWAYS),
    NOTHING("zero_optimization.load_from_fp32_weights", DIALECT_BOOL, "true", ALWAYS),
    NOTHING("zero_optimization.elastic_checkpoint", DIALECT_BOOL, "false", "every checkpoint loads on any number of ranks"),
    SECTION("zero_optimization.offload_param"),
    READ_WITH("zero_optimization.offload_param.device", DIALECT_WORD, "none", .words = TIERS),
    SETS("zero_optimization.offload_param.nvme_path", DIALECT_TEXT, NULL, "parallel.offload.path"),
    SETS_WITH("zero_optimization.offload_param.buffer_count", DIALECT_WHOLE, "5", "parallel.offload.slots", .convert = convert_slots),
    SIZE("zero_optimization.offload_param.buffer_size", "100000000", PLANNED),
    SIZE("zero_optimization.offload_param.max_in_cpu", "1000000000", PLANNED),
    NOTHING("zero_optimization.offload_param.pin_memory", DIALECT_BOOL, "true", ALWAYS),
    SECTION("zero_optimization.offload_optimizer"),
    READ_WITH("zero_optimization.offload_optimizer.device", DIALECT_WORD, "none", .words = TIERS),
    SETS("zero_optimization.offload_optimizer.nvme_path", DIALECT_TEXT, NULL, "parallel.offload.path"),
    SETS_WITH("zero_optimization.offload_optimizer.buffer_count", DIALECT_WHOLE, "4", "parallel.offload.slots", .convert = convert_slots),
    NOTHING("zero_optimization.offload_optimizer.pin_memory", DIALECT_BOOL, "true", ALWAYS),
    NOTHING("zero_optimization.offload_optimizer.pipeline_read", DIALECT_BOOL, "false", ALWAYS),
    NOTHING("zero_optimization.offload_optimizer.pipeline_write", DIALECT_BOOL, "false", ALWAYS),
    NOTHING("zero_optimization.offload_optimizer.fast_init", DIALECT_BOOL, "false", "no result depends on it"),
    LOST("zero_optimization.offload_optimizer.ratio", DIALECT_NUMBER, "1.0", "all state of the optimizer is offloaded: less memory of the device, and more time"),
    NOTHING("zero_optimization.offload_optimizer.super_offload", DIALECT_BOOL, "false", "no result depends on it"),
    NOTHING("zero_optimization.offload_optimizer.cpuadam_cores_perc", DIALECT_NUMBER, "0.8", "launch.threads_per_rank sets it"),
    SIZE("zero_optimization.sub_group_size", "1000000000", "state is updated bucket by bucket"),
    SIZE("zero_optimization.stage3_max_live_parameters", "1000000000", FEW),
    SIZE("zero_optimization.stage3_max_reuse_distance", "1000000000", FEW),
    SIZE("zero_optimization.stage3_prefetch_bucket_size", "50000000", FEW),
    SIZE("zero_optimization.stage3_param_persistence_threshold", "100000", "small parameters are sharded with the rest of their block"),
    SIZE("zero_optimization.stage3_model_persistence_threshold", "9223372036854775807", "small parameters are sharded with the rest of their block"),
    NOTHING("zero_optimization.stage3_gather_16bit_weights_on_model_save", DIALECT_BOOL, "false", "a checkpoint is always a HuggingFace folder"),
    NOTHING("zero_optimization.stage3_module_granularity_threshold", DIALECT_WHOLE, "0", "a bucket is a run of blocks"),
    NOTHING("zero_optimization.stage3_use_all_reduce_for_fetch_params", DIALECT_BOOL, "false", "no result depends on it"),
    NOTHING("zero_optimization.stage3_allgather_sequential", DIALECT_BOOL, "false", "no result depends on it"),
    NOTHING("zero_optimization.ignore_unused_parameters", DIALECT_BOOL, "true", "parallel.unused_parameters chooses: error refuses such a job before it starts"),
    NOTHING("zero_optimization.legacy_stage1", DIALECT_BOOL, "false", "no result depends on it"),
    NOTHING("zero_optimization.round_robin_gradients", DIALECT_BOOL, "false", "no result depends on it"),
    NOTHING("zero_optimization.parameter_alignment", DIALECT_BOOL, "false", "no result depends on it"),
    READ_WITH("zero_optimization.zero_hpz_partition_size", DIALECT_WHOLE, "1", .low = 0),
    LOST("zero_optimization.zero_quantized_weights", DIALECT_BOOL, "false", NO_ZEROPP),
    LOST("zero_optimization.zero_quantized_nontrainable_weights", DIALECT_BOOL, "false", NO_ZEROPP),
    LOST("zero_optimization.zero_quantized_gradients", DIALECT_BOOL, "false", NO_ZEROPP),
    LOST("zero_optimization.zeropp_loco_param", DIALECT_ANY, NULL, NO_ZEROPP),
    READ("zero_optimization.mics_shard_size", DIALECT_WHOLE, "-1"),
    NOTHING("zero_optimization.mics_hierarchical_params_gather", DIALECT_BOOL, "false", "no result depends on it"),
    NOTHING("zero_optimization.memory_efficient_linear", DIALECT_BOOL, "true", ALWAYS),
    NOTHING("zero_optimization.pipeline_loading_checkpoint", DIALECT_BOOL, "false", "ranks read what they own of a checkpoint"),
    NOTHING("zero_optimization.override_module_apply", DIALECT_BOOL, "true", "there are no Python modules"),
    NOTHING("zero_optimization.log_trace_cache_warnings", DIALECT_BOOL, "false", "the order of blocks is planned"),
    NOTHING("zero_optimization.enable_sanity_checks", DIALECT_BOOL, "false", "a verifier replays the step before it runs"),
    LOST("zero_optimization.save_muon_momentum_buffer_in_memory", DIALECT_BOOL, "false", "it belongs to Muon, which is planned"),
    NOTHING("zero_optimization.leaf_module", DIALECT_ANY, NULL, "a block is gathered as a whole"),
    REFUSED("zero_optimization.zenflow", DIALECT_ANY, NULL, "ZenFlow updates some gradients later than others, which is another training"),
    READ("zero_optimization.cpu_offload", DIALECT_BOOL, NULL),
    READ("zero_optimization.cpu_offload_param", DIALECT_BOOL, NULL),
    NOTHING("zero_optimization.cpu_offload_use_pin_memory", DIALECT_BOOL, NULL, ALWAYS),
    OPEN_SECTION("aio"),
    SETS("aio.block_size", DIALECT_WHOLE, "1048576", "parallel.offload.block_bytes"),
    SETS("aio.queue_depth", DIALECT_WHOLE, "8", "parallel.offload.depth"),
    NOTHING("aio.intra_op_parallelism", DIALECT_WHOLE, "1", "the kernel reads and writes by io_uring"),
    NOTHING("aio.thread_count", DIALECT_WHOLE, NULL, "DeepSpeed ignores it, too"),
    NOTHING("aio.single_submit", DIALECT_BOOL, "false", "the kernel reads and writes by io_uring"),
    NOTHING("aio.overlap_events", DIALECT_BOOL, "true", "the kernel reads and writes by io_uring"),
    LOST("aio.use_gds", DIALECT_BOOL, "false", "files pass through the host's memory"),

    OPEN_SECTION("optimizer"),
    READ_WITH("optimizer.type", DIALECT_WORD, NULL, .words = OPTIMIZERS),
    NOTHING("optimizer.legacy_fusion", DIALECT_BOOL, "false", "no result depends on it"),
    SECTION("optimizer.params"),
    SETS_WITH("optimizer.params.lr", DIALECT_NUMBER, NULL, "optimizer.lr", .unquoted = true),
    SETS("optimizer.params.betas", DIALECT_LIST, NULL, "optimizer.betas"),
    SETS("optimizer.params.eps", DIALECT_NUMBER, NULL, "optimizer.eps"),
    SETS_WITH("optimizer.params.weight_decay", DIALECT_NUMBER, NULL, "optimizer.weight_decay", .unquoted = true),
    SETS("optimizer.params.momentum", DIALECT_NUMBER, NULL, "optimizer.momentum"),
    READ("optimizer.params.torch_adam", DIALECT_BOOL, NULL),
    READ("optimizer.params.adam_w_mode", DIALECT_BOOL, NULL),
    NOTHING("optimizer.params.fused", DIALECT_BOOL, NULL, "there is one form of each optimizer"),
    NOTHING("optimizer.params.foreach", DIALECT_BOOL, NULL, "there is one form of each optimizer"),
    NOTHING("optimizer.params.capturable", DIALECT_BOOL, NULL, "launch.cuda_graphs records a step"),
    NOTHING("optimizer.params.set_grad_none", DIALECT_BOOL, NULL, ALWAYS),
    NOTHING("optimizer.params.fp32_optimizer_states", DIALECT_BOOL, NULL, ALWAYS),
    REFUSED_UNLESS("optimizer.params.bias_correction", DIALECT_BOOL, "true", "Adam always corrects its bias here"),
    REFUSED_UNLESS("optimizer.params.amsgrad", DIALECT_BOOL, "false", "AMSGrad is no optimizer of Trireme"),
    REFUSED_UNLESS("optimizer.params.nesterov", DIALECT_BOOL, "false", "sgd has no Nesterov momentum here"),
    REFUSED_UNLESS("optimizer.params.dampening", DIALECT_NUMBER, "0", "sgd has no dampening here"),
    REFUSED_UNLESS("optimizer.params.maximize", DIALECT_BOOL, "false", "the loss is minimized"),
    REFUSED("optimizer.params.max_grad_norm", DIALECT_NUMBER, NULL, "an optimizer does not clip in DeepSpeed; valid: gradient_clipping"),
    LOST("optimizer.params.*", DIALECT_ANY, NULL, "no optimizer of Trireme has such a parameter"),

    OPEN_SECTION("scheduler"),
    SETS_WITH("scheduler.type", DIALECT_WORD, NULL, "lr_schedule.name", .words = SCHEDULERS),
    SECTION("scheduler.params"),
    SCHEDULE("warmup_min_lr", DIALECT_NUMBER),
    SCHEDULE("warmup_max_lr", DIALECT_NUMBER),
    SCHEDULE("warmup_num_steps", DIALECT_WHOLE),
    SETS_WITH("scheduler.params.warmup_type", DIALECT_WORD, NULL, "lr_schedule.warmup_type", .words = WARMUPS),
    SCHEDULE("total_num_steps", DIALECT_WHOLE),
    SCHEDULE("warmup_min_ratio", DIALECT_NUMBER),
    SCHEDULE("cos_min_ratio", DIALECT_NUMBER),
    SCHEDULE("lr_range_test_min_lr", DIALECT_NUMBER),
    SCHEDULE("lr_range_test_step_size", DIALECT_WHOLE),
    SCHEDULE("lr_range_test_step_rate", DIALECT_NUMBER),
    SCHEDULE("lr_range_test_staircase", DIALECT_BOOL),
    SCHEDULE("cycle_min_lr", DIALECT_NUMBER),
    SCHEDULE("cycle_max_lr", DIALECT_NUMBER),
    SCHEDULE("decay_lr_rate", DIALECT_NUMBER),
    SCHEDULE("cycle_first_step_size", DIALECT_WHOLE),
    SCHEDULE("cycle_second_step_size", DIALECT_WHOLE),
    SCHEDULE("cycle_first_stair_count", DIALECT_WHOLE),
    SCHEDULE("cycle_second_stair_count", DIALECT_WHOLE),
    SCHEDULE("decay_step_size", DIALECT_WHOLE),
    SCHEDULE("cycle_momentum", DIALECT_BOOL),
    SCHEDULE("cycle_min_mom", DIALECT_NUMBER),
    SCHEDULE("cycle_max_mom", DIALECT_NUMBER),
    SCHEDULE("decay_mom_rate", DIALECT_NUMBER),
    NOTHING("scheduler.params.last_batch_iteration", DIALECT_WHOLE, NULL, "a resumed run knows its step"),

    SECTION("tensor_parallel"),
    READ("tensor_parallel.autotp_size", DIALECT_WHOLE, "0"),
    SECTION("tensor_parallel.tp"),
    READ("tensor_parallel.tp.tp_size", DIALECT_WHOLE, NULL),
    NOTHING("tensor_parallel.tp.tp_grain_size", DIALECT_WHOLE, NULL, NULL),
    NOTHING("tensor_parallel.dtype", DIALECT_TEXT, NULL, NULL),
    NOTHING("tensor_parallel.injection_policy_tuple", DIALECT_LIST, NULL, "the model's family says how its matrices are sharded"),
    NOTHING("tensor_parallel.keep_module_on_host", DIALECT_BOOL, "false", NULL),
    NOTHING("tensor_parallel.kernel_inject", DIALECT_BOOL, "false", NULL),
    NOTHING("tensor_parallel.preset_model", DIALECT_TEXT, NULL, "the model's family says how its matrices are sharded"),
    NOTHING("tensor_parallel.tp_overlap_comm", DIALECT_BOOL, "false", "no result depends on it"),
    NOTHING("tensor_parallel.partition_config", DIALECT_ANY, NULL, "the model's family says how its matrices are sharded"),
    OPEN_SECTION("pipeline"),
    SETS_WITH("pipeline.stages", DIALECT_WHOLE, NULL, "parallel.pp", .low = 1),
    NOTHING("pipeline.partition", DIALECT_TEXT, "best", "parallel.split divides the layers; auto balances FLOPs"),
    NOTHING("pipeline.seed_layers", DIALECT_BOOL, "false", "random numbers do not depend on ranks"),
    READ("pipeline.activation_checkpoint_interval", DIALECT_WHOLE, "0"),
    NOTHING("pipeline.pipe_partitioned", DIALECT_BOOL, "true", "no result depends on it"),
    NOTHING("pipeline.grad_partitioned", DIALECT_BOOL, "true", "no result depends on it"),
    OPEN_SECTION("activation_checkpointing"),
    READ("activation_checkpointing.partition_activations", DIALECT_BOOL, "false"),
    LOST("activation_checkpointing.cpu_checkpointing", DIALECT_BOOL, "false", "the inputs of recomputed blocks stay on the device"),
    NOTHING("activation_checkpointing.contiguous_memory_optimization", DIALECT_BOOL, "false", PLANNED),
    NOTHING("activation_checkpointing.number_checkpoints", DIALECT_WHOLE, NULL, PLANNED),
    NOTHING("activation_checkpointing.synchronize_checkpoint_boundary", DIALECT_BOOL, "false", "no result depends on it"),
    NOTHING("activation_checkpointing.profile", DIALECT_BOOL, "false", TIMES),

    OPEN_SECTION("checkpoint"),
    READ_WITH("checkpoint.tag_validation", DIALECT_WORD, "Warn", .words = TAGS),
    NOTHING("checkpoint.load_universal", DIALECT_BOOL, "false", "every checkpoint loads on any number of ranks"),
    LOST("checkpoint.use_node_local_storage", DIALECT_BOOL, "false", "train.out must be a folder that all hosts see"),
    OPEN_SECTION("checkpoint.parallel_write"),
    NOTHING("checkpoint.parallel_write.pipeline_stage", DIALECT_BOOL, "false", ALWAYS),
    NOTHING("checkpoint.checkpoint_serialization", DIALECT_BOOL, "true", "checkpoints are safetensors"),
    NOTHING("checkpoint.writer", DIALECT_ANY, NULL, "no result depends on it"),
    LOST("nebula", DIALECT_ANY, NULL, "the run waits for a checkpoint to be written"),
    LOST("datastates_ckpt", DIALECT_ANY, NULL, "the run waits for a checkpoint to be written"),
    OPEN_SECTION("flops_profiler"),
    NOTHING("flops_profiler.enabled", DIALECT_BOOL, "false", "trireme plan shows the FLOPs of a step"),
    NOTHING("flops_profiler.recompute_fwd_factor", DIALECT_NUMBER, "0", NULL),
    NOTHING("flops_profiler.profile_step", DIALECT_WHOLE, "1", NULL),
    NOTHING("flops_profiler.module_depth", DIALECT_WHOLE, "-1", NULL),
    NOTHING("flops_profiler.top_modules", DIALECT_WHOLE, "1", NULL),
    NOTHING("flops_profiler.detailed", DIALECT_BOOL, "true", NULL),
    NOTHING("flops_profiler.output_file", DIALECT_TEXT, NULL, NULL),
    SECTION("comms_logger"),
    NOTHING("comms_logger.enabled", DIALECT_BOOL, "false", "trireme explain lists every collective of a step with its bytes"),
    NOTHING("comms_logger.verbose", DIALECT_BOOL, "false", NULL),
    NOTHING("comms_logger.prof_all", DIALECT_BOOL, "true", NULL),
    NOTHING("comms_logger.debug", DIALECT_BOOL, "false", NULL),
    NOTHING("comms_logger.prof_ops", DIALECT_LIST, NULL, NULL),
    SECTION("tensorboard"),
    LOST("tensorboard.enabled", DIALECT_BOOL, "false", NO_MONITOR),
    NOTHING("tensorboard.output_path", DIALECT_TEXT, "", NULL),
    NOTHING("tensorboard.job_name", DIALECT_TEXT, "DeepSpeedJobName", NULL),
    SECTION("csv_monitor"),
    LOST("csv_monitor.enabled", DIALECT_BOOL, "false", NO_MONITOR),
    NOTHING("csv_monitor.output_path", DIALECT_TEXT, "", NULL),
    NOTHING("csv_monitor.job_name", DIALECT_TEXT, "DeepSpeedJobName", NULL),
    SECTION("wandb"),
    LOST("wandb.enabled", DIALECT_BOOL, "false", NO_MONITOR),
    NOTHING("wandb.group", DIALECT_TEXT, NULL, NULL),
    NOTHING("wandb.team", DIALECT_TEXT, NULL, NULL),
    NOTHING("wandb.project", DIALECT_TEXT, "deepspeed", NULL),
    SECTION("comet"),
    LOST("comet.enabled", DIALECT_BOOL, "false", NO_MONITOR),
    NOTHING("comet.samples_log_interval", DIALECT_WHOLE, "100", NULL),
    NOTHING("comet.project", DIALECT_TEXT, NULL, NULL),
    NOTHING("comet.workspace", DIALECT_TEXT, NULL, NULL),
    NOTHING("comet.api_key", DIALECT_TEXT, NULL, NULL),
    NOTHING("comet.experiment_name", DIALECT_TEXT, NULL, NULL),
    NOTHING("comet.experiment_key", DIALECT_TEXT, NULL, NULL),
    NOTHING("comet.online", DIALECT_BOOL, NULL, NULL),
    NOTHING("comet.mode", DIALECT_TEXT, NULL, NULL),
    OPEN_SECTION("timers"),
    SECTION("timers.throughput"),
    NOTHING("timers.throughput.enabled", DIALECT_BOOL, "true", NULL),
    NOTHING("timers.throughput.synchronized", DIALECT_BOOL, "true", NULL),
    OPEN_SECTION("autotuning"),
    LOST("autotuning.enabled", DIALECT_BOOL, "false", "trireme plan finds the strategy and the micro-batch without running a job"),
    NOTHING("autotuning.*", DIALECT_ANY, NULL, NULL),
    OPEN_SECTION("elasticity"),
    READ("elasticity.enabled", DIALECT_BOOL, "false"),
    READ_WITH("elasticity.max_train_batch_size", DIALECT_WHOLE, "2000", .low = 1, .unquoted = true),
    READ("elasticity.micro_batch_sizes", DIALECT_LIST, NULL),
    READ_WITH("elasticity.min_gpus", DIALECT_WHOLE, "1", .low = 1, .unquoted = true),
    READ_WITH("elasticity.max_gpus", DIALECT_WHOLE, "10000", .low = 1, .unquoted = true),
    NOTHING("elasticity.min_time", DIALECT_NUMBER, "0", NULL),
    READ("elasticity.prefer_larger_batch", DIALECT_BOOL, "true"),
    READ("elasticity.ignore_non_elastic_batch_info", DIALECT_BOOL, "false"),
    READ("elasticity.version", DIALECT_NUMBER, "0.2"),
    READ_WITH("elasticity.model_parallel_size", DIALECT_WHOLE, "1", .low = 1),
    READ_WITH("elasticity.num_gpus_per_node", DIALECT_WHOLE, "1", .low = 1),
    OPEN_SECTION("compile"),
    NOTHING("compile.deepcompile", DIALECT_BOOL, "false", "kernels are compiled already"),
    NOTHING("compile.*", DIALECT_ANY, NULL, NULL),
    OPEN_SECTION("expert_parallel"),
    REFUSED("expert_parallel.enabled", DIALECT_BOOL, "false", "mixtures of experts are planned, not written yet"),
    NOTHING("expert_parallel.*", DIALECT_ANY, NULL, NULL),
    SECTION("hybrid_engine"),
    REFUSED("hybrid_engine.enabled", DIALECT_BOOL, "false", "generation within training is no part of Trireme"),
    NOTHING("hybrid_engine.max_out_tokens", DIALECT_WHOLE, "512", NULL),
    NOTHING("hybrid_engine.inference_tp_size", DIALECT_WHOLE, "1", NULL),
    NOTHING("hybrid_engine.release_inference_cache", DIALECT_BOOL, "false", NULL),
    NOTHING("hybrid_engine.enable_cuda_graph", DIALECT_BOOL, "false", NULL),
    NOTHING("hybrid_engine.pin_parameters", DIALECT_BOOL, "true", NULL),
    NOTHING("hybrid_engine.tp_gather_partition_size", DIALECT_WHOLE, "8", NULL),
    OPEN_SECTION("progressive_layer_drop"),
    REFUSED("progressive_layer_drop.enabled", DIALECT_BOOL, "false", "dropped layers are another model"),
    NOTHING("progressive_layer_drop.*", DIALECT_ANY, NULL, NULL),
    OPEN_SECTION("eigenvalue"),
    LOST("eigenvalue.enabled", DIALECT_BOOL, "false", "no eigenvalues are computed"),
    NOTHING("eigenvalue.*", DIALECT_ANY, NULL, NULL),
    OPEN_SECTION("curriculum_learning"),
    REFUSED("curriculum_learning.enabled", DIALECT_BOOL, "false", "all steps have sequences of one length"),
    NOTHING("curriculum_learning.*", DIALECT_ANY, NULL, NULL),
    OPEN_SECTION("data_efficiency"),
    REFUSED("data_efficiency.enabled", DIALECT_BOOL, "false", "random layer dropping and curricula are another training"),
    NOTHING("data_efficiency.*", DIALECT_ANY, NULL, NULL),
    REFUSED("compression_training", DIALECT_ANY, NULL, "pruning and quantized training are another training"),
    REFUSED("quantize_training", DIALECT_ANY, NULL, "quantized training is another training"),
    REFUSED("sparse_attention", DIALECT_ANY, NULL, "attention is dense, or has a window as the model's family says"),
    REFUSED("weight_quantization", DIALECT_ANY, NULL, "weights are not quantized"),
};
// clang-format on

#define ZERO(old, now)                                                                             \
    {                                                                                              \
        "zero_optimization." old, "zero_optimization." now                                         \
    }
#define ZERO3(name) ZERO(name, "stage3_" name)
static const char *const RENAMED[][2] = {
    {"bfloat16", "bf16"},
    ZERO3("prefetch_bucket_size"),
    ZERO3("param_persistence_threshold"),
    ZERO3("model_persistence_threshold"),
    ZERO3("max_live_parameters"),
    ZERO3("max_reuse_distance"),
    ZERO3("gather_16bit_weights_on_model_save"),
    ZERO3("module_granularity_threshold"),
    ZERO3("use_all_reduce_for_fetch_params"),
    ZERO3("allgather_sequential"),
    ZERO("stage3_gather_fp16_weights_on_model_save", "stage3_gather_16bit_weights_on_model_save"),
    ZERO("cpu_offload_params", "cpu_offload_param"),
    {"tensor_parallel.tensor_parallel", "tensor_parallel.tp"},
    {"tensor_parallel.replace_with_kernel_inject", "tensor_parallel.kernel_inject"},
    {NULL, NULL}};

// ---- before the keys are read

// Returns whether bare text is a word that a script was to replace: CONFIG_BATCH_SIZE.
static bool is_placeholder(const yaml_node *n)
{
    const size_t bytes = n->kind == NODE_SCALAR && !n->quoted
                             ? strspn(n->scalar, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")
                             : 0;
    return bytes > 2 && n->scalar[strspn(n->scalar, "0123456789")] && strchr(n->scalar, '_') &&
           (!n->scalar[bytes] || n->scalar[bytes] == ',');
}

// Refuses such words below a key, which is "" at the top.
static status refuse_placeholders(const dialect_reader *r, const yaml_node *n, const char *key,
                                  err *e)
{
    status result = OK;
    text path = {0};
    if (is_placeholder(n)) {
        err_set(e, E_USAGE,
                "found %.*s: this file is a template; valid: the file in which a script has put "
                "values for such words",
                (int)strcspn(n->scalar, ","), n->scalar);
        return dialect_refuse_at(r, n->line, key, e);
    }
    for (const yaml_node *c = n->kind == NODE_SCALAR ? NULL : n->first; c; c = c->next) {
        text_clear(&path);
        text_addf(&path, "%s%s%s", key, *key && c->key ? "." : "", c->key ? c->key : "");
        TRY(text_check(&path, e));
        TRY(refuse_placeholders(r, c, path.chars, e));
    }
done:
    text_clear(&path);
    return result;
}

// GPT-NeoX's files hold DeepSpeed's keys beside its own, which have dashes, and lists of values to try.
static status begin(const dialect_reader *r, yaml_node *root, err *e)
{
    static const char NEOX[] =
        "a key of GPT-NeoX, whose files hold a model's and a run's arguments beside DeepSpeed's "
        "keys; valid: a file of DeepSpeed alone";
    const yaml_node *stage = dialect_value(r, "zero_optimization.stage");
    for (const yaml_node *n = root->first; n; n = n->next)
        if (strchr(n->key, '-') || strcmp(n->key, "pipe_parallel_size") == 0 ||
            strcmp(n->key, "num_attention_heads") == 0)
            return dialect_refuse(r, n->key, e, "found %s", NEOX);
    if (stage && stage->kind == NODE_LIST)
        return dialect_refuse(r, "zero_optimization.stage", e,
                              "found a list, which GPT-NeoX's autotuning tries in turn; valid: 0, "
                              "1, 2, 3");
    return refuse_placeholders(r, root, "", e);
}

const dialect dialect_deepspeed = {
    .name = "deepspeed",
    .system = "DeepSpeed",
    .is_json = true,
    .ignores_other = true,
    .rows = ROW,
    .row_count = sizeof ROW / sizeof *ROW,
    .renamed = RENAMED,
    .begin = begin,
    .finish = deepspeed_finish,
    .dtypes =
        "master weights fp32 in both; gradients are summed over micro-batches in fp32 "
        "(DeepSpeed: in data_types.grad_accum_dtype, else in the type of the weights) and over "
        "ranks in train.reduce_dtype, fp32 by default (DeepSpeed: in communication_data_type, "
        "else in the type of the weights)",
};
