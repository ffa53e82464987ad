// torch.c -- the dialect of PyTorch's keywords in a YAML file (torch 2.11): those of DistributedDataParallel, fully_shard
// and FullyShardedDataParallel in sections of their names or at the top, of communication hooks, optimizers and
// samplers. Sizes of buckets are MiB. dialect.c reads it. See dialect.h.
#include "config/dialect/private.h"

#include <string.h>

#define DTYPE(word, ours)                                                                          \
    {word, ours},                                                                                  \
    {                                                                                              \
        "torch." word, ours                                                                        \
    }
#define STRATEGY(word, ours)                                                                       \
    {word, ours},                                                                                  \
    {                                                                                              \
        "ShardingStrategy." word, ours                                                             \
    }

static const char *const DTYPES[][2] = {DTYPE("float32", "fp32"), DTYPE("bfloat16", "bf16"),
                                        DTYPE("float16", "fp16"), DTYPE("float", "fp32"),
                                        DTYPE("half", "fp16"),    {"fp32", "fp32"},
                                        {"bf16", "bf16"},         {"fp16", "fp16"},
                                        DTYPE("float64", NULL),   {NULL, NULL}};
static const char *const STRATEGIES[][2] = {STRATEGY("FULL_SHARD", "zero3"),
                                            STRATEGY("SHARD_GRAD_OP", "zero2"),
                                            STRATEGY("NO_SHARD", "ddp"),
                                            STRATEGY("HYBRID_SHARD", "zero3"),
                                            STRATEGY("_HYBRID_SHARD_ZERO2", "zero2"),
                                            {NULL, NULL}};
static const char *const HOOKS[][2] = {{"allreduce_hook", "none"},
                                       {"fp16_compress_hook", "fp16"},
                                       {"bf16_compress_hook", "bf16"},
                                       {"powerSGD_hook", "powersgd"},
                                       {"batched_powerSGD_hook", NULL},
                                       {"quantization_pertensor_hook", NULL},
                                       {"quantization_perchannel_hook", NULL},
                                       {"post_localSGD_hook", NULL},
                                       {"noop_hook", NULL},
                                       {NULL, NULL}};
static const char *const OPTIMIZERS[][2] = {
    {"AdamW", "adamw"}, {"Adam", "adam"}, {"SGD", "sgd"},  {"Adafactor", NULL}, {"Adagrad", NULL},
    {"RMSprop", NULL},  {"LBFGS", NULL},  {"NAdam", NULL}, {"RAdam", NULL},     {"Adadelta", NULL},
    {"Adamax", NULL},   {"ASGD", NULL},   {"Rprop", NULL}, {"Muon", NULL},      {NULL, NULL}};
static const char *const UNUSED[][2] = {{"true", "zero"}, {"false", "error"}, {NULL, NULL}};
static const char *const ORDERS[][2] = {{"true", "torch"}, {"false", "sequential"}, {NULL, NULL}};
static const char *const RECOMPUTING[][2] = {{"true", "full"}, {"false", "none"}, {NULL, NULL}};
static const char *const CLASSES[] = {"AdamW", "Adam", "SGD"};

static const char ALWAYS[] = "Trireme always does so";
static const char LOCAL[] = "a rank takes the device of its number on its host";
static const char NO_BUFFERS[] = "models have no buffers: rotary tables are fp32";
static const char BLOCKS[] = "a block of the model is gathered as a whole";
static const char AHEAD[] =
    "the next block is gathered while one computes, and at most two are alive";
static const char MESH[] =
    "the mesh of parallel.dp_replicate, dp_shard, tp, cp and pp says which ranks meet";
static const char SPEED[] = "no result depends on it";
static const char WHOLE[] =
    "no parameter stands outside of its strategy; valid: groups: [{match: NAME, dp: ddp}] keeps "
    "parameters unsharded, and trainable: false freezes them";
