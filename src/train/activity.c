// activity.c -- encodes the instruction that a rank executes as one number, and decodes it into
// words. The number lies in memory that all ranks see, so another rank can report where a lost rank
// is.
//
// Called by step.c for each instruction, and by rendezvous/world.c when a rank does not come to a
// collective.
#include "train/trainer_private.h"

#include "base/text.h"

#include <stdio.h>

// The number of bits for each member of an instruction that the number contains.
enum { KIND_BITS = 6, WHAT_BITS = 3, FLAG_BITS = 2, SLOT_BITS = 8 };
enum { PEER_BITS = 9, INDEX_BITS = 16, MICRO_BITS = 20 };
enum { BETWEEN_STEPS = INSTRS + 1 };

static uint64_t put(uint64_t to, uint64_t n, int bits)
{
    const uint64_t most = ((uint64_t)1 << bits) - 1;
    return to << bits | (n < most ? n : most);
}

static int take(uint64_t *from, int bits)
{
    const int n = (int)(*from & (((uint64_t)1 << bits) - 1));
    *from >>= bits;
    return n;
}

// The kind is stored plus one: 0 means that nothing is known.
uint64_t activity_pack(const schedule_instr *x)
{
    uint64_t n = put(0, (uint64_t)x->micro, MICRO_BITS);
    n = put(n, (uint64_t)x->index, INDEX_BITS);
    n = put(n, (uint64_t)x->peer, PEER_BITS);
    n = put(n, (uint64_t)x->slot, SLOT_BITS);
    n = put(n, (uint64_t)(x->post_forward | x->last << 1), FLAG_BITS);
    n = put(n, (uint64_t)x->what, WHAT_BITS);
    return put(n, (uint64_t)x->kind + 1, KIND_BITS);
}

void activity_describe(uint64_t what, char *out, size_t room)
{
    text t = {0};
    schedule_instr x = {.kind = (schedule_instr_kind)(take(&what, KIND_BITS) - 1)};
    if ((int)x.kind >= INSTRS) {
        snprintf(out, room, "no step (it evaluates, saves or loads)");
        return;
    }
    x.what = (plan_state)take(&what, WHAT_BITS);
    const int flags = take(&what, FLAG_BITS);
    x.post_forward = flags & 1;
    x.last = flags >> 1;
    x.slot = take(&what, SLOT_BITS);
    x.peer = take(&what, PEER_BITS);
    x.index = take(&what, INDEX_BITS);
    x.micro = take(&what, MICRO_BITS);
    instr_print(&x, &t);
    snprintf(out, room, "%s", t.chars);
    text_clear(&t);
}

void trainer_show_activity(trainer *t, const schedule_instr *x)
{
    if (t->o.checks.activity)
        comm_activity_set(t->o.checks.activity, x ? activity_pack(x) : BETWEEN_STEPS);
}

void trainer_open_activity(trainer *t)
{
    if (!t->o.checks.activity) return;
    atomic_store(&t->o.checks.activity->describe, activity_describe);
    trainer_show_activity(t, NULL);
}
