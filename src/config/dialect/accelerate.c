// accelerate.c -- the dialect of HuggingFace Accelerate's default_config.yaml (accelerate 1.15,
// commands/config/config_args.py and commands/launch.py). accelerate_begin.c and accelerate_finish.c have what several
// keys decide together. dialect.c reads it. See dialect.h.
#include "config/dialect/accelerate.h"

static const char *const PLACES[][2] = {
    {"LOCAL_MACHINE", "here"}, {"AMAZON_SAGEMAKER", NULL}, {NULL, NULL}};
static const char *const TYPES[][2] = {
    {"NO", "ddp"},           {"MULTI_CPU", "ddp"},  {"MULTI_GPU", "ddp"},
    {"MULTI_NPU", "ddp"},    {"MULTI_MLU", "ddp"},  {"MULTI_SDAA", "ddp"},
    {"MULTI_MUSA", "ddp"},   {"MULTI_XPU", "ddp"},  {"MULTI_HPU", "ddp"},
    {"MULTI_NEURON", "ddp"}, {"DEEPSPEED", "zero"}, {"FSDP", "zero3"},
    {"MEGATRON_LM", "ddp"},  {NULL, NULL}};
static const char *const PRECISIONS[][2] = {
    {"no", "fp32"}, {"fp16", "fp16"}, {"bf16", "bf16"}, {"fp8", NULL}, {NULL, NULL}};
static const char *const VERSIONS[][2] = {{"1", "1"}, {"2", "2"}, {NULL, NULL}};
static const char *const STRATEGIES[][2] = {{"FULL_SHARD", "zero3"},
                                            {"SHARD_GRAD_OP", "zero2"},
                                            {"NO_SHARD", "ddp"},
                                            {"HYBRID_SHARD", "zero3"},
                                            {"HYBRID_SHARD_ZERO2", "zero2"},
                                            {"_HYBRID_SHARD_ZERO2", "zero2"},
                                            {"1", "zero3"},
                                            {"2", "zero2"},
                                            {"3", "ddp"},
                                            {"4", "zero3"},
                                            {"5", "zero2"},
                                            {NULL, NULL}};
static const char *const WRAPS[][2] = {{"TRANSFORMER_BASED_WRAP", "blocks"},
                                       {"SIZE_BASED_WRAP", "blocks"},
                                       {"NO_WRAP", "blocks"},
                                       {NULL, NULL}};
static const char *const STATES[][2] = {{"FULL_STATE_DICT", "folder"},
                                        {"LOCAL_STATE_DICT", "folder"},
                                        {"SHARDED_STATE_DICT", "folder"},
                                        {"1", "folder"},
                                        {"2", "folder"},
                                        {"3", "folder"},
                                        {NULL, NULL}};
static const char *const STAGES[][2] = {
    {"0", "ddp"}, {"1", "zero1"}, {"2", "zero2"}, {"3", "zero3"}, {NULL, NULL}};
static const char *const TIERS[][2] = {
    {"none", "device"}, {"cpu", "host"}, {"nvme", "file"}, {NULL, NULL}};
static const char *const GRAINS[][2] = {{"full", "full"}, {"selective", "selective"}, {NULL, NULL}};

static const char LAUNCHER[] = "trireme accelerate launch reads it";
static const char COMMAND_LINE[] = "Accelerate's launcher takes it from its command line alone, "
                                   "and so does trireme accelerate launch";
static const char NO_COMPILER[] = "kernels are compiled already: there is no Python to compile";
static const char BLOCKS[] = "a block is gathered as a whole";
static const char AHEAD[] = "the next block is gathered ahead, in forward and in backward";
static const char FOLDER[] =
    "a checkpoint is always a HuggingFace folder, which loads on any number of ranks";
static const char OWN_PART[] = "ranks read what they own of a checkpoint";
static const char EXPERTS[] = "mixtures of experts are planned, not written yet";
static const char MODEL[] = "the model's family and config.json say it";