static const char OTHER_RULE[] = "it is another optimizer, which Trireme does not have";
static const char READERS[] = "data are read ahead in the background, and shards are mapped";

static status convert_mib(const dialect_reader *r, const dialect_row *row, const yaml_node *n,
                          text *out, err *e)
{
    double mib = 0;
    (void)r, (void)row;
    (void)text_to_double(n->scalar, &mib);
    text_addf(out, "%.0f", mib * 1048576);
    return text_check(out, e);
}

static status convert_seconds(const dialect_reader *r, const dialect_row *row, const yaml_node *n,
                              text *out, err *e)
{
    (void)r, (void)row;
    text_addf(out, "%ss", n->scalar);
    return text_check(out, e);
}

// A truth value, or the number of ranks that keep the weights sharded in between.
static status convert_reshard(const dialect_reader *r, const dialect_row *row, const yaml_node *n,
                              text *out, err *e)
{
    bool on;
    int64_t ranks;
    if (text_to_bool(n->scalar, &on) && strlen(n->scalar) > 1)
        text_add(out, on ? "true" : "false");
    else if (text_to_count(n->scalar, &ranks) && ranks > 1)
        text_addf(out, "%lld", (long long)ranks);
    else
        return dialect_refuse(r, row->theirs, e,
                              "found %.*s; valid: true, false, or a number of ranks from 2",
                              TEXT_CUT(n->scalar, 100));
    return text_check(out, e);
}

// A keyword of a section, which may stand at the top.
#define EITHER(section, word, kind, default, what, why)                                            \
    UNEQUAL(section "." word, kind, default, what, why), UNEQUAL(word, kind, default, what, why)
#define EITHER_SETS(section, word, ...)                                                            \
    SETS_WITH(section "." word, __VA_ARGS__), SETS_WITH(word, __VA_ARGS__)
#define EITHER_READ(section, word, ...)                                                            \
    READ_WITH(section "." word, __VA_ARGS__), READ_WITH(word, __VA_ARGS__)
#define DDP(word, kind, default, why)  EITHER("ddp", word, kind, default, EFFECT_NOTHING, why)
#define FSDP(word, kind, default, why) EITHER("fsdp", word, kind, default, EFFECT_NOTHING, why)
// Fields of MixedPrecision and MixedPrecisionPolicy.
#define MIXED(section)                                                                             \
    SECTION(section),                                                                              \
        SETS_WITH(section ".param_dtype", DIALECT_WORD, NULL, "train.precision", .words = DTYPES), \
        SETS_WITH(section ".reduce_dtype", DIALECT_WORD, NULL, "train.reduce_dtype",               \
                  .words = DTYPES),                                                                \
        NOTHING(section ".buffer_dtype", DIALECT_TEXT, NULL, NO_BUFFERS),                          \
        NOTHING(section ".output_dtype", DIALECT_TEXT, NULL,                                       \
                "blocks add their result to an fp32 residual"),                                    \
        NOTHING(section ".cast_forward_inputs", DIALECT_BOOL, "true", ALWAYS),                     \
        NOTHING(section ".cast_root_forward_inputs", DIALECT_BOOL, "true", ALWAYS),                \
        NOTHING(section ".keep_low_precision_grads", DIALECT_BOOL, "false", "gradients are fp32")
