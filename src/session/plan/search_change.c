// search_change.c -- what would have to change for the second best layout to win: it predicts both on machines of which
// one rate is another, and halves the ratio. See search.h.
#include "session/plan/search.h"

#include "session/plan/search_private.h"

#include <math.h>

typedef enum change_kind {
    CHANGE_NETWORK,
    CHANGE_LINK,
    CHANGE_COMPUTE,
    CHANGE_MEMORY,
    CHANGES
} change_kind;

static const char *const WHAT[CHANGES] = {"the network between hosts", "the links within a host",
                                          "matrix products", "the memory of the device"};

// A machine of which one rate is `times` that of another machine.
typedef struct change_machine {
    const planner_costs *of;
    change_kind kind;
    double times;
} change_machine;

static planner_claim scaled(const change_machine *c, bool applies, planner_claim claim)
{
    if (applies) claim.seconds /= c->times;
    return claim;
}

static planner_claim kernel(const void *given, const kernel_cost *k)
{
    const change_machine *c = given;
    const bool applies = c->kind == (k->flops > 0 ? CHANGE_COMPUTE : CHANGE_MEMORY);
    return scaled(c, applies, c->of->kernel(c->of->given, k));
}

static planner_claim call(const void *given, const planner_group *g, const comm_call *of,
                          double bytes)
{
    const change_machine *c = given;
    return scaled(c, c->kind == (g->hosts > 1 ? CHANGE_NETWORK : CHANGE_LINK),
                  c->of->call(c->of->given, g, of, bytes));
}

static planner_claim transfer(const void *given, planner_transfer what, double bytes)
{
    const change_machine *c = given;
    return c->of->transfer(c->of->given, what, bytes);
}

typedef struct change_pair {
    const search_of *x;
    const search_result *r;
    change_kind kind;
    double times;
    double seconds[2]; // of the best and the second
    status result[2];
    err why[2];
} change_pair;

static void predict_one(void *arg, size_t which)
{
    change_pair *p = arg;
    const search_of *x = p->x;
    const planner_machine *m = x->o->machine;
    const change_machine c = {&m->costs, p->kind, p->times};
    planner_machine changed = *m;
    prediction out = {.step_s = 0};
    job j;
    changed.costs.given = &c;
    changed.costs.kernel = kernel;
    changed.costs.call = call;
    changed.costs.transfer = transfer;
    layout_apply(x->j, which ? &p->r->second.layout : &p->r->best.layout, &j);
    p->why[which] = (err){.code = OK};
    p->result[which] = x->o->predict(&j, x->in, x->ranks, &changed, &out, &p->why[which]);
    p->seconds[which] = out.step_s;
}

static status second_wins(change_pair *p, double times, bool *out, err *e)
{
    p->times = times;
    search_each(2, predict_one, p);
    for (int i = 0; i < 2; i++)
        if (p->result[i] != OK) return err_set(e, p->result[i], "%s", p->why[i].text);
    *out = p->seconds[1] < p->seconds[0];
    return OK;
}

enum { TIMES_MOST = 16, HALVINGS = 6 };

// The factor nearest to 1 on this side of it by which the second wins; 1: there is none.
static status find_times(change_pair *p, double most, double *out, err *e)
{
    status result = OK;
    double wins = most, loses = 1;
    bool won = false;
    *out = 1;
    TRY(second_wins(p, most, &won, e));
    if (!won) goto done;
    for (int i = 0; i < HALVINGS; i++) {
        const double middle = sqrt(wins * loses);
        TRY(second_wins(p, middle, &won, e));
        *(won ? &wins : &loses) = middle;
    }
    *out = wins;
done:
    return result;
}

status search_find_change(const job *j, const session_inputs *in, const search_options *o,
                          const search_result *r, search_change *out, err *e)
{
    status result = OK;
    const search_of x = {.j = j, .in = in, .o = o, .ranks = j->launch.ranks};
    change_pair p = {.x = &x, .r = r};
    *out = (search_change){.what = NULL};
    if (!r->has_second) return OK;
    for (int k = 0; k < CHANGES; k++)
        for (int side = 0; side < 2; side++) {
            double times;
            p.kind = (change_kind)k;
            TRY(find_times(&p, side ? 1.0 / TIMES_MOST : TIMES_MOST, &times, e));
            if (times == 1 || (out->what && fabs(log(times)) >= fabs(log(out->times)))) continue;
            *out = (search_change){WHAT[k], times};
        }
done:
    return result;
}
