// groups.c -- splits all ranks into process groups, and opens the streams. See groups.h. Called by
// trainer.c. Every file that communicates uses the groups.
#include "train/groups.h"

#include "base/alloc.h"
#include "comm/trace.h"

#include <stdlib.h>
#include <string.h>

struct trainer_groups {
    // [TRAINER_GROUPS] NULL: this rank is in no such group. GROUP_WORLD is borrowed. GROUP_AGREE
    // may be the same communicator.
    comm *comm[TRAINER_GROUPS];
    device_stream *stream[STREAMS];
    // [stream] groups_order records it, and a later stream waits for it.
    device_event *order[STREAMS];
    device *device;
};

static status open_streams(trainer_groups *g, device *d, err *e)
{
    status result = OK;
    for (int k = 0; k < STREAMS; k++) {
        TRY(d->ops->stream_open(d, (device_stream_kind)k, &g->stream[k], e));
        TRY(d->ops->event_open(d, &g->order[k], e));
    }
done:
    return result;
}

// A number that all ranks share which differ from this one only on axis a.
static int color_of(const plan *p, axis a)
{
    int coord[AXES];
    memcpy(coord, p->coord, sizeof coord);
    coord[a] = 0;
    return mesh_rank(&p->o.mesh, coord);
}

static status open_axes(trainer_groups *g, const plan *p, comm *world, err *e)
{
    status result = OK;
    const int *size = p->o.mesh.size, *coord = p->coord;
    for (int a = 0; a < AXES; a++)
        if (size[a] > 1) TRY(comm_split(world, color_of(p, (axis)a), coord[a], &g->comm[a], e));
    if (p->keeps_post_forward_shards) {
        const int within = coord[AXIS_DP_SHARD] % p->o.strategy.reshard_after_forward;
        TRY(comm_split(world, p->o.rank - within * size[AXIS_CP] * size[AXIS_TP],
                       coord[AXIS_DP_SHARD], &g->comm[GROUP_POST_FORWARD], e));
    }
done:
    return result;
}

static status open_stages(trainer_groups *g, const plan *p, comm *world, err *e)
{
    status result = OK;
    const int stage = p->coord[AXIS_PP], stages = p->o.mesh.size[AXIS_PP];
    if (stages > 1)
        TRY(comm_split(world, color_of(p, AXIS_PP), stage, &g->comm[GROUP_PP_GRADS], e));
    if (plan_ties_stages(p)) {
        // A stage between the first and the last one gets a group that contains only itself.
        const bool ties = stage == 0 || stage == stages - 1;
        const int color = ties ? color_of(p, AXIS_PP) : p->o.mesh.ranks + p->o.rank;
        TRY(comm_split(world, color, stage, &g->comm[GROUP_TIED], e));
    }
done:
    return result;
}

static status open_data_parallel(trainer_groups *g, const plan *p, comm *world, err *e)
{
    status result = OK;
    const int *size = p->o.mesh.size, *coord = p->coord;
    const int data_rank = mesh_data_rank(&p->o.mesh, p->o.rank);
    const int within = coord[AXIS_PP] * size[AXIS_TP] + coord[AXIS_TP];
    if (mesh_data_ranks(&p->o.mesh) > 1)
        TRY(comm_split(world, within, data_rank, &g->comm[GROUP_DP], e));
    // The stages of a pipeline stand next to each other, so that a sum over all ranks adds the
    // data-parallel summands in the same order as without a pipeline.
    if (g->comm[GROUP_DP] && size[AXIS_PP] > 1)
        TRY(comm_split(world, 0, data_rank * size[AXIS_PP] * size[AXIS_TP] + within,
                       &g->comm[GROUP_AGREE], e));
    else
        g->comm[GROUP_AGREE] = world;
done:
    return result;
}

// Messages name a group by its axes, as torch.distributed does.
static void label_groups(trainer_groups *g)
{
    static const char *const label[TRAINER_GROUPS] = {[GROUP_POST_FORWARD] =
                                                          "the post-forward group",
                                                      [GROUP_TIED] = "the first and the last stage",
                                                      [GROUP_DP] = "dp",
                                                      [GROUP_PP_GRADS] = "pp",
                                                      [GROUP_AGREE] = "all ranks",
                                                      [GROUP_WORLD] = "all ranks"};
    for (int k = 0; k < TRAINER_GROUPS; k++)
        comm_set_label(g->comm[k], k < AXES ? axis_name((axis)k) : label[k]);
}

// Every rank makes the same splits in the same order, also where its group has one rank.
status groups_open(const plan *p, device *d, comm *world, trainer_groups **out, err *e)
{
    status result = OK;
    trainer_groups *g = NULL;
    TRY(alloc_zeroed(&g, 1, sizeof *g, "the process groups", e));
    g->device = d;
    g->comm[GROUP_WORLD] = world;
    TRY(open_streams(g, d, e));
    TRY(open_axes(g, p, world, e));
    TRY(open_stages(g, p, world, e));
    TRY(open_data_parallel(g, p, world, e));
    label_groups(g);
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

// The bytes that this rank has sent over c. Received messages do not count: their sender counts
// them.
static double sent_over(const comm *c)
{
    const trace_counts *n = c ? trace_comm_counts(c) : NULL;
    double bytes = 0;
    for (int k = 0; n && k < TRACE_KINDS; k++)
        if (k != TRACE_RECV) bytes += n->kind[k].bytes;
    return bytes;
}

void groups_add_sent(const trainer_groups *g, double *sent)
{
    for (int k = 0; k < PROCESS_GROUPS; k++) sent[k] += sent_over(g->comm[k]);
    sent[AXIS_PP] += sent_over(g->comm[GROUP_PP_GRADS]);
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
done:
    return result;
}
