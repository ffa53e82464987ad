// test_recordings.c -- a step that is recorded once and replayed: ten steps on the unkind device have the
// same bits as ten steps that are issued, and the host issues next to nothing. Numbers that differ from
// step to step are read from device memory: if they stay as they were recorded, the bits differ.
#include "workers.h"

#include "unkind/unkind_device.h"

enum { STEPS = 10 };

typedef struct outcome {
    double loss[STEPS], norm[STEPS], lr[STEPS];
    uint64_t weights;         // digest of all of them
    uint64_t launches[STEPS]; // by the host
} outcome;

static _Atomic bool
    keeps_all; // what copy_but_numbers leaves out: nothing until the first step has ended

// Of all weights; 0 on the ranks after the first. Collective over the trainer's ranks.
static status digest(trainer *t, int rank, uint64_t *sum, err *e)
{
    status result = OK;
    const model *m = trainer_get_model(t);
    for (int p = 0; p < m->params && result == OK; p++) {
        float *w = rank == 0 ? calloc((size_t)m->param[p].count, sizeof *w) : NULL;
        result = trainer_read_state(t, STATE_WEIGHT, p, w, e);
        for (int64_t i = 0; w && i < m->param[p].count; i++) {
            uint32_t word;
            memcpy(&word, &w[i], sizeof word);
            *sum = *sum * 0x9E3779B97F4A7C15u + word;
        }
        free(w);
    }
    return result;
}

static status train_steps(golden *g, trainer *t, int rank, outcome *out, err *e)
{
    status result = OK;
    for (int i = 0; i < STEPS; i++) {
        trainer_step_result step = {0};
        const uint64_t before = g->device->launches;
        TRY(trainer_step(t, false, &step, e));
        keeps_all = false;
        out->loss[i] = step.loss, out->norm[i] = step.grad_norm, out->lr[i] = step.lr;
        out->launches[i] = g->device->launches - before;
    }
    keeps_all = true;
    TRY(digest(t, rank, &out->weights, e));
done:
    return result;
}

// ---- The numbers of a step stay as they were in the first step

static device_ops stale;

// The numbers are the only copy that the compute stream makes in a step of a model that reads tokens.
static void copy_but_numbers(device_stream *s, void *dst, const void *src, size_t bytes)
{
    if (keeps_all || s->kind != STREAM_COMPUTE || bytes < sizeof(kernel_step) || bytes > 512)
        late_copy(s, dst, src, bytes);
}

typedef struct recorded_run {
    scenario s;
    late_order order;
    bool issues, is_stale;
} recorded_run;

static outcome train(const recorded_run *r)
{
    outcome out = {.weights = 0};
    golden g = {0};
    param_group group[2];
    trainer *t = NULL;
    char folder[] = "/tmp/unused";
    golden_open(&g, r->s.model ? r->s.model : "gpt2_new", 1);
    device_close(g.device);
    CHECK(unkind_device_open(&(unkind_options){.order = r->order}, &g.device, e));
    if (r->is_stale) {
        stale = *g.device->ops;
        stale.copy = copy_but_numbers;
        g.device->ops = &stale;
    }
    trainer_options o = workers_options(&g, &r->s, folder, group);
    o.lr.name = LR_COSINE;
    o.lr.warmup_steps = 3;
    o.lr.total_steps = STEPS;
    o.checks.issues_every_step = r->issues;
    keeps_all = true;
    CHECK(trainer_open(&o, &t, e));
    CHECK(train_steps(&g, t, 0, &out, e));
    if (unkind_broken(g.device)) fail_msg("%s", unkind_broken(g.device));
    trainer_close(t);
    golden_close(&g);
    return out;
}

static bool is_equal(const outcome *a, const outcome *b)
{
    return memcmp(a->loss, b->loss, sizeof a->loss) == 0 &&
           memcmp(a->norm, b->norm, sizeof a->norm) == 0 && a->weights == b->weights;
}

