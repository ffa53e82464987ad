// test_context_parallel.c -- trainers whose ranks have two chunks of each sequence: evaluation and
// predictions equal those of one rank, and ten training steps equal PyTorch's, whose attention reads
// the whole sequence. Ranks are threads.
#include "golden.h"

#include "comm/registry.h"
#include "infer/evaluate.h"
#include "infer/predict.h"
#include "patience.h"
#include "train/trainer_private.h"

#include <pthread.h>

enum { STEPS = 10, SAMPLES = 7, VALID = 20, MICRO = 3, MOST_RANKS = 4, WHATS = 4 };

typedef struct shape {
    const char *model;
    int cp, tp;
    bool sequence;
    const char *policy; // over dp_shard x cp
    recompute_mode recompute;
} shape;

// What a run computes; rank 0 stores it.
typedef struct results {
    double evaluated, tokens, loss[STEPS], norm[STEPS], trained_tokens;
    void *predicted[WHATS];
    size_t bytes[WHATS];
} results;

typedef struct run {
    const shape *s;
    world *world;
    results out;
    pthread_mutex_t lock;
    char problem[400]; // the first failure
} run;

static const infer_predict_options whats[WHATS] = {{.what = PREDICT_LOGITS},
                                                   {.what = PREDICT_LOGITS, .last = true},
                                                   {.what = PREDICT_CLASSES},
                                                   {.what = PREDICT_VECTORS}};

static status predict_all(trainer *t, const golden *g, results *out, err *e)
{
    status result = OK;
    const int64_t seq = g->data.base.shape.inputs;
    int32_t *inputs = malloc((size_t)(SAMPLES * seq) * sizeof *inputs);
    for (int i = 0; i < SAMPLES; i++)
        memcpy(inputs + i * seq, g->data.inputs + i * g->data.input_row, (size_t)seq * 4);
    for (int k = 0; k < WHATS; k++) {
        infer_prediction_shape x;
        TRY(infer_predict_shape(t, &whats[k], &x, e));
        out->bytes[k] = (size_t)(SAMPLES * x.positions * x.cols) * 4;
        out->predicted[k] = malloc(out->bytes[k]);
        TRY(infer_predict(t, &whats[k], inputs, SAMPLES, out->predicted[k], e));
    }
done:
    free(inputs);
    return result;
}

static void clear(results *x)
{
    for (int k = 0; k < WHATS; k++) free(x->predicted[k]);
}

static status work(golden *g, trainer *t, results *out, err *e)
{
    status result = OK;
    TRY(infer_evaluate(t, 0, &out->evaluated, &out->tokens, e));
    TRY(predict_all(t, g, out, e));
    for (int i = 0; i < STEPS; i++) {
        trainer_step_result s;
        TRY(trainer_step(t, false, &s, e));
        out->loss[i] = s.loss, out->norm[i] = s.grad_norm;
        out->trained_tokens += s.tokens;
    }
done:
    return result;
}

typedef struct member {
    run *r;
    int rank;
} member;

static void *member_main(void *arg)
{
    const member *m = arg;
    const shape *s = m->r->s;
    golden g = {0};
    trainer *t = NULL;
    results local = {0}, *out = m->rank == 0 ? &m->r->out : &local;
    err why = {0}, *e = &why;
    status result = OK;
    golden_open(&g, s->model, 1);
    comm_close(g.comm);
    g.comm = NULL;
    TRY(comm_open("auto", test_world_options(m->r->world, m->rank, g.device), &g.comm, e));
    trainer_options o = golden_options(&g, UPDATE_ADAMW, F32, MICRO);
    o.mesh.size[AXIS_DP_REPLICATE] = 1;
    o.mesh.size[AXIS_CP] = s->cp, o.mesh.size[AXIS_TP] = s->tp;
    o.strategy.dp.inner = *policy_find(s->policy);
    o.strategy.sequence_parallel = s->sequence;
    o.strategy.recompute = s->recompute;
    golden_data valid = g.data;
    valid.base.samples = VALID; // padding rows fill the last micro-batch
    o.valid = &valid.base;
    TRY(trainer_open(&o, &t, e));
    TRY(work(&g, t, out, e));
done:
    if (result != OK) {
        pthread_mutex_lock(&m->r->lock);
        if (!m->r->problem[0]) snprintf(m->r->problem, sizeof m->r->problem, "%.390s", why.text);
        pthread_mutex_unlock(&m->r->lock);
        if (g.comm) comm_abort(g.comm, e);
    }
    clear(&local);
    trainer_close(t);
    golden_close(&g);
    return NULL;
}

