// rig.h -- for tests: one forward and backward of a small model on each tensor-parallel and
// context-parallel rank, without a trainer. Each rank takes its shards of the same full weights and its
// tokens of the same sequences, and the ranks' gradients are gathered to full ones.
#ifndef TRIREME_TESTS_RIG_H
#define TRIREME_TESTS_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/rng.h"
#include "comm/registry.h"
#include "graph/execute.h"
#include "model/model.h"
#include "patience.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { RIG_RANKS = 4, RIG_BLOCKS = 8, RIG_PARAMS = 96 };

// How the backward is run.
typedef enum rig_backward {
    RIG_ONE_CALL,      // the backward of each block
    RIG_DGRAD_WGRAD,   // dgrad and wgrad of each block, one after the other
    RIG_WGRAD_DELAYED, // dgrad of all blocks, then wgrad of all blocks
} rig_backward;

typedef struct rig_options {
    model_config config;
    model_options model; // the rig sets the mesh, from `ranks` and `cp`, and the rank
    int ranks;           // of tensor parallelism
    int cp;              // ranks of context parallelism; 0 means 1
    rig_backward backward;
    // Negative controls: overwrite what is saved for wgrad; give every rank the shards of rank 0; give
    // every context-parallel rank the tokens of the rank after it.
    bool spoil_saved, take_shard_0, take_other_tokens;
    // Where the documents of every sequence begin [seq], for a model with documents.
    const int32_t *starts;
    // Ids and labels are drawn for `tokens` tokens, of which these are those from first_token on. 0: for
    // the tokens of the batch.
    int64_t first_token, tokens;
    int64_t
        only_token; // 1 + the token whose label alone is not ignored; 0: others have labels, too
    uint64_t seed;
    double loss_scale; // 0 means 1
    int moved_param;   // its weights are moved by moved_by along rig_draw_direction
    double moved_by;
} rig_options;

// The memory of one rank, and afterwards its results.
typedef struct rig_rank {
    const rig_options *o;
    world *world;
    int rank;
    model *m;
    device *device;
    device_stream *on;
    kernel_step step;
    comm *all, *tp, *cp;
    void *memory[512];
    size_t bytes[512];
    int pieces;
    void **weight[RIG_BLOCKS];
    float **gradient[RIG_BLOCKS];
    bool **grad_written[RIG_BLOCKS], written[RIG_PARAMS];
    float *grad[RIG_PARAMS];
    char *output[RIG_BLOCKS], *saved[RIG_BLOCKS], *saved_for_wgrad[RIG_BLOCKS],
        *input_grad[RIG_BLOCKS], *output_grad[RIG_BLOCKS], *workspace;
    size_t workspace_bytes;
    uint64_t sent_cp; // bytes, by the communicator's own count
    float *rope;
    int32_t *ids, *labels, *documents;
    double *sums;
    status result;
    err error;
} rig_rank;

typedef struct rig_result {
    double loss, count;
    double sent_cp; // by rank 0
    int params;
    int64_t size[RIG_PARAMS];
    float *grad[RIG_PARAMS]; // [size] full; zeros where the parameter is frozen
    bool frozen[RIG_PARAMS];
    char name[RIG_PARAMS][PARAM_NAME_BYTES];
} rig_result;

static void *rig_alloc(rig_rank *r, size_t bytes)
{
    void *p = NULL;
    bytes += 64;
    if (device_alloc(r->device, MEMORY_DEVICE, bytes, &p, &r->error) != OK) abort();
    memset(p, 0xff, bytes); // NaN, so that nothing is read before it is written
    r->memory[r->pieces] = p, r->bytes[r->pieces++] = bytes;
    return p;
}

static int rig_cp_ranks(const rig_options *o)
{
    return o->cp > 1 ? o->cp : 1;
}