// Keywords of torch.optim. `rate` and `decay` are the class's defaults.
#define OPTIM(section, rate, decay)                                                                \
    SECTION(section), SETS(section ".lr", DIALECT_NUMBER, rate, "optimizer.lr"),                   \
        SETS(section ".betas", DIALECT_LIST, NULL, "optimizer.betas"),                             \
        SETS(section ".eps", DIALECT_NUMBER, NULL, "optimizer.eps"),                               \
        SETS(section ".weight_decay", DIALECT_NUMBER, decay, "optimizer.weight_decay"),            \
        SETS(section ".momentum", DIALECT_NUMBER, NULL, "optimizer.momentum"),                     \
        REFUSED(section ".dampening", DIALECT_NUMBER, "0", OTHER_RULE),                            \
        REFUSED(section ".nesterov", DIALECT_BOOL, "false", OTHER_RULE),                           \
        REFUSED(section ".amsgrad", DIALECT_BOOL, "false", OTHER_RULE),                            \
        REFUSED(section ".maximize", DIALECT_BOOL, "false", OTHER_RULE),                           \
        REFUSED(section ".differentiable", DIALECT_BOOL, "false", OTHER_RULE),                     \
        NOTHING(section ".foreach", DIALECT_BOOL, NULL, SPEED),                                    \
        NOTHING(section ".fused", DIALECT_BOOL, NULL, SPEED),                                      \
        NOTHING(section ".capturable", DIALECT_BOOL, "false", SPEED)

