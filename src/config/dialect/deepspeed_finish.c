// deepspeed_finish.c -- what several keys of DeepSpeed decide together: batch, precision, optimizer, schedule, ZeRO's stage
// and what it offloads, sizes of axes. deepspeed.c has the rows, deepspeed_elastic.c the elastic batch. See deepspeed.h.
#include "config/dialect/deepspeed.h"

#include <string.h>
#include <strings.h>

bool deepspeed_is_given(const dialect_reader *r, const char *theirs)
{
    return dialect_value(r, theirs) || dialect_is_auto(r, theirs);
}

// One micro-batch, where a file gives a batch and no number of them.
static status finish_batch(const dialect_reader *r, err *e)
{
    const bool batch = dialect_value(r, "train_batch_size");
    const bool micro = dialect_value(r, "train_micro_batch_size_per_gpu");
    const bool is_auto = dialect_is_auto(r, "train_batch_size") ||
                         dialect_is_auto(r, "train_micro_batch_size_per_gpu");
    if (dialect_is_on(r, "elasticity.enabled") || is_auto) return OK;
    if (!batch && !micro)
        return dialect_remark_on(r, "train_batch_size", false, e,
                                 "not given: the job's own batch holds, where DeepSpeed alone "
                                 "refuses the file");
    if (batch && micro) return OK;
    return dialect_default(r, "train.accumulation", "1", "gradient_accumulation_steps", NULL, e);
}

static bool is_half(const char *type)
{
    static const char *const HALF[] = {"torch.float16", "fp16", "float16", "half"};
    for (size_t i = 0; type && i < sizeof HALF / sizeof *HALF; i++)
        if (strcmp(type, HALF[i]) == 0) return true;
    return false;
}

static status finish_precision(const dialect_reader *r, err *e)
{
    status result = OK;
    const bool fp16 = dialect_is_on(r, "fp16.enabled"), bf16 = dialect_is_on(r, "bf16.enabled");
    const bool cast = dialect_is_on(r, "torch_autocast.enabled");
    const bool is_auto = dialect_is_auto(r, "fp16.enabled") || dialect_is_auto(r, "bf16.enabled");
    if (fp16 && bf16)
        return dialect_refuse(r, "fp16.enabled", e,
                              "found true beside bf16.enabled: true; valid: one of them");
    if (fp16)
        TRY(dialect_set(r, "train.precision", "fp16", "fp16.enabled", NULL, e));
    else if (bf16)
        TRY(dialect_set(r, "train.precision", "bf16", "bf16.enabled", NULL, e));
    else if (cast)
        TRY(dialect_set(r, "train.precision",
                        is_half(dialect_text(r, "torch_autocast.dtype")) ? "fp16" : "bf16",
                        "torch_autocast.enabled", "weights that compute are cast once a step", e));
    else if (!is_auto)
        TRY(dialect_set(r, "train.precision", "fp32",
                        dialect_value(r, "fp16.enabled") ? "fp16.enabled" : "bf16.enabled", NULL,
                        e));
    if (bf16 && dialect_is_on(r, "bf16.check_grad_overflow"))
        TRY(dialect_set(r, "checks.nonfinite", "skip", "bf16.check_grad_overflow", NULL, e));
done:
    return result;
}

// Parameters that a file does not give have the defaults of DeepSpeed's optimizers.
static status default_parameters(const dialect_reader *r, const char *ours, err *e)
{
    status result = OK;
    static const char WHY[] = "its optimizer's default";
    const bool adam = strncmp(ours, "adam", 4) == 0, lion = strcmp(ours, "lion") == 0;
    const bool torch = adam && dialect_is_on(r, "optimizer.params.torch_adam");
    const char *decay = torch && strcmp(ours, "adamw") == 0 ? "0.01" : "0";
    TRY(dialect_default(r, "optimizer.lr", "1e-3", "optimizer.params.lr", WHY, e));
    TRY(dialect_default(r, "optimizer.weight_decay", decay, "optimizer.params.weight_decay", WHY,
                        e));
    if (adam || lion)
        TRY(dialect_default(r, "optimizer.betas", adam ? "[0.9, 0.999]" : "[0.9, 0.99]",
                            "optimizer.params.betas", WHY, e));
    if (adam) TRY(dialect_default(r, "optimizer.eps", "1e-8", "optimizer.params.eps", WHY, e));
    if (strcmp(ours, "sgd") == 0)
        TRY(dialect_default(r, "optimizer.momentum", "0", "optimizer.params.momentum", WHY, e));
done:
    return result;
}

