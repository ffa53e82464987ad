// clip.c -- the all-reduce before the optimizer step. See clip.h. Called by train/. Does not know
// gradients: train/ sums their squares.
#include "optim/clip.h"

#include "device/kernels.h"

void clip_share(const plan *p, const plan_group *g, int *index, int *shares)
{
    *index = 0, *shares = 1;
    for (int l = POLICY_LEVELS - 1; l >= 0; l--) {
        const int ranks = mesh_group_size(&p->o.mesh, g->axes[l]);
        // The ranks of a sharded level hold different shards; each sums all of its own.
        if (plan_layout_shards(g->optimizer, (policy_level)l)) continue;
        *index = *index * ranks + mesh_group_index(&p->o.mesh, p->coord, g->axes[l]);
        *shares *= ranks;
    }
}

status clip_agree(comm *c, device_stream *on, kernel_step *step, int sums, double max_norm,
                  comm_visit *visit, err *e)
{
    status result = OK;
    kernel_call call = {.kind = K_CLIP};
    const comm_call sum = {.kind = CALL_ALL_REDUCE,
                           .type = F64,
                           .op = REDUCE_SUM,
                           .count = (size_t)sums,
                           .in = step->sums,
                           .out = step->sums,
                           .visit = visit};
    TRY(comm_issue(c, &sum, on, e));
    call.u.clip = (kernel_clip_args){.step = step, .max_norm = max_norm};
    device_launch(on, &call);
done:
    return result;
}
