// lives.h -- the life of a trainer, for tests that compare devices: training, evaluation, prediction, a
// checkpoint, and a second trainer that resumes from it. A life is numbers and digests of bits.
#ifndef TRIREME_TESTS_EQUIV_LIVES_H
#define TRIREME_TESTS_EQUIV_LIVES_H

#include "equiv/workers.h"

#include "base/file.h"
#include "infer/evaluate.h"
#include "infer/predict.h"

enum { LIFE_STEPS = 3, LIFE_SAMPLES = 3 };

typedef struct life {
    double loss[2 * LIFE_STEPS],
        norm[2 * LIFE_STEPS]; // of the first trainer, then of the second one
    double valid_loss, tokens;
    uint64_t predicted, weights, state; // digests
} life;

static inline void life_add_bytes(uint64_t *digest, const void *x, size_t bytes)
{
    const unsigned char *byte = x;
    for (size_t i = 0; i < bytes; i++) *digest = (*digest ^ byte[i]) * 0x100000001b3u;
}

static inline status life_add_state(trainer *t, trainer_state_kind part, uint64_t *digest, err *e)
{
    status result = OK;
    const model *m = trainer_get_model(t);
    float *x = NULL;
    for (int p = 0; p < m->params; p++) {
        free(x);
        x = calloc((size_t)m->param[p].count, sizeof *x); // only rank 0 receives
        TRY(trainer_read_state(t, part, p, x, e));
        life_add_bytes(digest, x, (size_t)m->param[p].count * sizeof *x);
    }
done:
    free(x);
    return result;
}

static inline status life_run_steps(trainer *t, double *loss, double *norm, err *e)
{
    status result = OK;
    for (int i = 0; i < LIFE_STEPS; i++) {
        trainer_step_result r = {0};
        TRY(trainer_step(t, false, &r, e));
        loss[i] = r.loss, norm[i] = r.grad_norm;
    }
done:
    return result;
}

static inline status life_predict(golden *g, trainer *t, infer_prediction what, uint64_t *digest,
                                  err *e)
{
    status result = OK;
    const dataset_shape *s = &g->data.base.shape;
    const infer_predict_options o = {.what = what};
    const size_t row = (size_t)s->inputs * 4;
    infer_prediction_shape shape;
    char *inputs = malloc(LIFE_SAMPLES * row), *labels = malloc((size_t)s->labels * 4);
    void *out = NULL;
    TRY(infer_predict_shape(t, &o, &shape, e));
    const size_t bytes = (size_t)(LIFE_SAMPLES * shape.positions * shape.cols) * 4;
    out = calloc(1, bytes);
    for (int i = 0; i < LIFE_SAMPLES; i++)
        TRY(g->data.base.read(&g->data.base, (uint64_t)i, inputs + (size_t)i * row, labels, e));
    TRY(infer_predict(t, &o, inputs, LIFE_SAMPLES, out, e));
    life_add_bytes(digest, out, bytes);
done:
    free(inputs);
    free(labels);
    free(out);
    return result;
}

typedef struct lives {
    life life;       // of rank 0
    char folder[64]; // of the run
    char *saved;     // the checkpoint
} lives;

static inline status life_train_and_save(worker_group *all, int rank, golden *g, trainer *t, err *e)
{
    status result = OK;
    lives *given = all->given;
    life other = {.tokens = 0}, *out = rank == 0 ? &given->life : &other;
    const trainer_save_options save = {.out = given->folder, .config_json = "{}"};
    TRY(life_run_steps(t, out->loss, out->norm, e));
    TRY(trainer_check_replicas(t, e));
    TRY(infer_evaluate(t, 0, &out->valid_loss, &out->tokens, e));
    if (!g->config.family->reads_vectors || g->data.base.shape.label_type == I32) {
        TRY(life_predict(g, t, PREDICT_LOGITS, &out->predicted, e));
        TRY(life_predict(g, t, PREDICT_CLASSES, &out->predicted, e));
    }
    TRY(life_predict(g, t, PREDICT_VECTORS, &out->predicted, e));
    TRY(trainer_save(t, &save, rank == 0 ? &given->saved : NULL, e));
    TRY(life_add_state(t, STATE_GRADIENT, &out->state, e));
done:
    return result;
}

static inline status life_resume(worker_group *all, int rank, golden *g, trainer *t, err *e)
{
    status result = OK;
    lives *given = all->given;
    life other = {.tokens = 0}, *out = rank == 0 ? &given->life : &other;
    (void)g;
    TRY(trainer_resume(t, given->saved, e));
    TRY(life_run_steps(t, out->loss + LIFE_STEPS, out->norm + LIFE_STEPS, e));
    TRY(life_add_state(t, STATE_WEIGHT, &out->weights, e));
    TRY(life_add_state(t, STATE_M, &out->state, e));
    TRY(life_add_state(t, STATE_V, &out->state, e));
    TRY(life_add_state(t, STATE_AVERAGE, &out->state, e));
done:
    return result;
}

// Lives as the scenario says. A failure fails the test and names `name`.
static inline life life_live(const char *name, const scenario *s)
{
    lives all = {.folder = "/tmp/trireme-lives.XXXXXX"};
    scenario x = *s;
    x.ema = 0.75;
    assert_non_null(mkdtemp(all.folder));
    workers_run(name, &x, false, life_train_and_save, &all);
    workers_run(name, &x, false, life_resume, &all);
    CHECK(file_remove_tree(all.folder, e));
    free(all.saved);
    return all.life;
}

#endif
