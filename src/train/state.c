// state.c -- allocates the flat arrays, and computes addresses in them. See state.h. Called by
// trainer.c and by the files that read and write state.
#include "train/state.h"

#include "train/trainer_private.h"

struct trainer_state {
    char *array[PLAN_ARRAYS];               // [bytes of the plan] NULL: nothing of it is in memory
    float *tied_grads;                      // [plan->tied_grads]
    bool *grad_written, *tied_grad_written; // [rows]
};

// Whether other ranks read the weights during a step. Otherwise they need no memory that other ranks
// can read.
static bool weights_travel(const plan *p)
{
    for (int i = 0; i < p->groups; i++)
        if (p->group[i].redistribute.unshard.count > 0 ||
            p->group[i].redistribute.all_gather_updated.count > 0)
            return true;
    return false;
}

// Both kinds of memory start as zeros: digests also read the gaps between rows and between buckets.
static memory_source source_of(const plan *p, plan_array a)
{
    if (a == ARRAY_WEIGHTS) return weights_travel(p) ? FROM_SHARED : FROM_ZEROED;
    return a == ARRAY_POST_FORWARD || a == ARRAY_GRADIENTS ? FROM_SHARED : FROM_ZEROED;
}

status state_allocate(trainer *t, err *e)
{
    status result = OK;
    const plan *p = t->plan;
    const size_t rows = (size_t)p->rows;
    TRY(trainer_object(&t->state, sizeof *t->state, e));
    trainer_state *s = t->state;
    for (int a = 0; a < PLAN_ARRAYS; a++)
        TRY(memory_take_planned(t->memory, source_of(p, (plan_array)a), p->array_bytes[a],
                                &s->array[a], e));
    TRY(memory_take_planned(t->memory, FROM_DEVICE, (size_t)p->tied_grads * sizeof(float),
                            &s->tied_grads, e));
    TRY(memory_table(t->memory, rows, sizeof(bool), &s->grad_written, e));
    TRY(memory_table(t->memory, rows, sizeof(bool), &s->tied_grad_written, e));
done:
    return result;
}

void state_close(trainer *t)
{
    free(t->state);
}

char *state_array(const trainer *t, plan_array a)
{
    return t->state->array[a];
}

char *state_bucket(const trainer *t, plan_array a, int bucket)
{
    const plan_group *g = plan_group_of(t->plan, bucket);
    const bool swapped = a != ARRAY_POST_FORWARD && plan_is_swapped(g, plan_array_state(a));
    if (!t->state->array[a] || swapped || !plan_group_has(g, a)) return NULL;
    return t->state->array[a] + t->plan->bucket[bucket].start[a];
}

float *state_tied_gradient(const trainer *t, const plan_row *r)
{
    return t->state->tied_grads + r->tied_grad;
}

float *state_tied_shards(const trainer *t, int bucket)
{
    const plan *p = t->plan;
    const plan_row *r = &p->row[p->order[p->bucket[bucket].first_row]];
    return t->state->tied_grads + r->tied_shard - r->offset[plan_group_of(p, bucket)->gradient];
}

bool *state_grad_written(const trainer *t, int row)
{
    return &t->state->grad_written[row];
}

bool *state_tied_grad_written(const trainer *t, int row)
{
    return &t->state->tied_grad_written[row];
}

void state_reset_gradients(trainer *t)
{
    memset(t->state->grad_written, 0, (size_t)t->plan->rows * sizeof(bool));
    memset(t->state->tied_grad_written, 0, (size_t)t->plan->rows * sizeof(bool));
}