// clang-format off
static const dialect_row ROW[] = {
    SECTION("ddp"),
    DDP("device_ids", DIALECT_ANY, NULL, LOCAL),
    DDP("output_device", DIALECT_TEXT, NULL, LOCAL),
    DDP("dim", DIALECT_WHOLE, "0", "a batch is divided along its sequences"),
    DDP("broadcast_buffers", DIALECT_BOOL, NULL, NO_BUFFERS),
    DDP("init_sync", DIALECT_BOOL, "true", "all ranks read or draw the same weights"),
    EITHER_SETS("ddp", "bucket_cap_mb", DIALECT_NUMBER, "25", "parallel.bucket_bytes", .note = "MiB", .low = 1e-3, .convert = convert_mib),
    EITHER("ddp", "bucket_cap_mb_list", DIALECT_LIST, NULL, EFFECT_LOST, "buckets have one size, parallel.bucket_bytes"),
    EITHER_SETS("ddp", "find_unused_parameters", DIALECT_WORD, "false", "parallel.unused_parameters", .words = UNUSED),
    DDP("check_reduction", DIALECT_BOOL, "false", "a verifier replays the step before it runs"),
    DDP("gradient_as_bucket_view", DIALECT_BOOL, "false", ALWAYS),
    DDP("static_graph", DIALECT_BOOL, "false", "the order of a step is planned before it runs"),
    EITHER("ddp", "delay_all_reduce_named_params", DIALECT_ANY, NULL, EFFECT_LOST, "every bucket is reduced when its last gradient is there"),
    DDP("param_to_hook_all_reduce", DIALECT_ANY, NULL, SPEED),
    DDP("skip_all_reduce_unused_params", DIALECT_BOOL, "false", SPEED),
    DDP("batched_grad_copy", DIALECT_BOOL, "false", SPEED),
    DDP("join", DIALECT_ANY, NULL, "all ranks have equally many batches"),
    EITHER_SETS("ddp", "no_sync", DIALECT_BOOL, NULL, "parallel.no_sync"),
    EITHER_READ("ddp", "comm_hook", DIALECT_WORD, NULL, .words = HOOKS),
    REFUSED("ddp.comm_wrapper", DIALECT_TEXT, NULL, "one hook compresses at a time"),
    LOST("ddp.process_group", DIALECT_TEXT, NULL, MESH),
    LOST("ddp.device_mesh", DIALECT_ANY, NULL, "DDP uses all ranks"),
    SECTION("PowerSGDState"),
    LOST("PowerSGDState.process_group", DIALECT_TEXT, NULL, MESH),
    SETS_WITH("PowerSGDState.matrix_approximation_rank", DIALECT_WHOLE, "1", "parallel.hook.rank", .states = true, .low = 1),
    SETS_WITH("PowerSGDState.start_powerSGD_iter", DIALECT_WHOLE, "1000", "parallel.hook.start_step", .states = true),
    SETS_WITH("PowerSGDState.min_compression_rate", DIALECT_NUMBER, "2", "parallel.hook.min_compression_rate", .states = true),
    SETS_WITH("PowerSGDState.use_error_feedback", DIALECT_BOOL, "true", "parallel.hook.error_feedback", .states = true),
    SETS_WITH("PowerSGDState.warm_start", DIALECT_BOOL, "true", "parallel.hook.warm_start", .states = true),
    SETS_WITH("PowerSGDState.orthogonalization_epsilon", DIALECT_NUMBER, "0", "parallel.hook.epsilon", .states = true),
    NOTHING("PowerSGDState.random_seed", DIALECT_WHOLE, "0", "train.seed seeds it"),
    NOTHING("PowerSGDState.compression_stats_logging_frequency", DIALECT_WHOLE, "10000", "trireme explain shows the bytes of each bucket"),
    NOTHING("PowerSGDState.batch_tensors_with_same_shape", DIALECT_BOOL, "false", SPEED),

    SECTION("fsdp"),
    EITHER_READ("fsdp", "sharding_strategy", DIALECT_WORD, NULL, .words = STRATEGIES),
    EITHER_SETS("fsdp", "reshard_after_forward", DIALECT_TEXT, NULL, "parallel.reshard_after_forward", .convert = convert_reshard),
    FSDP("auto_wrap_policy", DIALECT_ANY, NULL, BLOCKS),
    FSDP("backward_prefetch", DIALECT_TEXT, "BACKWARD_PRE", AHEAD),
    FSDP("forward_prefetch", DIALECT_BOOL, "false", AHEAD),
    FSDP("set_modules_to_forward_prefetch", DIALECT_ANY, NULL, AHEAD),
    FSDP("set_modules_to_backward_prefetch", DIALECT_ANY, NULL, AHEAD),
    FSDP("limit_all_gathers", DIALECT_BOOL, "true", AHEAD),
    FSDP("use_orig_params", DIALECT_BOOL, NULL, ALWAYS),
    FSDP("sync_module_states", DIALECT_BOOL, NULL, "all ranks read or draw the same weights"),
    FSDP("param_init_fn", DIALECT_TEXT, NULL, "model.init chooses the weights at the start"),
    FSDP("device_id", DIALECT_TEXT, NULL, LOCAL),
    EITHER_READ("fsdp", "cpu_offload", DIALECT_ANY, NULL, .low = -1e300),
    EITHER_READ("fsdp", "offload_policy", DIALECT_ANY, NULL, .low = -1e300),
    EITHER_READ("fsdp", "device_mesh", DIALECT_ANY, NULL, .low = -1e300),
    READ("fsdp.mesh", DIALECT_ANY, NULL),
    EITHER("fsdp", "ignored_modules", DIALECT_ANY, NULL, EFFECT_REFUSED, WHOLE),
    EITHER("fsdp", "ignored_parameters", DIALECT_ANY, NULL, EFFECT_REFUSED, WHOLE),
    EITHER("fsdp", "ignored_states", DIALECT_ANY, NULL, EFFECT_REFUSED, WHOLE),
    EITHER("fsdp", "ignored_params", DIALECT_ANY, NULL, EFFECT_REFUSED, WHOLE),
    EITHER("fsdp", "shard_placement_fn", DIALECT_TEXT, NULL, EFFECT_REFUSED, "every parameter is sharded along dim 0"),
    LOST("fsdp.process_group", DIALECT_TEXT, NULL, MESH),
    LOST("process_group", DIALECT_TEXT, NULL, MESH),
    MIXED("ddp.mixed_precision"), MIXED("fsdp.mixed_precision"), MIXED("fsdp.mp_policy"), MIXED("mixed_precision"),
    MIXED("mp_policy"), MIXED("MixedPrecision"), MIXED("MixedPrecisionPolicy"),
    SETS_WITH("apply_activation_checkpointing", DIALECT_WORD, "false", "parallel.recompute", .words = RECOMPUTING),

    READ_WITH("optimizer.type", DIALECT_WORD, NULL, .words = OPTIMIZERS),
    READ_WITH("optimizer.name", DIALECT_WORD, NULL, .words = OPTIMIZERS),
    OPTIM("optimizer", NULL, NULL), OPTIM("AdamW", "1e-3", "1e-2"), OPTIM("Adam", "1e-3", "0"), OPTIM("SGD", "1e-3", "0"),
    SECTION("clip_grad_norm_"),
    SETS("clip_grad_norm_.max_norm", DIALECT_NUMBER, NULL, "train.clip_grad_norm"),
    REFUSED("clip_grad_norm_.norm_type", DIALECT_NUMBER, "2", "gradients are clipped by their L2 norm"),
    NOTHING("clip_grad_norm_.error_if_nonfinite", DIALECT_BOOL, "false", "checks.nonfinite chooses what such a step does"),
    NOTHING("clip_grad_norm_.foreach", DIALECT_BOOL, NULL, SPEED),

    SECTION("DistributedSampler"),
    NOTHING("DistributedSampler.num_replicas", DIALECT_WHOLE, NULL, "launch.ranks and the mesh say it"),
    NOTHING("DistributedSampler.rank", DIALECT_WHOLE, NULL, "launch.ranks and the mesh say it"),
    SETS_WITH("DistributedSampler.shuffle", DIALECT_WORD, "true", "data.order", .states = true, .words = ORDERS),
    SETS_WITH("DistributedSampler.seed", DIALECT_WHOLE, "0", "train.seed", .states = true),
    NOTHING("DistributedSampler.drop_last", DIALECT_BOOL, "false", "an epoch that does not end with a batch goes on into the next"),
    NOTHING("DistributedSampler.set_epoch", DIALECT_ANY, NULL, ALWAYS),
    SECTION("DataLoader"),
    SETS_WITH("DataLoader.batch_size", DIALECT_WHOLE, "1", "train.micro_batch", .low = 1),
    NOTHING("DataLoader.num_workers", DIALECT_WHOLE, NULL, READERS),
    NOTHING("DataLoader.pin_memory", DIALECT_BOOL, NULL, READERS),
    NOTHING("DataLoader.prefetch_factor", DIALECT_WHOLE, NULL, READERS),
    NOTHING("DataLoader.persistent_workers", DIALECT_BOOL, NULL, READERS),
    NOTHING("DataLoader.drop_last", DIALECT_BOOL, NULL, "an epoch that does not end with a batch goes on into the next"),
    SECTION("init_process_group"),
    NOTHING("init_process_group.backend", DIALECT_TEXT, NULL, "launch.comm auto takes what the devices need"),
    NOTHING("init_process_group.init_method", DIALECT_TEXT, NULL, "the launcher's variables say where ranks meet"),
    NOTHING("init_process_group.world_size", DIALECT_WHOLE, NULL, "launch.ranks or the launcher says it"),
    NOTHING("init_process_group.rank", DIALECT_WHOLE, NULL, "the launcher says it"),
    SETS_WITH("init_process_group.timeout", DIALECT_NUMBER, NULL, "checks.watchdog", .note = "seconds", .convert = convert_seconds),
};
// clang-format on

