// test_reshard.c -- a run resumes from a checkpoint under any mesh and policy, because checkpoints
// do not depend on ranks, nor on the policies and memory tiers of parameter groups. Under every layout,
// the weights and moments have the bits that were saved.
// The next step has the loss of the run that never stopped. If both layouts sum in the same order,
// it also has its weights.
//
// With --all (nightly) every layout resumes from every layout's checkpoint. Without it, each case takes every
// fourth layout, by turns, and a layout resumes from one checkpoint.
#include "../unit/train/golden.h"

#include "base/file.h"
#include "comm/registry.h"
#include "model/config.h"
#include "own_text.h"
#include "patience.h"
#include "train/trainer_private.h"

#include <pthread.h>
#include <unistd.h>

enum { MOST_RANKS = 8, GROUPS = 3, LENGTH = 8, VOCAB = 67, BATCH = 8, STEPS = 4, SEED = 5 };

typedef struct layout {
    const char *name;
    int pp, replicate, shard, cp, tp;
    const char *outer, *inner;
    pipeline_schedule order;
    int chunks;
    bool sequence;
    // States in the file tier: o (optimizer), g (gradients), w (weights). Capitals: on the host tier of
    // a device with a memory of its own; u: the host updates it.
    const char *file;
} layout;

static const layout MESHES[] = {
    {"one rank", 1, 1, 1, 1, 1, "ddp", "ddp", PIPE_1F1B, 1, false, ""},
    {"ddp 2", 1, 2, 1, 1, 1, "ddp", "ddp", PIPE_1F1B, 1, false, ""},
    {"ddp 4", 1, 4, 1, 1, 1, "ddp", "ddp", PIPE_1F1B, 1, false, ""},
    {"ddp 8", 1, 8, 1, 1, 1, "ddp", "ddp", PIPE_1F1B, 1, false, ""},
    {"zero1 2", 1, 1, 2, 1, 1, "ddp", "zero1", PIPE_1F1B, 1, false, ""},
    {"zero1 4", 1, 4, 1, 1, 1, "zero1", "ddp", PIPE_1F1B, 1, false, ""},
    {"zero1 8", 1, 1, 8, 1, 1, "ddp", "zero1", PIPE_1F1B, 1, false, ""},
    {"zero2 2", 1, 2, 1, 1, 1, "zero2", "ddp", PIPE_1F1B, 1, false, ""},
    {"zero2 4", 1, 1, 4, 1, 1, "ddp", "zero2", PIPE_1F1B, 1, false, ""},
    {"zero2 8", 1, 1, 8, 1, 1, "ddp", "zero2", PIPE_1F1B, 1, false, ""},
    {"zero3 2", 1, 1, 2, 1, 1, "ddp", "zero3", PIPE_1F1B, 1, false, ""},
    {"zero3 4", 1, 1, 4, 1, 1, "ddp", "zero3", PIPE_1F1B, 1, false, ""},
    {"zero3 8", 1, 1, 8, 1, 1, "ddp", "zero3", PIPE_1F1B, 1, false, ""},
    {"hsdp 2x2", 1, 2, 2, 1, 1, "ddp", "zero3", PIPE_1F1B, 1, false, ""},
    {"hsdp 2x4", 1, 2, 4, 1, 1, "ddp", "zero3", PIPE_1F1B, 1, false, ""},
    {"zero1 x zero3 2x2", 1, 2, 2, 1, 1, "zero1", "zero3", PIPE_1F1B, 1, false, ""},
    {"zero3 x zero3 2x4", 1, 2, 4, 1, 1, "zero3", "zero3", PIPE_1F1B, 1, false, ""},
    {"tp 2", 1, 1, 1, 1, 2, "ddp", "ddp", PIPE_1F1B, 1, false, ""},
    {"tp 2 sequence", 1, 1, 1, 1, 2, "ddp", "ddp", PIPE_1F1B, 1, true, ""},
    {"tp 2 zero3 2", 1, 1, 2, 1, 2, "ddp", "zero3", PIPE_1F1B, 1, false, ""},
    {"tp 2 sequence zero1 4", 1, 1, 4, 1, 2, "ddp", "zero1", PIPE_1F1B, 1, true, ""},
    {"tp 4", 1, 1, 1, 1, 4, "ddp", "ddp", PIPE_1F1B, 1, false, ""},
    {"tp 4 sequence zero3 2", 1, 1, 2, 1, 4, "ddp", "zero3", PIPE_1F1B, 1, true, ""},
    {"cp 2", 1, 1, 1, 2, 1, "ddp", "ddp", PIPE_1F1B, 1, false, ""},
    {"cp 2 ddp 2", 1, 2, 1, 2, 1, "ddp", "ddp", PIPE_1F1B, 1, false, ""},
    {"cp 4 zero3", 1, 1, 1, 4, 1, "ddp", "zero3", PIPE_1F1B, 1, false, ""},
    {"cp 2 hsdp 2x2", 1, 2, 2, 2, 1, "ddp", "zero3", PIPE_1F1B, 1, false, ""},
    {"cp 2 tp 2 sequence zero1", 1, 1, 2, 2, 2, "ddp", "zero1", PIPE_1F1B, 1, true, ""},
    {"cp 2 pp 2 zero2 2", 2, 1, 2, 2, 1, "ddp", "zero2", PIPE_ZB, 1, false, ""},
    {"file ogw cp 2", 1, 1, 1, 2, 1, "ddp", "zero3", PIPE_1F1B, 1, false, "ogw"},
    {"pp 2", 2, 1, 1, 1, 1, "ddp", "ddp", PIPE_1F1B, 1, false, ""},
    {"pp 4", 4, 1, 1, 1, 1, "ddp", "ddp", PIPE_GPIPE, 1, false, ""},
    {"pp 2 interleaved", 2, 1, 1, 1, 1, "ddp", "ddp", PIPE_INTERLEAVED, 2, false, ""},
    {"pp 2 zero3 4", 2, 1, 4, 1, 1, "ddp", "zero3", PIPE_ZB, 1, false, ""},
    {"3d zero1", 2, 1, 2, 1, 2, "ddp", "zero1", PIPE_1F1B, 1, false, ""},
    {"3d zero3 sequence", 2, 1, 2, 1, 2, "ddp", "zero3", PIPE_1F1B, 1, true, ""},
    {"file o", 1, 1, 2, 1, 1, "ddp", "zero1", PIPE_1F1B, 1, false, "o"},
    {"file og", 1, 1, 4, 1, 1, "ddp", "zero2", PIPE_1F1B, 1, false, "og"},
    {"file ogw", 1, 1, 2, 1, 1, "ddp", "zero3", PIPE_1F1B, 1, false, "ogw"},
    {"file ogw hsdp", 1, 2, 2, 1, 1, "ddp", "zero3", PIPE_1F1B, 1, false, "ogw"},
    {"file ogw pp 2", 2, 1, 2, 1, 1, "ddp", "zero3", PIPE_1F1B, 1, false, "ogw"},
    {"host ogw", 1, 1, 1, 1, 1, "ddp", "ddp", PIPE_1F1B, 1, false, "OGW"},
    {"host og zero2 2", 1, 1, 2, 1, 1, "ddp", "zero2", PIPE_1F1B, 1, false, "OG"},
    {"host og updates zero3 2", 1, 1, 2, 1, 1, "ddp", "zero3", PIPE_1F1B, 1, false, "OGu"},
    {"host ogw updates pp 2", 2, 1, 2, 1, 1, "ddp", "zero3", PIPE_1F1B, 1, false, "OGWu"},
    {"host w, file og pp 2", 2, 1, 2, 1, 1, "ddp", "zero3", PIPE_1F1B, 1, false, "ogW"},
};
enum { COUNT = sizeof MESHES / sizeof *MESHES };

