// estimate.c -- see estimate.h. Called when a job is checked, for each change of the memory fit
// search and for each row of `trireme plan`. It does not know what could be changed in a job.
#include "session/plan/estimate.h"

#include "base/proc.h"
#include "base/size.h"

#include <math.h>
#include <string.h>

// Bytes of samples in this process. Free memory is what is left beside them. Ranks that are forked from it share them.
static uint64_t data_bytes(const session_inputs *in)
{
    return (in->train ? in->train->memory : 0) + (in->valid ? in->valid->memory : 0);
}

// Bytes that each rank may use. A job of more ranks than a machine starts runs on other machines.
static uint64_t budget_of(const job *j, const device_description *d, uint64_t data)
{
    if (j->memory.budget > 0) return (uint64_t)j->memory.budget;
    if (d->free_bytes == 0) return MEMORY_ESTIMATE_NO_BUDGET;
    if (j->own.planned) return d->free_bytes;
    if (j->launch.ranks > WORLD_MOST_RANKS) return MEMORY_ESTIMATE_NO_BUDGET;
    return (d->free_bytes + (d->is_host_memory ? data : 0)) /
           (uint64_t)size_ceil_div(job_local_ranks(j), d->count);
}

// The host's memory is shared by all ranks of the machine, whatever their device.
static uint64_t host_budget_of(const job *j, const device_description *d, uint64_t data)
{
    const job_planned *p = j->own.planned;
    const uint64_t ranks = (uint64_t)job_local_ranks(j);
    if (p) return p->host_bytes > 0 ? p->host_bytes / ranks : MEMORY_ESTIMATE_NO_BUDGET;
    if (d->free_bytes == 0 || j->launch.ranks > WORLD_MOST_RANKS) return MEMORY_ESTIMATE_NO_BUDGET;
    return (proc_available_bytes() + data) / ranks;
}

status memory_estimate_read_base(const job *j, const session_inputs *in, memory_estimate_base *out,
                                 err *e)
{
    const uint64_t data = data_bytes(in), own = proc_own_bytes(),
                   ranks = (uint64_t)job_local_ranks(j);
    const device_options o = {.threads = j->launch.threads_per_rank};
    device_description d;
    const status result = job_describe_device(j, &o, &d, e);
    if (result != OK) return result;
    *out = (memory_estimate_base){.runtime = d.own_bytes,
                                  .data = j->own.launcher ? data : data / ranks,
                                  .budget = budget_of(j, &d, data),
                                  .host_budget = host_budget_of(j, &d, data)};
    *(d.is_host_memory ? &out->runtime : &out->host_runtime) += own > data ? own - data : 0;
    if (!d.is_host_memory) out->host_runtime += DEVICE_STAGING_BYTES;
    if (d.is_host_memory || !j->strategy.offload.updates_on_host) return OK;
    const status described = device_describe("cpu", &o, &d, e); // updates run on it
    out->host_runtime += d.own_bytes;
    return described;
}

static uint64_t over(uint64_t bytes, uint64_t budget)
{
    return bytes > budget ? bytes - budget : 0;
}

uint64_t memory_estimate_over(const memory_estimate *n, uint64_t budget,
                              const memory_estimate_base *base)
{
    return size_add(over(n->total, budget), over(n->host_total, base->host_budget));
}

bool memory_estimate_fits(const memory_estimate *n, uint64_t budget,
                          const memory_estimate_base *base)
{
    return memory_estimate_over(n, budget, base) == 0;
}

static void take_plan(memory_estimate *n, const plan *p, uint64_t params)
{
    n->rank = p->o.rank;
    n->ranks = p->o.mesh.ranks;
    memcpy(n->coord, p->coord, sizeof n->coord);
    n->mesh = p->o.mesh;
    memcpy(n->bytes, p->bytes, sizeof n->bytes);
    memcpy(n->sent_bytes, p->sent_bytes, sizeof n->sent_bytes);
    n->total = plan_bytes(p);
    n->file = p->tier_bytes[TIER_FILE];
    n->params = params;
}

status memory_estimate_plan(const trainer_options *o, const memory_estimate_base *base, plan **out,
                            schedule *s, uint64_t *params, double *flops, err *e)
{
    status result = trainer_plan(o, out, s, params, flops, e);
    if (result != OK) return result;
    (*out)->bytes[BYTES_RUNTIME] = base->runtime;
    (*out)->host_bytes[BYTES_RUNTIME] = base->host_runtime;
    const bool apart = o->strategy.offload.host_is_apart;
    (apart ? (*out)->host_bytes : (*out)->bytes)[BYTES_DATA] += base->data;
    return OK;
}

static status plan_rank(const trainer_options *o, const memory_estimate_base *base, plan **out,
                        uint64_t *params, err *e)
{
    schedule s = {0};
    double flops;
    status result = memory_estimate_plan(o, base, out, &s, params, &flops, e);
    schedule_clear(&s);
    return result;
}

static void add_plan(memory_estimate *n, const plan *p, uint64_t params)
{
    const bool first = n->ranks == 0;
    if (!first && plan_bytes(p) != n->total) n->alike = false;
    if (first || plan_bytes(p) > n->total) take_plan(n, p, params);
    if (plan_host_bytes(p) <= n->host_total) return;
    memcpy(n->host, p->host_bytes, sizeof n->host);
    n->host_total = plan_host_bytes(p);
}

// Returns whether both tensor-parallel ranks have shards of the same sizes.
static bool same_shards(const plan *a, const plan *b)
{
    for (int i = 0; i < a->rows; i++)
        if (a->row[i].rows != b->row[i].rows || a->row[i].cols != b->row[i].cols) return false;
    return true;
}

