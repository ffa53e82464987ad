// trace_kineto.c -- writes a trace as PyTorch's profiler does: a file of JSON for each rank, with events of the kinds
// that Holistic Trace Analysis and its like know (trace.h).
//
// These tools know three kinds of work by its name: communication is called as kernels of NCCL, copies as those of CUDA,
// and all else is computation. So calls and copies get such names, and the facts beside them say whose they are. Of
// slices that lie in each other the inner one is drawn, so that no two kernels of a stream overlap. The tools also want
// the launch of each kernel on the host, which they assign to a step: it is drawn where the kernel begins.
#include "base/alloc.h"
#include "base/file.h"
#include "monitor/trace/trace.h"
#include "monitor/trace/trace_clock.h"
#include "monitor/trace/trace_rank.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    FIRST_STREAM = 7, // of computation, as CUDA's profiler numbers the default stream
    HOST_THREAD = 1,  // with steps and launches
    WAIT_THREAD = 2,  // with the loader, evaluations and checkpoints
    // Holistic Trace Analysis 0.5.0 stores these in the smallest integer type, and the numbers of events in the same one.
    FIRST_CORRELATION = 1 << 20,
};

typedef struct kineto {
    const trace_rank *rank;
    const spans_head *head;
    int64_t
        shift_ns; // added to a time of the rank: from the trace's begin, on the first machine's clock
    int64_t correlation;
    text *out;
} kineto;

// ---- One event

// Microseconds with three decimals.
static void add_time(text *t, const char *key, int64_t ns)
{
    const char *sign = ns < 0 ? "-" : "";
    const uint64_t size = ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns;
    text_addf(t, ", \"%s\": %s%" PRIu64 ".%03" PRIu64, key, sign, size / 1000, size % 1000);
}

static void begin_event(kineto *k, const char *category, const char *name, int64_t pid, int64_t tid,
                        int64_t begin_ns, int64_t end_ns)
{
    text *t = k->out;
    text_addf(t, ",\n{\"ph\": \"X\", \"cat\": \"%s\", \"name\": ", category);
    text_add_json(t, name);
    text_addf(t, ", \"pid\": %" PRId64 ", \"tid\": %" PRId64, pid, tid);
    add_time(t, "ts", begin_ns + k->shift_ns);
    add_time(t, "dur", end_ns > begin_ns ? end_ns - begin_ns : 0);
    text_add(t, ", \"args\": {");
}

static void end_event(kineto *k)
{
    text_add(k->out, "}}");
}

static void add_name(kineto *k, const char *what, int64_t pid, int64_t tid, const char *name)
{
    text_addf(k->out,
              ",\n{\"ph\": \"M\", \"name\": \"%s\", \"pid\": %" PRId64 ", \"tid\": %" PRId64
              ", \"ts\": 0.000, \"args\": {\"%s\": ",
              what, pid, tid, strcmp(what, "process_labels") == 0 ? "labels" : "name");
    text_add_json(k->out, name);
    text_add(k->out, "}}");
}

// ---- Kernels

static const char *nccl_kernel(const char *call)
{
    static const char *const names[][2] = {
        {"all_reduce", "ncclDevKernel_AllReduce"},
        {"reduce_scatter", "ncclDevKernel_ReduceScatter"},
        {"all_gather", "ncclDevKernel_AllGather"},
        {"broadcast", "ncclDevKernel_Broadcast"},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(call, names[i][0]) == 0) return names[i][1];
    return "ncclDevKernel_SendRecv";
}

static void name_kernel(const spans_row *row, text *name)
{
    if (row->kind == SPANS_CALL)
        text_add(name, nccl_kernel(row->name));
    else if (row->phase == PHASE_COMM)
        text_addf(name, "ncclDevKernel (%s)", row->name);
    else if (row->stream + 1 == TRACK_COPY)
        text_addf(name, "Memcpy %s (%s)", strstr(row->name, "OUT") ? "DtoH" : "HtoD", row->name);
    else
        text_add(name, row->name);
}

static void add_call_facts(text *t, const trace_rank *r, size_t i)
{
    const spans_row *row = trace_row(r, i);
    text_add(t, ", \"Collective name\": ");
    text_add_json(t, row->name);
    text_add(t, ", \"Process Group Name\": ");
    text_add_json(t, row->group);
    if (row->peer >= 0) text_addf(t, ", \"Peer rank\": %d", row->peer);
    text_addf(t, ", \"waited_ns\": %" PRId64 ", \"last_arriver\": %d", r->span[i].waited_ns,
              r->span[i].last);
}

