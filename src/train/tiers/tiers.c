// tiers.c -- moves buckets between slots and the tiers on which their state lies. See tiers.h. Called by
// trainer.c, through the table in step.c, and by the files that read or write state between steps. The
// plan says which state is swapped. How a tier moves bytes is in its own file (tiers_private.h).
#include "train/tiers/tiers_private.h"

#include "base/file.h"

// A tier without functions is never swapped.
static const tiers_functions *const TIER[TIERS] = {
    [TIER_HOST] = &TIERS_HOST, [TIER_FILE] = &TIERS_FILE};

// ---- Opening

status tiers_allocate(trainer *t, err *e)
{
    status result = OK;
    TRY(trainer_object(&t->tiers, sizeof *t->tiers, e));
    for (int i = 0; i < TIERS; i++)
        if (TIER[i]) TRY(TIER[i]->allocate(t, e));
done:
    return result;
}

// Makes the folder if there is none. Rank 0 goes first, because only its notes are printed. All ranks
// meet here, also one that has nothing in files because its stage is frozen.
static status make_folder(trainer *t, text *note, err *e)
{
    status result = OK;
    const char *path = t->o.strategy.offload.path;
    bool any = false;
    for (int k = 0; k < PLAN_STATES; k++)
        any = any || plan_any_on_tier(t->plan, (plan_state)k, TIER_FILE);
    if (!any) return OK;
    if (t->o.comm->rank == 0 && !file_is_directory(path)) {
        TRY(file_make_directories(path, e));
        text_addf(note, "parallel.offload.path: created the folder %s", path);
    }
    TRY(comm_barrier(t->o.comm, e));
    TRY(file_make_directories(path, e)); // rank 0 may be on another machine
done:
    if (result != OK) err_prefix(e, "parallel.offload.path: ");
    return result;
}

static void add_warning(const trainer *t, plan_state what, memory_tier on, text *note)
{
    const bool apart = t->o.strategy.offload.host_is_apart;
    const char *warning = memory_tier_row_of(on, apart)->warning;
    if (!warning || !plan_any_on_tier(t->plan, what, on)) return;
    text_addf(note, "%s%s on %s: %s", note->bytes ? "; " : "", plan_state_name(what),
              memory_tier_name(on), warning);
}

status tiers_open(trainer *t, text *note, err *e)
{
    status result = OK;
    TRY(make_folder(t, note, e));
    for (int k = 0; k < PLAN_STATES; k++)
        for (int i = 0; i < TIERS; i++) {
            add_warning(t, (plan_state)k, (memory_tier)i, note);
            if (t->plan->swap_bytes[i][k] > 0) TRY(TIER[i]->open(t, (plan_state)k, note, e));
        }
done:
    return result;
}

void tiers_close(trainer *t)
{
    for (int i = 0; t->tiers && i < TIERS; i++)
        if (TIER[i]) TIER[i]->close(t);
    free(t->tiers);
}

void tiers_count(const trainer *t, tier_counters *to)
{
    for (int i = 0; i < TIERS; i++)
        if (TIER[i]) TIER[i]->count(t, to);
}

size_t tiers_element_bytes(const trainer *t, plan_state what)
{
    size_t most = 0;
    for (int i = 0; i < t->plan->groups; i++) {
        const plan_group *g = &t->plan->group[i];
        size_t bytes = 0;
        for (int a = 0; a < PLAN_ARRAYS; a++)
            if (a != ARRAY_POST_FORWARD && plan_array_state((plan_array)a) == what &&
                plan_group_has(g, (plan_array)a))
                bytes += dtype_bytes(plan_array_type(g, (plan_array)a));
        if (plan_is_swapped(g, what) && bytes > most) most = bytes;
    }
    return most;
}

// ---- Transfers

static const tiers_functions *tier_of(const trainer *t, const tiers_move *m)
{
    return TIER[plan_group_of(t->plan, m->bucket)->o.tier[m->what]];
}

// A bucket between steps, or reduced within a step. Gradients are then this rank's shards only.
static tiers_move shard_move(const trainer *t, plan_state what, int bucket, int slot)
{
    const plan_layout l = plan_group_of(t->plan, bucket)->optimizer;
    const plan_bucket *b = &t->plan->bucket[bucket];
    return (tiers_move){.what = what,
                        .bucket = bucket,
                        .slot = slots_state(t, what, slot),
                        .start = b->swap_start[what],
                        .bytes = what == PLAN_GRADIENTS
                                     ? (size_t)b->count[l] * sizeof(float)
                                     : plan_bucket_swap_bytes(t->plan, bucket, what)};
}

