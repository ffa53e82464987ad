// replay_read.c -- the spans of one rank in a step become pieces (replay_record.h): instructions are cut at their calls.
// replay_record.c calls it.
#include "monitor/replay/replay_private.h"

#include "base/alloc.h"

#include <stdlib.h>

static const char WHAT[] = "a recorded step";
static const double NS = REPLAY_NS, TINY = REPLAY_NS / 2;

// ---- The spans of a rank

typedef struct replay_entry {
    replay_piece piece;
    replay_part part;
    int number;
} replay_entry;

// The spans of one rank, and the pieces that they become.
typedef struct replay_reader {
    replay_record *r;
    int rank;
    const spans *s;
    int64_t zero_ns; // in the rank's clock, the begin of the step
    span *item;
    size_t items;
    replay_entry *draft;
    size_t drafts, room;
} replay_reader;

static const spans_row *row_of(const replay_reader *x, size_t item)
{
    return &x->s->rows[x->item[item].row];
}

static status read_spans(replay_reader *x, err *e)
{
    status result = OK;
    spans_step step;
    (void)run_view_step_of(x->r->view, x->rank, x->r->step, &step);
    TRY(alloc_array(&x->item, (size_t)step.spans, sizeof *x->item, WHAT, e));
    uint64_t from = step.first_span;
    x->items = spans_read(x->s, &from, x->item, step.spans);
    if (x->items < step.spans)
        FAIL(E_USAGE, "%s: rank %d no longer has the spans of step %llu", x->r->view->folder,
             x->rank, (unsigned long long)x->r->step);
done:
    return result;
}

static double begin_of(const replay_reader *x, size_t item)
{
    return (double)(x->item[item].begin_ns - x->zero_ns) * NS;
}

static double end_of(const replay_reader *x, size_t item)
{
    return begin_of(x, item) + (double)x->item[item].duration_ns * NS;
}

// ---- Instructions become pieces

static status add_draft(replay_reader *x, replay_entry d, err *e)
{
    status result = OK;
    TRY(alloc_grow(&x->draft, &x->room, x->drafts + 1, sizeof *x->draft, WHAT, e));
    d.number = (int)x->drafts;
    x->draft[x->drafts++] = d;
done:
    return result;
}

static replay_entry draft_of(const replay_reader *x, size_t instr, double begin, double end)
{
    const spans_row *row = row_of(x, instr);
    const int stream = row->stream >= 0 ? row->stream : REPLAY_THREADS - 1;
    return (replay_entry){
        .piece = {.rank = x->rank, .thread = x->r->apart ? stream : 0, .comm = -1, .channel = -1},
        .part = {.kind = PART_WORK,
                 .phase = (spans_phase)row->phase,
                 .row = (int)x->item[instr].row,
                 .instr = row->instr,
                 .next = -1,
                 .peer = -1,
                 .begin = begin,
                 .end = end > begin ? end : begin}};
}

// What the instruction does in a call, or while it waits for the loader. *now is where the last one has ended.
static status add_inner(replay_reader *x, size_t instr, size_t item, double *now, err *e)
{
    status result = OK;
    const spans_row *row = row_of(x, item);
    double begin = begin_of(x, item), end = end_of(x, item);
    if (begin < *now) begin = *now;
    if (end > end_of(x, instr)) end = end_of(x, instr);
    if (row->kind == SPANS_LOADER && end <= begin + TINY) return OK;
    if (begin > *now + TINY) TRY(add_draft(x, draft_of(x, instr, *now, begin), e));
    replay_entry d = draft_of(x, instr, begin, end);
    d.part.row = (int)x->item[item].row;
    if (row->kind == SPANS_LOADER)
        d.part.kind = PART_LOADER;
    else
        TRY(replay_record_set_call(x->r, row, row_of(x, instr), row->peer, &d.piece, &d.part, e));
    TRY(add_draft(x, d, e));
    *now = d.part.end;
done:
    return result;
}

// Adds the pieces of an instruction. `inner` are its calls, or the waits of the loader, in their order.
static status add_instr(replay_reader *x, size_t instr, const size_t *inner, size_t count, err *e)
{
    status result = OK;
    double now = begin_of(x, instr);
    const double end = end_of(x, instr);
    const size_t before = x->drafts;
    for (size_t i = 0; i < count; i++) TRY(add_inner(x, instr, inner[i], &now, e));
    if (end > now + TINY || x->drafts == before) {
        replay_entry d = draft_of(x, instr, now, end);
        const spans_row *row = row_of(x, instr);
        if (row->peer >= 0 && x->drafts == before)
            TRY(replay_record_set_call(x->r, row, row, row->peer, &d.piece, &d.part, e));
        TRY(add_draft(x, d, e));
    }
done:
    return result;
}

// Sorts by the instruction that a span belongs to, then by time.
typedef struct replay_sorted {
    int64_t owner, begin_ns;
    size_t item;
} replay_sorted;

static int compare_sorted(const void *a, const void *b)
{
    const replay_sorted *x = a, *y = b;
    if (x->owner != y->owner) return x->owner < y->owner ? -1 : 1;
    if (x->begin_ns != y->begin_ns) return x->begin_ns < y->begin_ns ? -1 : 1;
    return x->item < y->item ? -1 : x->item > y->item;
}

