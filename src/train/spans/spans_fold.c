// spans_fold.c -- makes spans of the stamps of a step, and divides the step into phases. Called by spans.c when all
// streams are idle. It knows no kind of instruction.
#include "base/clock.h"
#include "base/proc.h"
#include "parallel/calls.h"
#include "train/spans/spans_private.h"

// ---- Times

// Makes times of clock_ns of an instruction's stamps. A begin that was not stamped is the arrival.
static void convert(trainer *t, int i, int64_t offset)
{
    const int64_t by = t->spans->instr[i].place == PLACE_HOST ? 0 : offset;
    int64_t *stamp = spans_stamps(t, i);
    if (!stamp[STAMP_ARRIVE]) return;
    if (!stamp[STAMP_BEGIN]) stamp[STAMP_BEGIN] = stamp[STAMP_ARRIVE];
    if (stamp[STAMP_END] < stamp[STAMP_BEGIN]) stamp[STAMP_END] = stamp[STAMP_BEGIN];
    for (int k = 0; k < STAMPS; k++) stamp[k] += by;
}

static void convert_all(trainer *t)
{
    const device_ops *ops = trainer_ops(t);
    const int64_t offset = ops->clock_offset ? ops->clock_offset(t->o.device) : 0;
    int64_t *of_calls = spans_call_stamps(t, 0);
    for (int i = 0; i < t->schedule.count; i++) convert(t, i, offset);
    for (int k = 0; offset && k < 2 * t->spans->calls; k++)
        if (of_calls[k]) of_calls[k] += offset;
}

// ---- Spans

// Makes visit->last, a member of the call's communicator, the rank of the run that it is.
static void find_last(const trainer *t, const schedule_call *call, comm_visit *visit)
{
    const comm *c = trainer_group(t, call->array == IN_SUMS ? GROUP_AGREE : call->group);
    if (!c && call->array == IN_VALUES) // of a pass
        c = trainer_group(t, GROUP_PASSES + (int)mesh_first_axis((mesh_axes)call->group));
    const bool knows = visit->last >= 0 && c && c->ops->rank_of;
    visit->last = knows ? c->ops->rank_of(c, visit->last) : -1;
}

// A message runs as long as its instruction, and so do the sums of a step. Another call without stamps did not run.
static void add_call(const trainer *t, int i, int k, span *x)
{
    const trainer_spans *s = t->spans;
    const spans_instr *own = &s->instr[i];
    const int number = own->first_call + k;
    const int64_t *stamp = spans_call_stamps(t, number);
    const bool is_whole =
        own->messages || t->schedule.call[t->schedule.instr[i].first_call + k].array == IN_SUMS;
    if (!stamp[0] && !is_whole) return;
    if (!is_whole) {
        x->begin_ns = stamp[0];
        x->duration_ns = stamp[1] > stamp[0] ? stamp[1] - stamp[0] : 0;
    }
    x->row = (uint32_t)(t->schedule.count + number);
    x->waited_ns = s->visit[number].waited_ns;
    x->last = s->visit[number].last;
    spans_add(s->record, x);
}

// Sums what the calls of an instruction met.
static comm_visit visit_of(const trainer *t, int i)
{
    const schedule_instr *x = &t->schedule.instr[i];
    comm_visit *visit = &t->spans->visit[t->spans->instr[i].first_call], sum = COMM_VISIT_NONE;
    for (int k = 0; k < x->calls; k++) {
        find_last(t, &t->schedule.call[x->first_call + k], &visit[k]);
        comm_visit_join(&sum, &visit[k]);
    }
    return sum;
}