typedef enum kind { GPT2_TIED, LLAMA_GROUPED } kind;

// The state of a trainer after STEPS steps, and the result of its next step.
typedef struct moment {
    int64_t count;
    float *part[STATE_GRADIENT]; // weights, m, v, average; parameters one after the other
    scaler scaler;
    uint64_t skipped;
    double loss;     // of the next step
    float *after;    // [count] weights after the next step
    float *gradient; // [count] reduced gradients of the next step
    char *folder;    // the checkpoint
} moment;

// One run of one layout. If `from` is NULL it trains STEPS steps and saves; otherwise it resumes
// from that checkpoint.
typedef struct run {
    const layout *l;
    model_config config;
    dtype precision;
    bool grouped; // with the groups of make_groups
    dataset *data;
    world *world;
    const char *scratch;
    const moment *from;
    moment *out;
    status result[MOST_RANKS];
    err why[MOST_RANKS];
} run;

static bool everything; // --all

static int layout_ranks(const layout *l)
{
    return l->pp * l->replicate * l->shard * l->cp * l->tp;
}

static bool same_sums(const layout *a, const layout *b)
{
    return a->replicate * a->shard == b->replicate * b->shard && a->cp == b->cp && a->tp == b->tp &&
           a->sequence == b->sequence;
}

