// golden.h -- for tests: a trainer on one of the small models of tests/golden/models. Its dataset is
// the batches of the golden file.
#ifndef TRIREME_TESTS_GOLDEN_H
#define TRIREME_TESTS_GOLDEN_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "train/trainer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(call)                                                                                \
    do {                                                                                           \
        err check_error = {0};                                                                     \
        err *e = &check_error;                                                                     \
        if ((call) != OK) fail_msg("%s: %s", #call, check_error.text);                             \
    } while (0)

// The batches of a golden file as a dataset: sample n is sequence n of [steps * batch].
typedef struct golden_data {
    dataset base;
    const char *inputs, *labels;
    int64_t input_row, input_bytes, label_bytes; // input_row: bytes between two samples
} golden_data;

typedef struct golden {
    safetensors *values, *weights;
    model_config config;
    golden_data data;
    device *device;
    comm *comm;
} golden;

static status golden_read(dataset *d, uint64_t sample, void *inputs, void *labels, err *e)
{
    golden_data *g = (golden_data *)d;
    (void)e;
    memcpy(inputs, g->inputs + sample * (uint64_t)g->input_row, (size_t)g->input_bytes);
    memcpy(labels, g->labels + sample * (uint64_t)g->label_bytes, (size_t)g->label_bytes);
    return OK;
}

static inline void golden_close_data(dataset *d)
{
    (void)d;
}

static inline const safetensors_tensor *golden_tensor(const golden *g, const char *name)
{
    const safetensors_tensor *t = safetensors_find(g->values, name);
    if (!t) fail_msg("golden tensor %s is missing", name);
    return t;
}

static inline void golden_open_data(golden *g)
{
    bool vectors = g->config.family->reads_vectors;
    const safetensors_tensor *x = golden_tensor(g, vectors ? "x" : "tokens"),
                             *y = golden_tensor(g, vectors ? "y" : "labels");
    golden_data *d = &g->data;
    int64_t labels = vectors ? 1 : y->dim[2], inputs = vectors ? x->dim[2] : labels;
    *d = (golden_data){
        .base = {.shape = {inputs, vectors ? F32 : I32, labels, y->type == F32 ? F32 : I32},
                 .samples = (uint64_t)(x->dim[0] * x->dim[1]),
                 .max_id = -1,
                 .read = golden_read,
                 .close = golden_close_data},
        .inputs = x->data,
        .labels = y->data,
        .input_row = x->dim[2] * 4,
        .input_bytes = inputs * 4,
        .label_bytes = labels * 4};
}

static inline void golden_open(golden *g, const char *name, int threads)
{
    char folder[512], path[600];
    snprintf(folder, sizeof folder, "%s/golden/models/%s", TESTS_DIR, name);
    snprintf(path, sizeof path, "%s/golden.safetensors", folder);
    device_options o = {.threads = threads};
    CHECK(safetensors_open(path, &g->values, e));
    CHECK(safetensors_open_folder(folder, &g->weights, e));
    CHECK(model_config_read(folder, &g->config, e));
    golden_open_data(g);
    CHECK(device_open("cpu", &o, &g->device, e));
    CHECK(comm_solo_open(&g->comm, e));
}

static inline void golden_close(golden *g)
{
    comm_close(g->comm);
    device_close(g->device);
    safetensors_close(g->values);
    safetensors_close(g->weights);
}

// The settings of make_model_golden.py.
static inline optim_config golden_optimizer(kernel_update_rule rule)
{
    switch (rule) {
    case UPDATE_SGD:
        return (optim_config){.rule = rule, .lr = 0.05, .beta1 = 0.9, .weight_decay = 0.01};
    case UPDATE_LION:
        return (optim_config){
            .rule = rule, .lr = 1e-3, .beta1 = 0.9, .beta2 = 0.99, .weight_decay = 0.1};
    default:
        return (optim_config){.rule = rule,
                              .lr = 1e-3,
                              .beta1 = 0.9,
                              .beta2 = 0.95,
                              .eps = 1e-8,
                              .weight_decay = 0.1};
    }
}

static inline trainer_options golden_options(golden *g, kernel_update_rule rule, dtype precision,
                                             int64_t micro)
{
    bool vectors = g->config.family->reads_vectors;
    trainer_options o = {.device = g->device,
                         .comm = g->comm,
                         .family = g->config.family,
                         .config = &g->config,
                         .strategy = {.dp = {*policy_find("ddp"), *policy_find("ddp")},
                                      .no_sync = NO_SYNC_TRUE,
                                      .reshard_after_forward = 1,
                                      .pipeline = {.virtual_stages = 1},
                                      .bucket_bytes = 16 << 10},
                         .precision = precision,
                         .micro_batch = micro,
                         .global_batch = vectors ? 16 : 3,
                         .seq_len = vectors ? 1 : g->data.base.shape.labels,
                         .optimizer = golden_optimizer(rule),
                         .clip_grad_norm = 1,
                         .train = &g->data.base,
                         .order = ORDER_SEQUENTIAL,
                         .weights = g->weights};
    for (int a = 0; a < AXES; a++) o.mesh.size[a] = 1;
    o.mesh.ranks = g->comm->size;
    o.mesh.size[AXIS_DP_REPLICATE] = g->comm->size;
    lr_defaults(&o.lr);
    o.lr.name = LR_CONSTANT;
    o.lr.warmup_steps = 0;
    o.lr.total_steps = 10;
    return o;
}

// Returns |a - b| / |b| over a full tensor. b has any type.
static inline double relative_error(const float *a, const safetensors_tensor *b, int64_t first,
                                    int64_t count)
{
    double apart = 0, size = 0;
    float *want = malloc((size_t)count * sizeof *want);
    dtype_convert(want, F32, (const char *)b->data + (size_t)first * dtype_bytes(b->type), b->type,
                  (size_t)count);
    for (int64_t i = 0; i < count; i++) {
        apart += ((double)a[i] - want[i]) * ((double)a[i] - want[i]);
        size += (double)want[i] * want[i];
    }
    free(want);
    return sqrt(apart) / (sqrt(size) + 1e-30);
}

#endif
