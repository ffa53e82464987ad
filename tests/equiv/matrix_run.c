// matrix_run.c -- runs one point of the matrix on mock data. Every rank is a thread with its own
// device. The equivalence tests call it through matrix.h. It does not know the expected outcome.
#include "equiv/matrix.h"

#include "data/dataset.h"
#include "equiv/matrix_hosts.h"
#include "late/late_device.h"
#include "toy/toy_comm.h"
#include "unkind/unkind_device.h"

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LAYERS = 6, HIDDEN = 24, VOCAB = 67, LENGTH = 12, SEED = 11 };

// A rank's result, and the outcome that rank 0 fills. They lie in memory that processes share.
typedef struct rank_result {
    status got;
    err why;
} rank_result;

typedef struct results {
    outcome outcome;
    rank_result rank[MATRIX_RANKS];
} results;

typedef struct setup {
    matrix_hosts hosts;
    const point *point;
    const matrix_run *how;
    const model_config *config;
    dataset *data;
    trainer_options options;
    param_group group[MATRIX_GROUPS]; // of the options
    results *results;
    int64_t length; // of a sequence
} setup;

typedef struct rank_arg {
    setup *s;
    int rank;
    pthread_t thread;
    pid_t process;
} rank_arg;

static status make_config(const point *p, model_config *c, err *e)
{
    const bool gpt2 = p->v[DIM_MODEL] == 0;
    model_config_defaults(model_family_find(gpt2 ? "gpt2" : "llama"), c);
    c->layers = LAYERS;
    c->hidden = HIDDEN;
    c->heads = 4;
    c->kv_heads = gpt2 ? 4 : 2;
    c->head_dim = HIDDEN / 4;
    c->ffn = 40;
    c->vocab = VOCAB;
    c->max_seq = LENGTH;
    c->init_std = 0.1;
    c->tie_embeddings = p->v[DIM_MODEL] != 1;
    if (gpt2) c->dropout.embed = c->dropout.attention = c->dropout.residual = 0.1;
    return model_config_finish(c, e);
}

static void fill_options(setup *s, trainer_options *o)
{
    matrix_options(s->point, o);
    o->family = s->config->family;
    o->config = s->config;
    o->strategy.bucket_bytes = 8 << 10; // some buckets hold several blocks, some hold one
    o->strategy.offload.path = s->how->folder;
    if (s->how->micro_batch > 0) o->micro_batch = o->global_batch = s->how->micro_batch;
    o->seq_len = s->length;
    o->seed = SEED;
    // Adam divides by the root of the second moment. The true gradient of a key bias is zero, so its
    // computed gradient is only rounding error. A small epsilon would scale that error to a full
    // step.
    o->optimizer = (optim_config){.rule = UPDATE_ADAMW,
                                  .lr = 5e-3,
                                  .beta1 = 0.9,
                                  .beta2 = 0.95,
                                  .eps = 1e-4,
                                  .weight_decay = 0.1};
    lr_defaults(&o->lr);
    o->lr.name = LR_COSINE;
    o->lr.warmup_steps = 2;
    o->lr.total_steps = MATRIX_STEPS;
    o->clip_grad_norm = 0.5;
    scaler_defaults(&o->scaler);
    o->scaler.initial_power = 10;
    o->checks.replicas_every = 2;
    if (s->how->unkind || s->how->cuda) o->strategy.offload.host_is_apart = true;
    o->train = s->data;
    o->groups = matrix_groups(s->point, o, s->group);
    o->lora = matrix_lora(s->point);
}

// ---- One rank

static status read_weights(trainer *t, outcome *out, err *e)
{
    status result = OK;
    const model *m = trainer_get_model(t);
    int64_t offset = 0;
    for (int p = 0; p < m->params; p++) {
        const int64_t count = m->param[p].count;
        if (offset + count > MATRIX_WEIGHTS)
            FAIL(E_INTERNAL, "the matrix has no room for the weights of this model");
        TRY(trainer_read_state(t, STATE_WEIGHT, p, out ? out->weight + offset : NULL, e));
        offset += count;
    }
    if (out) out->weights = offset;
done:
    return result;
}

