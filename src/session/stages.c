// stages.c -- see stages.h. verify.c and explain_job.c call it. It starts no rank and opens no
// device.
#include "session/stages.h"

#include "base/alloc.h"
#include "graph/op.h"
#include "train/param_groups.h"

#include <stdlib.h>

status session_stages_open(const trainer_options *o, session_stages *out, err *e)
{
    status result = OK;
    const size_t count = (size_t)o->mesh.size[AXIS_PP];
    *out = (session_stages){.count = 0};
    TRY(alloc_zeroed(&out->plan, count, sizeof *out->plan, "the stages", e));
    TRY(alloc_zeroed(&out->train, count, sizeof *out->train, "the stages", e));
    TRY(alloc_zeroed(&out->eval, count, sizeof *out->eval, "the stages", e));
    TRY(alloc_zeroed(&out->plan_of, count, sizeof *out->plan_of, "the stages", e));
    TRY(alloc_zeroed(&out->train_of, count, sizeof *out->train_of, "the stages", e));
    TRY(alloc_zeroed(&out->eval_of, count, sizeof *out->eval_of, "the stages", e));
    const batch_split split = trainer_split(o);
    for (int i = 0; i < (int)count; i++) {
        int coord[AXES] = {[AXIS_PP] = i};
        trainer_options of = *o;
        uint64_t params;
        double flops;
        mesh_set_data_rank(&o->mesh, batch_split_largest(&split), coord);
        of.place.rank = mesh_rank(&o->mesh, coord);
        TRY(trainer_plan(&of, &out->plan[i], &out->train[i], &params, &flops, e));
        out->count++; // session_stages_close frees them from now on
        out->plan_of[i] = out->plan[i];
        out->train_of[i] = &out->train[i];
        out->eval_of[i] = &out->eval[i];
        if (o->valid) TRY(schedule_make(out->plan[i], PASS_EVAL, &out->eval[i], e));
    }
done:
    return result;
}

void session_stages_close(session_stages *s)
{
    for (int i = 0; i < s->count; i++) {
        plan_free(s->plan[i]);
        schedule_clear(&s->train[i]);
        schedule_clear(&s->eval[i]);
    }
    free(s->plan);
    free(s->train);
    free(s->eval);
    free(s->plan_of);
    free(s->train_of);
    free(s->eval_of);
    *s = (session_stages){.count = 0};
}

// ---- The time of each pass

enum { PASSES = 3 }; // forward, dgrad, wgrad

static double flops_of(const graph *g, const graph_node_list *l, int from, int to)
{
    double sum = 0;
    for (int i = from; i < to; i++) {
        const graph_op_info *o = graph_op_find(l->node[i]->op);
        if (o->flops) sum += o->flops(g, l->node[i]);
    }
    return sum;
}

model_options session_once(const job *j)
{
    return (model_options){.mode = GRAPH_EVAL,
                           .type = F32,
                           .batch = 1,
                           .seq = 1,
                           .adapter_of = j->lora.how.rank > 0 ? model_lora_find : NULL,
                           .adapter_arg = &j->lora.how};
}

status session_open_model(const trainer_options *o, model **out, err *e)
{
    const model_options x = {.mode = GRAPH_TRAIN,
                             .type = o->precision,
                             .batch = o->micro_batch,
                             .seq = o->seq_len,
                             .documents = o->documents,
                             .loss = o->loss,
                             .is_frozen = param_groups_is_frozen,
                             .type_of = o->groups.count > 0 ? param_groups_type_of : NULL,
                             .tensor_arg = &o->groups,
                             .adapter_of = o->lora ? model_lora_find : NULL,
                             .adapter_arg = o->lora,
                             .recompute = o->strategy.recompute,
                             .position.mesh = o->mesh,
                             .position.sequence_parallel = o->strategy.sequence_parallel,
                             .needs = o->place.needs,
                             .numerics = o->numerics,
                             .splits_backward = true};
    return model_open(o->family, o->config, &x, out, e);
}

// seconds[PASSES * blocks]: FLOPs of each pass of each block. Recomputation counts in the pass that
// runs it.
static status by_flops(const trainer_options *o, int blocks, double *seconds, err *e)
{
    status result = OK;
    model *m = NULL;
    TRY(session_open_model(o, &m, e));
    for (int b = 0; b < blocks; b++) {
        const graph *g = m->block[b].g;
        const graph_node_list *back = &g->backward;
        seconds[b] = flops_of(g, &g->forward, 0, g->forward.count);
        seconds[blocks + b] = flops_of(g, back, 0, g->split.dgrad_nodes);
        seconds[2 * blocks + b] = flops_of(g, back, g->split.dgrad_nodes, back->count);
    }
done:
    model_close(m);
    return result;
}

// seconds[PASSES * blocks]: each pass of a model chunk takes 1.
static void evenly(const plan *p, double *seconds)
{
    for (int b = 0; b < p->o.blocks; b++) {
        const int chunk = plan_chunk_of(p, b);
        for (int k = 0; k < PASSES; k++)
            seconds[k * p->o.blocks + b] =
                1.0 / (p->chunk_first[chunk + 1] - p->chunk_first[chunk]);
    }
}

status session_stages_simulate(const session_stages *s, const trainer_options *o, bool even,
                               simulate_result *out, err *e)
{
    status result = OK;
    const int blocks = s->plan[0]->o.blocks;
    double *seconds = NULL;
    *out = (simulate_result){.stages = 0};
    TRY(alloc_zeroed(&seconds, (size_t)blocks, PASSES * sizeof *seconds, "the costs of blocks", e));
    if (even)
        evenly(s->plan[0], seconds);
    else
        TRY(by_flops(o, blocks, seconds, e));
    const simulate_blocks cost = {seconds, seconds + blocks, seconds + 2 * blocks};
    const simulate_costs c = {.seconds = simulate_block_seconds,
                              .given = &cost,
                              .overlap = true,
                              .sends_wait = o->strategy.pipeline.sends_wait};
    TRY(schedule_simulate(s->train_of, s->plan_of, s->count, &c, out, e));
done:
    free(seconds);
    return result;
}
