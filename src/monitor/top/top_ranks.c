// top_ranks.c -- a line for each rank of a run: what it does, the phases of its last steps, waits, memory. Called by top.c.
#include "monitor/top/top_parts.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

enum { NOW_COLUMNS = 17, HOST_COLUMNS = 8, FIXED_COLUMNS = 63, MOST_NOW = 48 };

typedef struct top_rank {
    int rank;
    double key;
} top_rank;

static int by_key(const void *a, const void *b)
{
    const top_rank *x = a, *y = b;
    if (x->key != y->key) return x->key < y->key ? 1 : -1;
    return x->rank - y->rank;
}

static double memory_of(const run_view *v, int rank)
{
    return v->rank[rank] ? (double)atomic_load(&v->rank[rank]->head->bytes_now) : 0;
}

static double key_of(const run_view *v, const run_rank *rank, int r, top_sort sort)
{
    switch (sort) {
    case TOP_BY_CAUSED:
        return rank[r].caused_ns;
    case TOP_BY_OWN:
        return rank[r].step_ns - rank[r].waited_ns;
    case TOP_BY_MEMORY:
        return memory_of(v, r);
    default:
        return 0;
    }
}

// The columns of shares: a phase each, and all others.
static const spans_phase SHARES[] = {PHASE_INPUT, PHASE_FORWARD, PHASE_BACKWARD, PHASE_OPTIMIZER,
                                     PHASE_COMM};
enum { SHARE_COUNT = sizeof SHARES / sizeof *SHARES };

static int now_columns(const top_settings *s)
{
    const int room = s->width - FIXED_COLUMNS;
    return room < NOW_COLUMNS ? NOW_COLUMNS : room > MOST_NOW ? MOST_NOW : room;
}

static void add_head(const top_settings *s, text *out)
{
    top_tone_add(out, TOP_TITLE);
    text_add(out, "   rank ");
    top_add_column(out, "host", HOST_COLUMNS, false);
    text_add(out, " ");
    top_add_column(out, "now", now_columns(s), false);
    text_add(out, " in fwd bwd opt com oth others wait     memory\n");
}

static void add_shares(const run_rank *x, text *out)
{
    double rest = 1;
    for (int i = 0; i < SHARE_COUNT; i++) {
        const double share = x->step_ns > 0 ? x->phase_ns[SHARES[i]] / x->step_ns : 0;
        rest -= share;
        text_addf(out, i ? " %3.0f" : "%3.0f", share * 100);
    }
    text_addf(out, " %3.0f", rest > 0 && x->step_ns > 0 ? rest * 100 : 0);
}

static void add_rank(const run_view *v, int r, const run_rank *x, const top_settings *s, text *out)
{
    char number[24];
    const bool slow = run_recent_is_straggler(x);
    top_tone_add(out, slow ? TOP_BAD : TOP_PLAIN);
    text_addf(out, "%c%6d ", slow ? '!' : ' ', r);
    top_add_column(out, v->rank[r] ? v->rank[r]->head->host : "-", HOST_COLUMNS, false);
    text_add(out, " ");
    top_add_column(out, top_now_of(v, r), now_columns(s), false);
    add_shares(x, out);
    top_format_ms(number, x->caused_ns);
    top_add_right(out, x->recorded ? number : "-", 12);
    text_bytes(number, memory_of(v, r));
    top_add_right(out, v->rank[r] ? number : "-", 11);
    text_add(out, "\n");
}

status top_add_ranks(const run_view *v, const top_settings *s, text *out, err *e)
{
    status result = OK;
    run_rank *rank = NULL;
    top_rank *order = NULL;
    uint64_t last;
    TRY(alloc_array(&rank, (size_t)v->ranks, sizeof *rank, "the ranks of a run", e));
    TRY(alloc_array(&order, (size_t)v->ranks, sizeof *order, "the ranks of a run", e));
    TRY(run_recent_read(v, rank, &last, e));
    for (int r = 0; r < v->ranks; r++) order[r] = (top_rank){r, key_of(v, rank, r, s->sort)};
    qsort(order, (size_t)v->ranks, sizeof *order, by_key);
    add_head(s, out);
    for (int i = 0; i < v->ranks; i++) add_rank(v, order[i].rank, &rank[order[i].rank], s, out);
done:
    free(order);
    free(rank);
    return result;
}
