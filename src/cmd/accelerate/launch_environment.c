// launch_environment.c -- the environment that `accelerate launch` gives its workers (accelerate 1.15, utils/launch.py),
// as a table of the values that become variables. launch.c sets it. See launch.h.
#include "cmd/accelerate/launch.h"

#include "base/alloc.h"
#include "base/text.h"
#include "launch/binding.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

// A value that becomes a variable. Truth values are True and False, as Python writes them, or in lower case.
typedef struct variable_row {
    const char *key, *name;
    bool is_lower;
} variable_row;

#define PYTHON(key, name)                                                                          \
    {                                                                                              \
        (key), (name), false                                                                       \
    }
#define LOWER(key, name)                                                                           \
    {                                                                                              \
        (key), (name), true                                                                        \
    }
#define FSDP(key, name)                                                                            \
    {                                                                                              \
        "fsdp_config.fsdp_" key, "FSDP_" name, true                                                \
    }

static const variable_row DYNAMO[] = {
    PYTHON("dynamo_config.dynamo_mode", "ACCELERATE_DYNAMO_MODE"),
    PYTHON("dynamo_config.dynamo_use_fullgraph", "ACCELERATE_DYNAMO_USE_FULLGRAPH"),
    PYTHON("dynamo_config.dynamo_use_dynamic", "ACCELERATE_DYNAMO_USE_DYNAMIC"),
    PYTHON("dynamo_config.dynamo_use_regional_compilation",
           "ACCELERATE_DYNAMO_USE_REGIONAL_COMPILATION"),
    {NULL, NULL, false}};

static const variable_row FSDP_ROWS[] = {
    FSDP("version", "VERSION"),
    FSDP("sharding_strategy", "SHARDING_STRATEGY"),
    FSDP("reshard_after_forward", "RESHARD_AFTER_FORWARD"),
    FSDP("offload_params", "OFFLOAD_PARAMS"),
    FSDP("min_num_params", "MIN_NUM_PARAMS"),
    FSDP("auto_wrap_policy", "AUTO_WRAP_POLICY"),
    FSDP("transformer_layer_cls_to_wrap", "TRANSFORMER_CLS_TO_WRAP"),
    FSDP("backward_prefetch", "BACKWARD_PREFETCH"),
    FSDP("state_dict_type", "STATE_DICT_TYPE"),
    FSDP("forward_prefetch", "FORWARD_PREFETCH"),
    FSDP("use_orig_params", "USE_ORIG_PARAMS"),
    FSDP("cpu_ram_efficient_loading", "CPU_RAM_EFFICIENT_LOADING"),
    FSDP("sync_module_states", "SYNC_MODULE_STATES"),
    FSDP("activation_checkpointing", "ACTIVATION_CHECKPOINTING"),
    FSDP("activation_checkpointing_offload", "ACTIVATION_CHECKPOINTING_OFFLOAD"),
    FSDP("ignored_modules", "IGNORED_MODULES"),
    {NULL, NULL, false}};

// Accelerate does not pass the folders of nvme on, though its workers read these variables.
static const variable_row DEEPSPEED[] = {
    LOWER("deepspeed_config.zero_stage", "ACCELERATE_DEEPSPEED_ZERO_STAGE"),
    LOWER("deepspeed_config.gradient_accumulation_steps", "ACCELERATE_GRADIENT_ACCUMULATION_STEPS"),
    LOWER("deepspeed_config.gradient_clipping", "ACCELERATE_GRADIENT_CLIPPING"),
    LOWER("deepspeed_config.offload_optimizer_device",
          "ACCELERATE_DEEPSPEED_OFFLOAD_OPTIMIZER_DEVICE"),
    LOWER("deepspeed_config.offload_param_device", "ACCELERATE_DEEPSPEED_OFFLOAD_PARAM_DEVICE"),
    LOWER("deepspeed_config.offload_optimizer_nvme_path",
          "ACCELERATE_DEEPSPEED_OFFLOAD_OPTIMIZER_NVME_PATH"),
    LOWER("deepspeed_config.offload_param_nvme_path",
          "ACCELERATE_DEEPSPEED_OFFLOAD_PARAM_NVME_PATH"),
    LOWER("deepspeed_config.zero3_init_flag", "ACCELERATE_DEEPSPEED_ZERO3_INIT"),
    LOWER("deepspeed_config.zero3_save_16bit_model", "ACCELERATE_DEEPSPEED_ZERO3_SAVE_16BIT_MODEL"),
    LOWER("deepspeed_config.deepspeed_config_file", "ACCELERATE_DEEPSPEED_CONFIG_FILE"),
    LOWER("deepspeed_config.deepspeed_moe_layer_cls_names",
          "ACCELERATE_DEEPSPEED_MOE_LAYER_CLS_NAMES"),
    {NULL, NULL, false}};

