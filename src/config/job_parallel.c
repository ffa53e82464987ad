// job_parallel.c -- checks that the keys of `parallel` agree with each other and with the model.
// job_check calls it. It does not know which strategies the plan or the graph refuses; they report
// that by themselves.
#include "config/private.h"

#include "base/alloc.h"
#include "base/file.h"
#include "config/values.h"
#include "model/model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// Returns whether the value names hybrid sharding, which needs both data-parallel axes.
static bool is_hybrid(const yaml_node *n)
{
    const yaml_node *c = n->kind == NODE_LIST ? n->first : n;
    for (; c; c = n->kind == NODE_LIST ? c->next : NULL)
        if (c->kind == NODE_SCALAR && (value_same_word(c->scalar, "HYBRID_SHARD") ||
                                       value_same_word(c->scalar, "HYBRID_SHARD_ZERO2") ||
                                       value_same_word(c->scalar, "_HYBRID_SHARD_ZERO2")))
            return true;
    return false;
}

status policies_check_value(const job *j, const yaml_node *n, const policies *dp, err *e)
{
    static const char key[] = "parallel.dp: ";
    status result = OK;
    text found = {0};
    err refused = {.code = OK};
    if (policies_check(dp, &refused) != OK)
        FAIL(refused.code, "%s",
             refused.text + (strncmp(refused.text, key, strlen(key)) ? 0 : strlen(key)));
    if (!n || !is_hybrid(n) || j->parallel.size[AXIS_DP_REPLICATE] > 1) goto done;
    yaml_node_text(n, &found);
    TRY(text_check(&found, e));
    FAIL(E_USAGE,
         "found %.*s, which keeps several copies of the shards; valid: with "
         "parallel.dp_replicate 2 or more, their number",
         TEXT_CUT(found.chars, 60));
done:
    text_clear(&found);
    return result;
}

static status check_policies(const job *j, err *e)
{
    const setting *s = settings_of(j->values, "parallel.dp");
    const status result = policies_check_value(j, s->value, &j->strategy.dp, e);
    if (result != OK) setting_prefix(j->values, s, e);
    return result;
}

// Appends the numbers of context-parallel ranks that sequences of this length divide over.
static void list_cp(int64_t seq_len, text *out)
{
    enum { LISTED = 12 };
    int listed = 0;
    text_add(out, "1");
    for (int cp = 2; cp <= MESH_RANKS && 2 * cp <= seq_len && listed < LISTED; cp++)
        if (seq_len % (2 * cp) == 0) text_addf(out, ++listed < LISTED ? ", %d" : ", …", cp);
}

// Each rank has two chunks of a sequence.
static status check_cp(const job *j, err *e)
{
    status result = OK;
    text valid = {0};
    const int cp = j->parallel.size[AXIS_CP];
    const int64_t seq_len = j->data.seq_len, chunks = 2 * (int64_t)cp;
    const bool vectors = !j->own.model && j->model.config.family->reads_vectors;
    if (cp == 1) goto done;
    if (vectors || (j->own.train && j->own.positions == 1))
        KEY_ERROR("parallel.cp", "found %d, but %s%s, which cannot be split; valid: 1", cp,
                  vectors ? j->model.config.family->name : "a sample of the program's data",
                  vectors ? " reads vectors, not sequences" : " has one position");
    if (seq_len % chunks == 0) goto done;
    list_cp(seq_len, &valid);
    TRY(text_check(&valid, e));
    KEY_ERROR("parallel.cp",
              "found %d, which splits a sequence into %lld chunks of equal length, but "
              "data.seq_len is %lld; valid: data.seq_len a multiple of %lld, or parallel.cp %s",
              cp, (long long)chunks, (long long)seq_len, (long long)chunks, valid.chars);
done:
    text_clear(&valid);
    return result;
}

static status check_stages(job *j, err *e)
{
    status result = OK;
    bool interleaved = j->strategy.pipeline.schedule == PIPE_INTERLEAVED;
    int virtual = j->strategy.pipeline.virtual_stages;
    if (virtual > 1 && !interleaved)
        KEY_ERROR("parallel.virtual_stages",
                  "found %d, but parallel.pp_schedule is %s; valid: 1, or interleaved", virtual,
                  pipeline_schedule_name(j->strategy.pipeline.schedule));
    if (j->parallel.size[AXIS_PP] > 1 && interleaved && virtual == 1)
        KEY_ERROR("parallel.pp_schedule",
                  "found interleaved with parallel.virtual_stages 1; valid: with 2 or more");
    if (j->strategy.sequence_parallel && j->parallel.size[AXIS_TP] == 1) {
        j->strategy.sequence_parallel = false;
        text_add(&j->warnings,
                 "parallel.sequence_parallel has no effect, because parallel.tp is 1; "
                 "valid: with parallel.tp 2 or more\n");
        j->values->rows[key_index("parallel.sequence_parallel")].note = "off: parallel.tp is 1";
    }
done:
    return result;
}

