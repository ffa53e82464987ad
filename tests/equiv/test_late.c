// test_late.c -- the trainer on a device whose streams run late and in the least convenient order.
// The results must have the same bits as on the cpu device. If one event wait is left out, they must
// differ.
#include "../unit/train/golden.h"
#include "late/late_device.h"

#include "comm/registry.h"
#include "patience.h"

#include <pthread.h>

enum { STEPS = 3, RANKS = 3 };

// ---- A device that leaves out its n-th wait.

typedef struct forgetful {
    device_ops ops;
    const device_ops *real;
    int forget; // number of the wait to leave out, from 0; -1: none
    int waits;
} forgetful;

// d->ops points to the first member of a forgetful.
static void forget_wait(device_stream *s, device_event *v)
{
    forgetful *f = (forgetful *)(uintptr_t)s->device->ops;
    if (f->waits++ == f->forget) return;
    f->real->wait(s, v);
}

static void make_forgetful(forgetful *f, device *d, int forget)
{
    *f = (forgetful){.ops = *d->ops, .real = d->ops, .forget = forget};
    f->ops.wait = forget_wait;
    d->ops = &f->ops;
}

// ---- One run: STEPS steps, then the losses and a digest of all weights.

typedef struct outcome {
    double loss[STEPS], norm[STEPS];
    uint64_t digest;
    int waits;
    bool failed;
} outcome;

static uint64_t weights_digest(trainer *t)
{
    uint64_t sum = 0;
    const model *m = trainer_get_model(t);
    for (int p = 0; p < m->params; p++) {
        float *w = calloc((size_t)m->param[p].count, sizeof *w); // only rank 0 receives weights
        CHECK(trainer_read_state(t, STATE_WEIGHT, p, w, e));
        for (int64_t i = 0; i < m->param[p].count; i++) {
            uint32_t word;
            memcpy(&word, &w[i], 4);
            sum = sum * 0x9E3779B97F4A7C15u + word;
        }
        free(w);
    }
    return sum;
}

static void run_steps(golden *g, dtype precision, outcome *out)
{
    trainer *t = NULL;
    trainer_options o =
        golden_options(g, UPDATE_ADAMW, precision, g->config.family->reads_vectors ? 4 : 1);
    o.checks.replicas_every = 1;
    if (trainer_open(&o, &t, NULL) != OK) out->failed = true;
    for (int s = 0; s < STEPS && !out->failed; s++) {
        trainer_step_result r = {0};
        out->failed = trainer_step(t, false, &r, NULL) != OK;
        out->loss[s] = r.loss, out->norm[s] = r.grad_norm;
    }
    if (!out->failed) out->digest = weights_digest(t);
    trainer_close(t);
}

static device *open_device(int order)
{
    device *d = NULL;
    device_options o = {.threads = 1};
    if (order < 0)
        CHECK(device_open("cpu", &o, &d, e));
    else
        CHECK(late_device_open((late_order)order, &o, &d, e));
    return d;
}

// order is a late_order, or -1 for the cpu device.
static outcome run_alone(const char *name, dtype precision, int order, int forget)
{
    golden g = {0};
    forgetful f;
    outcome out = {0};
    golden_open(&g, name, 1);
    device_close(g.device);
    g.device = open_device(order);
    const device_ops *real = g.device->ops;
    make_forgetful(&f, g.device, forget);
    run_steps(&g, precision, &out);
    out.waits = f.waits;
    g.device->ops = real;
    golden_close(&g);
    return out;
}

static void assert_same(const outcome *a, const outcome *b)
{
    assert_false(a->failed || b->failed);
    assert_memory_equal(a->loss, b->loss, sizeof a->loss);
    assert_memory_equal(a->norm, b->norm, sizeof a->norm);
    assert_true(a->digest == b->digest);
}

static const char *const models[] = {"gpt2_new", "llama_llama3", "mlp_classes"};