static const variable_row AXES[] = {
    PYTHON("parallelism_config.parallelism_config_dp_replicate_size",
           "PARALLELISM_CONFIG_DP_REPLICATE_SIZE"),
    PYTHON("parallelism_config.parallelism_config_dp_shard_size",
           "PARALLELISM_CONFIG_DP_SHARD_SIZE"),
    PYTHON("parallelism_config.parallelism_config_tp_size", "PARALLELISM_CONFIG_TP_SIZE"),
    PYTHON("parallelism_config.parallelism_config_cp_size", "PARALLELISM_CONFIG_CP_SIZE"),
    PYTHON("parallelism_config.parallelism_config_cp_backend", "PARALLELISM_CONFIG_CP_BACKEND"),
    PYTHON("parallelism_config.parallelism_config_sp_size", "PARALLELISM_CONFIG_SP_SIZE"),
    PYTHON("parallelism_config.parallelism_config_sp_backend", "PARALLELISM_CONFIG_SP_BACKEND"),
    {NULL, NULL, false}};
static const variable_row CP[] = {PYTHON("parallelism_config.parallelism_config_cp_comm_strategy",
                                         "PARALLELISM_CONFIG_CP_COMM_STRATEGY"),
                                  {NULL, NULL, false}};
static const variable_row SP[] = {
    PYTHON("parallelism_config.parallelism_config_sp_seq_length",
           "PARALLELISM_CONFIG_SP_SEQ_LENGTH"),
    PYTHON("parallelism_config.parallelism_config_sp_seq_length_is_variable",
           "PARALLELISM_CONFIG_SP_SEQ_LENGTH_IS_VARIABLE"),
    PYTHON("parallelism_config.parallelism_config_sp_attn_implementation",
           "PARALLELISM_CONFIG_SP_ATTN_IMPLEMENTATION"),
    {NULL, NULL, false}};

void launch_variables_clear(launch_variables *v)
{
    for (size_t i = 0; i < v->count; i++) free(v->item[i]);
    free(v->item);
    *v = (launch_variables){.item = NULL};
}

static status add(launch_variables *v, const char *name, const char *value, err *e)
{
    status result = OK;
    text all = {0};
    text_addf(&all, "%s=%s", name, value);
    TRY(alloc_grow(&v->item, &v->room, v->count + 1, sizeof *v->item, "the environment", e));
    TRY(text_take(&all, &v->item[v->count], e));
    v->count++;
done:
    text_clear(&all);
    return result;
}

// Appends a value as Python's str writes it.
static void add_value(const json_t *value, bool is_lower, text *out)
{
    if (json_is_boolean(value))
        text_add(out, json_is_true(value) ? is_lower ? "true" : "True"
                      : is_lower          ? "false"
                                          : "False");
    else if (json_is_integer(value))
        text_addf(out, "%lld", (long long)json_integer_value(value));
    else if (json_is_real(value))
        text_add_number(out, json_real_value(value));
    else
        text_add(out, json_is_string(value) ? json_string_value(value) : "");
    if (json_is_real(value) && !strpbrk(out->chars, ".e")) text_add(out, ".0");
}

static status add_json(launch_variables *v, const char *name, const json_t *value, bool is_lower,
                       err *e)
{
    status result = OK;
    text word = {0};
    if (!value) return OK;
    add_value(value, is_lower, &word);
    TRY(text_check(&word, e));
    TRY(add(v, name, word.chars ? word.chars : "", e));
done:
    text_clear(&word);
    return result;
}

static status add_rows(launch_variables *v, const variable_row *row, const json_t *values, err *e)
{
    status result = OK;
    for (; row->key; row++)
        TRY(add_json(v, row->name, json_object_get(values, row->key), row->is_lower, e));
done:
    return result;
}