// parallel.split counts layers; the plan counts blocks. Embedding and head are blocks of the first
// and the last model chunk; some families have none.
static status check_split(job *j, err *e)
{
    status result = OK;
    const model_config *c = &j->model.config;
    int64_t sum = 0;
    int *blocks = NULL;
    int chunks = j->parallel.size[AXIS_PP] > 1
                     ? j->parallel.size[AXIS_PP] * j->strategy.pipeline.virtual_stages
                     : 1;
    if (!j->parallel.splits) goto done;
    if ((int)j->parallel.splits != chunks)
        KEY_ERROR("parallel.split", "found %zu numbers; valid: %d, for pp %d x virtual_stages %d",
                  j->parallel.splits, chunks, j->parallel.size[AXIS_PP],
                  j->parallel.size[AXIS_PP] > 1 ? j->strategy.pipeline.virtual_stages : 1);
    TRY(alloc_zeroed(&blocks, j->parallel.splits, sizeof *blocks, "parallel.split", e));
    free((int *)j->strategy.pipeline.chunk_blocks); // of an earlier check
    j->strategy.pipeline.chunk_blocks = blocks;
    for (size_t i = 0; i < j->parallel.splits; i++) sum += blocks[i] = j->parallel.split[i];
    if (j->own.model) goto done; // the plan counts the blocks of a program's own model
    if (sum != c->layers)
        KEY_ERROR("parallel.split", "found %lld layers in all; the model has %lld", (long long)sum,
                  (long long)c->layers);
    if (c->family->blocks(c) == c->layers) goto done;
    blocks[0]++;
    blocks[chunks - 1]++;
done:
    return result;
}

static status check_offload(const job *j, err *e)
{
    status result = OK;
    static const char *const keys[PLAN_STATES] = {
        "parallel.offload.weights", "parallel.offload.gradients", "parallel.offload.optimizer"};
    const char *path = j->strategy.offload.path;
    for (int t = 0; t < PLAN_STATES; t++) {
        if (j->strategy.offload.tier[t] != TIER_FILE) continue;
        if (!path) KEY_ERROR(keys[t], "found file; it needs parallel.offload.path, a folder");
        bool can = false;
        TRY(file_could_be_directory(path, &can, e));
        if (!can)
            KEY_ERROR(
                "parallel.offload.path",
                "found %s, which is not a folder and cannot be made one; valid: a folder of this "
                "machine, which is created where it does not exist",
                path);
    }
    if (j->strategy.offload.block_bytes % 4096)
        KEY_ERROR("parallel.offload.block_bytes", "found %lld; valid: a multiple of 4Ki",
                  (long long)j->strategy.offload.block_bytes);
done:
    return result;
}

static status check_hook(const job *j, err *e)
{
    status result = OK;
    const strategy_hook *h = &j->strategy.hook;
    bool keeps = h->error_feedback || h->warm_start;
    if (h->kind == HOOK_POWERSGD && keeps && h->start_step < 2)
        KEY_ERROR("parallel.hook.start_step",
                  "found %lld; valid: 2 or more, or any with error_feedback and warm_start false",
                  (long long)h->start_step);
done:
    return result;
}

static status check_scaler(const job *j, err *e)
{
    status result = OK;
    const scaler_options *s = &j->train.fp16;
    if (j->train.precision == PRECISION_FP16 && s->loss_scale == 0 &&
        s->min_scale > ldexp(1, s->initial_power))
        KEY_ERROR("train.fp16.min_loss_scale",
                  "found %g; valid: at most 2^%d (train.fp16.initial_scale_power)", s->min_scale,
                  s->initial_power);
done:
    return result;
}

status job_check_parallel(job *j, err *e)
{
    status result = OK;
    TRY(check_policies(j, e));
    TRY(check_cp(j, e));
    TRY(check_stages(j, e));
    TRY(check_split(j, e));
    TRY(check_offload(j, e));
    TRY(check_hook(j, e));
    TRY(check_scaler(j, e));
done:
    return result;
}

status job_check_micros(const job *j, const mesh *m, err *e)
{
    status result = OK;
    int data = mesh_data_ranks(m), pp = j->parallel.size[AXIS_PP];
    int64_t micro = j->train.micro_batch ? j->train.micro_batch : 1;
    const int64_t micros = job_micro_batches(j, m);
    if (pp > 1 && j->strategy.pipeline.schedule == PIPE_INTERLEAVED && micros % pp)
        KEY_ERROR("parallel.pp_schedule",
                  "found interleaved with %lld micro-batches in a step (global_batch %lld / %d "
                  "data-parallel ranks / micro_batch %lld); valid: a multiple of pp %d",
                  (long long)micros, (long long)j->train.global_batch, data, (long long)micro, pp);
done:
    return result;
}
