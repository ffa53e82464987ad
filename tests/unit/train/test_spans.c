// test_spans.c -- what a trainer writes into a record: the rows are the list of instructions and their calls, the phases of
// a step are all of it, both ends of a message have one number, and a late loader is input. Also on devices that run
// late, that record a step and replay it, and with streams of their own threads.
#include "equiv/workers.h"

#include "base/file.h"
#include "parallel/calls.h"
#include "train/trainer_private.h"

#include <stdatomic.h>

enum { STEPS = 3, MOST_MESSAGES = 64 };

// The messages of the last step that a rank has sent or received.
typedef struct messages_of {
    uint32_t number[MOST_MESSAGES];
    int count;
} messages_of;

typedef struct records {
    messages_of sent[WORKERS_MOST], received[WORKERS_MOST];
} records;

#define ENSURE(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) FAIL(E_INTERNAL, "line %d: %s", __LINE__, #condition);                   \
    } while (0)

// ---- Rows

static status check_rows(const trainer *t, const spans *s, err *e)
{
    status result = OK;
    const schedule *list = &t->schedule;
    text name = {0};
    uint32_t next = (uint32_t)list->count;
    for (int i = 0; i < list->count; i++) {
        const spans_row *r = &s->rows[i];
        text_clear(&name);
        instr_print(&list->instr[i], &name);
        ENSURE(r->kind == SPANS_INSTR && r->instr == i && r->count == STEPS);
        ENSURE(strncmp(r->name, name.chars, sizeof r->name - 1) == 0);
        for (int k = 0; k < list->instr[i].calls; k++, next++) {
            const spans_row *c = &s->rows[next];
            ENSURE(c->kind == SPANS_CALL && c->parent == i && c->call == k);
            ENSURE(c->count == STEPS && c->phase == PHASE_COMM && c->group[0]);
        }
    }
    for (int kind = SPANS_LOADER; kind < SPANS_KINDS; kind++, next++)
        ENSURE(s->rows[next].kind == kind);
    ENSURE(next == s->row_count);
done:
    text_clear(&name);
    return result;
}

// ---- Steps and spans

static status check_steps(const spans *s, err *e)
{
    status result = OK;
    spans_step x;
    int64_t end = 0;
    ENSURE(atomic_load(&s->head->steps) == STEPS);
    for (uint64_t n = 0; n < STEPS; n++) {
        int64_t sum = 0;
        ENSURE(spans_read_step(s, n, &x));
        for (int p = 0; p < SPANS_PHASES; p++) {
            ENSURE(x.phase_ns[p] >= 0);
            sum += x.phase_ns[p];
        }
        ENSURE(x.step == n + 1 && sum == x.duration_ns && x.loss > 0);
        ENSURE(x.phase_ns[PHASE_FORWARD] > 0 && x.phase_ns[PHASE_BACKWARD] > 0);
        ENSURE(x.phase_ns[PHASE_OPTIMIZER] > 0 && x.comm_ns <= x.duration_ns);
        ENSURE(n == 0 ? x.gap_ns == 0 : x.gap_ns == x.begin_ns - end);
        ENSURE(x.bytes_now > 0);
        end = x.begin_ns + x.duration_ns;
    }
    ENSURE(x.first_span + x.spans == atomic_load(&s->head->spans));
done:
    return result;
}

static void keep_message(const spans_row *r, const span *x, records *all, int rank)
{
    const bool sends = strncmp(r->name, "SEND", 4) == 0;
    messages_of *m = sends ? &all->sent[rank] : &all->received[rank];
    if (r->kind == SPANS_INSTR && r->peer >= 0 && x->step == STEPS && m->count < MOST_MESSAGES)
        m->number[m->count++] = x->peer_span;
}

static status check_spans(const spans *s, int rank, records *all, err *e)
{
    status result = OK;
    static _Thread_local span got[1 << 14];
    uint64_t from = 0;
    span parent = {.row = UINT32_MAX};
    const size_t count = spans_read(s, &from, got, sizeof got / sizeof *got);
    ENSURE(count == atomic_load(&s->head->spans));
    for (size_t i = 0; i < count; i++) {
        const span *x = &got[i];
        const spans_row *r = &s->rows[x->row];
        ENSURE(x->begin_ns > 0 && x->duration_ns >= 0 && x->step >= 1 && x->step <= STEPS);
        ENSURE(x->last < s->rank_count);
        if (r->kind == SPANS_INSTR) parent = *x;
        if (r->kind == SPANS_CALL) {
            ENSURE(r->parent == (int32_t)parent.row && x->begin_ns >= parent.begin_ns);
            ENSURE(x->begin_ns + x->duration_ns <= parent.begin_ns + parent.duration_ns);
        }
        keep_message(r, x, all, rank);
    }
done:
    return result;
}