static status finish_optimizer(const dialect_reader *r, err *e)
{
    status result = OK;
    const char *type = dialect_text(r, "optimizer.type");
    const char *mode = dialect_text(r, "optimizer.params.adam_w_mode");
    bool decouples = true;
    if (!type) return OK;
    if (mode) (void)text_to_bool(mode, &decouples);
    const bool is_adam = strcasecmp(type, "Adam") == 0, plain = is_adam && !decouples;
    const char *ours = plain ? "adam" : dialect_our_word(r, "optimizer.type");
    TRY(dialect_set(
        r, "optimizer.name", ours, "optimizer.type",
        is_adam && !plain ? "DeepSpeed's Adam is AdamW unless adam_w_mode is false" : NULL, e));
    if (dialect_value(r, "optimizer.params.momentum") && strcmp(ours, "sgd") != 0)
        return dialect_refuse(r, "optimizer.params.momentum", e,
                              "not a parameter of %s, which refuses it", type);
    TRY(default_parameters(r, ours, e));
    TRY(dialect_set(r, "optimizer.decay", "all", "optimizer.type",
                    "as torch.optim, which decays every tensor", e));
    if (!deepspeed_is_given(r, "scheduler.type"))
        TRY(dialect_default(r, "lr_schedule.name", "constant", "scheduler.type",
                            "its learning rate is constant without a scheduler", e));
done:
    return result;
}

// The parameters of each scheduler, whose constructor refuses others.
static const char *const PARAMETERS[][2] = {
    {"LRRangeTest",
     "lr_range_test_min_lr lr_range_test_step_size lr_range_test_step_rate lr_range_test_staircase "
     "last_batch_iteration "},
    {"OneCycle", "cycle_min_lr cycle_max_lr decay_lr_rate cycle_first_step_size "
                 "cycle_second_step_size cycle_first_stair_count cycle_second_stair_count "
                 "decay_step_size cycle_momentum cycle_min_mom cycle_max_mom decay_mom_rate "
                 "last_batch_iteration "},
    {"WarmupLR", "warmup_min_lr warmup_max_lr warmup_num_steps warmup_type last_batch_iteration "},
    {"WarmupDecayLR", "total_num_steps warmup_min_lr warmup_max_lr warmup_num_steps warmup_type "
                      "last_batch_iteration "},
    {"WarmupCosineLR",
     "total_num_steps warmup_min_ratio warmup_num_steps cos_min_ratio warmup_type "
     "last_batch_iteration "},
    {NULL, NULL}};

// Returns whether `words`, each with a space behind it, have a word.
static bool has_word(const char *words, const char *word)
{
    const size_t bytes = strlen(word);
    for (const char *s = words; *s; s += strcspn(s, " ") + 1)
        if (strncmp(s, word, bytes) == 0 && s[bytes] == ' ') return true;
    return false;
}

