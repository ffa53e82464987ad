// test_linear.c -- planning takes time in proportion to the model and to the step. The tests
// compare the CPU time of one size with that of four times the size, the least of several tries.
// Quadratic work would take 16 times as long, which the limit of 10 refuses on a busy machine, too.
#include "session/session.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

enum { TRIES = 3, ARGS = 20 };

static double cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// CPU seconds of `trireme explain`; %d in an argument stands for `size`.
static double explain_seconds(const char *const *more, int size)
{
    static const char *const base[] = {
        "--model.family=gpt2", "--model.hidden=8",   "--model.heads=1",
        "--model.vocab=64",    "--model.max_seq=16", "--data.train=mock",
        "--data.valid=mock",   "--data.seq_len=16",  "--launch.threads_per_rank=1",
        "--memory.budget=1Ti"};
    char text_of[ARGS][64];
    char *argv[ARGS];
    int argc = 0;
    job *j = NULL;
    session_inputs in = {0};
    text out = {0};
    err e = {.code = OK};
    for (size_t i = 0; i < sizeof base / sizeof *base; i++, argc++)
        snprintf(text_of[argc], sizeof text_of[argc], "%s", base[i]);
    for (; *more; more++, argc++) {
        const char *hole = strchr(*more, '%');
        if (hole)
            snprintf(text_of[argc], sizeof text_of[argc], "%.*s%d", (int)(hole - *more), *more,
                     size);
        else
            snprintf(text_of[argc], sizeof text_of[argc], "%s", *more);
    }
    for (int i = 0; i < argc; i++) argv[i] = text_of[i];
    const double start = cpu_seconds();
    if (job_open(NULL, argc, argv, &j, &e) != OK ||
        session_inputs_open_to_explain(j, &in, &e) != OK ||
        session_explain(j, &in, &(explain_options){.json = true}, &out, &e) != OK)
        fail_msg("%s", e.text);
    const double seconds = cpu_seconds() - start;
    session_inputs_close(&in);
    job_close(j);
    text_clear(&out);
    return seconds;
}

static double least_seconds(const char *const *more, int size)
{
    double least = explain_seconds(more, size);
    for (int i = 1; i < TRIES; i++) {
        const double again = explain_seconds(more, size);
        if (again < least) least = again;
    }
    return least;
}

static void expect_linear(const char *const *more, int size)
{
    const double once = least_seconds(more, size), four = least_seconds(more, 4 * size);
    if (four > 10 * once)
        fail_msg("%s, %d and %d: %.3f and %.3f s", more[0], size, 4 * size, once, four);
}

#define LINEAR(size, ...) expect_linear((const char *const[]){__VA_ARGS__, NULL}, size)

static void with_the_layers_of_a_model(void **state)
{
    (void)state;
    LINEAR(500, "--model.layers=%d", "--launch.ranks=2", "--train.global_batch=4");
    LINEAR(500, "--model.layers=%d", "--launch.ranks=2", "--train.global_batch=4",
           "--parallel.dp=zero3", "--parallel.reshard_after_forward=false");
    LINEAR(250, "--model.layers=%d", "--launch.ranks=4", "--train.global_batch=8",
           "--parallel.pp=4", "--train.micro_batch=1");
    LINEAR(500, "--model.layers=%d", "--launch.ranks=2", "--train.global_batch=4",
           "--model.scale_by_layer=true");
}

static void with_the_micro_batches_of_a_step(void **state)
{
    (void)state;
    LINEAR(2000, "--train.global_batch=%d", "--model.layers=2", "--launch.ranks=1",
           "--train.micro_batch=1");
    LINEAR(2000, "--train.global_batch=%d", "--model.layers=2", "--launch.ranks=2",
           "--train.micro_batch=1", "--parallel.pp=2", "--parallel.pp_schedule=gpipe");
    LINEAR(2000, "--train.global_batch=%d", "--model.layers=2", "--launch.ranks=2",
           "--train.micro_batch=1", "--parallel.dp=zero3");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(with_the_layers_of_a_model),
        cmocka_unit_test(with_the_micro_batches_of_a_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
