// checkpoint_convert.c -- `trireme checkpoint export | import`: models in the formats of other programs.
#include "cmd/cmd.h"
#include "cmd/console.h"

#include "base/file.h"
#include "base/json.h"
#include "ckpt/ckpt.h"
#include "cmd/command.h"
#include "convert/convert.h"
#include "model/adapter.h"
#include "session/adapter.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct convert_request {
    const char *to, *out, *type, *onto;
    int64_t shard_bytes;
    bool merge, average, overwrite, json;
} convert_request;

#define AT(field) offsetof(convert_request, field)
static const flag export_flags[] = {
    {"--to", FLAG_TEXT, AT(to), "hf|peft|gguf",
     "Chooses what is made: a HuggingFace folder, an adapter folder of PEFT, or a GGUF file."},
    {"--out", FLAG_TEXT, AT(out), "PATH", "Names the new folder, or the new GGUF file."},
    {"--dtype", FLAG_TEXT, AT(type), "TYPE",
     "Casts the weights: fp32, bf16 or fp16 in folders (default: as they are), f16, bf16, q8_0 or "
     "f32 in GGUF files (default: f16, of an adapter f32)."},
    {"--shard-size", FLAG_COUNT, AT(shard_bytes), "BYTES",
     "Sets the most bytes of a file of weights in a folder (default: 5G)."},
    {"--merge", FLAG_SWITCH, AT(merge), NULL,
     "Adds the adapter of DIR to the weights of its base, and exports the sum."},
    {"--merge-onto", FLAG_TEXT, AT(onto), "nf4|stored",
     "Chooses the weights to which --merge adds the adapter: what NF4 makes of those of the base, "
     "or "
     "those that its folder holds (default: those that the adapter was trained on)."},
    {"--ema", FLAG_SWITCH, AT(average), NULL,
     "Exports the moving averages of the weights, which optimizer.ema keeps."},
    {"--overwrite", FLAG_SWITCH, AT(overwrite), NULL, "Replaces PATH where it exists."},
    {"--json", FLAG_SWITCH, AT(json), NULL, "Prints one JSON object."},
};
static const flag import_flags[] = {
    {"--out", FLAG_TEXT, AT(out), "DIR", "Names the new folder."},
    {"--dtype", FLAG_TEXT, AT(type), "fp32|bf16|fp16",
     "Casts the weights (default: as they are; fp32 where they are quantised)."},
    {"--shard-size", FLAG_COUNT, AT(shard_bytes), "BYTES",
     "Sets the most bytes of a file of weights (default: 5G)."},
    {"--overwrite", FLAG_SWITCH, AT(overwrite), NULL, "Replaces DIR where it exists."},
    {"--json", FLAG_SWITCH, AT(json), NULL, "Prints one JSON object."},
};
enum {
    EXPORT_FLAGS = sizeof export_flags / sizeof *export_flags,
    IMPORT_FLAGS = sizeof import_flags / sizeof *import_flags
};

static status read_arguments(const flag *flags, size_t count, int argc, char **argv,
                             convert_request *r, char **from, err *e)
{
    status result = OK;
    flag_texts words = {0};
    TRY(flags_parse(flags, count, argc, argv, r, &words, e));
    if (words.count != 1)
        FAIL(E_USAGE, "checkpoint %s: found %zu paths; valid: one, of what is %sed", argv[0],
             words.count, argv[0]);
    if (!r->out) FAIL(E_USAGE, "checkpoint %s: --out is missing", argv[0]);
    TRY(text_copy(words.items[0], from, e));
done:
    flag_texts_clear(&words);
    return result;
}

static void print_result(const convert_result *r, bool json)
{
    char size[24];
    cmd_warn(r->warnings.bytes ? r->warnings.chars : NULL);
    text_bytes(size, (double)r->bytes);
    if (!json && r->notes.bytes) console_line("%.*s", (int)r->notes.bytes - 1, r->notes.chars);
    if (!json) {
        console_line("%s: %" PRIu64 " tensors, %s, %s", r->out, r->tensors, size, r->kind);
        return;
    }
    json_t *j = json_pack("{s:o, s:I, s:I, s:s}", "out", json_of_text(r->out), "tensors",
                          (json_int_t)r->tensors, "bytes", (json_int_t)r->bytes, "dtype", r->kind);
    if (r->notes.bytes) json_object_set_new(j, "notes", json_of_text(r->notes.chars));
    json_dumpf(j, stdout, JSON_COMPACT);
    putchar('\n');
    json_decref(j);
}

// Resolves the folder that the user named. With --merge, and for a GGUF file, an adapter's base and the adapter; otherwise
// the folder itself, which --to must fit.
static status find_folders(const convert_request *r, const char *from, session_folders *out, err *e)
{
    status result = OK;
    bool adapter;
    text warnings = {0};
    if (!file_is_directory(from))
        FAIL(E_USAGE, "%s: found no folder; valid: a checkpoint, a run, or a model's folder", from);
    TRY(ckpt_locate(from, &out->base, &warnings, e));
    TRY(text_check(&warnings, e));
    cmd_warn(warnings.bytes ? warnings.chars : NULL);
    TRY(model_lora_in_folder(out->base, &adapter, e));
    const bool to_peft = strcmp(r->to, "peft") == 0, to_gguf = strcmp(r->to, "gguf") == 0;
    if (r->merge && (!adapter || to_peft))
        FAIL(E_USAGE, "--merge: %s; valid: without it",
             adapter ? "an adapter folder holds no base" : "found a model, which has no adapter");
    if (adapter && !to_peft && !to_gguf && !r->merge)
        FAIL(E_USAGE, "--to %s: %s holds an adapter; valid: --merge, or --to peft, --to gguf",
             r->to, from);
    if (!adapter && to_peft)
        FAIL(E_USAGE, "--to peft: %s holds no adapter; valid: --to hf, --to gguf", from);
    if (r->average && adapter)
        FAIL(E_USAGE, "--ema: %s holds an adapter; valid: a checkpoint of whole weights", from);
    if (!adapter || to_peft) goto done;
    session_folders_clear(out);
    TRY(session_folders_find(&(session_model_names){.folder = from}, out, e));
done:
    text_clear(&warnings);
    return result;
}

