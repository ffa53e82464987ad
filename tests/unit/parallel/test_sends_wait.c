// test_sends_wait.c -- a pipeline whose sends wait for their receive: its lists do not deadlock, they
// cost no more than Megatron-LM's grouped messages, and an order that deadlocks is refused with the
// stages that wait for each other.
#include "parallel/instructions.h"
#include "parallel/replay/replay.h"
#include "parallel/simulate.h"
#include "parallel/verify.h"

#include "unit/parallel/lists.h"

#include <math.h>

enum { MICROS = 16 };

static bool is_message(const schedule_instr *x)
{
    const instr_rendezvous m = instr_row_of(x->kind)->peers.waits_for;
    return m == WAITS_FOR_RECEIVER || m == WAITS_FOR_SENDER;
}

typedef void list_check(const lists_of *x);

// Every schedule, 2 to 8 stages, 1 to 16 micro-batches, 1 to 3 chunks a stage.
static void each_pipeline(list_check *check, lists_of x)
{
    for (x.stages = 2; x.stages <= LISTS_STAGES; x.stages++)
        for (x.micros = 1; x.micros <= MICROS; x.micros++)
            for (int s = 0; s < PIPE_SCHEDULES; s++) {
                x.order = (pipeline_schedule)s;
                x.chunks = 1;
                if (s != PIPE_INTERLEAVED) check(&x);
                for (x.chunks = 2;
                     s == PIPE_INTERLEAVED && x.micros % x.stages == 0 && x.chunks < 5; x.chunks++)
                    check(&x);
            }
}

static void expect_both_kinds(const lists_of *x)
{
    lists l;
    lists_open(&l, x);
    for (int waits = 0; waits < 2; waits++) {
        err e = {0};
        if (schedule_verify(l.of, l.plan_of, l.stages, waits, &e) != OK)
            fail_msg("%s, %d stages of %d chunks, %d micro-batches, %s: %s",
                     pipeline_schedule_name(x->order), x->stages, x->chunks, x->micros,
                     waits ? "sends wait" : "sends do not wait", e.text);
    }
    lists_close(&l);
}

static void test_no_list_deadlocks_when_sends_wait(void **state)
{
    (void)state;
    each_pipeline(expect_both_kinds, (lists_of){.sends_wait = true});
    each_pipeline(expect_both_kinds,
                  (lists_of){.sends_wait = true, .policy = "zero3", .dp_shard = 2, .tied = true});
    // The first blocks have no backward, so neither have some chunks.
    each_pipeline(expect_both_kinds,
                  (lists_of){.sends_wait = true, .blocks = 40, .second = 7, .frozen = true});
    each_pipeline(expect_both_kinds,
                  (lists_of){.sends_wait = true, .blocks = 40, .second = 30, .frozen = true});
    each_pipeline(expect_both_kinds,
                  (lists_of){.sends_wait = true, .in_place = true, .blocks = 40});
    each_pipeline(expect_both_kinds, (lists_of){.sends_wait = true, .evaluate = true});
}

// ---- Orders that deadlock

static void drop_numbers(char *says)
{
    static const char word[] = "instruction ";
    for (char *c = says; (c = strstr(c, word));) {
        c += sizeof word - 1;
        const size_t digits = strspn(c, "0123456789");
        memmove(c + 1, c + digits, strlen(c + digits) + 1);
        *c = '#';
    }
}

static void expect_refused(lists *l, const char *says)
{
    err e = {0};
    const status found = schedule_verify(l->of, l->plan_of, l->stages, true, &e);
    drop_numbers(e.text);
    assert_string_equal(found == OK ? "verified" : e.text, says);
    assert_int_equal(found, E_INTERNAL);
}

static void test_lists_for_sends_that_do_not_wait_deadlock(void **state)
{
    (void)state;
    lists l;
    lists_open(&l, &LISTS(PIPE_1F1B, 2, 1, 4));
    expect_refused(&l,
                   "the pipeline deadlocks: stage 0, instruction # (SEND_ACT micro 1 block 0 to "
                   "stage 1) waits for stage 1; stage 1, instruction # (SEND_GRAD micro 0 block "
                   "1 to stage 0) waits for stage 0");
    lists_close(&l);
    int deadlocks = 0, count = 0;
    for (int p = 2; p <= LISTS_STAGES; p++)
        for (int m = p; m <= MICROS; m += p)
            for (int s = PIPE_1F1B; s < PIPE_SCHEDULES; s++, count++) {
                err e = {0};
                lists_open(&l, &LISTS((pipeline_schedule)s, p, s == PIPE_INTERLEAVED ? 2 : 1, m));
                deadlocks += schedule_verify(l.of, l.plan_of, l.stages, true, &e) == E_INTERNAL &&
                             strstr(e.text, "deadlocks") != NULL;
                lists_close(&l);
            }
    assert_int_equal(deadlocks, count);
}

