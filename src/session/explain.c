// explain.c -- what a job would do, as text: `trireme explain` and trm_job_explain. See session.h.
#include "session/session.h"

status session_explain(const job *j, const inputs *in, bool json, text *out, err *e)
{
    status result = OK;
    trainer_options o = {0};
    device_options d = {.threads = j->launch.threads_per_rank};
    plan *p = NULL;
    schedule s = {0};
    uint64_t params;
    double flops;
    TRY(session_options(j, in, j->launch.ranks, &o, e));
    TRY(device_open(j->launch.device, &d, &o.device, e)); // its scratch memory is part of the plan
    TRY(trainer_plan(&o, &p, &s, &params, &flops, e));
    if (json) text_add(out, "{\"job\":");
    job_explain(j, json, out);
    if (json)
        text_addf(out, ",\"params\":%llu,\"flops_per_rank_and_step\":%.17g,\"plan\":",
                  (unsigned long long)params, flops);
    else
        text_addf(out, "\nmodel: %llu parameters; %.4g FLOP per rank and step\n",
                  (unsigned long long)params, flops);
    plan_print(p, json, out);
    text_add(out, json ? ",\"schedule\":" : "\n");
    schedule_print(&s, json, out);
    text_add(out, json ? "}\n" : "");
done:
    device_close(o.device);
    plan_free(p);
    schedule_clear(&s);
    return result;
}
