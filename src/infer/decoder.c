// decoder.c -- forward passes with a key-value cache. See decoder.h. A prompt runs through graphs
// that are traced for its length. Each further token runs through graphs of length one. Both use
// the same weights and cache. Where attention has a window, the cache of a block does not hold all tokens
// (graph_cache), and a long prompt runs in pieces. Blocks may also have a state, which no token leaves. The ids of
// all tokens are kept: where a rewind needs rows that the cache has lost, or a state, the tokens run again.
#include "infer/decoder.h"

#include "base/alloc.h"
#include "base/size.h"
#include "graph/execute.h"

#include <stdlib.h>
#include <string.h>

// Memory of a run, in addition to weights and cache. It stays for the next runs. Block b writes its output into
// boundary[b % 2].
typedef struct decoder_scratch {
    char *boundary[2], *workspace;
    size_t boundary_bytes, workspace_bytes;
} decoder_scratch;

// A piece of a prompt is not shorter than this while the prompt is longer: a few rows take other kernels.
enum { LEAST_PIECE = 64 };

struct decoder {
    device *device;
    const model_family *family;
    const void *config;
    const model_adapter *adapter; // NULL: none
    dtype type;
    int64_t max_tokens, position, vocab;
    int32_t ids_below; // rows of the embedding table; every id must be smaller
    device_stream *stream;
    model *one;              // graphs for one token
    decoder_scratch scratch; // room for the longest run so far
    char *weights;           // all weights, each aligned to DEVICE_ALIGN
    size_t weights_bytes;
    void **weight; // [params] in `weights`
    char *cache, *ids;
    int32_t *host_ids; // [max_tokens] MEMORY_HOST, those of the sequence
    int64_t most;      // tokens of a run
    struct {
        size_t offset, state; // in bytes, of the block's cache and of its state
        int64_t first;        // the token in the first row of the cache
    } * block_cache;          // [blocks]
    size_t cache_bytes, state_bytes;
    char *state;     // of all blocks; zeros before the first token
    bool runs_again; // the next token reads what a rewind has lost
    float *rope;
    size_t rope_bytes;
    void *host_logits;    // [vocab] in the compute type, MEMORY_HOST
    float *logits;        // [vocab]
    void ***block_weight; // [blocks] the weights of a block, by its parameters
};

static void scratch_close(decoder *x)
{
    decoder_scratch *s = &x->scratch;
    for (int i = 0; i < 2; i++)
        device_release(x->device, MEMORY_DEVICE, s->boundary[i], s->boundary_bytes);
    device_release(x->device, MEMORY_DEVICE, s->workspace, s->workspace_bytes);
    *s = (decoder_scratch){0};
}

// Makes room for a run of m. No run is pending.
static status scratch_reserve(decoder *x, const model *m, err *e)
{
    status result = OK;
    decoder_scratch *s = &x->scratch;
    size_t boundary = s->boundary_bytes, workspace = s->workspace_bytes;
    for (int b = 0; b < m->blocks; b++) {
        const size_t output = m->block[b].g->bytes.output,
                     work = m->block[b].g->bytes.workspace + 64;
        if (output > boundary) boundary = output;
        if (work > workspace) workspace = work;
    }
    if (boundary == s->boundary_bytes && workspace == s->workspace_bytes) return OK;
    scratch_close(x);
    s->boundary_bytes = boundary, s->workspace_bytes = workspace;
    for (int i = 0; i < 2; i++)
        TRY(device_alloc(x->device, MEMORY_DEVICE, boundary, (void **)&s->boundary[i], e));
    TRY(device_alloc(x->device, MEMORY_DEVICE, workspace, (void **)&s->workspace, e));
done:
    if (result != OK) scratch_close(x);
    return result;
}

static size_t weight_bytes(const decoder *x, int p)
{
    return (size_t)x->one->param[p].count * dtype_bytes(x->type);
}

static int64_t most_elements(const model *m)
{
    int64_t most = 0;
    for (int p = 0; p < m->params; p++) most = size_max(most, m->param[p].count);
    return most;
}

