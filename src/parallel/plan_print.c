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

// ---- Parameter groups

// The job's own settings: the group of the parameters that no other group matches.
static const plan_group *own_group(const plan *p)
{
    return &p->group[p->groups - 1];
}

// Does the group, or one that it represents, have a parameter on some stage?
static bool has_parameters(const plan *p, int group)
{
    for (int i = 0; i < p->rows; i++)
        if (p->group[p->row[i].group].representative == group) return true;
    return false;
}

static int count_printed(const plan *p)
{
    int count = 0;
    for (int i = 0; i < p->groups; i++) count += has_parameters(p, i);
    return count;
}

// "plan: ", or with several groups "plan, group 1: "; groups that share their buckets are one.
static void print_group_numbers(const plan *p, int group, text *out)
{
    int printed = 0, count = 0;
    for (int i = 0; i < p->groups; i++) count += p->group[i].representative == group;
    text_add(out, "plan");
    for (int i = 0; i < p->groups && count_printed(p) > 1; i++) {
        if (p->group[i].representative != group) continue;
        text_addf(out, "%s%d",
                  printed++   ? ", "
                  : count > 1 ? ", groups "
                              : ", group ",
                  plan_group_entry(p, i));
    }
    text_add(out, ": ");
}

// How many of the two levels have several ranks.
static int levels_in_use(const plan_group *g)
{
    return (g->axes[LEVEL_INNER] != 0) + (g->axes[LEVEL_OUTER] != 0);
}

// "zero3 over dp_shard (2 ranks)"; with two levels "ddp over dp_replicate (2 ranks) x zero3 over …".
static void print_policies(const plan *p, const plan_group *g, text *out)
{
    const char *between = "";
    char name[MESH_NAME_BYTES];
    for (int l = POLICY_LEVELS - 1; l >= 0; l--) {
        if (!g->axes[l]) continue;
        text_addf(
            out, "%s%s over %s (%d ranks)", between, policies_at(&g->o.dp, (policy_level)l)->name,
            mesh_group_name(&p->o.mesh, g->axes[l], name), mesh_group_size(&p->o.mesh, g->axes[l]));
        between = " x ";
    }
    if (levels_in_use(g) == 0) text_add(out, "one data-parallel rank");
}

static void print_policy_names(const plan_group *g, text *out)
{
    const char *outer = g->o.dp.outer.name, *inner = g->o.dp.inner.name;
    if (levels_in_use(g) == POLICY_LEVELS)
        text_addf(out, "%s x %s", outer, inner);
    else
        text_add(out, g->axes[LEVEL_OUTER] ? outer : inner);
}

void plan_print_policy(const plan *p, text *out)
{
    print_policy_names(own_group(p), out);
}

// "sharded", or with two levels in use "sharded over dp_replicate and dp_shard"; else `unsharded`.
static void print_layout(const plan *p, const plan_group *g, plan_layout l, const char *unsharded,
                         text *out)
{
    const char *between = levels_in_use(g) == 1 ? NULL : " over ";
    char name[MESH_NAME_BYTES];
    text_add(out, l == LAYOUT_FULL || l == LAYOUT_PACKED ? unsharded : "sharded");
    for (int i = POLICY_LEVELS - 1; between && i >= 0; i--) {
        if (!plan_layout_shards(l, (policy_level)i)) continue;
        text_addf(out, "%s%s", between, mesh_group_name(&p->o.mesh, g->axes[i], name));
        between = " and ";
    }
}

static void print_summary(const plan *p, const plan_group *g, text *out)
{
    const char *full = levels_in_use(g) == 0 ? "full" : "replicated";
    print_policies(p, g, out);
    text_add(out, ": weights ");
    print_layout(p, g, g->weight, full, out);
    if (g->o.storage == STORAGE_NF4) text_add(out, " as NF4");
    if (g->o.frozen) {
        text_add(out, ", frozen: no gradients, no optimizer state\n");
        return;
    }
    text_add(out, ", gradients ");
    print_layout(p, g, g->gradient,
                 p->o.micros > 1 ? "summed locally until the step" : "full until the step", out);
    text_add(out, ", optimizer state ");
    print_layout(p, g, g->optimizer, full, out);
    text_add(out, "\n");
}

