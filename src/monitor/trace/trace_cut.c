// trace_cut.c -- copies some steps out of the records of a run (trace.h). The ranks may go on meanwhile: what they have
// written over is noticed.
#define _GNU_SOURCE
#include "monitor/trace/trace.h"

#include "base/alloc.h"
#include "base/file.h"
#include "monitor/trace/trace_clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROOM_BYTES = 16 };

const char *trace_name(uint64_t first, uint64_t last, char out[TRACE_NAME_BYTES])
{
    snprintf(out, TRACE_NAME_BYTES, "steps-%08" PRIu64 "-%08" PRIu64, first, last);
    return out;
}

// ---- One rank

typedef struct trace_copy {
    const spans *from;
    uint64_t first, last; // steps
    uint64_t begin, end;  // numbers of spans; all that belong to the steps lie between
    spans_step *step;     // [steps]
    size_t steps;
    span *span; // [count]
    size_t count;
} trace_copy;

static void clear(trace_copy *c)
{
    free(c->step);
    free(c->span);
    *c = (trace_copy){0};
}

static status missing(const run_view *v, int rank, uint64_t step, err *e)
{
    spans_step last = {0};
    const spans *s = v->rank[rank];
    const uint64_t steps = atomic_load(&s->head->steps);
    const bool any = steps && spans_read_step(s, steps - 1, &last);
    if (!any) return err_set(e, E_USAGE, "rank %d has not recorded a step yet", rank);
    if (step > last.step)
        return err_set(e, E_USAGE,
                       "rank %d has not recorded step %" PRIu64 " yet; its last is %" PRIu64, rank,
                       step, last.step);
    return err_set(e, E_USAGE, "rank %d no longer has the record of step %" PRIu64, rank, step);
}

// Copies the steps, and finds where their spans lie.
static status read_steps(trace_copy *c, const run_view *v, int rank, err *e)
{
    status result = OK;
    spans_step after;
    TRY(alloc_array(&c->step, (size_t)(c->last - c->first + 1), sizeof *c->step,
                    "the steps of a trace", e));
    for (uint64_t step = c->first; step <= c->last; step++) {
        if (!run_view_step_of(v, rank, step, &c->step[c->steps])) return missing(v, rank, step, e);
        c->steps++;
    }
    c->begin = c->step[0].first_span;
    // Evaluations and checkpoints after the last step are recorded before the next step's spans.
    c->end = run_view_step_of(v, rank, c->last + 1, &after) ? after.first_span
                                                            : atomic_load(&c->from->head->spans);
done:
    return result;
}

// A step's numbers of spans become those of the copy.
static void renumber(trace_copy *c, const uint64_t *number)
{
    for (size_t i = 0; i < c->steps; i++) {
        spans_step *s = &c->step[i];
        size_t first = 0;
        while (first < c->count && number[first] < s->first_span) first++;
        size_t end = first;
        while (end < c->count && number[end] < s->first_span + s->spans) end++;
        s->first_span = first;
        s->spans = (uint32_t)(end - first);
    }
}

static status read_spans(trace_copy *c, err *e)
{
    status result = OK;
    uint64_t *number = NULL, next = c->begin; // [count] of a span in the run's record
    const size_t most = c->end > c->begin ? (size_t)(c->end - c->begin) : 0;
    if (most > c->from->ring_count)
        FAIL(E_USAGE, "rank %d no longer has the spans of step %" PRIu64, c->from->head->rank,
             c->first);
    TRY(alloc_array(&c->span, most, sizeof *c->span, "the spans of a trace", e));
    TRY(alloc_array(&number, most, sizeof *number, "the spans of a trace", e));
    const size_t count = spans_read(c->from, &next, c->span, most);
    if (count < most)
        FAIL(E_USAGE, "rank %d no longer has the spans of step %" PRIu64, c->from->head->rank,
             c->first);
    for (size_t i = 0; i < count; i++) {
        const span x = c->span[i];
        if (x.step - (uint32_t)c->first > c->last - c->first) continue;
        number[c->count] = c->begin + i;
        c->span[c->count++] = x;
    }
    renumber(c, number);
done:
    free(number);
    return result;
}