// A direction in which the weights of parameter p may move.
static inline void rig_draw_direction(int p, int64_t count, float *out)
{
    rng_normals(rng_key_make(29, RNG_INIT, (uint64_t)p, 0), 0, (size_t)count, out);
}

static float *rig_draw_full(const rig_rank *r, int p)
{
    const model_param *q = &r->m->param[p];
    float *w = malloc((size_t)q->count * sizeof *w), shift = q->decl->init == INIT_ONES ? 1 : 0;
    rng_normals(rng_key_make(7, RNG_INIT, (uint64_t)p, 0), 0, (size_t)q->count, w);
    for (int64_t i = 0; i < q->count; i++) w[i] = shift + 0.15f * w[i];
    if (r->o->moved_by == 0 || p != r->o->moved_param) return w;
    float *direction = malloc((size_t)q->count * sizeof *direction);
    rig_draw_direction(p, q->count, direction);
    for (int64_t i = 0; i < q->count; i++) w[i] += (float)r->o->moved_by * direction[i];
    free(direction);
    return w;
}

static void rig_params(rig_rank *r)
{
    const model *m = r->m;
    void *weight[RIG_PARAMS];
    for (int p = 0; p < m->params; p++) {
        size_t local = (size_t)(m->param[p].shard_rows * m->param[p].shard_cols);
        const int coord[AXES] = {[AXIS_TP] = r->o->take_shard_0 ? 0 : m->position.coord[AXIS_TP]};
        float *full = rig_draw_full(r, p),
              *shard = malloc((size_t)m->param[p].count * sizeof *shard);
        model_param_take_shard(m, p, coord, full, shard);
        weight[p] = rig_alloc(r, local * dtype_bytes(m->param[p].type));
        dtype_convert(weight[p], m->param[p].type, shard, F32, local);
        r->grad[p] = rig_alloc(r, local * sizeof(float));
        memset(r->grad[p], 0, local * sizeof(float));
        free(full);
        free(shard);
    }
    for (int b = 0; b < m->blocks; b++) {
        size_t count = (size_t)m->block[b].g->params + 1;
        r->weight[b] = calloc(count, sizeof(void *));
        r->gradient[b] = calloc(count, sizeof(float *));
        r->grad_written[b] = calloc(count, sizeof(bool *));
        for (int i = 0; i < m->block[b].g->params; i++) {
            int p = m->block[b].param[i];
            r->weight[b][i] = weight[p], r->gradient[b][i] = r->grad[p];
            r->grad_written[b][i] = &r->written[p];
        }
    }
}

// Draws the ids and labels of full sequences, and takes this rank's tokens.
static void rig_batch(rig_rank *r)
{
    const model *m = r->m;
    const int cp = rig_cp_ranks(r->o), rank = m->position.coord[AXIS_CP];
    const kernel_tokens t =
        graph_tokens(m->seq, cp, r->o->take_other_tokens ? (rank + 1) % cp : rank);
    const int64_t all = r->o->tokens ? r->o->tokens : m->batch * m->seq, rows = m->batch * t.seq;
    const uint32_t vocab = (uint32_t)r->o->config.vocab;
    const rng_key key = rng_key_make(3, RNG_MOCK, 0, 0);
    r->ids = rig_alloc(r, (size_t)rows * 4), r->labels = rig_alloc(r, (size_t)rows * 4);
    r->documents = r->o->starts ? rig_alloc(r, (size_t)rows * 4) : NULL;
    for (int64_t i = 0; i < rows; i++) {
        const int64_t from = r->o->first_token + kernel_logical_row(&t, i);
        if (r->documents) r->documents[i] = r->o->starts[kernel_row_position(&t, i)];
        r->ids[i] = (int32_t)(rng_word(key, (uint64_t)from) % vocab);
        r->labels[i] = (int32_t)(rng_word(key, (uint64_t)(all + from)) % vocab);
        if (from % 7 == 3) r->labels[i] = IGNORED_LABEL;
        if (r->o->only_token && from != r->o->only_token - 1) r->labels[i] = IGNORED_LABEL;
    }
}

