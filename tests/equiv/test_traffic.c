// test_traffic.c -- the bytes that every rank sends in a step: what a communicator that counts sees
// equals what the plan says, to the byte, and both equal the closed form of each policy.
#include "workers.h"

#include "optim/clip.h"
#include "parallel/traffic.h"

enum { TOKENS = 16 }; // of a sequence of gpt2_new

typedef struct traffic {
    double run[CREW_MOST][PROCESS_GROUPS], planned[CREW_MOST][PROCESS_GROUPS]; // of one step
    double elements, gathered; // of the weights, and of all gathers of zero3 (both of rank 0)
    double tied, hidden, layers, micros;
} traffic;

// zero3 gathers a weight for its forward and for its backward; not again at the turn from the last
// block's forward to its backward, nor from the first block's backward to the next forward.
static double gathers(const plan *p, const plan_row *r)
{
    const double m = p->o.micros;
    const int last = p->o.blocks - 1;
    const bool at_end = plan_block_uses(p, last, r->bucket); // shared weights are, with the first's
    if (plan_block_uses(p, 0, r->bucket)) return at_end ? 2 * m + 1 : m + 1;
    return at_end ? m : 2 * m;
}

static status measure(crew *all, int rank, golden *g, trainer *t, err *e)
{
    status result = OK;
    traffic *out = all->given;
    const plan *p = trainer_get_plan(t);
    double before[PROCESS_GROUPS] = {0}, after[PROCESS_GROUPS] = {0};
    trainer_step_result r;
    TRY(trainer_step(t, false, &r, e));
    trainer_add_traffic(t, before);
    TRY(trainer_step(t, false, &r, e));
    trainer_add_traffic(t, after);
    for (int k = 0; k < PROCESS_GROUPS; k++) {
        out->run[rank][k] = after[k] - before[k];
        out->planned[rank][k] = p->sent_bytes[k];
    }
    for (int i = 0; rank == 0 && i < p->local_rows; i++) {
        const plan_row *x = &p->row[p->order[i]];
        out->elements += (double)x->count;
        out->gathered += (double)x->count * gathers(p, x);
        if (x->tied) out->tied += (double)x->count;
    }
    if (rank > 0) return OK;
    out->hidden = (double)g->config.hidden;
    out->layers = (double)g->config.layers;
    out->micros = p->o.micros;
done:
    return result;
}

static void run(const char *name, const scenario *s, traffic *out)
{
    memset(out, 0, sizeof *out);
    crew_run(name, s, true, measure, out);
    for (int r = 0; r < crew_ranks(s); r++)
        for (int k = 0; k < PROCESS_GROUPS; k++)
            if (fabs(out->run[r][k] - out->planned[r][k]) > 1e-6 * (1 + out->planned[r][k]))
                fail_msg("%s: rank %d sends %.3f bytes over %s, the plan says %.3f", name, r,
                         out->run[r][k], process_group_name(k), out->planned[r][k]);
}

typedef struct named_strategy {
    const char *name;
    scenario s;
} named_strategy;

static void test_every_rank_sends_what_its_plan_says(void **state)
{
    (void)state;
    static const named_strategy cases[] = {
        {"ddp on 3", {.replicate = 3, .global = 6}},
        {"zero1", {.shard = 4, .inner = "zero1"}},
        {"zero2, every micro-batch", {.shard = 2, .inner = "zero2", .sync = true}},
        {"zero2, no_sync", {.shard = 2, .inner = "zero2"}},
        {"zero3", {.shard = 3, .inner = "zero3", .sync = true, .global = 6}},
        {"zero3, no_sync", {.shard = 2, .inner = "zero3"}},
        {"zero3, weights kept for backward",
         {.shard = 2, .inner = "zero3", .reshard = -1, .sync = true}},
        {"zero3, parts among 2", {.shard = 4, .inner = "zero3", .reshard = 2, .sync = true}},
        {"hybrid", {.replicate = 2, .shard = 2, .inner = "zero3", .sync = true}},
        {"zero1 x zero3",
         {.replicate = 2, .shard = 2, .outer = "zero1", .inner = "zero3", .sync = true}},
        {"zero3 x zero3",
         {.replicate = 2, .shard = 2, .outer = "zero3", .inner = "zero3", .sync = true}},
        {"zero1 x ddp", {.replicate = 2, .shard = 2, .outer = "zero1", .inner = "ddp"}},
        {"zero2 in bf16", {.shard = 2, .inner = "zero2", .precision = BF16, .sync = true}},
        {"zero3 in fp16", {.shard = 2, .inner = "zero3", .precision = F16, .sync = true}},
        {"reduced in bf16", {.shard = 2, .inner = "zero2", .reduce = BF16, .sync = true}},
        {"the fp16 hook", {.replicate = 2, .hook = HOOK_FP16}},
        {"PowerSGD", {.replicate = 2, .hook = HOOK_POWERSGD}},
        {"PowerSGD, zero3", {.shard = 2, .inner = "zero3", .hook = HOOK_POWERSGD, .sync = true}},
        {"tp", {.tp = 2}},
        {"tp, recomputed", {.tp = 2, .keep = RECOMPUTE_FULL, .precision = BF16}},
        {"sequence parallel", {.tp = 2, .sequence = true, .micro = 2}},
        {"tp of a llama", {.model = "llama_gqa", .tp = 2, .sequence = true, .micro = 2}},
        {"gpipe", {.pp = 2, .order = PIPE_GPIPE}},
        {"1f1b", {.pp = 2, .order = PIPE_1F1B}},
        {"interleaved", {.pp = 2, .order = PIPE_INTERLEAVED, .chunks = 2}},
        {"zero-bubble", {.pp = 2, .order = PIPE_ZB}},
        {"pipeline of zero3", {.pp = 2, .shard = 2, .inner = "zero3", .sync = true}},
        {"pipeline of zero2", {.pp = 2, .shard = 2, .inner = "zero2", .sync = true}},
        {"3d", {.pp = 2, .shard = 2, .tp = 2, .inner = "zero3", .micro = 2}},
        {"gradients in a file",
         {.shard = 2, .inner = "zero2", .gradients = TIER_FILE, .optimizer = TIER_FILE}},
        {"all in files",
         {.shard = 2,
          .inner = "zero3",
          .weights = TIER_FILE,
          .gradients = TIER_FILE,
          .optimizer = TIER_FILE}},
    };
    traffic out;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) run(cases[i].name, &cases[i].s, &out);
}

