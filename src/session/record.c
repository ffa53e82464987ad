// record.c -- see record.h. Rank 0 calls it. It does not know where the log is nor when an event is
// due.
#include "session/record.h"

#include <math.h>

status session_log_start(const session *s, const job *j, const session_inputs *in,
                         const char *version, int64_t resumed_from, log_file *l, err *e)
{
    const plan *p = trainer_get_plan(s->trainer);
    text policy_name = {0}, note = {0};
    const char *notes[] = {in->fit, trainer_note(s->trainer)};
    for (int i = 0; i < 2; i++)
        if (notes[i]) text_addf(&note, "%s%s", note.bytes ? "; " : "", notes[i]);
    monitor_axis axes[AXES];
    plan_print_policy(p, &policy_name);
    for (int a = 0; a < AXES; a++) axes[a] = (monitor_axis){axis_name((axis)a), p->o.mesh.size[a]};
    const monitor_start m = {.version = version,
                             .model = in->family->name,
                             .policy = policy_name.chars,
                             .precision = job_precision_name(j),
                             .device = j->launch.device,
                             .launched_as = j->launch.as_threads ? "threads" : "processes",
                             .mesh = axes,
                             .axes = AXES,
                             .ranks = s->comm->size,
                             .threads_per_rank = j->launch.threads_per_rank,
                             .params = (int64_t)model_param_count(trainer_get_model(s->trainer)),
                             .plan_bytes_per_rank = (int64_t)plan_bytes(p),
                             .steps = j->train.steps,
                             .tokens_per_step = j->train.global_batch * in->seq_len,
                             .resumed_from = resumed_from,
                             .note = note.chars};
    status result = text_check(&note, e);
    if (result == OK) result = text_check(&policy_name, e);
    if (result == OK) result = log_start(l, &m, e);
    text_clear(&policy_name);
    text_clear(&note);
    return result;
}

monitor_step session_step(const job *j, const session_inputs *in, const trainer_step_result *s)
{
    return (monitor_step){.step = (int64_t)s->step,
                          .steps = j->train.steps,
                          .loss = s->loss,
                          .grad_norm = s->grad_norm,
                          .lr = s->lr,
                          .tokens = (int64_t)s->tokens,
                          .seconds = (float)s->seconds,
                          .tokens_per_s = (float)(s->tokens / s->seconds),
                          .mfu = NAN,
                          .loss_scale = s->loss_scale,
                          .skipped = s->skipped,
                          .unit = in->train->shape.input_type == I32 ? NULL : "samples"};
}

status session_log_eval(const session *s, const session_inputs *in, double loss, log_file *l,
                        err *e)
{
    // Only tokens have a perplexity.
    const bool tokens = in->valid->shape.input_type == I32;
    return log_eval(l, (int64_t)trainer_steps_done(s->trainer), loss, tokens ? exp(loss) : NAN, e);
}

status session_log_save(const session *s, const char *folder, double seconds, log_file *l, err *e)
{
    return log_save(l, (int64_t)trainer_steps_done(s->trainer), folder,
                    (int64_t)trainer_saved_bytes(s->trainer), (float)seconds, e);
}
