// metrics_calls.c -- collectives and messages as NCCL Inspector exports them: bus bandwidth and duration of each kind, by
// process group and size of message. The values are means over the last complete window of time.
#include "monitor/metrics/metrics_private.h"

#include <stdio.h>
#include <string.h>

// So many kinds of calls of a rank are exported, each with two samples; the others are left out.
enum { MOST_KINDS = 40 };
static const int64_t WINDOW_NS = INT64_C(15) * 1000000000;

void metrics_turn_window(metrics_rank *r, const spans *s, int64_t now_ns)
{
    if (r->window_ns != INT64_MIN && now_ns - r->window_ns < WINDOW_NS) return;
    const bool is_first = r->window_ns == INT64_MIN;
    r->window_ns = now_ns;
    for (uint32_t i = 0; i < r->rows && !is_first; i++) {
        const spans_row *now = &s->rows[i];
        metrics_row *x = &r->row[i];
        if (now->count > x->count)
            *x = (metrics_row){.last_count = now->count - x->count,
                               .last_sum_ns = now->sum_ns - x->sum_ns,
                               .last_waited_ns = now->waited_ns - x->waited_ns};
        x->count = now->count;
        x->sum_ns = now->sum_ns;
        x->waited_ns = now->waited_ns;
    }
}

// One kind of call of a rank.
typedef struct call_kind {
    const spans_row *row; // the first one of the kind
    double count, sum_ns, waited_ns, bytes;
    char size[48];
} call_kind;

// Names of NCCL, and the share of a message's bytes that a link carries, as nccl-tests defines it.
static const struct {
    const char *ours, *theirs;
    double factor, of_others; // factor + of_others (n - 1) / n
} CALLS[] = {
    {"all_reduce", "AllReduce", 0, 2},
    {"reduce_scatter", "ReduceScatter", 0, 1},
    {"all_gather", "AllGather", 0, 1},
    {"broadcast", "Broadcast", 1, 0},
    {"all_to_all", "AlltoAll", 0, 1},
    {"gather", "Gather", 0, 1},
    {"scatter", "Scatter", 0, 1},
    {"send", "Send", 1, 0},
    {"recv", "Recv", 1, 0},
};

static int find_call(const char *name)
{
    for (int i = 0; i < (int)(sizeof CALLS / sizeof *CALLS); i++)
        if (strcmp(CALLS[i].ours, name) == 0) return i;
    return -1;
}

// "134-135MB": the message has at least the first and less than the second number of units of a power of 1,000.
static void name_size(uint64_t bytes, char out[48])
{
    static const char *const units[] = {"B", "KB", "MB", "GB", "TB"};
    uint64_t whole = bytes;
    int unit = 0;
    while (whole >= 1000 && unit < 4) {
        whole /= 1000;
        unit++;
    }
    (void)snprintf(out, 48, "%llu-%llu%s", (unsigned long long)whole, (unsigned long long)whole + 1,
                   units[unit]);
}

static bool is_kind(const call_kind *k, const spans_row *row, const char *size)
{
    return strcmp(k->row->name, row->name) == 0 && strcmp(k->row->group, row->group) == 0 &&
           strcmp(k->size, size) == 0;
}

static void add_row(call_kind *k, const spans_row *row, const metrics_row *x)
{
    const bool has_window = x->last_count > 0;
    const double count = (double)(has_window ? x->last_count : row->count);
    k->count += count;
    k->sum_ns += (double)(has_window ? x->last_sum_ns : row->sum_ns);
    k->waited_ns += (double)(has_window ? x->last_waited_ns : row->waited_ns);
    k->bytes += count * (double)row->bytes;
}

static int list_kinds(const metrics_rank *r, const spans *s, call_kind kinds[MOST_KINDS])
{
    int count = 0;
    for (uint32_t i = 0; i < r->rows; i++) {
        const spans_row *row = &s->rows[i];
        char size[48];
        if (row->kind != SPANS_CALL || !row->count || find_call(row->name) < 0) continue;
        name_size(row->bytes, size);
        int k = 0;
        while (k < count && !is_kind(&kinds[k], row, size)) k++;
        if (k == MOST_KINDS) continue;
        if (k == count) {
            kinds[count] = (call_kind){.row = row};
            memcpy(kinds[count++].size, size, sizeof size);
        }
        add_row(&kinds[k], row, &r->row[i]);
    }
    return count;
}

// The ranks of the group that rank `rank` is in, and the hosts that they are on.
typedef struct call_group {
    int ranks, hosts;
} call_group;

// A mesh that the log does not say, or that cannot be, is one rank.
static mesh mesh_of(const run_view *v)
{
    int size[AXES] = {0};
    int64_t ranks = 1;
    const json_t *axes = json_object_get(v->start, "mesh");
    for (int a = 0; a < AXES; a++) {
        const json_int_t given = json_integer_value(json_object_get(axes, axis_name((axis)a)));
        if (given < 0 || given > MESH_RANKS / ranks) return mesh_of_sizes((int[AXES]){0});
        size[a] = (int)given;
        ranks *= given > 1 ? given : 1;
    }
    return mesh_of_sizes(size);
}

