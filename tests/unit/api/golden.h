// golden.h -- for the tests of the library that compare with PyTorch: runs the job of a golden model, and
// compares losses, gradient norms and the weights of the checkpoint. A golden file has the numbers of
// one run under names with a common prefix.
#ifndef TESTS_API_GOLDEN_H
#define TESTS_API_GOLDEN_H

#include "unit/api/fixture.h"

#include "store/safetensors.h"

#include <math.h>
#include <stdio.h>

enum { GOLDEN_STEPS = 10, LAYOUT_KEYS = 16 };

// How the ranks divide the work.
typedef struct layout {
    const char *name;
    const char *like; // the layout before it whose weights it has bit for bit; NULL: none
    const char *key[LAYOUT_KEYS]; // pairs of key and value, ended by NULL
} layout;

typedef struct golden {
    const char *model, *prefix;
    char folder[512];
    safetensors *start, *values; // initial weights, results of PyTorch
} golden;

typedef struct golden_run {
    double loss[GOLDEN_STEPS], norm[GOLDEN_STEPS];
} golden_run;

// The result of PyTorch with this name; NULL: there is none.
static inline const safetensors_tensor *golden_find(const golden *g, const char *name)
{
    char key[400];
    snprintf(key, sizeof key, "%s%s", g->prefix, name);
    return safetensors_find(g->values, key);
}

// `folder` is below tests/golden.
static inline void golden_open(golden *g, const char *folder, const char *prefix)
{
    char path[600];
    err why = {0};
    *g = (golden){.model = folder, .prefix = prefix};
    snprintf(g->folder, sizeof g->folder, "%s/golden/%s", TESTS_DIR, folder);
    snprintf(path, sizeof path, "%s/golden.safetensors", g->folder);
    if (safetensors_open_folder(g->folder, &g->start, &why) != OK ||
        safetensors_open(path, &g->values, &why) != OK)
        fail_msg("%s", why.text);
}

static inline void golden_close(golden *g)
{
    safetensors_close(g->start);
    safetensors_close(g->values);
}

// ---- A run

static inline trm_status golden_read(void *context, uint64_t sample, void *inputs, void *labels,
                                     trm_error *e)
{
    const golden *g = context;
    const safetensors_tensor *tokens = safetensors_find(g->values, "tokens"),
                             *targets = safetensors_find(g->values, "labels");
    const size_t length = (size_t)targets->dim[2];
    (void)e;
    memcpy(inputs, (const int32_t *)tokens->data + sample * (length + 1), length * 4);
    memcpy(labels, (const int32_t *)targets->data + sample * length, length * 4);
    return TRM_OK;
}

static inline trm_status golden_train(trm_trainer *t, void *arg, trm_error *e)
{
    golden_run *n = arg;
    trm_status s = TRM_OK;
    for (int i = 0; s == TRM_OK && i < GOLDEN_STEPS; i++) {
        trm_step step;
        s = trm_trainer_step(t, &step, e);
        if (s != TRM_OK || trm_trainer_rank(t) != 0) continue;
        n->loss[i] = step.loss;
        n->norm[i] = step.grad_norm;
    }
    return s == TRM_OK ? trm_trainer_save(t, e) : s;
}

// Trains the job in a layout. The checkpoint is in the folder with the layout's name.
static inline void golden_execute(golden *g, const char *job_file, const layout *l, golden_run *out)
{
    trm_job *job = NULL;
    const safetensors_tensor *labels = safetensors_find(g->values, "labels");
    const trm_dataset data = {.samples = (uint64_t)(labels->dim[0] * labels->dim[1]),
                              .positions = labels->dim[2],
                              .read = golden_read,
                              .context = g};
    ACCEPT(trm_job_open(job_file, &job, &error));
    SET(job, "model.path", g->folder, "launch.as", "threads", "launch.threads_per_rank", "1",
        "train.out", l->name, "checks.replicas_every", "1");
    for (const char *const *k = l->key; *k; k += 2) ACCEPT(trm_job_set(job, k[0], k[1], &error));
    ACCEPT(trm_job_use_data(job, TRM_TRAIN, &data, &error));
    if (trm_run(job, golden_train, out, &error) != TRM_OK)
        fail_msg("%s %s, %s: %s", g->model, g->prefix, l->name, error.text);
    trm_job_close(job);
}

