// plan_print.c -- a plan as text and as JSON. `trireme explain` prints it; refusals of jobs that do
// not fit in memory use the names of categories and tiers. Changes nothing.
#include "parallel/plan_private.h"
#include "parallel/traffic.h"

#include <inttypes.h>

const char *plan_category_name(plan_category c)
{
    static const char *const name[CATEGORIES] = {"weights", "master",      "gradients", "optimizer",
                                                 "buffers", "activations", "workspace", "data",
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

static const policy *policy_of(const policies *both, axis a)
{
    return a == AXIS_DP_REPLICATE ? &both->outer : &both->inner;
}

// How many of the two data-parallel axes have several ranks.
static int axes_in_use(const plan *p)
{
    int count = 0;
    for (int i = 0; i < PLAN_DP_AXES; i++) count += p->o.mesh.size[PLAN_DP_AXIS[i].axis] > 1;
    return count;
}

// "zero3 over dp_shard (2 ranks)"; with two axes "ddp over dp_replicate (2 ranks) x zero3 over …".
static void print_policies(const plan *p, text *out)
{
    const char *between = "";
    for (int i = PLAN_DP_AXES - 1; i >= 0; i--) {
        const axis a = PLAN_DP_AXIS[i].axis;
        if (p->o.mesh.size[a] == 1) continue;
        text_addf(out, "%s%s over %s (%d ranks)", between, policy_of(&p->o.strategy.dp, a)->name,
                  axis_name(a), p->o.mesh.size[a]);
        between = " x ";
    }
    if (axes_in_use(p) == 0) text_add(out, "one data-parallel rank");
}

void plan_print_policy(const plan *p, text *out)
{
    const char *outer = p->o.strategy.dp.outer.name, *inner = p->o.strategy.dp.inner.name;
    if (axes_in_use(p) == PLAN_DP_AXES)
        text_addf(out, "%s x %s", outer, inner);
    else
        text_add(out, p->o.mesh.size[AXIS_DP_REPLICATE] > 1 ? outer : inner);
}

// "sharded", or with two axes in use "sharded over dp_replicate and dp_shard"; else `unsharded`.
static void print_layout(const plan *p, plan_layout l, const char *unsharded, text *out)
{
    const char *between = axes_in_use(p) == 1 ? NULL : " over ";
    text_add(out, l == LAYOUT_FULL ? unsharded : "sharded");
    for (int i = PLAN_DP_AXES - 1; between && i >= 0; i--) {
        if (!plan_layout_shards(l, PLAN_DP_AXIS[i].axis)) continue;
        text_addf(out, "%s%s", between, axis_name(PLAN_DP_AXIS[i].axis));
        between = " and ";
    }
}

static void print_summary(const plan *p, text *out)
{
    const char *full = axes_in_use(p) == 0 ? "full" : "replicated";
    text_add(out, "plan: ");
    print_policies(p, out);
    text_add(out, ": weights ");
    print_layout(p, p->weight, full, out);
    text_add(out, ", gradients ");
    print_layout(p, p->gradient,
                 p->o.micros > 1 ? "summed locally until the step" : "full until the step", out);
    text_add(out, ", optimizer state ");
    print_layout(p, p->optimizer, full, out);
    text_add(out, "\n");
}

// ---- Rows: when a collective runs, and which one

static void print_when(const char *when, text *out)
{
    text_addf(out, "  %-26s  ", when);
}

static void print_axis(const plan *p, int group, text *out)
{
    if (group == GROUP_POST_FORWARD)
        text_addf(out, "post-forward groups of %d ranks", p->o.strategy.reshard_after_forward);
    else
        text_add(out, axis_name((axis)group));
}

// "reduce-scatter gradients over dp_shard, all-reduce gradients over dp_replicate".
static void print_redistribution(const plan *p, const plan_redistribution *m, const char *what,
                                 text *out)
{
    for (int i = 0; i < m->count; i++) {
        text_addf(out, "%s%s %s over ", i ? ", " : "",
                  placement_collective_name(m->step[i].collective), what);
        print_axis(p, m->step[i].axis, out);
    }
}

static void print_row(const plan *p, const char *when, const plan_redistribution *m,
                      const char *what, text *out)
{
    if (m->count == 0) return;
    print_when(when, out);
    print_redistribution(p, m, what, out);
    text_add(out, "\n");
}

static bool has_tp_partial(const plan *p)
{
    for (int i = 0; i < p->local_rows; i++)
        if (p->row[p->order[i]].tp_partial) return true;
    return false;
}

// When collectives run, and over which ranks.
static void print_collectives(const plan *p, text *out)
{
    const char *const each = p->o.micros > 1 ? "each micro-batch" : "each step";
    const bool backward_too =
        p->o.strategy.reshard_after_forward != 0 && p->redistribute.unshard_post_forward.count == 0;
    print_row(p, backward_too ? "each forward and backward" : "each forward",
              &p->redistribute.unshard, "weights", out);
    print_row(p, "each backward", &p->redistribute.unshard_post_forward, "weights", out);
    print_row(p, each, &p->redistribute.reduce_micro_batch, "gradients", out);
    if (has_tp_partial(p)) {
        print_when(p->o.strategy.no_sync == NO_SYNC_TRUE ? "each step" : each, out);
        text_add(out, "all-reduce gradients of unsharded parameters over tp\n");
    }
    if (plan_ties_stages(p)) {
        print_when("each step", out);
        text_add(out, "all-reduce gradients of tied weights over the first and the last stage\n");
    }
    print_row(p, "each step", &p->redistribute.reduce_step, "gradients", out);
    print_row(p, "each step", &p->redistribute.all_gather_updated, "updated weights", out);
}

// "weights and gradients on the device; optimizer state in files".
static void print_memory(const plan *p, text *out)
{
    static const char *const state[PLAN_STATES] = {"weights", "gradients", "optimizer state"};
    static const char *const where[TIERS] = {
        "on the device", "on the host (on cpu ranks that is the device's own memory)", "in files"};
    bool any = false;
    print_when("memory", out);
    for (int tier = 0; tier < TIERS; tier++) {
        int left = 0, printed = 0;
        for (int s = 0; s < PLAN_STATES; s++)
            left += p->o.strategy.offload.tier[s] == (memory_tier)tier;
        if (left == 0) continue;
        text_add(out, any ? "; " : "");
        for (int s = 0; s < PLAN_STATES; s++) {
            if (p->o.strategy.offload.tier[s] != (memory_tier)tier) continue;
            left--;
            text_addf(out, "%s%s", printed++ == 0 ? "" : left ? ", " : " and ", state[s]);
        }
        text_addf(out, " %s", where[tier]);
        any = true;
    }
    text_add(out, "\n");
}

// The axes that are not data-parallel; print_policies names those that are.
static void print_other_axes(const plan *p, text *out)
{
    static const struct {
        axis axis;
        const char *what;
    } others[] = {{AXIS_PP, "pipeline stages"},
                  {AXIS_CP, "context-parallel ranks"},
                  {AXIS_TP, "tensor-parallel ranks"}};
    const char *between = "";
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        if (p->o.mesh.size[others[i].axis] == 1) continue;
        if (!*between) print_when("mesh", out);
        text_addf(out, "%s%d %s (%s)", between, p->o.mesh.size[others[i].axis], others[i].what,
                  axis_name(others[i].axis));
        between = ", ";
    }
    if (*between) text_add(out, "\n");
}

static void print_parameters(const plan *p, text *out)
{
    print_when("parameters", out);
    text_addf(out, "%d, ", p->rows);
    if (p->local_rows < p->rows) text_addf(out, "of which %d on this stage, ", p->local_rows);
    text_addf(out, "in %d bucket%s\n", p->buckets, p->buckets == 1 ? "" : "s");
    if (p->tied_grads == 0) return;
    print_when("tied weights", out);
    text_addf(out, "the two uses sum their %" PRId64 " gradients apart until the step\n",
              p->tied_grads);
}

// ---- Bytes

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

static void print_json_placements(const plan *p, text *out)
{
    const char *between = "";
    text_add(out, "\"placements\":{");
    // PLAN_DP_AXIS lists the inner axis first; the outer axis is printed first.
    for (int i = PLAN_DP_AXES - 1; i >= 0; i--) {
        const axis a = PLAN_DP_AXIS[i].axis;
        const policy *x = policy_of(&p->policy, a);
        if (p->o.mesh.size[a] == 1) continue;
        text_addf(out, "%s\"%s\":{\"weight\":\"%c\",\"gradient\":\"%c\",\"optimizer\":\"%c\"}",
                  between, axis_name(a), placement_letter(x->weight), placement_letter(x->gradient),
                  placement_letter(x->optimizer));
        between = ",";
    }
    text_add(out, "}");
}

static void print_json(const plan *p, text *out)
{
    text_add(out, "{\"policy\":\"");
    plan_print_policy(p, out);
    text_add(out, "\",");
    print_json_placements(p, out);
    text_add(out, ",\"mesh\":{");
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

void plan_print(const plan *p, bool json, text *out)
{
    if (json) {
        print_json(p, out);
        return;
    }
    print_summary(p, out);
    print_collectives(p, out);
    print_memory(p, out);
    print_other_axes(p, out);
    print_parameters(p, out);
    text_add(out, "  bytes per rank:\n");
    for (int c = 0; c < CATEGORIES; c++)
        print_bytes(plan_category_name((plan_category)c), p->bytes[c], out);
    print_bytes("total", plan_bytes(p), out);
    if (p->tier_bytes[TIER_FILE]) print_bytes("file", p->tier_bytes[TIER_FILE], out);
    print_traffic(p, out);
}
