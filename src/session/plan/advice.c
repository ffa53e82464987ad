// advice.c -- see advice.h. A row is a rule: when it speaks, whether a layout follows it, and the layout that it means.
#include "session/plan/advice.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct advice_facts {
    const advice_of *x;
    double params;
    bool is_known;  // how much memory a rank has
    bool one, all;  // fits on one device; sharded, on all devices together
    bool can_shard; // the batch divides over all devices
} advice_facts;

// ---- Layouts that rules mean

static bool is_dp(const job *j, const char *name)
{
    return strcmp(j->strategy.dp.inner.name, name) == 0;
}

static bool has_no_model_axes(const job *j)
{
    return j->parallel.size[AXIS_TP] == 1 && j->parallel.size[AXIS_PP] == 1;
}

static bool has_tiers(const job *j)
{
    for (int k = 0; k < PLAN_STATES; k++)
        if (j->strategy.offload.tier[k] != TIER_DEVICE) return true;
    return false;
}

// The job with data parallelism alone.
static job plain(const job *j, const char *dp)
{
    job out = *j;
    for (int a = 0; a < AXES; a++) out.parallel.size[a] = a == AXIS_DP_SHARD ? 0 : 1;
    out.parallel.split = NULL;
    out.parallel.splits = 0;
    out.strategy.pipeline = (strategy_pipeline){
        .schedule = PIPE_1F1B, .virtual_stages = 1, .sends_wait = j->strategy.pipeline.sends_wait};
    out.strategy.dp = (policies){.outer = *policy_find("ddp"), .inner = *policy_find(dp)};
    return out;
}

// ---- Rules

static bool fits_one(const advice_facts *f)
{
    return f->is_known && f->one;
}
static bool fits_all(const advice_facts *f)
{
    return f->is_known && !f->one && f->all;
}
static bool fits_not(const advice_facts *f)
{
    return f->is_known && f->can_shard && !f->all;
}
static bool is_small(const advice_facts *f)
{
    return f->params < 75e9 && f->x->ranks > 1;
}
static bool is_huge(const advice_facts *f)
{
    return f->params >= 100e9;
}
static bool has_hosts(const advice_facts *f)
{
    return f->x->ranks > f->x->ranks_per_host;
}

static bool is_ddp(const advice_facts *f, const job *j)
{
    (void)f;
    return is_dp(j, "ddp") && has_no_model_axes(j);
}
static bool is_ddp_or_zero1(const advice_facts *f, const job *j)
{
    return is_ddp(f, j) || (is_dp(j, "zero1") && has_no_model_axes(j));
}
static bool is_zero3(const advice_facts *f, const job *j)
{
    (void)f;
    return is_dp(j, "zero3");
}
static bool is_offloaded_or_3d(const advice_facts *f, const job *j)
{
    (void)f;
    return has_tiers(j) || !has_no_model_axes(j);
}
static bool has_model_axes(const advice_facts *f, const job *j)
{
    (void)f;
    return !has_no_model_axes(j);
}
static bool has_tp_within(const advice_facts *f, const job *j)
{
    const int tp = j->parallel.size[AXIS_TP];
    return tp == 1 || f->x->ranks_per_host % tp == 0;
}

typedef struct advice_rule {
    const char *guide, *says;
    bool (*speaks)(const advice_facts *f);
    bool (*follows)(const advice_facts *f, const job *j);
    const char *means; // the policy of data parallelism alone; NULL: no one layout
} advice_rule;

static const advice_rule RULES[ADVICE_RULES] = {
    {"decision tree", "it fits on one device: ddp, the fastest and simplest", fits_one, is_ddp,
     "ddp"},
    {"decision tree", "it fits on all devices together: FSDP or ZeRO stage 3", fits_all, is_zero3,
     "zero3"},
    {"decision tree", "it fits nowhere: stage 3 with offload, or pp with tp", fits_not,
     is_offloaded_or_3d, NULL},
    {"ZeRO stages", "it fits on one device: stage 1 or ddp is fastest", fits_one, is_ddp_or_zero1,
     "zero1"},
    {"scaling rule", "FSDP for models up to about 70B", is_small, is_zero3, "zero3"},
    {"scaling rule", "tp or pp for models of 100B and more", is_huge, has_model_axes, NULL},
    {"links", "tp within a host, pp across hosts", has_hosts, has_tp_within, NULL},
};

// ---- Reasons

static status seconds_of(const advice_of *x, const job *j, double *out, err *e)
{
    prediction p;
    err refused = {.code = OK};
    *out = NAN;
    if (!x->machine) return OK;
    const status result = session_predict(j, x->in, x->ranks, x->machine, &p, &refused);
    if (result == OK) *out = p.step_s;
    if (result == OK || result == E_USAGE || result == E_FIT) return OK;
    return err_set(e, result, "%s", refused.text);
}

static status estimate_of(const advice_of *x, const job *j, memory_estimate *out, bool *fits,
                          err *e)
{
    err refused = {.code = OK};
    const status result = memory_estimate_of(j, x->in, x->ranks, x->base, out, &refused);
    *fits = result == OK && memory_estimate_fits(out, x->budget, x->base);
    if (result == OK || result == E_USAGE || result == E_FIT) return OK;
    return err_set(e, result, "%s", refused.text);
}

static status give_reason(const advice_of *x, const advice_rule *r, advice *out, err *e)
{
    status result = OK;
    memory_estimate n;
    bool fits;
    double seconds;
    char size[24];
    snprintf(out->reason, sizeof out->reason, "the layout is another one");
    if (!r->means) goto done;
    const job meant = plain(x->j, r->means);
    TRY(estimate_of(x, &meant, &n, &fits, e));
    TRY(seconds_of(x, &meant, &seconds, e));
    text_bytes(size, (double)n.total);
    if (n.ranks == 0)
        snprintf(out->reason, sizeof out->reason, "%s alone is not possible", r->means);
    else if (!fits)
        snprintf(out->reason, sizeof out->reason, "%s alone needs %s of a rank", r->means, size);
    else if (seconds > x->chosen_s)
        snprintf(out->reason, sizeof out->reason, "%s alone would take %.2f times as long",
                 r->means, seconds / x->chosen_s);
    else if (isnan(seconds) || isnan(x->chosen_s))
        snprintf(out->reason, sizeof out->reason, "no times are known");
done:
    return result;
}

static status find_facts(const advice_of *x, advice_facts *f, err *e)
{
    status result = OK;
    memory_estimate n;
    const job one = plain(x->j, "ddp"), all = plain(x->j, "zero3");
    *f = (advice_facts){
        .x = x, .params = (double)x->params, .is_known = x->budget != MEMORY_ESTIMATE_NO_BUDGET};
    TRY(estimate_of(x, &one, &n, &f->one, e));
    TRY(estimate_of(x, &all, &n, &f->all, e));
    f->can_shard = n.ranks > 0;
done:
    return result;
}

status advice_fill(const advice_of *x, advice out[ADVICE_RULES], err *e)
{
    status result = OK;
    advice_facts f;
    TRY(find_facts(x, &f, e));
    for (int i = 0; i < ADVICE_RULES; i++) {
        const advice_rule *r = &RULES[i];
        out[i] = (advice){.says = NULL};
        if (!r->speaks(&f)) continue;
        out[i] = (advice){.guide = r->guide, .says = r->says, .agrees = r->follows(&f, x->chosen)};
        if (!out[i].agrees) TRY(give_reason(x, r, &out[i], e));
    }
done:
    return result;
}
