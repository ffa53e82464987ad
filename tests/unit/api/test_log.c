// test_log.c -- log.jsonl of a program's run has the events and fields of `trireme train`.
#include "unit/api/fixture.h"

#include "base/spans.h"

#include <stdio.h>

// The calls of a rank. `only`: no steps.
typedef struct log_calls {
    bool evaluate_first, only, evaluate, save, resume, stop;
    int failing_step; // rank 1 fails after this step; 0: never
} log_calls;

#define OR_LEAVE(call)                                                                             \
    do {                                                                                           \
        const trm_status how = (call);                                                             \
        if (how != TRM_OK) return how;                                                             \
    } while (0)

static trm_status train(trm_trainer *t, void *arg, trm_error *e)
{
    const log_calls *p = arg;
    double loss;
    if (p->resume) OR_LEAVE(trm_trainer_resume(t, NULL, e));
    if (p->evaluate_first) OR_LEAVE(trm_trainer_evaluate(t, 0, &loss, e));
    for (int i = 1; !p->only && trm_trainer_steps_left(t) > 0; i++) {
        if (p->stop && trm_trainer_rank(t) == 1) trm_trainer_stop(t);
        OR_LEAVE(trm_trainer_step(t, NULL, e));
        if (p->failing_step == i && trm_trainer_rank(t) == 1)
            return trm_fail(e, TRM_FAILED, "the tape is torn");
    }
    if (p->evaluate) OR_LEAVE(trm_trainer_evaluate(t, 0, &loss, e));
    return p->save ? trm_trainer_save(t, e) : TRM_OK;
}

// Runs a job and returns the text of its log; NULL: it has none. The caller frees it.
static char *run(const char *as, const char *out, const char *steps, log_calls p,
                 trm_status expected)
{
    char path[64], *log = NULL;
    trm_job *job = new_gpt2();
    SET(job, "launch.as", as, "train.out", out, "train.steps", steps);
    ACCEPT(trm_job_use_data(job, TRM_VALID, &counting, &error));
    assert_int_equal(trm_run(job, train, &p, &error), expected);
    trm_job_close(job);
    snprintf(path, sizeof path, "%s/log.jsonl", out);
    if (file_exists(path)) assert_int_equal(file_read(path, &log, NULL, NULL), OK);
    return log;
}

// Moves *lines to the next line. The line must be of this event and contain all words.
static void expect(char **lines, const char *event, const char *const *words)
{
    char *line = *lines, *end = strchr(line, '\n'), begin[64];
    if (!end) fail_msg("there is no event %s", event);
    *end = 0;
    *lines = end + 1;
    snprintf(begin, sizeof begin, "{\"event\":\"%s\"", event);
    if (strncmp(line, begin, strlen(begin)) != 0) fail_msg("found %s instead of %s", line, event);
    for (; *words; words++)
        if (!strstr(line, *words)) fail_msg("no %s in %s", *words, line);
}

#define EXPECT(lines, event, ...) expect(&lines, event, (const char *[]){__VA_ARGS__, NULL})

// Rank 1 has recorded both steps, also the first one, in which rank 0 claimed the folder.
static void expect_record(const char *out)
{
    char path[64];
    spans *s = NULL;
    snprintf(path, sizeof path, "%s/spans/rank-00001.spans", out);
    assert_int_equal(spans_open(path, &s, NULL), OK);
    assert_int_equal(atomic_load(&s->head->steps), 2);
    assert_int_equal(atomic_load(&s->head->ended), 1);
    spans_close(s);
}

static void events_are_those_of_the_program(void **state)
{
    (void)state;
    const char *const as[] = {"threads", "processes"};
    for (int i = 0; i < 2; i++) {
        char *log = run(as[i], as[i], "2", (log_calls){.evaluate = true, .save = true}, TRM_OK),
             *lines = log;
        EXPECT(lines, "start", "\"version\":\"0.1.0\"", "\"ranks\":2", as[i], "\"mesh\":{\"pp\":1",
               "\"model\":\"gpt2\"", "\"policy\":\"ddp\"", "\"precision\":\"fp32\"",
               "\"params\":", "\"plan_bytes_per_rank\":", "\"steps\":2", "\"tokens_per_step\":64");
        EXPECT(lines, "step", "\"step\":1,",
               "\"loss\":", "\"grad_norm\":", "\"lr\":", "\"tokens\":64",
               "\"seconds\":", "\"tokens_per_s\":", "\"skipped\":false");
        EXPECT(lines, "step", "\"step\":2,");
        EXPECT(lines, "eval", "\"step\":2,", "\"loss\":", "\"perplexity\":");
        EXPECT(lines, "save", "\"step\":2,", "checkpoints/step-00000002", "\"bytes\":");
        EXPECT(lines, "end", "\"step\":2,", "\"reason\":\"done\"");
        assert_string_equal(lines, "");
        expect_record(as[i]);
        free(log);
    }
}

