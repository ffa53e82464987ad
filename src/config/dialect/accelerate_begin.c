// accelerate_begin.c -- what Accelerate does with a file before it uses its values: it renames old keys, refuses some
// files, and ignores the sections of other ways of training. accelerate.c has the rows. See accelerate.h.
#include "config/dialect/accelerate.h"

#include "base/mesh.h"
#include "base/size.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

const char *accelerate_type(const dialect_reader *r)
{
    const char *type = dialect_text(r, "distributed_type");
    return type ? type : "NO";
}

bool accelerate_is(const dialect_reader *r, const char *type)
{
    return strcasecmp(accelerate_type(r), type) == 0;
}

int64_t accelerate_size(const dialect_reader *r, const char *name)
{
    int64_t size = 1;
    char path[80];
    snprintf(path, sizeof path, "parallelism_config.parallelism_config_%s_size", name);
    return dialect_count(r, path, &size) ? size : 1;
}

// ---- old spellings

// fp16: true was mixed_precision: fp16, and dynamo_backend stood at the top. Words that YAML 1.1 reads as a truth value
// mean what they say.
static status bring_up_to_date(const dialect_reader *r, yaml_node *root, err *e)
{
    status result = OK;
    const char *type = dialect_text(r, "distributed_type");
    const char *precision = dialect_text(r, "mixed_precision");
    const char *dynamo = dialect_text(r, "dynamo_backend");
    const dialect_given old_half = {"mixed_precision", "fp16", GIVEN_FILLS};
    const dialect_given old_dynamo = {"dynamo_config.dynamo_backend", dynamo, GIVEN_FILLS};
    if (type && strcasecmp(type, "false") == 0)
        TRY(dialect_replace(root, "distributed_type", "NO", e));
    if (precision && strcasecmp(precision, "false") == 0)
        TRY(dialect_replace(root, "mixed_precision", "no", e));
    if (dialect_is_on(r, "fp16")) TRY(dialect_put_given(root, &old_half, 1, e));
    if (!dynamo) goto done;
    TRY(dialect_replace(root, "dynamo_config", "null", e));
    TRY(dialect_put_given(root, &old_dynamo, 1, e));
done:
    return result;
}

// ---- sections that are not used

static status leave_out(const dialect_reader *r, yaml_node *root, const char *section,
                        const char *type, err *e)
{
    status result = OK;
    const yaml_node *n = dialect_value(r, section);
    if (!n || accelerate_is(r, type)) return OK;
    if (n->kind == NODE_MAP && n->first)
        TRY(dialect_remark_on(r, section, false, e,
                              "without effect, because distributed_type is %s",
                              accelerate_type(r)));
    TRY(dialect_replace(root, section, "null", e));
done:
    return result;
}

static status leave_out_unused(const dialect_reader *r, yaml_node *root, err *e)
{
    status result = OK;
    const char *precision = dialect_text(r, "mixed_precision");
    TRY(leave_out(r, root, "fsdp_config", "FSDP", e));
    TRY(leave_out(r, root, "deepspeed_config", "DEEPSPEED", e));
    TRY(leave_out(r, root, "megatron_lm_config", "MEGATRON_LM", e));
    if (!precision || strcasecmp(precision, "fp8") != 0)
        TRY(dialect_replace(root, "fp8_config", "null", e));
done:
    return result;
}

// ---- what Accelerate refuses

// No row has checked the value's type yet.
static bool is_fsdp2(const dialect_reader *r)
{
    const char *version = dialect_text(r, "fsdp_config.fsdp_version");
    return version && strcmp(version, "2") == 0;
}

