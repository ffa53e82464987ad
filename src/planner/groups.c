// groups.c -- counts the hosts of a process group and its neighbours: it walks over the ranks of the group and those of
// one host. See groups.h.
#include "planner/groups.h"

// The ranks of a group are those at the indices first … first+count-1 of the process group `over`, in ascending order.
// Of the tied group they are the first and the last of them.
typedef struct planner_members {
    const mesh *mesh;
    int first_rank; // at index 0 of `over`
    mesh_axes over;
    int first, count;
    bool ends; // the tied group
} planner_members;

static int member_rank(const planner_members *m, int member)
{
    int index = m->ends ? member * (mesh_group_size(m->mesh, m->over) - 1) : m->first + member;
    int coord[AXES];
    mesh_coords(m->mesh, m->first_rank, coord);
    for (int a = AXES - 1; a >= 0; a--) {
        if (!(m->over & MESH_AXIS(a))) continue;
        coord[a] = index % m->mesh->size[a];
        index /= m->mesh->size[a];
    }
    return mesh_rank(m->mesh, coord);
}

// The axes whose process groups these groups divide.
static mesh_axes axes_of(const plan *p, int process_group)
{
    switch (process_group) {
    case GROUP_WORLD:
        return AXES_ALL;
    case GROUP_TIED:
        return MESH_AXIS(AXIS_PP);
    case GROUP_POST_FORWARD:
        return p->kept_over;
    case GROUP_SHARED:
        return p->shared_over;
    default:
        return (mesh_axes)process_group;
    }
}

// The members of the group that `rank` is in. *index receives its number among them; -1: it is in no such group.
static planner_members members_of(const plan *p, int process_group, int rank, int *index)
{
    const mesh *m = &p->o.mesh;
    const int ranks = plan_group_ranks(p, process_group);
    int coord[AXES];
    planner_members out = {.mesh = m,
                           .over = axes_of(p, process_group),
                           .count = ranks,
                           .ends = process_group == GROUP_TIED};
    mesh_coords(m, rank, coord);
    const int within = mesh_group_index(m, coord, out.over);
    out.first_rank = mesh_group_first(m, coord, out.over);
    *index = within % ranks;
    out.first = within - *index;
    if (!out.ends) return out;
    out.first = 0;
    *index = within == 0 ? 0 : within == m->size[AXIS_PP] - 1 ? 1 : -1;
    return out;
}

static int most(int a, int b)
{
    return a > b ? a : b;
}

// The ranks are `step` apart, which divides the ranks of a host: all hosts between the first and the last have as many.
static void count_even_hosts(int first, int last, int step, int ranks_per_host, planner_group *out)
{
    const int each = ranks_per_host / step, at_first = first % ranks_per_host,
              at_last = last % ranks_per_host;
    out->hosts = last / ranks_per_host - first / ranks_per_host + 1;
    out->per_host = out->hosts == 1 ? out->ranks
                    : out->hosts > 2
                        ? each
                        : most((ranks_per_host - at_first + step - 1) / step, at_last / step + 1);
}

// Counts hosts, and the ranks on the host that has most of them.
static void walk_hosts(const planner_members *m, int ranks_per_host, planner_group *out)
{
    int host = -1, here = 0;
    for (int i = 0; i < m->count; i++) {
        const int next = member_rank(m, i) / ranks_per_host;
        here = next == host ? here + 1 : 1;
        out->hosts += next != host;
        out->per_host = most(out->per_host, here);
        host = next;
    }
}

// Most groups are of adjacent axes, whose ranks are equally far apart: a search asks for very many of them.
static void count_hosts(const planner_members *m, int ranks_per_host, planner_group *out)
{
    const int first = member_rank(m, 0), last = member_rank(m, m->count - 1),
              step = m->count > 1 ? member_rank(m, 1) - first : 1;
    const bool is_even = last - first == (m->count - 1) * step;
    if (is_even && ranks_per_host % step == 0)
        count_even_hosts(first, last, step, ranks_per_host, out);
    else if (is_even && step >= ranks_per_host)
        out->hosts = m->count, out->per_host = 1;
    else
        walk_hosts(m, ranks_per_host, out);
}

// Groups with a rank on the host. Each is counted at its first rank there.
static int count_neighbours(const plan *p, int process_group, int host, int ranks_per_host)
{
    int groups = 0;
    const int begin = host * ranks_per_host;
    for (int r = begin; r < begin + ranks_per_host && r < p->o.mesh.ranks; r++) {
        int index;
        const planner_members m = members_of(p, process_group, r, &index);
        groups += index == 0 || (index > 0 && member_rank(&m, index - 1) < begin);
    }
    return groups;
}

planner_group planner_group_of(const plan *p, int process_group, int ranks_per_host)
{
    int index;
    const int each = ranks_per_host ? ranks_per_host : p->o.mesh.ranks;
    const planner_members m = members_of(p, process_group, p->o.rank, &index);
    const int rank = index < 0 ? member_rank(&m, 0) : p->o.rank;
    planner_group out = {.ranks = m.count};
    count_hosts(&m, each, &out);
    out.neighbours = count_neighbours(p, process_group, rank / each, each);
    return out;
}

const planner_group *planner_groups_find(planner_groups *known, const plan *p, int process_group,
                                         int ranks_per_host)
{
    planner_group *g = &known->item[process_group];
    if (g->ranks == 0) *g = planner_group_of(p, process_group, ranks_per_host);
    return g;
}

// Each rank of a stage has its own peer, and all of them exchange messages at the same time.
planner_group planner_message_of(const plan *p, int peer, int ranks_per_host)
{
    const mesh *m = &p->o.mesh;
    const int each = ranks_per_host ? ranks_per_host : m->ranks;
    int coord[AXES];
    mesh_coords(m, p->o.rank, coord);
    const int stage = coord[AXIS_PP], host = p->o.rank / each;
    coord[AXIS_PP] = peer;
    planner_group out = {.ranks = 2};
    out.hosts = mesh_rank(m, coord) / each == host ? 1 : 2;
    out.per_host = 3 - out.hosts;
    for (int r = host * each; r < (host + 1) * each && r < m->ranks; r++)
        out.neighbours += mesh_coord(m, r, AXIS_PP) == stage;
    return out;
}
