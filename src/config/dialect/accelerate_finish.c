// accelerate_finish.c -- what several keys of Accelerate decide together: strategy, sizes of axes, ranks, offload.
// accelerate.c has the rows. See accelerate.h.
#include "config/dialect/accelerate.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

extern const dialect dialect_deepspeed;

static int64_t machines_of(const dialect_reader *r)
{
    int64_t machines = 1;
    return dialect_count(r, "num_machines", &machines) && machines > 0 ? machines : 1;
}

// The key, or distributed_type where the file does not give the key: that word asks for its default, too.
static const char *given_or_type(const dialect_reader *r, const char *theirs)
{
    return dialect_value(r, theirs) ? theirs : "distributed_type";
}

// ---- processes and devices

static status finish_ranks(const dialect_reader *r, err *e)
{
    status result = OK;
    int64_t processes = 0;
    const bool counted = dialect_count(r, "num_processes", &processes) && processes > 0;
    const bool is_alone = accelerate_is(r, "NO");
    if (is_alone)
        TRY(dialect_set_count(
            r, "launch.ranks", 1, "distributed_type",
            counted && processes > 1 ? "NO starts one process, whatever num_processes is" : NULL,
            e));
    else if (counted)
        TRY(dialect_set_count(
            r, "launch.ranks", processes, "num_processes",
            machines_of(r) > 1 ? "of all machines; trireme accelerate launch starts those of each"
                               : NULL,
            e));
    if (dialect_is_on(r, "use_cpu"))
        TRY(dialect_set(r, "launch.device", "cpu", "use_cpu", NULL, e));
    else if (accelerate_is(r, "MULTI_CPU"))
        TRY(dialect_set(r, "launch.device", "cpu", "distributed_type", NULL, e));
    if (dialect_is_on(r, "debug")) TRY(dialect_set(r, "checks.desync", "on", "debug", NULL, e));
done:
    return result;
}

static status check_device(const dialect_reader *r, err *e)
{
    static const char *const KNOWN[] = {"NO",        "MULTI_CPU", "MULTI_GPU",
                                        "DEEPSPEED", "FSDP",      "MEGATRON_LM"};
    for (size_t i = 0; i < sizeof KNOWN / sizeof *KNOWN; i++)
        if (accelerate_is(r, KNOWN[i])) return OK;
    return dialect_refuse(r, "distributed_type", e,
                          "found %s; valid: MULTI_GPU or MULTI_CPU, the devices of Trireme",
                          accelerate_type(r));
}

// ---- ways of training

static status finish_fsdp(const dialect_reader *r, err *e)
{
    status result = OK;
    static const char *const STATE[] = {"weights", "gradients", "optimizer", "update"};
    static const char STRATEGY[] = "fsdp_config.fsdp_sharding_strategy",
                      PARAMS[] = "fsdp_config.fsdp_offload_params";
    static const char RESHARD[] = "fsdp_config.fsdp_reshard_after_forward";
    const char *strategy = dialect_text(r, STRATEGY);
    char key[40];
    bool frees = true;
    if (strcmp(dialect_text(r, "fsdp_config.fsdp_version"), "2") == 0) {
        if (!text_to_bool(dialect_text(r, RESHARD), &frees))
            return dialect_refuse(r, RESHARD, e, "found %.*s; valid for FSDP2: true, false",
                                  TEXT_CUT(dialect_text(r, RESHARD), 60));
        TRY(dialect_set(r, "parallel.dp", "zero3", "fsdp_config.fsdp_version", NULL, e));
        TRY(dialect_set(r, "parallel.reshard_after_forward", frees ? "true" : "false", RESHARD,
                        NULL, e));
        if (dialect_value(r, STRATEGY))
            TRY(dialect_remark_on(r, STRATEGY, false, e,
                                  "FSDP2 does not read it; fsdp_reshard_after_forward chooses"));
    } else {
        const bool is_hybrid = strncasecmp(strategy, "HYBRID", 6) == 0 ||
                               strncasecmp(strategy, "_HYBRID", 7) == 0 || strpbrk(strategy, "45");
        TRY(dialect_set(r, "parallel.dp", dialect_our_word(r, STRATEGY), given_or_type(r, STRATEGY),
                        NULL, e));
        if (is_hybrid)
            TRY(dialect_set_count(r, "parallel.dp_replicate", machines_of(r), STRATEGY,
                                  "sharded within a machine, replicated over num_machines", e));
        if (dialect_value(r, RESHARD))
            TRY(dialect_remark_on(r, RESHARD, false, e,
                                  "FSDP1 does not read it; fsdp_sharding_strategy chooses"));
    }
    for (size_t i = 0; dialect_is_on(r, PARAMS) && i < sizeof STATE / sizeof *STATE; i++) {
        snprintf(key, sizeof key, "parallel.offload.%s", STATE[i]);
        TRY(dialect_set(r, key, "host", PARAMS, i == 3 ? "FSDP updates on the CPU" : NULL, e));
    }
done:
    return result;
}

