// test_instructions.c -- the table of instructions: every kind has its row and its line of text, and
// effects are those of the instruction at hand.
#include "parallel/instructions.h"

#include "unit/parallel/lists.h"

static void test_rows_are_named_after_their_kind(void **state)
{
    (void)state;
#define CHECK_NAME(KIND, run)                                                                      \
    assert_string_equal(instr_row_of(KIND)->name, #KIND);                                          \
    assert_string_equal(instr_name(KIND), #KIND);
    SCHEDULE_INSTRS(CHECK_NAME)
#undef CHECK_NAME
}

static void test_rows_have_a_stream(void **state)
{
    (void)state;
    for (int k = 0; k < INSTRS; k++) {
        const instr_row *row = instr_row_of((schedule_instr_kind)k);
        assert_in_range(row->stream, 0, STREAMS - 1);
        // Whoever computes does so on the compute stream, whoever meets others on that of messages.
        if (row->computes) assert_int_equal(row->stream, STREAM_COMPUTE);
        if (row->peers.waits_for != WAITS_FOR_NOBODY) assert_int_equal(row->stream, STREAM_COMM);
    }
}

typedef struct line {
    schedule_instr x;
    const char *text;
} line;

static void test_instructions_print_as_their_row_says(void **state)
{
    (void)state;
    const line lines[] = {
        {{.kind = LOAD_BATCH, .micro = 3}, "LOAD_BATCH micro 3"},
        {{.kind = LOAD_STEP}, "LOAD_STEP"},
        {{.kind = UNSHARD, .index = 5, .slot = 1}, "UNSHARD bucket 5 into weight slot 1"},
        {{.kind = UNSHARD, .index = 5, .slot = 1, .post_forward = true},
         "UNSHARD bucket 5 into weight slot 1 from the post-forward group"},
        {{.kind = RESHARD, .index = 5, .slot = 1}, "RESHARD bucket 5, weight slot 1 is free"},
        {{.kind = RESHARD_POST_FORWARD, .index = 5},
         "RESHARD_POST_FORWARD bucket 5, its shard stays for backward"},
        {{.kind = ALLOC_GRAD, .index = 2, .slot = 0}, "ALLOC_GRAD bucket 2 in gradient slot 0"},
        {{.kind = RECV_ACT, .micro = 1, .index = 4, .peer = 2},
         "RECV_ACT micro 1 block 4 from stage 2"},
        {{.kind = SEND_GRAD, .micro = 1, .index = 4, .peer = 0},
         "SEND_GRAD micro 1 block 4 to stage 0"},
        {{.kind = SWAP_IN, .index = 7, .what = PLAN_WEIGHTS}, "SWAP_IN weights of bucket 7"},
        {{.kind = REDUCE_GRAD, .index = 7, .last = true}, "REDUCE_GRAD bucket 7"},
        {{.kind = REDUCE_GRAD, .index = 7}, "REDUCE_GRAD bucket 7 (more to come)"},
        {{.kind = CLIP_GRAD_NORM}, "CLIP_GRAD_NORM"},
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        text t = {0};
        instr_print(&lines[i].x, &t);
        assert_string_equal(t.chars, lines[i].text);
        text_clear(&t);
    }
}

// ---- Effects

typedef struct count {
    instr_access access;
    instr_resource resource;
    int found, owner, slot;
} count;

static status count_use(void *given, const instr_use *u, err *e)
{
    count *c = given;
    (void)e;
    if (u->access != c->access || u->resource != c->resource) return OK;
    c->found++;
    c->owner = u->owner;
    c->slot = u->slot;
    return OK;
}

static count count_of(const lists *l, const schedule_instr *x, instr_access access,
                      instr_resource r)
{
    count c = {.access = access, .resource = r};
    err e = {0};
    assert_int_equal(instr_each_use(l->plan[0], &l->list[0], x, count_use, &c, &e), OK);
    return c;
}

static void test_effects_depend_on_plan_and_instruction(void **state)
{
    (void)state;
    lists l;
    lists_open(&l, &LISTS(PIPE_1F1B, 1, 1, 2, .blocks = 3, .policy = "zero3", .dp_shard = 2,
                          .no_sync = true, .files = true));
    const schedule_instr step = {.kind = OPTIMIZER_STEP, .index = 1, .state = {4, 5, 6}};
    const instr_resource optimizer = RES_STATE_SLOT + PLAN_OPTIMIZER_STATE;
    count c = count_of(&l, &step, ACCESS_MODIFY, optimizer);
    assert_true(c.found == 1 && c.owner == 1 && c.slot == 6);
    // Weights in fp32 are read from the file before they are updated.
    assert_int_equal(count_of(&l, &step, ACCESS_MODIFY, RES_STATE_SLOT).found, 1);
    assert_int_equal(count_of(&l, &step, ACCESS_ALLOCATE, RES_STATE_SLOT).found, 0);
    // The last block has no block after it, and the gradient of its output does not exist.
    const schedule_instr last = {.kind = BACKWARD, .micro = 1, .index = 2, .grad_in = -1},
                         middle = {.kind = BACKWARD, .micro = 1, .index = 1, .grad_in = 1};
    assert_int_equal(count_of(&l, &last, ACCESS_FREE, RES_ACT_GRAD_SLOT).found, 0);
    c = count_of(&l, &middle, ACCESS_FREE, RES_ACT_GRAD_SLOT);
    assert_true(c.found == 1 && c.slot == 1 && c.owner == 2 * 2 + 1); // micro 1 block 2
    const schedule_instr clip = {.kind = CLIP_GRAD_NORM};
    assert_int_equal(count_of(&l, &clip, ACCESS_READ, RES_REDUCED).found, l.plan[0]->buckets);
    lists_close(&l);
}

static void test_kinds_are_found_by_what_they_compute(void **state)
{
    (void)state;
    assert_int_equal(instr_computing(COMPUTES_FORWARD), FORWARD);
    assert_int_equal(instr_computing(COMPUTES_DGRAD | COMPUTES_WGRAD), BACKWARD);
    assert_int_equal(instr_computing(COMPUTES_DGRAD), BACKWARD_INPUT);
    assert_int_equal(instr_computing(COMPUTES_WGRAD), BACKWARD_WEIGHT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_are_named_after_their_kind),
        cmocka_unit_test(test_rows_have_a_stream),
        cmocka_unit_test(test_instructions_print_as_their_row_says),
        cmocka_unit_test(test_effects_depend_on_plan_and_instruction),
        cmocka_unit_test(test_kinds_are_found_by_what_they_compute),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
