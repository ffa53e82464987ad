// test_traffic.c -- the bytes that every rank sends in a step. A counting communicator must count
// exactly the bytes that the plan states, and both must equal the closed form of each policy.
#include "workers.h"

#include "optim/clip.h"
#include "parallel/traffic.h"

enum { TOKENS = 16 }; // tokens in a sequence of gpt2_new

typedef struct traffic {
    double run[WORKERS_MOST][PROCESS_GROUPS], planned[WORKERS_MOST][PROCESS_GROUPS]; // of one step
    double elements, gathered; // of the weights, and of all all-gathers of zero3 (on rank 0)
    double tied, hidden, layers, micros;
    mesh mesh;
} traffic;

// Returns how often zero3 all-gathers a weight in a step: once for each forward and once for each
// backward. The weights of the last block stay from its forward to its backward, and those of the
// first block stay from its backward to the next forward.
static double gathers(const plan *p, const plan_row *r)
{
    const double m = p->o.micros;
    const int last = p->o.blocks - 1;
    const bool at_end = plan_block_uses(p, last, r->bucket); // also true of tied weights
    if (plan_block_uses(p, 0, r->bucket)) return at_end ? 2 * m + 1 : m + 1;
    return at_end ? m : 2 * m;
}

static status measure(worker_group *all, int rank, golden *g, trainer *t, err *e)
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
        if (x->tied || x->block != x->last_block) out->tied += (double)x->count;
    }
    if (rank > 0) return OK;
    out->hidden = (double)g->config.hidden;
    out->layers = (double)g->config.layers;
    out->micros = p->o.micros;
    out->mesh = p->o.mesh;
done:
    return result;
}

static void run(const char *name, const scenario *s, traffic *out)
{
    char group[MESH_NAME_BYTES];
    memset(out, 0, sizeof *out);
    workers_run(name, s, true, measure, out);
    for (int r = 0; r < workers_ranks(s); r++)
        for (int k = 0; k < PROCESS_GROUPS; k++)
            if (fabs(out->run[r][k] - out->planned[r][k]) > 1e-6 * (1 + out->planned[r][k]))
                fail_msg("%s: rank %d sends %.3f bytes over %s, the plan states %.3f", name, r,
                         out->run[r][k], process_group_name(&out->mesh, k, group),
                         out->planned[r][k]);
}

typedef struct named_strategy {
    const char *name;
    scenario s;
} named_strategy;

static void run_all(const named_strategy *cases, int count)
{
    traffic out;
    for (int i = 0; i < count; i++) run(cases[i].name, &cases[i].s, &out);
}

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
        {"zero3, groups of 2", {.shard = 4, .inner = "zero3", .reshard = 2, .sync = true}},
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
        {"tp beyond key-value heads",
         {.model = "llama_gqa", .tp = 4, .shard = 2, .inner = "zero3", .sync = true}},
        {"cp", {.cp = 2}},
        {"cp, recomputed", {.cp = 4, .keep = RECOMPUTE_FULL, .precision = BF16, .micro = 2}},
        {"cp of a llama", {.model = "llama_gqa", .cp = 2, .keep = RECOMPUTE_SELECTIVE}},
        {"cp with windows", {.model = "mistral", .cp = 4}},
        {"cp with windows in some layers",
         {.model = "gemma2", .cp = 2, .shard = 2, .inner = "zero3", .precision = BF16}},
        {"cp with windows in a zero-bubble pipeline",
         {.model = "mistral", .pp = 2, .cp = 2, .order = PIPE_ZB}},
        {"zero3 over dp_shard x cp", {.shard = 2, .cp = 2, .inner = "zero3", .sync = true}},
        {"hybrid with cp", {.replicate = 2, .shard = 2, .cp = 2, .inner = "zero3"}},
        {"a group over dp_shard alone",
         {.shard = 2, .cp = 2, .inner = "zero3", .match = "*.mlp.*", .shards_only = true}},
        {"cp and sequence parallel", {.cp = 2, .tp = 2, .sequence = true, .micro = 2}},
        {"cp in a zero-bubble pipeline", {.pp = 2, .cp = 2, .order = PIPE_ZB}},
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
    run_all(cases, (int)(sizeof cases / sizeof *cases));
}