static tiers_move move_of(const trainer *t, const schedule_instr *x)
{
    if (!x->full) return shard_move(t, x->what, x->index, x->slot);
    return (tiers_move){.what = x->what,
                        .bucket = x->index,
                        .slot = slots_gradient(t, x->slot),
                        .start = t->plan->bucket[x->index].swap_start[x->what],
                        .bytes = plan_bucket_swap_bytes(t->plan, x->index, x->what)};
}

// Later work on stream `on` starts after the slot's last transfer. Slots that take a bucket of one tier
// may take one of another next.
static status await_slot(trainer *t, plan_state what, trainer_slot *s, device_stream_kind on,
                         err *e)
{
    return s->moved_by ? s->moved_by->await(t, what, s, on, e) : OK;
}

static status swap_in(trainer *t, const tiers_move *m, err *e)
{
    status result = OK;
    TRY(await_slot(t, m->what, m->slot, STREAM_COPY, e));
    m->slot->moved_by = tier_of(t, m);
    TRY(m->slot->moved_by->swap_in(t, m, e));
done:
    return result;
}

static status swap_out(trainer *t, const tiers_move *m, err *e)
{
    status result = OK;
    trainer_order(t, STREAM_COMPUTE, STREAM_COPY);
    trainer_order(t, STREAM_COMM, STREAM_COPY);
    m->slot->moved_by = tier_of(t, m);
    TRY(m->slot->moved_by->swap_out(t, m, e));
done:
    return result;
}

status run_swap_in(trainer *t, const schedule_instr *x, err *e)
{
    status result = OK;
    const tiers_move m = move_of(t, x);
    TRY(swap_in(t, &m, e));
    if (!x->full) goto done;
    // The gradient slot continues the sum over micro-batches.
    TRY(await_slot(t, m.what, m.slot, STREAM_COPY, e));
    trainer_record(t, &m.slot->filled, trainer_stream(t, STREAM_COPY));
    slots_assign_gradient(t, x->index, x->slot);
done:
    return result;
}

status run_swap_out(trainer *t, const schedule_instr *x, err *e)
{
    status result = OK;
    const tiers_move m = move_of(t, x);
    TRY(swap_out(t, &m, e));
    if (x->full) { // another bucket uses the slot next
        TRY(await_slot(t, m.what, m.slot, STREAM_COPY, e));
        slots_assign_gradient(t, x->index, -1);
    }
    trainer_record(t, &m.slot->freed, trainer_stream(t, STREAM_COPY));
done:
    return result;
}

status tiers_await(trainer *t, plan_state what, int slot, device_stream_kind on, char **ptr, err *e)
{
    trainer_slot *s = slots_state(t, what, slot);
    *ptr = s->ptr;
    return await_slot(t, what, s, on, e);
}

void tiers_free_slot(trainer *t, plan_state what, int slot, device_stream_kind on)
{
    trainer_record(t, &slots_state(t, what, slot)->freed, trainer_stream(t, on));
}

// ---- Staging buffers, between steps

static status move_staged(trainer *t, plan_state what,
                          status (*move)(trainer *, const tiers_move *, err *), err *e)
{
    status result = OK;
    const tiers_move m = shard_move(t, what, t->tiers->staging[what].bucket, 0);
    TRY(move(t, &m, e));
    TRY(await_slot(t, what, m.slot, STREAM_COPY, e));
    TRY(trainer_ops(t)->sync(trainer_stream(t, STREAM_COPY), e));
done:
    return result;
}

status tiers_close_staging(trainer *t, err *e)
{
    status result = OK;
    for (int k = 0; k < PLAN_STATES; k++) {
        tiers_staging *x = &t->tiers->staging[k];
        if (x->open && x->dirty) TRY(move_staged(t, (plan_state)k, swap_out, e));
        *x = (tiers_staging){.bucket = 0};
    }
done:
    return result;
}

status tiers_stage(trainer *t, plan_state what, int bucket, bool will_write, char **ptr, err *e)
{
    status result = OK;
    tiers_staging *x = &t->tiers->staging[what];
    if (!x->open || x->bucket != bucket) {
        if (x->open && x->dirty) TRY(move_staged(t, what, swap_out, e));
        *x = (tiers_staging){.open = true, .bucket = bucket};
        TRY(move_staged(t, what, swap_in, e));
    }
    x->dirty = x->dirty || will_write;
    *ptr = slots_state(t, what, 0)->ptr;
done:
    return result;
}
