// simulate.c -- gives every instruction of every stage a start and an end: it starts when its stream,
// the values that it reads and the slots that it allocates are free, and ends its seconds later.
// Called by `trireme explain`, the planner and the users of draw.c. Deliberately knows no machine
// (the caller's function says how long an instruction takes) and names no kind of instruction: what
// one waits for stands in instructions.c.
#include "parallel/simulate.h"

#include "parallel/instructions.h"
#include "parallel/replay.h"

#include <stdlib.h>

// When the values of one resource exist. All begin with 0.
typedef struct simulate_clock {
    double *ready;  // [slots] or, of results, [owners]: the value is complete
    double *unused; // [slots] the last instruction that used the slot has ended
    int *slot;      // [owners] the slot that an owner took last
} simulate_clock;

typedef struct simulate_stage {
    const plan *p;
    const schedule *s;
    double stream[STREAMS];
    simulate_clock *clock[RESOURCES]; // [groups of slots], or one of results
} simulate_stage;

typedef struct simulation {
    const schedule *const *of_stage;
    const simulate_costs *costs;
    simulate_result *out;
    simulate_stage *stage; // [stages]
} simulation;

double simulate_block_seconds(const void *blocks, int stage, const schedule_instr *x)
{
    const simulate_blocks *b = blocks;
    const unsigned computes = instr_row_of(x->kind)->computes;
    (void)stage;
    return (computes & COMPUTES_FORWARD ? b->forward[x->index] : 0) +
           (computes & COMPUTES_DGRAD ? b->backward_input[x->index] : 0) +
           (computes & COMPUTES_WGRAD ? b->backward_weight[x->index] : 0);
}

static void delay(double *t, double until)
{
    if (until > *t) *t = until;
}

// ---- One effect of an instruction

typedef struct simulate_moment {
    simulate_stage *stage;
    double start, end;
} simulate_moment;

// The value's place in ready[] (and unused[]).
static int place_of(const simulate_clock *c, const instr_use *u)
{
    if (u->resource >= RES_SLOTS) return u->owner;
    return u->any_slot ? c->slot[u->owner] : u->slot;
}

static status wait_for(void *given, const instr_use *u, err *e)
{
    simulate_moment *m = given;
    const simulate_clock *c = &m->stage->clock[u->resource][u->group];
    (void)e;
    if (u->access == ACCESS_ALLOCATE)
        delay(&m->start, c->unused[place_of(c, u)]);
    else if (u->access != ACCESS_WRITE && u->access != ACCESS_PRECEDE)
        delay(&m->start, c->ready[place_of(c, u)]);
    return OK;
}

static status note_end(void *given, const instr_use *u, err *e)
{
    const simulate_moment *m = given;
    simulate_clock *c = &m->stage->clock[u->resource][u->group];
    (void)e;
    if (u->access == ACCESS_PRECEDE) return OK;
    if (u->access == ACCESS_ALLOCATE) c->slot[u->owner] = u->slot;
    const int place = place_of(c, u);
    if (u->access != ACCESS_READ && u->access != ACCESS_FREE) delay(&c->ready[place], m->end);
    if (u->resource < RES_SLOTS) delay(&c->unused[place], m->end);
    return OK;
}

static device_stream_kind stream_of(const simulation *s, schedule_instr_kind k)
{
    return s->costs->overlap ? instr_row_of(k)->stream : STREAM_COMPUTE;
}

static const schedule_instr *instr_of(const simulation *s, replay_position position)
{
    return &s->of_stage[position.stage]->instr[position.number];
}

static status time_step(void *given, const replay_step *s, err *e)
{
    status result = OK;
    const simulation *x = given;
    simulate_moment m = {.start = 0};
    double seconds = 0;
    for (int i = 0; i < s->count; i++) {
        const schedule_instr *y = instr_of(x, s->items[i]);
        m.stage = &x->stage[s->items[i].stage];
        delay(&m.start, m.stage->stream[stream_of(x, y->kind)]);
        TRY(instr_each_use(m.stage->p, m.stage->s, y, wait_for, &m, e));
        if (instr_row_of(y->kind)->peers.meeting == MEETS_SENDER)
            delay(&m.start, x->out->span[s->sent.stage][s->sent.number].end);
        delay(&seconds, x->costs->seconds(x->costs->given, s->items[i].stage, y));
    }
    m.end = m.start + seconds;
    for (int i = 0; i < s->count; i++) {
        const replay_position *position = &s->items[i];
        const schedule_instr *y = instr_of(x, *position);
        m.stage = &x->stage[position->stage];
        x->out->span[position->stage][position->number] = (simulate_span){m.start, m.end};
        m.stage->stream[stream_of(x, y->kind)] = m.end;
        TRY(instr_each_use(m.stage->p, m.stage->s, y, note_end, &m, e));
        if (instr_row_of(y->kind)->stream == STREAM_COMPUTE)
            x->out->busy[position->stage] += seconds;
    }
    delay(&x->out->seconds, m.end);
done:
    return result;
}

