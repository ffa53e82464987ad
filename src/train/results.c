// results.c -- the numbers of a step: what the host gives to the device before it, and what the device
// computes. See results.h. Called by step.c. The kernels of the loss (step_blocks.c) and of reduced
// gradients (step_update.c) add to the sums.
#include "train/results.h"

#include "optim/clip.h"
#include "optim/lr.h"
#include "train/launch.h"
#include "train/param_groups.h"
#include "train/trainer_private.h"

#include <math.h>

struct trainer_results {
    // In device memory. Behind it are the sums of squares of groups, and a kernel_step_group for each group.
    kernel_step *step;
    kernel_step *host; // the same, on the host: what was copied last, and what was read last
    scaler scaler;
    uint64_t steps_done, skipped;
    bool stop;
    double shared; // of the pairs of a preference loss
    double seconds[INSTRS];
    event_group_norm
        *norm; // [norm_groups], those of the last step; name NULL: nothing in it trains
    event_group_norm *told; // [norm_groups] of them, those with a name
};

static size_t step_bytes(const trainer *t)
{
    return sizeof(kernel_step) + (size_t)t->plan->o.norm_groups * sizeof(double) +
           (size_t)t->o.groups.count * sizeof(kernel_step_group);
}

// The sum that a parameter group adds to: that of its entry in the job, and the last one without an entry.
static int sum_of_group(const trainer *t, int group)
{
    const int entry = param_groups_entry(&t->o.groups, group);
    return entry < 0 ? t->plan->o.norm_groups - 1 : entry;
}

// Names the groups of which something trains, on any stage.
static void name_norms(const trainer *t, event_group_norm *norm)
{
    const plan *p = t->plan;
    for (int i = 0; p->o.norm_groups && i < p->rows; i++) {
        const int group = p->row[i].group;
        const char *match = t->o.groups.items[group].match;
        if (!p->group[group].o.frozen)
            norm[sum_of_group(t, group)].name = match ? match : "no group";
    }
}

status results_allocate(trainer *t, err *e)
{
    status result = OK;
    TRY(trainer_object(&t->results, sizeof *t->results, e));
    trainer_results *x = t->results;
    scaler_open(&x->scaler, &t->o.scaler, t->o.precision == F16);
    TRY(memory_take(t->memory, BYTES_KERNELS, FROM_DEVICE, step_bytes(t), &x->step, e));
    TRY(memory_take(t->memory, BYTES_KERNELS, FROM_HOST, step_bytes(t), &x->host, e));
    TRY(memory_table(t->memory, (size_t)t->plan->o.norm_groups, sizeof *x->norm, &x->norm, e));
    TRY(memory_table(t->memory, (size_t)t->plan->o.norm_groups, sizeof *x->told, &x->told, e));
    if (memory_is_counting(t->memory)) return OK;
    memset(x->host, 0, step_bytes(t));
    name_norms(t, x->norm);
done:
    return result;
}

void results_close(trainer *t)
{
    free(t->results);
}

uint64_t results_steps_done(const trainer *t)
{
    return t->results->steps_done;
}

uint64_t results_skipped(const trainer *t)
{
    return t->results->skipped;
}

void results_set_steps_done(trainer *t, uint64_t steps)
{
    t->results->steps_done = steps;
}

void results_set_skipped(trainer *t, uint64_t steps)
{
    t->results->skipped = steps;
}

int64_t results_updates(const trainer *t)
{
    return (int64_t)(t->results->steps_done - t->results->skipped);
}

// ---- What the host gives to the device

const kernel_step *results_step(const trainer *t)
{
    return t->results->step;
}

static double *group_sums_behind(const kernel_step *s)
{
    return (double *)(uintptr_t)(s + 1);
}

static kernel_step_group *groups_behind(const trainer *t, const kernel_step *s)
{
    return (kernel_step_group *)(void *)(group_sums_behind(s) + t->plan->o.norm_groups);
}

const kernel_step_group *results_step_group(const trainer *t, int group)
{
    return groups_behind(t, t->results->step) + group;
}

const kernel_step *results_host_step(const trainer *t)
{
    return t->results->host;
}

const kernel_step_group *results_host_step_group(const trainer *t, int group)
{
    return groups_behind(t, t->results->host) + group;
}

