// page_timeline.c -- the data of a page that shows one of the last steps over ranks: the spans of the chosen ranks, on one
// clock. Called by page.c.
#include "monitor/page/page_data.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

enum { LOOK_BACK = 9 };

typedef struct page_timeline {
    const page_view *p;
    uint64_t step;
    int64_t begin_ns, end_ns, unit_ns; // of the step, on rank 0's clock
    int64_t error_ns;                  // of clocks, at most
    json_t *numbers;                   // of rows that spans name, by their text
    text rows;                         // JSON of these rows
    size_t row_count;
} page_timeline;

// ---- The step

// The ring still has all spans of the step.
static bool has_spans(const page_view *p, uint64_t step)
{
    bool any = false;
    for (int i = 0; i < p->chosen_count; i++) {
        const spans *s = p->v->rank[p->chosen[i]];
        spans_step x;
        if (!run_view_step_of(p->v, p->chosen[i], step, &x)) continue;
        if (x.first_span + s->ring_count <= atomic_load(&s->head->spans)) return false;
        any |= x.spans > 0;
    }
    return any;
}

static int64_t duration_of(const page_view *p, uint64_t step)
{
    int64_t most = 0;
    spans_step x;
    for (int i = 0; i < p->chosen_count; i++)
        if (run_view_step_of(p->v, p->chosen[i], step, &x) && x.duration_ns > most)
            most = x.duration_ns;
    return most;
}

// Of the last steps the one in the middle by duration, so that it is a usual one; 0: none.
static uint64_t choose_step(const page_view *p)
{
    uint64_t step[LOOK_BACK];
    int64_t duration[LOOK_BACK];
    int count = 0;
    for (uint64_t s = p->last; s >= p->first && s > 0 && count < LOOK_BACK; s--) {
        if (!has_spans(p, s)) continue;
        const int64_t ns = duration_of(p, s);
        int i = count++;
        for (; i > 0 && duration[i - 1] > ns; i--) {
            duration[i] = duration[i - 1];
            step[i] = step[i - 1];
        }
        duration[i] = ns;
        step[i] = s;
        if (s + LOOK_BACK <= p->last) break;
    }
    return count ? step[count / 2] : 0;
}

// ---- Clocks

// Whether the rank's times can be compared with those of rank 0.
static bool has_clock(const page_view *p, int rank)
{
    const spans_head *h = p->v->rank[rank]->head, *first = p->v->rank[p->chosen[0]]->head;
    return h->clock.error_ns >= 0 || strcmp(h->boot, first->boot) == 0;
}

// The begin of the step on a rank, on the clock of rank 0.
static int64_t begin_of(const page_view *p, int rank, const spans_step *step)
{
    return step->begin_ns + p->v->rank[rank]->head->clock.offset_ns;
}

static void find_range(page_timeline *x)
{
    bool any = false;
    const page_view *p = x->p;
    for (int i = 0; i < p->chosen_count; i++) {
        spans_step s;
        const int r = p->chosen[i];
        if (!has_clock(p, r) || !run_view_step_of(p->v, r, x->step, &s)) continue;
        const int64_t begin = begin_of(p, r, &s), end = begin + s.duration_ns;
        const int64_t error = p->v->rank[r]->head->clock.error_ns;
        if (!any || begin < x->begin_ns) x->begin_ns = begin;
        if (!any || end > x->end_ns) x->end_ns = end;
        if (error > x->error_ns) x->error_ns = error;
        any = true;
    }
    // A million units are more than a screen shows.
    x->unit_ns = 1;
    while ((x->end_ns - x->begin_ns) / x->unit_ns > 1000000) x->unit_ns *= 10;
}

// What is added to the times of a rank, so that the step of all begins at 0. Without a clock its own step begins there.
static int64_t offset_of(const page_timeline *x, int rank, const spans_step *step)
{
    return has_clock(x->p, rank) ? begin_of(x->p, rank, step) - step->begin_ns - x->begin_ns
                                 : -step->begin_ns;
}

// ---- Spans

// The number of a row among those that are shown; rows of several ranks with one text have one number.
static int number_of(page_timeline *x, const spans_row *row)
{
    text line = {0};
    text_add(&line, "[");
    text_add_json(&line, row->name);
    text_addf(&line, ",%d,%d,%d,%llu,", row->phase, row->stream, row->kind,
              (unsigned long long)row->bytes);
    text_add_json(&line, row->group);
    text_addf(&line, ",%d]", row->micro);
    const char *key = line.chars ? line.chars : "";
    const json_t *found = json_object_get(x->numbers, key);
    int number = found ? (int)json_integer_value(found) : (int)x->row_count;
    if (!found) {
        json_object_set_new(x->numbers, key, json_integer(number));
        page_add_comma(&x->rows, x->row_count++);
        text_add(&x->rows, key);
    }
    if (line.failed) text_fail(&x->rows);
    text_clear(&line);
    return number;
}

