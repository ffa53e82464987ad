// verify.c -- checks the instruction lists of a pipeline before they run. Called when a trainer is
// opened or a job is explained. replay.c checks the messages between stages. This file follows one
// list at a time and tracks every slot and every result. It does not know how lists are built, and
// it names no kind of instruction: all its checks follow from instructions.c.
#include "parallel/verify.h"

#include "base/alloc.h"
#include "parallel/instructions.h"
#include "parallel/replay/replay.h"

#include <stdio.h>
#include <stdlib.h>

static const char WHAT[] = "the verification of a schedule";

// The slots of one chunk, or of the stage.
typedef struct verify_slots {
    int count;
    int *owner; // [count] -1: the slot is free
    int *holds; // [count] blocks whose values the slot holds; slots of chunks hold several
    int *slot;  // [owners] the slot that the owner took last; it may be freed since
} verify_slots;

typedef struct verify_resource {
    verify_slots *group;  // [groups] of a resource with slots
    unsigned char *there; // [owners] the result exists
    int groups, owners;
} verify_resource;

// Which effects of an instruction are checked.
typedef enum verify_part { EVERYTHING, ALL_BUT_FREES, FREES } verify_part;

typedef struct verify_list {
    const schedule *const *of_stage;
    const schedule *s;
    const plan *p;
    replay_position position;
    verify_part part;
    verify_resource resource[RESOURCES];
} verify_list;

// Returns an error at the instruction that is being checked. `c` is the verify_list.
#define REFUSE(...) return replay_refuse(c->of_stage, c->position, e, __VA_ARGS__)

// ---- Messages

// Refuses with "the weights of bucket 1 are not unsharded".
static status refuse_value(const verify_list *c, const instr_use *u, bool missing, err *e)
{
    const instr_resource_row *row = instr_resource_row_of(u->resource);
    text owner = {0};
    instr_owner_print(c->p, u->resource, u->owner, &owner);
    const status result = replay_refuse(c->of_stage, c->position, e, "%s %s %s", row->value,
                                        owner.chars, missing ? row->missing : row->present);
    text_clear(&owner);
    return result;
}

// Refuses with "weight slot 0 still holds bucket 1", or "… does not hold bucket 1".
static status refuse_slot(const verify_list *c, const instr_use *u, int owner, const char *says,
                          err *e)
{
    text name = {0};
    instr_owner_print(c->p, u->resource, owner, &name);
    const status result =
        replay_refuse(c->of_stage, c->position, e, "%s %d %s %s",
                      instr_resource_row_of(u->resource)->slot, u->slot, says, name.chars);
    text_clear(&name);
    return result;
}

// ---- Slots

static int find(const verify_slots *k, int owner)
{
    const int slot = k->slot[owner];
    return slot >= 0 && k->owner[slot] == owner ? slot : -1;
}

static status allocate(const verify_list *c, verify_slots *k, const instr_use *u, err *e)
{
    const int holder = k->owner[u->slot], other = find(k, u->owner);
    const bool shared = instr_resource_row_of(u->resource)->by_chunk;
    if (holder >= 0 && !(shared && holder == u->owner))
        return refuse_slot(c, u, holder, "still holds", e);
    if (other >= 0 && other != u->slot) return refuse_value(c, u, false, e);
    k->owner[u->slot] = u->owner;
    k->slot[u->owner] = u->slot;
    k->holds[u->slot]++;
    return OK;
}

static status use_slot(verify_list *c, const instr_use *given, err *e)
{
    instr_use u = *given;
    verify_slots *k = &c->resource[u.resource].group[u.group];
    const int found = find(k, u.owner);
    if (u.access == ACCESS_PRECEDE) return found < 0 ? OK : refuse_value(c, &u, false, e);
    if (u.any_slot) u.slot = found;
    const bool uses = u.access != ACCESS_ALLOCATE, named = u.slot >= 0 && u.slot < k->count;
    if (uses && found < 0 && (u.any_slot || named)) return refuse_value(c, &u, true, e);
    if (u.slot < 0 || u.slot >= k->count)
        REFUSE("found %s %d; valid: below %d", instr_resource_row_of(u.resource)->slot, u.slot,
               k->count);
    if (u.access == ACCESS_ALLOCATE) return allocate(c, k, &u, e);
    if (k->owner[u.slot] != u.owner) return refuse_slot(c, &u, u.owner, "does not hold", e);
    if (u.access == ACCESS_FREE && --k->holds[u.slot] == 0) k->owner[u.slot] = -1;
    return OK;
}

