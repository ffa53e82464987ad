// job_fixture.h -- jobs from text, for the tests of this folder: a temporary folder, a file in it,
// and the error line that comes out.
#ifndef TESTS_CONFIG_JOB_FIXTURE_H
#define TESTS_CONFIG_JOB_FIXTURE_H

#include "base/file.h"
#include "config/job.h"
#include "own_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define MODEL "model: {family: gpt2, layers: 2, hidden: 32, heads: 4, vocab: 99, max_seq: 64}\n"
#define SMALL MODEL "data: {train: mock}\n"

// Runs in a temporary folder, so that files have short names.
static int enter_folder(void **state)
{
    char *folder = own_copy("/tmp/trireme-test-XXXXXX");
    *state = folder;
    return mkdtemp(folder) && chdir(folder) == 0 ? 0 : -1;
}

static int leave_folder(void **state)
{
    int failed = chdir("/") || file_remove_tree(*state, NULL) != OK;
    free(*state);
    return failed;
}

static inline void put_file(const char *name, const char *content)
{
    assert_int_equal(file_replace(name, content, strlen(content), NULL), OK);
}

// How a refused batch ends.
#define BATCH_RULE                                                                                 \
    "; train.global_batch = micro_batch x accumulation x data-parallel ranks (DeepSpeed: "         \
    "train_batch_size = train_micro_batch_size_per_gpu x gradient_accumulation_steps x "           \
    "world_size)"

enum { ARGS_MAX = 12 };

// Arguments are words separated by '|'.
static inline status open_job(const char *yaml, const char *args, job **out, err *e)
{
    char *argv[ARGS_MAX], *copy = own_copy(args), *rest = copy, *word;
    int argc = 0;
    while ((word = strsep(&rest, "|")))
        if (*word && argc < ARGS_MAX) argv[argc++] = word;
    if (yaml) put_file("job.yaml", yaml);
    status s = job_open(yaml ? "job.yaml" : NULL, argc, argv, out, e);
    free(copy);
    return s;
}

static inline job *good_job(const char *yaml, const char *args)
{
    job *j = NULL;
    err e = {0};
    if (open_job(yaml, args, &j, &e) != OK) fail_msg("%s", e.text);
    return j;
}

static inline void assert_refused(const char *yaml, const char *args, const char *line)
{
    job *j = NULL;
    err e = {0};
    status s = open_job(yaml, args, &j, &e);
    if (s != E_USAGE || strcmp(e.text, line) != 0)
        fail_msg("status %d\n  found    %s\n  expected %s\n", (int)s, s == OK ? "" : e.text, line);
}

#endif
