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

// Counts hosts, and the ranks on the host that has most of them.
static void count_hosts(const planner_members *m, int ranks_per_host, planner_group *out)
{
    int host = -1, here = 0;
    for (int i = 0; i < m->count; i++) {
        const int next = member_rank(m, i) / ranks_per_host;
        here = next == host ? here + 1 : 1;
        out->hosts += next != host;
        if (here > out->per_host) out->per_host = here;
        host = next;
    }
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
