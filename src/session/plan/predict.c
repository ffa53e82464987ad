// predict.c -- see predict.h. The plans and lists of all stages are made as for a run; the model is traced once.
#include "session/plan/predict.h"

#include "planner/effective.h"

#include <math.h>

// FLOPs of the model in a step, of all ranks. A rank of each stage stands for the others of that stage; it has the
// largest micro-batches.
static double step_flops(const trainer_options *o, const session_stages *stages, const model *m)
{
    double sum = 0;
    const batch_split s = trainer_split(o);
    const double most = (double)batch_split_of(&s, batch_split_largest(&s)),
                 mean = (double)batch_split_before(&s, s.ranks) / s.ranks;
    for (int k = 0; k < stages->count; k++)
        for (int b = 0; b < m->blocks; b++)
            if (plan_has_block(stages->plan[k], b)) sum += model_block_flops(m, b);
    const int ranks = o->mesh.ranks / stages->count;
    return sum * stages->plan[0]->o.micros * ranks * (mean / most);
}

static void conclude(const trainer_options *o, const planner_machine *m, double flops,
                     const planner_times *t, prediction *out)
{
    const double ranks = o->mesh.ranks, peak = m->peak_flops[o->precision] * ranks;
    *out = (prediction){.step_s = t->seconds,
                        .tokens_per_s = (double)(o->global_batch * o->seq_len) / t->seconds,
                        .mfu = peak > 0 ? flops / t->seconds / peak : NAN,
                        .compute_s = t->compute_s,
                        .exposed_s = t->exposed_s,
                        .transfer_s = t->transfer_s,
                        .bubble = t->bubble,
                        .flops = flops,
                        .labelled = o->loss.packs && o->loss.labelled > 0 ? o->loss.labelled : 1,
                        .joules = planner_joules(m->watts, ranks, t->seconds),
                        .price = planner_price(m->price_per_hour, ranks, t->seconds)};
}

status session_predict_times(const job *j, const session_inputs *in, int ranks,
                             const planner_machine *m, session_stages *stages, planner_times *times,
                             prediction *out, err *e)
{
    status result = OK;
    trainer_options o = {0};
    model *traced = NULL;
    *stages = (session_stages){.count = 0};
    *times = (planner_times){.stages = 0};
    TRY(session_options(j, in, ranks, &o, e));
    o.strategy.pipeline.sends_wait = m->costs.sends_wait;
    TRY(session_stages_open(&o, stages, e));
    TRY(session_open_model(&o, &traced, e));
    const planner_step x = {stages->plan_of, stages->train_of, stages->count, traced, m};
    TRY(planner_step_times(&x, times, e));
    conclude(&o, m, step_flops(&o, stages, traced), times, out);
done:
    model_close(traced);
    session_options_clear(&o);
    return result;
}

status session_predict(const job *j, const session_inputs *in, int ranks, const planner_machine *m,
                       prediction *out, err *e)
{
    session_stages stages;
    planner_times times;
    const status result = session_predict_times(j, in, ranks, m, &stages, &times, out, e);
    session_stages_close(&stages);
    planner_times_clear(&times);
    return result;
}
