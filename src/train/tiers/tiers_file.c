// tiers_file.c -- the file tier: each state is a file of buckets, which store/tier.h reads and writes.
// Called through TIERS_FILE. The host makes the requests, so it waits here for the device: before a
// request that reads into memory which the device may still use, and before one that writes what the
// device computes. It waits for a request before the device uses the bytes.
//
// Where the host can address the device's memory, a file is read into a slot and written from it. Else
// each slot has a buffer of the host's memory beside it, and the copy stream copies between the two.
#include "base/clock.h"
#include "train/tiers/tiers_private.h"

static status file_allocate(trainer *t, err *e)
{
    status result = OK;
    for (int k = 0; k < PLAN_STATES; k++)
        TRY(memory_table(t->memory, (size_t)t->plan->buckets, sizeof(tier_ticket),
                         &t->tiers->written[k], e));
done:
    return result;
}

static status file_open(trainer *t, plan_state what, text *note, err *e)
{
    status result = OK;
    const strategy_offload *o = &t->o.strategy.offload;
    const tier_options options = {.folder = o->path,
                                  .name = plan_state_name(what),
                                  .bytes = t->plan->swap_bytes[TIER_FILE][what],
                                  .block_bytes = (size_t)o->block_bytes,
                                  .depth = (int)o->depth};
    TRY(tier_open(&options, &t->tiers->file[what], e));
    const char *more = tier_note(t->tiers->file[what]);
    if (more) tiers_add_note(note, more);
done:
    return result;
}

static void file_close(trainer *t)
{
    for (int k = 0; k < PLAN_STATES; k++) tier_close(t->tiers->file[k]);
}

static void file_count(const trainer *t, tier_counters *to)
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

// The memory that the file is read into and written from.
static char *file_buffer(const trainer_slot *s)
{
    return s->host ? s->host : s->ptr;
}

static status wait_for(trainer *t, plan_state what, tier_ticket ticket, err *e)
{
    const int64_t begin = clock_ns();
    const status result = tier_wait(t->tiers->file[what], ticket, e);
    trainer_spans_add_wait(t, PHASE_COPY, begin);
    return result;
}

// The bucket may have been written from another slot.
static status wait_written(trainer *t, const tiers_move *m, err *e)
{
    const tier_ticket ticket = t->tiers->written[m->what][m->bucket];
    return ticket ? wait_for(t, m->what, ticket, e) : OK;
}

static status file_swap_in(trainer *t, const tiers_move *m, err *e)
{
    status result = OK;
    trainer_slot *s = m->slot;
    // The copy from the buffer, or the last work that used the slot itself.
    trainer_ops(t)->event_sync(s->host ? s->filled.event : s->freed.event);
    TRY(wait_written(t, m, e));
    TRY(tier_read(t->tiers->file[m->what], m->start, file_buffer(s), m->bytes, &s->ticket, e));
    t->tiers->written[m->what][m->bucket] = 0;
    s->in_buffer = s->host ? m->bytes : 0;
done:
    return result;
}

static status file_swap_out(trainer *t, const tiers_move *m, err *e)
{
    status result = OK;
    trainer_slot *s = m->slot;
    device_stream *copy = trainer_stream(t, STREAM_COPY);
    if (s->host) trainer_ops(t)->copy(copy, s->host, s->ptr, m->bytes);
    trainer_record(t, &s->filled, copy);
    trainer_ops(t)->event_sync(s->filled.event);
    TRY(wait_written(t, m, e));
    TRY(tier_write(t->tiers->file[m->what], m->start, file_buffer(s), m->bytes, &s->ticket, e));
    t->tiers->written[m->what][m->bucket] = s->ticket;
done:
    return result;
}

static status file_await(trainer *t, plan_state what, trainer_slot *slot, device_stream_kind on,
                         err *e)
{
    status result = OK;
    device_stream *copy = trainer_stream(t, STREAM_COPY);
    TRY(wait_for(t, what, slot->ticket, e));
    if (slot->in_buffer > 0) {
        trainer_wait(t, copy, &slot->freed);
        trainer_ops(t)->copy(copy, slot->ptr, slot->host, slot->in_buffer);
        trainer_record(t, &slot->filled, copy);
        slot->in_buffer = 0;
    }
    if (slot->host) trainer_wait(t, trainer_stream(t, on), &slot->filled);
done:
    return result;
}

const tiers_functions TIERS_FILE = {.allocate = file_allocate,
                                    .open = file_open,
                                    .close = file_close,
                                    .count = file_count,
                                    .swap_in = file_swap_in,
                                    .swap_out = file_swap_out,
                                    .await = file_await};
