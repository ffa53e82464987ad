// tiers.c -- moves buckets between state slots and files. See tiers.h. Called by trainer.c, through
// the table in step.c, and by the files that read or write state between steps. The plan says which
// state lies in files; store/tier.h reads and writes the files.
#include "train/tiers.h"

#include "base/file.h"
#include "train/trainer_private.h"

typedef struct tiers_staging {
    bool open, dirty;
    int bucket;
} tiers_staging;

struct trainer_tiers {
    tier *file[PLAN_STATES];
    // [buckets] the request that wrote the bucket last; 0: none.
    tier_ticket *written[PLAN_STATES];
    tiers_staging staging[PLAN_STATES];
};

// ---- Opening

status tiers_allocate(trainer *t, err *e)
{
    status result = OK;
    TRY(trainer_object(&t->tiers, sizeof *t->tiers, e));
    for (int k = 0; k < PLAN_STATES; k++)
        TRY(memory_table(t->memory, (size_t)t->plan->buckets, sizeof(tier_ticket),
                         &t->tiers->written[k], e));
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

static uint64_t file_offset(const trainer *t, plan_state what, int bucket)
{
    return t->plan->bucket[bucket].file_start[what];
}

// The bytes of a bucket's reduced gradients: of this rank's shards only.
static size_t reduced_bytes(const trainer *t, int bucket)
{
    const plan_layout l = plan_group_of(t->plan, bucket)->optimizer;
    return (size_t)t->plan->bucket[bucket].count[l] * sizeof(float);
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
        if (plan_in_file(g, what) && bytes > most) most = bytes;
    }
    return most;
}

static status open_file(trainer *t, plan_state what, text *note, err *e)
{
    status result = OK;
    const strategy_offload *o = &t->o.strategy.offload;
    if (!trainer_ops(t)->call)
        FAIL(E_USAGE,
             "parallel.offload.%s: file needs a device whose memory the host can address; valid on "
             "%s: device",
             plan_state_name(what), trainer_ops(t)->name);
    const tier_options options = {.folder = o->path,
                                  .name = plan_state_name(what),
                                  .bytes = t->plan->file_bytes[what],
                                  .block_bytes = (size_t)o->block_bytes,
                                  .depth = (int)o->depth};
    TRY(tier_open(&options, &t->tiers->file[what], e));
    const char *more = tier_note(t->tiers->file[what]);
    if (more) text_addf(note, "%s%s", note->bytes ? "; " : "", more);
done:
    return result;
}

status tiers_open(trainer *t, text *note, err *e)
{
    status result = OK;
    TRY(make_folder(t, note, e));
    for (int k = 0; k < PLAN_STATES; k++) {
        const plan_state what = (plan_state)k;
        if (plan_any_on_tier(t->plan, what, TIER_HOST))
            text_addf(note, "%s%s on host: on cpu ranks that is the device's own memory",
                      note->bytes ? "; " : "", plan_state_name(what));
        if (t->plan->file_bytes[what] > 0) TRY(open_file(t, what, note, e));
    }
done:
    return result;
}

void tiers_close(trainer *t)
{
    for (int k = 0; t->tiers && k < PLAN_STATES; k++) tier_close(t->tiers->file[k]);
    free(t->tiers);
}

void tiers_count(const trainer *t, tier_counters *to)
{
    for (int k = 0; k < PLAN_STATES; k++) {
        tier_counters c = {0};
        if (!t->tiers->file[k]) continue;
        tier_count(t->tiers->file[k], &c);
        to->bytes_read += c.bytes_read;
        to->bytes_written += c.bytes_written;
        to->seconds_waited += c.seconds_waited;
        to->seconds_moving += c.seconds_moving;
        to->seconds_cpu += c.seconds_cpu;
    }
}

// ---- Requests within a step

typedef struct tiers_request {
    tier *file;
    trainer_slot *slot;
    tier_ticket *written; // of the bucket
    bool write;
    uint64_t offset;
    size_t bytes;
} tiers_request;

static status start_request(void *arg, err *e)
{
    status result = OK;
    const tiers_request *r = arg;
    if (r->slot->ticket) TRY(tier_wait(r->file, r->slot->ticket, e));
    if (*r->written)
        TRY(tier_wait(r->file, *r->written, e)); // it may have been written from another slot
    if (r->write)
        TRY(tier_write(r->file, r->offset, r->slot->ptr, r->bytes, &r->slot->ticket, e));
    else
        TRY(tier_read(r->file, r->offset, r->slot->ptr, r->bytes, &r->slot->ticket, e));
    *r->written = r->write ? r->slot->ticket : 0;
done:
    return result;
}

static status end_request(void *arg, err *e)
{
    const tiers_request *r = arg;
    return r->slot->ticket ? tier_wait(r->file, r->slot->ticket, e) : OK;
}