static status check_place(const dialect_reader *r, err *e)
{
    const char *place = dialect_text(r, "compute_environment");
    const char *type = dialect_text(r, "distributed_type");
    if (place && strcasecmp(place, "AMAZON_SAGEMAKER") == 0)
        return dialect_refuse(
            r, "compute_environment", e,
            "found AMAZON_SAGEMAKER; valid: LOCAL_MACHINE, because Trireme trains on machines that "
            "run it, and calls no service of a cloud");
    if (!type)
        return dialect_refuse(
            r, "distributed_type", e,
            "missing; valid: NO, MULTI_CPU, MULTI_GPU, DEEPSPEED, FSDP, MEGATRON_LM");
    if (strcasecmp(type, "XLA") == 0 || strcasecmp(type, "TPU") == 0)
        return dialect_refuse(
            r, "distributed_type", e,
            "found %s; valid: MULTI_GPU and others, because Trireme has no device for TPUs", type);
    return OK;
}

static status check_gpus(const dialect_reader *r, err *e)
{
    int64_t machines = 1;
    const char *ids = dialect_text(r, "gpu_ids");
    if (!accelerate_is(r, "MULTI_GPU") || !ids || strcmp(ids, "all") == 0 || strchr(ids, ','))
        return OK;
    if (dialect_count(r, "num_machines", &machines) && machines > 1) return OK;
    return dialect_refuse(r, "gpu_ids", e,
                          "found %.*s; valid for MULTI_GPU: two numbers or more, or all",
                          TEXT_CUT(ids, 60));
}

static status check_fsdp(const dialect_reader *r, err *e)
{
    static const char SYNC[] = "fsdp_config.fsdp_sync_module_states";
    static const char STATE[] = "fsdp_config.fsdp_state_dict_type";
    static const char KEPT[] = "fsdp_config.fsdp_activation_checkpointing_offload";
    const bool is_second = is_fsdp2(r);
    const char *state = dialect_text(r, STATE);
    if (!accelerate_is(r, "FSDP")) return OK;
    if (dialect_is_on(r, "fsdp_config.fsdp_cpu_ram_efficient_loading") && !dialect_is_on(r, SYNC))
        return dialect_refuse(
            r, SYNC, e, "found false; valid: true, because fsdp_cpu_ram_efficient_loading is true");
    if (is_second && state &&
        (strcasecmp(state, "LOCAL_STATE_DICT") == 0 || strcmp(state, "2") == 0))
        return dialect_refuse(
            r, STATE, e, "found %s; valid for FSDP2: SHARDED_STATE_DICT, FULL_STATE_DICT", state);
    if (dialect_is_on(r, KEPT) &&
        !(is_second && dialect_is_on(r, "fsdp_config.fsdp_activation_checkpointing")))
        return dialect_refuse(
            r, KEPT, e,
            "found true; valid: with fsdp_version: 2 and fsdp_activation_checkpointing: true");
    return OK;
}

// Beside a file of DeepSpeed, Accelerate's own keys would have no effect.
static status check_deepspeed_file(const dialect_reader *r, err *e)
{
    static const char FILE_KEY[] = "deepspeed_config.deepspeed_config_file";
    static const char *const OTHERS[] = {
        "gradient_accumulation_steps", "gradient_clipping",     "zero_stage",
        "offload_optimizer_device",    "offload_param_device",  "offload_param_nvme_path",
        "offload_optimizer_nvme_path", "zero3_save_16bit_model"};
    const char *file = dialect_text(r, FILE_KEY);
    const yaml_node *section = dialect_value(r, "deepspeed_config");
    const yaml_node *precision = dialect_value(r, "mixed_precision");
    text found = {0};
    if (!accelerate_is(r, "DEEPSPEED") || !file || strcasecmp(file, "none") == 0) return OK;
    for (size_t i = 0; i < sizeof OTHERS / sizeof *OTHERS; i++) {
        const yaml_node *n = yaml_node_entry(section, OTHERS[i]);
        if (n && n->line != LINE_OPTION)
            text_addf(&found, "%s%s", found.bytes ? ", " : "", OTHERS[i]);
    }
    if (precision && precision->line != LINE_OPTION)
        text_addf(&found, "%smixed_precision", found.bytes ? ", " : "");
    status result = text_check(&found, e);
    if (result == OK && found.bytes)
        result = dialect_refuse(
            r, FILE_KEY, e, "found beside %s; valid: such values in the file of DeepSpeed alone",
            found.chars);
    text_clear(&found);
    return result;
}

