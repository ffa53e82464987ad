// spans.c -- see spans.h. It takes the stamps, and lists the rows of a record. Called by trainer.c, step.c and the
// instructions; the session asks for the rows, makes the file and gives it here.
#include "base/clock.h"
#include "base/proc.h"
#include "parallel/calls.h"
#include "parallel/instructions.h"
#include "train/spans/spans_private.h"

// ---- The instructions of the list

static spans_list list_of(const trainer *t)
{
    return (spans_list){.plan = t->plan, .schedule = &t->schedule, .model = t->model};
}

static void fill_instrs(const trainer *t)
{
    trainer_spans *s = t->spans;
    const spans_list list = list_of(t);
    spans_list_instrs(&list, s->instr);
    for (int i = 0; i < t->schedule.count; i++) {
        const int place = s->instr[i].place;
        s->order[place][s->ordered[place]++] = i;
    }
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

status trainer_list_rows(const trainer *t, spans_row **rows, uint32_t *count, err *e)
{
    const spans_list list = list_of(t);
    return spans_list_rows(&list, rows, count, e);
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
