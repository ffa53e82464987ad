// local_group.c -- places the state of a process group in the arena. See local_group.h. Called when a
// communicator opens, splits or closes. It knows no collective.
#include "comm/local/local_group.h"

#include "base/size.h"

status comm_group_open(comm_arena *a, int size, const int *world_ranks, comm_group **out, err *e)
{
    status result = OK;
    const size_t n = (size_t)size;
    const size_t members = size_align(sizeof(comm_group), 64);
    const size_t channels = members + n * sizeof(comm_member);
    const size_t ranks = channels + n * n * sizeof(comm_channel);
    const size_t staging = size_align(ranks + n * sizeof(int), 4096);
    void *memory = NULL;
    TRY(comm_arena_take(a, staging + n * 4 * STAGING_BYTES, false, &memory, e));
    comm_group *g = memory;
    g->members_left = size;
    g->size = size;
    g->members = (comm_member *)((char *)memory + members);
    g->channels = (comm_channel *)((char *)memory + channels);
    g->world_rank = (int *)((char *)memory + ranks);
    g->staging = (char *)memory + staging;
    for (int r = 0; r < size; r++) g->world_rank[r] = world_ranks ? world_ranks[r] : r;
    *out = g;
done:
    return result;
}

// Most channels of a large group are never used. Reading them would take their pages.
void comm_group_leave(comm_arena *a, comm_group *g)
{
    if (atomic_fetch_sub(&g->members_left, 1) != 1) return;
    for (int from = 0; from < g->size; from++)
        for (int to = 0; to < g->size && g->members[from].rings > 0; to++) {
            comm_channel *c = &g->channels[(size_t)from * (size_t)g->size + (size_t)to];
            if (!c->ring) continue;
            comm_arena_give(a, c->ring);
            g->members[from].rings--;
        }
    comm_arena_give(a, g);
}