static tiers_request request_of(const trainer *t, const schedule_instr *x, bool write)
{
    // Gradients that are not full are reduced: this rank's shards only.
    const bool reduced = x->what == PLAN_GRADIENTS && !x->full;
    return (tiers_request){.file = t->tiers->file[x->what],
                           .slot = x->full ? slots_gradient(t, x->slot)
                                           : slots_state(t, x->what, x->slot),
                           .written = &t->tiers->written[x->what][x->index],
                           .write = write,
                           .offset = file_offset(t, x->what, x->index),
                           .bytes = reduced ? reduced_bytes(t, x->index)
                                            : plan_bucket_file_bytes(t->plan, x->index, x->what)};
}

status run_swap_in(trainer *t, const schedule_instr *x, err *e)
{
    (void)e;
    const tiers_request r = request_of(t, x, false);
    device_stream *copy = trainer_stream(t, STREAM_COPY);
    trainer_ops(t)->wait(copy, r.slot->freed);
    trainer_ops(t)->call(copy, start_request, &r, sizeof r);
    if (!x->full) return OK;
    // The gradient slot continues the sum over micro-batches.
    trainer_ops(t)->call(copy, end_request, &r, sizeof r);
    trainer_ops(t)->record(r.slot->filled, copy);
    slots_assign_gradient(t, x->index, x->slot);
    return OK;
}

status run_swap_out(trainer *t, const schedule_instr *x, err *e)
{
    (void)e;
    const tiers_request r = request_of(t, x, true);
    device_stream *copy = trainer_stream(t, STREAM_COPY);
    trainer_order(t, STREAM_COMPUTE, STREAM_COPY);
    trainer_order(t, STREAM_COMM, STREAM_COPY);
    trainer_ops(t)->call(copy, start_request, &r, sizeof r);
    if (x->full) { // another bucket uses the slot next
        trainer_ops(t)->call(copy, end_request, &r, sizeof r);
        slots_assign_gradient(t, x->index, -1);
    }
    trainer_ops(t)->record(r.slot->freed, copy);
    return OK;
}

status tiers_await(trainer *t, plan_state what, int slot, device_stream_kind on, char **ptr, err *e)
{
    (void)e;
    trainer_slot *s = slots_state(t, what, slot);
    const tiers_request r = {.file = t->tiers->file[what], .slot = s};
    trainer_ops(t)->call(trainer_stream(t, STREAM_COPY), end_request, &r, sizeof r);
    trainer_ops(t)->record(s->filled, trainer_stream(t, STREAM_COPY));
    trainer_ops(t)->wait(trainer_stream(t, on), s->filled);
    *ptr = s->ptr;
    return OK;
}

void tiers_free_slot(trainer *t, plan_state what, int slot, device_stream_kind on)
{
    trainer_ops(t)->record(slots_state(t, what, slot)->freed, trainer_stream(t, on));
}

// ---- Staging buffers, between steps

static status move_staged(trainer *t, plan_state what, bool write, err *e)
{
    status result = OK;
    tier *file = t->tiers->file[what];
    trainer_slot *s = slots_state(t, what, 0);
    const int bucket = t->tiers->staging[what].bucket;
    const uint64_t offset = file_offset(t, what, bucket);
    const size_t bytes = what == PLAN_GRADIENTS ? reduced_bytes(t, bucket)
                                                : plan_bucket_file_bytes(t->plan, bucket, what);
    if (write)
        TRY(tier_write(file, offset, s->ptr, bytes, &s->ticket, e));
    else
        TRY(tier_read(file, offset, s->ptr, bytes, &s->ticket, e));
    TRY(tier_wait(file, s->ticket, e));
done:
    return result;
}

status tiers_close_staging(trainer *t, err *e)
{
    status result = OK;
    for (int k = 0; k < PLAN_STATES; k++) {
        tiers_staging *x = &t->tiers->staging[k];
        if (x->open && x->dirty) TRY(move_staged(t, (plan_state)k, true, e));
        *x = (tiers_staging){.bucket = 0};
    }
done:
    return result;
}

status tiers_stage(trainer *t, plan_state what, int bucket, bool will_write, char **ptr, err *e)
{
    status result = OK;
    tiers_staging *x = &t->tiers->staging[what];
    trainer_slot *s = slots_state(t, what, 0);
    const tier_ticket written = t->tiers->written[what][bucket];
    if (!x->open || x->bucket != bucket) {
        if (x->open && x->dirty) TRY(move_staged(t, what, true, e));
        if (s->ticket) TRY(tier_wait(t->tiers->file[what], s->ticket, e));
        if (written) TRY(tier_wait(t->tiers->file[what], written, e));
        *x = (tiers_staging){.open = true, .bucket = bucket};
        TRY(move_staged(t, what, false, e));
    }
    x->dirty = x->dirty || will_write;
    *ptr = s->ptr;
done:
    return result;
}
