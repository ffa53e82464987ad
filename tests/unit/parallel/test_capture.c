// test_capture.c -- the segments of a list that a device can record and replay: where the host is needed
// they end, with the reason; a step of a strategy without files is one segment.
#include "parallel/capture.h"
#include "parallel/instructions.h"

#include "unit/parallel/lists.h"

static capture_segments divide(const lists *l, int stage, bool comm_records)
{
    capture_segments c;
    err e = {0};
    if (capture_divide(l->plan[stage], &l->list[stage], comm_records, &c, &e) != OK)
        fail_msg("%s", e.text);
    return c;
}

static void expect_segments(const lists_of *x, bool comm_records, int least, int most)
{
    lists l;
    lists_open(&l, x);
    for (int i = 0; i < x->stages; i++) {
        capture_segments c = divide(&l, i, comm_records);
        if (c.count < least || c.count > most)
            fail_msg("%s, %d stages, policy %s: %d segments; expected: %d to %d",
                     pipeline_schedule_name(x->order), x->stages, x->policy, c.count, least, most);
        capture_clear(&c);
    }
    lists_close(&l);
}

static void test_a_step_is_at_most_three_segments(void **state)
{
    (void)state;
    static const char *const names[] = {"ddp", "zero1", "zero2", "zero3"};
    for (int k = 0; k < 4; k++)
        for (int p = 1; p <= LISTS_STAGES; p++)
            for (int s = 0; s < PIPE_SCHEDULES; s++)
                for (int waits = 0; waits < 2; waits++) {
                    if (p == 1 && s == PIPE_INTERLEAVED) continue;
                    const int chunks = s == PIPE_INTERLEAVED ? 2 : 1;
                    expect_segments(&LISTS((pipeline_schedule)s, p, chunks, 2 * p, .tied = true,
                                           .blocks = 17, .policy = names[k], .dp_shard = 2,
                                           .sends_wait = waits),
                                    true, 1, 3);
                }
}

// The list without its LOAD_BATCHs and its LOAD_STEP is one segment, which ends with the list.
static void test_a_segment_begins_when_the_host_has_done_its_part(void **state)
{
    (void)state;
    lists l;
    lists_open(&l, &LISTS(PIPE_1F1B, 1, 1, 3, .blocks = 2));
    capture_segments c = divide(&l, 0, true);
    assert_int_equal(c.count, 1);
    assert_int_equal(c.items[0].first, 4); // three batches, and the numbers of the step
    assert_int_equal(c.items[0].first + c.items[0].count, l.list[0].count);
    assert_int_equal(c.instructions, c.items[0].count);
    assert_null(c.items[0].why);
    capture_clear(&c);
    lists_close(&l);
}

// Some instruction of this kind of stage 0 is in no segment, for this reason.
static void expect_reason(const lists_of *x, bool comm_records, schedule_instr_kind kind,
                          const char *why)
{
    lists l;
    lists_open(&l, x);
    capture_segments c = divide(&l, 0, comm_records);
    bool found = false;
    for (int i = 0; i < c.count; i++) {
        const capture_segment *y = &c.items[i];
        if (y->why && l.list[0].instr[y->first + y->count].kind == kind)
            found = found || strcmp(y->why, why) == 0;
    }
    for (int i = 0; i < l.list[0].count; i++) {
        const char *host =
            instr_row_of(l.list[0].instr[i].kind)->needs_host(l.plan[0], &l.list[0].instr[i]);
        if (l.list[0].instr[i].kind == kind && host) found = found || strcmp(host, why) == 0;
    }
    if (!found) fail_msg("no %s is in no segment because %s", instr_name(kind), why);
    capture_clear(&c);
    lists_close(&l);
}

static void test_a_segment_says_why_it_ends(void **state)
{
    (void)state;
    const lists_of files = LISTS(PIPE_1F1B, 1, 1, 2, .policy = "zero3", .dp_shard = 2, .blocks = 3,
                                 .no_sync = true, .files = true);
    expect_reason(&files, true, SWAP_IN, "the host reads a file");
    expect_reason(&files, true, SWAP_OUT, "the host writes a file");
    expect_reason(&files, true, UNSHARD, "the host waits for a file");
    expect_segments(&files, true, 4, 1000);
    const lists_of pipe = LISTS(PIPE_1F1B, 2, 1, 4, .policy = "zero3", .dp_shard = 2, .blocks = 4);
    expect_reason(&pipe, false, SEND_ACT, "no device can record the calls of the communicator");
    expect_reason(&pipe, false, REDUCE_GRAD, "no device can record the calls of the communicator");
    // One rank has nobody to communicate with.
    expect_segments(&LISTS(PIPE_1F1B, 1, 1, 2, .blocks = 3), false, 1, 1);
}

// A batch that is loaded in the middle of the list ends a segment.
static void test_a_late_batch_ends_a_segment(void **state)
{
    (void)state;
    lists l;
    lists_open(&l, &LISTS(PIPE_1F1B, 1, 1, 3, .blocks = 2));
    schedule *s = &l.list[0];
    const schedule_instr moved = s->instr[2];
    memmove(&s->instr[2], &s->instr[3], 4 * sizeof moved);
    s->instr[6] = moved;
    capture_segments c = divide(&l, 0, true);
    assert_int_equal(c.count, 2);
    assert_string_equal(c.items[0].why, "the host waits for the loader");
    assert_int_equal(c.items[0].first + c.items[0].count, 6);
    capture_clear(&c);
    lists_close(&l);
}

static void test_segments_are_printed(void **state)
{
    (void)state;
    lists l;
    text out = {0};
    err e = {0};
    lists_open(&l, &LISTS(PIPE_1F1B, 2, 1, 2));
    assert_int_equal(capture_print(l.plan[0], &l.list[0], false, &out, &e), OK);
    assert_string_equal(out.chars,
                        "segments that a device could record and replay: 1, with 12 of 15 "
                        "instructions\n"
                        "  instructions 3 to 14, to the end\n"
                        "  5 segments where the calls of the communicator cannot be recorded\n");
    text_clear(&out);
    assert_int_equal(capture_print(l.plan[0], &l.list[0], true, &out, &e), OK);
    assert_string_equal(out.chars,
                        "{\"segments\":[{\"first\":3,\"instructions\":12,\"ends\":null}],"
                        "\"segments_without_communicator\":5}");
    text_clear(&out);
    lists_close(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_step_is_at_most_three_segments),
        cmocka_unit_test(test_a_segment_begins_when_the_host_has_done_its_part),
        cmocka_unit_test(test_a_segment_says_why_it_ends),
        cmocka_unit_test(test_a_late_batch_ends_a_segment),
        cmocka_unit_test(test_segments_are_printed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
