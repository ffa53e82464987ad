// simulated_trace.c -- see simulated_trace.h. The rows are those that a run would have (train/spans/spans_rows.h), and the
// step begins at 0 of a clock that all ranks share.
#include "session/plan/simulated_trace.h"

#include "base/alloc.h"
#include "base/file.h"
#include "monitor/trace/trace.h"
#include "train/spans/spans_rows.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct simulated_rank {
    const explained_times *t;
    int stage, steps;
    spans_list list;
    spans_instr *instr; // [instructions + 1]
    int *order[PLACES]; // instructions of each place
    int ordered[PLACES];
    spans *record;
} simulated_rank;

static int64_t ns_of(double seconds)
{
    return llround(1e9 * seconds);
}

static int64_t begin_of(const simulated_rank *r, int i)
{
    return ns_of(r->t->times.span[r->stage][i].start);
}

static int64_t end_of(const simulated_rank *r, int i)
{
    return ns_of(r->t->times.span[r->stage][i].end);
}

// ---- Phases, as train/spans/spans_fold.c divides a step

// Returns the phase of an instruction of this place that runs at `now`, or PHASE_OTHER, and shortens *until to the next
// change.
static spans_phase look_at_place(const simulated_rank *r, int place, int *next, int64_t now,
                                 int64_t *until)
{
    while (*next < r->ordered[place] && end_of(r, r->order[place][*next]) <= now) ++*next;
    if (*next == r->ordered[place]) return PHASE_OTHER;
    const int i = r->order[place][*next];
    const bool runs = begin_of(r, i) <= now;
    const int64_t change = runs ? end_of(r, i) : begin_of(r, i);
    if (change < *until) *until = change;
    return runs ? r->instr[i].phase : PHASE_OTHER;
}

// A stage in which nothing runs waits for another one.
static spans_phase first_of(const simulated_rank *r, const bool *runs)
{
    static const spans_phase first[] = {PHASE_FORWARD, PHASE_BACKWARD, PHASE_OPTIMIZER,
                                        PHASE_COMM,    PHASE_INPUT,    PHASE_COPY};
    for (size_t i = 0; i < sizeof first / sizeof *first; i++)
        if (runs[first[i]]) return first[i];
    return r->t->stages.count > 1 ? PHASE_COMM : PHASE_OTHER;
}

static void divide(const simulated_rank *r, spans_step *step)
{
    int next[PLACES] = {0};
    for (int64_t now = 0, until; now < step->duration_ns; now = until) {
        bool runs[SPANS_PHASES] = {false};
        until = step->duration_ns;
        for (int k = 0; k < PLACES; k++) runs[look_at_place(r, k, &next[k], now, &until)] = true;
        step->phase_ns[first_of(r, runs)] += until - now;
        if (runs[PHASE_COMM]) step->comm_ns += until - now;
    }
}

// While a pass makes a call, it does not compute.
static void divide_passes(const simulated_rank *r, spans_step *step)
{
    const schedule *s = r->list.schedule;
    for (int i = 0; i < s->count; i++) {
        const spans_phase phase = r->instr[i].phase;
        if (phase != PHASE_FORWARD && phase != PHASE_BACKWARD) continue;
        for (int k = s->instr[i].first_call; k < s->instr[i].first_call + s->instr[i].calls; k++) {
            const simulate_span *c = &r->t->times.call[r->stage][k];
            const int64_t ns = ns_of(c->end - c->start);
            if (ns > step->phase_ns[phase]) continue;
            step->phase_ns[phase] -= ns;
            step->phase_ns[PHASE_COMM] += ns;
            step->comm_ns += ns;
        }
    }
}

// ---- The record of a rank

static void fill_head(const simulated_rank *r, spans_head *h)
{
    const plan *p = r->list.plan;
    const planner_machine *m = r->t->machine;
    const char *name = m->name ? m->name : "";
    size_t used = 0;
    memset(h, 0, sizeof *h);
    h->rank = mesh_rank(&p->o.mesh, p->coord);
    h->ranks = p->o.mesh.ranks;
    h->stage = r->stage;
    h->step_flops = r->t->prediction.flops / p->o.mesh.ranks;
    snprintf(h->host, sizeof h->host, "simulated");
    snprintf(h->boot, sizeof h->boot, SPANS_SIMULATED);
    snprintf(h->device, sizeof h->device, "%.*s", TEXT_CUT(name, sizeof h->device - 1));
    for (int a = 0; a < AXES && used < sizeof h->place; a++)
        if (p->o.mesh.size[a] > 1)
            used += (size_t)snprintf(h->place + used, sizeof h->place - used, "%s%s %d",
                                     used ? " " : "", axis_name((axis)a), p->coord[a]);
}

static void add_span(const simulated_rank *r, const simulate_span *x, int row, int instr)
{
    spans_add(r->record,
              &(span){.begin_ns = ns_of(x->start),
                      .duration_ns = ns_of(x->end) - ns_of(x->start),
                      .row = (uint32_t)row,
                      .step = (uint32_t)r->steps,
                      .last = -1,
                      .peer_span = spans_message_number(&r->instr[instr], (uint64_t)r->steps)});
}

