// tiers_host.c -- the host tier on a device with a memory of its own: state lies in arrays of the host's
// memory, and a bucket goes to a slot on the device and back by a copy. Called through TIERS_HOST. Events
// order the copies. The host waits for them only where its own processor updates the state. Where host
// and device are one memory nothing is swapped here: state on the host lies in the arrays of state.h.
#include "train/tiers/tiers_private.h"

// Bytes of the largest bucket that the host updates and whose weights are on the device.
static size_t rising_bytes(const plan *p)
{
    size_t most = 0;
    for (int k = 0; k < p->buckets; k++) {
        const plan_group *g = plan_group_of(p, k);
        const size_t bytes = plan_bucket_bytes(p, k, ARRAY_WEIGHTS);
        if (g->updates_on_host && !plan_is_swapped(g, PLAN_WEIGHTS) && bytes > most) most = bytes;
    }
    return most;
}

static status host_allocate(trainer *t, err *e)
{
    status result = OK;
    for (int i = 0; i < 2; i++)
        TRY(memory_take(t->memory, BYTES_BUFFERS, FROM_HOST, rising_bytes(t->plan),
                        &t->tiers->rising[i], e));
    for (int k = 0; k < PLAN_STATES; k++) {
        const size_t bytes = t->plan->swap_bytes[TIER_HOST][k];
        char **const array = &t->tiers->host[k];
        TRY(memory_take_planned(t->memory, FROM_HOST, bytes, array, e));
        if (*array) memset(*array, 0, bytes); // moments start as zeros
    }
done:
    return result;
}

static status host_open(trainer *t, plan_state what, text *note, err *e)
{
    status result = OK;
    device *host = t->o.host;
    trainer_tiers *x = t->tiers;
    (void)what, (void)note;
    if (!plan_updates_on_host(t->plan) || x->updates) return OK;
    if (!host || !host->is_host_memory)
        FAIL(E_INTERNAL, "the plan has updates on the host, and the trainer has no device there");
    TRY(host->ops->stream_open(host, STREAM_COMPUTE, false, &x->updates, e));
    TRY(trainer_ops(t)->event_open(t->o.device, &x->down, e));
    for (int i = 0; i < 2; i++) TRY(trainer_ops(t)->event_open(t->o.device, &x->risen[i], e));
done:
    return result;
}

// trainer_memory owns the arrays.
static void host_close(trainer *t)
{
    if (t->tiers->updates) t->o.host->ops->stream_close(t->tiers->updates);
    if (t->tiers->down) trainer_ops(t)->event_close(t->tiers->down);
    for (int i = 0; i < 2; i++)
        if (t->tiers->risen[i]) trainer_ops(t)->event_close(t->tiers->risen[i]);
}

static void host_count(const trainer *t, tier_counters *to)
{
    (void)t, (void)to; // a copy is not a transfer of a file
}

static status host_swap_in(trainer *t, const tiers_move *m, err *e)
{
    (void)e;
    device_stream *copy = trainer_stream(t, STREAM_COPY);
    trainer_wait(t, copy, &m->slot->freed);
    trainer_ops(t)->copy(copy, m->slot->ptr, t->tiers->host[m->what] + m->start, m->bytes);
    trainer_record(t, &m->slot->filled, copy);
    return OK;
}

static status host_swap_out(trainer *t, const tiers_move *m, err *e)
{
    (void)e;
    device_stream *copy = trainer_stream(t, STREAM_COPY);
    trainer_ops(t)->copy(copy, t->tiers->host[m->what] + m->start, m->slot->ptr, m->bytes);
    trainer_record(t, &m->slot->filled, copy);
    return OK;
}

static status host_await(trainer *t, plan_state what, trainer_slot *slot, device_stream_kind on,
                         err *e)
{
    (void)what, (void)e;
    trainer_wait(t, trainer_stream(t, on), &slot->filled);
    return OK;
}

// ---- Updates on the host

char *tiers_host_bucket(const trainer *t, plan_state what, int bucket)
{
    if (!plan_is_swapped(plan_group_of(t->plan, bucket), what)) return NULL;
    return t->tiers->host[what] + t->plan->bucket[bucket].swap_start[what];
}

char *tiers_take_weights(trainer *t, int bucket)
{
    trainer_tiers *x = t->tiers;
    x->turn = !x->turn;
    trainer_ops(t)->event_sync(x->risen[x->turn]);
    // Digests read the gaps between rows, too.
    memset(x->rising[x->turn], 0, plan_bucket_bytes(t->plan, bucket, ARRAY_WEIGHTS));
    return x->rising[x->turn];
}

void tiers_raise_weights(trainer *t, int bucket)
{
    trainer_tiers *x = t->tiers;
    device_stream *on = trainer_stream(t, STREAM_COMPUTE);
    trainer_ops(t)->copy(on, state_bucket(t, ARRAY_WEIGHTS, bucket), x->rising[x->turn],
                         plan_bucket_bytes(t->plan, bucket, ARRAY_WEIGHTS));
    trainer_ops(t)->record(x->risen[x->turn], on);
}

void tiers_await_host(trainer *t)
{
    // The copy stream brings gradients, the communication stream what all ranks agreed on.
    trainer_order(t, STREAM_COMM, STREAM_COPY);
    trainer_ops(t)->record(t->tiers->down, trainer_stream(t, STREAM_COPY));
    trainer_ops(t)->event_sync(t->tiers->down);
}

status tiers_launch_on_host(trainer *t, const kernel_call *c, err *e)
{
    device_launch(t->tiers->updates, c);
    return t->o.host->ops->sync(t->tiers->updates, e);
}

const tiers_functions TIERS_HOST = {.allocate = host_allocate,
                                    .open = host_open,
                                    .close = host_close,
                                    .count = host_count,
                                    .swap_in = host_swap_in,
                                    .swap_out = host_swap_out,
                                    .await = host_await};