static void train_shape(const shape *s, results *out)
{
    run r = {.s = s, .lock = PTHREAD_MUTEX_INITIALIZER};
    pthread_t thread[MOST_RANKS];
    member arg[MOST_RANKS];
    const int ranks = s->cp * s->tp;
    CHECK(test_world_open(ranks, true, &r.world, e));
    for (int i = 0; i < ranks; i++) {
        arg[i] = (member){&r, i};
        assert_int_equal(pthread_create(&thread[i], NULL, member_main, &arg[i]), 0);
    }
    for (int i = 0; i < ranks; i++) pthread_join(thread[i], NULL);
    world_close(r.world);
    if (r.problem[0]) fail_msg("%s, cp %d, tp %d: %s", s->model, s->cp, s->tp, r.problem);
    *out = r.out;
}

static void check_predictions(const shape *s, const results *one, const results *many)
{
    for (int k = 0; k < WHATS; k++) {
        assert_int_equal(one->bytes[k], many->bytes[k]);
        if (whats[k].what == PREDICT_CLASSES)
            assert_memory_equal(one->predicted[k], many->predicted[k], one->bytes[k]);
        const float *a = one->predicted[k], *b = many->predicted[k];
        for (size_t i = 0; whats[k].what != PREDICT_CLASSES && i < one->bytes[k] / 4; i++)
            if (!(fabsf(a[i] - b[i]) <= 1e-5f * (1 + fabsf(a[i]))))
                fail_msg("%s, cp %d, tp %d: prediction %d, element %zu is %.9g, one rank has %.9g",
                         s->model, s->cp, s->tp, k, i, b[i], a[i]);
    }
}

static void check_near(const shape *s, const char *what, double got, double want, double tolerance)
{
    if (!(fabs(got - want) <= tolerance * fabs(want)))
        fail_msg("%s, cp %d, tp %d: %s is %.9g, expected %.9g", s->model, s->cp, s->tp, what, got,
                 want);
}

static void compare(shape s)
{
    results one, many;
    golden g = {0};
    const shape alone = {.model = s.model, .cp = 1, .tp = 1, .policy = "ddp"};
    train_shape(&alone, &one);
    train_shape(&s, &many);
    check_near(&s, "evaluated loss", many.evaluated, one.evaluated, 1e-6);
    assert_true(many.tokens == one.tokens);
    assert_true(many.trained_tokens == one.trained_tokens);
    check_predictions(&s, &one, &many);
    golden_open(&g, s.model, 1);
    const float *losses = golden_tensor(&g, "losses")->data,
                *norms = golden_tensor(&g, "norms")->data;
    for (int i = 0; i < STEPS; i++) {
        check_near(&s, "loss", many.loss[i], losses[i], 1e-5);
        check_near(&s, "gradient norm", many.norm[i], norms[i], 1e-4);
    }
    golden_close(&g);
    clear(&one);
    clear(&many);
}

static void test_two_ranks_equal_one_and_pytorch(void **state)
{
    (void)state;
    compare((shape){.model = "gpt2_new", .cp = 2, .tp = 1, .policy = "ddp"});
    compare((shape){.model = "llama_gqa", .cp = 2, .tp = 1, .policy = "zero3"});
    compare((shape){
        .model = "llama_llama3", .cp = 2, .tp = 1, .policy = "zero1", .recompute = RECOMPUTE_FULL});
}

static void test_four_ranks_equal_one_and_pytorch(void **state)
{
    (void)state;
    compare((shape){.model = "gpt2_new", .cp = 4, .tp = 1, .policy = "zero2"});
    compare((shape){.model = "llama_gqa", .cp = 4, .tp = 1, .policy = "ddp"});
}

static void test_tensor_parallel_ranks_equal_one_and_pytorch(void **state)
{
    (void)state;
    compare((shape){.model = "gpt2_new", .cp = 2, .tp = 2, .policy = "ddp"});
    compare((shape){.model = "llama_gqa", .cp = 2, .tp = 2, .sequence = true, .policy = "zero3"});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_ranks_equal_one_and_pytorch),
        cmocka_unit_test(test_four_ranks_equal_one_and_pytorch),
        cmocka_unit_test(test_tensor_parallel_ranks_equal_one_and_pytorch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
