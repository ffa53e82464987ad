// page_view.c -- reads the last steps of all ranks, and chooses the ranks that a page shows in detail (page_data.h). Called
// by page.c.
#include "monitor/page/page_data.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

void page_view_clear(page_view *p)
{
    free(p->rank);
    p->rank = NULL;
}

// ---- What each rank did

static void add_step(page_rank *rank, const spans_step *s)
{
    rank->steps++;
    for (int i = 0; i < SPANS_PHASES; i++) rank->phase_ns[i] += (double)s->phase_ns[i];
    rank->step_ns += (double)s->duration_ns;
    rank->waited_ns += (double)s->waited_ns;
}

// Charges the waits of the rank's last steps, as many as `most` spans hold, to the ranks that came last.
static status charge_waits(page_view *p, const spans *s, size_t most, err *e)
{
    status result = OK;
    span *list = NULL;
    spans_step step = {0};
    const uint64_t end = atomic_load(&s->head->steps), written = atomic_load(&s->head->spans);
    int steps = 0;
    for (uint64_t n = end; n > 0 && end - n < PAGE_RECENT; n--, steps++) {
        spans_step x;
        if (!spans_read_step(s, n - 1, &x) || (steps && x.first_span + most < written)) break;
        step = x;
    }
    if (!steps) return OK;
    TRY(alloc_array(&list, most, sizeof *list, "the spans of a page", e));
    uint64_t from = step.first_span;
    const size_t count = spans_read(s, &from, list, most);
    for (size_t i = 0; i < count; i++)
        if (list[i].last >= 0 && list[i].last < p->v->ranks && list[i].step >= (uint32_t)step.step)
            p->rank[list[i].last].caused_ns += (double)list[i].waited_ns / steps;
done:
    free(list);
    return result;
}

static void read_rank(page_view *p, int r)
{
    const spans *s = p->v->rank[r];
    page_rank *rank = &p->rank[r];
    spans_step step = {0};
    const uint64_t end = atomic_load(&s->head->steps);
    for (uint64_t n = end > PAGE_RECENT ? end - PAGE_RECENT : 0; n < end; n++)
        if (spans_read_step(s, n, &step)) add_step(rank, &step);
    if (!rank->steps) return;
    rank->recorded = true;
    // The last step that all have finished; a rank that stopped early leaves its steps.
    if (!p->last || step.step < p->last) p->last = step.step;
}

static status read_ranks(page_view *p, err *e)
{
    status result = OK;
    const size_t share = PAGE_MOST_READ / (size_t)(p->v->recorded ? p->v->recorded : 1);
    for (int r = 0; r < p->v->ranks; r++) {
        const spans *s = p->v->rank[r];
        if (!s) continue;
        read_rank(p, r);
        TRY(charge_waits(p, s, share < s->ring_count ? share : s->ring_count, e));
    }
done:
    return result;
}

// Makes means of sums.
static void divide(page_view *p)
{
    for (int r = 0; r < p->v->ranks; r++) {
        page_rank *rank = &p->rank[r];
        if (!rank->steps) continue;
        for (int i = 0; i < SPANS_PHASES; i++) rank->phase_ns[i] /= rank->steps;
        rank->step_ns /= rank->steps;
        rank->waited_ns /= rank->steps;
    }
}

// ---- The ranks that are shown in detail

typedef struct page_order {
    int rank;
    double key;
} page_order;

static int by_key(const void *a, const void *b)
{
    const page_order *x = a, *y = b;
    if (x->key != y->key) return x->key < y->key ? 1 : -1;
    return x->rank - y->rank;
}

static int by_number(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

// The largest keys come first.
static void choose(page_view *p, page_order *order, int count)
{
    // Those that others waited for.
    for (int i = 0; i < count; i++) order[i].key = p->rank[order[i].rank].caused_ns;
    qsort(order, (size_t)count, sizeof *order, by_key);
    const int worst = count <= PAGE_CHOSEN ? count : PAGE_WORST;
    for (int i = 0; i < worst; i++) p->chosen[p->chosen_count++] = order[i].rank;
    // Of the others those in the middle of the time that they worked themselves.
    order += worst;
    count -= worst;
    for (int i = 0; i < count; i++) {
        const page_rank *rank = &p->rank[order[i].rank];
        order[i].key = rank->step_ns - rank->waited_ns;
    }
    qsort(order, (size_t)count, sizeof *order, by_key);
    const int middle =
        PAGE_CHOSEN - p->chosen_count < count ? PAGE_CHOSEN - p->chosen_count : count;
    for (int i = 0; i < middle; i++)
        p->chosen[p->chosen_count++] = order[(count - middle) / 2 + i].rank;
    qsort(p->chosen, (size_t)p->chosen_count, sizeof *p->chosen, by_number);
}

status page_view_read(const run_view *v, page_view *out, err *e)
{
    status result = OK;
    page_order *order = NULL;
    int count = 0;
    *out = (page_view){.v = v};
    TRY(alloc_zeroed(&out->rank, (size_t)v->ranks, sizeof *out->rank, "the ranks of a page", e));
    TRY(alloc_zeroed(&order, (size_t)v->ranks, sizeof *order, "the ranks of a page", e));
    TRY(read_ranks(out, e));
    divide(out);
    if (out->last) out->first = out->last > SPANS_STEPS ? out->last - SPANS_STEPS + 1 : 1;
    for (int r = 0; r < v->ranks; r++)
        if (out->rank[r].recorded) order[count++].rank = r;
    choose(out, order, count);
done:
    free(order);
    return result;
}
