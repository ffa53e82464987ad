// repeat.c -- see repeat.h. Each host puts its pairs into the store, and rank 0's host chooses.
#include "doctor/hosts/repeat.h"

#include "base/alloc.h"
#include "base/text.h"
#include "doctor/hosts/rounds.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_AGAIN = 12, WAIT_MS = 20000, GONE_MS = 3000 };

static status put_own(host_group *g, const host_pair *own, int count, err *e)
{
    status result = OK;
    char key[STORE_KEY_BYTES], *chars = NULL;
    json_t *list = json_array(), *one;
    for (int i = 0; i < count; i++) {
        TRY(host_pair_to_json(&own[i], &one, e));
        json_array_append_new(list, one);
    }
    chars = json_dumps(list, JSON_COMPACT);
    if (!chars) FAIL(E_MEMORY, "no memory for pairs of hosts");
    snprintf(key, sizeof key, "pairs/%d", g->index);
    TRY(host_group_put(g, key, chars, strlen(chars), e));
done:
    free(chars);
    json_decref(list);
    return result;
}

// Reads the pairs of a host. One that is gone has none.
static status get_pairs(host_group *g, int host, host_pair *all, int *count, err *e)
{
    status result = OK;
    char key[STORE_KEY_BYTES], *chars = NULL;
    size_t bytes, i;
    json_t *list = NULL, *one;
    snprintf(key, sizeof key, "pairs/%d", host);
    result = host_group_get(g, key, host_group_is_gone(g, host) ? 0 : GONE_MS, &chars, &bytes, e);
    if (result == E_PEER) return OK;
    if (result != OK) return result;
    list = json_loadb(chars, bytes, 0, NULL);
    json_array_foreach(list, i, one)
    {
        if (*count < g->count * g->count && host_pair_from_json(one, &all[*count])) (*count)++;
    }
    free(chars);
    json_decref(list);
    return OK;
}

static int by_rate(const void *a, const void *b)
{
    const double x = host_pair_rate(a), y = host_pair_rate(b);
    return (x > y) - (x < y);
}

// Rank 0's host chooses the slowest of the pairs that would be findings: "1 4,2 3,".
static status choose(host_group *g, err *e)
{
    status result = OK;
    host_pair *all = NULL;
    text again = {0};
    pair_medians m;
    int count = 0, chosen = 0;
    TRY(alloc_zeroed(&all, (size_t)g->count * (size_t)g->count, sizeof *all, "pairs of hosts", e));
    for (int i = 0; i < g->count; i++) TRY(get_pairs(g, i, all, &count, e));
    TRY(host_pairs_medians(all, count, &m, e));
    qsort(all, (size_t)count, sizeof *all, by_rate);
    for (int i = 0; i < count && chosen < MOST_AGAIN; i++) {
        if (!host_pair_is_slow(&all[i], &m) && !host_pair_takes_long(&all[i], &m)) continue;
        text_addf(&again, "%d %d,", all[i].from, all[i].to);
        chosen++;
    }
    TRY(text_check(&again, e));
    TRY(host_group_put(g, "again", again.bytes ? again.chars : "", again.bytes, e));
done:
    free(all);
    text_clear(&again);
    return result;
}

// The pair of this host once more; the better values stay.
static void play_again(host_group *g, int other, host_pair *p)
{
    host_pair again = p ? *p : (host_pair){.to = other};
    host_pair_play(g, other, p ? &again : NULL);
    if (!p || !host_pair_is_measured(&again)) return;
    if (host_pair_rate(&again) > host_pair_rate(p))
        p->link.out = again.link.out, p->link.in = again.link.in;
    if (again.link.latency_us < p->link.latency_us) p->link.latency_us = again.link.latency_us;
}

static host_pair *find_own(host_pair *own, int count, int to)
{
    for (int i = 0; i < count; i++)
        if (own[i].to == to) return &own[i];
    return NULL;
}

status host_pairs_repeat(host_group *g, host_pair *own, int count, err *e)
{
    status result = OK;
    char *again = NULL;
    size_t bytes;
    int from, to, turn = 2 * hosts_rounds(g->count);
    TRY(put_own(g, own, count, e));
    if (g->index == 0) TRY(choose(g, e));
    TRY(host_group_get(g, "again", WAIT_MS + GONE_MS * g->count, &again, &bytes, e));
    for (const char *next = again; sscanf(next, "%d %d", &from, &to) == 2;
         next = strchr(next, ',') + 1) {
        TRY(host_group_wait(g, turn++, WAIT_MS, e));
        if (from == g->index) play_again(g, to, find_own(own, count, to));
        if (to == g->index) play_again(g, from, NULL);
    }
    TRY(host_group_wait(g, turn, WAIT_MS, e));
done:
    free(again);
    return result;
}