static status allocate_weights(decoder *x, err *e)
{
    status result = OK;
    for (int p = 0; p < x->one->params; p++)
        x->weights_bytes += size_align(weight_bytes(x, p), DEVICE_ALIGN);
    TRY(device_alloc(x->device, MEMORY_DEVICE, x->weights_bytes, (void **)&x->weights, e));
    size_t offset = 0;
    for (int p = 0; p < x->one->params; p++) {
        x->weight[p] = x->weights + offset;
        offset += size_align(weight_bytes(x, p), DEVICE_ALIGN);
    }
done:
    return result;
}

static status load_weights(decoder *x, const safetensors *from, err *e)
{
    status result = OK;
    const size_t most = (size_t)most_elements(x->one);
    float *host = NULL;
    void *low = NULL;
    TRY(model_param_check_all(x->one, from, e));
    if (x->adapter) TRY(model_adapter_check(&x->adapter->lora, x->adapter->weights, x->one, e));
    TRY(allocate_weights(x, e));
    TRY(alloc_array(&host, most, sizeof *host, "a parameter", e));
    if (x->type != F32) TRY(alloc_array(&low, most, dtype_bytes(x->type), "a parameter", e));
    for (int p = 0; p < x->one->params; p++) {
        const model_param *q = &x->one->param[p];
        const bool own = x->adapter && model_lora_trains_param(&x->adapter->lora, q);
        TRY(model_param_load(x->one, p, own ? x->adapter->weights : from, 0, q->count, host, e));
        if (x->adapter && !own) TRY(model_adapter_base_param(x->adapter, x->one, p, from, host, e));
        if (low) dtype_convert(low, x->type, host, F32, (size_t)x->one->param[p].count);
        TRY(device_upload_issue(x->stream, x->weight[p], low ? low : host, weight_bytes(x, p), e));
    }
    TRY(x->device->ops->sync(x->stream, e));
done:
    free(host);
    free(low);
    return result;
}

static status open_cache(decoder *x, err *e)
{
    status result = OK;
    x->most = x->max_tokens;
    for (int b = 0; b < x->one->blocks; b++) {
        const graph_cache cache = x->one->block[b].g->cache;
        x->block_cache[b].offset = x->cache_bytes;
        x->block_cache[b].state = x->state_bytes;
        x->cache_bytes += x->one->block[b].g->bytes.cache_row * (size_t)cache.rows;
        x->state_bytes += x->one->block[b].g->bytes.state;
        x->most = size_min(x->most, cache.most);
    }
    TRY(device_alloc(x->device, MEMORY_DEVICE, x->cache_bytes + 64, (void **)&x->cache, e));
    if (x->state_bytes)
        TRY(device_alloc(x->device, MEMORY_DEVICE, x->state_bytes, (void **)&x->state, e));
    const size_t ids_bytes = (size_t)x->max_tokens * sizeof(int32_t);
    TRY(device_alloc(x->device, MEMORY_DEVICE, ids_bytes, (void **)&x->ids, e));
    TRY(device_alloc(x->device, MEMORY_HOST, ids_bytes, (void **)&x->host_ids, e));
done:
    return result;
}

static status open_rope(decoder *x, err *e)
{
    status result = OK;
    x->rope_bytes = model_rope_bytes(x->one);
    if (x->rope_bytes == 0) return OK;
    TRY(device_alloc(x->device, MEMORY_DEVICE, x->rope_bytes, (void **)&x->rope, e));
    TRY(model_upload_rope(x->one, x->stream, x->rope, e));
done:
    return result;
}

static const char WHAT[] = "the decoder";

static status bind_blocks(decoder *x, err *e)
{
    status result = OK;
    for (int b = 0; b < x->one->blocks; b++) {
        const model_block *k = &x->one->block[b];
        TRY(alloc_zeroed(&x->block_weight[b], (size_t)k->g->params, sizeof(void *), WHAT, e));
        for (int i = 0; i < k->g->params; i++) x->block_weight[b][i] = x->weight[k->param[i]];
    }
done:
    return result;
}

static status open_model(const decoder *x, int64_t seq, model **out, err *e)
{
    status result = OK;
    const model_options o = {.mode = GRAPH_DECODE,
                             .type = x->type,
                             .batch = 1,
                             .seq = seq,
                             .needs = x->device->needs,
                             .cache_rows = x->max_tokens,
                             .adapter_of = x->adapter ? model_lora_find : NULL,
                             .adapter_arg = x->adapter ? &x->adapter->lora : NULL};
    TRY(model_open(x->family, x->config, &o, out, e));
    for (int i = 0; i < (*out)->graphs; i++) TRY(graph_prepare((*out)->graph[i], x->device, e));
done:
    return result;
}

