// schedule_visits.c -- a stage's passes over chunks as visits of single blocks, each with the slot
// that its activations are in. Called by schedule_make.
#include "parallel/schedule_private.h"

#include <stdlib.h>

// Slots of the chunks: which micro-batch is in which.
typedef struct pool {
    int *slot_of; // [micros] -1: in none
    bool *busy;   // [micros]
    int count;    // ever used at once
} pool;

static status pool_open(pool *p, int micros, err *e)
{
    *p = (pool){.slot_of = malloc((size_t)micros * sizeof(int)),
                .busy = calloc((size_t)micros, sizeof(bool))};
    if (!p->slot_of || !p->busy) return err_set(e, E_IO, "no memory for a schedule");
    for (int i = 0; i < micros; i++) p->slot_of[i] = -1;
    return OK;
}

static void pool_close(pool *p)
{
    free(p->slot_of);
    free(p->busy);
}

static void pool_take(pool *p, int micro)
{
    int i = 0;
    while (p->busy[i]) i++;
    p->busy[i] = true;
    p->slot_of[micro] = i;
    if (i >= p->count) p->count = i + 1;
}

static void pool_give(pool *p, int micro)
{
    p->busy[p->slot_of[micro]] = false;
}

static void visit_chunk(builder *b, const pipe_op *x, pool *act, pool *held)
{
    const plan *p = b->p;
    const int part = x->chunk * p->o.mesh.size[AXIS_PP] + p->at[AXIS_PP];
    const int first = p->part[part], last = p->part[part + 1] - 1;
    if (x->kind == PIPE_FORWARD) pool_take(act, x->micro);
    if (x->kind == PIPE_BACKWARD_INPUT) pool_take(held, x->micro);
    for (int i = 0; i <= last - first; i++)
        b->visit[b->visits++] = (visit){.kind = x->kind,
                                        .micro = x->micro,
                                        .block = x->kind == PIPE_FORWARD ? first + i : last - i,
                                        .act = act->slot_of[x->micro],
                                        .held = held->slot_of[x->micro]};
    bool ends = x->kind == PIPE_BACKWARD || x->kind == PIPE_BACKWARD_WEIGHT;
    if (ends || b->what == PASS_EVAL) pool_give(act, x->micro);
    if (x->kind == PIPE_BACKWARD_WEIGHT) pool_give(held, x->micro);
}

// The passes of an evaluation: each chunk once, in the model's order.
static status eval_list(const plan *p, int chunks, pipe_list *out, err *e)
{
    (void)p;
    *out = (pipe_list){.at = calloc((size_t)chunks, sizeof *out->at), .count = chunks};
    if (!out->at) return err_set(e, E_IO, "no memory for a schedule");
    for (int c = 0; c < chunks; c++) out->at[c] = (pipe_op){PIPE_FORWARD, 0, c};
    return OK;
}

static status make_visits(builder *b, pool *act, pool *held, err *e)
{
    status result = OK;
    const plan *p = b->p;
    const int stages = p->o.mesh.size[AXIS_PP], chunks = p->parts / stages;
    pipe_list l = {NULL, 0};
    if (b->what == PASS_EVAL)
        TRY(eval_list(p, chunks, &l, e));
    else
        TRY(pipeline_make(p->o.pipeline, stages, chunks, p->o.micros, p->at[AXIS_PP], &l, e));
    b->visit = calloc((size_t)l.count * (size_t)p->o.blocks + 1, sizeof *b->visit);
    if (!b->visit) FAIL(E_IO, "no memory for a schedule");
    for (int i = 0; i < l.count; i++)
        visit_chunk(b, &l.at[i], &act[l.at[i].chunk], &held[l.at[i].chunk]);
    for (int c = 0; c < chunks; c++) {
        b->s->act_slots[c] = act[c].count;
        b->s->held_slots[c] = held[c].count;
    }
done:
    pipe_list_clear(&l);
    return result;
}

static int *minus_ones(int count)
{
    int *p = malloc((size_t)(count + 1) * sizeof *p);
    for (int i = 0; p && i <= count; i++) p[i] = -1;
    return p;
}

status builder_open(builder *b, err *e)
{
    status result = OK;
    const int chunks = b->p->parts / b->p->o.mesh.size[AXIS_PP], micros = b->p->o.micros;
    pool *act = calloc((size_t)chunks, sizeof *act), *held = calloc((size_t)chunks, sizeof *held);
    b->s->act_slots = calloc((size_t)chunks, sizeof(int));
    b->s->held_slots = calloc((size_t)chunks, sizeof(int));
    b->weight_slot = minus_ones(b->p->buckets);
    b->gradient_slot = minus_ones(b->p->buckets);
    b->fetched = minus_ones(b->p->buckets);
    b->kept = calloc((size_t)b->p->buckets + 1, sizeof *b->kept);
    if (!act || !held || !b->s->act_slots || !b->s->held_slots || !b->weight_slot ||
        !b->gradient_slot || !b->fetched || !b->kept)
        FAIL(E_IO, "no memory for a schedule");
    for (int c = 0; c < chunks; c++) {
        TRY(pool_open(&act[c], micros, e));
        TRY(pool_open(&held[c], micros, e));
    }
    TRY(make_visits(b, act, held, e));
done:
    for (int c = 0; c < chunks; c++) {
        if (act) pool_close(&act[c]);
        if (held) pool_close(&held[c]);
    }
    free(act);
    free(held);
    return result;
}

void builder_close(builder *b)
{
    free(b->visit);
    free(b->weight_slot);
    free(b->gradient_slot);
    free(b->fetched);
    free(b->kept);
    free(b->weight_busy);
    free(b->gradient_busy);
    for (int t = 0; t < TIERED; t++) {
        free(b->state_busy[t]);
        free(b->state_used[t]);
    }
}
