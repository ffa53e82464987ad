// trace_rank.c -- reads a rank of a trace (trace_rank.h), and orders its slices.
#include "monitor/trace/trace_rank.h"

#include "base/alloc.h"
#include "monitor/trace/trace_flow.h"

#include <stdlib.h>

const char *trace_track_name(trace_track t)
{
    static const char *const names[] = {[TRACK_HOST] = "host",
                                        [TRACK_COMPUTE] = "compute",
                                        [TRACK_COMM] = "communication",
                                        [TRACK_COPY] = "copy"};
    return names[t];
}

// ---- What the record has

static int64_t end_of(const span *x)
{
    return x->begin_ns + x->duration_ns;
}

static status read_spans(trace_rank *r, err *e)
{
    status result = OK;
    uint64_t from = 0;
    const uint64_t most = atomic_load(&r->record->head->spans);
    TRY(alloc_array(&r->span, (size_t)most, sizeof *r->span, "the spans of a trace", e));
    r->count = spans_read(r->record, &from, r->span, (size_t)most);
    for (size_t i = 0; i < r->count; i++) {
        if (r->span[i].duration_ns < 0) r->span[i].duration_ns = 0;
        r->span[i].waited_ns = r->span[i].waited_ns < 0 ? 0
                               : r->span[i].waited_ns > r->span[i].duration_ns
                                   ? r->span[i].duration_ns
                                   : r->span[i].waited_ns;
    }
done:
    return result;
}

static status read_steps(trace_rank *r, err *e)
{
    status result = OK;
    const uint64_t most = atomic_load(&r->record->head->steps);
    TRY(alloc_array(&r->step, (size_t)most, sizeof *r->step, "the steps of a trace", e));
    for (uint64_t n = 0; n < most; n++)
        if (spans_read_step(r->record, n, &r->step[r->steps])) r->steps++;
done:
    return result;
}

// A call's instruction is the span of its parent row in the same step. Spans of a step follow each other.
static status find_parents(trace_rank *r, err *e)
{
    status result = OK;
    int64_t *last = NULL; // [rows] the latest span of a row
    TRY(alloc_array(&r->parent, r->count, sizeof *r->parent, "the spans of a trace", e));
    TRY(alloc_zeroed(&r->has_calls, r->count, sizeof *r->has_calls, "the spans of a trace", e));
    TRY(alloc_array(&last, r->record->row_count, sizeof *last, "the rows of a trace", e));
    for (uint32_t i = 0; i < r->record->row_count; i++) last[i] = -1;
    size_t first = 0;
    while (first < r->count) {
        size_t end = first;
        while (end < r->count && r->span[end].step == r->span[first].step) {
            last[r->span[end].row] = (int64_t)end;
            end++;
        }
        for (size_t i = first; i < end; i++) {
            const spans_row *row = trace_row(r, i);
            const int64_t p = row->parent >= 0 ? last[row->parent] : -1;
            const bool same = p >= (int64_t)first && trace_row(r, (size_t)p)->stream == row->stream;
            r->parent[i] = same ? p : -1;
            if (same) r->has_calls[p] = true;
        }
        first = end;
    }
done:
    free(last);
    return result;
}

static void put_calls_inside(trace_rank *r)
{
    for (size_t i = 0; i < r->count; i++) {
        if (r->parent[i] < 0) continue;
        span *x = &r->span[i];
        const span *p = &r->span[r->parent[i]];
        int64_t begin = x->begin_ns, end = end_of(x);
        if (begin < p->begin_ns) begin = p->begin_ns;
        if (end > end_of(p)) end = end_of(p);
        if (end < begin) begin = end;
        x->begin_ns = begin;
        x->duration_ns = end - begin;
        if (x->waited_ns > x->duration_ns) x->waited_ns = x->duration_ns;
    }
}

status trace_rank_read(const spans *record, trace_rank *r, err *e)
{
    status result = OK;
    r->record = record;
    TRY(read_spans(r, e));
    TRY(read_steps(r, e));
    TRY(find_parents(r, e));
    TRY(trace_flow_find(r, &r->flow, e));
    put_calls_inside(r);
done:
    if (result != OK) trace_rank_clear(r);
    return result;
}

void trace_rank_clear(trace_rank *r)
{
    free(r->span);
    free(r->parent);
    free(r->has_calls);
    free(r->flow);
    free(r->step);
    *r = (trace_rank){0};
}

// ---- Slices

static int compare_numbers(int64_t a, int64_t b)
{
    return a < b ? -1 : a > b;
}

// Of slices with one begin, those that took no time come first, in the order of the record; then the outer one.
static int compare(const void *left, const void *right)
{
    const trace_slice *a = left, *b = right;
    int by = compare_numbers(a->begin_ns, b->begin_ns);
    if (!by) by = compare_numbers(b->is_empty, a->is_empty);
    if (!by && a->is_empty) by = compare_numbers((int64_t)a->instr, (int64_t)b->instr);
    if (!by) by = compare_numbers(b->end_ns, a->end_ns);
    if (!by) by = compare_numbers(a->is_call, b->is_call);
    return by ? by : compare_numbers((int64_t)a->span, (int64_t)b->span);
}

static status collect(const trace_rank *r, trace_track t, trace_slice **out, size_t *count, err *e)
{
    status result = OK;
    trace_slice *s = NULL;
    size_t n = 0;
    TRY(alloc_array(&s, r->count, sizeof *s, "the slices of a trace", e));
    for (size_t i = 0; i < r->count; i++) {
        const size_t instr = r->parent[i] >= 0 ? (size_t)r->parent[i] : i;
        if (trace_row(r, i)->stream + 1 != (int)t) continue;
        s[n++] = (trace_slice){.begin_ns = r->span[i].begin_ns,
                               .end_ns = end_of(&r->span[i]),
                               .span = i,
                               .instr = instr,
                               .is_call = trace_row(r, i)->kind == SPANS_CALL,
                               .is_empty = !r->span[instr].duration_ns};
    }
    qsort(s, n, sizeof *s, compare);
    *out = s;
    *count = n;
done:
    return result;
}

status trace_rank_slices(const trace_rank *r, trace_track t, trace_slice **out, size_t *count,
                         err *e)
{
    status result = OK;
    trace_slice *s = NULL;
    size_t *open = NULL, depth = 0, n = 0; // slices that have not ended, the innermost last
    TRY(collect(r, t, &s, &n, e));
    TRY(alloc_array(&open, n, sizeof *open, "the slices of a trace", e));
    for (size_t i = 0; i < n; i++) {
        while (depth && s[open[depth - 1]].end_ns <= s[i].begin_ns) depth--;
        while (depth && s[open[depth - 1]].end_ns < s[i].end_ns) {
            s[open[depth - 1]].end_ns = s[i].begin_ns;
            depth--;
        }
        open[depth++] = i;
    }
    *out = s;
    *count = n;
    s = NULL;
done:
    free(open);
    free(s);
    return result;
}