static void add_spans(const simulated_rank *r)
{
    const schedule *s = r->list.schedule;
    for (int i = 0; i < s->count; i++) {
        add_span(r, &r->t->times.span[r->stage][i], i, i);
        for (int k = 0; k < s->instr[i].calls; k++) {
            const simulate_span *call = &r->t->times.call[r->stage][s->instr[i].first_call + k];
            if (call->end > 0) add_span(r, call, s->count + r->instr[i].first_call + k, i);
        }
    }
}

// All steps are alike, and the spans are those of the last one.
static void add_steps(const simulated_rank *r)
{
    spans_step step = {
        .duration_ns = ns_of(r->t->times.seconds), .waited_for = -1, .waited_row = -1, .loss = NAN};
    divide(r, &step);
    divide_passes(r, &step);
    for (int i = 1; i < r->steps; i++) {
        step.step = (uint64_t)i;
        step.begin_ns = (i - r->steps) * step.duration_ns;
        spans_add_step(r->record, &step);
    }
    step.step = (uint64_t)r->steps;
    step.begin_ns = 0;
    step.spans = (uint32_t)atomic_load(&r->record->head->spans);
    spans_add_step(r->record, &step);
}

static status order_instrs(simulated_rank *r, err *e)
{
    status result = OK;
    const size_t count = (size_t)r->list.schedule->count;
    TRY(alloc_zeroed(&r->instr, count + 1, sizeof *r->instr, "a predicted step", e));
    for (int k = 0; k < PLACES; k++)
        TRY(alloc_array(&r->order[k], count, sizeof **r->order, "a predicted step", e));
    spans_list_instrs(&r->list, r->instr);
    for (size_t i = 0; i < count; i++) {
        int place = r->instr[i].place;
        if (!r->t->machine->costs.streams_apart && place != PLACE_HOST) place = STREAM_COMPUTE;
        r->order[place][r->ordered[place]++] = (int)i;
    }
done:
    return result;
}

static status write_rank(const simulated_rank *of, const model *m, const char *folder, err *e)
{
    status result = OK;
    simulated_rank r = *of;
    spans_row *rows = NULL;
    char *path = NULL;
    spans_head head;
    uint32_t count;
    r.list = (spans_list){r.t->stages.plan_of[r.stage], r.t->stages.train_of[r.stage], m};
    TRY(order_instrs(&r, e));
    TRY(spans_list_rows(&r.list, &rows, &count, e));
    fill_head(&r, &head);
    TRY(run_view_spans_path(folder, head.rank, &path, e));
    // A reader takes the oldest place of a full record for one that is being written.
    const spans_room room = {.steps = (uint32_t)r.steps + 1, .ring = 2 * count};
    TRY(spans_create(path, &head, rows, count, room, &r.record, e));
    add_spans(&r);
    add_steps(&r);
done:
    spans_finish(r.record);
    for (int k = 0; k < PLACES; k++) free(r.order[k]);
    free(r.instr);
    free(rows);
    free(path);
    return result;
}

// ---- The folder

// Removes the records of an earlier predicted step. Those of a run stay.
static status clear_folder(const char *folder, err *e)
{
    status result = OK;
    run_view *v = NULL;
    char *path = NULL;
    bool simulated = false;
    TRY(file_join(folder, "spans", &path, e));
    if (!file_exists(path)) goto done;
    TRY(run_view_open(folder, &v, e));
    for (int r = 0; r < v->ranks; r++)
        if (v->rank[r]) simulated = strcmp(v->rank[r]->head->boot, SPANS_SIMULATED) == 0;
    if (!simulated || v->start)
        FAIL(E_USAGE, "--trace: %s holds a run; valid: another folder", file_shown(folder));
    TRY(file_remove_tree(path, e));
done:
    run_view_close(v);
    free(path);
    return result;
}

static status write_records(const explained_times *t, const model *m, int steps, const char *folder,
                            err *e)
{
    status result = OK;
    TRY(clear_folder(folder, e));
    for (int k = 0; k < t->stages.count; k++) {
        const simulated_rank r = {.t = t, .stage = k, .steps = steps};
        TRY(write_rank(&r, m, folder, e));
    }
done:
    return result;
}

// The archive has one step. The records have as many as a verdict takes.
status simulated_trace_write(const job *j, const session_inputs *in, const explained_times *t,
                             const char *folder, err *e)
{
    enum { STEPS_OF_VERDICT = 11 }; // the first one does not count
    status result = OK;
    trainer_options o = {0};
    model *m = NULL;
    run_view *v = NULL;
    char *archive = NULL;
    TRY(session_options(j, in, j->launch.ranks, &o, e));
    TRY(session_open_model(&o, &m, e));
    TRY(write_records(t, m, 1, folder, e));
    TRY(run_view_open(folder, &v, e));
    TRY(file_join(folder, "step.tar", &archive, e));
    TRY(trace_write_perfetto(v, archive, e));
    TRY(write_records(t, m, STEPS_OF_VERDICT, folder, e));
done:
    run_view_close(v);
    free(archive);
    model_close(m);
    session_options_clear(&o);
    return result;
}
