// workspace.c -- see workspace.h. Called by trainer.c, step_update.c and nonfinite.c.
#include "train/workspace.h"

#include "train/trainer_private.h"

struct trainer_workspace {
    void *ptr;
    size_t bytes;
};

static size_t need(const trainer *t, int64_t count, const kernel_segment *segment, int64_t segments)
{
    const kernel_call c = {
        .kind = K_SUM_SQUARES,
        .u.sum_squares = {.count = count, .type = F32, .segment = segment, .segments = segments}};
    return kernel_workspace_bytes(t->o.place.needs, &c);
}

// No run of a bucket has more elements than the bucket, or more segments than it has rows.
static size_t most_bytes(const trainer *t)
{
    const plan *p = t->plan;
    const kernel_segment any = {0};
    size_t most = 0;
    for (int b = 0; b < p->buckets; b++) {
        const plan_bucket *x = &p->bucket[b];
        const size_t run = need(t, x->count[LAYOUT_FULL], &any, x->rows);
        if (run > most) most = run;
    }
    for (int i = 0; i < p->local_rows; i++) { // nonfinite.c takes parameters one by one
        const size_t row = need(t, p->row[p->order[i]].count, NULL, 0);
        if (row > most) most = row;
    }
    return most;
}

status workspace_allocate(trainer *t, err *e)
{
    status result = OK;
    TRY(trainer_object(&t->workspace, sizeof *t->workspace, e));
    t->workspace->bytes = most_bytes(t);
    TRY(memory_take(t->memory, BYTES_KERNELS, FROM_DEVICE, t->workspace->bytes, &t->workspace->ptr,
                    e));
done:
    return result;
}

void workspace_close(trainer *t)
{
    free(t->workspace);
}

void workspace_launch_squares(trainer *t, device_stream *on, const kernel_sum_squares_args *a)
{
    const kernel_call c = {.kind = K_SUM_SQUARES,
                           .u.sum_squares = *a,
                           .workspace = t->workspace->ptr,
                           .workspace_bytes = t->workspace->bytes};
    device_launch(on, &c);
}

int64_t workspace_most_squares(const trainer *t, int64_t count)
{
    while (count > 1 && need(t, count, NULL, 0) > t->workspace->bytes) count /= 2;
    return count;
}
