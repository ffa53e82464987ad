// fixture.h -- for the tests of the library: a scratch folder, small jobs, data of a program, and
// checks of the error of a call.
#ifndef TESTS_API_FIXTURE_H
#define TESTS_API_FIXTURE_H

#include "base/file.h"
#include "trireme.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define ACCEPT(call)  assert_ok((call), #call)
#define REFUSE(call)  assert_int_equal((call), TRM_USAGE)
#define HAS(part)     assert_non_null(strstr(error.text, part))
#define SET(job, ...) set_all(job, (const char *[]){__VA_ARGS__, NULL})

// The error of the latest call.
static trm_error error;

static inline void assert_ok(trm_status s, const char *call)
{
    if (s != TRM_OK) fail_msg("%s: %s", call, error.text);
}

static inline int enter_folder(void **state)
{
    char *folder = strdup("/tmp/trireme-test-XXXXXX");
    *state = folder;
    return mkdtemp(folder) && chdir(folder) == 0 ? 0 : -1;
}

static inline int leave_folder(void **state)
{
    int failed = chdir("/") || file_remove_tree(*state, NULL) != OK;
    free(*state);
    return failed;
}

static inline void set_all(trm_job *job, const char **pairs)
{
    for (; *pairs; pairs += 2) ACCEPT(trm_job_set(job, pairs[0], pairs[1], &error));
}

static inline trm_job *new_job(void)
{
    trm_job *job = NULL;
    ACCEPT(trm_job_open(NULL, &job, &error));
    SET(job, "launch.as", "threads", "launch.ranks", "2", "launch.threads_per_rank", "1",
        "train.steps", "4", "train.global_batch", "8", "train.out", "run", "checks.watchdog",
        "30s");
    return job;
}

// Sample k has the tokens k, k + 1, … modulo 16.
enum { VOCAB = 16, POSITIONS = 8 };

static inline trm_status read_tokens(void *context, uint64_t sample, void *inputs, void *labels,
                                     trm_error *e)
{
    int32_t *in = inputs, *out = labels;
    for (uint64_t i = 0; i < POSITIONS; i++) {
        in[i] = (int32_t)((sample + i) % VOCAB);
        out[i] = (int32_t)((sample + i + 1) % VOCAB);
    }
    (void)context, (void)e;
    return TRM_OK;
}

static const trm_dataset counting = {.samples = 64, .positions = POSITIONS, .read = read_tokens};

static inline trm_job *new_gpt2(void)
{
    trm_job *job = new_job();
    SET(job, "model.family", "gpt2", "model.vocab", "16", "model.layers", "1", "model.hidden", "16",
        "model.heads", "2", "model.max_seq", "16", "optimizer.lr", "1e-2", "lr_schedule.name",
        "constant");
    ACCEPT(trm_job_use_data(job, TRM_TRAIN, &counting, &error));
    return job;
}

#endif
