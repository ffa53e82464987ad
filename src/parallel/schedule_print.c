// schedule_print.c -- an instruction list in words: `trireme explain`, and the checker's messages.
#include "parallel/schedule.h"

const char *instr_name(instr_kind k)
{
    static const char *const name[INSTRS] = {
        "LOAD",     "FETCH",          "GATHER",          "KEEP",      "RELEASE",
        "CLAIM",    "RECV_ACT",       "FORWARD",         "SEND_ACT",  "RECV_GRAD",
        "BACKWARD", "BACKWARD_INPUT", "BACKWARD_WEIGHT", "SEND_GRAD", "TIE",
        "REDUCE",   "CLIP",           "UPDATE",          "PUBLISH",   "FLUSH"};
    return name[k];
}

void instr_print(const instr *x, text *out)
{
    text_add(out, instr_name(x->kind));
    switch (x->kind) {
    case LOAD:
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
    case FETCH:
    case FLUSH:
        text_addf(out, " %s of bucket %d", tiered_name(x->what), x->index);
        break;
    case KEEP:
        text_addf(out, " part of bucket %d", x->index);
        break;
    case GATHER:
        text_addf(out, " bucket %d slot %d%s", x->index, x->slot, x->kept ? " from KEEP" : "");
        break;
    case RELEASE:
    case CLAIM:
        text_addf(out, " bucket %d slot %d", x->index, x->slot);
        break;
    case REDUCE:
        text_addf(out, " bucket %d%s", x->index, x->last ? "" : " (more to come)");
        break;
    case TIE:
    case UPDATE:
    case PUBLISH:
        text_addf(out, " bucket %d", x->index);
        break;
    case CLIP:
    case INSTRS:
        break;
    }
}

void schedule_print(const schedule *s, bool json, text *out)
{
    text_addf(out, json ? "[" : "schedule: %d instructions a step\n", s->count);
    for (int i = 0; i < s->count; i++) {
        text_add(out, json ? (i ? ",\"" : "\"") : "  ");
        instr_print(&s->at[i], out);
        text_add(out, json ? "\"" : "\n");
    }
    if (json) text_add(out, "]");
}