// clang-format off
static const dialect_row ROW[] = {
    READ_WITH("compute_environment", DIALECT_WORD, "LOCAL_MACHINE", .words = PLACES),
    READ_WITH("distributed_type", DIALECT_WORD, NULL, .words = TYPES),
    READ_WITH("mixed_precision", DIALECT_WORD, NULL, .words = PRECISIONS),
    READ("fp16", DIALECT_BOOL, NULL),
    READ("num_processes", DIALECT_WHOLE, NULL),
    READ_WITH("num_machines", DIALECT_WHOLE, "1", .low = 1),
    NOTHING("machine_rank", DIALECT_WHOLE, "0", LAUNCHER),
    NOTHING("gpu_ids", DIALECT_TEXT, "all", LAUNCHER),
    NOTHING("main_process_ip", DIALECT_TEXT, NULL, LAUNCHER),
    NOTHING("main_process_port", DIALECT_WHOLE, NULL, LAUNCHER),
    NOTHING("rdzv_backend", DIALECT_TEXT, "static", COMMAND_LINE),
    NOTHING("same_network", DIALECT_BOOL, "false", NULL),
    NOTHING("main_training_function", DIALECT_TEXT, "main", NULL),
    NOTHING("enable_cpu_affinity", DIALECT_BOOL, "false", COMMAND_LINE),
    READ("use_cpu", DIALECT_BOOL, "false"),
    READ("debug", DIALECT_BOOL, "false"),
    NOTHING("downcast_bf16", DIALECT_BOOL, "false", NULL),
    NOTHING("tpu_name", DIALECT_TEXT, NULL, NULL),
    NOTHING("tpu_zone", DIALECT_TEXT, NULL, NULL),
    NOTHING("tpu_use_cluster", DIALECT_BOOL, "false", NULL),
    NOTHING("tpu_use_sudo", DIALECT_BOOL, "false", NULL),
    NOTHING("command_file", DIALECT_TEXT, NULL, NULL),
    NOTHING("commands", DIALECT_ANY, NULL, NULL),
    NOTHING("tpu_vm", DIALECT_ANY, NULL, NULL),
    NOTHING("tpu_env", DIALECT_ANY, NULL, NULL),
    READ("dynamo_backend", DIALECT_TEXT, NULL),
    OPEN_SECTION("dynamo_config"),
    NOTHING("dynamo_config.dynamo_backend", DIALECT_TEXT, "no", NO_COMPILER),
    NOTHING("dynamo_config.dynamo_mode", DIALECT_TEXT, "default", NULL),
    NOTHING("dynamo_config.dynamo_use_fullgraph", DIALECT_BOOL, "false", NULL),
    NOTHING("dynamo_config.dynamo_use_dynamic", DIALECT_BOOL, "false", NULL),
    NOTHING("dynamo_config.dynamo_use_regional_compilation", DIALECT_BOOL, "false", NULL),
    OPEN_SECTION("mpirun_config"),
    NOTHING("mpirun_config.mpirun_hostfile", DIALECT_TEXT, NULL, "mpirun itself takes a file of hosts: mpirun --hostfile FILE trireme train"),
    NOTHING("mpirun_config.mpirun_ccl", DIALECT_TEXT, NULL, NULL),

    OPEN_SECTION("fsdp_config"),
    READ_WITH("fsdp_config.fsdp_version", DIALECT_WORD, "1", .words = VERSIONS),
    READ_WITH("fsdp_config.fsdp_sharding_strategy", DIALECT_WORD, "FULL_SHARD", .words = STRATEGIES),
    READ("fsdp_config.fsdp_reshard_after_forward", DIALECT_TEXT, "true"),
    READ("fsdp_config.fsdp_offload_params", DIALECT_BOOL, "false"),
    READ_WITH("fsdp_config.fsdp_auto_wrap_policy", DIALECT_WORD, NULL, .words = WRAPS),
    NOTHING("fsdp_config.fsdp_transformer_layer_cls_to_wrap", DIALECT_TEXT, NULL, BLOCKS),
    NOTHING("fsdp_config.fsdp_min_num_params", DIALECT_WHOLE, "100000000", BLOCKS),
    NOTHING("fsdp_config.fsdp_backward_prefetch", DIALECT_TEXT, NULL, AHEAD),
    NOTHING("fsdp_config.fsdp_forward_prefetch", DIALECT_BOOL, "false", AHEAD),
    READ_WITH("fsdp_config.fsdp_state_dict_type", DIALECT_WORD, NULL, .words = STATES),
    NOTHING("fsdp_config.fsdp_use_orig_params", DIALECT_BOOL, "true", "parameters always keep their own names and groups"),
    NOTHING("fsdp_config.fsdp_cpu_ram_efficient_loading", DIALECT_BOOL, "true", OWN_PART),
    NOTHING("fsdp_config.fsdp_sync_module_states", DIALECT_BOOL, "true", OWN_PART),
    SETS_WITH("fsdp_config.fsdp_activation_checkpointing", DIALECT_BOOL, "false", "parallel.recompute", .words = (const char *const[][2]){{"true", "full"}, {"false", "none"}, {NULL, NULL}}),
    LOST("fsdp_config.fsdp_activation_checkpointing_offload", DIALECT_BOOL, "false", "the inputs of recomputed blocks stay on the device"),
    LOST("fsdp_config.fsdp_ignored_modules", DIALECT_TEXT, NULL, "all parameters are sharded; groups.dp chooses the strategy of some"),

    OPEN_SECTION("deepspeed_config"),
    READ("deepspeed_config.deepspeed_config_file", DIALECT_TEXT, NULL),
    READ_WITH("deepspeed_config.zero_stage", DIALECT_WORD, NULL, .words = STAGES),
    SETS_WITH("deepspeed_config.gradient_accumulation_steps", DIALECT_WHOLE, NULL, "train.accumulation", .low = 1),
    SETS("deepspeed_config.gradient_clipping", DIALECT_NUMBER, NULL, "train.clip_grad_norm"),
    SETS_WITH("deepspeed_config.offload_optimizer_device", DIALECT_WORD, NULL, "parallel.offload.optimizer", .words = TIERS),
    SETS_WITH("deepspeed_config.offload_param_device", DIALECT_WORD, NULL, "parallel.offload.weights", .words = TIERS),
    READ("deepspeed_config.offload_optimizer_nvme_path", DIALECT_TEXT, NULL),
    READ("deepspeed_config.offload_param_nvme_path", DIALECT_TEXT, NULL),
    NOTHING("deepspeed_config.zero3_init_flag", DIALECT_BOOL, NULL, OWN_PART),
    NOTHING("deepspeed_config.zero3_save_16bit_model", DIALECT_BOOL, NULL, FOLDER),
    NOTHING("deepspeed_config.deepspeed_multinode_launcher", DIALECT_TEXT, NULL, LAUNCHER),
    NOTHING("deepspeed_config.deepspeed_hostfile", DIALECT_TEXT, NULL, LAUNCHER),
    NOTHING("deepspeed_config.deepspeed_inclusion_filter", DIALECT_TEXT, NULL, LAUNCHER),
    NOTHING("deepspeed_config.deepspeed_exclusion_filter", DIALECT_TEXT, NULL, LAUNCHER),
    LOST("deepspeed_config.deepspeed_moe_layer_cls_names", DIALECT_TEXT, NULL, EXPERTS),

    OPEN_SECTION("megatron_lm_config"),
    SETS_WITH("megatron_lm_config.megatron_lm_tp_degree", DIALECT_WHOLE, "1", "parallel.tp", .low = 1),
    SETS_WITH("megatron_lm_config.megatron_lm_pp_degree", DIALECT_WHOLE, "1", "parallel.pp", .low = 1),
    SETS_WITH("megatron_lm_config.megatron_lm_num_micro_batches", DIALECT_WHOLE, NULL, "train.accumulation", .low = 1),
    SETS("megatron_lm_config.megatron_lm_gradient_clipping", DIALECT_NUMBER, "1.0", "train.clip_grad_norm"),
    SETS("megatron_lm_config.megatron_lm_sequence_parallelism", DIALECT_BOOL, NULL, "parallel.sequence_parallel"),
    NOTHING("megatron_lm_config.megatron_lm_recompute_activations", DIALECT_BOOL, NULL, "Accelerate does not hand it to Megatron-LM; megatron_lm_recompute_granularity chooses"),
    SETS_WITH("megatron_lm_config.megatron_lm_recompute_granularity", DIALECT_WORD, NULL, "parallel.recompute", .words = GRAINS),
    NOTHING("megatron_lm_config.megatron_lm_recompute_method", DIALECT_TEXT, NULL, "each block is recomputed by itself"),
    NOTHING("megatron_lm_config.megatron_lm_recompute_num_layers", DIALECT_WHOLE, NULL, "each block is recomputed by itself"),
    READ("megatron_lm_config.megatron_lm_use_distributed_optimizer", DIALECT_BOOL, NULL),
    REFUSED("megatron_lm_config.megatron_lm_use_custom_fsdp", DIALECT_BOOL, "false", "valid: distributed_type: FSDP, which is parallel.dp zero3"),
    LOST("megatron_lm_config.megatron_lm_no_load_optim", DIALECT_BOOL, "false", "a run that resumes loads the optimizer's state"),
    LOST("megatron_lm_config.megatron_lm_no_save_optim", DIALECT_BOOL, "false", "checkpoints have the optimizer's state"),
    REFUSED("megatron_lm_config.megatron_lm_eod_mask_loss", DIALECT_BOOL, "false", "the loss counts every token of a shard"),
    READ("megatron_lm_config.megatron_lm_optimizer_cpu_offload", DIALECT_BOOL, "false"),
    NOTHING("megatron_lm_config.megatron_lm_overlap_cpu_optimizer_d2h_h2d", DIALECT_BOOL, "false", "transfers always overlap computation"),
    LOST("megatron_lm_config.megatron_lm_use_precision_aware_optimizer", DIALECT_BOOL, "false", "the optimizer's state is fp32 here"),
    LOST("megatron_lm_config.megatron_lm_decoder_last_pipeline_num_layers", DIALECT_WHOLE, NULL, "layers are balanced over stages; parallel.split gives the numbers of layers"),
    NOTHING("megatron_lm_config.megatron_lm_attention_backend", DIALECT_TEXT, NULL, "attention has one kernel for each device"),
    UNEQUAL_BUT("megatron_lm_config.megatron_lm_expert_model_parallel_size", DIALECT_WHOLE, "1", EFFECT_REFUSED, EXPERTS),
    UNEQUAL_BUT("megatron_lm_config.megatron_lm_expert_tensor_parallel_size", DIALECT_WHOLE, "1", EFFECT_REFUSED, EXPERTS),
    SETS_WITH("megatron_lm_config.megatron_lm_context_parallel_size", DIALECT_WHOLE, NULL, "parallel.cp", .low = 1),
    UNEQUAL_BUT("megatron_lm_config.megatron_lm_attention_dropout", DIALECT_NUMBER, "0", EFFECT_LOST, MODEL),
    UNEQUAL_BUT("megatron_lm_config.megatron_lm_hidden_dropout", DIALECT_NUMBER, "0", EFFECT_LOST, MODEL),
    UNEQUAL_BUT("megatron_lm_config.megatron_lm_attention_softmax_in_fp32", DIALECT_BOOL, "true", EFFECT_NOTHING, "softmax always computes in fp32"),
    UNEQUAL_BUT("megatron_lm_config.megatron_lm_calculate_per_token_loss", DIALECT_BOOL, "true", EFFECT_NOTHING, "the loss is always the mean over the tokens of the global batch"),
    UNEQUAL_BUT("megatron_lm_config.megatron_lm_use_rotary_position_embeddings", DIALECT_BOOL, "true", EFFECT_NOTHING, MODEL),

    OPEN_SECTION("parallelism_config"),
    READ_WITH("parallelism_config.parallelism_config_dp_replicate_size", DIALECT_WHOLE, "1", .low = 1),
    READ_WITH("parallelism_config.parallelism_config_dp_shard_size", DIALECT_WHOLE, "1", .low = 1),
    READ_WITH("parallelism_config.parallelism_config_tp_size", DIALECT_WHOLE, "1", .low = 1),
    READ_WITH("parallelism_config.parallelism_config_cp_size", DIALECT_WHOLE, "1", .low = 1),
    READ("parallelism_config.parallelism_config_cp_backend", DIALECT_TEXT, "torch"),
    NOTHING("parallelism_config.parallelism_config_cp_comm_strategy", DIALECT_TEXT, "allgather", "no result depends on it"),
    READ_WITH("parallelism_config.parallelism_config_sp_size", DIALECT_WHOLE, "1", .low = 1),
    READ("parallelism_config.parallelism_config_sp_backend", DIALECT_TEXT, "deepspeed"),
    NOTHING("parallelism_config.parallelism_config_sp_seq_length", DIALECT_TEXT, "None", "data.seq_len is the length of all sequences"),
    NOTHING("parallelism_config.parallelism_config_sp_seq_length_is_variable", DIALECT_BOOL, "true", "data.seq_len is the length of all sequences"),
    NOTHING("parallelism_config.parallelism_config_sp_attn_implementation", DIALECT_TEXT, "sdpa", "attention has one kernel for each device"),

    OPEN_SECTION("fp8_config"),
    NOTHING("fp8_config.fp8_backend", DIALECT_TEXT, NULL, NULL),
    NOTHING("fp8_config.fp8_use_autocast_during_eval", DIALECT_BOOL, "false", NULL),
    NOTHING("fp8_config.fp8_margin", DIALECT_WHOLE, "0", NULL),
    NOTHING("fp8_config.fp8_interval", DIALECT_WHOLE, "1", NULL),
    NOTHING("fp8_config.fp8_format", DIALECT_TEXT, "HYBRID", NULL),
    NOTHING("fp8_config.fp8_amax_history_len", DIALECT_WHOLE, "1024", NULL),
    NOTHING("fp8_config.fp8_amax_compute_algo", DIALECT_TEXT, "most_recent", NULL),
    NOTHING("fp8_config.fp8_override_linear_precision", DIALECT_ANY, NULL, NULL),
    NOTHING("fp8_config.fp8_opt_level", DIALECT_TEXT, "O2", NULL),
    NOTHING("fp8_config.fp8_enable_fsdp_float8_all_gather", DIALECT_BOOL, "true", NULL),
    NOTHING("fp8_config.fp8_pad_inner_dim", DIALECT_BOOL, "true", NULL),
};
// clang-format on

static const char *const BEGUN[][2] = {
    {"fsdp_config", "fsdp_"}, {"fp8_config", "fp8_"}, {"dynamo_config", "dynamo_"}, {NULL, NULL}};

const dialect dialect_accelerate = {
    .name = "accelerate",
    .system = "Accelerate",
    .rows = ROW,
    .row_count = sizeof ROW / sizeof *ROW,
    .begun = BEGUN,
    .begin = accelerate_begin,
    .finish = accelerate_finish,
    .dtypes = "master weights fp32 in both (with FSDP and DeepSpeed Accelerate upcasts trained "
              "weights to fp32); "
              "gradients are summed over ranks in train.reduce_dtype, fp32 by default (Accelerate: "
              "in the type of "
              "mixed_precision with FSDP and DeepSpeed, else in the type of the weights)",
};