static status make_config(kind k, model_config *c)
{
    model_config_defaults(model_family_find(k == GPT2_TIED ? "gpt2" : "llama"), c);
    c->layers = 4;
    c->hidden = 20;
    c->heads = 4;
    c->kv_heads = k == GPT2_TIED ? 4 : 2;
    c->head_dim = k == GPT2_TIED ? 5 : 6;
    c->ffn = 28;
    c->vocab = VOCAB;
    c->max_seq = LENGTH;
    c->init_std = 0.1;
    c->tie_embeddings = k == GPT2_TIED;
    if (k == GPT2_TIED) c->dropout.embed = c->dropout.attention = c->dropout.residual = 0.1;
    return model_config_finish(c, NULL);
}

// Frozen MLPs, attention with settings of its own, and all others. The layouts also differ in the
// policies and memory tiers of the first two groups.
static param_groups make_groups(const run *r, const trainer_options *o, param_group out[GROUPS])
{
    static const char *const inner[] = {"zero3", "ddp", "zero1", "zero2"};
    static const memory_tier at[] = {TIER_DEVICE, TIER_FILE, TIER_HOST};
    const size_t i = (size_t)(r->l - MESHES);
    for (int k = 0; k < GROUPS; k++) {
        out[k] = (param_group){.dp = o->strategy.dp,
                               .over = POLICY_AXES,
                               .precision = o->precision,
                               .optimizer = o->optimizer,
                               .lr_scale = 1};
        memcpy(out[k].tier, o->strategy.offload.tier, sizeof out[k].tier);
    }
    out[0].match = "*.mlp.*", out[0].frozen = true;
    out[1].match = "*attn.*", out[1].lr_scale = 2, out[1].optimizer.weight_decay = 0;
    // The host updates a group only where all its state is on the host.
    out[1].tier[PLAN_OPTIMIZER_STATE] = strchr(r->l->file, 'u') ? TIER_FILE : at[i % 3];
    // An outer policy that shards allows few inner ones.
    for (size_t k = 0; k < 2 && strcmp(r->l->outer, "ddp") == 0; k++) {
        out[k].dp.inner = *policy_find(inner[(i + k) % 4]);
        if (out[k].dp.inner.weight != SHARD) out[k].tier[PLAN_WEIGHTS] = TIER_DEVICE;
    }
    return (param_groups){.items = out, .count = GROUPS};
}

