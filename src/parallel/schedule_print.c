// schedule_print.c -- a list as lines of text: its instructions, and their calls. Called by `trireme explain`.
#include "parallel/calls.h"
#include "parallel/instructions.h"
#include "parallel/traffic.h"

static bool prints_alike(const schedule_call *a, const schedule_call *b)
{
    return a->call.kind == b->call.kind && a->group == b->group && a->call.type == b->call.type &&
           a->steps == b->steps;
}

// Appends ": reduce_scatter over dp_shard_cp, 12.3 MiB fp32", and so on for the calls of *x. Those that differ only in
// their elements are one item.
static void print_calls(const plan *p, const schedule *s, const schedule_instr *x, text *out)
{
    char name[MESH_NAME_BYTES], size[24];
    const schedule_call *c = s->call + x->first_call;
    for (int i = 0; i < x->calls; i++) {
        double bytes = 0;
        int first = i, alike = 0;
        for (int k = x->calls - 1; k >= 0; k--)
            if (prints_alike(&c[i], &c[k])) first = k, alike++, bytes += c[k].bytes;
        if (first < i) continue;
        text_bytes(size, bytes);
        text_add(out, i ? "; " : ": ");
        if (alike > 1) text_addf(out, "%d x ", alike);
        text_addf(out, "%s over %s, %s %s", comm_call_row_of(c[i].call.kind)->name,
                  process_group_name(&p->o.mesh, c[i].group, name), size,
                  dtype_name(c[i].call.type));
        if (c[i].steps == STEPS_BEFORE_POWERSGD)
            text_addf(out, " before step %lld", (long long)p->o.strategy.hook.start_step);
    }
}

void schedule_print_line(const plan *p, const schedule *s, int i, text *out)
{
    instr_print(&s->instr[i], out);
    print_calls(p, s, &s->instr[i], out);
}

void schedule_print(const plan *p, const schedule *s, bool json, text *out)
{
    text_addf(out, json ? "[" : "schedule: %d instructions a step\n", s->count);
    for (int i = 0; i < s->count; i++) {
        text_add(out, json ? (i ? ",\"" : "\"") : "  ");
        schedule_print_line(p, s, i, out);
        text_add(out, json ? "\"" : "\n");
    }
    if (json) text_add(out, "]");
}
