// replay_record.c -- see replay_record.h. Finds the step and where ranks are, has replay_read.c make the pieces, and
// finds what each of them waits for, its lag and its own time.
#include "monitor/replay/replay_private.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

static const char WHAT[] = "a recorded step";
static const double NS = REPLAY_NS;

static int compare_numbers(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

double replay_median(double *values, size_t count)
{
    if (!count) return 0;
    qsort(values, count, sizeof *values, compare_numbers);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

// ---- Steps

static bool has_spans(const spans *s, const spans_step *x)
{
    return atomic_load(&s->head->spans) < x->first_span + s->ring_count;
}

// The mean duration of a step; < 0: a rank no longer has its spans.
static double duration_of(const run_view *v, uint64_t step)
{
    double sum = 0;
    for (int r = 0; r < v->ranks; r++) {
        spans_step x;
        if (!v->rank[r] || !run_view_step_of(v, r, step, &x) || !has_spans(v->rank[r], &x))
            return -1;
        sum += (double)x.duration_ns * NS;
    }
    return sum / v->ranks;
}

typedef struct replay_sample {
    double seconds;
    uint64_t step;
} replay_sample;

static int compare_durations(const void *a, const void *b)
{
    const replay_sample *x = a, *y = b;
    if (x->seconds != y->seconds) return x->seconds < y->seconds ? -1 : 1;
    return x->step < y->step ? -1 : x->step > y->step;
}

status replay_record_median_step(const run_view *v, uint64_t *step, err *e)
{
    status result = OK;
    uint64_t first, last;
    replay_sample *item = NULL;
    size_t count = 0;
    if (!run_view_common_steps(v, &first, &last))
        FAIL(E_USAGE, "%s: its ranks have recorded no step in common", v->folder);
    TRY(alloc_array(&item, (size_t)(last - first) + 1, sizeof *item, WHAT, e));
    for (uint64_t s = first; s <= last; s++) {
        const double seconds = duration_of(v, s);
        // The first step of a run also does what is done once.
        if (seconds >= 0 && (s > 1 || last == first)) item[count++] = (replay_sample){seconds, s};
    }
    if (!count)
        FAIL(E_USAGE,
             "%s: no step has the spans of all ranks; valid: a trace, or a run that goes on",
             v->folder);
    qsort(item, count, sizeof *item, compare_durations);
    *step = item[(count - 1) / 2].step;
done:
    free(item);
    return result;
}

// ---- Where ranks are

// Reads "pp 1 dp_shard 0".
static void read_place(const char *place, int coord[AXES])
{
    memset(coord, 0, AXES * sizeof *coord);
    while (*place) {
        const size_t bytes = strcspn(place, " ");
        for (int a = 0; a < AXES; a++)
            if (strlen(axis_name((axis)a)) == bytes &&
                strncmp(place, axis_name((axis)a), bytes) == 0)
                coord[a] = (int)strtol(place + bytes, NULL, 10);
        place += bytes;
        place += strspn(place, " ");
        place += strcspn(place, " ");
        place += strspn(place, " ");
    }
}

static status find_mesh(replay_record *r, err *e)
{
    status result = OK;
    const run_view *v = r->view;
    int size[AXES] = {1, 1, 1, 1, 1};
    TRY(alloc_zeroed(&r->coord, (size_t)v->ranks, sizeof *r->coord, WHAT, e));
    for (int k = 0; k < v->ranks; k++) {
        if (!v->rank[k]) FAIL(E_USAGE, "%s: rank %d has no record", v->folder, k);
        read_place(v->rank[k]->head->place, r->coord[k]);
        for (int a = 0; a < AXES; a++)
            if (r->coord[k][a] >= size[a]) size[a] = r->coord[k][a] + 1;
    }
    r->mesh = mesh_of_sizes(size);
    for (int k = 0; k < v->ranks; k++)
        if (r->mesh.ranks != v->ranks || mesh_rank(&r->mesh, r->coord[k]) != k)
            FAIL(E_USAGE, "%s: rank %d is at '%s', which does not fit %d ranks", v->folder, k,
                 v->rank[k]->head->place, v->ranks);
done:
    return result;
}

static bool same_clock(const spans *a, const spans *b)
{
    return strcmp(a->head->boot, b->head->boot) == 0;
}

static status check_clocks(const run_view *v, err *e)
{
    bool several = false;
    for (int k = 0; k < v->ranks; k++) several = several || !same_clock(v->rank[0], v->rank[k]);
    for (int k = 0; several && k < v->ranks; k++)
        if (!same_clock(v->rank[0], v->rank[k]) && v->rank[k]->head->clock.error_ns < 0)
            return err_set(
                e, E_USAGE,
                "rank %d on host %s: nobody has compared its clock with that of rank 0, so "
                "their times cannot be compared",
                k, v->rank[k]->head->host);
    return OK;
}

// What is added to a time of the rank.
int64_t replay_clock_offset(const run_view *v, int rank)
{
    return same_clock(v->rank[0], v->rank[rank]) ? 0 : v->rank[rank]->head->clock.offset_ns;
}

static status find_times(replay_record *r, int64_t *first_ns, err *e)
{
    status result = OK;
    const run_view *v = r->view;
    double gap[SPANS_STEPS];
    for (int k = 0; k < v->ranks; k++) {
        spans_step x;
        size_t gaps = 0;
        if (!run_view_step_of(v, k, r->step, &x))
            FAIL(E_USAGE, "%s: rank %d has no record of step %llu", v->folder, k,
                 (unsigned long long)r->step);
        if (!has_spans(v->rank[k], &x))
            FAIL(E_USAGE, "%s: rank %d no longer has the spans of step %llu", v->folder, k,
                 (unsigned long long)r->step);
        const int64_t begin_ns = x.begin_ns + replay_clock_offset(v, k);
        if (k == 0 || begin_ns < *first_ns) *first_ns = begin_ns;
        r->end[k] = (double)x.duration_ns * NS; // as yet from its own begin
        const uint64_t steps = atomic_load(&v->rank[k]->head->steps);
        for (uint64_t n = steps;
             n-- > 0 && gaps < SPANS_STEPS && spans_read_step(v->rank[k], n, &x);)
            if (x.step > 1) gap[gaps++] = (double)x.gap_ns * NS;
        r->gap[k] = replay_median(gap, gaps);
    }
    for (int k = 0; k < v->ranks; k++) {
        spans_step x;
        (void)run_view_step_of(v, k, r->step, &x);
        r->start[k] = (double)(x.begin_ns + replay_clock_offset(v, k) - *first_ns) * NS;
        r->end[k] += r->start[k];
    }
done:
    return result;
}

// ---- Pieces, what they wait for, and their lags

status replay_record_add(replay_record *r, const replay_piece *piece, const replay_part *part,
                         err *e)
{
    status result = OK;
    const size_t n = (size_t)r->x.pieces;
    TRY(alloc_grow(&r->x.piece, &r->piece_room, n + 1, sizeof *r->x.piece, WHAT, e));
    TRY(alloc_grow(&r->part, &r->part_room, n + 1, sizeof *r->part, WHAT, e));
    r->x.piece[n] = *piece;
    r->part[n] = *part;
    r->x.pieces++;
done:
    return result;
}

status replay_record_add_wait(replay_record *r, int piece, int wait, err *e)
{
    status result = OK;
    const size_t n = (size_t)r->x.waits;
    replay_piece *p = &r->x.piece[piece];
    TRY(alloc_grow(&r->x.wait, &r->wait_room, n + 1, sizeof *r->x.wait, WHAT, e));
    TRY(alloc_grow(&r->x.lead, &r->lead_room, n + 1, sizeof *r->x.lead, WHAT, e));
    if (p->waits++ == 0) p->first_wait = (int)n;
    r->x.wait[n] = wait;
    r->x.lead[n] = 0;
    r->x.waits++;
done:
    return result;
}

// The first and the last piece of each instruction of a rank: at[2 * instr], at[2 * instr + 1]; -1: none.
static void find_instrs(const replay_record *r, int rank, int first, int *at, int count)
{
    for (int i = 0; i < 2 * count; i++) at[i] = -1;
    for (int i = first; i < r->x.pieces && r->x.piece[i].rank == rank; i++) {
        const int instr = r->part[i].instr;
        if (instr < 0 || instr >= count) continue;
        if (at[2 * instr] < 0) at[2 * instr] = i;
        at[2 * instr + 1] = i;
    }
}

status replay_record_add_waits(replay_record *r, int rank, int first, err *e)
{
    status result = OK;
    int *at = NULL;
    const int stage = replay_record_stage(r, rank);
    if (!r->apart || !r->known.order || stage >= r->known.stages) return OK;
    const schedule_order *o = &r->known.order[stage];
    TRY(alloc_array(&at, 2 * (size_t)o->count, sizeof *at, WHAT, e));
    find_instrs(r, rank, first, at, o->count);
    for (int i = 0; i < o->count; i++)
        for (int k = o->first[i]; at[2 * i] >= 0 && k < o->first[i + 1]; k++)
            if (at[2 * o->wait[k] + 1] >= 0)
                TRY(replay_record_add_wait(r, at[2 * i], at[2 * o->wait[k] + 1], e));
done:
    free(at);
    return result;
}

static void delay(double *t, double until)
{
    if (until > *t) *t = until;
}

// Until when a piece that has begun waits for another one of which it needs something. The thread of a stream may be
// late to say that an instruction has ended, of which others already use the result.
static double waits_until(const replay_part *t, const replay_part *before)
{
    const bool inside = before->begin > t->begin && before->begin <= t->end;
    if (before->end <= t->end) return before->end;
    return inside ? t->end : t->begin;
}

// A piece begins when it no longer waits.
static void find_leads(replay_record *r, int piece)
{
    const replay_piece *p = &r->x.piece[piece];
    replay_part *t = &r->part[piece];
    double begin = t->begin;
    for (int k = 0; k < p->waits; k++)
        delay(&begin, waits_until(t, &r->part[r->x.wait[p->first_wait + k]]));
    t->begin = begin;
    for (int k = 0; k < p->waits; k++) {
        const double end = r->part[r->x.wait[p->first_wait + k]].end;
        if (end > begin) r->x.lead[p->first_wait + k] = end - begin;
    }
}

static void find_lags(replay_record *r)
{
    for (int i = 0; i < r->x.pieces; i++) {
        replay_piece *p = &r->x.piece[i];
        double ready = r->start[p->rank];
        find_leads(r, i);
        if (r->x.links.before[i] >= 0) delay(&ready, r->part[r->x.links.before[i]].end);
        for (int k = 0; k < p->waits; k++)
            delay(&ready, r->part[r->x.wait[p->first_wait + k]].end - r->x.lead[p->first_wait + k]);
        p->lag = r->part[i].begin - ready;
        if (p->lag >= 0) continue;
        r->missed -= p->lag;
        p->lag = 0;
    }
}

// By how much two times of different ranks may be wrong.
static double clock_error(const replay_record *r, int rank)
{
    const spans *s = r->view->rank[rank];
    const int64_t error_ns = same_clock(r->view->rank[0], s) ? 0 : s->head->clock.error_ns;
    return 1e-6 + (double)error_ns * NS;
}

// What a piece takes when nobody lets it wait.
static status find_seconds(replay_record *r, err *e)
{
    status result = OK;
    double *met = NULL;
    const replay_links *l = &r->x.links;
    TRY(alloc_zeroed(&met, (size_t)l->meetings, sizeof *met, WHAT, e));
    for (int i = 0; i < r->x.pieces; i++)
        if (l->meeting[i] >= 0) delay(&met[l->meeting[i]], r->part[i].begin);
    for (int i = 0; i < r->x.pieces; i++) {
        replay_piece *p = &r->x.piece[i];
        const replay_part *t = &r->part[i];
        double from = t->begin;
        if (l->meeting[i] >= 0 && t->end < met[l->meeting[i]] - clock_error(r, p->rank))
            p->leaves = true;
        else if (l->meeting[i] >= 0)
            from = met[l->meeting[i]];
        else if (l->other[i] >= 0 && !p->sends)
            delay(&from, r->part[l->other[i]].begin);
        p->seconds = t->end > from ? t->end - from : 0;
        if (t->end < from) r->missed += from - t->end;
    }
done:
    free(met);
    return result;
}

static void find_tails(replay_record *r)
{
    for (int k = 0; k < r->view->ranks; k++) r->tail[k] = r->end[k] - r->start[k];
    for (int i = 0; i < r->x.pieces; i++) {
        double *tail = &r->tail[r->x.piece[i].rank];
        const double left = r->end[r->x.piece[i].rank] - r->part[i].end;
        if (left < *tail) *tail = left > 0 ? left : 0;
    }
}

status replay_record_link(replay_record *r, err *e)
{
    int piece;
    r->x.ranks = r->view->ranks;
    r->x.comms = (int)r->comms.count;
    r->x.channels = (int)r->channels.count;
    r->x.sends_wait = r->known.sends_wait;
    const status result = replay_ranks_link(&r->x, &piece, e);
    if (result != OK && piece >= 0) {
        text where = {0};
        text_addf(&where, "step %llu, rank %d, %s of %s: ", (unsigned long long)r->step,
                  r->x.piece[piece].rank, replay_record_row(r, piece)->name,
                  replay_record_instr(r, piece)->name);
        err_prefix(e, "%s", where.chars);
        text_clear(&where);
    }
    return result;
}

static status read_ranks(replay_record *r, err *e)
{
    status result = OK;
    int64_t first_ns = 0;
    int *first = NULL;
    const size_t ranks = (size_t)r->view->ranks;
    TRY(alloc_zeroed(&r->start, ranks, sizeof *r->start, WHAT, e));
    TRY(alloc_zeroed(&r->end, ranks, sizeof *r->end, WHAT, e));
    TRY(alloc_zeroed(&r->gap, ranks, sizeof *r->gap, WHAT, e));
    TRY(alloc_zeroed(&r->tail, ranks, sizeof *r->tail, WHAT, e));
    TRY(alloc_zeroed(&r->first_of_row, ranks, sizeof *r->first_of_row, WHAT, e));
    TRY(alloc_array(&first, ranks, sizeof *first, WHAT, e));
    TRY(find_times(r, &first_ns, e));
    for (int k = 0; k < r->view->ranks; k++) TRY(replay_read_overlap(r, k, e));
    for (int k = 0; k < r->view->ranks; k++) {
        first[k] = r->x.pieces;
        TRY(replay_read_rank(r, k, first_ns, e));
    }
    for (int k = 0; k < r->view->ranks; k++) TRY(replay_record_add_waits(r, k, first[k], e));
    TRY(replay_record_link(r, e));
    find_lags(r);
    TRY(find_seconds(r, e));
    find_tails(r);
done:
    free(first);
    return result;
}

status replay_record_open(const run_view *v, uint64_t step, const replay_lists *known,
                          replay_record **out, err *e)
{
    status result = OK;
    replay_record *r = NULL;
    TRY(alloc_zeroed(&r, 1, sizeof *r, WHAT, e));
    r->view = v;
    r->step = step;
    if (known) r->known = *known;
    TRY(find_mesh(r, e));
    TRY(check_clocks(v, e));
    TRY(read_ranks(r, e));
    *out = r;
    r = NULL;
done:
    replay_record_close(r);
    return result;
}

static void clear_keys(replay_keys *k)
{
    lookup_clear(&k->table);
    free(k->key);
}

void replay_record_clear_made(replay_record *r)
{
    replay_ranks_unlink(&r->x);
    free(r->x.piece);
    free(r->x.wait);
    free(r->x.lead);
    free(r->part);
    clear_keys(&r->comms);
    clear_keys(&r->channels);
}

void replay_record_close(replay_record *r)
{
    if (!r) return;
    for (int k = 0; r->first_of_row && k < r->view->ranks; k++) free(r->first_of_row[k]);
    free(r->first_of_row);
    free(r->coord);
    free(r->start);
    free(r->end);
    free(r->tail);
    free(r->gap);
    replay_record_clear_made(r);
    free(r);
}

// ---- What others ask

const spans_row *replay_record_row(const replay_record *r, int piece)
{
    return &r->view->rank[r->x.piece[piece].rank]->rows[r->part[piece].row];
}

const spans_row *replay_record_instr(const replay_record *r, int piece)
{
    const spans_row *row = replay_record_row(r, piece);
    const spans *s = r->view->rank[r->x.piece[piece].rank];
    return row->kind == SPANS_CALL && row->parent >= 0 ? &s->rows[row->parent] : row;
}

int replay_record_stage(const replay_record *r, int rank)
{
    return r->coord[rank][AXIS_PP];
}

double replay_record_seconds(const replay_record *r)
{
    double sum = 0;
    for (int k = 0; k < r->view->ranks; k++) sum += r->end[k] - r->start[k];
    return sum / r->view->ranks;
}

void replay_record_ends(const replay_record *r, const replay_span *time, double *end)
{
    replay_ranks_ends(&r->x, r->start, time, end);
    for (int k = 0; k < r->view->ranks; k++) end[k] += r->tail[k];
}