static status run_steps(trainer *t, int steps, outcome *out, err *e)
{
    status result = OK;
    for (int i = 0; i < steps; i++) {
        trainer_step_result r = {0};
        TRY(trainer_step(t, false, &r, e));
        if (out) out->loss[i] = r.loss, out->norm[i] = r.grad_norm;
    }
    TRY(read_weights(t, out, e));
done:
    return result;
}

static status open_gpu(int rank, device **out, err *e)
{
    status result = OK;
    device_options o = {.local_rank = rank, .local_ranks = MATRIX_RANKS};
    device_description d;
    TRY(device_describe("cuda", &o, &d, e));
    o.index = rank % d.count;
    TRY(device_open("cuda", &o, out, e));
done:
    return result;
}

static status open_device(const matrix_run *how, int rank, device **out, err *e)
{
    if (how->cuda) return open_gpu(rank, out, e);
    const device_options o = {.threads = 1};
    const unkind_options unkind = {.order = (late_order)how->late_order};
    if (how->unkind) return unkind_device_open(&unkind, out, e);
    if (how->late) return late_device_open((late_order)how->late_order, &o, out, e);
    return device_open("cpu", &o, out, e);
}

static const toy_device TOY_UNKIND_DEVICE = {.enqueue = unkind_enqueue, .ptr = unkind_ptr};

static status check_rules(const matrix_run *how, const device *d, err *e)
{
    const char *broken = how->unkind ? unkind_broken(d) : NULL;
    return broken ? err_set(e, E_INTERNAL, "%s", broken) : OK;
}

static const char *communicator_of(const matrix_run *how, int ranks)
{
    if (how->second_host) return "hier";
    return how->comm && ranks > 1 ? how->comm : "auto";
}

static status run_rank(setup *s, int rank, err *e)
{
    status result = OK;
    const matrix_run *how = s->how;
    trainer_options o = s->options;
    trainer *t = NULL;
    comm_store *store = NULL;
    comm_options options;
    o.device = o.host = NULL, o.comm = NULL;
    TRY(open_device(how, rank, &o.device, e));
    o.device->is_host_memory = !o.strategy.offload.host_is_apart;
    TRY(matrix_hosts_enter(&s->hosts, rank, o.device, &store, &options, e));
    if ((how->toy || (how->unkind && !how->p2p)) && options.size > 1)
        TRY(toy_open(&options, how->unkind ? &TOY_UNKIND_DEVICE : &TOY_HOST_DEVICE, &o.comm, e));
    else
        TRY(comm_open(communicator_of(how, options.size), options, &o.comm, e));
    if (o.strategy.offload.updates_on_host)
        TRY(device_open("cpu", &(device_options){.threads = 1}, &o.host, e));
    if (how->distant) TRY(distant_comm_make(o.comm, how->distant, e));
    if (how->opened) how->opened(o.device, rank);
    TRY(trainer_open(&o, &t, e));
    TRY(run_steps(t, how->steps ? how->steps : MATRIX_STEPS,
                  rank == 0 ? &s->results->outcome : NULL, e));
    TRY(comm_barrier(o.comm, e));
    TRY(check_rules(how, o.device, e));
done:
    // Wakes the ranks that wait for this failed rank.
    if (result != OK && o.comm) comm_abort(o.comm, e);
    trainer_close(t);
    if (how->closing && o.device) how->closing(o.device, rank);
    comm_close(o.comm);
    comm_store_close(store);
    device_close(o.host);
    device_close(o.device);
    return result;
}

static void *rank_thread(void *arg)
{
    rank_arg *a = arg;
    rank_result *r = &a->s->results->rank[a->rank];
    r->got = run_rank(a->s, a->rank, &r->why);
    return NULL;
}

// ---- All of them