// `group` must live as long as the trainer.
static trainer_options make_options(const run *r, device *d, comm *c, param_group group[GROUPS])
{
    const layout *l = r->l;
    trainer_options o = {
        .device = d,
        .comm = c,
        .family = r->config.family,
        .config = &r->config,
        .mesh = {.size = {l->pp, l->replicate, l->shard, l->cp, l->tp}, .ranks = layout_ranks(l)},
        .strategy = {.dp = {*policy_find(l->outer), *policy_find(l->inner)},
                     .no_sync = NO_SYNC_TRUE,
                     .reshard_after_forward = 1,
                     .sequence_parallel = l->sequence,
                     .pipeline = {.schedule = l->order, .virtual_stages = l->chunks},
                     .bucket_bytes = 8 << 10,
                     .offload = {.path = r->scratch, .block_bytes = 64 << 10, .depth = 4}},
        .precision = r->precision,
        .micro_batch = 1,
        .global_batch = BATCH,
        .seq_len = LENGTH,
        .seed = SEED,
        // Epsilon is far above the rounding error of key biases' gradients, whose true value is 0.
        .optimizer = {UPDATE_ADAMW, 5e-3, 0.9, 0.95, 1e-4, 0.1},
        .clip_grad_norm = 0.5,
        .norm_by_group = r->grouped,
        .checks.replicas_every = 1,
        .train = r->data};
    static const char files[PLAN_STATES] = {'w', 'g', 'o'}, hosts[PLAN_STATES] = {'W', 'G', 'O'};
    strategy_offload *const offload = &o.strategy.offload;
    for (int k = 0; k < PLAN_STATES; k++) {
        if (strchr(l->file, files[k])) offload->tier[k] = TIER_FILE;
        if (strchr(l->file, hosts[k])) offload->tier[k] = TIER_HOST;
    }
    offload->host_is_apart = strpbrk(l->file, "WGO") != NULL;
    offload->updates_on_host = strchr(l->file, 'u') != NULL;
    d->is_host_memory = !offload->host_is_apart;
    lr_defaults(&o.lr);
    o.lr.name = LR_COSINE;
    o.lr.warmup_steps = 2;
    o.lr.total_steps = STEPS + 1;
    scaler_defaults(&o.scaler);
    o.scaler.initial_power = 21; // overflows at first
    o.scaler.hysteresis = 1;
    o.scaler.scale_window = 2; // the scale changes after the save, too
    if (r->grouped) o.groups = make_groups(r, &o, group);
    return o;
}

// ---- One rank

// Reads one state tensor of every parameter to rank 0.
static status read_part(trainer *t, trainer_state_kind part, float **out, int64_t *count, err *e)
{
    status result = OK;
    const model *m = trainer_get_model(t);
    const bool mine = t->o.comm->rank == 0;
    int64_t offset = 0;
    *count = 0;
    for (int p = 0; p < m->params; p++) *count += m->param[p].count;
    if (mine && !*out) *out = malloc((size_t)*count * sizeof(float));
    for (int p = 0; p < m->params; offset += m->param[p++].count)
        TRY(trainer_read_state(t, part, p, mine ? *out + offset : NULL, e));
done:
    return result;
}

static status save(run *r, trainer *t, err *e)
{
    status result = OK;
    char out[256], *json = NULL, *folder = NULL;
    TRY(model_config_write(&r->config, "float32", &json, e));
    snprintf(out, sizeof out, "%s/%d", r->scratch, (int)(r->l - MESHES));
    const trainer_save_options o = {.out = out, .config_json = json};
    if (t->o.comm->rank == 0) TRY(file_make_directories(out, e));
    TRY(trainer_save(t, &o, &folder, e));
    if (t->o.comm->rank == 0) r->out->folder = folder;
done:
    free(json);
    return result;
}

// The norm of the gradients that were read must be the norm that the step reported.
static status check_norm(const run *r, const trainer_step_result *s, err *e)
{
    double sum = 0;
    for (int64_t i = 0; i < r->out->count; i++)
        sum += (double)r->out->gradient[i] * (double)r->out->gradient[i];
    if (s->skipped || fabs(sqrt(sum) - s->grad_norm) <= 1e-5 * s->grad_norm) return OK;
    return err_set(e, E_INTERNAL, "the step reports norm %g, its gradients have %g", s->grad_norm,
                   sqrt(sum));
}

// The norms of the groups of make_groups must be those of the gradients that were read. `turned`: each is compared with the
// other group's, which must fail.
static status check_group_norms(const run *r, trainer *t, const trainer_step_result *s, bool turned,
                                err *e)
{
    static const char *const name[] = {"*attn.*", "no group"};
    const model *m = trainer_get_model(t);
    double sum[2] = {0, 0};
    int64_t at = 0;
    for (int p = 0; p < m->params; p++) {
        const bool attends = t->plan->row[p].group == 1;
        for (int64_t i = 0; i < m->param[p].count; i++, at++)
            sum[attends ? 0 : 1] += (double)r->out->gradient[at] * (double)r->out->gradient[at];
    }
    if (s->group_norms != (r->grouped ? 2 : 0))
        return err_set(e, E_INTERNAL, "%d groups have a norm", s->group_norms);
    for (int k = 0; k < s->group_norms && !s->skipped; k++) {
        const double norm = sqrt(sum[turned ? 1 - k : k]), found = s->group_norm[k].norm;
        if (strcmp(s->group_norm[k].name, name[k]) != 0 || !(fabs(norm - found) <= 1e-5 * found))
            return err_set(e, E_INTERNAL,
                           "group %d: the step reports norm %g of %s, its gradients have %g", k,
                           found, s->group_norm[k].name, norm);
    }
    return OK;
}