static mesh_axes axes_of(const mesh *m, const char *group)
{
    char name[MESH_NAME_BYTES];
    for (mesh_axes x = 0; x <= AXES_ALL; x++)
        if (mesh_axes_in_use(m, x) == x && strcmp(mesh_group_name(m, x, name), group) == 0)
            return x;
    return AXES_ALL;
}

// The group `tied` is the first and the last stage. Other groups that are no axes of the mesh, such as the world, count as
// all ranks.
static call_group group_of(const run_view *v, const mesh *m, int rank, const char *name)
{
    call_group g = {.ranks = v->ranks, .hosts = 0};
    int own[AXES], other[AXES];
    const bool is_tied = strcmp(name, "tied") == 0;
    const mesh_axes axes = is_tied ? MESH_AXIS(AXIS_PP) : axes_of(m, name);
    const char *before = NULL;
    if (m->ranks != v->ranks) return (call_group){v->ranks, 1};
    mesh_coords(m, rank, own);
    g.ranks = is_tied ? 2 : mesh_group_size(m, axes);
    for (int r = 0; r < v->ranks; r++) {
        bool inside = v->rank[r] != NULL;
        mesh_coords(m, r, other);
        for (int a = 0; a < AXES; a++)
            inside = inside && (axes & MESH_AXIS(a) || own[a] == other[a]);
        if (!inside || (before && strcmp(before, v->rank[r]->head->host) == 0)) continue;
        before = v->rank[r]->head->host; // ranks of a host are neighbours
        g.hosts++;
    }
    return g;
}

static void label_kind(const metrics_writer *w, int rank, const call_kind *k, const call_group *g,
                       text *out)
{
    char number[24];
    const spans_head *h = w->m->view->rank[rank]->head;
    const bool is_message = k->row->peer >= 0;
    metrics_add_label(out, "slurm_job_id", w->m->o.job_id ? w->m->o.job_id : "unknown");
    metrics_add_label(out, "node", h->host);
    (void)snprintf(number, sizeof number, "GPU%d", h->local_rank);
    metrics_add_label(out, "gpu", number);
    metrics_add_label(out, "comm_name", k->row->group);
    (void)snprintf(number, sizeof number, "%d", g->hosts ? g->hosts : 1);
    metrics_add_label(out, "n_nodes", number);
    (void)snprintf(number, sizeof number, "%d", g->ranks);
    metrics_add_label(out, "nranks", number);
    metrics_add_label(out, is_message ? "p2p_operation" : "collective",
                      CALLS[find_call(k->row->name)].theirs);
    metrics_add_label(out, "message_size", k->size);
    if (!is_message) metrics_add_label(out, "algo_proto", "unknown");
}

static double value_of(metric what, const call_kind *k, const call_group *g)
{
    const int c = find_call(k->row->name);
    const double n = g->ranks > 0 ? g->ranks : 1, busy_ns = k->sum_ns - k->waited_ns;
    if (what == METRIC_COLLECTIVE_TIME || what == METRIC_MESSAGE_TIME)
        return k->sum_ns / k->count * 1e-3;
    const double share = CALLS[c].factor + CALLS[c].of_others * (n - 1) / n;
    return busy_ns > 0 ? k->bytes * share / busy_ns : 0; // bytes a nanosecond are GB/s
}

static void write_rank(metrics_writer *w, const mesh *m, metric what, int rank)
{
    call_kind kinds[MOST_KINDS];
    const run_view *v = w->m->view;
    const bool of_messages = what == METRIC_MESSAGE_BANDWIDTH || what == METRIC_MESSAGE_TIME;
    if (!v->rank[rank] || !metrics_has_rank(w->m, rank)) return;
    const int count = list_kinds(&w->m->rank[rank], v->rank[rank], kinds);
    for (int i = 0; i < count; i++) {
        text labels = {0};
        if ((kinds[i].row->peer >= 0) != of_messages) continue;
        const call_group g = group_of(v, m, rank, kinds[i].row->group);
        metrics_label_rank(w->m, rank, &labels);
        label_kind(w, rank, &kinds[i], &g, &labels);
        if (labels.failed) text_fail(w->out);
        metrics_add(w, what, "", labels.chars, value_of(what, &kinds[i], &g));
        text_clear(&labels);
    }
}

void metrics_write_calls(metrics_writer *w)
{
    const mesh m = mesh_of(w->m->view);
    for (int what = METRIC_COLLECTIVE_BANDWIDTH; what <= METRIC_MESSAGE_TIME; what++)
        for (int r = 0; r < w->m->ranks; r++) write_rank(w, &m, (metric)what, r);
}