static void start_rank(rank_arg *a)
{
    if (!a->s->how->processes) {
        if (pthread_create(&a->thread, NULL, rank_thread, a) != 0) abort();
        return;
    }
    // The rank counts as failed until it has ended.
    rank_result *r = &a->s->results->rank[a->rank];
    r->got = err_set(&r->why, E_INTERNAL, "its process ended without a result");
    a->process = fork();
    if (a->process < 0) abort();
    if (a->process > 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    rank_thread(a);
    _exit(0);
}

static void await_rank(const rank_arg *a)
{
    if (a->s->how->processes)
        waitpid(a->process, NULL, 0);
    else
        pthread_join(a->thread, NULL);
}

// Reports the first cause. E_PEER only follows from another rank's failure.
static void take_failure(const results *from, int ranks, outcome *out)
{
    for (int r = 0; r < ranks; r++) {
        const rank_result *x = &from->rank[r];
        if (x->got == OK || (out->result != OK && (out->result != E_PEER || x->got == E_PEER)))
            continue;
        out->result = x->got;
        snprintf(out->error, sizeof out->error, "rank %d: %.200s", r, x->why.text);
    }
}

static status run_all(setup *s, int ranks, err *e)
{
    status result = OK;
    rank_arg arg[MATRIX_RANKS];
    TRY(matrix_hosts_open(ranks, s->how->second_host, !s->how->processes, &s->hosts, e));
    for (int i = 0; i < 2; i++)
        if (s->hosts.world[i] && s->how->patience_ms > 0)
            comm_watchdog_set(s->hosts.world[i]->watchdog, s->how->patience_ms);
    for (int r = 0; r < ranks; r++) {
        arg[r] = (rank_arg){.s = s, .rank = r};
        start_rank(&arg[r]);
    }
    result = matrix_hosts_start(&s->hosts, e);
    for (int r = 0; r < ranks; r++) await_rank(&arg[r]);
done:
    matrix_hosts_close(&s->hosts);
    return result;
}

void matrix_execute(const point *p, const matrix_run *how, outcome *out)
{
    status result = OK;
    err why = {0}, *e = &why;
    model_config config;
    setup s = {.point = p, .how = how, .config = &config};
    s.length = how->length > 0 ? how->length : matrix_length(p);
    s.results =
        mmap(NULL, sizeof *s.results, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (s.results == MAP_FAILED) abort();
    TRY(make_config(p, &config, e));
    TRY(dataset_open(&(dataset_source){.path = "mock", .weight = 1}, 1, s.length, VOCAB, SEED, 1000,
                     &s.data, e));
    fill_options(&s, &s.options);
    TRY(run_all(&s, s.options.mesh.ranks, e));
done:
    *out = s.results->outcome;
    take_failure(s.results, MATRIX_RANKS, out);
    if (result != OK) {
        out->result = result;
        snprintf(out->error, sizeof out->error, "%.200s", why.text);
    }
    dataset_close(s.data);
    munmap(s.results, sizeof *s.results);
}

// ---- Two outcomes

// The largest relative difference of the numbers of two steps. Numbers that are equal may be infinite.
static double farthest(const double *a, const double *b)
{
    double most = 0;
    for (int i = 0; i < MATRIX_STEPS; i++) {
        const double off = a[i] == b[i] ? 0 : fabs(a[i] - b[i]) / (fabs(b[i]) + 1e-30);
        if (!(off <= most)) most = off; // also takes a NaN
    }
    return most;
}

bool matrix_allows(const difference *d, nearness n, double tolerance)
{
    if (n == MATRIX_EXACT) return d->same && d->norm <= 1e-6;
    return d->loss <= tolerance && d->norm <= 10 * tolerance && d->weights <= tolerance;
}

difference matrix_compare(const outcome *a, const outcome *b)
{
    difference d = {.same = a->weights == b->weights && !memcmp(a->loss, b->loss, sizeof a->loss) &&
                            !memcmp(a->weight, b->weight, (size_t)a->weights * sizeof(float))};
    double apart = 0, size = 0;
    d.loss = farthest(a->loss, b->loss);
    d.norm = farthest(a->norm, b->norm);
    for (int64_t i = 0; i < b->weights; i++) {
        const double x = (double)a->weight[i] - (double)b->weight[i];
        apart += x * x;
        size += (double)b->weight[i] * (double)b->weight[i];
    }
    d.weights = a->weights == b->weights ? sqrt(apart) / (sqrt(size) + 1e-30) : INFINITY;
    return d;
}