status decoder_open(device *d, const model_family *f, const void *config, dtype precision,
                    const safetensors *weights, const model_adapter *adapter, int64_t max_tokens,
                    decoder **out, err *e)
{
    status result = OK;
    decoder *x = NULL;
    TRY(alloc_zeroed(&x, 1, sizeof *x, WHAT, e));
    x->device = d, x->family = f, x->config = config, x->type = precision,
    x->max_tokens = max_tokens, x->adapter = adapter;
    TRY(d->ops->stream_open(d, STREAM_COMPUTE, false, &x->stream, e));
    TRY(open_model(x, 1, &x->one, e));
    const graph *last = x->one->block[x->one->blocks - 1].g;
    const model_limits limits = model_get_limits(x->one);
    if (!last->logits || limits.tokens == INT32_MAX)
        FAIL(E_USAGE, "a %s model does not generate tokens", f->name);
    if (max_tokens < 1 || max_tokens > limits.positions)
        FAIL(E_USAGE, "room for %lld tokens is asked for; valid: 1 to %d, the model's positions",
             (long long)max_tokens, limits.positions);
    x->vocab = graph_value_cols(last->logits);
    x->ids_below = limits.tokens;
    TRY(alloc_zeroed(&x->weight, (size_t)x->one->params, sizeof(void *), WHAT, e));
    TRY(alloc_zeroed(&x->block_cache, (size_t)x->one->blocks, sizeof *x->block_cache, WHAT, e));
    TRY(alloc_zeroed(&x->block_weight, (size_t)x->one->blocks, sizeof(void **), WHAT, e));
    TRY(device_alloc(d, MEMORY_HOST, (size_t)x->vocab * dtype_bytes(precision), &x->host_logits,
                     e));
    TRY(alloc_zeroed(&x->logits, (size_t)x->vocab, sizeof(float), WHAT, e));
    TRY(scratch_reserve(x, x->one, e)); // a token allocates nothing
    TRY(load_weights(x, weights, e));
    TRY(open_cache(x, e));
    TRY(open_rope(x, e));
    TRY(bind_blocks(x, e));
    *out = x;
    x = NULL;
done:
    decoder_close(x);
    return result;
}

void decoder_close(decoder *x)
{
    if (!x) return;
    device *d = x->device;
    d->ops->stream_close(x->stream);
    scratch_close(x);
    device_release(d, MEMORY_DEVICE, x->weights, x->weights_bytes);
    if (x->cache) device_release(d, MEMORY_DEVICE, x->cache, x->cache_bytes + 64);
    device_release(d, MEMORY_DEVICE, x->state, x->state_bytes);
    device_release(d, MEMORY_DEVICE, x->ids, (size_t)x->max_tokens * sizeof(int32_t));
    device_release(d, MEMORY_HOST, x->host_ids, (size_t)x->max_tokens * sizeof(int32_t));
    device_release(d, MEMORY_HOST, x->host_logits, (size_t)x->vocab * dtype_bytes(x->type));
    if (x->rope) device_release(d, MEMORY_DEVICE, x->rope, x->rope_bytes);
    for (int b = 0; x->one && x->block_weight && b < x->one->blocks; b++) free(x->block_weight[b]);
    free(x->block_weight);
    free(x->weight);
    free(x->block_cache);
    free(x->logits);
    model_close(x->one);
    free(x);
}

int64_t decoder_vocab(const decoder *x)
{
    return x->vocab;
}

int64_t decoder_position(const decoder *x)
{
    return x->position;
}

void decoder_rewind(decoder *x, int64_t keep)
{
    if (keep >= x->position) return;
    x->position = keep;
    x->runs_again = x->runs_again || x->state;
    for (int b = 0; b < x->one->blocks; b++) {
        const int64_t window = x->one->block[b].g->cache.window;
        x->runs_again = x->runs_again || x->block_cache[b].first > size_max(keep - window + 1, 0);
    }
}

