// page_view.c -- chooses the ranks that a page shows in detail (page_data.h). Called by page.c.
#include "monitor/page/page_data.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

void page_view_clear(page_view *p)
{
    free(p->rank);
    p->rank = NULL;
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
        const run_rank *rank = &p->rank[order[i].rank];
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
    TRY(run_recent_read(v, out->rank, &out->last, e));
    if (out->last) out->first = out->last > SPANS_STEPS ? out->last - SPANS_STEPS + 1 : 1;
    for (int r = 0; r < v->ranks; r++)
        if (out->rank[r].recorded) order[count++].rank = r;
    choose(out, order, count);
done:
    free(order);
    return result;
}
