// schedule_print.c -- instructions as lines of text, made from the rows of instructions.c. Called
// by `trireme explain`, by verify.c for its messages and by train/activity.c.
#include "parallel/instructions.h"

#include <string.h>

// Appends the member whose name is in braces at `word`. Returns the text after the braces.
static const char *add_member(const schedule_instr *x, const char *word, text *out)
{
    const struct {
        const char *word;
        int value;
    } members[] = {
        {"{micro}", x->micro}, {"{index}", x->index}, {"{slot}", x->slot}, {"{peer}", x->peer}};
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        const size_t length = strlen(members[i].word);
        if (strncmp(word, members[i].word, length)) continue;
        text_addf(out, "%d", members[i].value);
        return word + length;
    }
    text_add(out, plan_state_name(x->what));
    return word + strlen("{what}");
}

void instr_print(const schedule_instr *x, text *out)
{
    const instr_row *row = instr_row_of(x->kind);
    text_add(out, row->name);
    for (const char *rest = row->line.text; *rest;) {
        const size_t plain = strcspn(rest, "{");
        text_add_bytes(out, rest, plain);
        rest += plain;
        if (*rest) rest = add_member(x, rest, out);
    }
    if (instr_when_holds(row->line.when, x)) text_add(out, row->line.addition);
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