static void rig_memory(rig_rank *r)
{
    const model *m = r->m;
    for (int b = 0; b < m->blocks; b++) {
        const graph *g = m->block[b].g;
        r->output[b] = rig_alloc(r, g->bytes.output);
        r->saved[b] = rig_alloc(r, g->bytes.saved);
        r->saved_for_wgrad[b] = rig_alloc(r, g->bytes.saved_for_wgrad);
        r->input_grad[b] = rig_alloc(r, g->bytes.input);
        if (g->bytes.workspace > r->workspace_bytes) r->workspace_bytes = g->bytes.workspace;
    }
    void *shared; // context-parallel ranks read each other's workspace
    if (comm_alloc(r->all, r->device, r->workspace_bytes + 64, &shared, &r->error) != OK) abort();
    r->workspace = shared;
    memset(r->workspace, 0xff, r->workspace_bytes);
    r->sums = rig_alloc(r, 2 * sizeof(double));
    r->sums[0] = r->sums[1] = 0;
    rig_batch(r);
    r->step = (kernel_step){.step = 5, .loss_scale = r->o->loss_scale > 0 ? r->o->loss_scale : 1};
    if (!m->ropes) return;
    r->rope = rig_alloc(r, model_rope_bytes(m));
    if (model_upload_rope(m, r->on, r->rope, &r->error) != OK) abort();
}

static graph_run rig_context(rig_rank *r, int b)
{
    graph_run x = {.g = r->m->block[b].g,
                   .stream = r->on,
                   .comm = {[AXIS_TP] = r->m->position.mesh.size[AXIS_TP] > 1 ? r->tp : NULL,
                            [AXIS_CP] = r->m->position.mesh.size[AXIS_CP] > 1 ? r->cp : NULL},
                   .weight = r->weight[b],
                   .gradient = r->gradient[b],
                   .grad_written = r->grad_written[b],
                   .documents = r->documents,
                   .rope = model_block_rope(r->m, b, r->rope),
                   .loss_sum = &r->sums[0],
                   .loss_count = &r->sums[1],
                   .step = &r->step,
                   .seed = r->o->seed,
                   .block = b,
                   .row0 = 40};
    x.base[REGION_INPUT] = b > 0 ? r->output[b - 1] : NULL;
    x.base[REGION_OUTPUT] = r->output[b];
    x.base[REGION_SAVED] = r->saved[b];
    x.base[REGION_SAVED_FOR_WGRAD] = r->saved_for_wgrad[b];
    x.base[REGION_WORKSPACE] = r->workspace;
    x.base[REGION_IDS] = (char *)r->ids;
    x.base[REGION_LABELS] = (char *)r->labels;
    x.base[REGION_OUTPUT_GRAD] = r->output_grad[b];
    x.base[REGION_INPUT_GRAD] = r->input_grad[b];
    return x;
}

// Overwrites all memory that may change between dgrad and wgrad of block b.
static void rig_spoil(rig_rank *r, int b)
{
    const graph *g = r->m->block[b].g;
    memset(r->workspace, 0xff, r->workspace_bytes);
    if (graph_has_backward(g) && g->output && !g->split.saves_output_grad &&
        !g->input_grad.in_place)
        memset(r->output_grad[b], 0xff, graph_value_bytes(g->output->grad));
    if (r->o->spoil_saved) memset(r->saved_for_wgrad[b], 0xff, g->bytes.saved_for_wgrad);
}

static status rig_wgrad(rig_rank *r, int b, err *e)
{
    graph_run x = rig_context(r, b);
    return graph_run_wgrad(&x, e);
}