static const char *stage_of(const dialect_reader *r)
{
    const char *stage = dialect_text(r, "deepspeed_config.zero_stage");
    return stage ? stage : "2";
}

// The values that stand for "auto" in a file of DeepSpeed, and where they come from.
typedef struct fill_row {
    const char *ours, *theirs, *fallback; // keys of Accelerate and of DeepSpeed
} fill_row;

static const fill_row FILL[] = {
    {"deepspeed_config.zero_stage", "zero_optimization.stage", "2"},
    {"deepspeed_config.gradient_accumulation_steps", "gradient_accumulation_steps", NULL},
    {"deepspeed_config.gradient_clipping", "gradient_clipping", NULL},
    {"deepspeed_config.offload_optimizer_device", "zero_optimization.offload_optimizer.device",
     "none"},
    {"deepspeed_config.offload_param_device", "zero_optimization.offload_param.device", "none"},
};
enum { FILLS = sizeof FILL / sizeof *FILL };

// Returns whether the file, which has been read, says that a truth value is on.
static bool file_has_on(const dialect_reader *r, const char *theirs)
{
    return json_is_true(json_object_get(r->out->effective, theirs));
}

static status read_deepspeed_file(const dialect_reader *r, err *e)
{
    status result = OK;
    const char *precision = dialect_text(r, "mixed_precision");
    const bool bf16 = precision && strcasecmp(precision, "bf16") == 0;
    const bool fp16 = precision && strcasecmp(precision, "fp16") == 0;
    const char *other = bf16 ? "fp16.enabled" : "bf16.enabled";
    dialect_given given[FILLS + 1];
    size_t count = 0;
    for (int i = 0; i < FILLS; i++) {
        const char *value = dialect_text(r, FILL[i].ours);
        if (!value) value = FILL[i].fallback;
        if (value) given[count++] = (dialect_given){FILL[i].theirs, value, GIVEN_FILLS_AUTO};
    }
    if (bf16 || fp16)
        given[count++] =
            (dialect_given){bf16 ? "bf16.enabled" : "fp16.enabled", "true", GIVEN_FILLS};
    TRY(dialect_include_given(r, &dialect_deepspeed, "deepspeed_config.deepspeed_config_file",
                              given, count, e));
    if ((bf16 || fp16) && file_has_on(r, other))
        return dialect_refuse(r, "mixed_precision", e,
                              "found %s, but the file of DeepSpeed has %s: true", precision, other);
done:
    return result;
}

static status finish_deepspeed(const dialect_reader *r, err *e)
{
    status result = OK;
    static const char OPTIMIZER[] = "deepspeed_config.offload_optimizer_device";
    static const char PARAM[] = "deepspeed_config.offload_param_device",
                      STAGE[] = "deepspeed_config.zero_stage";
    const char *file = dialect_text(r, "deepspeed_config.deepspeed_config_file");
    const char *precision = dialect_text(r, "mixed_precision");
    const char *optimizer = dialect_text(r, OPTIMIZER), *param = dialect_text(r, PARAM),
               *stage = stage_of(r);
    if (file && strcasecmp(file, "none") != 0) return read_deepspeed_file(r, e);
    const char *policy = dialect_our_word(r, STAGE);
    TRY(dialect_set(r, "parallel.dp", policy ? policy : "zero2", given_or_type(r, STAGE), NULL, e));
    if (precision && strcasecmp(precision, "bf16") == 0)
        TRY(dialect_set(r, "checks.nonfinite", "skip", "mixed_precision",
                        "DeepSpeed leaves out a step with NaN or Inf", e));
    if (optimizer && strcasecmp(optimizer, "none") != 0 && strcmp(stage, "0") == 0)
        return dialect_refuse(r, OPTIMIZER, e,
                              "found %s with zero_stage 0; valid: with stages 1 to 3", optimizer);
    if (param && strcasecmp(param, "none") != 0 && strcmp(stage, "3") != 0)
        return dialect_refuse(r, PARAM, e, "found %s with zero_stage %s; valid: with stage 3",
                              param, stage);
    if (optimizer && strcasecmp(optimizer, "cpu") == 0)
        TRY(dialect_set(r, "parallel.offload.update", "host", OPTIMIZER,
                        "DeepSpeed updates on the CPU", e));
    static const char *const FOLDERS[][2] = {
        {OPTIMIZER, "deepspeed_config.offload_optimizer_nvme_path"},
        {PARAM, "deepspeed_config.offload_param_nvme_path"}};
    for (int i = 0; i < 2; i++) {
        const char *device = dialect_text(r, FOLDERS[i][0]),
                   *folder = dialect_text(r, FOLDERS[i][1]);
        text quoted = {0};
        if (!device || strcasecmp(device, "nvme") != 0 || !folder ||
            strcasecmp(folder, "none") == 0)
            continue;
        yaml_node_quote(folder, &quoted);
        result = text_check(&quoted, e);
        if (result == OK)
            result = dialect_set(r, "parallel.offload.path", quoted.chars, FOLDERS[i][1], NULL, e);
        text_clear(&quoted);
        if (result != OK) goto done;
    }
done:
    return result;
}