static const char *const RENAMED[][2] = {{"DataParallel", "ddp"},
                                         {"DDP", "ddp"},
                                         {"DistributedDataParallel", "ddp"},
                                         {"FSDP", "fsdp"},
                                         {"fully_shard", "fsdp"},
                                         {"FullyShardedDataParallel", "fsdp"},
                                         {NULL, NULL}};

// The path of a keyword: in its section, or else at the top. NULL: not given.
static const char *path_of(const dialect_reader *r, const char *in_section)
{
    const char *word = strrchr(in_section, '.') + 1;
    if (dialect_value(r, in_section)) return in_section;
    return dialect_value(r, word) ? word : NULL;
}

// Sets *on where a keyword turns offload on: true, a class's name, or a section unless offload_params is false.
static status read_offload(const dialect_reader *r, const char *path, bool *on, err *e)
{
    const yaml_node *n = path ? dialect_value(r, path) : NULL;
    const yaml_node *flag = n && n->kind == NODE_MAP ? yaml_node_entry(n, "offload_params") : n;
    const char *word = flag && flag->kind == NODE_SCALAR ? flag->scalar : NULL;
    if (!n || (word && text_to_bool(word, on))) return OK;
    *on = n->kind == NODE_MAP || (word && strstr(word, "CPUOffload"));
    if (*on || (word && strcmp(word, "OffloadPolicy") == 0)) return OK;
    return dialect_refuse(r, path, e,
                          "valid: true, false, CPUOffloadPolicy, or {offload_params: true}");
}