static const spans_step *step_of(const trace_rank *r, uint32_t number)
{
    for (size_t i = 0; i < r->steps; i++)
        if ((uint32_t)r->step[i].step == number) return &r->step[i];
    return NULL;
}

// Tools assign a kernel to the step in which it was launched.
static void add_launch(kineto *k, const span *x, int64_t begin_ns)
{
    const spans_step *s = step_of(k->rank, x->step);
    if (s && begin_ns < s->begin_ns) begin_ns = s->begin_ns;
    if (s && begin_ns >= s->begin_ns + s->duration_ns) begin_ns = s->begin_ns + s->duration_ns - 1;
    begin_event(k, "cuda_runtime", "cudaLaunchKernel", k->head->pid, HOST_THREAD, begin_ns,
                begin_ns);
    text_addf(k->out, "\"External id\": %" PRId64 ", \"correlation\": %" PRId64, k->correlation,
              k->correlation);
    end_event(k);
}

static void add_kernel(kineto *k, const trace_slice *s, int64_t begin_ns, int64_t end_ns)
{
    const span *x = &k->rank->span[s->span];
    const spans_row *row = trace_row(k->rank, s->span);
    const int stream = FIRST_STREAM + row->stream;
    text name = {0};
    // What is left of an instruction around its calls is no kernel.
    if (end_ns <= begin_ns) return;
    if (row->phase == PHASE_COMM && k->rank->has_calls[s->span]) return;
    k->correlation++;
    name_kernel(row, &name);
    add_launch(k, x, begin_ns);
    begin_event(k, row->stream + 1 == TRACK_COPY ? "gpu_memcpy" : "kernel",
                name.chars ? name.chars : "", k->head->local_rank, stream, begin_ns, end_ns);
    text_addf(k->out,
              "\"External id\": %" PRId64 ", \"queued\": 0, \"device\": %d, \"context\": 1, "
              "\"stream\": %d, \"correlation\": %" PRId64,
              k->correlation, k->head->local_rank, stream, k->correlation);
    if (row->bytes) text_addf(k->out, ", \"bytes\": %" PRIu64, row->bytes);
    if (row->flops > 0) text_addf(k->out, ", \"flops\": %" PRIu64, (uint64_t)row->flops);
    if (row->kind == SPANS_CALL) add_call_facts(k->out, k->rank, s->span);
    end_event(k);
    text_clear(&name);
}

// Walks through the slices of a stream, and draws the innermost one of each moment.
static status add_stream(kineto *k, trace_track t, err *e)
{
    status result = OK;
    trace_slice *s = NULL;
    size_t *open = NULL, count = 0, depth = 0;
    int64_t now = 0;
    TRY(trace_rank_slices(k->rank, t, &s, &count, e));
    TRY(alloc_array(&open, count, sizeof *open, "the slices of a trace", e));
    for (size_t i = 0; i <= count; i++) {
        const int64_t until = i < count ? s[i].begin_ns : INT64_MAX;
        while (depth && s[open[depth - 1]].end_ns <= until) {
            const trace_slice *x = &s[open[--depth]];
            add_kernel(k, x, now, x->end_ns);
            now = x->end_ns;
        }
        if (i == count) break;
        if (depth) add_kernel(k, &s[open[depth - 1]], now, until);
        now = until;
        open[depth++] = i;
    }
done:
    free(open);
    free(s);
    return result;
}

// ---- The host

static void add_steps(kineto *k)
{
    for (size_t i = 0; i < k->rank->steps; i++) {
        const spans_step *s = &k->rank->step[i];
        char name[48];
        snprintf(name, sizeof name, "ProfilerStep#%" PRIu64, s->step);
        begin_event(k, "user_annotation", name, k->head->pid, HOST_THREAD, s->begin_ns,
                    s->begin_ns + s->duration_ns);
        end_event(k);
    }
}

static status add_host(kineto *k, err *e)
{
    status result = OK;
    trace_slice *s = NULL;
    size_t count = 0;
    TRY(trace_rank_slices(k->rank, TRACK_HOST, &s, &count, e));
    for (size_t i = 0; i < count; i++) {
        const spans_row *row = trace_row(k->rank, s[i].span);
        const char *name =
            row->kind == SPANS_LOADER ? "enumerate(DataLoader)#trireme.__next__" : row->name;
        begin_event(k, "user_annotation", name, k->head->pid, WAIT_THREAD, s[i].begin_ns,
                    s[i].end_ns);
        end_event(k);
    }
done:
    free(s);
    return result;
}

