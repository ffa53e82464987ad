// spans_rows.c -- see spans_rows.h.
#include "train/spans/spans_rows.h"

#include "base/alloc.h"
#include "parallel/calls.h"
#include "parallel/traffic.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- The instructions of the list

static status note_update(void *given, const instr_use *use, err *e)
{
    bool *updates = given;
    (void)e;
    *updates = *updates || (use->resource == RES_UPDATED && use->access == ACCESS_WRITE);
    return OK;
}

static bool updates(const spans_list *l, const schedule_instr *x)
{
    bool found = false;
    return instr_each_use(l->plan, l->schedule, x, note_update, &found, NULL) == OK && found;
}

// A norm that one rank alone sums is a part of its update.
static spans_phase phase_of(const spans_list *l, const schedule_instr *x)
{
    const instr_row *row = instr_row_of(x->kind);
    const bool sums = row->payload == PAYLOAD_GRADIENTS || row->payload == PAYLOAD_SUMS;
    if (row->computes & COMPUTES_FORWARD) return PHASE_FORWARD;
    if (row->computes) return PHASE_BACKWARD;
    if ((sums && x->calls == 0) || updates(l, x)) return PHASE_OPTIMIZER;
    if (x->calls > 0) return PHASE_COMM;
    if (row->stream != STREAM_COPY) return PHASE_OTHER;
    return row->subject == ABOUT_MICRO ? PHASE_INPUT : PHASE_COPY;
}

static bool is_same_way(const schedule_instr *x, const schedule_instr *y)
{
    return x->kind == y->kind && x->peer == y->peer;
}

static void number_message(const spans_list *l, int i, spans_instr *s)
{
    const schedule_instr *x = &l->schedule->instr[i];
    if (!instr_is_message(x)) return;
    s->way = instr_row_of(x->kind)->peers.channel;
    for (int k = 0; k < l->schedule->count; k++) {
        if (!is_same_way(x, &l->schedule->instr[k])) continue;
        s->message += k < i;
        s->messages++;
    }
}

void spans_list_instrs(const spans_list *l, spans_instr *out)
{
    int calls = 0;
    for (int i = 0; i < l->schedule->count; i++) {
        const schedule_instr *x = &l->schedule->instr[i];
        const int place = x->on_host ? PLACE_HOST : (int)instr_row_of(x->kind)->stream;
        out[i] = (spans_instr){.place = place, .phase = phase_of(l, x), .first_call = calls};
        number_message(l, i, &out[i]);
        calls += x->calls;
    }
    out[l->schedule->count] = (spans_instr){.first_call = calls};
}

uint32_t spans_message_number(const spans_instr *own, uint64_t step)
{
    const uint64_t before = own->messages ? (step - 1) * own->messages + own->message : 0;
    return (uint32_t)(CHANNELS * before + (uint64_t)own->way);
}

// ---- The rows

static int rank_of_stage(const spans_list *l, int stage)
{
    int coord[AXES];
    memcpy(coord, l->plan->coord, sizeof coord);
    coord[AXIS_PP] = stage;
    return mesh_rank(&l->plan->o.mesh, coord);
}

static double flops_of(const spans_list *l, const schedule_instr *x)
{
    const unsigned computes = instr_row_of(x->kind)->computes;
    if (!computes) return 0;
    const graph_flops f = l->model->block[x->index].g->flops;
    if (computes & COMPUTES_FORWARD) return f.forward;
    return computes == (COMPUTES_DGRAD | COMPUTES_WGRAD) ? f.backward : f.backward / 2;
}

static void fill_row(const spans_list *l, int i, const spans_instr *s, spans_row *out, text *name)
{
    const schedule_instr *x = &l->schedule->instr[i];
    const instr_subject about = instr_row_of(x->kind)->subject;
    *out = (spans_row){.kind = SPANS_INSTR,
                       .phase = (int32_t)s->phase,
                       .stream = s->place == PLACE_HOST ? -1 : s->place,
                       .parent = -1,
                       .instr = i,
                       .call = -1,
                       .peer = s->messages > 0 ? rank_of_stage(l, x->peer) : -1,
                       .micro = about == ABOUT_MICRO || about == ABOUT_BLOCK ? x->micro : -1,
                       .flops = flops_of(l, x)};
    for (int k = 0; k < x->calls; k++)
        out->bytes += (uint64_t)l->schedule->call[x->first_call + k].bytes;
    text_clear(name);
    instr_print(x, name);
    snprintf(out->name, sizeof out->name, "%s", name->chars ? name->chars : "");
}

static void fill_call(const spans_list *l, int i, int k, const spans_row *parent, spans_row *out)
{
    char name[MESH_NAME_BYTES];
    const schedule_call *c = &l->schedule->call[l->schedule->instr[i].first_call + k];
    *out = (spans_row){.kind = SPANS_CALL,
                       .phase = PHASE_COMM,
                       .stream = parent->stream,
                       .parent = i,
                       .instr = i,
                       .call = k,
                       .peer = parent->peer,
                       .micro = parent->micro,
                       .bytes = (uint64_t)c->bytes};
    snprintf(out->name, sizeof out->name, "%s", comm_call_row_of(c->call.kind)->name);
    snprintf(out->group, sizeof out->group, "%s",
             process_group_name(&l->plan->o.mesh, c->group, name));
}

static void fill_host_rows(spans_row *out)
{
    static const struct {
        spans_kind kind;
        spans_phase phase;
        const char *name;
    } host[] = {{SPANS_LOADER, PHASE_INPUT, "loader"},
                {SPANS_EVAL, PHASE_EVAL, "evaluation"},
                {SPANS_SAVE, PHASE_SAVE, "checkpoint"}};
    for (size_t i = 0; i < sizeof host / sizeof *host; i++) {
        out[i] = (spans_row){.kind = (int32_t)host[i].kind,
                             .phase = (int32_t)host[i].phase,
                             .stream = -1,
                             .parent = -1,
                             .instr = -1,
                             .call = -1,
                             .peer = -1,
                             .micro = -1};
        snprintf(out[i].name, sizeof out[i].name, "%s", host[i].name);
    }
}

status spans_list_rows(const spans_list *l, spans_row **rows, uint32_t *count, err *e)
{
    status result = OK;
    text name = {0};
    spans_instr *instr = NULL;
    const int instrs = l->schedule->count;
    TRY(alloc_zeroed(&instr, (size_t)instrs + 1, sizeof *instr, "a record of spans", e));
    spans_list_instrs(l, instr);
    *count = (uint32_t)(instrs + instr[instrs].first_call + SPANS_KINDS - SPANS_LOADER);
    TRY(alloc_zeroed(rows, *count, sizeof **rows, "a record of spans", e));
    spans_row *next = *rows + instrs;
    for (int i = 0; i < instrs; i++) {
        fill_row(l, i, &instr[i], *rows + i, &name);
        for (int k = 0; k < l->schedule->instr[i].calls; k++) fill_call(l, i, k, *rows + i, next++);
    }
    fill_host_rows(next);
    TRY(text_check(&name, e));
done:
    free(instr);
    text_clear(&name);
    return result;
}