// ---- Memory

static bool open_doubles(double **out, size_t count)
{
    *out = calloc(count + 1, sizeof **out);
    return *out != NULL;
}

static bool open_stage(simulate_stage *g, const plan *p, const schedule *s)
{
    bool good = true;
    *g = (simulate_stage){.p = p, .s = s};
    for (instr_resource r = 0; r < RESOURCES; r++) {
        const int groups = instr_slot_groups(p, r);
        const size_t owners = (size_t)instr_owners(p, r);
        g->clock[r] = calloc((size_t)groups, sizeof *g->clock[r]);
        good = good && g->clock[r];
        for (int i = 0; good && i < groups; i++) {
            simulate_clock *c = &g->clock[r][i];
            const size_t slots = r < RES_SLOTS ? (size_t)instr_slot_count(s, r, i) : 0;
            good = open_doubles(&c->ready, r < RES_SLOTS ? slots : owners);
            if (r >= RES_SLOTS) continue;
            c->slot = calloc(owners + 1, sizeof *c->slot);
            good = good && c->slot && open_doubles(&c->unused, slots);
        }
    }
    return good;
}

static void close_stage(simulate_stage *g)
{
    for (instr_resource r = 0; r < RESOURCES; r++) {
        for (int i = 0; g->clock[r] && i < instr_slot_groups(g->p, r); i++) {
            free(g->clock[r][i].ready);
            free(g->clock[r][i].unused);
            free(g->clock[r][i].slot);
        }
        free(g->clock[r]);
    }
}

static status open_result(simulate_result *r, const schedule *const *of_stage, int stages, err *e)
{
    *r = (simulate_result){.stages = stages};
    bool good = open_doubles(&r->busy, (size_t)stages) && open_doubles(&r->idle, (size_t)stages);
    r->span = calloc((size_t)stages, sizeof *r->span);
    good = good && r->span;
    for (int i = 0; good && i < stages; i++) {
        r->span[i] = calloc((size_t)of_stage[i]->count + 1, sizeof **r->span);
        good = r->span[i] != NULL;
    }
    return good ? OK : err_set(e, E_MEMORY, "no memory to simulate %d stages", stages);
}

void simulate_result_clear(simulate_result *r)
{
    for (int i = 0; r->span && i < r->stages; i++) free(r->span[i]);
    free(r->span);
    free(r->busy);
    free(r->idle);
    *r = (simulate_result){0};
}

static void sum_up(simulate_result *r)
{
    double idle = 0;
    for (int i = 0; i < r->stages; i++) {
        r->idle[i] = r->seconds - r->busy[i];
        idle += r->idle[i];
    }
    r->bubble = r->seconds > 0 ? idle / (r->seconds * r->stages) : 0;
}

status schedule_simulate(const schedule *const *of_stage, const plan *const *plan_of_stage,
                         int stages, const simulate_costs *c, simulate_result *out, err *e)
{
    status result = OK;
    simulation x = {of_stage, c, out, calloc((size_t)stages, sizeof(simulate_stage))};
    TRY(open_result(out, of_stage, stages, e));
    if (!x.stage) FAIL(E_MEMORY, "no memory to simulate %d stages", stages);
    for (int i = 0; i < stages; i++)
        if (!open_stage(&x.stage[i], plan_of_stage[i], of_stage[i]))
            FAIL(E_MEMORY, "no memory to simulate %d stages", stages);
    TRY(schedule_replay(of_stage, stages, time_step, &x, e));
    sum_up(out);
done:
    for (int i = 0; x.stage && i < stages && x.stage[i].p; i++) close_stage(&x.stage[i]);
    free(x.stage);
    return result;
}