static void test_context_parallel_ranks_send_what_their_plan_says(void **state)
{
    (void)state;
    static const named_strategy cases[] = {
        {"cp", {.cp = 2}},
        {"cp, recomputed", {.cp = 4, .keep = RECOMPUTE_FULL, .precision = BF16, .micro = 2}},
        {"cp of a llama", {.model = "llama_gqa", .cp = 2, .keep = RECOMPUTE_SELECTIVE}},
        {"zero3 over dp_shard x cp", {.shard = 2, .cp = 2, .inner = "zero3", .sync = true}},
        {"hybrid with cp", {.replicate = 2, .shard = 2, .cp = 2, .inner = "zero3"}},
        {"cp and sequence parallel", {.cp = 2, .tp = 2, .sequence = true, .micro = 2}},
        {"cp in a zero-bubble pipeline", {.pp = 2, .cp = 2, .order = PIPE_ZB}},
    };
    run_all(cases, (int)(sizeof cases / sizeof *cases));
}

static void test_parameter_groups_send_what_the_plan_says(void **state)
{
    (void)state;
    static const named_strategy cases[] = {
        {"zero3 and ddp",
         {.replicate = 2, .shard = 2, .inner = "zero3", .match = "*.mlp.*", .match_inner = "ddp"}},
        {"zero2 and frozen zero3",
         {.shard = 2,
          .inner = "zero2",
          .match = "*.mlp.*",
          .match_inner = "zero3",
          .freezes = true,
          .sync = true}},
        {"the first layers frozen, pipeline",
         {.pp = 2, .shard = 2, .inner = "zero3", .match = "*.h.0.*", .freezes = true}},
        {"PowerSGD, zero3 and ddp",
         {.shard = 2,
          .inner = "zero3",
          .match = "*.attn.*",
          .match_inner = "ddp",
          .hook = HOOK_POWERSGD}},
        {"PowerSGD, frozen",
         {.replicate = 2, .match = "*.attn.*", .freezes = true, .hook = HOOK_POWERSGD}},
        {"reduced in bf16, zero3 and zero1",
         {.shard = 2,
          .inner = "zero3",
          .match = "*.mlp.*",
          .match_inner = "zero1",
          .reduce = BF16,
          .sync = true}}};
    run_all(cases, (int)(sizeof cases / sizeof *cases));
}

// ---- Closed forms. N ranks, M micro-batches of B sequences of T tokens, W weights, H columns.

static void expect(const char *name, const traffic *t, int group, double bytes)
{
    char word[MESH_NAME_BYTES];
    assert_true(bytes > 0);
    if (fabs(t->run[0][group] - bytes) > 1e-9 * bytes)
        fail_msg("%s: %.3f bytes over %s, the closed form gives %.3f", name, t->run[0][group],
                 process_group_name(&t->mesh, group, word), bytes);
}

// Every dimension of this model is divisible by 4, so that shards are equal. Where each micro-batch is reduced,
// the two uses of tied weights are reduced one by one.
static void test_policies_send_their_closed_forms(void **state)
{
    (void)state;
    traffic t;
    for (int n = 2; n <= 4; n += 2) {
        const double part = (n - 1.0) / n;
        run("ddp", &(scenario){.replicate = n}, &t);
        expect("ddp", &t, MESH_AXIS(AXIS_DP_REPLICATE), 2 * part * 4 * t.elements);
        for (int bf16 = 0; bf16 < 2; bf16++) {
            const double w = bf16 ? 2 : 4;
            scenario s = {.shard = n, .inner = "zero1", .precision = bf16 ? BF16 : F32};
            run("zero1", &s, &t);
            expect("zero1", &t, MESH_AXIS(AXIS_DP_SHARD), part * (4 + w) * t.elements);
            s.inner = "zero2", s.sync = true;
            run("zero2", &s, &t);
            expect("zero2", &t, MESH_AXIS(AXIS_DP_SHARD),
                   part * (t.micros * 4 * (t.elements + t.tied) + w * t.elements));
            s.inner = "zero3";
            run("zero3", &s, &t);
            expect("zero3", &t, MESH_AXIS(AXIS_DP_SHARD),
                   part * (w * t.gathered + t.micros * 4 * (t.elements + t.tied)));
            // With no_sync, the ranks reduce their gradients once a step.
            s.sync = false;
            run("zero3, no_sync", &s, &t);
            expect("zero3, no_sync", &t, MESH_AXIS(AXIS_DP_SHARD),
                   part * (w * t.gathered + 4 * t.elements));
        }
    }
}