// Sets the state to zeros before the first token.
static void begin_state(decoder *x)
{
    kernel_call c = {.kind = K_FILL};
    c.u.fill = (kernel_fill_args){.dst = x->state, .bytes = (int64_t)x->state_bytes};
    if (x->state && x->position == 0) device_launch(x->stream, &c);
}

static status run_blocks(decoder *x, const model *m, err *e)
{
    status result = OK;
    const decoder_scratch *s = &x->scratch;
    for (int b = 0; b < m->blocks; b++) {
        graph_run c = {.g = m->block[b].g,
                       .stream = x->stream,
                       .weight = x->block_weight[b],
                       .rope = model_block_rope(m, b, x->rope),
                       .block = b,
                       .pos0 = x->position,
                       .cache_first = x->block_cache[b].first};
        c.base[REGION_INPUT] = s->boundary[(b + 1) % 2];
        c.base[REGION_OUTPUT] = s->boundary[b % 2];
        c.base[REGION_WORKSPACE] = s->workspace;
        c.base[REGION_IDS] = x->ids + (size_t)x->position * sizeof(int32_t);
        c.base[REGION_CACHE] = x->cache + x->block_cache[b].offset;
        if (x->state) c.base[REGION_STATE] = x->state + x->block_cache[b].state;
        graph_make_cache_room(&c);
        x->block_cache[b].first = c.cache_first;
        TRY(graph_run_forward(&c, e));
    }
done:
    return result;
}

// Runs ids[count], which follow the tokens that have run. The outputs of the head stay in its output.
static status run_piece(decoder *x, const int32_t *ids, int64_t count, err *e)
{
    status result = OK;
    model *prompt = NULL;
    const model *m = x->one;
    int32_t *const host = x->host_ids + x->position;
    const size_t bytes = (size_t)count * sizeof *ids;
    if (count > 1) {
        TRY(open_model(x, count, &prompt, e));
        m = prompt;
    }
    TRY(scratch_reserve(x, m, e));
    memmove(host, ids, bytes);
    x->device->ops->copy(x->stream, x->ids + (size_t)x->position * sizeof *ids, host, bytes);
    begin_state(x);
    TRY(run_blocks(x, m, e));
    const char *from = x->scratch.boundary[(m->blocks - 1) % 2];
    x->device->ops->copy(x->stream, x->host_logits, from, (size_t)x->vocab * dtype_bytes(x->type));
    TRY(x->device->ops->sync(x->stream, e));
    x->position += count;
done:
    model_close(prompt);
    return result;
}

static status run_pieces(decoder *x, const int32_t *ids, int64_t count, err *e)
{
    status result = OK;
    for (int64_t piece; count > 0; ids += piece, count -= piece) {
        piece = size_min(count, x->most);
        if (count > piece && count - piece < LEAST_PIECE) piece -= LEAST_PIECE;
        TRY(run_piece(x, ids, piece, e));
    }
done:
    return result;
}

// Runs the tokens before the position again, with an empty cache.
static status run_again(decoder *x, err *e)
{
    const int64_t count = x->position;
    x->position = 0;
    x->runs_again = false;
    for (int b = 0; b < x->one->blocks; b++) x->block_cache[b].first = 0;
    return run_pieces(x, x->host_ids, count, e);
}

status decoder_feed(decoder *x, const int32_t *ids, int64_t count, const float **logits, err *e)
{
    status result = OK;
    if (count < 1) FAIL(E_USAGE, "the prompt is empty");
    if (x->position + count > x->max_tokens)
        FAIL(E_USAGE, "%lld tokens do not fit: there is room for %lld",
             (long long)(x->position + count), (long long)x->max_tokens);
    for (int64_t i = 0; i < count; i++)
        if (ids[i] < 0 || ids[i] >= x->ids_below)
            FAIL(E_USAGE, "token id %d is not in the model's vocabulary of %d", ids[i],
                 x->ids_below);
    if (x->runs_again) TRY(run_again(x, e));
    TRY(run_pieces(x, ids, count, e));
    dtype_convert(x->logits, F32, x->host_logits, x->type, (size_t)x->vocab);
    graph_finish_logits(&x->one->block[x->one->blocks - 1].g->logits_of, x->logits, x->vocab);
    *logits = x->logits;
done:
    return result;
}
