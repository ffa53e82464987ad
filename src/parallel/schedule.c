// schedule.c -- builds and prints the instruction list. See schedule.h.
#include "parallel/schedule.h"

#include <stdlib.h>

static void add(schedule *s, instr_kind kind, int micro, int index)
{
    s->at[s->count++] = (instr){kind, micro, index};
}

status schedule_flat(const plan *p, int blocks, int micros, schedule *out, err *e)
{
    size_t most = (size_t)micros * (size_t)(2 * blocks + 1) + (size_t)(3 * p->buckets) + 1;
    *out = (schedule){.at = calloc(most, sizeof(instr))};
    if (!out->at) return err_set(e, E_IO, "no memory for a schedule of %zu instructions", most);
    for (int m = 0; m < micros; m++) {
        add(out, LOAD, m, 0);
        for (int b = 0; b < blocks; b++) add(out, FORWARD, m, b);
        for (int b = blocks - 1; b >= 0; b--) {
            add(out, BACKWARD, m, b);
            for (int k = 0; m == micros - 1 && k < p->buckets; k++)
                if (p->bucket[k].first_block == b) add(out, REDUCE, m, k);
        }
    }
    add(out, CLIP, 0, 0);
    for (int k = 0; k < p->buckets; k++) {
        add(out, UPDATE, 0, k);
        add(out, PUBLISH, 0, k);
    }
    return OK;
}

void schedule_clear(schedule *s)
{
    free(s->at);
    *s = (schedule){0};
}

const char *instr_name(instr_kind k)
{
    static const char *const name[INSTRS] = {"LOAD", "FORWARD", "BACKWARD", "REDUCE",
                                             "CLIP", "UPDATE",  "PUBLISH"};
    return name[k];
}

static void print_one(const instr *x, text *out)
{
    switch (x->kind) {
    case LOAD:
        text_addf(out, "LOAD micro %d", x->micro);
        break;
    case FORWARD:
    case BACKWARD:
        text_addf(out, "%s micro %d block %d", instr_name(x->kind), x->micro, x->index);
        break;
    case REDUCE:
    case UPDATE:
    case PUBLISH:
        text_addf(out, "%s bucket %d", instr_name(x->kind), x->index);
        break;
    case CLIP:
    case INSTRS:
        text_addf(out, "%s", instr_name(x->kind));
        break;
    }
}

void schedule_print(const schedule *s, bool json, text *out)
{
    text_addf(out, json ? "[" : "schedule: %d instructions a step\n", s->count);
    for (int i = 0; i < s->count; i++) {
        text_add(out, json ? (i ? ",\"" : "\"") : "  ");
        print_one(&s->at[i], out);
        text_add(out, json ? "\"" : "\n");
    }
    if (json) text_add(out, "]");
}