// Every value of a section, as PREFIX and the key's last word from `skip` on, in capitals: MEGATRON_LM_TP_DEGREE.
static status add_section(launch_variables *v, const char *section, const char *prefix, size_t skip,
                          const json_t *values, err *e)
{
    status result = OK;
    const char *key;
    json_t *value;
    text name = {0};
    json_object_foreach((json_t *)values, key, value)
    {
        const size_t bytes = strlen(section);
        if (strncmp(key, section, bytes) != 0 || key[bytes] != '.' || json_is_array(value))
            continue;
        text_clear(&name);
        text_add(&name, prefix);
        for (const char *c = key + bytes + 1 + skip; *c; c++) {
            const char upper = (char)toupper((unsigned char)*c);
            text_add_bytes(&name, &upper, 1);
        }
        TRY(text_check(&name, e));
        TRY(add_json(v, name.chars, value, false, e));
    }
done:
    text_clear(&name);
    return result;
}

static const char *string_of(const json_t *values, const char *key)
{
    const json_t *value = json_object_get(values, key);
    return json_is_string(value) ? json_string_value(value) : NULL;
}

static int64_t count_of(const json_t *values, const char *key)
{
    const json_t *value = json_object_get(values, key);
    return json_is_integer(value) ? json_integer_value(value) : 1;
}

static bool is_type(const json_t *values, const char *type)
{
    const char *found = string_of(values, "distributed_type");
    return found && strcmp(found, type) == 0;
}

static bool is_on_cpu(const json_t *values)
{
    return json_is_true(json_object_get(values, "use_cpu")) || is_type(values, "MULTI_CPU");
}

// ---- the groups of variables

status launch_add_devices(const json_t *values, launch_variables *out, err *e)
{
    static const char *const NAMES[][2] = {
        {"MULTI_XPU", "ZE_AFFINITY_MASK"},          {"MULTI_MLU", "MLU_VISIBLE_DEVICES"},
        {"MULTI_SDAA", "SDAA_VISIBLE_DEVICES"},     {"MULTI_MUSA", "MUSA_VISIBLE_DEVICES"},
        {"MULTI_NPU", "ASCEND_RT_VISIBLE_DEVICES"}, {"MULTI_HPU", "HABANA_VISIBLE_MODULES"},
        {"MULTI_NEURON", "NEURON_RT_VISIBLE_CORES"}};
    const char *ids = string_of(values, "gpu_ids"), *name = "CUDA_VISIBLE_DEVICES";
    if (!ids || strcmp(ids, "all") == 0) return OK;
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
        if (is_type(values, NAMES[i][0])) name = NAMES[i][1];
    return add(out, name, ids, e);
}

static status add_fp8(launch_variables *v, const json_t *values, err *e)
{
    status result = OK;
    static const char *const NAMES[] = {"ACCELERATE_FP8_OVERRIDE_FPROP",
                                        "ACCELERATE_FP8_OVERRIDE_DGRAD",
                                        "ACCELERATE_FP8_OVERRIDE_WGRAD"};
    static const char KEY[] = "fp8_config.fp8_override_linear_precision";
    const json_t *all = json_object_get(values, KEY);
    const char *words = string_of(values, KEY);
    json_t *rest = json_copy((json_t *)values);
    json_object_del(rest, KEY);
    TRY(add_section(v, "fp8_config", "ACCELERATE_FP8_", strlen("fp8_"), rest, e));
    for (size_t i = 0; i < 3; i++) {
        const json_t *one = json_array_get(all, i);
        const bool on = json_is_true(one) || (words && strncasecmp(words, "t", 1) == 0);
        TRY(add(v, NAMES[i], on ? "True" : "False", e));
        words = words ? strchr(words, ',') : NULL;
        words = words ? words + 1 + strspn(words + 1, " ") : NULL;
    }
done:
    json_decref(rest);
    return result;
}

// Without a number of the user's, a rank on the CPU gets its share of the cores.
static status add_threads(const launch_request *q, launch_variables *v, const json_t *values,
                          err *e)
{
    status result = OK;
    const char *given = getenv("OMP_NUM_THREADS");
    binding_cores usable, *share = NULL;
    char word[24];
    int64_t threads = 1;
    const int64_t machines = count_of(values, "num_machines"),
                  processes = count_of(values, "num_processes");
    const int local = machines > 0 && processes > machines ? (int)(processes / machines) : 1;
    if (given && *given && q->threads < 0) return OK;
    if (q->threads < 0 && is_on_cpu(values)) {
        const binding b = {.kind = BINDING_LIST};
        TRY(binding_usable(&usable, e));
        TRY(alloc_zeroed(&share, (size_t)local, sizeof *share, "the cores of workers", e));
        if (binding_choose(&b, "", &usable, local, share, NULL) == OK)
            threads = binding_count(&share[0]);
    }
    snprintf(word, sizeof word, "%lld", (long long)(q->threads >= 0 ? q->threads : threads));
    TRY(add(v, "OMP_NUM_THREADS", word, e));
done:
    free(share);
    return result;
}

