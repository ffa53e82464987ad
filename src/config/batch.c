// batch.c -- solves the batch rule, global_batch = micro_batch * accumulation * data-parallel
// ranks, or with parallel.batch_split its sum * accumulation, and the number of steps of a run. job_open calls it, and session/ when ranks, memory and
// data are known. It does not know which micro-batch fits in memory; its caller gives the limit.
#include "config/private.h"

#include "base/size.h"

#include <math.h>

enum { MOST_BATCH = 1 << 30 }; // of train.global_batch

bool job_measures_split(const job *j)
{
    return j->parallel.batch_splits == 1 && j->parallel.batch_split[0] == 0;
}

static bool has_split(const job *j)
{
    return j->parallel.batch_split && !job_measures_split(j);
}

batch_split job_batch_split(const job *j, const mesh *m)
{
    const int ranks = mesh_data_ranks(m);
    const bool of_mesh = has_split(j) && j->parallel.batch_splits == (size_t)ranks;
    return (batch_split){.ranks = ranks,
                         .of = of_mesh ? j->parallel.batch_split : NULL,
                         .each = j->train.micro_batch ? j->train.micro_batch : 1};
}

void job_set_split(job *j, const int *of, int ranks)
{
    const batch_split s = {.ranks = ranks, .of = of};
    j->parallel.batch_split = (int *)of; // only read
    j->parallel.batch_splits = (size_t)ranks;
    j->train.micro_batch = batch_split_of(&s, batch_split_largest(&s));
}

status job_check_split(const job *j, const mesh *m, err *e)
{
    const int data = mesh_data_ranks(m);
    if (!has_split(j) || j->parallel.batch_splits == (size_t)data) return OK;
    return err_set(e, E_USAGE,
                   "parallel.batch_split: found %zu number%s; valid: %d, one for each "
                   "data-parallel rank",
                   j->parallel.batch_splits, j->parallel.batch_splits == 1 ? "" : "s", data);
}

int64_t job_micro_batches(const job *j, const mesh *m)
{
    const batch_split s = job_batch_split(j, m);
    return j->train.global_batch / batch_split_before(&s, s.ranks);
}

// The sum of the list of parallel.batch_split.
static uint64_t split_sum(const job *j)
{
    const batch_split s = {.ranks = (int)j->parallel.batch_splits, .of = j->parallel.batch_split};
    return (uint64_t)batch_split_before(&s, s.ranks);
}

// The smallest number of sequences that fills the micro-batches of all ranks.
static int64_t unit_of(const job *j, int64_t data_ranks)
{
    const uint64_t each = j->train.micro_batch ? (uint64_t)j->train.micro_batch : 1;
    const uint64_t times = j->train.accumulation ? (uint64_t)j->train.accumulation : 1;
    const uint64_t pass = has_split(j) ? split_sum(j) : size_mul(each, (uint64_t)data_ranks);
    const uint64_t all = size_mul(pass, times);
    return all > MOST_BATCH ? MOST_BATCH + (int64_t)1 : (int64_t)all;
}

// Returns whether the keys give no global batch, which then follows from the ranks.
static bool follows_ranks(const job *j)
{
    return j->train.accumulation && !setting_is_given(settings_of(j->values, "train.global_batch"));
}

int batch_auto_ranks(const job *j, int cores)
{
    int least = (int)size_min(mesh_least_ranks(j), MESH_RANKS);
    uint64_t model = 1;
    for (int a = 0; a < AXES; a++)
        if (!(AXES_DATA & MESH_AXIS(a))) model = size_mul(model, (uint64_t)j->parallel.size[a]);
    if (j->parallel.size[AXIS_DP_SHARD]) return least;
    if (has_split(j)) // one number for each data-parallel rank
        return (int)size_min((int64_t)size_mul(model, j->parallel.batch_splits), MESH_RANKS);
    if (follows_ranks(j)) return cores < least ? least : cores / least * least;
    for (int ranks = cores / least * least; ranks > least; ranks -= least)
        if (j->train.global_batch % unit_of(j, (int64_t)((uint64_t)ranks / model)) == 0)
            return ranks;
    return least;
}

enum { LISTED = 12 };

// Appends the LISTED smallest divisors of `number` that are multiples of `of`, each times `by`.
static void list_divisors(int64_t number, int64_t of, int64_t by, text *out)
{
    int listed = 0;
    for (int64_t d = of; d <= size_min(number, 4096) && listed <= LISTED; d += of) {
        if (number % d) continue;
        if (listed == LISTED)
            text_add(out, ", …");
        else
            text_addf(out, listed ? ", %lld" : "%lld", (long long)(d * by));
        listed++;
    }
}

