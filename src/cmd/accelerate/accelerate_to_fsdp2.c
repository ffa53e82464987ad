// accelerate_to_fsdp2.c -- `trireme accelerate to-fsdp2`: turns the fsdp_config of a file of Accelerate from version 1 into
// version 2. All other keys stay.
#include "cmd/accelerate/accelerate_file.h"

#include "base/file.h"
#include "cmd/cmd.h"
#include "cmd/console.h"

#include <string.h>

typedef struct convert_request {
    const char *file, *output;
    bool overwrite;
} convert_request;

static const flag flags[] = {
    {"--config_file", FLAG_TEXT, offsetof(convert_request, file), "FILE",
     "Names the file to convert."},
    {"--output_file", FLAG_TEXT, offsetof(convert_request, output), "FILE",
     "Names the file to write (default: the same, with --overwrite)."},
    {"--overwrite", FLAG_SWITCH, offsetof(convert_request, overwrite), NULL,
     "Replaces the output where it exists."},
};
enum { FLAGS = sizeof flags / sizeof *flags };

static const char SHARDING[] = "fsdp_sharding_strategy", RESHARD[] = "fsdp_reshard_after_forward";

// Keys that version 2 has not, and why.
static const char *const GONE[][2] = {
    {"fsdp_backward_prefetch", "version 2 always prefetches in the backward"},
    {"fsdp_forward_prefetch", "version 2 of Accelerate has no such key yet"},
    {"fsdp_sync_module_states", "version 2 always sends the states of rank 0"},
    {"fsdp_use_orig_params", "version 2 always keeps the original parameters"},
};
enum { GONE_COUNT = sizeof GONE / sizeof *GONE };

static const char *find_gone(const char *key)
{
    for (int i = 0; i < GONE_COUNT; i++)
        if (strcmp(GONE[i][0], key) == 0) return GONE[i][1];
    return NULL;
}

// What a strategy of version 1 says about resharding; any other value stays. A new reference.
static json_t *reshard_of(json_t *value)
{
    static const char *const reshards[] = {"FULL_SHARD", "HYBRID_SHARD"}, *const keeps[] = {
                                                                              "SHARD_GRAD_OP",
                                                                              "HYBRID_SHARD_ZERO2",
                                                                              "NO_SHARD"};
    const char *word = json_string_value(value);
    for (size_t i = 0; word && i < sizeof reshards / sizeof *reshards; i++)
        if (strcmp(word, reshards[i]) == 0) return json_true();
    for (size_t i = 0; word && i < sizeof keeps / sizeof *keeps; i++)
        if (strcmp(word, keeps[i]) == 0) return json_false();
    return json_incref(value);
}

// Replaces fsdp_config. Warnings name the keys that are left out.
static void convert(json_t *config)
{
    const json_t *old = json_object_get(config, "fsdp_config");
    const char *key;
    json_t *value;
    if (!json_is_object(old) || !json_object_size(old)) {
        console_warn("found no fsdp_config; the file stays as it is");
        return;
    }
    if (json_integer_value(json_object_get(old, "fsdp_version")) == 2) {
        console_warn("fsdp_version: found 2; the file stays as it is");
        return;
    }
    json_t *section = json_object();
    json_object_foreach((json_t *)old, key, value)
    {
        const char *why = find_gone(key);
        if (why)
            console_warn("%s: left out; %s", key, why);
        else if (strcmp(key, SHARDING) == 0 || strcmp(key, RESHARD) == 0)
            json_object_set_new(section, RESHARD, reshard_of(value));
        else
            json_object_set(section, key, value);
    }
    json_object_set_new(section, "fsdp_version", json_integer(2));
    const char *strategy = json_string_value(json_object_get(old, SHARDING));
    if (strategy && strcmp(strategy, "NO_SHARD") == 0)
        console_warn("%s: NO_SHARD becomes %s: false, as Accelerate converts it; version 2 shards, "
                     "where version 1 did not",
                     SHARDING, RESHARD);
    json_object_set_new(config, "fsdp_config", section);
}

static int cmd_to_fsdp2(int argc, char **argv)
{
    status result = OK;
    err error = {0}, *e = &error;
    convert_request r = {.file = NULL};
    json_t *config = NULL;
    TRY(flags_parse(flags, FLAGS, argc, argv, &r, NULL, e));
    if (!r.file) FAIL(E_USAGE, "accelerate to-fsdp2: needs --config_file");
    if (!r.overwrite && !r.output)
        FAIL(E_USAGE, "accelerate to-fsdp2: needs --output_file, or --overwrite");
    if (!r.overwrite && file_exists(r.output))
        FAIL(E_USAGE, "--output_file: %s exists; --overwrite replaces it", r.output);
    TRY(accelerate_read(r.file, &config, e));
    convert(config);
    const char *output = r.output ? r.output : r.file;
    TRY(accelerate_save(output, config, accelerate_is_json(output), e));
done:
    json_decref(config);
    return result == OK ? 0 : cmd_fail(e);
}

const command command_accelerate_to_fsdp2 = {
    .name = "to-fsdp2",
    .run = cmd_to_fsdp2,
    .usage = "--config_file FILE [--output_file FILE] [--overwrite]",
    .help = "Converts a file of HuggingFace Accelerate from FSDP version 1 to version 2.",
    .about = "fsdp_sharding_strategy becomes fsdp_reshard_after_forward. Warnings name the keys "
             "that version 2 has not.",
    .flags = flags,
    .flag_count = FLAGS,
};