// What the new record begins with: the same rank and rows, and nothing that was recorded.
static status make_record(const trace_copy *c, const char *path, spans **out, err *e)
{
    status result = OK;
    spans_row *rows = NULL;
    spans_head head;
    memcpy(&head, c->from->head, sizeof head);
    atomic_store(&head.spans, 0);
    atomic_store(&head.steps, 0);
    atomic_store(&head.ended, 0);
    TRY(alloc_array(&rows, c->from->row_count, sizeof *rows, "the rows of a trace", e));
    for (uint32_t i = 0; i < c->from->row_count; i++) {
        rows[i] = c->from->rows[i];
        rows[i].count = rows[i].sum_ns = rows[i].max_ns = rows[i].waited_ns = 0;
        memset(rows[i].bucket, 0, sizeof rows[i].bucket);
    }
    // A reader leaves out what lies where the next one would be written.
    TRY(spans_create(path, &head, rows, c->from->row_count,
                     (spans_room){(uint32_t)c->steps + 1, (uint32_t)c->count + 1}, out, e));
done:
    free(rows);
    return result;
}

static status cut_rank(const run_view *v, int rank, uint64_t first, uint64_t last,
                       const char *folder, err *e)
{
    status result = OK;
    trace_copy c = {.from = v->rank[rank], .first = first, .last = last};
    char *path = NULL;
    spans *s = NULL;
    TRY(read_steps(&c, v, rank, e));
    TRY(read_spans(&c, e));
    TRY(run_view_spans_path(folder, rank, &path, e));
    TRY(make_record(&c, path, &s, e));
    for (size_t i = 0; i < c.count; i++) spans_add(s, &c.span[i]);
    for (size_t i = 0; i < c.steps; i++) spans_add_step(s, &c.step[i]);
    spans_finish(s);
done:
    clear(&c);
    free(path);
    return result;
}

// ---- The folder

static status fill(const run_view *v, uint64_t first, uint64_t last, const char *folder, err *e)
{
    status result = OK;
    run_view *made = NULL;
    char name[TRACE_NAME_BYTES], file[TRACE_NAME_BYTES + ROOM_BYTES], *path = NULL;
    for (int r = 0; r < v->ranks; r++)
        if (v->rank[r]) TRY(cut_rank(v, r, first, last, folder, e));
    TRY(run_view_open(folder, &made, e));
    snprintf(file, sizeof file, "%s.tar", trace_name(first, last, name));
    TRY(file_join(folder, file, &path, e));
    TRY(trace_write_perfetto(made, path, e));
done:
    run_view_close(made);
    free(path);
    return result;
}

// Before anything is written: every rank has a clock that is known.
static status check(const run_view *v, uint64_t first, uint64_t last, err *e)
{
    status result = OK;
    trace_clocks c = {0};
    if (!first || first > last || last - first >= SPANS_STEPS)
        FAIL(E_USAGE, "steps %" PRIu64 " to %" PRIu64 ": valid are at most %d steps, from 1", first,
             last, SPANS_STEPS);
    TRY(trace_clocks_find(v, &c, e));
done:
    trace_clocks_clear(&c);
    return result;
}

status trace_cut(const run_view *v, uint64_t first, uint64_t last, char **folder, err *e)
{
    status result = OK;
    text final = {0}, making = {0};
    char name[TRACE_NAME_BYTES];
    *folder = NULL;
    TRY(check(v, first, last, e));
    text_addf(&final, "%s/traces/%s", v->folder, trace_name(first, last, name));
    text_addf(&making, "%s/traces/.%s.%ld", v->folder, name, (long)getpid());
    TRY(text_check(&making, e));
    TRY(file_remove_tree(making.chars, e));
    result = fill(v, first, last, making.chars, e);
    if (result == OK) result = file_remove_tree(final.chars, e);
    if (result == OK) result = file_rename(making.chars, final.chars, e);
    if (result != OK) (void)file_remove_tree(making.chars, NULL);
    if (result == OK) result = text_take(&final, folder, e);
done:
    text_clear(&final);
    text_clear(&making);
    return result;
}
