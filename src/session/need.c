// need.c -- bytes of memory of the rank that needs most. See need.h. Called where a job is checked,
// and for every step of the ladder and row of the table. Does not know what else could be done.
#include "session/need.h"

#include "base/proc.h"

#include <string.h>

// Bytes that this job may use on each rank.
static uint64_t budget_of(const job *j)
{
    if (j->memory.budget > 0) return (uint64_t)j->memory.budget;
    return proc_bytes("/proc/meminfo", "MemAvailable:") / (uint64_t)j->launch.ranks;
}

status need_base_open(const job *j, need_base *out, err *e)
{
    const device_options d = {.threads = j->launch.threads_per_rank};
    *out = (need_base){.runtime = proc_own_bytes(), .budget = budget_of(j)};
    return device_open(j->launch.device, &d, &out->device, e);
}

void need_base_close(need_base *b)
{
    device_close(b->device);
    *b = (need_base){NULL, 0, 0};
}

static void take_plan(need *n, const plan *p, uint64_t params)
{
    n->rank = p->o.rank;
    n->ranks = p->o.mesh.ranks;
    memcpy(n->at, p->at, sizeof n->at);
    memcpy(n->size, p->o.mesh.size, sizeof n->size);
    memcpy(n->bytes, p->bytes, sizeof n->bytes);
    memcpy(n->moved, p->moved, sizeof n->moved);
    n->total = plan_bytes(p);
    n->file = p->tier_bytes[TIER_FILE];
    n->params = params;
}

static status add_rank(const trainer_options *o, const need_base *base, bool first, need *n, err *e)
{
    status result = OK;
    plan *p = NULL;
    schedule s = {0};
    uint64_t params;
    double flops;
    TRY(trainer_plan(o, &p, &s, &params, &flops, e));
    p->bytes[BYTES_RUNTIME] = base->runtime; // not what planning itself has taken since
    if (!first && plan_bytes(p) != n->total) n->alike = false;
    if (first || plan_bytes(p) > n->total) take_plan(n, p, params);
done:
    plan_free(p);
    schedule_clear(&s);
    return result;
}

status need_of(const job *j, const inputs *in, int ranks, const need_base *base, need *out, err *e)
{
    status result = OK;
    trainer_options o = {0};
    *out = (need){.alike = true};
    TRY(session_options(j, in, ranks, &o, e));
    o.device = base->device;
    for (int pp = 0; pp < o.mesh.size[AXIS_PP]; pp++)
        for (int tp = 0; tp < o.mesh.size[AXIS_TP]; tp++) {
            o.rank = mesh_rank(&o.mesh, (const int[AXES]){[AXIS_PP] = pp, [AXIS_TP] = tp});
            TRY(add_rank(&o, base, pp + tp == 0, out, e));
        }
done:
    return result;
}

void need_print(const need *n, text *out)
{
    const char *comma = "";
    for (int c = 0; c < CATEGORIES; c++) {
        char size[24];
        text_bytes(size, (double)n->bytes[c]);
        if (n->bytes[c] == 0) continue;
        text_addf(out, "%s%s %s", comma, category_name((category)c), size);
        comma = ", ";
    }
}

void need_print_ranks(const need *n, text *out)
{
    if (n->alike) {
        text_addf(out, "on each of %d rank%s", n->ranks, n->ranks == 1 ? "" : "s");
        return;
    }
    text_addf(out, "on rank %d (", n->rank);
    for (int a = 0, named = 0; a < AXES; a++)
        if (n->size[a] > 1)
            text_addf(out, "%s%s %d", named++ ? ", " : "", axis_name((axis)a), n->at[a]);
    text_addf(out, "), the largest of %d", n->ranks);
}
