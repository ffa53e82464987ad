// late.c -- see late.h.
#include "diagnose/late.h"

#include "base/alloc.h"
#include "diagnose/expression.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_RANKS = 1 << 16 };

static const char TIMED_OUT[] =
    "\\[Rank (?<rank>\\d{1,5})\\] Watchdog caught.*?SeqNum=(?<call>\\d+)";
static const char BEGUN[] =
    "Rank (?<rank>\\d{1,5})\\].*last enqueued (?:NCCL )?work: (?<call>\\d+)";

// The first call that a rank named, + 1; 0: none.
typedef struct late_calls {
    uint64_t timed_out, begun;
} late_calls;

struct late_ranks {
    expression *timed_out, *begun;
    late_calls *of; // [count] by rank
    size_t room;
    int count;
};

void late_close(late_ranks *l)
{
    if (!l) return;
    expression_close(l->timed_out);
    expression_close(l->begun);
    free(l->of);
    free(l);
}

status late_open(late_ranks **out, err *e)
{
    status result = OK;
    late_ranks *l = NULL;
    TRY(alloc_zeroed(&l, 1, sizeof *l, "a log's ranks", e));
    TRY(expression_open(TIMED_OUT, &l->timed_out, e));
    TRY(expression_open(BEGUN, &l->begun, e));
    TRY(alloc_zeroed(&l->of, MOST_RANKS, sizeof *l->of, "a log's ranks", e));
    *out = l;
    l = NULL;
done:
    late_close(l);
    return result;
}

static void add(late_ranks *l, const expression *x, const char *line, size_t bytes)
{
    expression_match m;
    uint64_t rank = 0, call = 0;
    if (!expression_find(x, line, bytes, &m)) return;
    for (int i = 0; i < m.count; i++) {
        uint64_t n = 0;
        for (size_t c = m.group[i].begin; c < m.group[i].end; c++)
            n = 10 * n + (uint64_t)(line[c] - '0');
        *(strcmp(m.group[i].name, "rank") == 0 ? &rank : &call) = n;
    }
    if (rank >= MOST_RANKS) return;
    late_calls *c = &l->of[rank];
    uint64_t *value = x == l->begun ? &c->begun : &c->timed_out;
    if (!*value || call + 1 < *value) *value = call + 1;
    if (l->count <= (int)rank) l->count = (int)rank + 1;
}

void late_add(late_ranks *l, const char *line, size_t bytes)
{
    add(l, l->timed_out, line, bytes);
    add(l, l->begun, line, bytes);
}

// The rank of the least value, if all others that have one have a greater one.
static int behind(const late_ranks *l, bool begun)
{
    int least = -1, ranks = 0;
    bool is_alone = true;
    for (int i = 0; i < l->count; i++) {
        const uint64_t value = begun ? l->of[i].begun : l->of[i].timed_out;
        if (!value) continue;
        ranks++;
        const uint64_t best = least < 0 ? UINT64_MAX
                              : begun   ? l->of[least].begun
                                        : l->of[least].timed_out;
        if (value == best) is_alone = false;
        if (value >= best) continue;
        least = i;
        is_alone = true;
    }
    return ranks > 1 && is_alone ? least : -1;
}

int late_rank(const late_ranks *l)
{
    const int rank = behind(l, true);
    return rank >= 0 ? rank : behind(l, false);
}

int late_count(const late_ranks *l)
{
    int count = 0;
    for (int i = 0; i < l->count; i++) count += l->of[i].timed_out || l->of[i].begun;
    return count;
}