static void test_late_streams_give_the_same_bits(void **state)
{
    (void)state;
    for (int m = 0; m < 3; m++)
        for (int p = 0; p < 2; p++) {
            outcome want = run_alone(models[m], p ? BF16 : F32, -1, -1);
            outcome first = run_alone(models[m], p ? BF16 : F32, LATE_OTHERS_FIRST, -1);
            outcome last = run_alone(models[m], p ? BF16 : F32, LATE_OTHERS_LAST, -1);
            assert_same(&first, &want);
            assert_same(&last, &want);
        }
}

// Leaves out one wait after the other and counts the omissions that change the result. An omission
// changes nothing if the event was never recorded or another wait covers its work.
static void test_a_missing_wait_is_noticed(void **state)
{
    (void)state;
#ifdef __SANITIZE_THREAD__
    skip(); // a missing wait is a data race, which the sanitizer reports
#endif
    outcome want = run_alone("mlp_values", F32, -1, -1);
    int noticed = 0;
    for (int w = 0; w < want.waits; w++) {
        outcome first = run_alone("mlp_values", F32, LATE_OTHERS_FIRST, w);
        outcome last = run_alone("mlp_values", F32, LATE_OTHERS_LAST, w);
        bool same_first = !first.failed && first.digest == want.digest &&
                          !memcmp(first.loss, want.loss, sizeof want.loss);
        bool same_last = !last.failed && last.digest == want.digest &&
                         !memcmp(last.loss, want.loss, sizeof want.loss);
        noticed += !(same_first && same_last);
    }
    print_message("%d of %d event waits are noticed when left out\n", noticed, want.waits);
    assert_true(noticed > 0);
}

// ---- Several ranks, as threads, each with its own late device.

typedef struct rank_arg {
    world *world;
    int rank, order;
    outcome out;
} rank_arg;

static void *rank_thread(void *arg)
{
    rank_arg *a = arg;
    golden g = {0};
    golden_open(&g, "gpt2_new", 1);
    comm_close(g.comm);
    device_close(g.device);
    g.device = open_device(a->order);
    if (comm_open("auto", test_world_options(a->world, a->rank, g.device), &g.comm, NULL) == OK)
        run_steps(&g, F32, &a->out);
    else
        a->out.failed = true;
    golden_close(&g);
    return NULL;
}

static void run_ranks(int order, outcome out[RANKS])
{
    world *w = NULL;
    pthread_t thread[RANKS];
    rank_arg arg[RANKS];
    CHECK(test_world_open(RANKS, true, &w, e));
    for (int r = 0; r < RANKS; r++) {
        arg[r] = (rank_arg){.world = w, .rank = r, .order = order};
        assert_int_equal(pthread_create(&thread[r], NULL, rank_thread, &arg[r]), 0);
    }
    for (int r = 0; r < RANKS; r++) {
        pthread_join(thread[r], NULL);
        out[r] = arg[r].out;
    }
    world_close(w);
}

static void test_late_ranks_give_the_same_bits(void **state)
{
    (void)state;
    outcome want[RANKS], got[RANKS];
    run_ranks(-1, want);
    for (int order = LATE_OTHERS_FIRST; order <= LATE_OTHERS_LAST; order++) {
        run_ranks(order, got);
        for (int r = 0; r < RANKS; r++) {
            assert_same(&got[r], &want[r]);
            // The trainer compares the replicas in every step. Only rank 0 reads full weights.
            assert_memory_equal(got[r].loss, want[0].loss, sizeof got[r].loss);
        }
    }
}

static void test_ranks_equal_one_rank(void **state)
{
    (void)state;
    outcome many[RANKS], one = run_alone("gpt2_new", F32, -1, -1);
    run_ranks(-1, many);
    for (int s = 0; s < STEPS; s++)
        assert_true(fabs(many[0].loss[s] - one.loss[s]) <= 1e-5 * one.loss[s]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_late_streams_give_the_same_bits),
        cmocka_unit_test(test_a_missing_wait_is_noticed),
        cmocka_unit_test(test_late_ranks_give_the_same_bits),
        cmocka_unit_test(test_ranks_equal_one_rank),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