// The calls of each row lie together in inner[], those of row i from first[i] on; the loader's are those of the last row.
static status sort_inner(const replay_reader *x, size_t *first, size_t **inner, err *e)
{
    status result = OK;
    replay_sorted *sorted = NULL;
    size_t count = 0;
    const uint32_t rows = x->s->row_count;
    TRY(alloc_array(&sorted, x->items, sizeof *sorted, WHAT, e));
    TRY(alloc_array(inner, x->items, sizeof **inner, WHAT, e));
    for (size_t i = 0; i < x->items; i++) {
        const spans_row *row = row_of(x, i);
        const bool call = row->kind == SPANS_CALL && row->parent >= 0;
        if (call || row->kind == SPANS_LOADER)
            sorted[count++] =
                (replay_sorted){call ? row->parent : (int64_t)rows, x->item[i].begin_ns, i};
    }
    if (count) qsort(sorted, count, sizeof *sorted, compare_sorted);
    for (size_t i = 0, row = 0; row <= (size_t)rows + 1; row++) {
        while (i < count && sorted[i].owner < (int64_t)row) i++;
        first[row] = i;
    }
    for (size_t i = 0; i < count; i++) (*inner)[i] = sorted[i].item;
done:
    free(sorted);
    return result;
}

static status add_instrs(replay_reader *x, err *e)
{
    status result = OK;
    size_t *first = NULL, *inner = NULL;
    const uint32_t rows = x->s->row_count;
    TRY(alloc_array(&first, (size_t)rows + 2, sizeof *first, WHAT, e));
    TRY(sort_inner(x, first, &inner, e));
    for (size_t i = 0; i < x->items; i++) {
        const spans_row *row = row_of(x, i);
        const size_t own = row->phase == PHASE_INPUT ? rows : x->item[i].row;
        if (row->kind == SPANS_INSTR)
            TRY(add_instr(x, i, inner + first[own], first[own + 1] - first[own], e));
    }
done:
    free(first);
    free(inner);
    return result;
}

static int compare_drafts(const void *a, const void *b)
{
    const replay_entry *x = a, *y = b;
    if (x->piece.thread != y->piece.thread) return x->piece.thread - y->piece.thread;
    if (x->part.begin != y->part.begin) return x->part.begin < y->part.begin ? -1 : 1;
    if (x->part.end != y->part.end) return x->part.end < y->part.end ? -1 : 1;
    return x->number - y->number;
}

// Adds the rank's pieces to the record, thread by thread in the order of time.
static status take_drafts(replay_reader *x, err *e)
{
    status result = OK;
    replay_record *r = x->r;
    const uint32_t rows = x->s->row_count;
    int *last = NULL;
    if (x->drafts) qsort(x->draft, x->drafts, sizeof *x->draft, compare_drafts);
    TRY(alloc_array(&last, rows, sizeof *last, WHAT, e));
    TRY(alloc_array(&r->first_of_row[x->rank], rows, sizeof(int), WHAT, e));
    for (uint32_t i = 0; i < rows; i++) last[i] = r->first_of_row[x->rank][i] = -1;
    for (size_t i = 0; i < x->drafts; i++) {
        const int piece = r->x.pieces, row = x->draft[i].part.row;
        TRY(replay_record_add(r, &x->draft[i].piece, &x->draft[i].part, e));
        *(last[row] < 0 ? &r->first_of_row[x->rank][row] : &r->part[last[row]].next) = piece;
        last[row] = piece;
    }
done:
    free(last);
    return result;
}

status replay_read_rank(replay_record *r, int rank, int64_t first_ns, err *e)
{
    status result = OK;
    replay_reader x = {.r = r,
                       .rank = rank,
                       .s = r->view->rank[rank],
                       .zero_ns = first_ns - replay_clock_offset(r->view, rank)};
    TRY(read_spans(&x, e));
    TRY(add_instrs(&x, e));
    TRY(take_drafts(&x, e));
done:
    free(x.item);
    free(x.draft);
    return result;
}

// ---- Streams that run side by side

status replay_read_overlap(replay_record *r, int rank, err *e)
{
    status result = OK;
    enum { CLOCK_NS = 1000 }; // stamps of one thread may be this much apart
    replay_reader x = {.r = r, .rank = rank, .s = r->view->rank[rank]};
    replay_sorted *sorted = NULL;
    int64_t end_ns[REPLAY_THREADS];
    size_t count = 0;
    TRY(read_spans(&x, e));
    TRY(alloc_array(&sorted, x.items, sizeof *sorted, WHAT, e));
    for (size_t i = 0; i < x.items; i++)
        if (row_of(&x, i)->kind == SPANS_INSTR)
            sorted[count++] = (replay_sorted){0, x.item[i].begin_ns, i};
    if (count) qsort(sorted, count, sizeof *sorted, compare_sorted);
    for (int k = 0; k < REPLAY_THREADS; k++) end_ns[k] = INT64_MIN;
    for (size_t i = 0; i < count; i++) {
        const span *s = &x.item[sorted[i].item];
        const int stream = row_of(&x, sorted[i].item)->stream & (REPLAY_THREADS - 1);
        for (int k = 0; k < REPLAY_THREADS; k++)
            if (k != stream && end_ns[k] > s->begin_ns + CLOCK_NS && s->duration_ns > CLOCK_NS)
                r->apart = true;
        if (s->begin_ns + s->duration_ns > end_ns[stream])
            end_ns[stream] = s->begin_ns + s->duration_ns;
    }
done:
    free(x.item);
    free(sorted);
    return result;
}