static const scenario RECORDED[] = {
    {.apart = true},
    {.apart = true, .precision = BF16, .keep = RECOMPUTE_FULL},
    {.apart = true, .precision = F16, .model = "llama_gqa"},
    {.apart = true, .inner = "zero3", .match = "*.mlp.*", .match_inner = "zero3", .freezes = true},
    {.apart = true,
     .inner = "zero3",
     .weights = TIER_HOST,
     .gradients = TIER_HOST,
     .optimizer = TIER_HOST},
};

static void test_ten_replayed_steps_have_the_bits_of_ten_issued_ones(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof RECORDED / sizeof *RECORDED; k++)
        for (int order = 0; order < 2; order++) {
            if (!workers_take(k, order)) continue;
            recorded_run r = {.s = RECORDED[k], .order = (late_order)order, .issues = true};
            const outcome issued = train(&r);
            r.issues = false;
            const outcome replayed = train(&r);
            if (!is_equal(&issued, &replayed))
                fail_msg("scenario %zu, order %d: the replayed steps have other bits", k, order);
            for (int i = 1; i < STEPS; i++) {
                assert_true(issued.launches[i] >= 40);
                assert_int_equal(replayed.launches[i], 0);
                assert_true(i < 4 || issued.lr[i] != issued.lr[i - 1]);
            }
        }
}

// ---- Several ranks, whose communicator's calls are recorded, too

static const scenario RANKS[] = {
    {.replicate = 2},
    {.shard = 2, .inner = "zero3"},
    {.replicate = 2, .shard = 2, .inner = "zero3", .precision = BF16},
    {.shard = 2, .inner = "zero2", .sync = true, .optimizer = TIER_HOST},
    {.tp = 2, .sequence = true, .shard = 2, .inner = "zero1"},
    {.cp = 2, .model = "llama_gqa"},
    {.pp = 2, .order = PIPE_1F1B},
    {.pp = 2, .order = PIPE_GPIPE},
    {.pp = 2, .order = PIPE_1F1B, .shard = 2, .inner = "zero3"},
    {.pp = 2, .order = PIPE_INTERLEAVED, .chunks = 2},
    {.pp = 4, .order = PIPE_ZB},
};

static status train_rank(worker_group *all, int rank, golden *g, trainer *t, err *e)
{
    outcome *out = all->given;
    return train_steps(g, t, rank, &out[rank], e);
}

static void test_several_ranks_replay_the_bits_that_they_would_issue(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof RANKS / sizeof *RANKS; k++)
        for (int order = 0; order < 2; order++) {
            if (!workers_take(k, order)) continue;
            scenario s = RANKS[k];
            outcome issued[WORKERS_MOST], replayed[WORKERS_MOST];
            memset(issued, 0, sizeof issued);
            memset(replayed, 0, sizeof replayed);
            s.unkind = true, s.late_order = order, s.issues = true;
            workers_run("issued", &s, false, train_rank, issued);
            s.issues = false;
            workers_run("replayed", &s, false, train_rank, replayed);
            for (int r = 0; r < workers_ranks(&s); r++) {
                if (!is_equal(&issued[r], &replayed[r]))
                    fail_msg("scenario %zu, order %d, rank %d: other bits", k, order, r);
                for (int i = 1; i < STEPS; i++) {
                    assert_true(issued[r].launches[i] > 0);
                    assert_int_equal(replayed[r].launches[i], 0);
                }
            }
        }
}

static void test_numbers_that_stay_as_they_were_recorded_are_noticed(void **state)
{
    (void)state;
    recorded_run r = {.s = RECORDED[0], .order = LATE_OTHERS_LAST};
    const outcome right = train(&r);
    r.is_stale = true;
    const outcome wrong = train(&r);
    assert_true(right.loss[0] == wrong.loss[0]);
    assert_memory_not_equal(right.loss, wrong.loss, sizeof right.loss);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ten_replayed_steps_have_the_bits_of_ten_issued_ones),
        cmocka_unit_test(test_several_ranks_replay_the_bits_that_they_would_issue),
        cmocka_unit_test(test_numbers_that_stay_as_they_were_recorded_are_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