// A list of sizes, with names of its dimensions: (replicate, shard) of two.
static status finish_mesh(const dialect_reader *r, const char *path, err *e)
{
    status result = OK;
    static const char *const AXES_OF[][2] = {{"replicate", "dp_replicate"},
                                             {"dp_replicate", "dp_replicate"},
                                             {"shard", "dp_shard"},
                                             {"dp_shard", "dp_shard"},
                                             {"dp", "dp_shard"},
                                             {"fsdp", "dp_shard"},
                                             {"tp", "tp"},
                                             {"cp", "cp"},
                                             {"pp", "pp"}};
    static const char *const TWO[] = {"replicate", "shard"};
    const yaml_node *n = dialect_value(r, path), *names = NULL, *size = NULL;
    text key = {0};
    int at = 0;
    if (n->kind == NODE_MAP) names = yaml_node_entry(n, "mesh_dim_names");
    if (n->kind == NODE_MAP) n = yaml_node_entry(n, "mesh_shape");
    const int sizes = n && n->kind == NODE_LIST && n->first ? 1 + (n->first->next != NULL) : 0;
    const bool fits =
        sizes && (names ? names->kind == NODE_LIST : !n->first->next || !n->first->next->next);
    if (!fits)
        return dialect_refuse(r, path, e,
                              "valid: a list of one or two sizes, [REPLICATE, SHARD], or "
                              "{mesh_shape: [2, 4], mesh_dim_names: [replicate, shard]}");
    const yaml_node *name = names ? names->first : NULL;
    for (size = n->first; size; size = size->next, at++) {
        const char *word = names ? (name ? name->scalar : "") : TWO[sizes == 1 ? 1 : at];
        const char *axis = NULL;
        int64_t count;
        for (size_t i = 0; word && i < sizeof AXES_OF / sizeof *AXES_OF; i++)
            if (strcmp(AXES_OF[i][0], word) == 0) axis = AXES_OF[i][1];
        if (!axis || size->kind != NODE_SCALAR || !text_to_count(size->scalar, &count) ||
            count < 1) {
            result = dialect_refuse(
                r, path, e,
                "valid: sizes from 1 of the dimensions replicate, shard, tp, cp and pp");
            goto done;
        }
        text_clear(&key);
        text_addf(&key, "parallel.%s", axis);
        TRY(text_check(&key, e));
        TRY(dialect_set(r, key.chars, size->scalar, path, NULL, e));
        if (name) name = name->next;
    }
done:
    text_clear(&key);
    return result;
}

