// library_train.c -- a program that trains with libtrireme, for library.sh: `library_train JOB.yaml [--key value ...]`. As
// `trireme train` it resumes, evaluates and saves after each second step and at the end. With "twice" before the job it
// runs a second job after the first, in the folder `again`; with "own" it brings its own data; with "fail" rank 1 fails
// after the second step; with "stop" rank 1 asks for a stop there. Its exit code is that of the last trm_run.
#include <trireme.h>

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { POSITIONS = 8 };

static trm_status read_tokens(void *context, uint64_t sample, void *inputs, void *labels,
                              trm_error *error)
{
    int32_t *in = inputs, *out = labels;
    for (uint64_t i = 0; i < POSITIONS; i++) {
        in[i] = (int32_t)((sample + i) % 16);
        out[i] = (int32_t)((sample + i + 1) % 16);
    }
    (void)context, (void)error;
    return TRM_OK;
}

static trm_status train(trm_trainer *t, void *arg, trm_error *error)
{
    const char *how = arg;
    const bool evaluates = strcmp(how, "own") != 0;
    trm_step s = {.step = 0};
    double loss;
    trm_status result = trm_trainer_resume(t, NULL, error);
    while (result == TRM_OK && trm_trainer_steps_left(t) > 0) {
        const bool breaks = trm_trainer_rank(t) == 1 && s.step == 1;
        if (breaks && strcmp(how, "stop") == 0) trm_trainer_stop(t);
        result = trm_trainer_step(t, &s, error);
        if (breaks && strcmp(how, "fail") == 0) return trm_fail(error, TRM_FAILED, "the oar broke");
        const bool second = s.step % 2 == 0, last = s.step == s.steps;
        if (result == TRM_OK && evaluates && (second || last))
            result = trm_trainer_evaluate(t, 1, &loss, error);
        if (result == TRM_OK && second && !last) result = trm_trainer_save(t, error);
    }
    return result == TRM_OK ? trm_trainer_save(t, error) : result;
}

static trm_status run(const char *how, char **args, const char *out, trm_error *error)
{
    const trm_dataset own = {.samples = 64, .positions = POSITIONS, .read = read_tokens};
    trm_job *job = NULL;
    trm_status result = trm_job_open(args[0], &job, error);
    for (int i = 1; result == TRM_OK && args[i] && args[i + 1]; i += 2)
        result = trm_job_set(job, args[i] + 2, args[i + 1], error);
    if (result == TRM_OK && out) result = trm_job_set(job, "train.out", out, error);
    if (result == TRM_OK && strcmp(how, "own") == 0)
        result = trm_job_use_data(job, TRM_TRAIN, &own, error);
    if (result == TRM_OK) result = trm_run(job, train, (void *)(uintptr_t)how, error);
    trm_job_close(job);
    return result;
}

int main(int argc, char **argv)
{
    trm_error error = {.code = TRM_OK};
    if (argc < 2) return TRM_USAGE;
    const bool has_word = strchr(argv[1], '.') == NULL;
    const char *how = has_word ? argv[1] : "once";
    char **args = argv + 1 + has_word;
    trm_status result = run(how, args, NULL, &error);
    if (result == TRM_OK && strcmp(how, "twice") == 0) result = run(how, args, "again", &error);
    if (result != TRM_OK) fprintf(stderr, "%s\n", error.text);
    return (int)result;
}