static status rig_run_backward(rig_rank *r, err *e)
{
    status result = OK;
    const int first = r->m->first_backward;
    for (int b = r->m->blocks - 1; b >= first; b--) {
        const graph *g = r->m->block[b].g;
        graph_run x = rig_context(r, b);
        if (r->o->backward == RIG_ONE_CALL)
            TRY(graph_run_backward(&x, e));
        else
            TRY(graph_run_dgrad(&x, e));
        if (b > first) r->output_grad[b - 1] = graph_run_ptr(&x, g->input->grad);
        if (r->o->backward == RIG_ONE_CALL) continue;
        if (g->split.saves_output_grad && g->input_grad.in_place)
            FAIL(E_INTERNAL, "block %d overwrites the output gradient that wgrad reads", b);
        rig_spoil(r, b);
        if (r->o->backward == RIG_DGRAD_WGRAD) TRY(rig_wgrad(r, b, e));
    }
    for (int b = r->m->blocks - 1; r->o->backward == RIG_WGRAD_DELAYED && b >= first; b--)
        TRY(rig_wgrad(r, b, e));
done:
    return result;
}

static status rig_run(rig_rank *r, err *e)
{
    status result = OK;
    model_options o = r->o->model;
    const device_options options = {.threads = 1};
    const int tp = r->rank % r->o->ranks, cp = r->rank / r->o->ranks;
    int *size = o.position.mesh.size, *coord = o.position.coord;
    size[AXIS_TP] = r->o->ranks, coord[AXIS_TP] = tp;
    size[AXIS_CP] = rig_cp_ranks(r->o), coord[AXIS_CP] = cp;
    o.splits_backward = r->o->backward != RIG_ONE_CALL;
    TRY(device_open("cpu", &options, &r->device, e));
    o.needs = r->device->needs;
    TRY(comm_open("auto", test_world_options(r->world, r->rank, r->device), &r->all, e));
    TRY(comm_split(r->all, cp, tp, &r->tp, e));
    TRY(comm_split(r->all, tp, cp, &r->cp, e));
    TRY(comm_count_calls(r->cp, e));
    TRY(r->device->ops->stream_open(r->device, STREAM_COMPUTE, false, &r->on, e));
    TRY(model_open(r->o->config.family, &r->o->config, &o, &r->m, e));
    rig_params(r);
    rig_memory(r);
    for (int b = 0; b < r->m->blocks; b++) {
        graph_run x = rig_context(r, b);
        TRY(graph_run_forward(&x, e));
    }
    if (o.mode == GRAPH_TRAIN) TRY(rig_run_backward(r, e));
    TRY(r->device->ops->sync(r->on, e));
    for (int k = 0; k < CALL_KINDS; k++) r->sent_cp += (uint64_t)r->cp->counts->kind[k].bytes;
done:
    return result;
}

static void *rig_main(void *arg)
{
    rig_rank *r = arg;
    r->result = rig_run(r, &r->error);
    if (r->result != OK) comm_failure_set(r->world->failure, r->rank, &r->error);
    return NULL;
}

static void rig_release(rig_rank *r)
{
    for (int i = 0; i < r->pieces; i++)
        device_release(r->device, MEMORY_DEVICE, r->memory[i], r->bytes[i]);
    for (int b = 0; b < RIG_BLOCKS; b++) {
        free(r->weight[b]);
        free(r->gradient[b]);
        free(r->grad_written[b]);
    }
    if (r->on) r->device->ops->stream_close(r->on);
    if (r->workspace) comm_release(r->all, r->device, r->workspace, r->workspace_bytes + 64);
    comm_close(r->tp);
    comm_close(r->cp);
    comm_close(r->all);
    model_close(r->m);
    device_close(r->device);
}

// The sum of a gradient over the context-parallel ranks, for tensor-parallel rank k.
static float *rig_sum_cp(const rig_rank *ranks, int k, int p)
{
    const model_param *q = &ranks[k].m->param[p];
    const int tp = ranks[0].o->ranks, cp = rig_cp_ranks(ranks[0].o);
    const int64_t count = q->shard_rows * q->shard_cols;
    float *sum = calloc((size_t)count, sizeof *sum);
    for (int c = 0; c < cp; c++)
        for (int64_t i = 0; i < count; i++) sum[i] += ranks[c * tp + k].grad[p][i];
    return sum;
}

