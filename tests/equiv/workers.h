// workers.h -- for tests: trains a golden model on several ranks under any strategy. Every rank is a
// thread with its own device. After the run, the calling test reports the failure of any thread.
#ifndef TRIREME_TESTS_WORKERS_H
#define TRIREME_TESTS_WORKERS_H

#include "../unit/train/golden.h"

#include "comm/registry.h"
#include "distant/distant_comm.h"
#include "patience.h"
#include "toy/toy_comm.h"
#include "unkind/unkind_device.h"

#include <pthread.h>
#include <unistd.h>

enum { WORKERS_MOST = 8 };

// The thread sanitizer makes tests ten times as long: there, case k runs in one of the two orders of late streams.
static inline bool workers_take(size_t k, int order)
{
#ifdef __SANITIZE_THREAD__
    return (int)(k % 2) == order;
#else
    (void)k, (void)order;
    return true;
#endif
}

// Zeros mean: one rank, ddp, fp32, everything on the device.
typedef struct scenario {
    const char *model;          // NULL: gpt2_new
    const model_family *family; // NULL: that of the model
    int pp, replicate, shard, cp, tp;
    const char *outer, *inner; // over dp_replicate and dp_shard
    bool sync, sequence;       // sync: no_sync is off
    int reshard;               // -1: off
    pipeline_schedule order;
    int chunks;
    recompute_mode keep;
    dtype precision, reduce;
    strategy_hook_kind hook;
    bool feedback; // PowerSGD keeps errors and factors from step to step
    memory_tier weights, gradients, optimizer;
    bool apart;            // the device has a memory of its own
    bool host_updates;     // and the host runs the optimizer steps
    int64_t micro, global; // 0: 1 and 8
    bool evaluates;
    double ema; // decay of the moving average of the weights
    // Parameters whose tensors match are in a group of their own, over dp_shard with the policy
    // match_inner (NULL: inner).
    const char *match, *match_inner;
    bool freezes;         // that group
    storage_type storage; // of its weights of linear layers
    // The model is a llama with layers of several blocks of NF4, whose weights are drawn.
    bool wide;
    bool shards_only; // its inner process group is dp_shard, without cp
    bool distant;     // the communicator asks for streams with threads of their own
    bool toy;         // several ranks use the toy communicator
    bool unkind;      // on unkind devices; several ranks use the toy communicator
    bool p2p;         // with `unkind`: they use the communicator p2p
    bool cuda;        // on the GPUs of this process, which ranks take in turn
    int late_order;
    bool issues; // every step is issued, also where it could be recorded and replayed
} scenario;

static inline int workers_size(int n)
{
    return n > 0 ? n : 1;
}

static inline int workers_ranks(const scenario *s)
{
    return workers_size(s->pp) * workers_size(s->replicate) * workers_size(s->shard) *
           workers_size(s->cp) * workers_size(s->tp);
}

// Fills the groups of the options: the one of s->match, and that of all other parameters.
static inline param_groups workers_groups(const scenario *s, const trainer_options *o,
                                          param_group group[2])
{
    const strategy *x = &o->strategy;
    group[1] = (param_group){.dp = x->dp,
                             .over = POLICY_AXES,
                             .precision = o->precision,
                             .optimizer = o->optimizer,
                             .lr_scale = 1};
    memcpy(group[1].tier, x->offload.tier, sizeof group[1].tier);
    group[0] = group[1];
    group[0].match = s->match;
    group[0].frozen = s->freezes;
    if (s->shards_only) group[0].over.level[LEVEL_INNER] = MESH_AXIS(AXIS_DP_SHARD);
    if (s->match_inner) group[0].dp.inner = *policy_find(s->match_inner);
    return (param_groups){.items = group, .count = 2};
}

// `group` must live as long as the trainer.
static inline trainer_options workers_options(golden *g, const scenario *s, const char *folder,
                                              param_group group[2])
{
    trainer_options o = golden_options(g, UPDATE_ADAMW, s->precision, s->micro > 0 ? s->micro : 1);
    const int size[AXES] = {workers_size(s->pp), workers_size(s->replicate), workers_size(s->shard),
                            workers_size(s->cp), workers_size(s->tp)};
    memcpy(o.mesh.size, size, sizeof size);
    o.mesh.ranks = workers_ranks(s);
    o.optimizer.ema = s->ema;
    o.global_batch = s->global > 0 ? s->global : 8;
    o.strategy.dp = (policies){*policy_find(s->outer ? s->outer : "ddp"),
                               *policy_find(s->inner ? s->inner : "ddp")};
    o.strategy.no_sync = s->sync ? NO_SYNC_FALSE : NO_SYNC_TRUE;
    o.strategy.reshard_after_forward = s->reshard < 0 ? 0 : s->reshard > 0 ? s->reshard : 1;
    o.strategy.sequence_parallel = s->sequence;
    o.strategy.pipeline.schedule = s->pp > 1 ? s->order : PIPE_1F1B;
    o.strategy.pipeline.virtual_stages = workers_size(s->chunks);
    o.strategy.recompute = s->keep;
    o.strategy.reduce_dtype = s->reduce;
    o.strategy.hook = (strategy_hook){.kind = s->hook,
                                      .rank = 2,
                                      .min_compression_rate = 1.5,
                                      .warm_start = s->feedback,
                                      .error_feedback = s->feedback};
    const memory_tier tiers[PLAN_STATES] = {s->weights, s->gradients, s->optimizer};
    memcpy(o.strategy.offload.tier, tiers, sizeof tiers);
    o.strategy.offload.path = folder;
    o.strategy.offload.host_is_apart = s->apart || s->unkind || s->cuda;
    o.strategy.offload.updates_on_host = s->host_updates;
    g->device->is_host_memory = !o.strategy.offload.host_is_apart;
    o.strategy.offload.block_bytes = 64 << 10;
    o.strategy.offload.depth = 4;
    if (s->match) o.groups = workers_groups(s, &o, group);
    if (s->evaluates) o.valid = &g->data.base;
    o.checks.issues_every_step = s->issues;
    o.storage = s->storage;
    if (s->wide) o.weights = NULL;
    scaler_defaults(&o.scaler);
    return o;
}

