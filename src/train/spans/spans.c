// spans.c -- see spans.h. It lists the rows of a record, and takes the stamps. Called by trainer.c, step.c and the
// instructions; the session asks for the rows, makes the file and gives it here.
#include "base/alloc.h"
#include "base/clock.h"
#include "base/proc.h"
#include "parallel/calls.h"
#include "parallel/instructions.h"
#include "parallel/traffic.h"
#include "train/spans/spans_private.h"

#include <stdio.h>

// ---- The instructions of the list

static status note_update(void *given, const instr_use *use, err *e)
{
    bool *updates = given;
    (void)e;
    *updates = *updates || (use->resource == RES_UPDATED && use->access == ACCESS_WRITE);
    return OK;
}

static bool updates(const trainer *t, const schedule_instr *x)
{
    bool found = false;
    return instr_each_use(t->plan, &t->schedule, x, note_update, &found, NULL) == OK && found;
}

// A norm that one rank alone sums is a part of its update.
static spans_phase phase_of(const trainer *t, const schedule_instr *x)
{
    const instr_row *row = instr_row_of(x->kind);
    const bool sums = row->payload == PAYLOAD_GRADIENTS || row->payload == PAYLOAD_SUMS;
    if (row->computes & COMPUTES_FORWARD) return PHASE_FORWARD;
    if (row->computes) return PHASE_BACKWARD;
    if ((sums && x->calls == 0) || updates(t, x)) return PHASE_OPTIMIZER;
    if (x->calls > 0) return PHASE_COMM;
    if (row->stream != STREAM_COPY) return PHASE_OTHER;
    return row->subject == ABOUT_MICRO ? PHASE_INPUT : PHASE_COPY;
}

static bool is_same_way(const schedule_instr *x, const schedule_instr *y)
{
    return x->kind == y->kind && x->peer == y->peer;
}

static void number_message(const trainer *t, int i)
{
    const schedule_instr *x = &t->schedule.instr[i];
    spans_instr *s = &t->spans->instr[i];
    if (!instr_is_message(x)) return;
    s->way = instr_row_of(x->kind)->peers.channel;
    for (int k = 0; k < t->schedule.count; k++) {
        if (!is_same_way(x, &t->schedule.instr[k])) continue;
        s->message += k < i;
        s->messages++;
    }
}

static void fill_instrs(const trainer *t)
{
    trainer_spans *s = t->spans;
    int calls = 0;
    for (int i = 0; i < t->schedule.count; i++) {
        const schedule_instr *x = &t->schedule.instr[i];
        const int place = x->on_host ? PLACE_HOST : (int)instr_row_of(x->kind)->stream;
        s->instr[i] = (spans_instr){.place = place, .phase = phase_of(t, x), .first_call = calls};
        number_message(t, i);
        s->order[place][s->ordered[place]++] = i;
        calls += x->calls;
    }
    s->instr[t->schedule.count].first_call = calls;
}

status trainer_spans_allocate(trainer *t, err *e)
{
    status result = OK;
    const size_t count = (size_t)t->schedule.count;
    size_t calls = 0;
    for (size_t i = 0; i < count; i++) calls += (size_t)t->schedule.instr[i].calls;
    TRY(trainer_object(&t->spans, sizeof *t->spans, e));
    trainer_spans *s = t->spans;
    s->calls = (int)calls;
    TRY(memory_take(t->memory, BYTES_KERNELS, FROM_HOST,
                    (STAMPS * count + 2 * calls) * sizeof *s->stamp, &s->stamp, e));
    TRY(memory_table(t->memory, count + 1, sizeof *s->instr, &s->instr, e));
    for (int k = 0; k < PLACES; k++)
        TRY(memory_table(t->memory, count, sizeof **s->order, &s->order[k], e));
    TRY(memory_table(t->memory, calls, sizeof *s->visit, &s->visit, e));
    TRY(memory_table(t->memory, count, sizeof *s->wait, &s->wait, e));
    TRY(memory_table(t->memory, (size_t)t->plan->o.mesh.ranks, sizeof *s->waited_for,
                     &s->waited_for, e));
    if (!memory_is_counting(t->memory)) fill_instrs(t);
done:
    return result;
}

void trainer_spans_close(trainer *t)
{
    free(t->spans);
}

// ---- The rows

static int rank_of_stage(const trainer *t, int stage)
{
    int coord[AXES];
    memcpy(coord, t->plan->coord, sizeof coord);
    coord[AXIS_PP] = stage;
    return mesh_rank(&t->plan->o.mesh, coord);
}

static double flops_of(const trainer *t, const schedule_instr *x)
{
    const unsigned computes = instr_row_of(x->kind)->computes;
    if (!computes) return 0;
    const graph_flops f = t->model->block[x->index].g->flops;
    if (computes & COMPUTES_FORWARD) return f.forward;
    return computes == (COMPUTES_DGRAD | COMPUTES_WGRAD) ? f.backward : f.backward / 2;
}

static void fill_row(const trainer *t, int i, spans_row *out, text *name)
{
    const schedule_instr *x = &t->schedule.instr[i];
    const spans_instr *s = &t->spans->instr[i];
    const instr_subject about = instr_row_of(x->kind)->subject;
    *out = (spans_row){.kind = SPANS_INSTR,
                       .phase = (int32_t)s->phase,
                       .stream = s->place == PLACE_HOST ? -1 : s->place,
                       .parent = -1,
                       .instr = i,
                       .call = -1,
                       .peer = s->messages > 0 ? rank_of_stage(t, x->peer) : -1,
                       .micro = about == ABOUT_MICRO || about == ABOUT_BLOCK ? x->micro : -1,
                       .flops = flops_of(t, x)};
    for (int k = 0; k < x->calls; k++)
        out->bytes += (uint64_t)t->schedule.call[x->first_call + k].bytes;
    text_clear(name);
    instr_print(x, name);
    snprintf(out->name, sizeof out->name, "%s", name->chars ? name->chars : "");
}