// Adds to the gradient of tensor-parallel rank k those of the ranks with which it shares rows.
static void rig_sum_shared(const rig_rank *ranks, int k, int p, float *grad)
{
    const model_param *q = &ranks[k].m->param[p];
    const int first = k / q->shared.ranks * q->shared.ranks;
    for (int other = first; other < first + q->shared.ranks; other++) {
        if (other == k) continue;
        float *theirs = rig_sum_cp(ranks, other, p);
        for (int64_t i = q->shared.first_row * q->shard_cols; i < q->shard_rows * q->shard_cols;
             i++)
            grad[i] += theirs[i];
        free(theirs);
    }
}

// Makes full gradients: those of context-parallel ranks are summed. Then shards are put together,
// partial gradients summed, and replicated gradients must be equal on all ranks.
static void rig_collect(const rig_rank *ranks, int count, rig_result *out)
{
    const model *m = ranks[0].m;
    *out = (rig_result){.params = m->params, .sent_cp = (double)ranks[0].sent_cp};
    for (int k = 0; k < count * rig_cp_ranks(ranks[0].o); k++)
        out->loss += ranks[k].sums[0], out->count += ranks[k].sums[1];
    for (int p = 0; p < m->params && m->mode == GRAPH_TRAIN; p++) {
        const model_param *q = &m->param[p];
        float *full = out->grad[p] = calloc((size_t)q->count, sizeof *full);
        out->size[p] = q->count;
        out->frozen[p] = q->frozen;
        snprintf(out->name[p], PARAM_NAME_BYTES, "%s", q->name);
        for (int k = 0; k < count; k++) {
            float *grad = rig_sum_cp(ranks, k, p);
            rig_sum_shared(ranks, k, p, grad);
            if (q->sharded)
                model_param_put_shard(m, p, (const int[AXES]){[AXIS_TP] = k}, grad, full);
            else if (q->partial & MESH_AXIS(AXIS_TP))
                for (int64_t i = 0; i < q->count; i++) full[i] += grad[i];
            else if (k == 0)
                memcpy(full, grad, (size_t)q->count * sizeof *full);
            else if (memcmp(full, grad, (size_t)q->count * sizeof *full) != 0)
                fail_msg("%s: ranks 0 and %d differ", q->name, k);
            free(grad);
        }
    }
}

static void rig_clear(rig_result *x)
{
    for (int p = 0; p < x->params; p++) free(x->grad[p]);
}

static void rig(const rig_options *o, rig_result *out)
{
    err e;
    world *w;
    rig_rank *ranks = calloc(RIG_RANKS, sizeof *ranks);
    pthread_t threads[RIG_RANKS];
    const int count = o->ranks * rig_cp_ranks(o);
    if (test_world_open(count, true, &w, &e) != OK) fail_msg("%s", e.text);
    for (int k = 0; k < count; k++) {
        ranks[k] = (rig_rank){.o = o, .world = w, .rank = k};
        pthread_create(&threads[k], NULL, rig_main, &ranks[k]);
    }
    for (int k = 0; k < count; k++) pthread_join(threads[k], NULL);
    for (int k = 0; k < count; k++)
        if (ranks[k].result != OK) fail_msg("rank %d: %s", k, ranks[k].error.text);
    rig_collect(ranks, o->ranks, out);
    for (int k = 0; k < count; k++) rig_release(&ranks[k]);
    world_close(w);
    free(ranks);
}

// The largest difference of two gradients of one parameter, relative to the largest element; NaN
// counts as 1e30.
static double rig_distance(const rig_result *a, const rig_result *b, int p)
{
    double worst = 0, top = 0;
    for (int64_t i = 0; i < a->size[p]; i++) {
        double d = fabs((double)a->grad[p][i] - (double)b->grad[p][i]);
        if (!(d < 1e30)) return 1e30;
        worst = fmax(worst, d), top = fmax(top, fabs((double)a->grad[p][i]));
    }
    return top > 0 ? worst / top : worst;
}