// Gradients are reduce-scattered over dp_shard, then the shards are all-reduced over dp_replicate.
static void test_a_hybrid_sends_its_closed_form(void **state)
{
    (void)state;
    traffic t;
    scenario s = {.shard = 2, .replicate = 2, .inner = "zero3", .sync = true};
    run("hybrid", &s, &t);
    expect("hybrid", &t, MESH_AXIS(AXIS_DP_SHARD),
           0.5 * 4 * (t.gathered + t.micros * (t.elements + t.tied)));
    expect("hybrid", &t, MESH_AXIS(AXIS_DP_REPLICATE), 2 * 0.5 * 4 * t.elements / 2);
    expect("loss and norm", &t, GROUP_WORLD, 2 * 0.75 * sizeof(double) * STEP_SUMS);
}

// Per micro-batch, each layer all-reduces twice forward and twice backward (Megatron's f and g). The
// embedding and the gradient of the head's input add one all-reduce each. The loss takes three
// numbers a row.
static void test_tensor_parallel_sends_its_closed_form(void **state)
{
    (void)state;
    traffic t;
    for (int n = 2; n <= 4; n += 2) {
        run("tp", &(scenario){.tp = n, .micro = 2}, &t);
        const double rows = 2 * TOKENS, sums = 4 * t.layers + 2;
        expect("tp", &t, MESH_AXIS(AXIS_TP),
               t.micros * (sums * 2 * (n - 1.0) / n * 4 * rows * t.hidden + (n - 1.0) * 12 * rows));
    }
}

// Per micro-batch, each layer all-gathers keys and values, B T 2H numbers, twice, and reduce-scatters
// their gradients once. The ranks' gradients are summed as data-parallel ones are.
static void test_context_parallel_sends_its_closed_form(void **state)
{
    (void)state;
    traffic t;
    for (int n = 2; n <= 4; n += 2) {
        const double part = (n - 1.0) / n;
        for (int bf16 = 0; bf16 < 2; bf16++) {
            run("cp", &(scenario){.cp = n, .micro = 2, .precision = bf16 ? BF16 : F32}, &t);
            const double kv = (bf16 ? 2 : 4) * 2 * TOKENS * 2 * t.hidden;
            expect("cp", &t, MESH_AXIS(AXIS_CP),
                   part * (t.micros * t.layers * 3 * kv + 2 * 4 * t.elements));
        }
    }
}

// Per micro-batch, the first stage sends the activations of each of its chunks and the activation
// gradients of each chunk but the first. The first and last stage sum the tied gradients once a step.
static void test_pipelines_send_their_closed_form(void **state)
{
    (void)state;
    traffic t;
    for (int k = 0; k < PIPE_SCHEDULES; k++) {
        const int chunks = k == PIPE_INTERLEAVED ? 2 : 1;
        scenario s = {.pp = 2, .order = (pipeline_schedule)k, .chunks = chunks};
        run("pp", &s, &t);
        expect("pp", &t, MESH_AXIS(AXIS_PP), t.micros * (2 * chunks - 1) * 4 * TOKENS * t.hidden);
        expect("tied weights", &t, GROUP_TIED, 4 * t.tied);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_rank_sends_what_its_plan_says),
        cmocka_unit_test(test_context_parallel_ranks_send_what_their_plan_says),
        cmocka_unit_test(test_parameter_groups_send_what_the_plan_says),
        cmocka_unit_test(test_policies_send_their_closed_forms),
        cmocka_unit_test(test_a_hybrid_sends_its_closed_form),
        cmocka_unit_test(test_tensor_parallel_sends_its_closed_form),
        cmocka_unit_test(test_context_parallel_sends_its_closed_form),
        cmocka_unit_test(test_pipelines_send_their_closed_form),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
