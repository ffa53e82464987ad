// groups.c -- opens the process groups that the plan names, each once, and the streams. See groups.h. Called by
// trainer.c. Every file that communicates uses the groups.
#include "train/groups.h"

#include "base/alloc.h"
#include "comm/recorder.h"

#include <stdlib.h>
#include <string.h>

struct trainer_groups {
    // [TRAINER_GROUPS] NULL: this rank is in no such group. GROUP_WORLD is borrowed. GROUP_AGREE
    // may be the same communicator.
    comm *comm[TRAINER_GROUPS];
    char name[AXES_ALL + 1][MESH_NAME_BYTES]; // by process group
    device_stream *stream[STREAMS];
    // [stream] groups_order records it, and a later stream waits for it.
    device_event *order[STREAMS];
    device *device;
};

uint64_t groups_thread_bytes(const device *d, const comm *world)
{
    return world->can.own_thread ? (STREAMS - 1) * (uint64_t)d->own_thread_bytes : 0;
}

// A network's communicator waits while the compute stream could work, and the copy stream should not
// wait for it, either.
static status open_streams(trainer_groups *g, device *d, const comm *world, err *e)
{
    status result = OK;
    for (device_stream_kind k = 0; k < STREAMS; k++) {
        const bool own_thread = world->can.own_thread && k != STREAM_COMPUTE;
        TRY(d->ops->stream_open(d, k, own_thread, &g->stream[k], e));
        TRY(d->ops->event_open(d, &g->order[k], e));
    }
done:
    return result;
}

static bool has_tied_stage(const plan *p)
{
    return p->coord[AXIS_PP] == 0 || p->coord[AXIS_PP] == p->o.mesh.size[AXIS_PP] - 1;
}

// Ranks of equal color are a process group. `color` need only differ between groups of one split.
static status open_group(trainer_groups *g, const plan *p, int group, comm *world, err *e)
{
    const mesh *m = &p->o.mesh;
    const int index = plan_group_index(p, group);
    int color = mesh_group_first(m, p->coord, (mesh_axes)group);
    if (group == GROUP_POST_FORWARD || group == GROUP_SHARED) { // parts of the groups of some axes
        const mesh_axes over = group == GROUP_SHARED ? p->shared_over : p->kept_over;
        color = mesh_group_first(m, p->coord, over) * mesh_group_size(m, over) +
                mesh_group_index(m, p->coord, over) / plan_group_ranks(p, group);
    }
    if (group == GROUP_TIED) {
        // A stage between the first and the last one gets a group that contains only itself.
        color = has_tied_stage(p) ? mesh_group_first(m, p->coord, MESH_AXIS(AXIS_PP))
                                  : m->ranks + p->o.rank;
    }
    return comm_split(world, color, index, &g->comm[group], e);
}

// A second communicator of one axis, for messages that may overtake those of the first.
static status open_second(trainer_groups *g, const plan *p, axis a, comm *world, err *e)
{
    if (!(mesh_axes_in_use(&p->o.mesh, AXES_PASSES) & MESH_AXIS(a))) return OK;
    return comm_split(world, mesh_group_first(&p->o.mesh, p->coord, MESH_AXIS(a)), p->coord[a],
                      &g->comm[GROUP_PASSES + a], e);
}

// Does the order of sums over all ranks differ from that of the ranks?
static bool agrees_apart(const mesh *m)
{
    return m->size[AXIS_PP] > 1 && mesh_group_size(m, AXES_TOKENS) > 1;
}

static status open_agreement(trainer_groups *g, const plan *p, comm *world, err *e)
{
    const mesh *m = &p->o.mesh;
    const mesh_axes other = AXES_ALL & ~AXES_TOKENS;
    g->comm[GROUP_AGREE] = world;
    if (!agrees_apart(m)) return OK;
    // The stages of a pipeline stand next to each other, so that a sum over all ranks adds the
    // data-parallel summands in the same order as without a pipeline.
    return comm_split(world, 0,
                      mesh_group_index(m, p->coord, AXES_TOKENS) * mesh_group_size(m, other) +
                          mesh_group_index(m, p->coord, other),
                      &g->comm[GROUP_AGREE], e);
}

