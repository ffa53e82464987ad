// accelerate_test.c -- `trireme accelerate test`: trains a tiny job for a few steps as a configuration file of HuggingFace
// Accelerate asks for it, and compares the replicas after each step. What the file means is the dialect's
// (config/dialect/): the job is that of `trireme train JOB.yaml --accelerate FILE`.
#include "cmd/accelerate/accelerate_file.h"

#include "base/file.h"
#include "cmd/cmd.h"
#include "cmd/console.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct test_request {
    const char *file;
} test_request;

static const flag flags[] = {
    {"--config_file", FLAG_TEXT, offsetof(test_request, file), "FILE",
     "Names the configuration file (default: default_config.yaml, in accelerate/ of $HF_HOME or "
     "~/.cache/huggingface; without it, the ranks of `trireme train`)."},
};
enum { FLAGS = sizeof flags / sizeof *flags };

// Sizes that 2, 4 and 8 tensor-parallel ranks, context-parallel ranks and stages divide.
static const char JOB[] =
    "model: {family: gpt2, layers: 8, hidden: 64, heads: 8, vocab: 512, max_seq: 64}\n"
    "data: {train: mock, seq_len: 64}\n"
    "train: {steps: 3, micro_batch: 1, accumulation: 2, eval_every: 0, save_every: 0}\n"
    "lr_schedule: {warmup_steps: 1}\n"
    "checks: {replicas_every: 1}\n";

// Trains in the folder. *code is the exit code of the run.
static status train(const char *folder, const char *file, int *code, err *e)
{
    status result = OK;
    char *job = NULL, *out = NULL;
    TRY(file_join(folder, "job.yaml", &job, e));
    TRY(file_join(folder, "out", &out, e));
    TRY(file_replace(job, JOB, sizeof JOB - 1, e));
    char *argv[] = {"train",      job, "--quiet", "--train.out", out, file ? "--accelerate" : NULL,
                    (char *)file, NULL};
    *code = command_train.run(file ? 7 : 5, argv);
done:
    free(out);
    free(job);
    return result;
}

static void warn_machines(const char *file)
{
    json_t *config = NULL;
    if (accelerate_load(file, &config, NULL) != OK) return; // the run says why
    const json_t *machines = json_object_get(config, "num_machines");
    if (json_integer_value(machines) > 1)
        console_warn("%s: num_machines: found %d; the test starts all ranks on this machine", file,
                     (int)json_integer_value(machines));
    json_decref(config);
}

static status test(const char *file, int *code, err *e)
{
    status result = OK;
    const char *temporary = getenv("TMPDIR");
    text folder = {0};
    text_addf(&folder, "%s/trireme-test.XXXXXX", temporary && *temporary ? temporary : "/tmp");
    TRY(text_check(&folder, e));
    if (!mkdtemp(folder.chars)) {
        result = err_errno(e, "%s", folder.chars);
        goto done;
    }
    result = train(folder.chars, file, code, e);
    const status removed = file_remove_tree(folder.chars, result == OK ? e : NULL);
    if (result == OK) result = removed;
done:
    text_clear(&folder);
    return result;
}

static int cmd_accelerate_test(int argc, char **argv)
{
    status result = OK;
    err error = {0}, *e = &error;
    test_request r = {.file = NULL};
    char *path = NULL;
    int code = 1;
    TRY(flags_parse(flags, FLAGS, argc, argv, &r, NULL, e));
    if (!r.file) {
        TRY(accelerate_default_path(&path, e));
        if (file_exists(path)) r.file = path;
    }
    if (r.file) warn_machines(r.file);
    TRY(test(r.file, &code, e));
    if (code == 0)
        console_line("Test is a success! You are ready for your distributed training!");
    else
        console_fail("accelerate test: the run failed as %s asks for it; the line above says why",
                     r.file ? r.file : "this machine");
done:
    free(path);
    return result == OK ? code != 0 : cmd_fail(e);
}

const command command_accelerate_test = {
    .name = "test",
    .run = cmd_accelerate_test,
    .usage = "[--config_file FILE]",
    .help = "Trains a tiny job as a configuration file of HuggingFace Accelerate asks for it.",
    .about = "The run has three steps and compares its replicas after each. The exit code is 1 "
             "where it fails.",
    .flags = flags,
    .flag_count = FLAGS,
};
