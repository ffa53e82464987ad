// replay_change.c -- see replay_change.h.
#include "monitor/replay/replay_change.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

static const char WHAT[] = "a changed step";

// ---- One rank as fast as its peers

// Seconds that a rank works in a row, or waits for the loader, with the lags before.
static double seconds_of_row(const replay_record *r, int rank, uint32_t row)
{
    double sum = 0;
    for (int i = r->first_of_row[rank][row]; i >= 0; i = r->part[i].next) {
        const bool own = r->part[i].kind == PART_WORK || r->part[i].kind == PART_LOADER;
        sum += r->x.piece[i].lag + (own ? r->x.piece[i].seconds : 0);
    }
    return sum;
}

// Ranks of a stage run the same list, so their rows are the same.
static bool are_peers(const replay_record *r, int a, int b)
{
    return replay_record_stage(r, a) == replay_record_stage(r, b) &&
           r->view->rank[a]->row_count == r->view->rank[b]->row_count;
}

// The median over the other ranks of the stage. `values` is [ranks]. False: there are none.
static bool median_of_peers(const replay_record *r, int rank, uint32_t row, double *values,
                            double *out)
{
    size_t count = 0;
    for (int k = 0; k < r->view->ranks; k++)
        if (k != rank && are_peers(r, rank, k)) values[count++] = seconds_of_row(r, k, row);
    *out = replay_median(values, count);
    return count > 0;
}

static void scale_row(replay_record *r, int rank, uint32_t row, double by)
{
    for (int i = r->first_of_row[rank][row]; i >= 0; i = r->part[i].next) {
        const bool own = r->part[i].kind == PART_WORK || r->part[i].kind == PART_LOADER;
        r->x.piece[i].lag *= by;
        if (own) r->x.piece[i].seconds *= by;
    }
}

static status change_rank(replay_record *r, int rank, err *e)
{
    status result = OK;
    double *values = NULL, median;
    if (rank < 0 || rank >= r->view->ranks)
        FAIL(E_USAGE, "found rank %d; valid: 0 to %d", rank, r->view->ranks - 1);
    TRY(alloc_array(&values, (size_t)r->view->ranks, sizeof *values, WHAT, e));
    for (uint32_t row = 0; row < r->view->rank[rank]->row_count; row++) {
        const double own = seconds_of_row(r, rank, row);
        if (own <= 0) continue;
        if (!median_of_peers(r, rank, row, values, &median))
            FAIL(E_USAGE, "rank %d is alone in its stage, so it has no peers to be compared with",
                 rank);
        scale_row(r, rank, row, median / own);
    }
done:
    free(values);
    return result;
}

// Adds to excess[rank] what each rank of a stage takes in a row above the median of the stage.
static bool add_excess(const replay_record *r, int stage, uint32_t row, double *values,
                       double *excess)
{
    size_t count = 0;
    for (int k = 0; k < r->view->ranks; k++)
        if (replay_record_stage(r, k) == stage && row < r->view->rank[k]->row_count)
            values[count++] = seconds_of_row(r, k, row);
    const double median = replay_median(values, count);
    for (int k = 0; k < r->view->ranks; k++)
        if (replay_record_stage(r, k) == stage && row < r->view->rank[k]->row_count)
            excess[k] += seconds_of_row(r, k, row) - median;
    return count > 1;
}

status replay_change_slowest(const replay_record *r, int *rank, err *e)
{
    status result = OK;
    const size_t ranks = (size_t)r->view->ranks;
    double *values = NULL, *excess = NULL;
    *rank = -1;
    TRY(alloc_array(&values, ranks, sizeof *values, WHAT, e));
    TRY(alloc_zeroed(&excess, ranks, sizeof *excess, WHAT, e));
    for (int stage = 0; stage < r->mesh.size[AXIS_PP]; stage++) {
        uint32_t rows = 0;
        bool peers = false;
        for (int k = 0; k < r->view->ranks; k++)
            if (replay_record_stage(r, k) == stage && r->view->rank[k]->row_count > rows)
                rows = r->view->rank[k]->row_count;
        for (uint32_t row = 0; row < rows; row++)
            peers = add_excess(r, stage, row, values, excess) || peers;
        for (int k = 0; peers && k < r->view->ranks; k++)
            if (replay_record_stage(r, k) == stage && (*rank < 0 || excess[k] > excess[*rank]))
                *rank = k;
    }
done:
    free(values);
    free(excess);
    return result;
}

// ---- Other changes

static void change_comm(replay_record *r)
{
    for (int i = 0; i < r->x.pieces; i++) {
        const replay_part *p = &r->part[i];
        const bool call = p->kind != PART_WORK && p->kind != PART_LOADER;
        if (call || (p->kind == PART_WORK && p->phase == PHASE_COMM)) r->x.piece[i].seconds = 0;
    }
}

static void change_input(replay_record *r)
{
    for (int i = 0; i < r->x.pieces; i++)
        if (r->part[i].kind == PART_LOADER) r->x.piece[i].seconds = 0;
}

static bool is_of(const spans_row *row, const char *word)
{
    const size_t bytes = strlen(word);
    return strncmp(row->name, word, bytes) == 0 &&
           (row->name[bytes] == 0 || row->name[bytes] == ' ');
}

static status change_instr(replay_record *r, const replay_change *c, err *e)
{
    bool any = false;
    for (int i = 0; i < r->x.pieces; i++) {
        if (r->part[i].kind != PART_WORK || !is_of(replay_record_instr(r, i), c->instr)) continue;
        r->x.piece[i].seconds *= 1 - c->faster;
        any = true;
    }
    return any ? OK : err_set(e, E_USAGE, "the step has no instruction %s", c->instr);
}

static status apply(replay_record *r, const replay_change *c, err *e)
{
    if (c->kind == CHANGE_RANK) return change_rank(r, c->rank, e);
    if (c->kind == CHANGE_INSTR) return change_instr(r, c, e);
    if (c->kind == CHANGE_COMM) change_comm(r);
    if (c->kind == CHANGE_INPUT) change_input(r);
    return OK;
}

// Ranks that repeat the step begin it when their last one has ended, its tail included.
static status period_of(const replay_record *r, double *seconds, err *e)
{
    status result = OK;
    replay_span *time = NULL;
    double *gap = NULL;
    TRY(alloc_array(&time, (size_t)r->x.pieces, sizeof *time, WHAT, e));
    TRY(alloc_array(&gap, (size_t)r->x.ranks, sizeof *gap, WHAT, e));
    for (int k = 0; k < r->x.ranks; k++) gap[k] = r->gap[k] + r->tail[k];
    TRY(replay_ranks_period(&r->x, gap, time, seconds, e));
done:
    free(time);
    free(gap);
    return result;
}

status replay_change_period(replay_record *r, const replay_change *c, double *seconds, err *e)
{
    status result = OK;
    replay_piece *measured = r->x.piece, *changed = NULL;
    const size_t pieces = (size_t)r->x.pieces;
    TRY(alloc_array(&changed, pieces, sizeof *changed, WHAT, e));
    if (pieces) memcpy(changed, measured, pieces * sizeof *changed);
    r->x.piece = changed;
    TRY(apply(r, c, e));
    TRY(period_of(r, seconds, e));
done:
    r->x.piece = measured;
    free(changed);
    return result;
}