uint64_t groups_comm_bytes(const plan *p)
{
    const mesh *m = &p->o.mesh;
    int groups[PROCESS_GROUPS];
    const int count = plan_process_groups(p, groups);
    uint64_t comms = (m->ranks > 1) + agrees_apart(m); // the first is that of all ranks
    for (int i = 0; i < count; i++)
        comms +=
            plan_group_ranks(p, groups[i]) > 1 && (groups[i] != GROUP_TIED || has_tied_stage(p));
    for (int a = 0; a < AXES; a++) comms += mesh_group_size(m, AXES_PASSES & MESH_AXIS(a)) > 1;
    return comms * p->o.strategy.comm_bytes;
}

// Messages name a group by its axes, as torch.distributed does.
static void label_groups(trainer_groups *g, const mesh *m)
{
    static const char *const label[TRAINER_GROUPS] = {
        [GROUP_POST_FORWARD] = "the post-forward group",
        [GROUP_SHARED] = "the ranks that share key-value heads",
        [GROUP_TIED] = "the first and the last stage",
        [GROUP_AGREE] = "all ranks",
        [GROUP_WORLD] = "all ranks"};
    for (int k = 0; k < TRAINER_GROUPS; k++) {
        if (k <= AXES_ALL) mesh_group_name(m, (mesh_axes)k, g->name[k]);
        comm_set_label(g->comm[k], k <= AXES_ALL ? g->name[k] : label[k]);
    }
    for (int a = 0; a < AXES; a++) comm_set_label(g->comm[GROUP_PASSES + a], axis_name((axis)a));
}

// Every rank makes the same splits in the same order, also where its group has one rank.
status groups_open(const plan *p, device *d, comm *world, trainer_groups **out, err *e)
{
    status result = OK;
    trainer_groups *g = NULL;
    int groups[PROCESS_GROUPS];
    TRY(alloc_zeroed(&g, 1, sizeof *g, "the process groups", e));
    g->device = d;
    g->comm[GROUP_WORLD] = world;
    TRY(open_streams(g, d, world, e));
    const int count = plan_process_groups(p, groups);
    for (int i = 0; i < count; i++) TRY(open_group(g, p, groups[i], world, e));
    for (int a = 0; a < AXES; a++) TRY(open_second(g, p, (axis)a, world, e));
    TRY(open_agreement(g, p, world, e));
    label_groups(g, &p->o.mesh);
    *out = g;
    g = NULL;
done:
    groups_close(g);
    return result;
}

void groups_close(trainer_groups *g)
{
    if (!g) return;
    for (int k = 0; k < STREAMS; k++) g->device->ops->stream_close(g->stream[k]);
    for (int k = 0; k < STREAMS; k++) g->device->ops->event_close(g->order[k]);
    for (int k = 0; k < TRAINER_GROUPS; k++)
        if (g->comm[k] != g->comm[GROUP_WORLD]) comm_close(g->comm[k]);
    free(g);
}

comm *groups_comm(const trainer_groups *g, int group)
{
    return g->comm[group];
}

comm *const *groups_comms(const trainer_groups *g)
{
    return g->comm;
}

void groups_set_packing(const trainer_groups *g, const struct comm_packing *packing)
{
    for (int k = 0; k < TRAINER_GROUPS; k++)
        if (g->comm[k] != g->comm[GROUP_WORLD]) comm_set_packing(g->comm[k], packing);
}

// The bytes that this rank has sent over c.
static double sent_over(const comm *c)
{
    const comm_counts *n = c ? c->counts : NULL;
    double bytes = 0;
    for (int k = 0; n && k < CALL_KINDS; k++) bytes += n->kind[k].bytes;
    return bytes;
}

void groups_add_sent(const trainer_groups *g, double *sent)
{
    for (int k = 0; k < PROCESS_GROUPS; k++) sent[k] += sent_over(g->comm[k]);
    for (int a = 0; a < AXES; a++) sent[MESH_AXIS(a)] += sent_over(g->comm[GROUP_PASSES + a]);
    if (g->comm[GROUP_AGREE] != g->comm[GROUP_WORLD])
        sent[GROUP_WORLD] += sent_over(g->comm[GROUP_AGREE]);
}

device_stream *groups_stream(const trainer_groups *g, device_stream_kind k)
{
    return g->stream[k];
}

void groups_order(const trainer_groups *g, device_stream_kind before, device_stream_kind later)
{
    g->device->ops->record(g->order[before], g->stream[before]);
    g->device->ops->wait(g->stream[later], g->order[before]);
}

status groups_sync(const trainer_groups *g, err *e)
{
    status result = OK;
    for (int k = 0; k < STREAMS; k++) TRY(g->device->ops->sync(g->stream[k], e));
    comm_recorder_settle(g->comm[GROUP_WORLD]);
done:
    return result;
}