// The loss scale divided by about the number of positions over which a rank sums gradients, that of the
// largest micro-batches: ranks add their gradients, so all have one scale. It is a power of two, so that
// multiplying by it does not round.
static double loss_scale(const trainer *t)
{
    if (t->o.precision != F16) return 1;
    const batch_split s = trainer_split(&t->o);
    const int64_t most = batch_split_of(&s, batch_split_largest(&s));
    const double positions = (double)(most * t->o.seq_len * t->plan->o.micros);
    return t->results->scaler.scale / exp2(ceil(log2(positions)));
}

void trainer_set_shared(trainer *t, double shared)
{
    trainer_results *r = t->results;
    r->shared = r->host->shared = shared;
    trainer_ops(t)->copy(trainer_stream(t, STREAM_COMPUTE), &r->step->shared, &r->host->shared,
                         sizeof shared);
}

static kernel_step_group group_numbers(const trainer *t, const param_group *g)
{
    const int64_t updates = results_updates(t);
    optim_config config = g->optimizer;
    // A learning-rate schedule that cycles momentum changes Adam's first beta, but not SGD's
    // momentum.
    if (optim_rule_of(&config)->has_v)
        config.beta1 = lr_momentum_at(&t->o.lr, config.beta1, updates);
    return optim_step(&config, (uint64_t)updates + 1,
                      g->lr_scale * lr_at(&t->o.lr, config.lr, updates));
}

// The number of this rank's first row of the step among all rows of full sequences of the run. It keys
// the random numbers, so it is the same on every stage.
static uint64_t first_row(const trainer *t)
{
    const uint64_t step = results_steps_done(t) * (uint64_t)t->o.global_batch;
    return (step + trainer_first_sample(t)) * (uint64_t)t->o.seq_len;
}

status run_load_step(trainer *t, const schedule_instr *x, err *e)
{
    (void)e;
    const trainer_results *r = t->results;
    *r->host = (kernel_step){.step = r->steps_done,
                             .first_row = first_row(t),
                             .loss_scale = loss_scale(t),
                             .shared = r->shared,
                             .sums[SUM_STOP] = r->stop ? 1 : 0,
                             .sums[SUM_SAMPLES] = (double)batches_samples(t)};
    for (int i = 0; i < t->o.groups.count; i++)
        groups_behind(t, r->host)[i] = group_numbers(t, &t->o.groups.items[i]);
    for (int i = 0; i < t->plan->o.norm_groups; i++) group_sums_behind(r->host)[i] = 0;
    trainer_order(t, STREAM_COPY, STREAM_COMPUTE); // the batches
    trainer_span_begin(t, x);
    trainer_ops(t)->copy(trainer_stream(t, STREAM_COMPUTE), r->step, r->host, step_bytes(t));
    return OK;
}

// ---- Sums

double *results_sums(const trainer *t)
{
    return t->results->step->sums;
}

double *results_group_sum(const trainer *t, int group)
{
    return group_sums_behind(t->results->step) + sum_of_group(t, group);
}

double *results_host_sums(const trainer *t)
{
    return t->results->host->sums;
}

void results_reset_sums(trainer *t)
{
    launch_zero(trainer_stream(t, STREAM_COMPUTE), results_sums(t),
                STEP_MOST_SUMS * sizeof(double));
}

status results_read_sums(trainer *t, int first, int count, err *e)
{
    device_stream *on = trainer_stream(t, STREAM_COMPUTE);
    trainer_ops(t)->copy(on, results_host_sums(t) + first, results_sums(t) + first,
                         (size_t)count * sizeof(double));
    return trainer_ops(t)->sync(on, e);
}

// ---- What all ranks agree on

status run_clip_grad_norm(trainer *t, const schedule_instr *x, err *e)
{
    status result = OK;
    // The loss is summed on the compute stream, the squares of gradients on the communication
    // stream.
    trainer_order(t, STREAM_COMPUTE, STREAM_COMM);
    trainer_span_begin(t, x);
    const trainer_call_spans calls = trainer_spans_of_calls(t);
    comm_visit *const visit = x->calls > 0 ? calls.visit : NULL;
    TRY(clip_agree(trainer_group(t, GROUP_AGREE), trainer_stream(t, STREAM_COMM), t->results->step,
                   kernel_step_sums(t->plan->o.preferences, t->plan->o.norm_groups),
                   t->o.clip_grad_norm, visit, e));
    if (plan_updates_on_host(t->plan)) results_copy_agreed(t); // updates on the host read it there
done:
    return result;
}