// Frozen weights keep the bits of their initialization in every step, and have no moments.
static status check_frozen(const run *r, trainer *t, err *e)
{
    const moment *m = r->out;
    const model *all = trainer_get_model(t);
    int64_t from = 0, frozen = 0;
    for (int p = 0; p < all->params; from += all->param[p++].count) {
        if (!t->plan->group[t->plan->row[p].group].o.frozen) continue;
        const size_t bytes = (size_t)all->param[p].count * sizeof(float);
        frozen += all->param[p].count;
        if (memcmp(m->after + from, m->part[STATE_WEIGHT] + from, bytes) != 0)
            return err_set(e, E_INTERNAL, "frozen weights %s change", all->param[p].name);
        for (int64_t i = from; i < from + all->param[p].count; i++)
            if (m->part[STATE_M][i] != 0 || m->part[STATE_V][i] != 0 || m->gradient[i] != 0)
                return err_set(e, E_INTERNAL, "frozen weights %s have state", all->param[p].name);
    }
    return (frozen > 0) == r->grouped ? OK : err_set(e, E_INTERNAL, "wrong parameters are frozen");
}

static status go(run *r, trainer *t, err *e)
{
    status result = OK;
    trainer_step_result s = {0};
    int64_t count;
    float *none = NULL;
    const bool mine = t->o.comm->rank == 0;
    for (int i = 0; !r->from && i < STEPS; i++) TRY(trainer_step(t, false, &s, e));
    if (r->from)
        TRY(trainer_resume(t, r->from->folder, e));
    else
        TRY(save(r, t, e));
    if (trainer_steps_done(t) != STEPS) FAIL(E_INTERNAL, "not after step %d", STEPS);
    for (int part = 0; part < STATE_GRADIENT; part++)
        TRY(read_part(t, (trainer_state_kind)part, mine ? &r->out->part[part] : &none, &count, e));
    // Reads parameter 0 last, because the read after the step starts with it. A stale copy would
    // show there.
    TRY(trainer_read_state(t, STATE_WEIGHT, 0, mine ? r->out->part[STATE_WEIGHT] : NULL, e));
    if (mine) r->out->scaler = *results_scaler(t), r->out->skipped = results_skipped(t);
    TRY(trainer_step(t, false, &s, e));
    TRY(read_part(t, STATE_WEIGHT, mine ? &r->out->after : &none, &count, e));
    TRY(read_part(t, STATE_GRADIENT, mine ? &r->out->gradient : &none, &count, e));
    if (mine) r->out->count = count, r->out->loss = s.loss;
    if (mine) TRY(check_norm(r, &s, e));
    if (mine) TRY(check_group_norms(r, t, &s, false, e));
    if (mine && r->grouped && !s.skipped && check_group_norms(r, t, &s, true, NULL) == OK)
        FAIL(E_INTERNAL, "the norms of groups are equal, so that nothing was compared");
    if (mine) TRY(check_frozen(r, t, e));
    const size_t first = (size_t)trainer_get_model(t)->param[0].count * sizeof(float);
    if (mine && !s.skipped && !memcmp(r->out->after, r->out->part[STATE_WEIGHT], first))
        FAIL(E_INTERNAL, "the weights after the step equal those before it");
done:
    return result;
}

typedef struct member {
    run *r;
    int rank;
} member;

static void *work(void *arg)
{
    run *r = ((member *)arg)->r;
    const int rank = ((member *)arg)->rank;
    status result = OK;
    err *e = &r->why[rank];
    trainer *t = NULL;
    device *d = NULL, *host = NULL;
    comm *c = NULL;
    const device_options threads = {.threads = 1};
    TRY(device_open("cpu", &threads, &d, e));
    TRY(device_open("cpu", &threads, &host, e));
    TRY(comm_open("auto", test_world_options(r->world, rank, d), &c, e));
    param_group group[GROUPS];
    trainer_options o = make_options(r, d, c, group);
    o.host = host;
    TRY(trainer_open(&o, &t, e));
    TRY(go(r, t, e));
done:
    if (result != OK && c) comm_abort(c, e);
    trainer_close(t);
    comm_close(c);
    device_close(host);
    device_close(d);
    r->result[rank] = result;
    return NULL;
}