static void a_resumed_run_goes_on_in_its_log(void **state)
{
    (void)state;
    const log_calls p = {.resume = true, .save = true};
    free(run("threads", "resumed", "1", p, TRM_OK));
    char *log = run("threads", "resumed", "2", p, TRM_OK), *lines = log;
    EXPECT(lines, "start", "\"steps\":1");
    EXPECT(lines, "step", "\"step\":1,");
    EXPECT(lines, "save", "\"step\":1,");
    EXPECT(lines, "end", "\"reason\":\"done\"");
    EXPECT(lines, "start", "\"steps\":2", "\"resumed_from\":1");
    EXPECT(lines, "step", "\"step\":2,");
    EXPECT(lines, "save", "\"step\":2,");
    EXPECT(lines, "end", "\"reason\":\"done\"");
    assert_string_equal(lines, "");
    free(log);
}

static void a_new_run_keeps_the_earlier_log_beside(void **state)
{
    (void)state;
    free(run("threads", "twice", "2", (log_calls){.save = true}, TRM_OK));
    char *log = run("threads", "twice", "1", (log_calls){.save = false}, TRM_OK), *lines = log;
    EXPECT(lines, "start", "\"steps\":1");
    EXPECT(lines, "step", "\"step\":1,");
    EXPECT(lines, "end", "\"reason\":\"done\"");
    assert_string_equal(lines, "");
    free(log);
    assert_int_equal(file_read("twice/log-1.jsonl", &log, NULL, NULL), OK);
    assert_non_null(strstr(log, "\"event\":\"save\""));
    free(log);
}

static void how_a_run_ended_is_logged(void **state)
{
    (void)state;
    const char *const as[] = {"threads", "processes"};
    for (int i = 0; i < 2; i++) {
        char out[32];
        snprintf(out, sizeof out, "failed-%s", as[i]);
        char *log = run(as[i], out, "9", (log_calls){.failing_step = 2}, TRM_FAILED), *lines = log;
        EXPECT(lines, "start", "\"steps\":9");
        EXPECT(lines, "step", "\"step\":1,");
        EXPECT(lines, "step", "\"step\":2,");
        EXPECT(lines, "error", "\"rank\":1", "rank 1: the tape is torn");
        EXPECT(lines, "end", "\"reason\":\"failed\"");
        assert_string_equal(lines, "");
        free(log);
    }
    char *log = run("threads", "stopped", "1000", (log_calls){.stop = true}, TRM_OK);
    assert_non_null(strstr(log, "\"reason\":\"interrupted\""));
    free(log);
}

// A program that only evaluates does not change the folder.
static void the_log_begins_with_the_first_step(void **state)
{
    (void)state;
    assert_null(
        run("threads", "nothing", "1", (log_calls){.evaluate_first = true, .only = true}, TRM_OK));
    assert_false(file_exists("nothing"));
    char *log = run("threads", "first", "1", (log_calls){.evaluate_first = true}, TRM_OK),
         *lines = log;
    EXPECT(lines, "start", "\"steps\":1");
    EXPECT(lines, "eval", "\"step\":0,");
    EXPECT(lines, "step", "\"step\":1,");
    EXPECT(lines, "end", "\"reason\":\"done\"");
    free(log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_are_those_of_the_program),
        cmocka_unit_test(a_resumed_run_goes_on_in_its_log),
        cmocka_unit_test(a_new_run_keeps_the_earlier_log_beside),
        cmocka_unit_test(how_a_run_ended_is_logged),
        cmocka_unit_test(the_log_begins_with_the_first_step),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
