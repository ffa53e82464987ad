// trace_perfetto.c -- writes the trace of one rank in Perfetto's format (trace_perfetto.h).
#include "monitor/trace/trace_perfetto.h"

#include "base/alloc.h"
#include "monitor/trace/trace_packets.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Tracks have ids that are unique in the archive: a rank has 32 of them.
enum {
    TRACKS_OF_RANK = 32,
    STEPS_TRACK = 6,
    MEMORY_TRACK = 8,
    PLAN_TRACK = 9, // and the following, one for each category
    STEPS_SEQUENCE = TRACE_TRACKS + 1,
    MEMORY_SEQUENCE,
};

typedef struct writer {
    const trace_rank *rank;
    const spans_head *head;
    text *out;
    uint64_t tracks; // id of the first one, which is the process
    packet_strings strings;
    int phase[SPANS_PHASES]; // strings
    char (*step_name)[32];   // [steps]
} writer;

// ---- Descriptions

static bool is_simulated(const writer *w)
{
    return strcmp(w->head->boot, SPANS_SIMULATED) == 0;
}

static void describe_process(const writer *w)
{
    char name[128], process[32];
    const char *labels[3] = {process};
    int count = 1;
    snprintf(name, sizeof name, "rank %d (host %s)", w->head->rank, w->head->host);
    if (is_simulated(w))
        snprintf(process, sizeof process, "predicted, not run");
    else
        snprintf(process, sizeof process, "process %lld", (long long)w->head->pid);
    if (w->head->place[0]) labels[count++] = w->head->place;
    if (w->head->device[0]) labels[count++] = w->head->device;
    packets_describe_process(w->out, &(packet_process){.track = w->tracks,
                                                       .id = TRACE_FIRST_PROCESS + w->head->rank,
                                                       .name = name,
                                                       .labels = labels,
                                                       .label_count = count});
}

static void describe_file(const writer *w, const trace_machine *m)
{
    static const char *const keys[] = {"trireme.rank", "trireme.clock_offset_ns",
                                       "trireme.clock_error_ns", "trireme.simulated"};
    const int64_t values[] = {w->head->rank, m->offset_ns, m->error_ns, is_simulated(w)};
    packets_describe_file(w->out, keys, values, is_simulated(w) ? 4 : 3);
}

// ---- Streams

static status add_facts(writer *w, packets *p, size_t number, err *e)
{
    status result = OK;
    const span *x = &w->rank->span[number];
    const spans_row *row = trace_row(w->rank, number);
    const bool is_call = row->kind == SPANS_CALL;
    // A call is inside its instruction, which has the step.
    if (!is_call) packets_fact(p, FACT_STEP, x->step);
    if (!is_call && row->micro >= 0) packets_fact(p, FACT_MICRO, (uint64_t)row->micro);
    if (row->flops > 0) packets_fact(p, FACT_FLOPS, (uint64_t)row->flops);
    if (row->bytes && (is_call || row->stream + 1 == TRACK_COPY))
        packets_fact(p, FACT_BYTES, row->bytes);
    if (is_call && row->group[0]) {
        int group;
        TRY(packet_string(&w->strings, row->group, &group, e));
        TRY(packets_fact_string(p, FACT_GROUP, group, e));
    }
    if (is_call && row->peer >= 0) packets_fact(p, FACT_PEER, (uint64_t)row->peer);
    if (w->rank->has_calls[number]) goto done; // they say it
    if (x->waited_ns > 0) packets_fact(p, FACT_WAITED, (uint64_t)x->waited_ns);
    if (x->last >= 0) packets_fact(p, FACT_LAST, (uint64_t)x->last);
done:
    return result;
}

static status add_slice(writer *w, packets *p, const trace_slice *s, err *e)
{
    status result = OK;
    const spans_row *row = trace_row(w->rank, s->span);
    int name;
    TRY(packet_string(&w->strings, row->name, &name, e));
    TRY(packets_slice(p, name, w->phase[row->phase], e));
    TRY(add_facts(w, p, s->span, e));
    packets_add(p, s->begin_ns);
done:
    return result;
}

static status add_slices(writer *w, packets *p, const trace_slice *s, size_t count, err *e)
{
    status result = OK;
    int64_t *ends = NULL; // of the slices that are open, the innermost last
    size_t depth = 0;
    TRY(alloc_array(&ends, count, sizeof *ends, "the slices of a trace", e));
    for (size_t i = 0; i < count; i++) {
        while (depth && ends[depth - 1] <= s[i].begin_ns) packets_slice_end(p, ends[--depth]);
        TRY(add_slice(w, p, &s[i], e));
        ends[depth++] = s[i].end_ns;
    }
    while (depth) packets_slice_end(p, ends[--depth]);
done:
    free(ends);
    return result;
}