static int by_duration(const void *a, const void *b)
{
    const span *x = a, *y = b;
    if (x->duration_ns != y->duration_ns) return x->duration_ns < y->duration_ns ? 1 : -1;
    return (x->begin_ns > y->begin_ns) - (x->begin_ns < y->begin_ns);
}

static int by_begin(const void *a, const void *b)
{
    const span *x = a, *y = b;
    if (x->begin_ns != y->begin_ns) return x->begin_ns < y->begin_ns ? -1 : 1;
    return (x->duration_ns < y->duration_ns) - (x->duration_ns > y->duration_ns);
}

// Copies the step's spans to the front, and returns their number.
static size_t read_spans(const spans *s, const spans_step *step, span *out)
{
    uint64_t from = step->first_span;
    const size_t count = spans_read(s, &from, out, step->spans);
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        if (out[i].step == (uint32_t)step->step && out[i].duration_ns >= 0) out[kept++] = out[i];
    return kept;
}

static void add_spans(page_timeline *x, const spans *s, int64_t offset_ns, const span *list,
                      size_t count, text *t)
{
    for (size_t i = 0; i < count; i++) {
        const int64_t begin = list[i].begin_ns + offset_ns;
        page_add_comma(t, i);
        text_addf(t, "%d,%lld,%lld,%lld,%d", number_of(x, &s->rows[list[i].row]),
                  (long long)(begin / x->unit_ns), (long long)(list[i].duration_ns / x->unit_ns),
                  (long long)(list[i].waited_ns / x->unit_ns), list[i].last);
    }
}

static status add_rank(page_timeline *x, int rank, text *t, err *e)
{
    status result = OK;
    span *list = NULL;
    spans_step step = {0};
    const spans *s = x->p->v->rank[rank];
    const size_t most = PAGE_MOST_SPANS / (size_t)x->p->chosen_count;
    if (!run_view_step_of(x->p->v, rank, x->step, &step)) step.spans = 0;
    if (step.spans > s->ring_count) step.spans = 0; // damaged
    TRY(alloc_array(&list, (size_t)step.spans + 1, sizeof *list, "the spans of a page", e));
    const size_t count = read_spans(s, &step, list);
    size_t kept = count;
    if (count > most) {
        qsort(list, count, sizeof *list, by_duration);
        kept = most;
    }
    qsort(list, kept, sizeof *list, by_begin);
    const int64_t offset = offset_of(x, rank, &step);
    text_addf(t, "{\"rank\":%d,\"begin\":%lld,\"length\":%lld,\"aligned\":%s,\"left_out\":%zu,",
              rank, (long long)((step.begin_ns + offset) / x->unit_ns),
              (long long)(step.duration_ns / x->unit_ns), has_clock(x->p, rank) ? "true" : "false",
              count - kept);
    text_add(t, "\"spans\":[");
    add_spans(x, s, offset, list, kept, t);
    text_add(t, "]}");
done:
    free(list);
    return result;
}

static status add_ranks(page_timeline *x, text *t, err *e)
{
    status result = OK;
    text_addf(t,
              "{\"step\":%llu,\"unit_ns\":%lld,\"length\":%lld,\"clock_error_ns\":%lld,\"ranks\":[",
              (unsigned long long)x->step, (long long)x->unit_ns,
              (long long)((x->end_ns - x->begin_ns) / x->unit_ns), (long long)x->error_ns);
    for (int i = 0; i < x->p->chosen_count; i++) {
        page_add_comma(t, (size_t)i);
        TRY(add_rank(x, x->p->chosen[i], t, e));
    }
    TRY(text_check(&x->rows, e));
    text_addf(t, "],\"rows\":[%s]}", x->rows.chars ? x->rows.chars : "");
done:
    return result;
}

status page_add_timeline(const page_view *p, text *t, err *e)
{
    status result = OK;
    page_timeline x = {.p = p, .step = choose_step(p)};
    if (!x.step) {
        text_add(t, "null");
        return OK;
    }
    x.numbers = json_object();
    find_range(&x);
    TRY(add_ranks(&x, t, e));
done:
    json_decref(x.numbers);
    text_clear(&x.rows);
    return result;
}
