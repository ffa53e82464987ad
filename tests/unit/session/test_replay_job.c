// test_replay_job.c -- the lists of a run are made again from its job.yaml, compared with its record, and run in the
// order of other pipeline schedules. The record is written from a simulated step, so the step of every schedule is known.
#include "session/replay_job.h"

#include "base/file.h"
#include "monitor/replay/replay_report.h"
#include "parallel/instructions.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { STAGES = 2, BLOCKS = 6, ROWS = 1024 };

// Seconds of passes, by block.
static const double forward[BLOCKS] = {1e-3, 2e-3, 2e-3, 3e-3, 2e-3, 4e-3},
                    dgrad[BLOCKS] = {1e-3, 3e-3, 2e-3, 3e-3, 2e-3, 5e-3};

typedef struct made_job {
    char folder[64];
    replay_job lists; // of the schedule, opened by the test itself
    simulate_result times;
} made_job;

static void expect_ok(status result, const err *e)
{
    if (result != OK) fail_msg("%s", e->text);
}

static void write_text(const char *folder, const char *name, const char *chars)
{
    char *path = NULL;
    err e = {0};
    expect_ok(file_join(folder, name, &path, &e), &e);
    expect_ok(file_replace(path, chars, strlen(chars), &e), &e);
    free(path);
}

static void write_job(const char *folder, const char *schedule_name, int chunks)
{
    char chars[1024];
    (void)snprintf(chars, sizeof chars,
                   "model: {family: gpt2, layers: 4, hidden: 8, heads: 2, vocab: 16, max_seq: 8}\n"
                   "data: {seq_len: 8, train: mock}\n"
                   "train: {steps: 1, micro_batch: 1, global_batch: 4, out: .}\n"
                   "parallel: {pp: 2, pp_schedule: %s, virtual_stages: %d}\n"
                   "launch: {ranks: 2}\n",
                   schedule_name, chunks);
    write_text(folder, "job.yaml", chars);
}

static void simulate(made_job *m)
{
    char *path = NULL;
    err e = {0};
    replay_job *l = &m->lists;
    *l = (replay_job){.job = NULL};
    expect_ok(file_join(m->folder, "job.yaml", &path, &e), &e);
    expect_ok(job_open(path, 0, NULL, &l->job, &e), &e);
    expect_ok(session_inputs_open_to_plan(l->job, NULL, &l->in, &e), &e);
    expect_ok(session_options(l->job, &l->in, STAGES, &l->options, &e), &e);
    expect_ok(session_stages_open(&l->options, &l->stages, &e), &e);
    assert_int_equal(l->stages.plan[0]->o.blocks, BLOCKS);
    const simulate_blocks blocks = {forward, dgrad, dgrad};
    const simulate_costs costs = {.seconds = simulate_block_seconds, .given = &blocks};
    expect_ok(
        schedule_simulate(l->stages.train_of, l->stages.plan_of, STAGES, &costs, &m->times, &e),
        &e);
    free(path);
}

static void open_job(made_job *m, const char *schedule_name)
{
    *m = (made_job){.folder = "/tmp/trireme-replay-XXXXXX"};
    assert_non_null(mkdtemp(m->folder));
    write_job(m->folder, schedule_name, strcmp(schedule_name, "interleaved") == 0 ? 2 : 1);
    simulate(m);
}

static void close_job(made_job *m)
{
    err e = {0};
    simulate_result_clear(&m->times);
    replay_job_close(&m->lists);
    expect_ok(file_remove_tree(m->folder, &e), &e);
}

static spans_row row_of(const schedule_instr *x, int number)
{
    const instr_row *kind = instr_row_of(x->kind);
    text name = {0};
    spans_row row = {.kind = SPANS_INSTR,
                     .phase = kind->computes & COMPUTES_FORWARD ? PHASE_FORWARD
                              : kind->computes                  ? PHASE_BACKWARD
                              : kind->stream == STREAM_COMM     ? PHASE_COMM
                                                                : PHASE_OTHER,
                     .stream = (int32_t)kind->stream,
                     .parent = -1,
                     .instr = number,
                     .call = -1,
                     .peer = instr_is_message(x) ? x->peer : -1,
                     .micro = -1};
    instr_print(x, &name);
    (void)snprintf(row.name, sizeof row.name, "%s", name.chars);
    text_clear(&name);
    return row;
}

// The call of an instruction that meets the other stage; false: it meets nobody.
static bool call_of(const schedule_instr *x, int number, spans_row *out)
{
    const instr_rendezvous meets = instr_row_of(x->kind)->peers.waits_for;
    *out = row_of(x, -1);
    out->kind = SPANS_CALL;
    out->parent = number;
    out->call = 0;
    (void)snprintf(out->name, sizeof out->name, "%s",
                   meets == WAITS_FOR_RECEIVER ? "send"
                   : meets == WAITS_FOR_SENDER ? "recv"
                                               : "all_reduce");
    (void)snprintf(out->group, sizeof out->group, "%s",
                   meets == WAITS_FOR_ALL_STAGES ? "world"
                   : meets == WAITS_FOR_ENDS     ? "tied"
                                                 : "pp");
    return meets != WAITS_FOR_NOBODY;
}

