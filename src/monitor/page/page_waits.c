// page_waits.c -- the data of a page that says who waited for whom, since the run began. Called by page.c.
#include "monitor/page/page_data.h"

#include "base/alloc.h"

#include <stdlib.h>

typedef struct page_pair {
    int waiter, cause;
    int64_t ns;
} page_pair;

static int64_t wait_of(const page_view *p, int waiter, int cause)
{
    const spans *s = p->v->rank[waiter];
    return s && cause < s->rank_count ? s->waits[cause] : 0;
}

// A row for each rank that waits.
static void add_matrix(const page_view *p, text *t)
{
    const int n = p->v->ranks;
    text_addf(t, "{\"size\":%d,\"ms\":[", n);
    for (int waiter = 0; waiter < n; waiter++) {
        text_add(t, waiter ? ",[" : "[");
        for (int cause = 0; cause < n; cause++) {
            page_add_comma(t, (size_t)cause);
            page_add_ms(t, (double)wait_of(p, waiter, cause));
        }
        text_add(t, "]");
    }
    text_add(t, "]}");
}

// Puts a pair among the longest so far, which are sorted.
static int insert(page_pair *pairs, int count, page_pair x)
{
    if (x.ns <= 0 || (count == PAGE_PAIRS && x.ns <= pairs[count - 1].ns)) return count;
    int i = count < PAGE_PAIRS ? count++ : count - 1;
    for (; i > 0 && pairs[i - 1].ns < x.ns; i--) pairs[i] = pairs[i - 1];
    pairs[i] = x;
    return count;
}

static status add_pairs(const page_view *p, text *t, err *e)
{
    status result = OK;
    page_pair pairs[PAGE_PAIRS];
    int64_t *caused = NULL;
    int count = 0;
    const int n = p->v->ranks;
    TRY(alloc_zeroed(&caused, (size_t)n, sizeof *caused, "the waits of a page", e));
    for (int waiter = 0; waiter < n; waiter++)
        for (int cause = 0; cause < n; cause++) {
            const int64_t ns = wait_of(p, waiter, cause);
            caused[cause] += ns;
            count = insert(pairs, count, (page_pair){waiter, cause, ns});
        }
    text_addf(t, "{\"size\":%d,\"pairs\":[", n);
    for (int i = 0; i < count; i++) {
        page_add_comma(t, (size_t)i);
        text_addf(t, "[%d,%d,", pairs[i].waiter, pairs[i].cause);
        page_add_ms(t, (double)pairs[i].ns);
        text_add(t, "]");
    }
    text_add(t, "],\"caused_ms\":[");
    for (int r = 0; r < n; r++) {
        page_add_comma(t, (size_t)r);
        page_add_ms(t, (double)caused[r]);
    }
    text_add(t, "]}");
done:
    free(caused);
    return result;
}

status page_add_waits(const page_view *p, text *t, err *e)
{
    if (p->v->ranks > PAGE_MATRIX) return add_pairs(p, t, e);
    add_matrix(p, t);
    return OK;
}
