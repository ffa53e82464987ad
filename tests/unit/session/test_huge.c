// test_huge.c -- numbers far outside the useful range in every key: the job is planned or refused
// with one line, and nothing overflows, aborts or takes long.
#include "config/private.h"
#include "session/session.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const char *const NUMBERS[] = {"0",
                                      "1",
                                      "-1",
                                      "2147483647",
                                      "2147483648",
                                      "4294967296",
                                      "9223372036854775807",
                                      "9223372036854775808"};
enum { COUNT = sizeof NUMBERS / sizeof *NUMBERS };

static const char *const GPT2[] = {
    "--model.family=gpt2", "--model.layers=2",           "--model.hidden=16", "--model.heads=2",
    "--model.vocab=32",    "--model.max_seq=16",         "--data.train=mock", "--data.seq_len=16",
    "--launch.ranks=2",    "--launch.threads_per_rank=1"};
static const char *const LLAMA[] = {
    "--model.family=llama", "--model.layers=2", "--model.hidden=16",          "--model.heads=2",
    "--model.vocab=32",     "--model.ffn=32",   "--model.max_seq=16",         "--data.train=mock",
    "--data.seq_len=16",    "--launch.ranks=2", "--launch.threads_per_rank=1"};
enum { ARGS = 16 };

typedef struct arguments {
    const char *items[ARGS];
    int count;
} arguments;

// Replaces an earlier value of the same key.
static void add(arguments *a, const char *arg)
{
    const size_t key = strcspn(arg, "=") + 1;
    for (int i = 0; i < a->count; i++)
        if (strncmp(a->items[i], arg, key) == 0) {
            a->items[i] = arg;
            return;
        }
    assert_true(a->count < ARGS);
    a->items[a->count++] = arg;
}

static arguments arguments_of(const char *const *base, size_t count)
{
    arguments a = {.count = 0};
    for (size_t i = 0; i < count; i++) add(&a, base[i]);
    return a;
}

#define BASE(of) arguments_of(of, sizeof(of) / sizeof *(of))

static void check_result(status s, const err *e, const char *arg)
{
    if (s == OK) return;
    if ((s != E_USAGE && s != E_FIT) || !e->text[0] || strchr(e->text, '\n'))
        fail_msg("%s: status %d, '%s'", arg, (int)s, e->text);
}

// Runs `trireme plan` (with `plan_it`) or `trireme explain`.
static void try_job(const arguments *a, bool plan_it, const char *arg)
{
    job *j = NULL;
    session_inputs in = {0};
    text out = {0};
    err e = {.code = OK};
    char *argv[ARGS];
    for (int i = 0; i < a->count; i++) argv[i] = (char *)a->items[i];
    status s = job_open(NULL, a->count, argv, &j, &e);
    if (s == OK)
        s = plan_it ? session_inputs_open_to_plan(j, NULL, &in, &e)
                    : session_inputs_open_to_explain(j, &in, &e);
    if (s == OK)
        s = plan_it ? session_plan(j, &in, &(session_plan_options){.json = true}, &out, &e)
                    : session_explain(j, &in, &(explain_options){.json = true}, &out, &e);
    check_result(s, &e, arg);
    session_inputs_close(&in);
    job_close(j);
    text_clear(&out);
}

static void try_numbers(arguments base, const char *path)
{
    for (int i = 0; i < COUNT; i++) {
        char arg[96];
        arguments a = base;
        snprintf(arg, sizeof arg, "--%s=%s", path, NUMBERS[i]);
        add(&a, arg);
        try_job(&a, false, arg);
    }
}

static void every_key_takes_any_number(void **state)
{
    (void)state;
    for (int i = 0; i < JOB_KEY_COUNT; i++) {
        const key_type t = JOB_KEYS[i].type;
        arguments a = BASE(GPT2);
        if (t > KEY_NUMBER && t != KEY_SWITCH && t != KEY_SIZES) continue;
        // The key is read only with these values of others.
        if (strncmp(JOB_KEYS[i].path, "train.fp16.", 11) == 0) add(&a, "--train.precision=fp16");
        if (JOB_KEYS[i].hooks) add(&a, "--parallel.hook.name=powersgd");
        if (JOB_KEYS[i].schedules & 1u << LR_ONE_CYCLE) {
            add(&a, "--lr_schedule.name=OneCycle");
            add(&a, "--lr_schedule.cycle_min_lr=0.1");
            add(&a, "--lr_schedule.cycle_max_lr=0.2");
        }
        if (JOB_KEYS[i].schedules & 1u << LR_WARMUP_DECAY)
            add(&a, "--lr_schedule.name=WarmupDecayLR");
        if (JOB_KEYS[i].schedules & 1u << LR_RANGE_TEST) add(&a, "--lr_schedule.name=LRRangeTest");
        try_numbers(a, JOB_KEYS[i].path);
    }
}

static void every_field_of_a_model_takes_any_number(void **state)
{
    (void)state;
    static const char *const families[] = {"gpt2", "llama", "mlp"};
    for (int f = 0; f < 3; f++) {
        const arguments a = f == 0 ? BASE(GPT2) : BASE(LLAMA);
        char word[32];
        arguments base = {.count = 0};
        snprintf(word, sizeof word, "--model.family=%s", families[f]);
        if (f < 2) base = a;
        add(&base, word);
        if (f == 2) {
            add(&base, "--model.features=4");
            add(&base, "--model.classes=3");
            add(&base, "--data.train=mock");
            add(&base, "--launch.ranks=2");
        }
        job *j = NULL;
        err e = {.code = OK};
        char *argv[ARGS];
        for (int i = 0; i < base.count; i++) argv[i] = (char *)base.items[i];
        if (job_open(NULL, base.count, argv, &j, &e) != OK) fail_msg("%s", e.text);
        const model_field *fields[MODEL_FIELDS];
        const int count = model_fields_list(j->model.config.family, fields);
        for (int i = 0; i < count; i++) try_numbers(base, fields[i]->key);
        job_close(j);
    }
}

static void sizes_that_are_each_allowed_may_be_too_many_together(void **state)
{
    (void)state;
    static const char *const all[][4] = {
        {"--model.hidden=2147483640", "--model.heads=8"},
        {"--model.hidden=1048576", "--model.layers=65536"},
        {"--model.vocab=2147483647", "--model.hidden=4194304"},
        {"--model.max_seq=16777216", "--data.seq_len=16777216", "--train.global_batch=1073741824",
         "--train.micro_batch=536870912"},
        {"--model.max_seq=16777216", "--data.seq_len=16777216", "--train.global_batch=16384",
         "--model.hidden=1024"},
        {"--train.global_batch=1073741824", "--train.micro_batch=1"},
        {"--model.layers=1024", "--train.global_batch=16384", "--train.micro_batch=1"},
        {"--model.layers=200", "--data.seq_len=16", "--train.global_batch=1073741824",
         "--train.micro_batch=536870912"},
        {"--launch.ranks=16384", "--train.global_batch=1073741824"},
        {"--launch.ranks=16384", "--parallel.pp=16384", "--train.global_batch=16384"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        arguments a = BASE(GPT2);
        for (int k = 0; k < 4 && all[i][k]; k++) add(&a, all[i][k]);
        try_job(&a, false, all[i][0]);
        try_job(&a, true, all[i][0]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_key_takes_any_number),
        cmocka_unit_test(every_field_of_a_model_takes_any_number),
        cmocka_unit_test(sizes_that_are_each_allowed_may_be_too_many_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
