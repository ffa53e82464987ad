// engine.c -- a step in parts, as DeepSpeed's engine and Accelerate's accumulate have it, and the program's hook in the
// place of the reduction of gradients, as register_comm_hook of DDP.
#include "api/api.h"

#include "base/alloc.h"

#include <stdlib.h>

// ---- A step in parts

trm_status trm_engine_forward(trm_trainer *t, double *loss, trm_error *error)
{
    err e = {.code = OK};
    return api_give(session_rank_forward(t->rank, loss, &e), &e, error);
}

trm_status trm_engine_backward(trm_trainer *t, trm_error *error)
{
    err e = {.code = OK};
    return api_give(trainer_backward(t->rank->session.trainer, &e), &e, error);
}

bool trm_engine_is_boundary(const trm_trainer *t)
{
    return trainer_is_boundary(t->rank->session.trainer);
}

trm_status trm_engine_step(trm_trainer *t, trm_step *out, trm_error *error)
{
    err e = {.code = OK};
    trainer_step_result s;
    bool ended;
    const status result = session_rank_update(t->rank, &s, &ended, &e);
    if (result == OK && ended) api_end_step(t, &s, out);
    return api_give(result, &e, error);
}

// ---- A hook

static status run_hook(void *arg, const trainer_bucket *b, err *e)
{
    trm_trainer *t = arg;
    trm_error why = {.code = TRM_OK};
    const plan_bucket *planned = &trainer_get_plan(t->rank->session.trainer)->bucket[b->index];
    const trm_bucket out = {.index = b->index,
                            .is_last = b->last,
                            .buffer = b->gradients,
                            .count = (size_t)b->count,
                            .tensors = planned->rows,
                            .tensor = t->hook.tensor + planned->first_row};
    return api_take(t->hook.run(t->hook.state, t, &out, &why), &why, e);
}

// The parameters of all buckets, bucket by bucket.
static status list_tensors(trm_trainer *t, err *e)
{
    const plan *p = trainer_get_plan(t->rank->session.trainer);
    if (t->hook.tensor) return OK;
    const status result = alloc_array(&t->hook.tensor, (size_t)p->local_rows,
                                      sizeof *t->hook.tensor, "a communication hook", e);
    for (int i = 0; result == OK && i < p->local_rows; i++) {
        const plan_row *r = &p->row[p->order[i]];
        t->hook.tensor[i] = (trm_bucket_tensor){
            .name = r->name, .first = (size_t)r->offset[LAYOUT_FULL], .count = (size_t)r->count};
    }
    return result;
}

static status register_hook(trm_trainer *t, void *state, trm_comm_hook hook, err *e)
{
    status result = OK;
    TRY(trainer_set_hook(t->rank->session.trainer, hook ? run_hook : NULL, t, e));
    t->hook.run = hook;
    t->hook.state = state;
    TRY(list_tensors(t, e));
done:
    return result;
}

trm_status trm_trainer_register_comm_hook(trm_trainer *t, void *state, trm_comm_hook hook,
                                          trm_error *error)
{
    err e = {.code = OK};
    return api_give(register_hook(t, state, hook, &e), &e, error);
}

trm_status trm_bucket_all_reduce(trm_trainer *t, size_t first, size_t count, trm_error *error)
{
    err e = {.code = OK};
    if (first > INT64_MAX || count > INT64_MAX)
        return api_give(err_set(&e, E_USAGE, "all-reduce of a bucket: found %zu elements from %zu",
                                count, first),
                        &e, error);
    return api_give(
        trainer_reduce_bucket(t->rank->session.trainer, (int64_t)first, (int64_t)count, &e), &e,
        error);
}