static void add_spans(trainer *t, int i, spans_step *step)
{
    const spans_instr *own = &t->spans->instr[i];
    const int64_t *stamp = spans_stamps(t, i);
    if (!stamp[STAMP_ARRIVE]) return;
    const comm_visit visit = visit_of(t, i);
    span x = {.begin_ns = stamp[STAMP_BEGIN],
              .duration_ns = stamp[STAMP_END] - stamp[STAMP_BEGIN],
              .waited_ns = visit.waited_ns,
              .row = (uint32_t)i,
              .step = (uint32_t)step->step,
              .last = visit.last,
              .peer_span = spans_message_number(own, step->step)};
    spans_add(t->spans->record, &x);
    for (int k = 0; k < t->schedule.instr[i].calls; k++) add_call(t, i, k, &x);
    step->waited_ns += visit.waited_ns;
    if (visit.last < 0 || visit.last >= t->plan->o.mesh.ranks) return;
    int64_t *const sum = &t->spans->waited_for[visit.last];
    *sum += visit.waited_ns;
    if (*sum <= step->waited_for_ns) return;
    step->waited_for = visit.last;
    step->waited_for_ns = *sum;
}

// The row in which the rank waited longest for the rank that it waited for longest.
static void find_waited_row(const trainer *t, spans_step *step)
{
    int64_t longest = 0;
    for (int i = 0; step->waited_for >= 0 && i < t->schedule.count; i++)
        for (int k = 0; k < t->schedule.instr[i].calls; k++) {
            const comm_visit *v = &t->spans->visit[t->spans->instr[i].first_call + k];
            if (v->last != step->waited_for || v->waited_ns <= longest) continue;
            longest = v->waited_ns;
            step->waited_row = i;
        }
}

static void add_waits(const trainer *t, uint64_t step)
{
    const trainer_spans *s = t->spans;
    for (int i = 0; i < s->waits; i++) {
        const spans_wait *w = &s->wait[i];
        if (w->phase != PHASE_INPUT) continue;
        spans_add(s->record, &(span){.begin_ns = w->begin_ns,
                                     .duration_ns = w->end_ns - w->begin_ns,
                                     .row = spans_host_row(t, SPANS_LOADER),
                                     .step = (uint32_t)step,
                                     .last = -1});
    }
}

// ---- Phases

// What goes on at one moment. Of several phases the first one that is true is that of the moment.
typedef struct spans_moment {
    bool runs[SPANS_PHASES];
    bool waits; // the compute stream waits for others, or the host for files
    int64_t until_ns;
} spans_moment;

static void end_at(spans_moment *m, int64_t ns)
{
    if (ns < m->until_ns) m->until_ns = ns;
}

// Instructions of one place run one after the other, so `next` moves on with the time.
static void look_at_place(const trainer *t, int place, int *next, int64_t now, spans_moment *m)
{
    const trainer_spans *s = t->spans;
    while (*next < s->ordered[place] && spans_stamps(t, s->order[place][*next])[STAMP_END] <= now)
        ++*next;
    if (*next == s->ordered[place]) return;
    const int i = s->order[place][*next];
    const int64_t *stamp = spans_stamps(t, i);
    if (now < stamp[STAMP_ARRIVE]) {
        end_at(m, stamp[STAMP_ARRIVE]);
    } else if (now < stamp[STAMP_BEGIN]) {
        end_at(m, stamp[STAMP_BEGIN]);
        m->waits = m->waits || place == STREAM_COMPUTE;
        if (s->instr[i].phase == PHASE_INPUT) m->runs[PHASE_INPUT] = true; // for the loader
    } else {
        end_at(m, stamp[STAMP_END]);
        m->runs[s->instr[i].phase] = true;
    }
}

static void look_at_host(const trainer_spans *s, int *next, int64_t now, spans_moment *m)
{
    while (*next < s->waits && s->wait[*next].end_ns <= now) ++*next;
    if (*next == s->waits) return;
    const spans_wait *w = &s->wait[*next];
    end_at(m, now < w->begin_ns ? w->begin_ns : w->end_ns);
    if (now >= w->begin_ns) m->runs[w->phase] = true;
}