static status add_deepspeed(launch_variables *v, const json_t *values, err *e)
{
    status result = OK;
    text path = {0};
    char here[4096];
    const char *given = getenv("PYTHONPATH");
    if (!getcwd(here, sizeof here)) FAIL(E_IO, "cannot find the working directory");
    text_addf(&path, "%s%s%s", given ? given : "", given && *given ? ":" : "", here);
    TRY(text_check(&path, e));
    TRY(add(v, "PYTHONPATH", path.chars, e));
    TRY(add(v, "ACCELERATE_USE_DEEPSPEED", "true", e));
    TRY(add_rows(v, DEEPSPEED, values, e));
done:
    text_clear(&path);
    return result;
}

static status add_axes(launch_variables *v, const json_t *values, err *e)
{
    status result = OK;
    TRY(add(v, "ACCELERATE_USE_PARALLELISM_CONFIG", "true", e));
    TRY(add_rows(v, AXES, values, e));
    if (count_of(values, "parallelism_config.parallelism_config_cp_size") > 1)
        TRY(add_rows(v, CP, values, e));
    if (count_of(values, "parallelism_config.parallelism_config_sp_size") > 1)
        TRY(add_rows(v, SP, values, e));
done:
    return result;
}

// Of one process, and of ranks on the CPU.
static status add_simple(launch_variables *v, const json_t *values, err *e)
{
    status result = OK;
    const bool cpu = is_on_cpu(values);
    TRY(add(v, "ACCELERATE_USE_CPU", cpu ? "True" : "False", e));
    if (!cpu) return OK;
    TRY(add(v, "KMP_AFFINITY", "granularity=fine,compact,1,0", e));
    TRY(add(v, "KMP_BLOCKTIME", "1", e));
done:
    return result;
}

static status add_dynamo(launch_variables *v, const json_t *values, err *e)
{
    status result = OK;
    const char *backend = string_of(values, "dynamo_config.dynamo_backend");
    char upper[64] = "";
    for (size_t i = 0; backend && backend[i] && i + 1 < sizeof upper; i++)
        upper[i] = (char)toupper((unsigned char)backend[i]);
    TRY(add(v, "ACCELERATE_DYNAMO_BACKEND", upper, e));
    TRY(add_rows(v, DYNAMO, values, e));
done:
    return result;
}

status launch_add_variables(const launch_request *q, const json_t *values, bool simple,
                            launch_variables *out, err *e)
{
    status result = OK;
    const char *precision = string_of(values, "mixed_precision");
    const bool deepspeed = is_type(values, "DEEPSPEED");
    if (json_is_true(json_object_get(values, "debug")))
        TRY(add(out, "ACCELERATE_DEBUG_MODE", "true", e));
    TRY(launch_add_devices(values, out, e));
    TRY(add(out, "ACCELERATE_MIXED_PRECISION", precision ? precision : "no", e));
    if (precision && strcmp(precision, "fp8") == 0) TRY(add_fp8(out, values, e));
    if (!deepspeed) {
        TRY(add_dynamo(out, values, e));
        TRY(add_threads(q, out, values, e));
    }
    if (simple || is_type(values, "MULTI_CPU")) TRY(add_simple(out, values, e));
    if (is_type(values, "FSDP")) {
        TRY(add(out, "ACCELERATE_USE_FSDP", "true", e));
        TRY(add_rows(out, FSDP_ROWS, values, e));
    } else if (is_type(values, "MEGATRON_LM")) {
        TRY(add(out, "ACCELERATE_USE_MEGATRON_LM", "true", e));
        TRY(add_section(out, "megatron_lm_config", "MEGATRON_LM_", strlen("megatron_lm_"), values,
                        e));
    } else if (deepspeed) {
        TRY(add_deepspeed(out, values, e));
    }
    if (q->enable_cpu_affinity) TRY(add(out, "ACCELERATE_CPU_AFFINITY", "1", e));
    if (!simple && json_is_true(json_object_get(values, "parallelism_config")))
        TRY(add_axes(out, values, e));
done:
    return result;
}