static status finish_scheduler(const dialect_reader *r, err *e)
{
    status result = OK;
    const char *type = dialect_text(r, "scheduler.type");
    const char *optimizer = dialect_text(r, "optimizer.type");
    const yaml_node *params = dialect_value(r, "scheduler.params");
    text path = {0};
    int i = 0;
    if (!type) goto done;
    while (PARAMETERS[i][0] && strcasecmp(PARAMETERS[i][0], type) != 0) i++;
    for (const yaml_node *n = params ? params->first : NULL; PARAMETERS[i][0] && n; n = n->next) {
        if (has_word(PARAMETERS[i][1], n->key)) continue;
        text_addf(&path, "scheduler.params.%s", n->key);
        TRY(text_check(&path, e));
        result =
            dialect_refuse(r, path.chars, e, "not a parameter of %s, which refuses it; valid: %.*s",
                           PARAMETERS[i][0], (int)strlen(PARAMETERS[i][1]) - 1, PARAMETERS[i][1]);
        goto done;
    }
    if (strcasecmp(type, "WarmupDecayLR") == 0)
        TRY(dialect_default(r, "lr_schedule.warmup_max_lr", "0.001",
                            "scheduler.params.warmup_max_lr", NULL, e));
    if (strcasecmp(type, "OneCycle") == 0 &&
        (!deepspeed_is_given(r, "scheduler.params.cycle_momentum") ||
         dialect_is_on(r, "scheduler.params.cycle_momentum")) &&
        (!optimizer || strcasecmp(optimizer, "SGD") != 0))
        TRY(dialect_set(r, "optimizer.betas", "[0.9, 0.99]", "scheduler.type",
                        "OneCycle moves the first one, and sets the second one to 0.99", e));
    if (strcasecmp(type, "OneCycle") == 0 &&
        (!deepspeed_is_given(r, "scheduler.params.cycle_min_lr") ||
         !deepspeed_is_given(r, "scheduler.params.cycle_max_lr")))
        result = dialect_refuse(r, "scheduler.params", e,
                                "OneCycle needs cycle_min_lr and cycle_max_lr");
done:
    text_clear(&path);
    return result;
}

static const char OPTIMIZER_DEVICE[] = "zero_optimization.offload_optimizer.device";
static const char PARAM_DEVICE[] = "zero_optimization.offload_param.device";

// Offload in the words of 2020.
static status finish_old_offload(const dialect_reader *r, bool *optimizer, bool *param, err *e)
{
    status result = OK;
    *optimizer = dialect_is_on(r, "zero_optimization.cpu_offload");
    *param = dialect_is_on(r, "zero_optimization.cpu_offload_param");
    if (dialect_value(r, "zero_optimization.cpu_offload") &&
        dialect_value(r, "zero_optimization.offload_optimizer"))
        return dialect_refuse(r, "zero_optimization.cpu_offload", e,
                              "found beside offload_optimizer, its new name; valid: one of them");
    if (dialect_value(r, "zero_optimization.cpu_offload_param") &&
        dialect_value(r, "zero_optimization.offload_param"))
        return dialect_refuse(r, "zero_optimization.cpu_offload_param", e,
                              "found beside offload_param, its new name; valid: one of them");
    if (*optimizer) TRY(dialect_effective(r, OPTIMIZER_DEVICE, json_string("cpu"), e));
    if (*param) TRY(dialect_effective(r, PARAM_DEVICE, json_string("cpu"), e));
done:
    return result;
}

static bool is_word(const char *s, const char *word)
{
    return strcasecmp(s, word) == 0;
}

// Offload, which DeepSpeed leaves out below the stages that shard what it moves.
static status finish_offload(const dialect_reader *r, err *e)
{
    status result = OK;
    const char *optimizer = dialect_text(r, OPTIMIZER_DEVICE),
               *param = dialect_text(r, PARAM_DEVICE);
    const char *stage = dialect_text(r, "zero_optimization.stage");
    const char *of_optimizer = OPTIMIZER_DEVICE, *of_param = PARAM_DEVICE;
    bool old_optimizer, old_param;
    TRY(finish_old_offload(r, &old_optimizer, &old_param, e));
    if (old_optimizer) optimizer = "cpu", of_optimizer = "zero_optimization.cpu_offload";
    if (old_param) param = "cpu", of_param = "zero_optimization.cpu_offload_param";
    const bool moves_state = !is_word(optimizer, "none"), moves_weights = !is_word(param, "none");
    if (moves_state && *stage == '0')
        TRY(dialect_remark_on(r, of_optimizer, false, e, "DeepSpeed offloads nothing at stage 0"));
    else if (is_word(optimizer, "nvme") && *stage != '3')
        return dialect_refuse(r, of_optimizer, e, "found nvme with stage %s; valid: with stage 3",
                              stage);
    else if (moves_state)
        TRY(dialect_set(r, "parallel.offload.optimizer",
                        is_word(optimizer, "cpu") ? "host" : "file", of_optimizer, NULL, e));
    if (is_word(optimizer, "cpu") && *stage != '0')
        TRY(dialect_set(r, "parallel.offload.update", "host", of_optimizer,
                        "DeepSpeed updates on the CPU", e));
    if (moves_weights && *stage != '3')
        TRY(dialect_remark_on(r, of_param, false, e,
                              "DeepSpeed offloads no weights at stage %s, only at stage 3", stage));
    else if (moves_weights)
        TRY(dialect_set(r, "parallel.offload.weights", is_word(param, "cpu") ? "host" : "file",
                        of_param, NULL, e));
    const bool needs_path = is_word(optimizer, "nvme") || (is_word(param, "nvme") && *stage == '3');
    if (needs_path && !dialect_value(r, "zero_optimization.offload_optimizer.nvme_path") &&
        !dialect_value(r, "zero_optimization.offload_param.nvme_path"))
        return dialect_refuse(r, is_word(param, "nvme") ? PARAM_DEVICE : OPTIMIZER_DEVICE, e,
                              "found nvme without nvme_path");
done:
    return result;
}

