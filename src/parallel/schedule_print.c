// schedule_print.c -- an instruction list in words: `trireme explain`, and the checker's messages.
#include "parallel/schedule.h"

const char *instr_name(schedule_instr_kind k)
{
    static const char *const name[INSTRS] = {"LOAD_BATCH",
                                             "SWAP_IN",
                                             "UNSHARD",
                                             "RESHARD_POST_FORWARD",
                                             "RESHARD",
                                             "ALLOC_GRAD",
                                             "RECV_ACT",
                                             "FORWARD",
                                             "SEND_ACT",
                                             "RECV_GRAD",
                                             "BACKWARD",
                                             "BACKWARD_INPUT",
                                             "BACKWARD_WEIGHT",
                                             "SEND_GRAD",
                                             "REDUCE_TIED_GRAD",
                                             "REDUCE_GRAD",
                                             "CLIP_GRAD_NORM",
                                             "OPTIMIZER_STEP",
                                             "ALL_GATHER_UPDATED",
                                             "SWAP_OUT"};
    return name[k];
}

void instr_print(const schedule_instr *x, text *out)
{
    text_add(out, instr_name(x->kind));
    switch (x->kind) {
    case LOAD_BATCH:
        text_addf(out, " micro %d", x->micro);
        break;
    case RECV_ACT:
    case RECV_GRAD:
        text_addf(out, " micro %d block %d from stage %d", x->micro, x->index, x->peer);
        break;
    case SEND_ACT:
    case SEND_GRAD:
        text_addf(out, " micro %d block %d to stage %d", x->micro, x->index, x->peer);
        break;
    case FORWARD:
    case BACKWARD:
    case BACKWARD_INPUT:
    case BACKWARD_WEIGHT:
        text_addf(out, " micro %d block %d", x->micro, x->index);
        break;
    case SWAP_IN:
    case SWAP_OUT:
        text_addf(out, " %s of bucket %d", plan_state_name(x->what), x->index);
        break;
    case RESHARD_POST_FORWARD:
        text_addf(out, " part of bucket %d", x->index);
        break;
    case UNSHARD:
        text_addf(out, " bucket %d slot %d%s", x->index, x->slot,
                  x->post_forward ? " from RESHARD_POST_FORWARD" : "");
        break;
    case RESHARD:
    case ALLOC_GRAD:
        text_addf(out, " bucket %d slot %d", x->index, x->slot);
        break;
    case REDUCE_GRAD:
        text_addf(out, " bucket %d%s", x->index, x->last ? "" : " (more to come)");
        break;
    case REDUCE_TIED_GRAD:
    case OPTIMIZER_STEP:
    case ALL_GATHER_UPDATED:
        text_addf(out, " bucket %d", x->index);
        break;
    case CLIP_GRAD_NORM:
    case INSTRS:
        break;
    }
}

void schedule_print(const schedule *s, bool json, text *out)
{
    text_addf(out, json ? "[" : "schedule: %d instructions a step\n", s->count);
    for (int i = 0; i < s->count; i++) {
        text_add(out, json ? (i ? ",\"" : "\"") : "  ");
        instr_print(&s->instr[i], out);
        text_add(out, json ? "\"" : "\n");
    }
    if (json) text_add(out, "]");
}
