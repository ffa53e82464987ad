// strategy.c -- the names of a strategy's choices, and the choices that depend on the mesh. See
// strategy.h.
#include "parallel/strategy.h"

const char *const NO_SYNC_NAMES[NO_SYNC_MODES + 1] = {
    [NO_SYNC_FALSE] = "false", [NO_SYNC_TRUE] = "true", [NO_SYNC_AUTO] = "auto"};

const char *const HOOK_NAMES[HOOKS + 1] = {
    [HOOK_NONE] = "none", [HOOK_FP16] = "fp16", [HOOK_BF16] = "bf16", [HOOK_POWERSGD] = "powersgd"};

const char *const RECOMPUTE_NAMES[RECOMPUTES + 1] = {
    [RECOMPUTE_NONE] = "none", [RECOMPUTE_SELECTIVE] = "selective", [RECOMPUTE_FULL] = "full"};

bool strategy_no_sync_of(strategy_no_sync mode, const policies *dp, const policy_axes *over,
                         bool swapped, const mesh *m)
{
    if (mode != NO_SYNC_AUTO) return mode == NO_SYNC_TRUE;
    return swapped || !policies_shard_gradients(dp, over, m);
}

strategy strategy_resolve(const strategy *s, const mesh *m)
{
    strategy r = *s;
    const bool swapped =
        memory_tier_row_of(s->offload.tier[PLAN_GRADIENTS], s->offload.host_is_apart)->swapped;
    r.no_sync = strategy_no_sync_of(s->no_sync, &s->dp, &POLICY_AXES, swapped, m) ? NO_SYNC_TRUE
                                                                                  : NO_SYNC_FALSE;
    if (m->size[AXIS_PP] == 1)
        r.pipeline = (strategy_pipeline){.schedule = PIPE_1F1B, .virtual_stages = 1};
    return r;
}