// The worst of all parameters.
static inline double rig_worst(const rig_result *a, const rig_result *b)
{
    double worst = 0;
    for (int p = 0; p < a->params; p++) worst = fmax(worst, rig_distance(a, b, p));
    return worst;
}

static inline bool rig_same_bits(const rig_result *a, const rig_result *b)
{
    bool same = a->loss == b->loss && a->count == b->count;
    for (int p = 0; p < a->params; p++)
        same = same && memcmp(a->grad[p], b->grad[p], (size_t)a->size[p] * sizeof(float)) == 0;
    return same;
}

static inline rig_options rig_gpt2(void)
{
    rig_options o = {.ranks = 1, .seed = 11};
    model_config_defaults(model_family_find("gpt2"), &o.config);
    o.config.layers = 2, o.config.hidden = 16, o.config.heads = 4, o.config.kv_heads = 4;
    o.config.head_dim = 4, o.config.ffn = 24, o.config.vocab = 37, o.config.max_seq = 12;
    o.config.dropout.embed = o.config.dropout.attention = o.config.dropout.residual = 0.2;
    o.model = (model_options){.mode = GRAPH_TRAIN, .type = F32, .batch = 4, .seq = 10};
    return o;
}

// Settles what follows from the sizes of a config, such as which layers rotate.
static inline void rig_finish(rig_options *o)
{
    err e = {0};
    if (model_config_finish(&o->config, &e) != OK) fail_msg("%s", e.text);
}

static inline rig_options rig_llama(void)
{
    rig_options o = rig_gpt2();
    model_config_defaults(model_family_find("llama"), &o.config);
    o.config.layers = 2, o.config.hidden = 16, o.config.heads = 4, o.config.kv_heads = 2;
    o.config.head_dim = 6, o.config.ffn = 22, o.config.vocab = 41, o.config.max_seq = 16;
    o.config.dropout.attention = 0.2;
    o.config.attention_bias = o.config.mlp_bias = true;
    return o;
}

// Families with ops of their own: xIELU; layer norms of queries and keys, with one tensor and with a tensor of each
// head; sinks and a rotary base of each layer; values that are the norms of keys.
enum { RIG_FAMILIES = 5 };
static inline rig_options rig_family(int i)
{
    static const char *const names[RIG_FAMILIES] = {"apertus", "cohere", "stablelm", "granite_swa",
                                                    "gemma4"};
    rig_options o = rig_gpt2();
    model_config *c = &o.config;
    model_config_defaults(model_family_find(names[i]), c);
    c->layers = 2, c->hidden = 16, c->heads = 4, c->kv_heads = 2, c->head_dim = 8, c->ffn = 22;
    c->vocab = 41, c->max_seq = 16, c->dropout.attention = 0.2, c->qk_norm = true;
    if (i == 3) c->window = 5, c->rope.layer_theta = (model_numbers){2, {0, 20}};
    if (i == 4) { // layer 0 has a window, layer 1 wide heads
        c->window = 5, c->window_pattern = 2, c->full_head_dim = 12, c->full_kv_heads = 2;
        c->keys_are_values = true, c->own[0].integer = 0;
    }
    if (model_config_finish(c, NULL) != OK) abort();
    return o;
}

static inline rig_options rig_mlp(void)
{
    rig_options o = rig_gpt2();
    json_t *features = json_integer(8);
    model_config_defaults(model_family_find("mlp"), &o.config);
    if (model_config_set(&o.config, "features", features, NULL) != OK) abort();
    json_decref(features);
    o.config.layers = 2, o.config.hidden = 8, o.config.vocab = 4;
    return o;
}

#endif