static status find_onto(const convert_request *r, convert_base *out, err *e)
{
    *out = CONVERT_ONTO_TRAINED;
    if (!r->onto) return OK;
    *out = strcmp(r->onto, "nf4") == 0 ? CONVERT_ONTO_NF4 : CONVERT_ONTO_STORED;
    if (*out != CONVERT_ONTO_NF4 && strcmp(r->onto, "stored") != 0)
        return err_set(e, E_USAGE, "--merge-onto: found '%.*s'; valid: nf4, stored",
                       TEXT_CUT(r->onto, 40));
    if (!r->merge) return err_set(e, E_USAGE, "--merge-onto: given without --merge; valid: both");
    return OK;
}

// Checks that the adapter was trained on this base.
static status check_base(const session_folders *f, err *e)
{
    status result = OK;
    safetensors *base = NULL;
    uint64_t mark;
    if (!f->adapter) goto done;
    TRY(safetensors_open_weights(f->base, &base, e));
    TRY(model_folder_mark(base, &mark, e));
    TRY(session_adapter_check_mark(f->adapter, mark, e));
done:
    safetensors_close(base);
    return result;
}

static status export_one(const convert_request *r, const char *from, convert_result *out, err *e)
{
    status result = OK;
    session_folders f = {NULL, NULL};
    if (!r->to || (strcmp(r->to, "hf") && strcmp(r->to, "peft") && strcmp(r->to, "gguf")))
        FAIL(E_USAGE, "checkpoint export: --to: found %s; valid: hf, peft, gguf",
             r->to ? r->to : "nothing");
    convert_base onto;
    TRY(find_onto(r, &onto, e));
    TRY(find_folders(r, from, &f, e));
    TRY(check_base(&f, e));
    const convert_options o = {.from = f.base,
                               .adapter = f.adapter,
                               .onto = onto,
                               .average = r->average,
                               .out = r->out,
                               .type = r->type,
                               .shard_bytes = (uint64_t)r->shard_bytes,
                               .overwrite = r->overwrite};
    if (f.adapter && !r->merge)
        TRY(convert_adapter_to_gguf(&o, out, e));
    else if (strcmp(r->to, "gguf") == 0)
        TRY(convert_to_gguf(&o, out, e));
    else
        TRY(convert_to_folder(&o, out, e));
done:
    session_folders_clear(&f);
    return result;
}

static int cmd_export(int argc, char **argv)
{
    status result = OK;
    err error = {0}, *e = &error;
    convert_request r = {0};
    convert_result made = {0};
    char *from = NULL;
    TRY(read_arguments(export_flags, EXPORT_FLAGS, argc, argv, &r, &from, e));
    TRY(export_one(&r, from, &made, e));
    print_result(&made, r.json);
done:
    convert_result_clear(&made);
    free(from);
    return result == OK ? 0 : cmd_fail(e);
}

static int cmd_import(int argc, char **argv)
{
    status result = OK;
    err error = {0}, *e = &error;
    convert_request r = {0};
    convert_result made = {0};
    char *from = NULL;
    TRY(read_arguments(import_flags, IMPORT_FLAGS, argc, argv, &r, &from, e));
    const convert_options o = {.from = from,
                               .out = r.out,
                               .type = r.type,
                               .shard_bytes = (uint64_t)r.shard_bytes,
                               .overwrite = r.overwrite};
    if (file_is_directory(from))
        TRY(convert_to_folder(&o, &made, e));
    else
        TRY(convert_from_gguf(&o, &made, e));
    print_result(&made, r.json);
done:
    convert_result_clear(&made);
    free(from);
    return result == OK ? 0 : cmd_fail(e);
}

const command command_checkpoint_export = {
    .name = "export",
    .run = cmd_export,
    .usage = "DIR --to hf|peft|gguf --out PATH [--dtype TYPE] [--shard-size BYTES] [--overwrite]",
    .help = "Writes a checkpoint in another system's format.",
    .about = "DIR is a checkpoint, the folder of a run, whose newest checkpoint is meant, or a "
             "model's folder.",
    .flags = export_flags,
    .flag_count = EXPORT_FLAGS,
};
const command command_checkpoint_import = {
    .name = "import",
    .run = cmd_import,
    .usage = "FILE.gguf|DIR --out DIR [--dtype TYPE] [--shard-size BYTES] [--overwrite]",
    .help = "Reads a checkpoint of another system.",
    .about = "A GGUF file becomes a HuggingFace folder with its tokenizer and chat template. A "
             "folder of a model or of an adapter is checked and copied.",
    .flags = import_flags,
    .flag_count = IMPORT_FLAGS,
};