// Opens a file of the checkpoint of a layout; its weights for "".
static inline safetensors *golden_result(const layout *l, const char *file)
{
    char path[200];
    err why = {0};
    safetensors *out = NULL;
    snprintf(path, sizeof path, "%s/checkpoints/latest%s", l->name, file);
    if ((*file ? safetensors_open(path, &out, &why) : safetensors_open_folder(path, &out, &why)) !=
        OK)
        fail_msg("%s", why.text);
    return out;
}

// ---- Comparisons

static inline void golden_check_numbers(const golden *g, const layout *l, const golden_run *n)
{
    const float *loss = golden_find(g, "losses")->data, *norm = golden_find(g, "norms")->data;
    for (int i = 0; i < GOLDEN_STEPS; i++) {
        if (!(fabs(n->loss[i] - loss[i]) <= 1e-5 * loss[i]))
            fail_msg("%s %s, %s: the loss of step %d is %.9g, PyTorch has %.9g", g->model,
                     g->prefix, l->name, i + 1, n->loss[i], loss[i]);
        if (!(fabs(n->norm[i] - norm[i]) <= 1e-5 * norm[i]))
            fail_msg("%s %s, %s: the gradient norm of step %d is %.9g, PyTorch has %.9g", g->model,
                     g->prefix, l->name, i + 1, n->norm[i], norm[i]);
    }
}

static inline bool same_bytes(const safetensors_tensor *a, const safetensors_tensor *b)
{
    return a->type == b->type && a->bytes == b->bytes && memcmp(a->data, b->data, a->bytes) == 0;
}

// Returns |a - b| / |b| over the elements from `first` to `end`.
static inline double relative_error(const float *a, const float *b, int64_t first, int64_t end)
{
    double apart = 0, size = 0;
    for (int64_t i = first; i < end; i++) {
        apart += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
        size += (double)b[i] * b[i];
    }
    return sqrt(apart) / (sqrt(size) + 1e-30);
}

// Compares a trained tensor with PyTorch's.
static inline void golden_check_tensor(const golden *g, const layout *l,
                                       const safetensors_tensor *got,
                                       const safetensors_tensor *want)
{
    const int64_t count = (int64_t)(want->bytes / sizeof(float));
    assert_true(got->type == F32 && got->bytes == want->bytes);
    // The true gradient of a key bias without rotary positions is zero, and Adam scales its rounding
    // error to full steps.
    const bool fused = strstr(got->name, "c_attn.bias") != NULL;
    const double first = relative_error(got->data, want->data, 0, fused ? count / 3 : count),
                 last = relative_error(got->data, want->data, fused ? 2 * count / 3 : 0, count);
    if (!(first <= 1e-5 && last <= 1e-5))
        fail_msg("%s %s, %s: %s differs from PyTorch's by %.3g and %.3g, allowed 1e-5", g->model,
                 g->prefix, l->name, got->name, first, last);
}

// Checks that a layout has the weights of another one, bit for bit.
static inline void golden_check_bits(const golden *g, const layout *l, const char *like)
{
    const layout other = {.name = like};
    safetensors *a = golden_result(l, ""), *b = golden_result(&other, "");
    for (size_t i = 0; i < safetensors_count(a); i++) {
        const safetensors_tensor *t = safetensors_get(a, i);
        if (!same_bytes(t, safetensors_find(b, t->name)))
            fail_msg("%s %s: %s has not the same bits under %s and %s", g->model, g->prefix,
                     t->name, l->name, like);
    }
    safetensors_close(a);
    safetensors_close(b);
}

#endif