// Appends "; valid launch.ranks for 10: 1, 2, 5, 10", or the valid micro-batches where none
// divides.
static void describe_others(const job *j, const mesh *m, text *out)
{
    int64_t batch = j->train.global_batch, micro = unit_of(j, 1);
    int model = m->ranks / mesh_data_ranks(m);
    bool divides = batch % micro == 0;
    text list = {0};
    if (!divides)
        list_divisors(batch, 1, 1, &list);
    else if (!j->parallel.size[AXIS_DP_SHARD])
        list_divisors(batch / micro, j->parallel.size[AXIS_DP_REPLICATE], model, &list);
    if (list.bytes)
        text_addf(out, "; valid %s for %lld: %s", divides ? "launch.ranks" : "train.micro_batch",
                  (long long)batch, list.chars);
    text_clear(&list);
}

// The rule in Trireme's keys and in DeepSpeed's.
static const char RULE[] =
    "; train.global_batch = micro_batch x accumulation x data-parallel ranks (DeepSpeed: "
    "train_batch_size = train_micro_batch_size_per_gpu x gradient_accumulation_steps x world_size)";

static status refuse(const job *j, const mesh *m, err *e)
{
    int data = mesh_data_ranks(m);
    int64_t batch = j->train.global_batch, unit = unit_of(j, data), below = batch / unit * unit;
    text others = {0}, nearest = {0}, with = {0};
    describe_others(j, m, &others);
    if (below) text_addf(&nearest, "%lld and ", (long long)below);
    text_addf(&nearest, "%lld", (long long)(below + unit));
    if (j->train.micro_batch)
        text_addf(&with, " x micro_batch %lld = %lld", (long long)j->train.micro_batch,
                  (long long)unit);
    err_set(
        e, E_USAGE,
        "train.global_batch: found %lld, not a multiple of %d %srank%s%s; nearest valid: %s%s%s",
        (long long)batch, data, data == m->ranks ? "" : "data-parallel ", data == 1 ? "" : "s",
        with.chars ? with.chars : "", nearest.chars, others.chars ? others.chars : "", RULE);
    text_clear(&others);
    text_clear(&nearest);
    text_clear(&with);
    return E_USAGE;
}

// With a list, the sum of its numbers divides the global batch.
static status refuse_split(const job *j, err *e)
{
    const int64_t batch = j->train.global_batch, unit = unit_of(j, 1), below = batch / unit * unit;
    text list = {0}, nearest = {0};
    for (size_t i = 0; i < j->parallel.batch_splits; i++)
        text_addf(&list, i ? " + %d" : "%d", j->parallel.batch_split[i]);
    if (j->train.accumulation)
        text_addf(&list, ", x accumulation %lld", (long long)j->train.accumulation);
    if (below) text_addf(&nearest, "%lld and ", (long long)below);
    err_set(e, E_USAGE,
            "train.global_batch: found %lld, not a multiple of %lld (parallel.batch_split: %s); "
            "nearest valid: %s%lld",
            (long long)batch, (long long)unit, list.chars ? list.chars : "",
            nearest.chars ? nearest.chars : "", (long long)(below + unit));
    text_clear(&list);
    text_clear(&nearest);
    return E_USAGE;
}

static status check_rule(const job *j, const mesh *m, err *e)
{
    int64_t unit = unit_of(j, mesh_data_ranks(m));
    const status result = job_check_split(j, m, e);
    if (result != OK) return result;
    if (j->train.global_batch % unit == 0) return OK;
    return has_split(j) ? refuse_split(j, e) : refuse(j, m, e);
}

status batch_check(const job *j, const mesh *m, err *e)
{
    static const char *const KEYS[] = {"train.global_batch", "train.micro_batch",
                                       "train.accumulation", "launch.ranks", NULL};
    const status result = check_rule(j, m, e);
    if (result != OK) setting_place_first(j->values, KEYS, e);
    return result;
}

status batch_take_split(job *j, const mesh *m, err *e)
{
    status result = OK;
    if (!j->parallel.batch_split) return OK;
    if (j->data.order == ORDER_TORCH)
        KEY_ERROR(
            "parallel.batch_split",
            "found with data.order torch, which gives every rank equally many samples; valid: "
            "even, or data.order shuffle");
    if (!has_split(j)) goto done;
    result = job_check_split(j, m, e);
    if (result != OK) setting_place(j->values, settings_of(j->values, "parallel.batch_split"), e);
    if (result != OK) goto done;
    const batch_split s = job_batch_split(j, m);
    const int64_t most = batch_split_of(&s, batch_split_largest(&s));
    const setting *micro = settings_of(j->values, "train.micro_batch");
    if (j->train.micro_batch && j->train.micro_batch != most &&
        setting_is_their_default(j->values, micro))
        j->train.micro_batch = 0;
    if (j->train.micro_batch && j->train.micro_batch != most)
        KEY_ERROR("train.micro_batch",
                  "found %lld; valid: auto, or %lld, the largest number of parallel.batch_split",
                  (long long)j->train.micro_batch, (long long)most);
    j->train.micro_batch = most;
done:
    return result;
}

