// schedule_visits.c -- a stage's passes over chunks as visits of single blocks, each with the slot
// that its activations are in. Called by schedule_make.
#include "parallel/schedule_private.h"

#include "base/alloc.h"
#include "base/size.h"

#include <stdlib.h>
#include <string.h>

static const char WHAT[] = "a schedule";

// Slots of the chunks: which micro-batch is in which.
typedef struct pool {
    int *slot_of; // [micros] -1: in none
    bool *busy;   // [micros]
    int count;    // ever used at once
    int first;    // all below it are busy
} pool;

static status pool_open(pool *p, int micros, err *e)
{
    status result = OK;
    TRY(alloc_array(&p->slot_of, (size_t)micros, sizeof(int), WHAT, e));
    TRY(alloc_zeroed(&p->busy, (size_t)micros, sizeof(bool), WHAT, e));
    for (int i = 0; i < micros; i++) p->slot_of[i] = -1;
done:
    return result;
}

static void pool_close(pool *p)
{
    free(p->slot_of);
    free(p->busy);
}

static void pool_take(pool *p, int micro)
{
    int i = p->first;
    while (p->busy[i]) i++;
    p->busy[i] = true;
    p->slot_of[micro] = i;
    p->first = i + 1;
    if (i >= p->count) p->count = i + 1;
}

static void pool_give(pool *p, int micro)
{
    const int i = p->slot_of[micro];
    p->busy[i] = false;
    if (i < p->first) p->first = i;
}

// ---- Slots of varying size