static void run_ranks(run *r, const layout *l, const moment *from, moment *out)
{
    pthread_t thread[MOST_RANKS];
    member arg[MOST_RANKS];
    r->l = l, r->from = from, r->out = out;
    // A run that resumes starts from other weights, so that weights that are not read show.
    r->config.init_std = from ? 0.2 : 0.1;
    CHECK(test_world_open(layout_ranks(l), true, &r->world, e));
    for (int i = 0; i < layout_ranks(l); i++) {
        arg[i] = (member){r, i};
        assert_int_equal(pthread_create(&thread[i], NULL, work, &arg[i]), 0);
    }
    for (int i = 0; i < layout_ranks(l); i++) pthread_join(thread[i], NULL);
    world_close(r->world);
    for (int i = 0; i < layout_ranks(l); i++)
        if (r->result[i] != OK && r->result[i] != E_PEER)
            fail_msg("%s: rank %d: %s", l->name, i, r->why[i].text);
    for (int i = 0; i < layout_ranks(l); i++)
        if (r->result[i] != OK) fail_msg("%s: rank %d: %s", l->name, i, r->why[i].text);
}

static void forget(moment *m)
{
    for (int part = 0; part < STATE_GRADIENT; part++) free(m->part[part]);
    free(m->after);
    free(m->gradient);
    free(m->folder);
    *m = (moment){0};
}

// ---- What must be equal

static void expect_bits(const float *a, const float *b, int64_t count, const char *what,
                        const layout *from, const layout *to)
{
    for (int64_t i = 0; i < count; i++)
        if (memcmp(&a[i], &b[i], sizeof *a) != 0)
            fail_msg("%s, then %s: element %lld of the %s is %.9g, then %.9g", from->name, to->name,
                     (long long)i, what, (double)a[i], (double)b[i]);
}

static void expect_state(const moment *a, const moment *b, const layout *from, const layout *to)
{
    static const char *const name[] = {"weights", "first moments", "second moments",
                                       "moving averages"};
    assert_true(a->count == b->count);
    for (int part = 0; part < STATE_GRADIENT; part++)
        expect_bits(a->part[part], b->part[part], a->count, name[part], from, to);
    if (memcmp(&a->scaler, &b->scaler, sizeof a->scaler) != 0 || a->skipped != b->skipped)
        fail_msg("%s, then %s: the loss scale's state differs", from->name, to->name);
}

static void expect_next(const run *r, const moment *a, const moment *b, const layout *from,
                        const layout *to)
{
    const bool same = same_sums(from, to);
    // Tensor-parallel and context-parallel ranks round partial sums to 16 bits before they are added.
    const bool rounds = from->tp != to->tp || from->cp != to->cp;
    const double allowed = r->precision == F32 || !rounds ? 1e-6 : 5e-3;
    if (same ? a->loss != b->loss : !(fabs(a->loss - b->loss) <= allowed * fabs(a->loss)))
        fail_msg("%s, then %s: the next loss is %.17g, then %.17g", from->name, to->name, a->loss,
                 b->loss);
    if (!same) return;
    expect_bits(a->after, b->after, a->count, "next weights", from, to);
    expect_bits(a->gradient, b->gradient, a->count, "next gradients", from, to);
}

// Layouts that sum in the same order save files with the same bytes.
static void expect_files(const moment *a, const moment *b, const layout *from, const layout *to)
{
    static const char *const file[] = {"model.safetensors", "trireme/state.safetensors",
                                       "config.json"};
    for (int i = 0; i < 3; i++) {
        char *path[] = {own_path(a->folder, file[i]), own_path(b->folder, file[i])};
        file_map map[2] = {{0}};
        for (int k = 0; k < 2; k++) CHECK(file_map_open(path[k], &map[k], e));
        if (map[0].bytes != map[1].bytes || memcmp(map[0].ptr, map[1].ptr, map[0].bytes) != 0)
            fail_msg("%s and %s save different files %s", from->name, to->name, file[i]);
        for (int k = 0; k < 2; k++) file_unmap(&map[k]), free(path[k]);
    }
}

