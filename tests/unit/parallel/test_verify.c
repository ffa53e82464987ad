// test_verify.c -- the lists of every pipeline schedule, policy and tier pass the verifier. Each way
// to break a list is refused at the instruction that is wrong.
#include "parallel/verify.h"

#include "unit/parallel/lists.h"

static void expect_pass(const lists_of *x)
{
    lists l;
    err e = {0};
    lists_open(&l, x);
    if (schedule_verify(l.of, l.plan_of, l.stages, false, &e) != OK)
        fail_msg("%s, %d stages of %d chunks, %d micro-batches: %s",
                 pipeline_schedule_name(x->order), x->stages, x->chunks, x->micros, e.text);
    lists_close(&l);
}

// Every policy, with and without shared weights and files.
static void expect_variants_pass(lists_of x)
{
    static const char *const names[] = {"ddp", "zero1", "zero2", "zero3"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (int bits = 0; bits < 16; bits++) {
            x.policy = names[i];
            x.dp_shard = i ? 2 : 1;
            x.tied = bits & 2;
            x.files = bits & 4;
            x.apart = x.files && x.tied;
            x.host_updates = x.apart && i % 3 == 0; // where weights are swapped
            x.no_sync = x.files || bits & 1;
            x.evaluate = bits & 8;
            expect_pass(&x);
            x.in_place = true;
            expect_pass(&x);
            x.in_place = false;
            if (i < 3) continue;
            lists_of group = x; // backward unshards from the post-forward group, or not at all
            group.dp_shard = 4, group.reshard = 2;
            expect_pass(&group);
            x.reshard = -1;
            expect_pass(&x);
            x.reshard = 0;
        }
}

static void test_lists_of_every_schedule_pass(void **state)
{
    (void)state;
    for (int p = 1; p <= LISTS_STAGES; p++)
        for (int m = 1; m <= 3 * p; m++)
            for (int s = 0; s < PIPE_SCHEDULES; s++) {
                lists_of x = LISTS((pipeline_schedule)s, p, 1, m, .blocks = 2 * p + 1);
                if (s != PIPE_INTERLEAVED) expect_pass(&x);
                for (x.chunks = 2; s == PIPE_INTERLEAVED && p > 1 && m % p == 0 && x.chunks <= 3;
                     x.chunks++) {
                    x.blocks = p * x.chunks + 1;
                    expect_pass(&x);
                }
            }
}

static void test_lists_of_every_policy_and_tier_pass(void **state)
{
    (void)state;
    for (int p = 1; p <= 4; p *= 2)
        for (int s = 0; s < PIPE_SCHEDULES; s++)
            if (p > 1 || s != PIPE_INTERLEAVED)
                expect_variants_pass((lists_of){.order = (pipeline_schedule)s,
                                                .stages = p,
                                                .chunks = s == PIPE_INTERLEAVED ? 2 : 1,
                                                .micros = 4,
                                                .blocks = 9});
}

// ---- Broken lists

typedef struct target {
    schedule_instr_kind kind;
    int micro, index;
} target;

typedef enum change { DROP, TWICE, SWAP, SET } change;

typedef struct edit {
    change how;
    target a, b;   // b: SWAP, the other instruction
    size_t member; // SET: offset of an int of schedule_instr
    int value;     // SET
} edit;

static edit drop(schedule_instr_kind kind, int micro, int index)
{
    return (edit){DROP, {kind, micro, index}, {0}, 0, 0};
}

static edit twice(schedule_instr_kind kind, int micro, int index)
{
    return (edit){TWICE, {kind, micro, index}, {0}, 0, 0};
}

static edit swap(schedule_instr_kind kind, int micro, int index, schedule_instr_kind with,
                 int other_micro, int other_index)
{
    return (edit){SWAP, {kind, micro, index}, {with, other_micro, other_index}, 0, 0};
}

#define SET_MEMBER(kind, micro, index, member, value)                                              \
    (edit)                                                                                         \
    {                                                                                              \
        SET, {kind, micro, index}, {0}, offsetof(schedule_instr, member), value                    \
    }

static edit set_slot(schedule_instr_kind kind, int micro, int index, int value)
{
    return SET_MEMBER(kind, micro, index, slot, value);
}

static int find(const schedule *s, target t)
{
    for (int i = 0; i < s->count; i++)
        if (s->instr[i].kind == t.kind && s->instr[i].micro == t.micro &&
            s->instr[i].index == t.index)
            return i;
    fail_msg("no %s micro %d index %d", instr_name(t.kind), t.micro, t.index);
    return -1;
}

static void insert_copy(schedule *s, int at)
{
    s->instr = realloc(s->instr, ((size_t)s->count + 1) * sizeof *s->instr);
    assert_non_null(s->instr);
    memmove(&s->instr[at + 1], &s->instr[at], (size_t)(s->count - at) * sizeof *s->instr);
    s->count++;
}

static void break_list(schedule *s, const edit *x)
{
    const int a = find(s, x->a);
    schedule_instr *at = &s->instr[a];
    const schedule_instr was = *at;
    switch (x->how) {
    case DROP:
        memmove(at, at + 1, (size_t)(--s->count - a) * sizeof *at);
        break;
    case TWICE:
        insert_copy(s, a);
        break;
    case SWAP: {
        schedule_instr *other = &s->instr[find(s, x->b)];
        *at = *other;
        *other = was;
        break;
    }
    case SET:
        memcpy((char *)at + x->member, &x->value, sizeof x->value);
        break;
    }
}

// "instruction 12" as "instruction #": where one stands depends on what is brought when.
static void drop_numbers(char *says)
{
    static const char word[] = "instruction ";
    for (char *at = says; (at = strstr(at, word));) {
        at += sizeof word - 1;
        size_t digits = strspn(at, "0123456789");
        memmove(at + 1, at + digits, strlen(at + digits) + 1);
        *at = '#';
    }
}

static void expect_found(const lists_of *of, int stage, edit x, const char *says)
{
    lists l;
    err e = {0};
    lists_open(&l, of);
    break_list(&l.list[stage], &x);
    status found = schedule_verify(l.of, l.plan_of, l.stages, false, &e);
    drop_numbers(e.text);
    assert_string_equal(found == OK ? "verified" : e.text, says);
    assert_int_equal(found, E_INTERNAL);
    lists_close(&l);
}

static const lists_of TWO = LISTS(PIPE_1F1B, 2, 1, 4);
static const lists_of THREE = LISTS(PIPE_1F1B, 3, 1, 3, .tied = true);
static const lists_of SPLIT = LISTS(PIPE_ZB, 2, 1, 4);
static const lists_of BLOCKS = LISTS(PIPE_1F1B, 2, 1, 4, .blocks = 4);
static const lists_of SHARDS =
    LISTS(PIPE_1F1B, 2, 1, 4, .policy = "zero3", .dp_shard = 2, .blocks = 4);

static void test_wrong_messages_are_found(void **state)
{
    (void)state;
    expect_found(&TWO, 1, swap(RECV_ACT, 0, 1, RECV_ACT, 1, 1),
                 "stage 1, instruction # (RECV_ACT micro 1 block 1 from stage 0): the next message "
                 "is of stage 0, instruction # (SEND_ACT micro 0 block 0 to stage 1); valid: "
                 "that of micro 1 block 0");
    expect_found(&TWO, 0, swap(SEND_ACT, 0, 0, SEND_ACT, 1, 0),
                 "stage 1, instruction # (RECV_ACT micro 0 block 1 from stage 0): the next message "
                 "is of stage 0, instruction # (SEND_ACT micro 1 block 0 to stage 1); valid: "
                 "that of micro 0 block 0");
    expect_found(&TWO, 0, drop(SEND_ACT, 1, 0),
                 "stage 1, instruction # (RECV_ACT micro 1 block 1 from stage 0): the next message "
                 "is of stage 0, instruction # (SEND_ACT micro 2 block 0 to stage 1); valid: "
                 "that of micro 1 block 0");
    expect_found(&TWO, 0, drop(SEND_ACT, 3, 0),
                 "the pipeline deadlocks: stage 0, instruction # (RECV_GRAD micro 3 "
                 "block 0 from stage 1) waits for stage 1; stage 1, instruction # (RECV_ACT micro "
                 "3 block 1 from stage 0) waits for stage 0");
    expect_found(
        &TWO, 1, drop(SEND_GRAD, 3, 1),
        "the pipeline deadlocks: stage 0, instruction # (RECV_GRAD micro 3 block 0 "
        "from stage 1) waits for stage 1; stage 1, instruction # (CLIP_GRAD_NORM) waits for stage "
        "0");
    expect_found(&TWO, 1, drop(RECV_ACT, 3, 1),
                 "stage 0, instruction # (SEND_ACT micro 3 block 0 to stage 1): no stage receives "
                 "this message");
    expect_found(&TWO, 1, twice(SEND_GRAD, 3, 1),
                 "stage 1, instruction # (SEND_GRAD micro 3 block 1 to stage 0): no stage receives "
                 "this message");
    expect_found(&THREE, 0, SET_MEMBER(SEND_ACT, 1, 0, peer, 2),
                 "stage 0, instruction # (SEND_ACT micro 1 block 0 to stage 2): found stage 2 at "
                 "the other end; valid: stage 1");
    expect_found(&THREE, 1, SET_MEMBER(RECV_GRAD, 1, 1, peer, 7),
                 "stage 1, instruction # (RECV_GRAD micro 1 block 1 from stage 7): found stage 7 "
                 "at the other end; valid: stage 2");
}

static void test_a_deadlock_names_which_stage_waits_for_which(void **state)
{
    (void)state;
    expect_found(&TWO, 0, swap(SEND_ACT, 0, 0, RECV_GRAD, 0, 0),
                 "the pipeline deadlocks: stage 0, instruction # (RECV_GRAD micro 0 "
                 "block 0 from stage 1) waits for stage 1; stage 1, instruction # (RECV_ACT micro "
                 "0 block 1 from stage 0) waits for stage 0");
    expect_found(&THREE, 2, swap(REDUCE_TIED_GRAD, 0, 0, CLIP_GRAD_NORM, 0, 0),
                 "the pipeline deadlocks: stage 0, instruction # (REDUCE_TIED_GRAD "
                 "bucket 0) waits "
                 "for stage 2; stage 2, instruction # (CLIP_GRAD_NORM) waits for stage 0");
    expect_found(&THREE, 1, drop(CLIP_GRAD_NORM, 0, 0),
                 "the pipeline deadlocks: stage 0, instruction # (CLIP_GRAD_NORM) waits for "
                 "stage 1, which is at the end of its list");
}

static void test_values_are_there_when_they_are_read(void **state)
{
    (void)state;
    expect_found(&TWO, 0, drop(LOAD_BATCH, 2, 0),
                 "stage 0, instruction # (LOAD_STEP): the batch of micro 2 is not loaded");
    expect_found(&TWO, 1, swap(LOAD_BATCH, 3, 0, LOAD_STEP, 0, 0),
                 "stage 1, instruction # (LOAD_STEP): the batch of micro 3 is not loaded");
    expect_found(&TWO, 0, twice(LOAD_BATCH, 1, 0),
                 "stage 0, instruction # (LOAD_BATCH micro 1): the batch of micro 1 was loaded "
                 "before");
    expect_found(&TWO, 0, drop(LOAD_STEP, 0, 0),
                 "stage 0, instruction # (FORWARD micro 0 block 0): the numbers of the step are "
                 "not loaded");
    expect_found(&THREE, 1, twice(LOAD_STEP, 0, 0),
                 "stage 1, instruction # (LOAD_STEP): the numbers of the step were loaded before");
    expect_found(&TWO, 1, swap(RECV_ACT, 1, 1, FORWARD, 1, 1),
                 "stage 1, instruction # (FORWARD micro 1 block 1): the output of micro 1 block 0 "
                 "was neither computed nor received");
    expect_found(&BLOCKS, 1, drop(FORWARD, 1, 2),
                 "stage 1, instruction # (FORWARD micro 1 block 3): the output of micro 1 block 2 "
                 "was neither computed nor received");
    expect_found(&BLOCKS, 0, drop(BACKWARD, 1, 1),
                 "stage 0, instruction # (BACKWARD micro 1 block 0): the input gradient of micro 1 "
                 "block 1 was neither computed nor received");
    expect_found(&BLOCKS, 0, twice(FORWARD, 1, 1),
                 "stage 0, instruction # (FORWARD micro 1 block 1): the output of micro 1 block 1 "
                 "was computed before");
    expect_found(&BLOCKS, 0, twice(BACKWARD, 1, 1),
                 "stage 0, instruction # (BACKWARD micro 1 block 1): the input gradient of micro 1 "
                 "block 1 was computed before");
    expect_found(&BLOCKS, 0, swap(FORWARD, 1, 1, SEND_ACT, 1, 1),
                 "stage 0, instruction # (SEND_ACT micro 1 block 1 to stage 1): the output of "
                 "micro 1 block 1 was neither computed nor received");
    expect_found(&BLOCKS, 1, swap(BACKWARD, 1, 2, SEND_GRAD, 1, 2),
                 "stage 1, instruction # (SEND_GRAD micro 1 block 2 to stage 0): the input "
                 "gradient of micro 1 block 2 was neither computed nor received");
    expect_found(
        &TWO, 0, drop(BACKWARD, 3, 0),
        "stage 0: at the end of its list the weight gradient of micro 3 block 0 is not computed");
    expect_found(&SPLIT, 0, drop(BACKWARD_INPUT, 2, 0),
                 "stage 0, instruction # (BACKWARD_WEIGHT micro 2 block 0): the input gradient of "
                 "micro 2 block 0 was neither computed nor received");
    expect_found(&SPLIT, 1, swap(BACKWARD_INPUT, 1, 1, BACKWARD_WEIGHT, 1, 1),
                 "stage 1, instruction # (BACKWARD_WEIGHT micro 1 block 1): the input gradient of "
                 "micro 1 block 1 was neither computed nor received");
    expect_found(&SPLIT, 1, twice(BACKWARD_WEIGHT, 1, 1),
                 "stage 1, instruction # (BACKWARD_WEIGHT micro 1 block 1): the weight gradient of "
                 "micro 1 block 1 was computed before");
    expect_found(&SHARDS, 0, drop(UNSHARD, 0, 1),
                 "stage 0, instruction # (FORWARD micro 0 block 1): the weights of bucket 1 are "
                 "not unsharded");
    expect_found(&SHARDS, 0, drop(ALLOC_GRAD, 0, 1),
                 "stage 0, instruction # (BACKWARD micro 0 block 1): the gradients of bucket 1 "
                 "have no slot");
}

static void test_slots_are_free_when_they_are_allocated(void **state)
{
    (void)state;
    expect_found(
        &TWO, 0, set_slot(FORWARD, 1, 0, 0),
        "stage 0, instruction # (FORWARD micro 1 block 0): activation slot 0 still holds micro 0");
    expect_found(&TWO, 0, set_slot(FORWARD, 1, 0, 2),
                 "stage 0, instruction # (FORWARD micro 1 block 0): found activation slot 2; "
                 "valid: below 2");
    expect_found(&TWO, 0, set_slot(BACKWARD, 1, 0, 0),
                 "stage 0, instruction # (BACKWARD micro 1 block 0): activation slot 0 does not "
                 "hold micro 1");
    expect_found(&SPLIT, 1, SET_MEMBER(BACKWARD_INPUT, 1, 1, wgrad_slot, 0),
                 "stage 1, instruction # (BACKWARD_INPUT micro 1 block 1): wgrad slot 0 still "
                 "holds micro 0");
    expect_found(&SPLIT, 1, SET_MEMBER(BACKWARD_WEIGHT, 1, 1, wgrad_slot, -1),
                 "stage 1, instruction # (BACKWARD_WEIGHT micro 1 block 1): found wgrad slot -1; "
                 "valid: below 2");
    expect_found(&SHARDS, 0, drop(RESHARD, 0, 0),
                 "stage 0, instruction # (UNSHARD bucket 0 into weight slot 0): weight slot 0 "
                 "still holds bucket 0");
    expect_found(&SHARDS, 0, set_slot(RESHARD, 0, 0, 1),
                 "stage 0, instruction # (RESHARD bucket 0, weight slot 1 is free): weight slot 1 "
                 "does not hold bucket 0");
    expect_found(
        &SHARDS, 0, set_slot(REDUCE_GRAD, 0, 0, 5),
        "stage 0, instruction # (REDUCE_GRAD bucket 0 (more to come)): found gradient slot 5; "
        "valid: below 1");
    expect_found(&SHARDS, 0, twice(UNSHARD, 0, 0),
                 "stage 0, instruction # (UNSHARD bucket 0 into weight slot 0): weight slot 0 "
                 "still holds bucket 0");
}

static const lists_of IN_PLACE = LISTS(PIPE_1F1B, 2, 1, 4, .blocks = 6, .in_place = true);

// The slot that an instruction reads its activation gradient from, or writes it to.
static int act_grad_of(const lists_of *of, int stage, target t, bool reads)
{
    lists l;
    lists_open(&l, of);
    const schedule_instr *x = &l.list[stage].instr[find(&l.list[stage], t)];
    const int slot = reads ? x->grad_in : x->grad_out;
    lists_close(&l);
    return slot;
}

static void expect_act_grad_found(const lists_of *of, int stage, edit x, const char *line, int slot,
                                  const char *says)
{
    char all[ERR_TEXT_BYTES];
    snprintf(all, sizeof all, "stage %d, instruction # (%s): activation-gradient slot %d %s", stage,
             line, slot, says);
    expect_found(of, stage, x, all);
}

static void test_activation_gradients_stay_until_they_are_read_or_sent(void **state)
{
    (void)state;
    const int in = act_grad_of(&BLOCKS, 0, (target){BACKWARD, 1, 1}, true),
              out = act_grad_of(&BLOCKS, 0, (target){BACKWARD, 1, 1}, false);
    assert_true(in >= 0 && out >= 0 && in != out);
    expect_act_grad_found(&BLOCKS, 0, SET_MEMBER(BACKWARD, 1, 1, grad_out, in),
                          "BACKWARD micro 1 block 1", in, "still holds micro 1 block 2");
    expect_act_grad_found(&BLOCKS, 0, SET_MEMBER(BACKWARD, 1, 1, grad_in, out),
                          "BACKWARD micro 1 block 1", out, "does not hold micro 1 block 2");
    const int sent = act_grad_of(&BLOCKS, 1, (target){SEND_GRAD, 1, 2}, true),
              other = (sent + 1) % 4;
    expect_act_grad_found(&BLOCKS, 1, SET_MEMBER(SEND_GRAD, 1, 2, grad_in, other),
                          "SEND_GRAD micro 1 block 2 to stage 0", other,
                          "does not hold micro 1 block 2");
    expect_found(&BLOCKS, 0, SET_MEMBER(RECV_GRAD, 1, 1, grad_out, 4),
                 "stage 0, instruction # (RECV_GRAD micro 1 block 1 from stage 1): found "
                 "activation-gradient slot 4; valid: below 4");
    expect_found(&SPLIT, 0, SET_MEMBER(RECV_GRAD, 1, 0, wgrad_slot, 9),
                 "stage 0, instruction # (RECV_GRAD micro 1 block 0 from stage 1): found wgrad "
                 "slot 9; valid: below 1");
}

static void test_gradients_in_place_keep_their_slot(void **state)
{
    (void)state;
    const target t = {BACKWARD, 1, 1};
    const int slot = act_grad_of(&IN_PLACE, 0, t, true);
    assert_int_equal(slot, act_grad_of(&IN_PLACE, 0, t, false));
    const int other = (slot + 1) % 4;
    expect_act_grad_found(&IN_PLACE, 0, SET_MEMBER(BACKWARD, 1, 1, grad_out, other),
                          "BACKWARD micro 1 block 1", other, "does not hold micro 1 block 1");
}

static void test_a_step_ends_in_order(void **state)
{
    (void)state;
    expect_found(
        &TWO, 0, drop(REDUCE_GRAD, 3, 0),
        "stage 0, instruction # (CLIP_GRAD_NORM): the gradients of bucket 0 are not reduced");
    expect_found(&TWO, 0, twice(REDUCE_GRAD, 3, 0),
                 "stage 0, instruction # (REDUCE_GRAD bucket 0): the gradients of bucket 0 were "
                 "reduced for the last time before");
    expect_found(&TWO, 0, swap(REDUCE_GRAD, 3, 0, BACKWARD, 3, 0),
                 "stage 0, instruction # (BACKWARD micro 3 block 0): the gradients of bucket 0 "
                 "were reduced for the last time before");
    expect_found(&TWO, 0, swap(OPTIMIZER_STEP, 0, 0, CLIP_GRAD_NORM, 0, 0),
                 "stage 0, instruction # (OPTIMIZER_STEP bucket 0): the gradient norm of the step "
                 "is not agreed");
    expect_found(&TWO, 0, swap(OPTIMIZER_STEP, 0, 0, ALL_GATHER_UPDATED, 0, 0),
                 "stage 0, instruction # (ALL_GATHER_UPDATED bucket 0): the weights of bucket 0 "
                 "are not updated");
    expect_found(&TWO, 0, twice(OPTIMIZER_STEP, 0, 0),
                 "stage 0, instruction # (OPTIMIZER_STEP bucket 0): the weights of bucket 0 were "
                 "updated before");
    expect_found(
        &TWO, 0, drop(ALL_GATHER_UPDATED, 0, 0),
        "stage 0: at the end of its list the updated weights of bucket 0 are not gathered");
    expect_found(&THREE, 0, swap(REDUCE_TIED_GRAD, 0, 0, REDUCE_GRAD, 2, 0),
                 "stage 0, instruction # (REDUCE_GRAD bucket 0): the tied gradients of bucket 0 "
                 "are not summed over the stages");
}

// One stage: weights and state in files; weights in a post-forward group.
static const lists_of FILES = LISTS(PIPE_1F1B, 1, 1, 2, .policy = "zero3", .dp_shard = 2,
                                    .blocks = 3, .no_sync = true, .files = true);
static const lists_of POST_FORWARD =
    LISTS(PIPE_1F1B, 1, 1, 2, .policy = "zero3", .dp_shard = 4, .blocks = 3, .reshard = 2);

static void test_files_and_shards_are_read_before_their_use(void **state)
{
    (void)state;
    expect_found(&FILES, 0, drop(SWAP_IN, 0, 0),
                 "stage 0, instruction # (UNSHARD bucket 0 into weight slot 0): the weight shard "
                 "of bucket 0 is not swapped in");
    expect_found(&FILES, 0, set_slot(SWAP_IN, 0, 2, 1),
                 "stage 0, instruction # (SWAP_IN weights of bucket 2): weight state slot 1 still "
                 "holds bucket 1");
    expect_found(&FILES, 0, drop(ALLOC_GRAD, 0, 2),
                 "stage 0, instruction # (FORWARD micro 0 block 2): the gradients of bucket 2 have "
                 "no slot");
    expect_found(&FILES, 0, drop(SWAP_IN, 1, 2),
                 "stage 0, instruction # (FORWARD micro 1 block 2): the gradients of bucket 2 have "
                 "no slot");
    expect_found(&FILES, 0, swap(ALLOC_GRAD, 0, 2, FORWARD, 0, 2),
                 "stage 0, instruction # (FORWARD micro 0 block 2): the gradients of bucket 2 have "
                 "no slot");
    expect_found(&POST_FORWARD, 0, drop(RESHARD_POST_FORWARD, 0, 1),
                 "stage 0, instruction # (UNSHARD bucket 1 into weight slot 1 from the "
                 "post-forward group): the post-forward shard of bucket 1 is not kept");
    expect_found(&POST_FORWARD, 0, swap(RESHARD_POST_FORWARD, 0, 1, RESHARD, 0, 1),
                 "stage 0, instruction # (RESHARD_POST_FORWARD bucket 1, its shard stays for "
                 "backward): the weights of bucket 1 are not unsharded");
    expect_found(&SHARDS, 0, twice(RESHARD, 0, 1),
                 "stage 0, instruction # (RESHARD bucket 1, weight slot 1 is free): the weights of "
                 "bucket 1 are not unsharded");
}

// The state of one bucket between its SWAP_IN and its OPTIMIZER_STEP.
static void expect_state_found(plan_state what, schedule_instr_kind kind, int bucket, int slot,
                               const char *says)
{
    lists l;
    err e = {0};
    lists_open(&l, &FILES);
    schedule *s = &l.list[0];
    int i = 0;
    while (s->instr[i].kind != kind || s->instr[i].index != bucket ||
           (kind != OPTIMIZER_STEP && s->instr[i].what != what))
        i++;
    if (kind == OPTIMIZER_STEP)
        s->instr[i].state[what] = slot;
    else
        s->instr[i].slot = slot;
    assert_int_equal(schedule_verify(l.of, l.plan_of, 1, false, &e), E_INTERNAL);
    drop_numbers(e.text);
    assert_string_equal(e.text, says);
    lists_close(&l);
}

static void test_swapped_in_state_stays_until_its_update(void **state)
{
    (void)state;
    lists l;
    lists_open(&l, &FILES);
    const schedule *s = &l.list[0];
    const int first = s->instr[find(s, (target){OPTIMIZER_STEP, 0, 0})].state[PLAN_OPTIMIZER_STATE];
    const int second =
        s->instr[find(s, (target){OPTIMIZER_STEP, 0, 1})].state[PLAN_OPTIMIZER_STATE];
    lists_close(&l);
    char says[160];
    snprintf(
        says, sizeof says,
        "stage 0, instruction # (SWAP_IN optimizer of bucket 1): optimizer state slot %d still "
        "holds bucket 0",
        first);
    expect_state_found(PLAN_OPTIMIZER_STATE, SWAP_IN, 1, first, says);
    snprintf(says, sizeof says,
             "stage 0, instruction # (OPTIMIZER_STEP bucket 0): optimizer state slot %d does not "
             "hold bucket 0",
             second);
    expect_state_found(PLAN_OPTIMIZER_STATE, OPTIMIZER_STEP, 0, second, says);
    expect_state_found(PLAN_OPTIMIZER_STATE, SWAP_IN, 1, 7,
                       "stage 0, instruction # (SWAP_IN optimizer of bucket 1): found optimizer "
                       "state slot 7; valid: below 3");
    snprintf(
        says, sizeof says,
        "stage 0, instruction # (SWAP_OUT optimizer of bucket 0): optimizer state slot %d does "
        "not hold bucket 0",
        second);
    expect_state_found(PLAN_OPTIMIZER_STATE, SWAP_OUT, 0, second, says);
}

static void test_only_the_ends_of_the_pipeline_share_weights(void **state)
{
    (void)state;
    lists l;
    err e = {0};
    lists_open(&l, &THREE);
    l.list[1].instr[find(&l.list[1], (target){CLIP_GRAD_NORM, 0, 0})].kind = REDUCE_TIED_GRAD;
    assert_int_equal(schedule_verify(l.of, l.plan_of, 3, false, &e), E_INTERNAL);
    drop_numbers(e.text);
    assert_string_equal(
        e.text, "stage 1, instruction # (REDUCE_TIED_GRAD bucket 0): only the first and the "
                "last stage share weights");
    lists_close(&l);
}

static void test_instructions_are_numbered_from_0(void **state)
{
    (void)state;
    lists l;
    err e = {0};
    char expected[64];
    lists_open(&l, &TWO);
    const int at = find(&l.list[0], (target){SEND_ACT, 2, 0});
    l.list[0].instr[at].peer = 0;
    assert_int_equal(schedule_verify(l.of, l.plan_of, 2, false, &e), E_INTERNAL);
    snprintf(expected, sizeof expected, "stage 0, instruction %d (SEND_ACT", at);
    assert_memory_equal(e.text, expected, strlen(expected));
    lists_close(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lists_of_every_schedule_pass),
        cmocka_unit_test(test_lists_of_every_policy_and_tier_pass),
        cmocka_unit_test(test_wrong_messages_are_found),
        cmocka_unit_test(test_a_deadlock_names_which_stage_waits_for_which),
        cmocka_unit_test(test_values_are_there_when_they_are_read),
        cmocka_unit_test(test_slots_are_free_when_they_are_allocated),
        cmocka_unit_test(test_activation_gradients_stay_until_they_are_read_or_sent),
        cmocka_unit_test(test_gradients_in_place_keep_their_slot),
        cmocka_unit_test(test_a_step_ends_in_order),
        cmocka_unit_test(test_files_and_shards_are_read_before_their_use),
        cmocka_unit_test(test_swapped_in_state_stays_until_its_update),
        cmocka_unit_test(test_only_the_ends_of_the_pipeline_share_weights),
        cmocka_unit_test(test_instructions_are_numbered_from_0),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