// Where a free slot of so many elements and that number is, or would be.
static int place_of(const schedule_slot_pool *p, int64_t elements, int slot)
{
    int low = 0, high = p->frees;
    while (low < high) {
        const int middle = low + (high - low) / 2, other = p->free[middle];
        const int64_t its = p->sizes->elements[other];
        if (its < elements || (its == elements && other < slot))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static int take_new(schedule_slot_pool *p, int64_t elements)
{
    schedule_slots *s = p->sizes;
    const size_t need = (size_t)s->count + 1;
    if (alloc_grow(&s->elements, &p->size_room, need, sizeof *s->elements, WHAT, NULL) != OK ||
        alloc_grow(&p->free, &p->free_room, need, sizeof *p->free, WHAT, NULL) != OK) {
        p->failed = true;
        return -1;
    }
    s->elements[s->count] = elements;
    return s->count++;
}

int schedule_slot_take(schedule_slot_pool *p, int64_t elements)
{
    int64_t *const has = p->sizes->elements;
    const int above = place_of(p, elements, -1);
    if (p->frees == 0) return take_new(p, elements);
    int best = above;
    if (above > 0) {
        const int64_t below = has[p->free[above - 1]];
        const int first = place_of(p, below, -1); // of those of that size
        const int64_t lacks = elements - below,
                      over = above < p->frees ? has[p->free[above]] - elements : INT64_MAX;
        if (lacks < over || (lacks == over && p->free[first] < p->free[above])) best = first;
    }
    const int slot = p->free[best];
    memmove(&p->free[best], &p->free[best + 1], (size_t)(--p->frees - best) * sizeof *p->free);
    if (has[slot] < elements) has[slot] = elements;
    return slot;
}

void schedule_slot_give(schedule_slot_pool *p, int slot)
{
    const int at = place_of(p, p->sizes->elements[slot], slot);
    memmove(&p->free[at + 1], &p->free[at], (size_t)(p->frees++ - at) * sizeof *p->free);
    p->free[at] = slot;
}

// ---- Visits

static void visit_chunk(builder *b, const pipeline_op *x, pool *act, pool *held)
{
    const plan *p = b->p;
    const int part = x->chunk * p->o.mesh.size[AXIS_PP] + p->coord[AXIS_PP];
    const int first = p->chunk_first[part], last = p->chunk_first[part + 1] - 1;
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
static status eval_list(const plan *p, int chunks, pipeline_list *out, err *e)
{
    (void)p;
    const status result = alloc_zeroed(&out->at, (size_t)chunks, sizeof *out->at, WHAT, e);
    if (result != OK) return result;
    out->count = chunks;
    for (int c = 0; c < chunks; c++) out->at[c] = (pipeline_op){PIPE_FORWARD, 0, c};
    return OK;
}

static size_t count_visits(const plan *p, const pipeline_list *l)
{
    const int stages = p->o.mesh.size[AXIS_PP];
    size_t count = 0;
    for (int i = 0; i < l->count; i++) {
        const int part = l->at[i].chunk * stages + p->coord[AXIS_PP];
        count += (size_t)(p->chunk_first[part + 1] - p->chunk_first[part]);
    }
    return count;
}

// A list has about two instructions a visit; more would fill memory, and nobody means them.
static status check_length(const plan *p, err *e)
{
    enum { MOST = 1 << 23 };
    int here = 0;
    for (int k = p->coord[AXIS_PP]; k < p->chunks; k += p->o.mesh.size[AXIS_PP])
        here += p->chunk_first[k + 1] - p->chunk_first[k];
    if (size_mul(2 * (uint64_t)here, (uint64_t)p->o.micros) <= MOST) return OK;
    return err_set(e, E_USAGE,
                   "train.global_batch: %d micro-batches of %d blocks are more than %d passes in a "
                   "step; valid: a smaller train.global_batch or a larger train.micro_batch",
                   p->o.micros, here, MOST);
}

static status make_visits(builder *b, pool *act, pool *held, err *e)
{
    status result = OK;
    const plan *p = b->p;
    const int stages = p->o.mesh.size[AXIS_PP], chunks = p->chunks / stages;
    pipeline_list l = {NULL, 0};
    if (b->what == PASS_EVAL)
        TRY(eval_list(p, chunks, &l, e));
    else
        TRY(pipeline_make(p->o.strategy.pipeline.schedule, stages, chunks, p->o.micros,
                          p->coord[AXIS_PP], &l, e));
    TRY(alloc_zeroed(&b->visit, count_visits(p, &l), sizeof *b->visit, WHAT, e));
    for (int i = 0; i < l.count; i++)
        visit_chunk(b, &l.at[i], &act[l.at[i].chunk], &held[l.at[i].chunk]);
    for (int c = 0; c < chunks; c++) {
        b->s->act_slots[c] = act[c].count;
        b->s->wgrad_slots[c] = held[c].count;
    }
done:
    pipeline_list_clear(&l);
    return result;
}

// What comes after every visit, from the last to the first.
static status look_ahead(builder *b, err *e)
{
    status result = OK;
    const plan *p = b->p;
    const size_t buckets = (size_t)p->buckets;
    size_t count = 0;
    pipeline_pass *next = NULL; // that needs the bucket
    bool *more = NULL;
    TRY(alloc_array(&next, buckets, sizeof *next, WHAT, e));
    TRY(alloc_zeroed(&more, buckets * (size_t)p->o.micros, sizeof *more, WHAT, e));
    TRY(alloc_zeroed(&b->first_after, (size_t)b->visits, sizeof *b->first_after, WHAT, e));
    for (int v = 0; v < b->visits; v++) {
        b->first_after[v] = count;
        count += (size_t)plan_buckets_of(p, b->visit[v].block).count;
    }
    TRY(alloc_zeroed(&b->after, count, sizeof *b->after, WHAT, e));
    for (size_t k = 0; k < buckets; k++) next[k] = PIPE_FORWARD;
    for (int at = b->visits - 1; at >= 0; at--) {
        const visit *v = &b->visit[at];
        const plan_buckets l = plan_buckets_of(p, v->block);
        for (int i = 0; i < l.count; i++) {
            bool *later = &more[(size_t)v->micro * buckets + (size_t)l.items[i]];
            b->after[b->first_after[at] + (size_t)i] =
                (unsigned char)((next[l.items[i]] != PIPE_FORWARD ? NEXT_IS_BACKWARD : 0) |
                                (*later ? MORE_GRADIENTS : 0));
            next[l.items[i]] = v->kind;
            *later = *later || visit_ends_gradients(v);
        }
    }
done:
    free(next);
    free(more);
    return result;
}

static status minus_ones(int **out, int count, err *e)
{
    const status result = alloc_array(out, (size_t)count, sizeof **out, WHAT, e);
    for (int i = 0; result == OK && i < count; i++) (*out)[i] = -1;
    return result;
}

status builder_open(builder *b, err *e)
{
    status result = OK;
    const int chunks = b->p->chunks / b->p->o.mesh.size[AXIS_PP], micros = b->p->o.micros;
    if (b->what == PASS_TRAIN) {
        result = check_length(b->p, e);
        if (result != OK) return result;
    }
    pool *act = NULL, *held = NULL;
    TRY(alloc_zeroed(&act, (size_t)chunks, sizeof *act, WHAT, e));
    TRY(alloc_zeroed(&held, (size_t)chunks, sizeof *held, WHAT, e));
    TRY(alloc_zeroed(&b->s->act_slots, (size_t)chunks, sizeof(int), WHAT, e));
    TRY(alloc_zeroed(&b->s->wgrad_slots, (size_t)chunks, sizeof(int), WHAT, e));
    TRY(minus_ones(&b->weight_slot, b->p->buckets, e));
    TRY(minus_ones(&b->gradient_slot, b->p->buckets, e));
    TRY(minus_ones(&b->fetched, b->p->buckets, e));
    TRY(alloc_zeroed(&b->kept, (size_t)b->p->buckets, sizeof *b->kept, WHAT, e));
    for (int c = 0; c < chunks; c++) {
        TRY(pool_open(&act[c], micros, e));
        TRY(pool_open(&held[c], micros, e));
    }
    TRY(make_visits(b, act, held, e));
    TRY(look_ahead(b, e));
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
    free(b->weights.free);
    free(b->gradients.free);
    free(b->first_after);
    free(b->after);
    for (int t = 0; t < PLAN_STATES; t++) {
        free(b->state_busy[t]);
        free(b->state_used[t]);
    }
}
