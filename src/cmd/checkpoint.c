// checkpoint.c -- `trireme checkpoint show | verify`: lists the contents of a checkpoint, and
// checks that it is complete.
#include "cmd/cmd.h"
#include "cmd/console.h"

#include "ckpt/ckpt.h"
#include "cmd/command.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void show_tensors(const char *what, const safetensors *s)
{
    for (size_t i = 0; s && i < safetensors_count(s); i++) {
        const safetensors_tensor *t = safetensors_get(s, i);
        text shape = {0};
        for (int k = 0; k < t->dims; k++) text_addf(&shape, "%s%" PRId64, k ? ", " : "", t->dim[k]);
        console_line("%-8s %-56s %-5s [%s]", what, t->name,
                     t->known_type ? dtype_name(t->type) : "?", shape.chars ? shape.chars : "");
        text_clear(&shape);
    }
}

static status show(const char *folder, bool json, err *e)
{
    status result = OK;
    ckpt *c = NULL;
    char *found = NULL;
    TRY(ckpt_locate(folder, &found, NULL, e));
    TRY(ckpt_open(found, &c, e));
    json_dumpf(c->values, stdout, json ? JSON_COMPACT : JSON_INDENT(2));
    putchar('\n');
    if (json) goto done;
    show_tensors("weight", c->weights);
    show_tensors("state", c->state);
done:
    ckpt_close(c);
    free(found);
    return result;
}

// Opens a checkpoint, or the newest one of a run. A broken newest checkpoint of a run is an error:
// passing over it would hide it. *found is its path, which the caller frees.
static status verify(const char *folder, char **found, err *e)
{
    status result = OK;
    text warnings = {0};
    TRY(ckpt_locate(folder, found, &warnings, e));
    TRY(text_check(&warnings, e));
    if (warnings.bytes)
        FAIL(E_USAGE, "%s: %.*s", folder, (int)strcspn(warnings.chars, "\n"), warnings.chars);
    TRY(ckpt_verify(*found, e));
done:
    text_clear(&warnings);
    return result;
}

typedef struct checkpoint_request {
    bool json;
} checkpoint_request;

static const flag show_flags[] = {
    {"--json", FLAG_SWITCH, offsetof(checkpoint_request, json), NULL,
     "Prints the state as one JSON object, without the tensors."},
};
static const flag verify_flags[] = {
    {"--json", FLAG_SWITCH, offsetof(checkpoint_request, json), NULL,
     "Prints one JSON object, also for an incomplete checkpoint."},
};

// Reads the one folder and the flags of the command line.
static status read_arguments(const flag *flags, int argc, char **argv, checkpoint_request *r,
                             const char **out, err *e)
{
    status result = OK;
    flag_texts words = {0};
    TRY(flags_parse(flags, 1, argc, argv, r, &words, e));
    if (words.count != 1)
        FAIL(E_USAGE, "checkpoint %s: found %zu folders; valid: one, of a checkpoint or a run",
             argv[0], words.count);
    *out = words.items[0];
done:
    flag_texts_clear(&words);
    return result;
}

static int cmd_show(int argc, char **argv)
{
    status result = OK;
    err error = {0}, *e = &error;
    checkpoint_request r = {0};
    const char *folder = NULL;
    TRY(read_arguments(show_flags, argc, argv, &r, &folder, e));
    TRY(show(folder, r.json, e));
done:
    return result == OK ? 0 : cmd_fail(e);
}

static void print_verdict(const char *folder, const err *e, bool complete)
{
    json_t *j = json_pack("{s:o, s:b}", "checkpoint", json_of_text(folder), "whole", complete);
    if (!complete) json_object_set_new(j, "error", json_of_text(e->text));
    json_dumpf(j, stdout, JSON_COMPACT);
    putchar('\n');
    json_decref(j);
}

static int cmd_verify(int argc, char **argv)
{
    status result = OK;
    err error = {0}, *e = &error;
    checkpoint_request r = {0};
    const char *folder = NULL;
    char *found = NULL;
    TRY(read_arguments(verify_flags, argc, argv, &r, &folder, e));
    result = verify(folder, &found, e);
    if (r.json)
        print_verdict(found ? found : folder, e, result == OK);
    else if (result == OK)
        console_line("%s: every file is there and has its checksum", found);
done:
    free(found);
    return result == OK ? 0 : cmd_fail(e);
}

static const command show_row = {
    .name = "show",
    .run = cmd_show,
    .usage = "DIR [--json]",
    .help = "Lists the tensors of a checkpoint and the state that a run resumes from.",
    .about = "DIR is a checkpoint, or the folder of a run, whose newest checkpoint is meant.",
    .flags = show_flags,
    .flag_count = 1,
};
static const command verify_row = {
    .name = "verify",
    .run = cmd_verify,
    .usage = "DIR [--json]",
    .help = "Reads every file of a checkpoint and compares size and checksum with the manifest.",
    .about = "DIR is a checkpoint, or the folder of a run, whose newest checkpoint is meant.",
    .flags = verify_flags,
    .flag_count = 1,
};
static const command *const SUBCOMMANDS[] = {&show_row, &verify_row, &command_checkpoint_export,
                                             &command_checkpoint_import, NULL};

const command command_checkpoint = {
    .name = "checkpoint",
    .help = "Shows, verifies and converts checkpoints.",
    .subcommands = SUBCOMMANDS,
};