void results_copy_agreed(trainer *t)
{
    const trainer_results *r = t->results;
    trainer_ops(t)->copy(trainer_stream(t, STREAM_COMM), &r->host->result, &r->step->result,
                         sizeof r->host->result);
    const int sums = kernel_step_sums(t->plan->o.preferences, t->plan->o.norm_groups) - STEP_SUMS;
    if (sums > 0)
        trainer_ops(t)->copy(trainer_stream(t, STREAM_COMM), r->host->sums + STEP_SUMS,
                             r->step->sums + STEP_SUMS, (size_t)sums * sizeof(double));
}

const kernel_step_result *results_agreed(const trainer *t)
{
    return &t->results->host->result;
}

double results_agreed_scale(const trainer *t)
{
    return t->results->host->loss_scale;
}

scaler *results_scaler(const trainer *t)
{
    return &t->results->scaler;
}

// ---- Steps

void results_start_step(trainer *t, bool stop)
{
    t->results->stop = stop;
    memset(t->results->seconds, 0, sizeof t->results->seconds);
}

void results_add_seconds(trainer *t, schedule_instr_kind kind, double seconds)
{
    t->results->seconds[kind] += seconds;
}

event_preferences results_preferences(const trainer *t)
{
    const double *sums = &t->results->host->sums[SUM_PREFERENCE];
    const double pairs = sums[PREFERENCE_PAIRS] > 0 ? sums[PREFERENCE_PAIRS] : 1;
    if (!t->plan->o.preferences) return (event_preferences){.pairs = 0};
    return (event_preferences){.pairs = sums[PREFERENCE_PAIRS],
                               .chosen = sums[PREFERENCE_CHOSEN] / pairs,
                               .rejected = sums[PREFERENCE_REJECTED] / pairs,
                               .accuracy = sums[PREFERENCE_ACCURATE] / pairs};
}

// Computes the norms of groups from their sums, as K_CLIP does the norm of all. Returns their number.
static int find_norms(const trainer *t)
{
    const trainer_results *r = t->results;
    const double count = r->host->result.count > 0 ? r->host->result.count : 1;
    int told = 0;
    for (int i = 0; i < t->plan->o.norm_groups; i++) {
        r->norm[i].norm = sqrt(group_sums_behind(r->host)[i]) / count / r->host->loss_scale;
        if (r->norm[i].name) r->told[told++] = r->norm[i];
    }
    return told;
}

trainer_step_result results_of_step(const trainer *t)
{
    const trainer_results *r = t->results;
    const bool exhausted = r->host->result.samples == 0;
    return (trainer_step_result){.preferences = results_preferences(t),
                                 .step = r->steps_done + (exhausted ? 0 : 1),
                                 .loss = r->host->result.loss,
                                 .grad_norm = r->host->result.norm,
                                 .group_norm = r->told,
                                 .group_norms = find_norms(t),
                                 .lr = lr_at(&t->o.lr, t->o.optimizer.lr, results_updates(t)),
                                 .tokens = r->host->result.samples * (double)t->o.seq_len,
                                 .loss_scale = t->o.precision == F16 ? r->scaler.scale : 0,
                                 .skipped = !r->host->result.finite,
                                 .stop = r->host->result.stop,
                                 .exhausted = exhausted};
}

status results_end_step(trainer *t, bool *rescaled, err *e)
{
    status result = OK;
    trainer_results *r = t->results;
    const double before = r->scaler.scale;
    *rescaled = false;
    if (t->o.precision == F16) TRY(scaler_update(&r->scaler, !r->host->result.finite, e));
    *rescaled = r->scaler.scale != before;
    r->steps_done++;
    if (!r->host->result.finite) r->skipped++;
done:
    return result;
}

uint64_t trainer_steps_done(const trainer *t)
{
    return t->results->steps_done;
}

const double *trainer_seconds(const trainer *t)
{
    return t->results->seconds;
}