// A compute stream that waits where nothing runs waits for another stage to read a message.
static spans_phase phase_of(const trainer *t, const spans_moment *m)
{
    static const spans_phase first[] = {PHASE_FORWARD, PHASE_BACKWARD, PHASE_OPTIMIZER,
                                        PHASE_COMM,    PHASE_INPUT,    PHASE_COPY};
    for (size_t i = 0; i < sizeof first / sizeof *first; i++)
        if (m->runs[first[i]]) return first[i];
    return m->waits && t->plan->o.mesh.size[AXIS_PP] > 1 ? PHASE_COMM : PHASE_OTHER;
}

static void divide(const trainer *t, spans_step *step)
{
    const int64_t end = step->begin_ns + step->duration_ns;
    int next[PLACES] = {0}, host = 0;
    for (int64_t now = step->begin_ns, until; now < end; now = until) {
        spans_moment m = {.until_ns = end};
        for (int k = 0; k < PLACES; k++) look_at_place(t, k, &next[k], now, &m);
        look_at_host(t->spans, &host, now, &m);
        until = m.until_ns;
        step->phase_ns[phase_of(t, &m)] += until - now;
        if (m.runs[PHASE_COMM]) step->comm_ns += until - now;
    }
}

// While a pass makes a call, it does not compute.
static void divide_passes(const trainer *t, spans_step *step)
{
    const trainer_spans *s = t->spans;
    for (int i = 0; i < t->schedule.count; i++) {
        const spans_phase phase = s->instr[i].phase;
        if (phase != PHASE_FORWARD && phase != PHASE_BACKWARD) continue;
        for (int k = s->instr[i].first_call; k < s->instr[i + 1].first_call; k++) {
            const int64_t *stamp = spans_call_stamps(t, k), ns = stamp[1] - stamp[0];
            if (!stamp[0] || ns <= 0 || ns > step->phase_ns[phase]) continue;
            step->phase_ns[phase] -= ns;
            step->phase_ns[PHASE_COMM] += ns;
            step->comm_ns += ns;
        }
    }
    if (step->comm_ns > step->duration_ns) step->comm_ns = step->duration_ns;
}

// ---- The step

// A file that the process has mapped is no memory that a leak takes.
static void measure_memory(trainer *t, int64_t now)
{
    enum { EVERY_NS = 100000000 };
    trainer_spans *s = t->spans;
    const device *d = t->o.device;
    spans_head *head = s->record->head;
    if (s->measured_ns && now - s->measured_ns < EVERY_NS) return;
    s->measured_ns = now;
    s->bytes_now = d->is_host_memory ? proc_private_bytes() : d->bytes_now;
    atomic_store_explicit(&head->bytes_now, s->bytes_now, memory_order_relaxed);
    if (s->bytes_now > atomic_load_explicit(&head->bytes_peak, memory_order_relaxed))
        atomic_store_explicit(&head->bytes_peak, s->bytes_now, memory_order_relaxed);
}

void trainer_spans_fold(trainer *t)
{
    trainer_spans *s = t->spans;
    const uint64_t first = atomic_load_explicit(&s->record->head->spans, memory_order_relaxed);
    spans_step step = {.step = s->last.step,
                       .begin_ns = s->begin_ns,
                       .duration_ns = s->end_ns - s->begin_ns,
                       .gap_ns = s->gap_ns,
                       .waited_for = -1,
                       .waited_row = -1,
                       .first_span = first,
                       .skipped = s->last.skipped,
                       .loss = s->last.loss};
    s->is_folded = true;
    convert_all(t);
    memset(s->waited_for, 0, (size_t)t->plan->o.mesh.ranks * sizeof *s->waited_for);
    for (int i = 0; i < t->schedule.count; i++) add_spans(t, i, &step);
    add_waits(t, step.step);
    find_waited_row(t, &step);
    divide(t, &step);
    divide_passes(t, &step);
    measure_memory(t, s->end_ns);
    step.bytes_now = s->bytes_now;
    step.spans =
        (uint32_t)(atomic_load_explicit(&s->record->head->spans, memory_order_relaxed) - first);
    spans_add_step(s->record, &step);
}