// ---- Closed forms. N ranks, M micro-batches of B sequences of T tokens, W weights, H columns.

static void expect(const char *name, const traffic *t, int link, double bytes)
{
    assert_true(bytes > 0);
    if (fabs(t->run[0][link] - bytes) > 1e-9 * bytes)
        fail_msg("%s: %.3f bytes over %s, the closed form says %.3f", name, t->run[0][link],
                 process_group_name(link), bytes);
}

// Every dimension of this model divides by 4, so that parts are equal.
static void test_policies_send_their_closed_forms(void **state)
{
    (void)state;
    traffic t;
    for (int n = 2; n <= 4; n += 2) {
        const double part = (n - 1.0) / n;
        run("ddp", &(scenario){.replicate = n}, &t);
        expect("ddp", &t, AXIS_DP_REPLICATE, 2 * part * 4 * t.elements);
        for (int bf16 = 0; bf16 < 2; bf16++) {
            const double w = bf16 ? 2 : 4;
            scenario s = {.shard = n, .inner = "zero1", .precision = bf16 ? BF16 : F32};
            run("zero1", &s, &t);
            expect("zero1", &t, AXIS_DP_SHARD, part * (4 + w) * t.elements);
            s.inner = "zero2", s.sync = true;
            run("zero2", &s, &t);
            expect("zero2", &t, AXIS_DP_SHARD, part * (t.micros * 4 + w) * t.elements);
            s.inner = "zero3";
            run("zero3", &s, &t);
            expect("zero3", &t, AXIS_DP_SHARD, part * (w * t.gathered + t.micros * 4 * t.elements));
            // Once a step where gradients are summed on each rank first.
            s.sync = false;
            run("zero3, no_sync", &s, &t);
            expect("zero3, no_sync", &t, AXIS_DP_SHARD, part * (w * t.gathered + 4 * t.elements));
        }
    }
}

// Shards are reduced among themselves, then what is left of them among their copies.
static void test_a_hybrid_sends_its_closed_form(void **state)
{
    (void)state;
    traffic t;
    scenario s = {.shard = 2, .replicate = 2, .inner = "zero3", .sync = true};
    run("hybrid", &s, &t);
    expect("hybrid", &t, AXIS_DP_SHARD, 0.5 * 4 * (t.gathered + t.micros * t.elements));
    expect("hybrid", &t, AXIS_DP_REPLICATE, 2 * 0.5 * 4 * t.elements / 2);
    expect("the agreement of a step", &t, GROUP_WORLD, 2 * 0.75 * sizeof(double) * SUMS);
}

// Per micro-batch: two sums forward and two backward in each layer, one for the vocabulary's table
// and one for the gradient of its product (Megatron's f and g); three numbers a row for the loss.
static void test_tensor_parallel_sends_its_closed_form(void **state)
{
    (void)state;
    traffic t;
    for (int n = 2; n <= 4; n += 2) {
        run("tp", &(scenario){.tp = n, .micro = 2}, &t);
        const double rows = 2 * TOKENS, sums = 4 * t.layers + 2;
        expect("tp", &t, AXIS_TP,
               t.micros * (sums * 2 * (n - 1.0) / n * 4 * rows * t.hidden + (n - 1.0) * 12 * rows));
    }
}

// The first stage, per micro-batch: the stream forward after each of its chunks, its gradient
// backward before each but the first. What two stages have of shared weights is summed once.
static void test_pipelines_send_their_closed_form(void **state)
{
    (void)state;
    traffic t;
    for (int k = 0; k < PIPE_SCHEDULES; k++) {
        const int chunks = k == PIPE_INTERLEAVED ? 2 : 1;
        scenario s = {.pp = 2, .order = (pipeline_schedule)k, .chunks = chunks};
        run("pp", &s, &t);
        expect("pp", &t, AXIS_PP, t.micros * (2 * chunks - 1) * 4 * TOKENS * t.hidden);
        expect("tied weights", &t, GROUP_TIED, 4 * t.tied);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_rank_sends_what_its_plan_says),
        cmocka_unit_test(test_policies_send_their_closed_forms),
        cmocka_unit_test(test_a_hybrid_sends_its_closed_form),
        cmocka_unit_test(test_tensor_parallel_sends_its_closed_form),
        cmocka_unit_test(test_pipelines_send_their_closed_form),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
