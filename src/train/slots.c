// slots.c -- memory and events of bucket slots. See slots.h. Called by trainer.c and by the
// instructions that use slots.
#include "train/slots.h"

#include "base/size.h"
#include "train/trainer_private.h"

struct trainer_slots {
    trainer_slot *weight, *gradient, *state[PLAN_STATES];
    // [buckets] the slot that the bucket is in; -1: none.
    int *weight_of, *gradient_of;
};

// A slot that both schedules use has room for the larger of their buckets.
static int64_t slot_elements(const schedule_slots *train, const schedule_slots *eval, int slot)
{
    return size_max(slot < train->count ? train->elements[slot] : 0,
                    slot < eval->count ? eval->elements[slot] : 0);
}

static int slot_count(const schedule_slots *train, const schedule_slots *eval)
{
    return train->count > eval->count ? train->count : eval->count;
}

// Memory at the start of a page where `aligned`: files are read and written from whole pages.
static status take_memory(trainer *t, memory_source from, uint64_t bytes, bool aligned, char **out,
                          err *e)
{
    const size_t more = aligned ? TIER_ALIGN : 0;
    const status result =
        memory_take(t->memory, BYTES_BUFFERS, from, size_add(bytes, more), out, e);
    if (result == OK && !memory_is_counting(t->memory) && aligned)
        *out += -(uintptr_t)*out & (TIER_ALIGN - 1);
    return result;
}

// `in_files`: the slots take state from files.
static status allocate_kind(trainer *t, const schedule_slots *train, const schedule_slots *eval,
                            size_t element_bytes, bool in_files, trainer_slot **out, err *e)
{
    status result = OK;
    const int count = slot_count(train, eval);
    const bool apart = t->o.strategy.offload.host_is_apart;
    const bool aligned = t->plan->tier_bytes[TIER_FILE] > 0 && !apart;
    trainer_slot none = {.ptr = NULL};
    TRY(memory_table(t->memory, (size_t)count, sizeof **out, out, e));
    for (int i = 0; i < count; i++) {
        const uint64_t bytes = size_mul((uint64_t)slot_elements(train, eval, i), element_bytes);
        trainer_slot *s = memory_is_counting(t->memory) ? &none : &(*out)[i];
        TRY(take_memory(t, FROM_SHARED, bytes, aligned, &s->ptr, e));
        if (in_files && apart) TRY(take_memory(t, FROM_HOST, bytes, true, &s->host, e));
        if (memory_is_counting(t->memory)) continue;
        TRY(trainer_event_open(t, &(*out)[i].filled, e));
        TRY(trainer_event_open(t, &(*out)[i].freed, e));
    }
done:
    return result;
}

static bool has_files(const trainer *t, plan_state what)
{
    return t->plan->swap_bytes[TIER_FILE][what] > 0;
}

status slots_allocate(trainer *t, err *e)
{
    status result = OK;
    const schedule *s = &t->schedule, *f = &t->forward;
    const size_t buckets = (size_t)t->plan->buckets;
    TRY(trainer_object(&t->slots, sizeof *t->slots, e));
    trainer_slots *x = t->slots;
    TRY(memory_table(t->memory, buckets, sizeof(int), &x->weight_of, e));
    TRY(memory_table(t->memory, buckets, sizeof(int), &x->gradient_of, e));
    TRY(allocate_kind(t, &s->weights, &f->weights, trainer_weight_bytes(t), false, &x->weight, e));
    TRY(allocate_kind(t, &s->gradients, &f->gradients, sizeof(float), has_files(t, PLAN_GRADIENTS),
                      &x->gradient, e));
    for (int k = 0; k < PLAN_STATES; k++)
        TRY(allocate_kind(t, &s->state[k], &f->state[k], tiers_element_bytes(t, (plan_state)k),
                          has_files(t, (plan_state)k), &x->state[k], e));
done:
    return result;
}

static void close_events(const trainer *t, const schedule_slots *train, const schedule_slots *eval,
                         trainer_slot *slot)
{
    for (int i = 0; slot && i < slot_count(train, eval); i++) {
        trainer_event_close(t, &slot[i].filled);
        trainer_event_close(t, &slot[i].freed);
    }
}

void slots_close(trainer *t)
{
    const schedule *s = &t->schedule, *f = &t->forward;
    trainer_slots *x = t->slots;
    if (!x) return;
    close_events(t, &s->weights, &f->weights, x->weight);
    close_events(t, &s->gradients, &f->gradients, x->gradient);
    for (int k = 0; k < PLAN_STATES; k++) close_events(t, &s->state[k], &f->state[k], x->state[k]);
    free(x);
}

trainer_slot *slots_weight(const trainer *t, int slot)
{
    return &t->slots->weight[slot];
}

trainer_slot *slots_gradient(const trainer *t, int slot)
{
    return &t->slots->gradient[slot];
}

trainer_slot *slots_state(const trainer *t, plan_state what, int slot)
{
    return &t->slots->state[what][slot];
}

trainer_slot *slots_weight_of(const trainer *t, int bucket)
{
    const int slot = t->slots->weight_of[bucket];
    return slot < 0 ? NULL : &t->slots->weight[slot];
}

trainer_slot *slots_gradient_of(const trainer *t, int bucket)
{
    const int slot = t->slots->gradient_of[bucket];
    return slot < 0 ? NULL : &t->slots->gradient[slot];
}

void slots_assign_weight(trainer *t, int bucket, int slot)
{
    t->slots->weight_of[bucket] = slot;
}

void slots_assign_gradient(trainer *t, int bucket, int slot)
{
    t->slots->gradient_of[bucket] = slot;
}

void slots_reset(trainer *t)
{
    for (int k = 0; k < t->plan->buckets; k++)
        t->slots->weight_of[k] = t->slots->gradient_of[k] = -1;
}