// ---- All layouts

// The layouts that a case takes.
typedef struct chosen {
    const layout *l[COUNT];
    int count;
} chosen;

static chosen choose(int turn)
{
    chosen c = {.count = 0};
    for (int i = 0; i < COUNT; i++)
        if (everything || i % 4 == turn % 4) c.l[c.count++] = &MESHES[i];
    return c;
}

static int save_all(run *r, const chosen *c, moment saved[COUNT])
{
    int files = 0;
    for (int a = 0; a < c->count; a++) {
        run_ranks(r, c->l[a], NULL, &saved[a]);
        for (int b = 0; b < a; b++) {
            if (!same_sums(c->l[a], c->l[b])) continue;
            expect_files(&saved[b], &saved[a], c->l[b], c->l[a]);
            files++;
            break;
        }
    }
    return files;
}

typedef struct resume_case {
    kind kind;
    dtype precision;
    bool grouped;
    int turn;
} resume_case;

// A layout resumes from all chosen layouts' checkpoints, or from one that is far from it in the list.
// `turn` selects which one. Every checkpoint is used.
static void resume_all(const resume_case *x)
{
    char scratch[] = "/tmp/trireme-reshard.XXXXXX";
    moment saved[COUNT] = {{0}};
    run r = {.precision = x->precision, .grouped = x->grouped, .scratch = scratch};
    assert_non_null(mkdtemp(scratch));
    assert_int_equal(make_config(x->kind, &r.config), OK);
    CHECK(dataset_open(&(dataset_source){.path = "mock", .weight = 1}, 1, LENGTH, VOCAB, SEED, 1000,
                       &r.data, e));
    const chosen c = choose(x->turn);
    const int files = save_all(&r, &c, saved);
    if (x->precision == F16) assert_true(saved[0].skipped > 0);
    int pairs = 0;
    for (int b = 0; b < c.count; b++)
        for (int i = 0; i < (everything ? c.count : 1); i++, pairs++) {
            const int a = (b + 5 * x->turn + 3 + i) % c.count;
            moment got = {0};
            run_ranks(&r, c.l[b], &saved[a], &got);
            expect_state(&saved[a], &got, c.l[a], c.l[b]);
            expect_next(&r, &saved[a], &got, c.l[a], c.l[b]);
            forget(&got);
        }
    print_message("%d layouts saved, %d with the same files as another one, %d pairs resumed\n",
                  c.count, files, pairs);
    for (int a = 0; a < c.count; a++) forget(&saved[a]);
    dataset_close(r.data);
    CHECK(file_remove_tree(scratch, e));
}

static void runs_resume_under_any_layout(void **state)
{
    resume_all(*state);
}

int main(int count, char **word)
{
    static resume_case cases[] = {
        {GPT2_TIED, F32, false, 0},
        {GPT2_TIED, BF16, false, 1},
        {GPT2_TIED, F16, false, 2},
        {LLAMA_GROUPED, F32, false, 3},
        {LLAMA_GROUPED, BF16, false, 4},
        {LLAMA_GROUPED, F16, false, 5},
        {GPT2_TIED, F32, true, 6},
        {LLAMA_GROUPED, BF16, true, 7}, // frozen weights have no master weights
    };
#define RESUME(name, i)                                                                            \
    {                                                                                              \
        name " under any layout", runs_resume_under_any_layout, NULL, NULL, &cases[i]              \
    }
    const struct CMUnitTest tests[] = {
        RESUME("gpt2 in fp32", 0),
        RESUME("gpt2 in bf16", 1),
        RESUME("gpt2 in fp16", 2),
        RESUME("llama in fp32", 3),
        RESUME("llama in bf16", 4),
        RESUME("llama in fp16", 5),
        RESUME("gpt2 with parameter groups in fp32", 6),
        RESUME("llama with parameter groups in bf16", 7),
    };
    everything = count > 1 && strcmp(word[1], "--all") == 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