// An instruction begins when the one before it has ended, and may wait then.
static void write_rank(const made_job *m, int rank, const char *spoiled)
{
    const schedule *l = &m->lists.stages.train[rank];
    const int64_t zero_ns = 1000000000;
    static spans_row rows[ROWS];
    spans_head head = {.rank = rank, .ranks = STAGES, .stage = rank, .pid = 1, .device = "cpu"};
    spans *s = NULL;
    char *path = NULL;
    err e = {0};
    int count = l->count;
    assert_true(2 * l->count <= ROWS);
    (void)snprintf(head.place, sizeof head.place, "pp %d", rank);
    for (int i = 0; i < l->count; i++) {
        rows[i] = row_of(&l->instr[i], i);
        if (call_of(&l->instr[i], i, &rows[count])) count++;
    }
    if (spoiled) (void)snprintf(rows[3].name, sizeof rows[3].name, "%s", spoiled);
    expect_ok(run_view_spans_path(m->folder, rank, &path, &e), &e);
    expect_ok(spans_create(path, &head, rows, (uint32_t)count, (spans_room){4, 4 * ROWS}, &s, &e),
              &e);
    int64_t now_ns = 0;
    int call = l->count;
    for (int i = 0; i < l->count; i++) {
        spans_row unused;
        const int64_t end_ns = llround(m->times.span[rank][i].end * 1e9);
        span x = {zero_ns + now_ns, end_ns - now_ns, 0, (uint32_t)i, 1, -1, 0};
        spans_add(s, &x);
        x.row = (uint32_t)call;
        if (call_of(&l->instr[i], i, &unused)) {
            spans_add(s, &x);
            call++;
        }
        now_ns = end_ns;
    }
    const spans_step step = {.step = 1,
                             .begin_ns = zero_ns,
                             .duration_ns = now_ns,
                             .spans = (uint32_t)atomic_load(&s->head->spans),
                             .waited_for = -1,
                             .waited_row = -1};
    spans_add_step(s, &step);
    spans_finish(s);
    free(path);
}

static void expect_near(double found, double wanted)
{
    if (!(fabs(found - wanted) <= 1e-7)) fail_msg("found %.12g, not %.12g", found, wanted);
}

static double seconds_of(const char *schedule_name)
{
    made_job m;
    open_job(&m, schedule_name);
    const double seconds = m.times.seconds;
    close_job(&m);
    return seconds;
}

static void every_schedule_is_foretold_from_every_other(void **state)
{
    (void)state;
    for (int from = 0; from < PIPE_SCHEDULES; from++) {
        made_job m;
        run_view *v = NULL;
        replay_job j;
        replay_record *r = NULL;
        replay_report report;
        err e = {0};
        open_job(&m, PIPELINE_SCHEDULE_NAMES[from]);
        for (int k = 0; k < STAGES; k++) write_rank(&m, k, NULL);
        expect_ok(run_view_open(m.folder, &v, &e), &e);
        expect_ok(replay_job_open(v, &j, &e), &e);
        if (j.why) fail_msg("%s", j.why);
        expect_ok(replay_record_open(v, 1, &j.known, &r, &e), &e);
        expect_ok(replay_report_make(r, &report, &e), &e);
        expect_near(report.replayed, m.times.seconds);
        expect_near(report.period, m.times.seconds);
        for (int to = 0; to < PIPE_SCHEDULES; to++) {
            double ratio;
            expect_ok(replay_job_schedule(&j, r, PIPELINE_SCHEDULE_NAMES[to], &ratio, &e), &e);
            expect_near(ratio * report.period, seconds_of(PIPELINE_SCHEDULE_NAMES[to]));
        }
        replay_report_clear(&report);
        replay_record_close(r);
        replay_job_close(&j);
        run_view_close(v);
        close_job(&m);
    }
}

static void a_record_of_another_job_is_refused(void **state)
{
    (void)state;
    made_job m;
    run_view *v = NULL;
    replay_job j;
    err e = {0};
    open_job(&m, "1f1b");
    write_rank(&m, 0, NULL);
    write_rank(&m, 1, "FORWARD micro 9 block 9");
    expect_ok(run_view_open(m.folder, &v, &e), &e);
    assert_int_equal(replay_job_open(v, &j, &e), E_USAGE);
    if (!strstr(e.text, "job.yaml does not fit the record: instruction 3 of rank 1 is "
                        "'FORWARD micro 9 block 9' in the record, and '"))
        fail_msg("%s", e.text);
    replay_job_close(&j);
    run_view_close(v);
    close_job(&m);
}

static void lists_that_cannot_be_made_are_no_error(void **state)
{
    (void)state;
    made_job m;
    run_view *v = NULL;
    replay_job j;
    char *path = NULL;
    err e = {0};
    open_job(&m, "gpipe");
    for (int k = 0; k < STAGES; k++) write_rank(&m, k, NULL);
    expect_ok(run_view_open(m.folder, &v, &e), &e);
    write_text(m.folder, "job.yaml", "model: {family: none}\n");
    expect_ok(replay_job_open(v, &j, &e), &e);
    assert_null(j.known.order);
    assert_non_null(strstr(j.why, "none"));
    replay_job_close(&j);
    expect_ok(file_join(m.folder, "job.yaml", &path, &e), &e);
    assert_int_equal(unlink(path), 0);
    expect_ok(replay_job_open(v, &j, &e), &e);
    assert_string_equal(j.why, "there is no job.yaml");
    replay_job_close(&j);
    free(path);
    run_view_close(v);
    close_job(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_schedule_is_foretold_from_every_other),
        cmocka_unit_test(a_record_of_another_job_is_refused),
        cmocka_unit_test(lists_that_cannot_be_made_are_no_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