// The keys that give a step its sequences without train.global_batch.
static const char *const STEP_KEYS[] = {"train.accumulation", "train.micro_batch", "launch.ranks",
                                        NULL};

status batch_take_accumulation(job *j, const mesh *m, err *e)
{
    status result = OK;
    setting *global = &j->values->rows[key_index("train.global_batch")];
    const setting *times = settings_of(j->values, "train.accumulation");
    if (!j->train.accumulation) return OK;
    // Another system's default gives way to a batch and a micro-batch of the job.
    if (setting_is_given(global) && j->train.micro_batch &&
        setting_is_their_default(j->values, times))
        j->train.accumulation = 0;
    if (!j->train.accumulation) return OK;
    const int64_t unit = unit_of(j, mesh_data_ranks(m));
    if (follows_ranks(j)) {
        if (!j->train.micro_batch)
            KEY_ERROR("train.accumulation",
                      "found %lld without a batch; valid: with train.micro_batch, or with "
                      "train.global_batch",
                      (long long)j->train.accumulation);
        if (unit > MOST_BATCH) {
            result = err_set(e, E_USAGE,
                             "train.accumulation: found %lld: a step has more than %d sequences",
                             (long long)j->train.accumulation, MOST_BATCH);
            setting_place_first(j->values, STEP_KEYS, e);
            goto done;
        }
        j->train.global_batch = unit;
        global->note = has_split(j)
                           ? "the sum of parallel.batch_split x train.accumulation"
                           : "train.micro_batch x train.accumulation x data-parallel ranks";
    } else {
        TRY(batch_check(j, m, e));
        if (j->train.micro_batch && j->train.global_batch != unit)
            KEY_ERROR(
                "train.accumulation",
                "found %lld, but train.global_batch %lld is %lld micro-batches of each rank%s",
                (long long)j->train.accumulation, (long long)j->train.global_batch,
                (long long)(j->train.global_batch / (unit / j->train.accumulation)), RULE);
        if (!j->train.micro_batch) j->train.micro_batch = j->train.global_batch / unit;
    }
    j->train.accumulation = 0;
done:
    return result;
}

// Returns whether so many micro-batches fill the pipeline. The interleaved schedule takes them in groups of pp.
static bool fills_pipeline(const job *j, int64_t micros)
{
    int pp = j->parallel.size[AXIS_PP];
    if (pp > 1 && j->strategy.pipeline.schedule == PIPE_INTERLEAVED && micros % pp) return false;
    return pp == 1 || micros >= 2 * pp;
}

// The largest divisor of `share` that is at most `limit` and fills the pipeline, or else 1. It
// tries the smaller divisor of each pair.
static int64_t largest_micro(const job *j, int64_t share, int64_t limit)
{
    int64_t micros = (share + limit - 1) / limit;
    for (; micros <= share / micros; micros++)
        if (share % micros == 0 && fills_pipeline(j, micros)) return share / micros;
    for (int64_t micro = share / micros; micro > 1; micro--)
        if (share % micro == 0 && fills_pipeline(j, share / micro)) return micro;
    return 1;
}

status job_solve_batch(job *j, int ranks, int64_t micro_limit, err *e)
{
    status result = OK;
    mesh m;
    TRY(job_solve_mesh(j, ranks, &m, e));
    TRY(check_rule(j, &m, e));
    if (j->train.micro_batch) goto done;
    if (has_split(j)) {
        const batch_split s = job_batch_split(j, &m);
        j->train.micro_batch = batch_split_of(&s, batch_split_largest(&s));
        goto done;
    }
    int64_t share = j->train.global_batch / mesh_data_ranks(&m);
    j->train.micro_batch =
        largest_micro(j, share, micro_limit > 0 ? size_min(share, micro_limit) : share);
done:
    return result;
}

status job_resolve_steps(job *j, uint64_t samples, err *e)
{
    status result = OK;
    double batch = (double)j->train.global_batch, steps = (double)j->train.steps;
    if (j->train.epochs > 0 && samples == 0)
        FAIL(E_USAGE, "train.epochs: data of each rank's own have no epochs; valid: train.steps, "
                      "train.tokens");
    if (j->train.epochs > 0) steps = j->train.epochs * (double)samples / batch;
    if (j->train.tokens) steps = (double)j->train.tokens / (batch * (double)j->data.seq_len);
    // Rounding errors, as of 0.1 * 10, must not add a step.
    steps = ceil(steps - 1e-9 * steps);
    if (steps > 1e15)
        FAIL(E_USAGE, "%s: makes %.3g steps; valid: up to 1e15",
             j->train.epochs > 0 ? "train.epochs" : "train.tokens", steps);
    j->train.steps = steps < 1 ? 1 : (int64_t)steps;
    j->lr.total_steps = j->train.steps;
    lr_apply_warmup_ratio(&j->lr);
    j->lr.global_batch = j->train.global_batch;
done:
    return result;
}