// ---- Results

static status use_result(verify_list *c, const instr_use *u, err *e)
{
    unsigned char *there = &c->resource[u->resource].there[u->owner];
    if (u->access == ACCESS_READ && !*there) return refuse_value(c, u, true, e);
    if ((u->access == ACCESS_WRITE || u->access == ACCESS_PRECEDE) && *there)
        return refuse_value(c, u, false, e);
    if (u->access == ACCESS_WRITE || u->access == ACCESS_MODIFY) *there = true;
    return OK;
}

static status use_one(void *given, const instr_use *u, err *e)
{
    verify_list *c = given;
    if (c->part != EVERYTHING && (c->part == FREES) != (u->access == ACCESS_FREE)) return OK;
    if (u->owner < 0 || u->owner >= c->resource[u->resource].owners)
        REFUSE("the model has no such block");
    return u->resource < RES_SLOTS ? use_slot(c, u, e) : use_result(c, u, e);
}

// ---- One list

// Checks that the numbers of the instruction exist on this stage.
static status check_numbers(const verify_list *c, const schedule_instr *x, err *e)
{
    const instr_subject about = instr_row_of(x->kind)->subject;
    const bool micro = about == ABOUT_MICRO || about == ABOUT_BLOCK;
    if (micro && (x->micro < 0 || x->micro >= c->p->o.micros))
        REFUSE("valid micro-batches: 0 to %d", c->p->o.micros - 1);
    if (about == ABOUT_BLOCK &&
        (x->index < 0 || x->index >= c->p->o.blocks || !plan_has_block(c->p, x->index)))
        REFUSE("block %d is not on this stage", x->index);
    if (about == ABOUT_BUCKET && (x->index < 0 || x->index >= c->p->buckets))
        REFUSE("found bucket %d; valid: below %d", x->index, c->p->buckets);
    if (x->what < 0 || x->what >= PLAN_STATES)
        REFUSE("found state %d; valid: below %d", x->what, PLAN_STATES);
    return OK;
}

// Returns the error of check_end: `says`, then the name of the owner.
static status refuse_end(const verify_list *c, instr_resource r, int owner, text *says,
                         const char *after, err *e)
{
    instr_owner_print(c->p, r, owner, says);
    text_add(says, after);
    const status result = err_set(e, E_INTERNAL, "stage %d: at the end of its list %s",
                                  c->position.stage, says->chars);
    text_clear(says);
    return result;
}

// Checks that every result that a list of this pass must produce exists.
static status check_results(const verify_list *c, instr_resource r, err *e)
{
    const instr_resource_row *row = instr_resource_row_of(r);
    const verify_resource *v = &c->resource[r];
    for (int i = 0; row->due[c->s->pass] && i < v->owners; i++) {
        text says = {0};
        if (v->there[i] || !instr_is_due(c->p, c->s->pass, r, i)) continue;
        char after[96];
        snprintf(after, sizeof after, " %s", row->missing);
        text_addf(&says, "%s ", row->value);
        return refuse_end(c, r, i, &says, after, e);
    }
    return OK;
}

static status check_slots_are_free(const verify_list *c, instr_resource r, err *e)
{
    const instr_resource_row *row = instr_resource_row_of(r);
    const verify_resource *v = &c->resource[r];
    for (int g = 0; !row->outlives[c->s->pass] && g < v->groups; g++)
        for (int i = 0; i < v->group[g].count; i++) {
            text says = {0};
            if (v->group[g].owner[i] < 0) continue;
            text_addf(&says, "%s %d still holds ", row->slot, i);
            return refuse_end(c, r, v->group[g].owner[i], &says, "", e);
        }
    return OK;
}