// The number of the first group of messages of a list.
static int first_group(const schedule *s)
{
    int i = 0;
    while (!s->instr[i].with_next) i++;
    return i;
}

static void test_a_group_that_is_taken_apart_deadlocks(void **state)
{
    (void)state;
    lists l;
    lists_open(&l, &LISTS(PIPE_1F1B, 2, 1, 4, .sends_wait = true));
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < l.list[i].count; k++) l.list[i].instr[k].with_next = false;
    expect_refused(&l,
                   "the pipeline deadlocks: stage 0, instruction # (SEND_ACT micro 1 block 0 to "
                   "stage 1) waits for stage 1; stage 1, instruction # (SEND_GRAD micro 0 block "
                   "1 to stage 0) waits for stage 0");
    lists_close(&l);
}

static void test_only_messages_start_together(void **state)
{
    (void)state;
    lists l;
    lists_open(&l, &LISTS(PIPE_1F1B, 2, 1, 4, .sends_wait = true));
    l.list[0].instr[first_group(&l.list[0]) + 1].with_next = true;
    expect_refused(&l, "stage 0, instruction # (RECV_GRAD micro 0 block 0 from stage 1, with the "
                       "next): it starts together with the next instruction, which is no message");
    lists_close(&l);
}

static void test_messages_that_start_together_use_other_slots(void **state)
{
    (void)state;
    lists l;
    lists_open(&l, &LISTS(PIPE_INTERLEAVED, 2, 2, 4, .sends_wait = true));
    schedule *s = &l.list[0];
    int sends = 0, receives = 0;
    while (s->instr[sends].kind != SEND_GRAD || !s->instr[sends].with_next) sends++;
    for (receives = sends; s->instr[receives].kind != RECV_GRAD; receives++)
        assert_true(s->instr[receives].with_next);
    assert_int_not_equal(s->instr[receives].grad_out, s->instr[sends].grad_in);
    s->instr[receives].grad_out = s->instr[sends].grad_in;
    err e = {0};
    assert_int_equal(schedule_verify(l.of, l.plan_of, l.stages, true, &e), E_INTERNAL);
    assert_non_null(strstr(e.text, "activation-gradient slot"));
    assert_non_null(strstr(e.text, "still holds"));
    lists_close(&l);
}

static void test_wrong_messages_are_found(void **state)
{
    (void)state;
    lists l;
    lists_open(&l, &LISTS(PIPE_1F1B, 2, 1, 4, .sends_wait = true));
    l.list[0].instr[first_group(&l.list[0])].micro = 2;
    expect_refused(&l, "stage 1, instruction # (RECV_ACT micro 1 block 1 from stage 0): the next "
                       "message is of stage 0, instruction # (SEND_ACT micro 2 block 0 to stage 1, "
                       "with the next); valid: that of micro 1 block 0");
    lists_close(&l);
    lists_open(&l, &LISTS(PIPE_GPIPE, 2, 1, 1, .sends_wait = true));
    for (int k = 0; k < l.list[1].count; k++)
        if (l.list[1].instr[k].kind == SEND_GRAD)
            memmove(&l.list[1].instr[k], &l.list[1].instr[k + 1],
                    (size_t)(--l.list[1].count - k) * sizeof *l.list[1].instr);
    expect_refused(&l, "the pipeline deadlocks: stage 0, instruction # (RECV_GRAD micro 0 block 0 "
                       "from stage 1) waits for stage 1; stage 1, instruction # (CLIP_GRAD_NORM) "
                       "waits for stage 0");
    lists_close(&l);
}

// ---- Time

static double uniform_seconds(const void *given, int stage, const schedule_instr *x)
{
    (void)stage;
    const unsigned computes = instr_row_of(x->kind)->computes;
    if (is_message(x)) return *(const double *)given;
    return (computes & COMPUTES_FORWARD ? 1 : 0) + (computes & COMPUTES_DGRAD ? 1 : 0) +
           (computes & COMPUTES_WGRAD ? 1 : 0);
}