static status add_stream(writer *w, trace_track t, err *e)
{
    status result = OK;
    trace_slice *slices = NULL;
    size_t count = 0;
    packets p = {0};
    const uint64_t track = w->tracks + 1 + t;
    TRY(trace_rank_slices(w->rank, t, &slices, &count, e));
    if (!count) goto done;
    packets_describe_track(w->out, track, w->tracks, trace_track_name(t),
                           t == TRACK_HOST ? TRACE_TRACKS : (int)t);
    TRY(packets_begin(&p, w->out, &w->strings, 1 + t, track, 0, e));
    TRY(add_slices(w, &p, slices, count, e));
done:
    packets_clear(&p);
    free(slices);
    return result;
}

// ---- Steps and memory

static status add_steps(writer *w, err *e)
{
    status result = OK;
    const trace_rank *r = w->rank;
    const uint64_t track = w->tracks + STEPS_TRACK;
    packets p = {0};
    packets_describe_track(w->out, track, w->tracks, "steps", 0);
    TRY(packets_begin(&p, w->out, &w->strings, STEPS_SEQUENCE, track, 0, e));
    TRY(alloc_zeroed(&w->step_name, r->steps, sizeof *w->step_name, "the steps of a trace", e));
    for (size_t i = 0; i < r->steps; i++) {
        const spans_step *s = &r->step[i];
        int name;
        snprintf(w->step_name[i], sizeof *w->step_name, "step %" PRIu64, s->step);
        TRY(packet_string(&w->strings, w->step_name[i], &name, e));
        TRY(packets_slice(&p, name, -1, e));
        packets_fact_number(&p, FACT_LOSS, s->loss);
        if (s->waited_ns > 0) packets_fact(&p, FACT_WAITED, (uint64_t)s->waited_ns);
        packets_add(&p, s->begin_ns);
        packets_slice_end(&p, s->begin_ns + s->duration_ns);
    }
done:
    packets_clear(&p);
    return result;
}

// The memory of now is known at the end of each step; the bytes of the plan do not change.
static status add_memory(writer *w, err *e)
{
    status result = OK;
    const trace_rank *r = w->rank;
    const uint64_t now = w->tracks + MEMORY_TRACK, plan = w->tracks + PLAN_TRACK;
    packets p = {0};
    packets_describe_counter(w->out, now, w->tracks, "memory", TRACE_TRACKS + 1);
    TRY(packets_begin(&p, w->out, &w->strings, MEMORY_SEQUENCE, now, 0, e));
    for (int m = 0; m < SPANS_MEMORIES; m++) {
        char name[64];
        if (!w->head->plan_bytes[m]) continue;
        snprintf(name, sizeof name, "plan: %s", spans_memory_word((spans_memory)m));
        packets_describe_counter(w->out, plan + (uint64_t)m, w->tracks, name, TRACE_TRACKS + 2 + m);
        packets_counter(&p, plan + (uint64_t)m, r->step[0].begin_ns, w->head->plan_bytes[m]);
    }
    for (size_t i = 0; i < r->steps; i++)
        packets_counter(&p, now, r->step[i].begin_ns + r->step[i].duration_ns,
                        r->step[i].bytes_now);
done:
    packets_clear(&p);
    return result;
}

// ---- The file

status trace_perfetto_rank(const trace_rank *r, const trace_machine *m, text *out, err *e)
{
    status result = OK;
    writer w = {.rank = r,
                .head = r->record->head,
                .out = out,
                .tracks = ((uint64_t)r->record->head->rank + 1) * TRACKS_OF_RANK};
    for (int f = 0; f < SPANS_PHASES; f++)
        TRY(packet_string(&w.strings, spans_phase_word((spans_phase)f), &w.phase[f], e));
    describe_file(&w, m);
    describe_process(&w);
    if (r->steps) {
        TRY(add_steps(&w, e));
        TRY(add_memory(&w, e));
    }
    for (int t = 0; t < TRACE_TRACKS; t++) TRY(add_stream(&w, (trace_track)t, e));
    TRY(text_check(out, e));
done:
    packet_strings_clear(&w.strings);
    free(w.step_name);
    return result;
}