static status finish_megatron(const dialect_reader *r, err *e)
{
    status result = OK;
    static const char SHARDED[] = "megatron_lm_config.megatron_lm_use_distributed_optimizer";
    static const char CPU[] = "megatron_lm_config.megatron_lm_optimizer_cpu_offload";
    static const char RECOMPUTE[] = "megatron_lm_config.megatron_lm_recompute_granularity";
    static const char CP[] = "megatron_lm_config.megatron_lm_context_parallel_size";
    static const char MICROS[] = "megatron_lm_config.megatron_lm_num_micro_batches";
    TRY(dialect_set(r, "parallel.dp", dialect_is_on(r, SHARDED) ? "zero1" : "ddp",
                    given_or_type(r, SHARDED), NULL, e));
    if (!dialect_value(r, RECOMPUTE))
        TRY(dialect_set(r, "parallel.recompute", "full", RECOMPUTE, NULL, e));
    if (!dialect_value(r, MICROS)) TRY(dialect_set(r, "train.accumulation", "1", MICROS, NULL, e));
    if (!dialect_value(r, CP))
        TRY(dialect_remark_on(r, CP, true, e,
                              "not given; Accelerate 1.15 takes 2 then, and Trireme takes "
                              "parallel.cp, 1 by default"));
    if (dialect_is_on(r, CPU)) {
        TRY(dialect_set(r, "parallel.offload.optimizer", "host", CPU, NULL, e));
        TRY(dialect_set(r, "parallel.offload.update", "host", CPU, "Megatron-LM updates on the CPU",
                        e));
    }
done:
    return result;
}

// ---- axes

static status finish_axes(const dialect_reader *r, err *e)
{
    status result = OK;
    static const char *const AXES[][3] = {
        {"dp_replicate", "parallel.dp_replicate", NULL},
        {"dp_shard", "parallel.dp_shard", NULL},
        {"tp", "parallel.tp", NULL},
        {"cp", "parallel.cp", NULL},
        {"sp", "parallel.cp", "Ulysses' all-to-all becomes context parallelism"}};
    const yaml_node *section = dialect_value(r, "parallelism_config");
    char theirs[80];
    const bool is_plain = !accelerate_is(r, "FSDP") && !accelerate_is(r, "DEEPSPEED");
    if (!section || section->kind != NODE_MAP || !section->first) return OK;
    if (is_plain && accelerate_size(r, "dp_shard") > 1)
        return dialect_refuse(r, "parallelism_config.parallelism_config_dp_shard_size", e,
                              "found %lld with %s; valid: with distributed_type FSDP or DEEPSPEED",
                              (long long)accelerate_size(r, "dp_shard"), accelerate_type(r));
    for (size_t i = 0; i < sizeof AXES / sizeof *AXES; i++) {
        const int64_t size = accelerate_size(r, AXES[i][0]);
        snprintf(theirs, sizeof theirs, "parallelism_config.parallelism_config_%s_size",
                 AXES[i][0]);
        if (size > 1) TRY(dialect_set_count(r, AXES[i][1], size, theirs, AXES[i][2], e));
    }
done:
    return result;
}

status accelerate_finish(const dialect_reader *r, err *e)
{
    status result = OK;
    const char *precision = dialect_our_word(r, "mixed_precision");
    TRY(check_device(r, e));
    TRY(finish_ranks(r, e));
    TRY(dialect_set(r, "train.precision", precision ? precision : "fp32", "mixed_precision", NULL,
                    e));
    if (accelerate_is(r, "FSDP"))
        TRY(finish_fsdp(r, e));
    else if (accelerate_is(r, "DEEPSPEED"))
        TRY(finish_deepspeed(r, e));
    else if (accelerate_is(r, "MEGATRON_LM"))
        TRY(finish_megatron(r, e));
    else
        TRY(dialect_set(r, "parallel.dp", "ddp", "distributed_type", NULL, e));
    TRY(finish_axes(r, e));
done:
    return result;
}