static double simulated(const lists *l, double message, bool waits, simulate_result *r)
{
    err e = {0};
    const simulate_costs c = {uniform_seconds, &message, true, waits};
    if (schedule_simulate(l->of, l->plan_of, l->stages, &c, r, &e) != OK) fail_msg("%s", e.text);
    return r->seconds;
}

static void expect_analytic(const lists_of *x)
{
    lists l;
    simulate_result r;
    lists_open(&l, x);
    simulated(&l, 0, true, &r);
    const double analytic = pipeline_bubble(x->order, x->stages, x->chunks, x->micros);
    if (fabs(r.bubble - analytic) > 1e-9)
        fail_msg("%s, %d stages of %d chunks, %d micro-batches: bubble %g, analytic %g",
                 pipeline_schedule_name(x->order), x->stages, x->chunks, x->micros, r.bubble,
                 analytic);
    simulate_result_clear(&r);
    lists_close(&l);
}

static void test_messages_that_take_no_time_leave_the_bubble_as_it_is(void **state)
{
    (void)state;
    each_pipeline(expect_analytic, (lists_of){.sends_wait = true});
}

// Stage 0 has forwards of one second, stage 1 of three. A send that waits keeps its stage's communication
// stream until stage 1 takes the message, and not longer than the message takes then.
static double slow_second_stage(const void *given, int stage, const schedule_instr *x)
{
    (void)given;
    if (is_message(x)) return 0.5;
    return instr_row_of(x->kind)->computes == COMPUTES_FORWARD ? (stage ? 3 : 1) : 0;
}

static void test_a_waiting_send_occupies_its_sender(void **state)
{
    (void)state;
    for (int waits = 0; waits < 2; waits++) {
        static const double end[2][3] = {{1.5, 2.5, 3.5}, {1.5, 5, 8.5}};
        const simulate_costs c = {slow_second_stage, NULL, true, waits};
        lists l;
        simulate_result r;
        err e = {0};
        int sent = 0;
        lists_open(&l, &LISTS(PIPE_GPIPE, 2, 1, 3, .sends_wait = true));
        assert_int_equal(schedule_simulate(l.of, l.plan_of, 2, &c, &r, &e), OK);
        for (int k = 0; k < l.list[0].count; k++)
            if (l.list[0].instr[k].kind == SEND_ACT)
                assert_true(fabs(r.span[0][k].end - end[waits][sent++]) < 1e-9);
        assert_int_equal(sent, 3);
        simulate_result_clear(&r);
        lists_close(&l);
    }
}

// ---- Megatron-LM's order

// The instructions of a stage, sorted out: the k-th forward and the k-th backward, with the messages that
// bring what it reads and that take away what it computes. NULL: none.
typedef struct passes {
    const schedule_instr *pass[2][128], *recv[2][128], *send[2][128];
    int count; // of forwards
} passes;

static void sort_out(const schedule *s, passes *out)
{
    int count[2] = {0};
    *out = (passes){.count = 0};
    for (int i = 0; i < s->count; i++) {
        const unsigned computes = instr_row_of(s->instr[i].kind)->computes;
        if (computes != COMPUTES_NOTHING) {
            const int back = computes != COMPUTES_FORWARD;
            out->pass[back][count[back]++] = &s->instr[i];
        }
    }
    out->count = count[0];
    for (int i = 0; i < s->count; i++) {
        const schedule_instr *x = &s->instr[i];
        if (!is_message(x)) continue;
        const instr_peers *p = &instr_row_of(x->kind)->peers;
        const int back = p->channel == CHANNEL_GRADIENTS;
        for (int k = 0; k < out->count; k++)
            if (out->pass[back][k]->micro == x->micro && out->pass[back][k]->index == x->index)
                (p->waits_for == WAITS_FOR_SENDER ? out->recv : out->send)[back][k] = x;
    }
}

static void put(schedule_instr *to, int *count, const schedule_instr *x)
{
    if (x) to[(*count)++] = *x;
}

// Adds messages that start together.
static void put_group(schedule_instr *to, int *count, const schedule_instr *const *x)
{
    const int first = *count;
    for (int i = 0; i < 4; i++) put(to, count, x[i]);
    for (int i = first; i < *count; i++) to[i].with_next = i + 1 < *count;
}
#define GROUP(...) put_group(to, &count, (const schedule_instr *const[4]){__VA_ARGS__})