// Adds the tensor-parallel ranks of a stage. Only the last shards of a vocabulary can be shorter,
// so the ranks in between are planned only where the last rank's shards differ from the first
// rank's.
static status add_stage(trainer_options *o, int pp, int data_rank, const memory_estimate_base *base,
                        memory_estimate *n, err *e)
{
    status result = OK;
    const int tps = o->mesh.size[AXIS_TP];
    plan *first = NULL, *p = NULL;
    uint64_t params;
    bool same = true;
    int coord[AXES] = {[AXIS_PP] = pp};
    mesh_set_data_rank(&o->mesh, data_rank, coord);
    o->place.rank = mesh_rank(&o->mesh, coord);
    TRY(plan_rank(o, base, &first, &params, e));
    add_plan(n, first, params);
    for (int tp = tps - 1; tp > 0 && (tp == tps - 1 || !same); tp--) {
        coord[AXIS_TP] = tp;
        o->place.rank = mesh_rank(&o->mesh, coord);
        TRY(plan_rank(o, base, &p, &params, e));
        if (tp == tps - 1) same = same_shards(first, p);
        add_plan(n, p, params);
        plan_free(p);
        p = NULL;
    }
done:
    plan_free(first);
    plan_free(p);
    return result;
}

status memory_estimate_of(const job *j, const session_inputs *in, int ranks,
                          const memory_estimate_base *base, memory_estimate *out, err *e)
{
    status result = OK;
    trainer_options o = {0};
    *out = (memory_estimate){.alike = true};
    TRY(session_options(j, in, ranks, &o, e));
    const batch_split s = trainer_split(&o);
    const int most = batch_split_largest(&s), least = batch_split_smallest(&s);
    for (int pp = 0; pp < o.mesh.size[AXIS_PP]; pp++) {
        TRY(add_stage(&o, pp, most, base, out, e));
        // Of a rank with less to do only whether it needs as many bytes is read.
        if (batch_split_of(&s, least) < batch_split_of(&s, most))
            TRY(add_stage(&o, pp, least, base, out, e));
    }
done:
    session_options_clear(&o);
    return result;
}

// ---- The largest micro-batch

// The estimate of the largest legal micro-batch up to `limit`. It does not fit where it has more
// bytes than any machine. It is not possible where a step would have too many passes.
static status estimate_up_to(const memory_estimate_search *s, int64_t limit,
                             memory_estimate_micro *out, err *e)
{
    status result = OK;
    job next = *s->job;
    err refused = {.code = OK};
    *out = (memory_estimate_micro){.micro = 1};
    next.train.micro_batch = 0;
    TRY(job_solve_batch(&next, s->ranks, limit, e));
    out->micro = next.train.micro_batch;
    result = memory_estimate_of(&next, s->in, s->ranks, s->base, &out->estimate, &refused);
    out->possible = result == OK || result == E_FIT;
    out->fits = result == OK && memory_estimate_fits(&out->estimate, s->budget, s->base);
    if (result == E_FIT) out->estimate.total = UINT64_MAX;
    if (result == OK || result == E_FIT || result == E_USAGE) out->refused = refused, result = OK;
    if (result != OK && e) *e = refused;
done:
    return result;
}

// Searches between `low`, which fits or makes too many passes, and `high`. It halves the ratio of
// the two, because legal sizes are divisors of one number.
static status search_between(const memory_estimate_search *s, int64_t low, int64_t high,
                             memory_estimate_micro *best, err *e)
{
    status result = OK;
    while (low < high) {
        const int64_t mean = (int64_t)sqrt((double)low * (double)high);
        const int64_t middle = mean > low ? mean : low + 1;
        memory_estimate_micro m;
        TRY(estimate_up_to(s, middle, &m, e));
        if (m.micro <= low || m.fits || !m.possible)
            low = middle;
        else
            high = m.micro - 1;
        if (m.fits && m.micro >= best->micro) *best = m;
    }
done:
    return result;
}

status memory_estimate_largest_micro(const memory_estimate_search *s, int64_t limit,
                                     memory_estimate_micro *out, err *e)
{
    status result = OK;
    memory_estimate_micro least;
    TRY(estimate_up_to(s, limit, out, e));
    if (out->fits || out->micro == 1) goto done;
    TRY(estimate_up_to(s, 1, &least, e));
    if (!out->possible || (least.possible && !least.fits)) {
        *out = least;
        goto done;
    }
    const int64_t high = out->micro - 1;
    *out = least;
    TRY(search_between(s, 1, high, out, e));
done:
    if (result == OK && out->refused.code != OK && !out->fits) {
        if (e) *e = out->refused;
        result = out->refused.code;
    }
    return result;
}

void memory_estimate_print(const uint64_t bytes[CATEGORIES], text *out)
{
    const char *comma = "";
    for (int c = 0; c < CATEGORIES; c++) {
        char size[24];
        text_bytes(size, (double)bytes[c]);
        if (bytes[c] == 0) continue;
        text_addf(out, "%s%s %s", comma, plan_category_name((plan_category)c), size);
        comma = ", ";
    }
}

void memory_estimate_print_ranks(const memory_estimate *n, text *out)
{
    if (n->alike) {
        text_addf(out, "on each of %d rank%s", n->ranks, n->ranks == 1 ? "" : "s");
        return;
    }
    text_addf(out, "on rank %d (", n->rank);
    for (int a = 0, named = 0; a < AXES; a++)
        if (n->mesh.size[a] > 1)
            text_addf(out, "%s%s %d", named++ ? ", " : "", axis_name((axis)a), n->coord[a]);
    text_addf(out, "), the largest of %d", n->ranks);
}