static status finish_fsdp(const dialect_reader *r, err *e)
{
    status result = OK;
    static const char *const TIERS[] = {"parallel.offload.weights", "parallel.offload.gradients",
                                        "parallel.offload.optimizer", "parallel.offload.update"};
    bool on = false;
    const char *strategy = path_of(r, "fsdp.sharding_strategy");
    const char *mesh = path_of(r, "fsdp.device_mesh"), *offload = path_of(r, "fsdp.cpu_offload");
    if (!mesh && dialect_value(r, "fsdp.mesh")) mesh = "fsdp.mesh";
    TRY(read_offload(r, offload, &on, e));
    if (!on) offload = path_of(r, "fsdp.offload_policy");
    if (!on) TRY(read_offload(r, offload, &on, e));
    const char *reshard = path_of(r, "fsdp.reshard_after_forward");
    if (strategy)
        TRY(dialect_set(r, "parallel.dp", dialect_our_word(r, strategy), strategy, NULL, e));
    else if (dialect_value(r, "fsdp") || reshard)
        TRY(dialect_set(r, "parallel.dp", "zero3", dialect_value(r, "fsdp") ? "fsdp" : reshard,
                        NULL, e));
    if (mesh) TRY(finish_mesh(r, mesh, e));
    if (strategy && strstr(dialect_text(r, strategy), "HYBRID") && !mesh)
        TRY(dialect_remark_on(r, strategy, true, e,
                              "found a hybrid strategy without a device_mesh; give "
                              "parallel.dp_replicate the number of hosts, which is 1 here"));
    for (size_t i = 0; on && i < sizeof TIERS / sizeof *TIERS; i++)
        TRY(dialect_set(r, TIERS[i], "host", offload, NULL, e));
done:
    return result;
}

static status finish_ddp(const dialect_reader *r, err *e)
{
    status result = OK;
    static const char *const OWN[] = {"ddp.bucket_cap_mb", "ddp.find_unused_parameters",
                                      "ddp.static_graph", "ddp.gradient_as_bucket_view",
                                      "ddp.comm_hook"};
    const char *hook = path_of(r, "ddp.comm_hook"), *own = dialect_value(r, "ddp") ? "ddp" : NULL;
    for (size_t i = 0; !own && i < sizeof OWN / sizeof *OWN; i++) own = path_of(r, OWN[i]);
    if (own) TRY(dialect_set(r, "parallel.dp", "ddp", own, NULL, e));
    if (hook)
        TRY(dialect_set(r, "parallel.hook.name", dialect_our_word(r, hook), hook, NULL, e));
    else if (dialect_value(r, "PowerSGDState"))
        TRY(dialect_set(r, "parallel.hook.name", "powersgd", "PowerSGDState", NULL, e));
done:
    return result;
}

// reduce_dtype is param_dtype by default.
static status finish_precision(const dialect_reader *r, err *e)
{
    status result = OK;
    static const char *const SECTIONS[] = {
        "ddp.mixed_precision", "fsdp.mixed_precision", "fsdp.mp_policy",      "mixed_precision",
        "mp_policy",           "MixedPrecision",       "MixedPrecisionPolicy"};
    text param = {0}, reduce = {0};
    for (size_t i = 0; i < sizeof SECTIONS / sizeof *SECTIONS; i++) {
        text_clear(&param);
        text_clear(&reduce);
        text_addf(&param, "%s.param_dtype", SECTIONS[i]);
        text_addf(&reduce, "%s.reduce_dtype", SECTIONS[i]);
        TRY(text_check(&param, e));
        TRY(text_check(&reduce, e));
        if (!dialect_value(r, param.chars) || dialect_value(r, reduce.chars)) continue;
        TRY(dialect_set(r, "train.reduce_dtype", dialect_our_word(r, param.chars), param.chars,
                        "reduce_dtype is param_dtype by default", e));
    }
done:
    text_clear(&param);
    text_clear(&reduce);
    return result;
}