// Gives a stage the order of Megatron-LM's forward_backward_pipelining_without_interleaving, or, with
// more than one chunk, of forward_backward_pipelining_with_interleaving.
static void order_as_megatron(const lists_of *x, int stage, schedule *s)
{
    static passes p;
    schedule_instr *to = calloc((size_t)s->count, sizeof *to);
    int count = 0;
    assert_non_null(to);
    sort_out(s, &p);
    const bool interleaved = x->chunks > 1;
    const int later = x->stages - stage - 1,
              ahead = interleaved ? 2 * later + (x->chunks - 1) * x->stages : later,
              warm = ahead < p.count ? ahead : p.count, steady = p.count - warm;
    const schedule_instr *const *const recv_act = p.recv[0], *const *const send_act = p.send[0],
                                       *const *const recv_grad = p.recv[1],
                                       *const *const send_grad = p.send[1];
    for (int i = 0; i < s->count; i++)
        if (s->instr[i].kind == LOAD_BATCH) put(to, &count, &s->instr[i]);
    GROUP(recv_act[0]);
    for (int k = 0; k < warm; k++) {
        put(to, &count, p.pass[0][k]);
        if (interleaved) {
            GROUP(send_act[k], recv_act[k + 1], k + 1 == warm && steady > 0 ? recv_grad[0] : NULL);
        } else {
            GROUP(send_act[k]);
            GROUP(recv_act[k + 1]);
        }
    }
    if (interleaved && steady == 0) GROUP(recv_grad[0]);
    for (int k = 0; k < p.count; k++) {
        const bool forward = k < steady;
        if (forward) put(to, &count, p.pass[0][k + warm]);
        if (!interleaved) GROUP(forward ? send_act[k + warm] : NULL, recv_grad[k]);
        put(to, &count, p.pass[1][k]);
        const schedule_instr *const next = forward ? recv_act[k + warm + 1] : NULL;
        if (interleaved)
            GROUP(forward ? send_act[k + warm] : NULL, send_grad[k], next, recv_grad[k + 1]);
        else
            GROUP(send_grad[k], next);
    }
    for (int i = 0; i < s->count; i++)
        if (s->instr[i].kind != LOAD_BATCH && !is_message(&s->instr[i]) &&
            instr_row_of(s->instr[i].kind)->computes == COMPUTES_NOTHING)
            put(to, &count, &s->instr[i]);
    assert_int_equal(count, s->count);
    free(s->instr);
    s->instr = to;
}

static void expect_no_slower_than_megatron(const lists_of *x)
{
    if (x->order != PIPE_1F1B && x->order != PIPE_INTERLEAVED) return;
    static const double message[] = {0.01, 0.1, 0.5};
    for (size_t i = 0; i < sizeof message / sizeof *message; i++) {
        lists ours, theirs;
        simulate_result r;
        err e = {0};
        lists_open(&ours, x);
        lists_open(&theirs, x);
        for (int k = 0; k < x->stages; k++) order_as_megatron(x, k, &theirs.list[k]);
        if (schedule_replay(theirs.of, theirs.stages, true, NULL, NULL, &e) != OK)
            fail_msg("%s", e.text);
        const double own = simulated(&ours, message[i], true, &r);
        simulate_result_clear(&r);
        const double other = simulated(&theirs, message[i], true, &r);
        simulate_result_clear(&r);
        // From five stages on an interleaved step may take the time of one message more.
        const double slack = x->order == PIPE_INTERLEAVED && x->stages > 4 ? message[i] : 0;
        if (own > other + slack + 1e-9)
            fail_msg("%s, %d stages of %d chunks, %d micro-batches, messages of %g: %g seconds, "
                     "Megatron-LM %g\n",
                     pipeline_schedule_name(x->order), x->stages, x->chunks, x->micros, message[i],
                     own, other);
        lists_close(&ours);
        lists_close(&theirs);
    }
}

static void test_waiting_costs_no_more_than_megatrons_groups(void **state)
{
    (void)state;
    each_pipeline(expect_no_slower_than_megatron, (lists_of){.sends_wait = true});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_list_deadlocks_when_sends_wait),
        cmocka_unit_test(test_lists_for_sends_that_do_not_wait_deadlock),
        cmocka_unit_test(test_a_group_that_is_taken_apart_deadlocks),
        cmocka_unit_test(test_only_messages_start_together),
        cmocka_unit_test(test_messages_that_start_together_use_other_slots),
        cmocka_unit_test(test_wrong_messages_are_found),
        cmocka_unit_test(test_a_waiting_send_occupies_its_sender),
        cmocka_unit_test(test_messages_that_take_no_time_leave_the_bubble_as_it_is),
        cmocka_unit_test(test_waiting_costs_no_more_than_megatrons_groups),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
