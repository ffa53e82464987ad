// strategy.c -- the names of a strategy's choices, and the choices that depend on the mesh. See
// strategy.h.
#include "parallel/strategy.h"

const char *const MEMORY_TIER_NAMES[TIERS + 1] = {
    [TIER_DEVICE] = "device", [TIER_HOST] = "host", [TIER_FILE] = "file"};

const char *const NO_SYNC_NAMES[NO_SYNC_MODES + 1] = {
    [NO_SYNC_FALSE] = "false", [NO_SYNC_TRUE] = "true", [NO_SYNC_AUTO] = "auto"};

const char *const HOOK_NAMES[HOOKS + 1] = {
    [HOOK_NONE] = "none", [HOOK_FP16] = "fp16", [HOOK_BF16] = "bf16", [HOOK_POWERSGD] = "powersgd"};

const char *const RECOMPUTE_NAMES[RECOMPUTES + 1] = {
    [RECOMPUTE_NONE] = "none", [RECOMPUTE_SELECTIVE] = "selective", [RECOMPUTE_FULL] = "full"};

strategy strategy_resolve(const strategy *s, const mesh *m)
{
    strategy r = *s;
    if (r.no_sync == NO_SYNC_AUTO) {
        const bool each_micro_batch =
            r.offload.tier[PLAN_GRADIENTS] != TIER_FILE && policies_shard_gradients(&r.dp, m);
        r.no_sync = each_micro_batch ? NO_SYNC_FALSE : NO_SYNC_TRUE;
    }
    if (m->size[AXIS_PP] == 1)
        r.pipeline = (strategy_pipeline){.schedule = PIPE_1F1B, .virtual_stages = 1};
    return r;
}