// Refuses the keywords that the constructor of an optimizer's class refuses.
static status check_keywords(const dialect_reader *r, const char *section, const char *class,
                             bool is_sgd, err *e)
{
    static const char *const ADAM[] = {"lr",      "betas",          "eps",      "weight_decay",
                                       "amsgrad", "foreach",        "maximize", "capturable",
                                       "fused",   "differentiable", NULL};
    static const char *const SGD[] = {"lr",       "momentum", "dampening", "weight_decay",
                                      "nesterov", "maximize", "foreach",   "differentiable",
                                      "fused",    NULL};
    const char *const *keywords = is_sgd ? SGD : ADAM;
    const yaml_node *map = dialect_value(r, section);
    text path = {0}, found = {0}, valid = {0};
    status result = OK;
    for (int i = 0; keywords[i]; i++) text_addf(&valid, "%s%s", i ? ", " : "", keywords[i]);
    for (const yaml_node *n = map && map->kind == NODE_MAP ? map->first : NULL; n; n = n->next) {
        bool known = strcmp(section, "optimizer") == 0 &&
                     (strcmp(n->key, "type") == 0 || strcmp(n->key, "name") == 0);
        for (int i = 0; keywords[i]; i++) known = known || strcmp(keywords[i], n->key) == 0;
        if (known || yaml_node_is_null(n)) continue;
        text_addf(&path, "%s.%s", section, n->key);
        yaml_node_text(n, &found);
        TRY(text_check(&path, e));
        TRY(text_check(&found, e));
        TRY(text_check(&valid, e));
        result = dialect_refuse(r, path.chars, e,
                                "found %.*s, but torch.optim.%s has no such keyword; valid: %s",
                                TEXT_CUT(found.chars, 100), class, valid.chars);
        goto done;
    }
done:
    text_clear(&path);
    text_clear(&found);
    text_clear(&valid);
    return result;
}

// The optimizer's class, with the defaults that our rule of its name does not have.
static status finish_optimizer(const dialect_reader *r, err *e)
{
    status result = OK;
    const char *own = dialect_value(r, "optimizer.type")   ? "optimizer.type"
                      : dialect_value(r, "optimizer.name") ? "optimizer.name"
                                                           : NULL;
    const char *name = own ? dialect_our_word(r, own) : NULL;
    for (size_t i = 0; !name && i < sizeof CLASSES / sizeof *CLASSES; i++)
        if (dialect_value(r, CLASSES[i])) {
            own = CLASSES[i];
            name = OPTIMIZERS[i][1];
        }
    if (!name) return OK;
    const bool adam = strncmp(name, "adam", 4) == 0;
    const char *section = dialect_value(r, own)->kind == NODE_MAP ? own : "optimizer";
    TRY(check_keywords(r, section, strcmp(name, "adamw") == 0 ? CLASSES[0] : CLASSES[adam ? 1 : 2],
                       !adam, e));
    TRY(dialect_set(r, "optimizer.name", name, own, NULL, e));
    TRY(dialect_set(r, "optimizer.lr", "1e-3", "lr", NULL, e));
    TRY(dialect_set(r, "optimizer.weight_decay", strcmp(name, "adamw") == 0 ? "1e-2" : "0",
                    "weight_decay", NULL, e));
    if (adam) TRY(dialect_set(r, "optimizer.betas", "[0.9, 0.999]", "betas", NULL, e));
    if (adam) TRY(dialect_set(r, "optimizer.eps", "1e-8", "eps", NULL, e));
    if (!adam) TRY(dialect_set(r, "optimizer.momentum", "0", "momentum", NULL, e));
    TRY(dialect_set(r, "optimizer.decay", "all", own, "torch.optim decays every tensor", e));
    if (!dialect_value(r, "clip_grad_norm_.max_norm"))
        TRY(dialect_set(r, "train.clip_grad_norm", "0", "clip_grad_norm_.max_norm", NULL, e));
done:
    return result;
}

static status finish(const dialect_reader *r, err *e)
{
    status result = OK;
    TRY(finish_ddp(r, e));
    TRY(finish_fsdp(r, e));
    TRY(finish_precision(r, e));
    TRY(finish_optimizer(r, e));
done:
    return result;
}

const dialect dialect_torch = {
    .name = "torch",
    .system = "PyTorch",
    .rows = ROW,
    .row_count = sizeof ROW / sizeof *ROW,
    .renamed = RENAMED,
    .finish = finish,
    .dtypes =
        "master weights fp32 in both, where PyTorch's parameters are; gradients are summed over "
        "micro-batches in fp32 (PyTorch: in the type of the parameters) and over ranks in "
        "train.reduce_dtype (PyTorch: in reduce_dtype, else in the type of the gradients)",
};
