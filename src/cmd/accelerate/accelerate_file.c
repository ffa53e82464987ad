// accelerate_file.c -- finds, reads, completes and writes a configuration file of Accelerate. accelerate_yaml.c knows its
// text.
#include "base/file.h"
#include "base/json.h"
#include "cmd/accelerate/accelerate_yaml.h"

#include <stdlib.h>
#include <string.h>

// ---- paths

status accelerate_expand_home(const char *path, char **out, err *e)
{
    const char *home = getenv("HOME");
    if (path[0] != '~' || (path[1] && path[1] != '/') || !home) return text_copy(path, out, e);
    return file_join(home, path[1] ? path + 2 : "", out, e);
}

status accelerate_default_path(char **out, err *e)
{
    status result = OK;
    const char *hub = getenv("HF_HOME"), *cache = getenv("XDG_CACHE_HOME");
    text path = {0};
    if (hub)
        text_add(&path, hub);
    else
        text_addf(&path, "%s/huggingface", cache ? cache : "~/.cache");
    text_add(&path, "/accelerate/default_config.yaml");
    TRY(text_check(&path, e));
    TRY(accelerate_expand_home(path.chars, out, e));
done:
    text_clear(&path);
    return result;
}

status accelerate_find_config(char **out, err *e)
{
    status result = OK;
    char *path = NULL;
    *out = NULL;
    TRY(accelerate_default_path(&path, e));
    if (!file_exists(path)) memcpy(path + strlen(path) - strlen("yaml"), "json", strlen("json"));
    if (file_exists(path)) *out = path, path = NULL;
done:
    free(path);
    return result;
}

bool accelerate_is_json(const char *path)
{
    const size_t bytes = strlen(path);
    return bytes >= 5 && strcmp(path + bytes - 5, ".json") == 0;
}

// ---- reading

static status parse(const char *path, const char *chars, size_t bytes, json_t **out, err *e)
{
    status result = OK;
    yaml_node *root = NULL;
    json_error_t problem;
    if (accelerate_is_json(path)) {
        *out = json_load_python(chars, bytes, JSON_REJECT_DUPLICATES, &problem);
        if (!*out) FAIL(E_USAGE, "%s:%d: %s", path, problem.line, problem.text);
    } else {
        TRY(yaml_node_parse(path, chars, bytes, &root, e));
        *out = accelerate_value(root);
    }
done:
    yaml_node_free(root);
    return result;
}

status accelerate_read(const char *path, json_t **out, err *e)
{
    status result = OK;
    char *chars = NULL;
    size_t bytes;
    json_t *config = NULL;
    TRY(file_read_small(path, FILE_MOST_CONFIG, &chars, &bytes, e));
    TRY(parse(path, chars, bytes, &config, e));
    if (!json_is_object(config) || !json_object_size(config))
        FAIL(E_USAGE, "%s: found no keys; valid: a file that `accelerate config` writes", path);
    *out = config;
    config = NULL;
done:
    json_decref(config);
    free(chars);
    return result;
}

// ---- the newest form

// A field of Accelerate's class, in its order.
typedef struct field {
    const char *key;
    const char *fallback; // as JSON; NULL: left out where it is not given
} field;

static const field FIELDS[] = {
    {"compute_environment", "\"LOCAL_MACHINE\""},
    {"distributed_type", NULL},
    {"mixed_precision", NULL},
    {"use_cpu", "false"},
    {"debug", "false"},
    {"num_processes", "-1"},
    {"machine_rank", "0"},
    {"num_machines", "1"},
    {"gpu_ids", NULL},
    {"main_process_ip", NULL},
    {"main_process_port", NULL},
    {"rdzv_backend", "\"static\""},
    {"same_network", "false"},
    {"main_training_function", "\"main\""},
    {"enable_cpu_affinity", "false"},
    {"fp8_config", NULL},
    {"deepspeed_config", NULL},
    {"fsdp_config", NULL},
    {"parallelism_config", NULL},
    {"megatron_lm_config", NULL},
    {"mpirun_config", NULL},
    {"downcast_bf16", "false"},
    {"tpu_name", NULL},
    {"tpu_zone", NULL},
    {"tpu_use_cluster", "false"},
    {"tpu_use_sudo", "false"},
    {"command_file", NULL},
    {"commands", NULL},
    {"tpu_vm", NULL},
    {"tpu_env", NULL},
    {"dynamo_config", NULL},
};
enum { FIELDS_COUNT = sizeof FIELDS / sizeof *FIELDS };

static const char *const TYPES[] = {"NO",        "MULTI_CPU",    "MULTI_GPU",  "MULTI_NPU",
                                    "MULTI_MLU", "MULTI_SDAA",   "MULTI_MUSA", "MULTI_XPU",
                                    "MULTI_HPU", "MULTI_NEURON", "DEEPSPEED",  "FSDP",
                                    "XLA",       "MEGATRON_LM"};