// ---- Rows: when a collective runs, and which one

static void print_when(const char *when, text *out)
{
    text_addf(out, "  %-26s  ", when);
}

static void print_ranks(const plan *p, int group, text *out)
{
    char name[MESH_NAME_BYTES];
    if (group == GROUP_POST_FORWARD)
        text_addf(out, "post-forward groups of %d ranks", p->o.strategy.reshard_after_forward);
    else
        text_add(out, mesh_group_name(&p->o.mesh, (mesh_axes)group, name));
}

// "reduce-scatter gradients over dp_shard, all-reduce gradients over dp_replicate".
static void print_redistribution(const plan *p, const plan_redistribution *m, const char *what,
                                 text *out)
{
    for (int i = 0; i < m->count; i++) {
        text_addf(out, "%s%s %s over ", i ? ", " : "",
                  placement_collective_name(m->step[i].collective), what);
        print_ranks(p, m->step[i].group, out);
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

// The axes beside its own over which the gradient of a row of this group and stage is summed.
static mesh_axes partial_over(const plan *p, int group)
{
    mesh_axes over = 0;
    for (int k = 0; k < p->local_rows; k++) {
        const plan_row *r = &p->row[p->order[k]];
        if (p->group[r->group].representative == group) over |= r->partial;
    }
    return over;
}

// Has the group heads of keys and values that several ranks of this stage share?
static bool shares_rows(const plan *p, int group)
{
    for (int k = 0; k < p->local_rows; k++) {
        const plan_row *r = &p->row[p->order[k]];
        if (r->shared < r->count && p->group[r->group].representative == group) return true;
    }
    return false;
}

// Has the group weights that the first and the last stage share?
static bool ties_stages(const plan *p, int group)
{
    for (int i = 0; i < p->rows; i++)
        if (p->row[i].tied && p->group[p->row[i].group].representative == group) return true;
    return false;
}

// When the collectives of gradients and updates run, and over which ranks.
static void print_gradient_collectives(const plan *p, int group, text *out)
{
    const plan_group *g = &p->group[group];
    const char *const each = p->o.micros > 1 ? "each micro-batch" : "each step";
    print_row(p, each, &g->redistribute.reduce_micro_batch, "gradients", out);
    const mesh_axes partial = partial_over(p, group);
    if (partial) {
        print_when(g->no_sync ? "each step" : each, out);
        text_add(out, "all-reduce gradients of unsharded parameters over ");
        print_ranks(p, (int)partial, out);
        text_add(out, "\n");
    }
    if (shares_rows(p, group)) {
        print_when(g->no_sync ? "each step" : each, out);
        text_addf(out, "all-reduce gradients of shared key-value heads over %d ranks of ",
                  p->shared_ranks);
        print_ranks(p, (int)p->shared_over, out);
        text_add(out, "\n");
    }
    if (ties_stages(p, group)) {
        print_when("each step", out);
        text_add(out, "all-reduce gradients of tied weights over the first and the last stage\n");
    }
    print_row(p, "each step", &g->redistribute.reduce_step, "gradients", out);
    print_row(p, "each step", &g->redistribute.all_gather_updated, "updated weights", out);
}

// Have all blocks of this stage that use the group no backward?
static bool only_in_forward(const plan *p, int group)
{
    for (int k = 0; k < p->local_rows; k++) {
        const plan_row *r = &p->row[p->order[k]];
        if (p->group[r->group].representative == group && r->last_block >= p->o.first_backward)
            return false;
    }
    return p->o.first_backward > 0;
}

static void print_collectives(const plan *p, int group, text *out)
{
    const plan_redistributions *r = &p->group[group].redistribute;
    const bool forward = only_in_forward(p, group),
               backward_too = !forward && p->o.strategy.reshard_after_forward != 0 &&
                              r->unshard_post_forward.count == 0;
    const char *const when = backward_too ? "each forward and backward" : "each forward";
    print_row(p, when, &r->unshard, "weights", out);
    if (r->unshard.layout == LAYOUT_PACKED) {
        print_when(when, out);
        text_addf(out, "unpack weights from NF4 to %s, block by block\n",
                  dtype_name(p->group[group].o.compute));
    }
    if (!forward) print_row(p, "each backward", &r->unshard_post_forward, "weights", out);
    if (!p->group[group].o.frozen) print_gradient_collectives(p, group, out);
}

// "weights and gradients on the device; optimizer state in files".
static void print_memory(const plan *p, const plan_group *g, text *out)
{
    static const char *const state[PLAN_STATES] = {"weights", "gradients", "optimizer state"};
    const bool apart = p->o.strategy.offload.host_is_apart;
    const int states = g->o.frozen ? PLAN_WEIGHTS + 1 : PLAN_STATES;
    bool any = false;
    print_when("memory", out);
    for (int tier = 0; tier < TIERS; tier++) {
        int left = 0, printed = 0;
        for (int s = 0; s < states; s++) left += g->o.tier[s] == (memory_tier)tier;
        if (left == 0) continue;
        text_add(out, any ? "; " : "");
        for (int s = 0; s < states; s++) {
            if (g->o.tier[s] != (memory_tier)tier) continue;
            left--;
            text_addf(out, "%s%s", printed++ == 0 ? "" : left ? ", " : " and ", state[s]);
        }
        text_addf(out, " %s", memory_tier_row_of((memory_tier)tier, apart)->where);
        any = true;
    }
    text_add(out, "\n");
    if (!g->updates_on_host) return;
    print_when("optimizer step", out);
    text_add(out, "on the host: gradients go down, updated weights come up\n");
}

static void print_groups(const plan *p, text *out)
{
    for (int i = 0; i < p->groups; i++) {
        if (!has_parameters(p, i)) continue;
        print_group_numbers(p, i, out);
        print_summary(p, &p->group[i], out);
        print_collectives(p, i, out);
        print_memory(p, &p->group[i], out);
    }
}

// The axes that are not data-parallel; print_policies names those that are.
static void print_other_axes(const plan *p, text *out)
{
    const char *between = "";
    for (int a = 0; a < AXES; a++) {
        if (p->o.mesh.size[a] == 1 || !axis_ranks((axis)a)) continue;
        if (!*between) print_when("mesh", out);
        text_addf(out, "%s%d %s (%s)", between, p->o.mesh.size[a], axis_ranks((axis)a),
                  axis_name((axis)a));
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

static void print_categories(const uint64_t bytes[CATEGORIES], uint64_t total, text *out)
{
    for (int c = 0; c < CATEGORIES; c++)
        print_bytes(plan_category_name((plan_category)c), bytes[c], out);
    print_bytes("total", total, out);
}

static void print_traffic(const plan *p, text *out)
{
    int group[PROCESS_GROUPS];
    char size[24], name[MESH_NAME_BYTES];
    const int count = traffic_groups(p->sent_bytes, group);
    text_bytes(size, traffic_total(p));
    text_addf(out, "  sent per step: %s", size);
    for (int i = 0; i < count; i++) {
        const double sent = p->sent_bytes[group[i]];
        if (sent == 0) continue;
        text_bytes(size, sent);
        text_addf(out, ", %s over %s", size, process_group_name(&p->o.mesh, group[i], name));
    }
    text_add(out, "\n");
}

// ---- JSON

static void print_json_policy(const plan_group *g, text *out)
{
    text_add(out, "\"policy\":\"");
    print_policy_names(g, out);
    text_add(out, "\"");
}

static void print_json_placements(const plan *p, const plan_group *g, text *out)
{
    const char *between = "";
    char name[MESH_NAME_BYTES];
    text_add(out, "\"placements\":{");
    for (int l = POLICY_LEVELS - 1; l >= 0; l--) {
        const policy *x = policies_at(&g->policy, (policy_level)l);
        if (!g->axes[l]) continue;
        text_addf(out, "%s\"%s\":{\"weight\":\"%c\",\"gradient\":\"%c\",\"optimizer\":\"%c\"}",
                  between, mesh_group_name(&p->o.mesh, g->axes[l], name),
                  placement_letter(x->weight), placement_letter(x->gradient),
                  placement_letter(x->optimizer));
        between = ",";
    }
    text_add(out, "}");
}

static void print_json_tiers(const plan_group *g, text *out)
{
    text_add(out, "\"tiers\":{");
    for (int t = 0; t < PLAN_STATES; t++)
        text_addf(out, "%s\"%s\":\"%s\"", t ? "," : "", plan_state_name((plan_state)t),
                  memory_tier_name(g->o.tier[t]));
    text_add(out, "}");
    if (g->updates_on_host) text_add(out, ",\"optimizer_step\":\"host\"");
}

static void print_json_groups(const plan *p, text *out)
{
    text_add(out, "\"groups\":[");
    for (int i = 0; i < p->groups; i++) {
        const plan_group *g = &p->group[i];
        text_addf(out, "%s{\"group\":%d,\"frozen\":%s,", i ? "," : "", plan_group_entry(p, i),
                  g->o.frozen ? "true" : "false");
        if (g->o.storage == STORAGE_NF4) text_add(out, "\"storage\":\"nf4\",");
        print_json_policy(g, out);
        text_add(out, ",");
        print_json_placements(p, g, out);
        text_add(out, ",");
        print_json_tiers(g, out);
        text_add(out, "}");
    }
    text_add(out, "],");
}

static void print_json_host(const plan *p, text *out)
{
    text_add(out, "\"host_bytes_per_rank\":{");
    for (int c = 0; c < CATEGORIES; c++)
        text_addf(out, "\"%s\":%" PRIu64 ",", plan_category_name((plan_category)c),
                  p->host_bytes[c]);
    text_addf(out, "\"total\":%" PRIu64 "},", plan_host_bytes(p));
}

// The members outside "groups" are those of the job's own settings.
static void print_json(const plan *p, text *out)
{
    int group[PROCESS_GROUPS];
    char name[MESH_NAME_BYTES];
    const int count = traffic_groups(p->sent_bytes, group);
    text_add(out, "{");
    print_json_policy(own_group(p), out);
    text_add(out, ",");
    print_json_placements(p, own_group(p), out);
    text_add(out, ",\"mesh\":{");
    for (int a = 0; a < AXES; a++)
        text_addf(out, "%s\"%s\":%d", a ? "," : "", axis_name((axis)a), p->o.mesh.size[a]);
    text_add(out, "},");
    if (p->groups > 1) print_json_groups(p, out);
    text_addf(out, "\"buckets\":%d,\"parameters_here\":%d,", p->buckets, p->local_rows);
    print_json_tiers(own_group(p), out);
    text_addf(out, ",\"file_bytes\":%" PRIu64 ",\"bytes_per_rank\":{", p->tier_bytes[TIER_FILE]);
    for (int c = 0; c < CATEGORIES; c++)
        text_addf(out, "\"%s\":%" PRIu64 ",", plan_category_name((plan_category)c), p->bytes[c]);
    text_addf(out, "\"total\":%" PRIu64 "},", plan_bytes(p));
    if (p->o.strategy.offload.host_is_apart) print_json_host(p, out);
    text_add(out, "\"sent_per_step\":{");
    for (int i = 0; i < count; i++)
        text_addf(out, "\"%s\":%.0f,", process_group_name(&p->o.mesh, group[i], name),
                  p->sent_bytes[group[i]]);
    text_addf(out, "\"total\":%.0f}}", traffic_total(p));
}

void plan_print(const plan *p, bool json, text *out)
{
    if (json) {
        print_json(p, out);
        return;
    }
    print_groups(p, out);
    print_other_axes(p, out);
    print_parameters(p, out);
    const bool apart = p->o.strategy.offload.host_is_apart;
    text_addf(out, "  bytes per rank%s:\n", apart ? ", of the device's memory" : "");
    print_categories(p->bytes, plan_bytes(p), out);
    if (apart) {
        text_add(out, "  bytes per rank, of the host's memory:\n");
        print_categories(p->host_bytes, plan_host_bytes(p), out);
    }
    if (p->tier_bytes[TIER_FILE]) print_bytes("file", p->tier_bytes[TIER_FILE], out);
    print_traffic(p, out);
}
