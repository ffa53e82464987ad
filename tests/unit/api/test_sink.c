// test_sink.c -- a program's sinks get the events of log.jsonl, as structs.
#include "unit/api/fixture.h"

#include <math.h>
#include <stdio.h>

static const char *const KINDS[] = {"start",     "step",    "eval",  "save", "note",
                                    "straggler", "verdict", "error", "end"};

// ---- The program

typedef struct sink_calls {
    int failing_step; // rank 1 fails after this step; 0: never
} sink_calls;

static trm_status train(trm_trainer *t, void *arg, trm_error *e)
{
    const sink_calls *p = arg;
    double loss;
    for (int i = 1; trm_trainer_steps_left(t) > 0; i++) {
        trm_status how = trm_trainer_step(t, NULL, e);
        if (how != TRM_OK) return how;
        if (p->failing_step == i && trm_trainer_rank(t) == 1)
            return trm_fail(e, TRM_FAILED, "the tape is torn");
    }
    const trm_status how = trm_trainer_evaluate(t, 0, &loss, e);
    return how == TRM_OK ? trm_trainer_save(t, e) : how;
}

// Appends a line to the file `context`, because rank 0 may be a process of its own.
static trm_status note_event(void *context, const trm_event *ev, trm_error *e)
{
    FILE *f = fopen(context, "a");
    const char *text = ev->text ? ev->text : "-",
               *name = ev->kind == TRM_EVENT_SAVE ? strrchr(text, '/') + 1 : text;
    if (!f) return trm_fail(e, TRM_FAILED, "cannot write %s", (const char *)context);
    fprintf(f, "%s step %lld/%lld ranks %d rank %d text %s loss %d size %d\n", KINDS[ev->kind],
            (long long)ev->step, (long long)ev->steps, ev->ranks, ev->rank, name,
            isfinite(ev->loss), ev->bytes == sizeof *ev);
    fclose(f);
    return TRM_OK;
}

static trm_status refuse_step_2(void *context, const trm_event *ev, trm_error *e)
{
    (void)context;
    if (ev->kind == TRM_EVENT_STEP && ev->step == 2)
        return trm_fail(e, TRM_FAILED, "the tracker is full");
    return TRM_OK;
}

static char *run(const char *as, const char *file, trm_sink first, sink_calls p,
                 trm_status expected)
{
    char *lines = NULL;
    trm_job *job = new_gpt2();
    SET(job, "launch.as", as, "train.out", as, "train.steps", "2");
    ACCEPT(trm_job_use_data(job, TRM_VALID, &counting, &error));
    if (first) ACCEPT(trm_job_add_sink(job, first, NULL, &error));
    ACCEPT(trm_job_add_sink(job, note_event, (void *)(uintptr_t)file, &error));
    assert_int_equal(trm_run(job, train, &p, &error), expected);
    trm_job_close(job);
    assert_int_equal(file_read(file, &lines, NULL, NULL), OK);
    return lines;
}

static void expect(char **lines, const char *line)
{
    char *end = strchr(*lines, '\n');
    if (!end) fail_msg("there is no line \"%s\"", line);
    *end = 0;
    assert_string_equal(*lines, line);
    *lines = end + 1;
}

static const char *const AS[] = {"threads", "processes"};

static void a_sink_gets_the_events_of_a_run(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        char file[32];
        snprintf(file, sizeof file, "events-%s", AS[i]);
        char *text = run(AS[i], file, NULL, (sink_calls){0}, TRM_OK), *lines = text;
        expect(&lines, "start step 0/2 ranks 2 rank -1 text - loss 0 size 1");
        expect(&lines, "step step 1/2 ranks 0 rank -1 text - loss 1 size 1");
        expect(&lines, "step step 2/2 ranks 0 rank -1 text - loss 1 size 1");
        expect(&lines, "eval step 2/-1 ranks 0 rank -1 text - loss 1 size 1");
        expect(&lines, "save step 2/-1 ranks 0 rank -1 text step-00000002 loss 0 size 1");
        expect(&lines, "end step 2/-1 ranks 0 rank -1 text done loss 0 size 1");
        assert_string_equal(lines, "");
        free(text);
    }
}

static void a_sink_gets_the_failure_of_a_run(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        char file[32];
        snprintf(file, sizeof file, "failure-%s", AS[i]);
        char *text = run(AS[i], file, NULL, (sink_calls){.failing_step = 1}, TRM_FAILED),
             *lines = text;
        expect(&lines, "start step 0/2 ranks 2 rank -1 text - loss 0 size 1");
        expect(&lines, "step step 1/2 ranks 0 rank -1 text - loss 1 size 1");
        expect(&lines,
               "error step -1/-1 ranks 0 rank 1 text rank 1: the tape is torn loss 0 size 1");
        expect(&lines, "end step -1/-1 ranks 0 rank -1 text failed loss 0 size 1");
        assert_string_equal(lines, "");
        free(text);
    }
}

static void a_sink_that_fails_ends_the_run(void **state)
{
    (void)state;
    char *text = run("threads", "full", refuse_step_2, (sink_calls){0}, TRM_FAILED), *lines = text;
    HAS("rank 0: the tracker is full");
    expect(&lines, "start step 0/2 ranks 2 rank -1 text - loss 0 size 1");
    expect(&lines, "step step 1/2 ranks 0 rank -1 text - loss 1 size 1");
    expect(&lines,
           "error step -1/-1 ranks 0 rank 0 text rank 0: the tracker is full loss 0 size 1");
    expect(&lines, "end step -1/-1 ranks 0 rank -1 text failed loss 0 size 1");
    assert_string_equal(lines, "");
    free(text);
}

static void no_sink_is_refused(void **state)
{
    (void)state;
    trm_job *job = new_gpt2();
    REFUSE(trm_job_add_sink(job, NULL, NULL, &error));
    HAS("trm_job_add_sink: the sink is NULL");
    trm_job_close(job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_sink_is_refused),
        cmocka_unit_test(a_sink_gets_the_events_of_a_run),
        cmocka_unit_test(a_sink_gets_the_failure_of_a_run),
        cmocka_unit_test(a_sink_that_fails_ends_the_run),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