// Checks that every result exists and every slot is free.
static status check_end(const verify_list *c, err *e)
{
    status result = OK;
    for (instr_resource r = RES_SLOTS; r < RESOURCES; r++) TRY(check_results(c, r, e));
    for (instr_resource r = 0; r < RES_SLOTS; r++) TRY(check_slots_are_free(c, r, e));
done:
    return result;
}

// ---- Memory

static status open_slots(verify_slots *k, int count, int owners, err *e)
{
    status result = OK;
    *k = (verify_slots){.count = count};
    TRY(alloc_array(&k->owner, (size_t)count, sizeof *k->owner, WHAT, e));
    TRY(alloc_zeroed(&k->holds, (size_t)count, sizeof *k->holds, WHAT, e));
    TRY(alloc_array(&k->slot, (size_t)owners, sizeof *k->slot, WHAT, e));
    for (int i = 0; i < count; i++) k->owner[i] = -1;
    for (int i = 0; i < owners; i++) k->slot[i] = -1;
done:
    return result;
}

static status open_list(verify_list *c, err *e)
{
    status result = OK;
    for (instr_resource r = 0; r < RESOURCES; r++) {
        verify_resource *v = &c->resource[r];
        v->owners = instr_owners(c->p, r);
        if (r >= RES_SLOTS) {
            TRY(alloc_zeroed(&v->there, (size_t)v->owners, 1, WHAT, e));
            continue;
        }
        const int groups = instr_slot_groups(c->p, r);
        TRY(alloc_zeroed(&v->group, (size_t)groups, sizeof *v->group, WHAT, e));
        v->groups = groups;
        for (int g = 0; g < groups; g++)
            TRY(open_slots(&v->group[g], instr_slot_count(c->s, r, g), v->owners, e));
    }
done:
    return result;
}

static void close_list(verify_list *c)
{
    for (instr_resource r = 0; r < RESOURCES; r++) {
        verify_resource *v = &c->resource[r];
        for (int g = 0; v->group && g < v->groups; g++) {
            free(v->group[g].owner);
            free(v->group[g].holds);
            free(v->group[g].slot);
        }
        free(v->group);
        free(v->there);
    }
}

// Checks instructions that start together, from `first` on. None of them may use a slot that another
// one frees.
static status check_together(verify_list *c, int first, int count, err *e)
{
    status result = OK;
    const verify_part parts[] = {ALL_BUT_FREES, FREES};
    for (int k = 0; k < 2; k++)
        for (int i = first; i < first + count; i++) {
            const schedule_instr *x = &c->s->instr[i];
            c->position.number = i;
            c->part = count > 1 ? parts[k] : EVERYTHING;
            if (k == 0) TRY(check_numbers(c, x, e));
            if (k == 0 || count > 1) TRY(instr_each_use(c->p, c->s, x, use_one, c, e));
        }
done:
    return result;
}

static status check_list(const schedule *const *of_stage, const plan *p, int stage, err *e)
{
    status result = OK;
    verify_list c = {
        .of_stage = of_stage, .s = of_stage[stage], .p = p, .position = {.stage = stage}};
    TRY(open_list(&c, e));
    for (int i = 0, count; i < c.s->count; i += count) {
        count = replay_together(c.s, i);
        TRY(check_together(&c, i, count, e));
    }
    TRY(check_end(&c, e));
done:
    close_list(&c);
    return result;
}

status schedule_verify(const schedule *const *of_stage, const plan *const *plan_of_stage,
                       int stages, bool sends_wait, err *e)
{
    status result = OK;
    TRY(schedule_replay(of_stage, stages, sends_wait, NULL, NULL, e));
    for (int i = 0; i < stages; i++) TRY(check_list(of_stage, plan_of_stage[i], i, e));
done:
    return result;
}
