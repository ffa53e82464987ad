// accelerate_merge.c -- `trireme accelerate merge-weights`: writes the weights of a checkpoint, or of a model folder with
// shards, as one model.safetensors. It reads no pickle, so folders of torch.distributed.checkpoint are refused.
#include "cmd/accelerate/accelerate_file.h"

#include "base/alloc.h"
#include "base/file.h"
#include "ckpt/ckpt.h"
#include "cmd/cmd.h"
#include "cmd/console.h"
#include "model/config.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct merger_request {
    bool pickle, removes;
} merger_request;

static const flag flags[] = {
    {"--unsafe_serialization", FLAG_SWITCH, offsetof(merger_request, pickle), NULL,
     "Refused: it would write a pickle."},
    {"--remove_checkpoint_dir", FLAG_SWITCH, offsetof(merger_request, removes), NULL,
     "Refused: a checkpoint folder holds more than its weights."},
};
enum { FLAGS = sizeof flags / sizeof *flags };

static status folder_has(const char *folder, const char *name, bool *has, err *e)
{
    char *path = NULL;
    const status result = file_join(folder, name, &path, e);
    *has = result == OK && access(path, F_OK) == 0;
    free(path);
    return result;
}

// Accelerate saves the shards of FSDP in pytorch_model_fsdp_0/, in the format of torch.distributed.checkpoint.
static status refuse_pickles(const char *folder, err *e)
{
    status result = OK;
    static const char *const names[] = {".metadata", "pytorch_model_fsdp_0/.metadata"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        bool found;
        TRY(folder_has(folder, names[i], &found, e));
        if (!found) continue;
        FAIL(E_USAGE,
             "%s holds shards of torch.distributed.checkpoint, which are pickles and are not read; "
             "`python -m torch.distributed.checkpoint.format_utils dcp_to_torch %s%s model.pt` "
             "converts them, and `accelerate merge-weights` of Python writes a model.safetensors",
             folder, folder, i ? "/pytorch_model_fsdp_0" : "");
    }
done:
    return result;
}

static status copy_bytes(void *arg, size_t i, uint64_t offset, void *out, size_t bytes, err *e)
{
    (void)e;
    const safetensors_tensor *t = safetensors_get(arg, i);
    memcpy(out, (const char *)t->data + offset, bytes);
    return OK;
}

// Writes to a file beside `path`, and renames it when it is complete and durable.
static status write_one(safetensors *from, const char *path, err *e)
{
    status result = OK;
    safetensors_tensor *tensors = NULL;
    text temporary = {0};
    const size_t count = safetensors_count(from);
    text_addf(&temporary, "%s.tmp-%d", path, (int)getpid());
    TRY(text_check(&temporary, e));
    TRY(alloc_array(&tensors, count, sizeof *tensors, "a list of tensors", e));
    for (size_t i = 0; i < count; i++) tensors[i] = *safetensors_get(from, i);
    TRY(safetensors_write(temporary.chars, tensors, count, copy_bytes, from, NULL, e));
    result = safetensors_check_whole(from, e);
    if (result == OK) result = file_rename(temporary.chars, path, e);
    if (result != OK) unlink(temporary.chars);
done:
    free(tensors);
    text_clear(&temporary);
    return result;
}

static status merge(const char *folder, const char *output, err *e)
{
    status result = OK;
    char *found = NULL, *path = NULL;
    text warnings = {0};
    safetensors *from = NULL;
    TRY(model_folder_check(folder, e));
    TRY(refuse_pickles(folder, e));
    TRY(ckpt_locate(folder, &found, &warnings, e));
    TRY(text_check(&warnings, e));
    cmd_warn(warnings.bytes ? warnings.chars : NULL);
    TRY(safetensors_open_folder(found, &from, e));
    TRY(file_join(output, "model.safetensors", &path, e));
    if (access(path, F_OK) == 0) FAIL(E_USAGE, "%s exists; valid: another folder", path);
    TRY(file_make_directories(output, e));
    TRY(write_one(from, path, e));
    console_line("%s: %zu tensors of %s", path, safetensors_count(from), found);
done:
    safetensors_close(from);
    text_clear(&warnings);
    free(path);
    free(found);
    return result;
}

static int cmd_merge_weights(int argc, char **argv)
{
    status result = OK;
    err error = {0}, *e = &error;
    merger_request r = {.pickle = false};
    flag_texts words = {0};
    TRY(flags_parse(flags, FLAGS, argc, argv, &r, &words, e));
    if (r.pickle)
        FAIL(E_USAGE, "--unsafe_serialization: Trireme writes no pickles; valid: without it");
    if (r.removes)
        FAIL(E_USAGE, "--remove_checkpoint_dir: the folder holds more than its weights; valid: "
                      "without it, and `rm -r` afterwards");
    if (words.count != 2)
        FAIL(E_USAGE,
             "accelerate merge-weights: found %zu folders; valid: the checkpoint, and the folder "
             "to write model.safetensors to",
             words.count);
    TRY(merge(words.items[0], words.items[1], e));
done:
    flag_texts_clear(&words);
    return result == OK ? 0 : cmd_fail(e);
}

const command command_accelerate_merge = {
    .name = "merge-weights",
    .run = cmd_merge_weights,
    .usage = "CHECKPOINT_DIR OUTPUT_DIR",
    .help = "Writes the weights of a checkpoint as one model.safetensors.",
    .about = "CHECKPOINT_DIR is a checkpoint of Trireme, the folder of a run, whose newest "
             "checkpoint is meant, or a HuggingFace folder with shards. Memory is bounded, and the "
             "file appears when it is complete.",
    .flags = flags,
    .flag_count = FLAGS,
};