static void fill_call(const trainer *t, int i, int k, const spans_row *parent, spans_row *out)
{
    char name[MESH_NAME_BYTES];
    const schedule_call *c = &t->schedule.call[t->schedule.instr[i].first_call + k];
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
             process_group_name(&t->plan->o.mesh, c->group, name));
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

status trainer_list_rows(const trainer *t, spans_row **rows, uint32_t *count, err *e)
{
    status result = OK;
    text name = {0};
    spans_row *next;
    *count = spans_host_row(t, SPANS_KINDS);
    TRY(alloc_zeroed(rows, *count, sizeof **rows, "a record of spans", e));
    next = *rows + t->schedule.count;
    for (int i = 0; i < t->schedule.count; i++) {
        fill_row(t, i, *rows + i, &name);
        for (int k = 0; k < t->schedule.instr[i].calls; k++) fill_call(t, i, k, *rows + i, next++);
    }
    fill_host_rows(next);
    TRY(text_check(&name, e));
done:
    text_clear(&name);
    return result;
}

// ---- Stamps

void trainer_time_steps(trainer *t)
{
    trainer_spans *s = t->spans;
    s->times = trainer_ops(t)->stamp != NULL;
    for (int a = 0; s->times && a < AXES; a++)
        if (trainer_group(t, GROUP_PASSES + a))
            trainer_group(t, GROUP_PASSES + a)->timed = &s->pass;
}

void trainer_write_spans(trainer *t, spans *record)
{
    t->spans->record = record;
    if (record && t->spans->end_ns && !t->spans->is_folded) trainer_spans_fold(t);
}

static void show_running(const trainer *t, int row)
{
    const spans *record = t->spans->record;
    if (record) atomic_store_explicit(&record->head->running, row, memory_order_relaxed);
}

void trainer_spans_begin_step(trainer *t)
{
    trainer_spans *s = t->spans;
    if (!s->times) return;
    const size_t stamps = (size_t)(STAMPS * t->schedule.count + 2 * s->calls);
    s->runs = true;
    s->waits = 0;
    memset(s->stamp, 0, stamps * sizeof *s->stamp);
    for (int i = 0; i < s->calls; i++) s->visit[i] = COMM_VISIT_NONE;
    s->begin_ns = clock_ns();
    s->gap_ns = s->end_ns ? s->begin_ns - s->end_ns : 0;
}

void trainer_spans_end_step(trainer *t, const trainer_step_result *done)
{
    trainer_spans *s = t->spans;
    if (!s->runs) return;
    s->runs = false;
    show_running(t, -1);
    if (done->exhausted) return;
    s->end_ns = clock_ns();
    s->last = *done;
    s->is_folded = false;
    if (s->record) trainer_spans_fold(t);
}

// The instruction that runs is number pass.next of the list.
static void stamp(trainer *t, const schedule_instr *x, int which)
{
    const trainer_spans *s = t->spans;
    int64_t *slot = &spans_stamps(t, t->pass.next)[which];
    if (s->instr[t->pass.next].place == PLACE_HOST)
        *slot = clock_ns();
    else
        trainer_ops(t)->stamp(trainer_stream(t, instr_row_of(x->kind)->stream), slot);
}

void trainer_span_arrive(trainer *t, const schedule_instr *x)
{
    trainer_spans *s = t->spans;
    if (!s->runs) return;
    stamp(t, x, STAMP_ARRIVE);
    show_running(t, t->pass.next);
    if (!instr_row_of(x->kind)->computes) return;
    const trainer_call_spans calls = trainer_spans_of_calls(t);
    s->pass = (comm_timed){.stamp = calls.stamp, .visit = calls.visit, .calls = x->calls};
}

void trainer_span_begin(trainer *t, const schedule_instr *x)
{
    if (t->spans->runs) stamp(t, x, STAMP_BEGIN);
}

void trainer_span_end(trainer *t, const schedule_instr *x)
{
    t->spans->pass.calls = 0;
    if (t->spans->runs) stamp(t, x, STAMP_END);
}

trainer_call_spans trainer_spans_of_calls(trainer *t)
{
    const trainer_spans *s = t->spans;
    if (!s->runs) return (trainer_call_spans){.stamp = NULL};
    const int first = s->instr[t->pass.next].first_call;
    return (trainer_call_spans){spans_call_stamps(t, first), s->visit + first};
}

// ---- The host

void trainer_spans_add_wait(trainer *t, spans_phase phase, int64_t begin_ns)
{
    trainer_spans *s = t->spans;
    if (!s->runs || s->waits == t->schedule.count) return;
    s->wait[s->waits++] = (spans_wait){phase, begin_ns, clock_ns()};
}

void trainer_begin_span(trainer *t, spans_kind kind)
{
    show_running(t, (int)spans_host_row(t, kind));
}

void trainer_end_span(trainer *t, spans_kind kind, int64_t begin_ns)
{
    const trainer_spans *s = t->spans;
    show_running(t, -1);
    if (!s->record) return;
    spans_add(s->record, &(span){.begin_ns = begin_ns,
                                 .duration_ns = clock_ns() - begin_ns,
                                 .row = spans_host_row(t, kind),
                                 .step = (uint32_t)trainer_steps_done(t),
                                 .last = -1});
}