// The record is there only after the first step, which it has all the same.
static status record(worker_group *all, int rank, golden *g, trainer *t, err *e)
{
    status result = OK;
    trainer_step_result r;
    spans_row *rows = NULL;
    spans *s = NULL;
    uint32_t count;
    char path[128];
    (void)g;
    snprintf(path, sizeof path, "%s/%d.spans", all->folder, rank);
    const spans_head head = {.rank = rank, .ranks = t->plan->o.mesh.ranks};
    TRY(trainer_list_rows(t, &rows, &count, e));
    TRY(spans_create(path, &head, rows, count, (spans_room){8, 1 << 14}, &s, e));
    trainer_time_steps(t);
    TRY(trainer_step(t, false, &r, e));
    trainer_write_spans(t, s);
    for (int i = 1; i < STEPS; i++) TRY(trainer_step(t, false, &r, e));
    TRY(check_rows(t, s, e));
    TRY(check_steps(s, e));
    TRY(check_spans(s, rank, all->given, e));
    trainer_write_spans(t, NULL);
done:
    spans_close(s);
    unlink(path);
    free(rows);
    return result;
}

static records record_run(const char *name, scenario s)
{
    records all = {0};
    workers_run(name, &s, false, record, &all);
    return all;
}

static void test_every_strategy_is_recorded(void **state)
{
    (void)state;
    record_run("ddp", (scenario){.replicate = 2});
    record_run("zero3", (scenario){.shard = 2, .inner = "zero3"});
    record_run("tp", (scenario){.tp = 2, .global = 2});
    record_run("cp", (scenario){.cp = 2, .global = 2});
    record_run("one rank", (scenario){.global = 2});
    record_run("own threads", (scenario){.shard = 2, .inner = "zero3", .distant = true});
    record_run("files", (scenario){.global = 2, .optimizer = TIER_FILE});
    record_run("late", (scenario){.replicate = 2, .unkind = true, .global = 4});
    record_run("host", (scenario){.global = 2,
                                  .unkind = true,
                                  .optimizer = TIER_HOST,
                                  .gradients = TIER_HOST,
                                  .host_updates = true});
}

static void expect_same(const messages_of *sent, const messages_of *received)
{
    assert_true(sent->count > 0);
    assert_int_equal(sent->count, received->count);
    for (int i = 0; i < sent->count; i++) {
        int found = 0;
        for (int k = 0; k < received->count; k++) found += received->number[k] == sent->number[i];
        assert_int_equal(found, 1);
    }
}

// With two chunks a stage sends activations and gradients in both directions.
static void test_both_ends_of_a_message_have_one_number(void **state)
{
    (void)state;
    const scenario runs[] = {{.pp = 2}, {.pp = 2, .chunks = 2, .order = PIPE_INTERLEAVED}};
    for (int i = 0; i < 2; i++) {
        const records all = record_run("pp", runs[i]);
        expect_same(&all.sent[0], &all.received[1]);
        expect_same(&all.sent[1], &all.received[0]);
    }
}

// ---- A late loader

enum { LATE_READ = 8, LATE_US = 30000 };

// The reader of this process: read number LATE_READ waits until the test opens the gate.
static _Atomic int reads, gate;

static status read_late(dataset *d, uint64_t sample, void *inputs, void *labels, err *e)
{
    if (atomic_fetch_add(&reads, 1) == LATE_READ)
        while (!atomic_load(&gate)) usleep(1000);
    return golden_read(d, sample, inputs, labels, e);
}

// Looks at the record from outside. When the trainer waits for the batch, the batch takes LATE_US more.
static void *open_gate(void *arg)
{
    const spans *s = arg;
    while (atomic_load(&s->head->steps) < LATE_READ || atomic_load(&s->head->running) != 0)
        usleep(1000);
    usleep(LATE_US);
    atomic_store(&gate, 1);
    return NULL;
}

static void check_late_step(const spans *s)
{
    spans_step x;
    assert_true(spans_read_step(s, LATE_READ, &x));
    assert_true(x.phase_ns[PHASE_INPUT] >= (int64_t)LATE_US * 1000);
    const spans_row *loader = &s->rows[s->row_count - 3];
    assert_int_equal(loader->kind, SPANS_LOADER);
    assert_true(loader->max_ns >= (uint64_t)LATE_US * 500);
}

static void test_a_late_loader_is_input(void **state)
{
    (void)state;
    golden g = {0};
    trainer *t = NULL;
    spans_row *rows = NULL;
    spans *s = NULL;
    uint32_t count;
    pthread_t thread;
    char path[] = "/tmp/trireme-spans.XXXXXX";
    close(mkstemp(path));
    golden_open(&g, "gpt2_new", 1);
    g.data.base.read = read_late;
    trainer_options o = golden_options(&g, UPDATE_ADAMW, F32, 1);
    o.global_batch = 1;
    CHECK(trainer_open(&o, &t, e));
    CHECK(trainer_list_rows(t, &rows, &count, e));
    assert_string_equal(rows[0].name, "LOAD_BATCH micro 0");
    CHECK(spans_create(path, &(spans_head){.ranks = 1}, rows, count, (spans_room){16, 1 << 12}, &s,
                       e));
    trainer_time_steps(t);
    trainer_write_spans(t, s);
    assert_int_equal(pthread_create(&thread, NULL, open_gate, s), 0);
    for (int i = 0; i <= LATE_READ; i++) {
        trainer_step_result r;
        CHECK(trainer_step(t, false, &r, e));
    }
    pthread_join(thread, NULL);
    check_late_step(s);
    trainer_close(t);
    golden_close(&g);
    spans_close(s);
    free(rows);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_strategy_is_recorded),
        cmocka_unit_test(test_both_ends_of_a_message_have_one_number),
        cmocka_unit_test(test_a_late_loader_is_input),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
