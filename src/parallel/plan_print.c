// plan_print.c -- a plan in words: `trireme explain` and refusals of jobs that do not fit.
#include "parallel/plan_private.h"
#include "parallel/traffic.h"

#include <inttypes.h>

const char *plan_category_name(plan_category c)
{
    static const char *const name[CATEGORIES] = {"weights", "master",      "gradients", "optimizer",
                                                 "buffers", "activations", "work",      "data",
                                                 "kernels", "runtime"};
    return name[c];
}

const char *memory_tier_name(memory_tier t)
{
    return MEMORY_TIER_NAMES[t];
}

const char *plan_state_name(plan_state t)
{
    static const char *const name[PLAN_STATES] = {"weights", "gradients", "optimizer"};
    return name[t];
}

// "WPW" or, with two axes in use, "WPW x SSS" (dp_replicate x dp_shard).
static void print_words(const plan *p, text *out)
{
    const policy *const word[2] = {&p->policy.outer, &p->policy.inner};
    const axis of[2] = {AXIS_DP_REPLICATE, AXIS_DP_SHARD};
    bool both = p->o.mesh.size[of[0]] > 1 && p->o.mesh.size[of[1]] > 1;
    int only = p->o.mesh.size[of[0]] > 1 ? 0 : 1;
    for (int i = 0; i < 2; i++)
        if (both || i == only)
            text_addf(out, "%s%c%c%c", both && i ? " x " : "", placement_letter(word[i]->weight),
                      placement_letter(word[i]->gradient), placement_letter(word[i]->optimizer));
}

void plan_print_policy(const plan *p, text *out)
{
    const char *outer = p->o.strategy.dp.outer.name, *inner = p->o.strategy.dp.inner.name;
    if (p->o.mesh.size[AXIS_DP_REPLICATE] > 1 && p->o.mesh.size[AXIS_DP_SHARD] > 1)
        text_addf(out, "%s x %s", outer, inner);
    else
        text_add(out, p->o.mesh.size[AXIS_DP_REPLICATE] > 1 ? outer : inner);
}

static void print_moves(const plan *p, const char *what, const plan_redistribution *m, text *out)
{
    (void)p;
    text_addf(out, "%s ", what);
    for (int i = 0; i < m->count; i++)
        text_addf(out, "%s%s over %s", i ? ", " : "",
                  placement_collective_name(m->step[i].collective),
                  m->step[i].axis == GROUP_POST_FORWARD ? "neighbours"
                                                        : axis_name((axis)m->step[i].axis));
    if (m->count == 0) text_add(out, "nothing");
}

static void print_json(const plan *p, text *out)
{
    text_add(out, "{\"policy\":\"");
    plan_print_policy(p, out);
    text_add(out, "\",\"word\":\"");
    print_words(p, out);
    text_add(out, "\",\"mesh\":{");
    for (int a = 0; a < AXES; a++)
        text_addf(out, "%s\"%s\":%d", a ? "," : "", axis_name((axis)a), p->o.mesh.size[a]);
    text_addf(out, "},\"buckets\":%d,\"parameters_here\":%d,\"tiers\":{", p->buckets,
              p->local_rows);
    for (int t = 0; t < PLAN_STATES; t++)
        text_addf(out, "%s\"%s\":\"%s\"", t ? "," : "", plan_state_name((plan_state)t),
                  memory_tier_name(p->o.strategy.offload.tier[t]));
    text_addf(out, "},\"file_bytes\":%" PRIu64 ",\"bytes_per_rank\":{", p->tier_bytes[TIER_FILE]);
    for (int c = 0; c < CATEGORIES; c++)
        text_addf(out, "\"%s\":%" PRIu64 ",", plan_category_name((plan_category)c), p->bytes[c]);
    text_addf(out, "\"total\":%" PRIu64 "},\"sent_per_step\":{", plan_bytes(p));
    for (int k = 0; k < PROCESS_GROUPS; k++)
        text_addf(out, "\"%s\":%.0f,", process_group_name(k), p->sent_bytes[k]);
    text_addf(out, "\"total\":%.0f}}", traffic_total(p));
}

static void print_bytes(const char *name, uint64_t bytes, text *out)
{
    char size[24];
    text_bytes(size, (double)bytes);
    text_addf(out, "    %-12s %16" PRIu64 "  %s\n", name, bytes, size);
}

static void print_traffic(const plan *p, text *out)
{
    char size[24];
    text_bytes(size, traffic_total(p));
    text_addf(out, "  sent per step: %s", size);
    for (int k = 0; k < PROCESS_GROUPS; k++) {
        if (p->sent_bytes[k] == 0) continue;
        text_bytes(size, p->sent_bytes[k]);
        text_addf(out, ", %s over %s", size, process_group_name(k));
    }
    text_add(out, "\n");
}

void plan_print(const plan *p, bool json, text *out)
{
    if (json) {
        print_json(p, out);
        return;
    }
    text_add(out, "plan: policy ");
    plan_print_policy(p, out);
    text_add(out, ", word ");
    print_words(p, out);
    text_add(out, " (weight, gradient, optimizer state); mesh");
    for (int a = 0; a < AXES; a++) text_addf(out, " %s=%d", axis_name((axis)a), p->o.mesh.size[a]);
    print_moves(p, "\n  per use: weights", &p->unshard, out);
    print_moves(p, "\n  per micro-batch: gradients", &p->reduce_micro_batch, out);
    print_moves(p, "\n  per step: gradients", &p->reduce_step, out);
    print_moves(p, "; weights", &p->all_gather_updated, out);
    text_addf(out, "\n  tiers:");
    for (int t = 0; t < PLAN_STATES; t++)
        text_addf(out, " %s %s%s", plan_state_name((plan_state)t),
                  memory_tier_name(p->o.strategy.offload.tier[t]),
                  p->o.strategy.offload.tier[t] == TIER_HOST
                      ? " (on cpu ranks the device's own memory)"
                      : "");
    text_addf(out, "\n  %d parameters, %d here, in %d buckets\n  bytes per rank:\n", p->rows,
              p->local_rows, p->buckets);
    for (int c = 0; c < CATEGORIES; c++)
        print_bytes(plan_category_name((plan_category)c), p->bytes[c], out);
    print_bytes("total", plan_bytes(p), out);
    if (p->tier_bytes[TIER_FILE]) print_bytes("file", p->tier_bytes[TIER_FILE], out);
    print_traffic(p, out);
}