// What ZeRO's stage decides.
static status finish_zero(const dialect_reader *r, err *e)
{
    status result = OK;
    const char *stage = dialect_text(r, "zero_optimization.stage");
    const yaml_node *all = dialect_value(r, "zero_optimization");
    double ratio = 1;
    int64_t n = 0;
    bool old = false;
    if (all && all->kind == NODE_SCALAR && text_to_bool(all->scalar, &old) && old)
        TRY(dialect_effective(r, "zero_optimization.stage", json_string("1"), e));
    if (!dialect_value(r, "zero_optimization.overlap_comm"))
        TRY(dialect_effective(r, "zero_optimization.overlap_comm", json_boolean(*stage == '3'), e));
    if (dialect_number(r, "zero_optimization.offload_optimizer.ratio", &ratio) &&
        (ratio < 0 || ratio > 1))
        return dialect_refuse(r, "zero_optimization.offload_optimizer.ratio", e,
                              "found %g; valid: 0 to 1", ratio);
    if (ratio < 1 && *stage != '3')
        return dialect_refuse(r, "zero_optimization.offload_optimizer.ratio", e,
                              "found %g with stage %s; valid: with stage 3", ratio, stage);
    if (dialect_count(r, "zero_optimization.zero_hpz_partition_size", &n) && n > 1 && *stage == '3')
        TRY(dialect_set_count(
            r, "parallel.reshard_after_forward", n, "zero_optimization.zero_hpz_partition_size",
            "weights stay sharded over so many ranks between forward and backward", e));
    if (dialect_count(r, "zero_optimization.mics_shard_size", &n) && n > 0)
        return dialect_refuse(r, "zero_optimization.mics_shard_size", e,
                              "found %lld; valid: parallel.dp_shard %lld and parallel.dp_replicate "
                              "ranks / %lld of the job",
                              (long long)n, (long long)n, (long long)n);
done:
    return result;
}

// Sizes of axes, and recomputation.
static status finish_mesh(const dialect_reader *r, err *e)
{
    status result = OK;
    int64_t n = 0;
    if (dialect_count(r, "tensor_parallel.autotp_size", &n) && n > 1)
        TRY(dialect_set_count(r, "parallel.tp", n, "tensor_parallel.autotp_size", NULL, e));
    else if (dialect_count(r, "tensor_parallel.tp.tp_size", &n) && n > 1)
        TRY(dialect_set_count(r, "parallel.tp", n, "tensor_parallel.tp.tp_size", NULL, e));
    if (dialect_count(r, "pipeline.activation_checkpoint_interval", &n) && n > 0)
        TRY(dialect_set(r, "parallel.recompute", "full", "pipeline.activation_checkpoint_interval",
                        NULL, e));
done:
    return result;
}

status deepspeed_finish(const dialect_reader *r, err *e)
{
    status result = OK;
    TRY(dialect_default(r, "train.clip_grad_norm", "1.0", "gradient_clipping",
                        "before 0.19 it is 0, off", e));
    TRY(finish_batch(r, e));
    TRY(finish_precision(r, e));
    TRY(finish_optimizer(r, e));
    TRY(finish_scheduler(r, e));
    TRY(finish_offload(r, e));
    TRY(finish_zero(r, e));
    TRY(finish_mesh(r, e));
    TRY(deepspeed_finish_elasticity(r, e));
done:
    return result;
}