enum { TYPES_COUNT = sizeof TYPES / sizeof *TYPES };

// NO without quotes is false to YAML 1.1, and so is `no`.
static void name_false(json_t *config, const char *key, const char *word)
{
    if (json_is_false(json_object_get(config, key)))
        json_object_set_new(config, key, json_string(word));
}

// Old files say fp16: true, and name the back end of dynamo at the top.
static void replace_old_keys(json_t *config)
{
    const json_t *backend = json_object_get(config, "dynamo_backend");
    if (!json_object_get(config, "mixed_precision") &&
        json_is_true(json_object_get(config, "fp16")))
        json_object_set_new(config, "mixed_precision", json_string("fp16"));
    json_object_del(config, "fp16");
    if (!backend) return;
    json_t *section = json_object();
    if (json_is_string(backend) && strcmp(json_string_value(backend), "NO") != 0)
        json_object_set(section, "dynamo_backend", (json_t *)backend);
    json_object_set_new(config, "dynamo_config", section);
    json_object_del(config, "dynamo_backend");
}

static status check_type(const char *path, const json_t *config, err *e)
{
    const json_t *type = json_object_get(config, "distributed_type");
    const char *word = json_string_value(type);
    size_t i = 0;
    if (!type)
        return err_set(e, E_USAGE,
                       "%s: distributed_type: not given; valid: NO, MULTI_GPU, "
                       "DEEPSPEED, FSDP, MEGATRON_LM, MULTI_CPU, …",
                       path);
    if (!word) return err_set(e, E_USAGE, "%s: distributed_type: not a word", path);
    while (i < TYPES_COUNT && strcmp(TYPES[i], word) != 0) i++;
    if (i < TYPES_COUNT) return OK;
    const char *near = text_nearest(word, TYPES, TYPES_COUNT);
    return err_set(e, E_USAGE, "%s: distributed_type: found %.*s%s%s%s", path, TEXT_CUT(word, 60),
                   near ? "; did you mean " : "; valid: a type of Accelerate", near ? near : "",
                   near ? "?" : "");
}

static status check_keys(const char *path, const json_t *config, err *e)
{
    const char *names[FIELDS_COUNT], *key;
    json_t *value;
    for (int i = 0; i < FIELDS_COUNT; i++) names[i] = FIELDS[i].key;
    json_object_foreach((json_t *)config, key, value)
    {
        int i = 0;
        while (i < FIELDS_COUNT && strcmp(names[i], key) != 0) i++;
        if (i < FIELDS_COUNT) continue;
        const char *near = text_nearest(key, names, FIELDS_COUNT);
        return err_set(e, E_USAGE, "%s: unknown key %.*s%s%s%s", path, TEXT_CUT(key, 60),
                       near ? ", did you mean " : "", near ? near : "", near ? "?" : "");
    }
    return OK;
}

status accelerate_complete(const json_t *config, json_t **out, err *e)
{
    json_t *all = json_object();
    if (!all) return err_set(e, E_MEMORY, "no memory for a configuration of Accelerate");
    for (int i = 0; i < FIELDS_COUNT; i++) {
        const field *f = &FIELDS[i];
        json_t *value = json_object_get(config, f->key);
        if (json_is_null(value) || (json_is_object(value) && !json_object_size(value))) continue;
        if (value)
            json_object_set(all, f->key, value);
        else if (f->fallback)
            json_object_set_new(all, f->key, json_loads(f->fallback, JSON_DECODE_ANY, NULL));
    }
    *out = all;
    return OK;
}

status accelerate_load(const char *path, json_t **out, err *e)
{
    status result = OK;
    json_t *config = NULL;
    TRY(accelerate_read(path, &config, e));
    const char *environment = json_string_value(json_object_get(config, "compute_environment"));
    if (environment && strcmp(environment, "LOCAL_MACHINE") != 0)
        FAIL(E_USAGE,
             "%s: compute_environment: found %.*s; valid: LOCAL_MACHINE, because Trireme "
             "starts nothing at Amazon SageMaker",
             path, TEXT_CUT(environment, 60));
    name_false(config, "distributed_type", "NO");
    name_false(config, "mixed_precision", "no");
    replace_old_keys(config);
    TRY(check_type(path, config, e));
    TRY(check_keys(path, config, e));
    if (!json_object_get(config, "num_processes") &&
        strcmp(json_string_value(json_object_get(config, "distributed_type")), "NO") == 0)
        json_object_set_new(config, "num_processes", json_integer(1));
    TRY(accelerate_complete(config, out, e));
done:
    json_decref(config);
    return result;
}

// ---- writing

status accelerate_save(const char *path, const json_t *config, bool as_json, err *e)
{
    status result = OK;
    text out = {0};
    accelerate_print(config, as_json, &out);
    TRY(text_check(&out, e));
    TRY(file_replace(path, out.chars, out.bytes, e));
done:
    text_clear(&out);
    return result;
}