// ---- A file

// Tools find the rank in the first line that has "rank": and a number.
static void add_head(kineto *k, int64_t base_ns)
{
    const spans_head *h = k->head;
    text *t = k->out;
    text_addf(t,
              "{\n\"schemaVersion\": 1,\n\"distributedInfo\": {\"backend\": \"trireme\", \"rank\": "
              "%d, \"world_size\": %d, \"pg_count\": 0, \"pg_config\": []},\n"
              "\"deviceProperties\": [{\"id\": %d, \"name\": ",
              h->rank, h->ranks, h->local_rank);
    text_add_json(t, h->device);
    text_addf(t,
              "}],\n\"displayTimeUnit\": \"ms\",\n\"baseTimeNanoseconds\": %" PRId64
              ",\n\"traceEvents\": [\n",
              base_ns);
    text_addf(t,
              "{\"ph\": \"M\", \"name\": \"process_name\", \"pid\": %lld, \"tid\": 0, \"ts\": "
              "0.000, \"args\": {\"name\": \"trireme\"}}",
              (long long)h->pid);
    add_name(k, "process_labels", h->pid, 0, h->host);
    add_name(k, "thread_name", h->pid, HOST_THREAD, "steps");
    add_name(k, "thread_name", h->pid, WAIT_THREAD, "host");
    for (int i = TRACK_COMPUTE; i < TRACE_TRACKS; i++)
        add_name(k, "thread_name", h->local_rank, FIRST_STREAM + i - TRACK_COMPUTE,
                 trace_track_name((trace_track)i));
}

typedef struct kineto_origin {
    int64_t begin_ns, base_ns; // of the trace, on the first machine's clock; and since 1970
} kineto_origin;

static status write_rank(const run_view *cut, int rank, const trace_machine *m,
                         const kineto_origin *time, const char *folder, err *e)
{
    status result = OK;
    trace_rank r = {0};
    text t = {0}, path = {0};
    TRY(trace_rank_read(cut->rank[rank], &r, e));
    kineto k = {.rank = &r,
                .head = cut->rank[rank]->head,
                .shift_ns = m->offset_ns - time->begin_ns,
                .correlation = FIRST_CORRELATION,
                .out = &t};
    add_head(&k, time->base_ns);
    add_steps(&k);
    TRY(add_host(&k, e));
    for (int i = TRACK_COMPUTE; i < TRACE_TRACKS; i++) TRY(add_stream(&k, (trace_track)i, e));
    text_addf(&t, "\n],\n\"traceName\": \"rank-%05d.json\"\n}\n", rank);
    text_addf(&path, "%s/rank-%05d.json", folder, rank);
    TRY(text_check(&t, e));
    TRY(text_check(&path, e));
    TRY(file_replace(path.chars, t.chars, t.bytes, e));
done:
    trace_rank_clear(&r);
    text_clear(&t);
    text_clear(&path);
    return result;
}

// The begin of the first step of any rank.
static kineto_origin begin_of(const run_view *cut, const trace_clocks *c)
{
    kineto_origin t = {.begin_ns = INT64_MAX};
    for (int r = 0; r < cut->ranks; r++) {
        spans_step s;
        if (!cut->rank[r] || !spans_read_step(cut->rank[r], 0, &s)) continue;
        const int64_t begin = s.begin_ns + c->machine[c->of[r]].offset_ns;
        if (begin < t.begin_ns) t.begin_ns = begin;
    }
    if (t.begin_ns == INT64_MAX) t.begin_ns = 0;
    t.base_ns = t.begin_ns + c->machine[0].head->clock.realtime_ns;
    return t;
}

status trace_write_kineto(const run_view *cut, const char *folder, err *e)
{
    status result = OK;
    trace_clocks c = {0};
    TRY(trace_clocks_find(cut, &c, e));
    TRY(file_make_directories(folder, e));
    const kineto_origin time = begin_of(cut, &c);
    for (int r = 0; r < cut->ranks; r++)
        if (cut->rank[r]) TRY(write_rank(cut, r, &c.machine[c.of[r]], &time, folder, e));
done:
    trace_clocks_clear(&c);
    return result;
}