struct worker_group;
typedef status worker_task(struct worker_group *all, int rank, golden *g, trainer *t, err *e);

typedef struct worker_group {
    const scenario *s;
    worker_task *task;
    void *given;
    bool traced;
    world *world;
    pthread_barrier_t barrier;
    char folder[64];
    struct {
        struct worker_group *all;
        int rank;
        status result;
        err error;
    } member[WORKERS_MOST];
} worker_group;

static const toy_device WORKERS_UNKIND = {.enqueue = unkind_enqueue, .ptr = unkind_ptr};

static inline status worker_group_work(worker_group *all, int rank, err *e)
{
    status result = OK;
    golden g = {0};
    trainer *t = NULL;
    device *host = NULL;
    static const distant_options distant = {.own_thread = true};
    golden_open(&g, all->s->wide ? "llama_gqa" : all->s->model ? all->s->model : "gpt2_new", 1);
    if (all->s->wide) g.config.hidden = g.config.ffn = 128, g.config.head_dim = 32;
    if (all->s->family) g.config.family = all->s->family;
    comm_close(g.comm);
    g.comm = NULL;
    if (all->s->unkind) {
        device_close(g.device);
        g.device = NULL;
        const unkind_options unkind = {.order = (late_order)all->s->late_order};
        TRY(unkind_device_open(&unkind, &g.device, e));
    }
    if (all->s->cuda) {
        device_description about;
        device_close(g.device);
        g.device = NULL;
        TRY(device_describe("cuda", NULL, &about, e));
        TRY(device_open("cuda", &(device_options){.index = rank % about.count}, &g.device, e));
    }
    const comm_options options = test_world_options(all->world, rank, g.device);
    const bool toy = all->s->toy || (all->s->unkind && !all->s->p2p);
    if (toy && workers_ranks(all->s) > 1)
        TRY(toy_open(&options, all->s->unkind ? &WORKERS_UNKIND : &TOY_HOST_DEVICE, &g.comm, e));
    else
        TRY(comm_open("auto", options, &g.comm, e));
    if (all->s->distant) TRY(distant_comm_make(g.comm, &distant, e));
    if (all->traced) TRY(comm_count_calls(g.comm, e));
    param_group group[2];
    trainer_options o = workers_options(&g, all->s, all->folder, group);
    if (all->s->host_updates) TRY(device_open("cpu", &(device_options){.threads = 1}, &host, e));
    o.host = host;
    TRY(trainer_open(&o, &t, e));
    TRY(all->task(all, rank, &g, t, e));
    if (all->s->unkind && unkind_broken(g.device)) FAIL(E_INTERNAL, "%s", unkind_broken(g.device));
done:
    if (result != OK && g.comm) comm_abort(g.comm, e);
    trainer_close(t);
    device_close(host);
    golden_close(&g);
    return result;
}

static inline void *workers_thread(void *arg)
{
    worker_group *all = *(worker_group **)arg;
    int rank = 0;
    while ((void *)&all->member[rank] != arg) rank++;
    all->member[rank].result = worker_group_work(all, rank, &all->member[rank].error);
    return NULL;
}

// Every rank opens a trainer and runs `task`. The first failure fails the test and names `name`.
static inline void workers_run(const char *name, const scenario *s, bool traced, worker_task *task,
                               void *given)
{
    worker_group all = {.s = s, .task = task, .given = given, .traced = traced};
    pthread_t thread[WORKERS_MOST];
    const int ranks = workers_ranks(s);
    strcpy(all.folder, "/tmp/trireme-workers.XXXXXX");
    assert_non_null(mkdtemp(all.folder));
    CHECK(test_world_open(ranks, true, &all.world, e));
    pthread_barrier_init(&all.barrier, NULL, (unsigned)ranks);
    for (int r = 0; r < ranks; r++) {
        all.member[r].all = &all;
        all.member[r].rank = r;
        assert_int_equal(pthread_create(&thread[r], NULL, workers_thread, &all.member[r]), 0);
    }
    for (int r = 0; r < ranks; r++) pthread_join(thread[r], NULL);
    world_close(all.world);
    pthread_barrier_destroy(&all.barrier);
    rmdir(all.folder);
    for (int r = 0; r < ranks; r++)
        if (all.member[r].result != OK && all.member[r].result != E_PEER)
            fail_msg("%s: rank %d: %s", name, r, all.member[r].error.text);
    for (int r = 0; r < ranks; r++)
        if (all.member[r].result != OK)
            fail_msg("%s: rank %d: %s", name, r, all.member[r].error.text);
}

#endif
