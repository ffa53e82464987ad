// state.c -- allocates the flat arrays, and says where things lie in them. See state.h. Called by
// trainer.c and by the files that read and write state.
#include "train/state.h"

#include "train/trainer_private.h"

struct trainer_state {
    char *weights;      // [elements of plan->weight]
    char *post_forward; // [elements of LAYOUT_POST_FORWARD]; NULL: no post-forward group
    float *master;      // [elements of plan->optimizer]
    float *moment[2];   // likewise
    float *gradients;   // [elements of plan->gradient]
    float *tied_grads;  // [plan->tied_grads]
    bool *grad_written, *tied_grad_written; // [rows]
};

static status allocate_weights(trainer *t, trainer_state *s, err *e)
{
    status result = OK;
    const plan *p = t->plan;
    const size_t bytes = trainer_weight_bytes(t);
    // Weights that never travel during a step need no memory that other ranks can read. Both kinds of
    // memory start as zeros: digests also read the gaps between rows.
    const bool travel =
        p->redistribute.unshard.count > 0 || p->redistribute.all_gather_updated.count > 0;
    if (!trainer_in_file(p, PLAN_WEIGHTS))
        TRY(memory_take_planned(t->memory, travel ? FROM_SHARED : FROM_ZEROED,
                                (size_t)p->elements[p->weight] * bytes, &s->weights, e));
    if (p->keeps_post_forward_shards)
        TRY(memory_take_planned(t->memory, FROM_SHARED,
                                (size_t)p->elements[LAYOUT_POST_FORWARD] * bytes, &s->post_forward,
                                e));
done:
    return result;
}

static status allocate_optimizer_state(trainer *t, trainer_state *s, err *e)
{
    status result = OK;
    const plan *p = t->plan;
    const optim_rule *rule = optim_rule_of(&t->o.optimizer);
    const size_t bytes = (size_t)p->elements[p->optimizer] * sizeof(float);
    if (trainer_in_file(p, PLAN_OPTIMIZER_STATE)) return OK;
    if (t->o.precision != F32)
        TRY(memory_take_planned(t->memory, FROM_ZEROED, bytes, &s->master, e));
    if (rule->has_m) TRY(memory_take_planned(t->memory, FROM_ZEROED, bytes, &s->moment[0], e));
    if (rule->has_v) TRY(memory_take_planned(t->memory, FROM_ZEROED, bytes, &s->moment[1], e));
done:
    return result;
}

status state_allocate(trainer *t, err *e)
{
    status result = OK;
    const plan *p = t->plan;
    const size_t rows = (size_t)p->rows;
    TRY(trainer_object(&t->state, sizeof *t->state, e));
    trainer_state *s = t->state;
    TRY(allocate_weights(t, s, e));
    if (!trainer_in_file(p, PLAN_GRADIENTS))
        TRY(memory_take_planned(t->memory, FROM_SHARED,
                                (size_t)p->elements[p->gradient] * sizeof(float), &s->gradients,
                                e));
    TRY(memory_take_planned(t->memory, FROM_DEVICE, (size_t)p->tied_grads * sizeof(float),
                            &s->tied_grads, e));
    TRY(allocate_optimizer_state(t, s, e));
    TRY(memory_table(t->memory, rows, sizeof(bool), &s->grad_written, e));
    TRY(memory_table(t->memory, rows, sizeof(bool), &s->tied_grad_written, e));
done:
    return result;
}

void state_close(trainer *t)
{
    free(t->state);
}

char *state_weights(const trainer *t)
{
    return t->state->weights;
}

float *state_master(const trainer *t)
{
    return t->state->master;
}

float *state_moment(const trainer *t, int i)
{
    return t->state->moment[i];
}

float *state_gradients(const trainer *t)
{
    return t->state->gradients;
}

char *state_bucket_weights(const trainer *t, int bucket)
{
    const size_t first = (size_t)t->plan->bucket[bucket].first[t->plan->weight];
    return t->state->weights + first * trainer_weight_bytes(t);
}

float *state_bucket_gradients(const trainer *t, int bucket)
{
    return t->state->gradients + t->plan->bucket[bucket].first[t->plan->gradient];
}

char *state_post_forward(const trainer *t, const plan_row *r)
{
    return t->state->post_forward +
           (size_t)r->offset[LAYOUT_POST_FORWARD] * trainer_weight_bytes(t);
}

float *state_tied_gradient(const trainer *t, const plan_row *r)
{
    return t->state->tied_grads + r->tied_grad;
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