// The ranks that the sizes of parallelism_config need: 1 where a size is none, which its row refuses. E_USAGE where no
// mesh has so many.
static status count_ranks(const dialect_reader *r, int64_t *out, err *e)
{
    static const char *const AXES_OF[] = {"dp_replicate", "dp_shard", "tp", "cp", "sp"};
    uint64_t ranks = 1;
    text sizes = {0};
    bool valid = true;
    for (size_t i = 0; i < sizeof AXES_OF / sizeof *AXES_OF; i++) {
        const int64_t size = accelerate_size(r, AXES_OF[i]);
        valid = valid && size > 0;
        if (size > 1)
            text_addf(&sizes, "%sparallelism_config_%s_size %lld", sizes.bytes ? " x " : "",
                      AXES_OF[i], (long long)size);
        ranks = size_mul(ranks, size > 0 ? (uint64_t)size : 1);
    }
    status result = text_check(&sizes, e);
    if (result == OK && ranks > MESH_RANKS)
        result = dialect_refuse(r, "parallelism_config", e,
                                "found %s; valid: sizes whose product is at most %d", sizes.chars,
                                MESH_RANKS);
    *out = valid ? (int64_t)ranks : 1;
    text_clear(&sizes);
    return result;
}

static status check_parallelism(const dialect_reader *r, err *e)
{
    status result = OK;
    static const char CP[] = "parallelism_config.parallelism_config_cp_size";
    static const char SHARD[] = "parallelism_config.parallelism_config_dp_shard_size";
    const yaml_node *section = dialect_value(r, "parallelism_config");
    const int64_t replicate = accelerate_size(r, "dp_replicate"),
                  shard = accelerate_size(r, "dp_shard");
    const int64_t tp = accelerate_size(r, "tp"), cp = accelerate_size(r, "cp"),
                  sp = accelerate_size(r, "sp");
    int64_t processes = 0, total = 1;
    if (!section || section->kind != NODE_MAP || !section->first) return OK;
    TRY(count_ranks(r, &total, e));
    if (cp > 1 && sp > 1)
        return dialect_refuse(
            r, CP, e,
            "found %lld beside parallelism_config_sp_size: %lld; valid: one of them above 1",
            (long long)cp, (long long)sp);
    if ((tp > 1 || cp > 1) && replicate > 1 && shard == 1)
        return dialect_refuse(
            r, SHARD, e,
            "found 1 with dp_replicate_size, and tp_size or cp_size, above 1; valid: 2 or more");
    const bool counted = dialect_count(r, "num_processes", &processes) && processes > 0;
    if (counted && total > 1 && sp == 1 && total != processes)
        return dialect_refuse(
            r, "parallelism_config", e,
            "found sizes with the product %lld; valid: %lld, which is num_processes",
            (long long)total, (long long)processes);
    if (!accelerate_is(r, "FSDP")) return OK;
    if (total > 1 && !is_fsdp2(r))
        return dialect_refuse(r, "parallelism_config", e,
                              "found with fsdp_version: 1; valid: with fsdp_version: 2");
    if (counted && processes > 1 && shard == 1 && cp == 1)
        return dialect_refuse(
            r, SHARD, e, "found 1 with cp_size 1 and FSDP, which then has no ranks to shard over");
done:
    return result;
}

status accelerate_begin(const dialect_reader *r, yaml_node *root, err *e)
{
    status result = OK;
    TRY(bring_up_to_date(r, root, e));
    TRY(check_place(r, e));
    TRY(leave_out_unused(r, root, e));
    TRY(check_gpus(r, e));
    TRY(check_fsdp(r, e));
    TRY(check_deepspeed_file(r, e));
    TRY(check_parallelism(r, e));
done:
    return result;
}
