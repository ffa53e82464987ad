// trace_calls.c -- writes the file of the calls of all ranks (trace_perfetto.h).
#include "monitor/trace/trace_packets.h"
#include "monitor/trace/trace_perfetto.h"

#include <stdio.h>
#include <stdlib.h>

// Ids of tracks lie between those of the rank's own file (trace_perfetto.c).
enum { TRACKS_OF_RANK = 32, PROCESS_TRACK = 16, CALLS_TRACK = 24 };

void trace_perfetto_calls_begin(int ranks, text *out)
{
    packets_describe_process(out, &(packet_process){.track = PROCESS_TRACK,
                                                    .id = TRACE_FIRST_PROCESS + ranks,
                                                    .name = "calls of all ranks"});
}

// What the rank waited for the last one, and the call from then on.
static status add_call(packets *p, const trace_rank *r, const trace_slice *s, err *e)
{
    status result = OK;
    const span *x = &r->span[s->span];
    const spans_row *row = trace_row(r, s->span);
    const int64_t room = s->end_ns - s->begin_ns;
    const int64_t waited = x->waited_ns < room ? x->waited_ns : room;
    int name, wait;
    TRY(packet_string(p->strings, row->name, &name, e));
    TRY(packet_string(p->strings, "wait", &wait, e));
    if (waited > 0) {
        TRY(packets_slice(p, wait, -1, e));
        if (x->last >= 0) packets_fact(p, FACT_LAST, (uint64_t)x->last);
        packets_add(p, s->begin_ns);
        packets_slice_end(p, s->begin_ns + waited);
    }
    TRY(packets_slice(p, name, -1, e));
    if (r->flow[s->span]) packets_flow(p, r->flow[s->span]);
    packets_add(p, s->begin_ns + waited);
    packets_slice_end(p, s->end_ns);
done:
    return result;
}

// The calls of one stream, without the instructions around them.
static status add_stream(const trace_rank *r, const trace_machine *m, trace_track t,
                         packet_strings *strings, text *out, err *e)
{
    status result = OK;
    trace_slice *slices = NULL;
    size_t count = 0, first = 0;
    packets p = {0};
    char name[128];
    const spans_head *h = r->record->head;
    const uint32_t id = (uint32_t)(h->rank * TRACE_TRACKS + (int)t);
    const uint64_t track = ((uint64_t)h->rank + 1) * TRACKS_OF_RANK + CALLS_TRACK + t;
    TRY(trace_rank_slices(r, t, &slices, &count, e));
    while (first < count && !slices[first].is_call) first++;
    if (first == count) goto done;
    snprintf(name, sizeof name, "rank %d (host %s) %s", h->rank, h->host, trace_track_name(t));
    packets_describe_track(out, track, PROCESS_TRACK, name, (int)id);
    TRY(packets_begin(&p, out, strings, id + 1, track, m->offset_ns, e));
    for (size_t i = first; i < count; i++)
        if (slices[i].is_call) TRY(add_call(&p, r, &slices[i], e));
done:
    packets_clear(&p);
    free(slices);
    return result;
}

status trace_perfetto_calls(const trace_rank *r, const trace_machine *m, text *out, err *e)
{
    status result = OK;
    packet_strings strings = {0};
    for (int t = 0; t < TRACE_TRACKS; t++) TRY(add_stream(r, m, (trace_track)t, &strings, out, e));
    TRY(text_check(out, e));
done:
    packet_strings_clear(&strings);
    return result;
}
