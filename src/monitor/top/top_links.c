// top_links.c -- the calls of a run by process group: how often, how many bytes, how fast. Called by top.c.
#include "monitor/top/top_parts.h"

#include <string.h>

static top_link *find(top_link *list, int *count, const spans_row *row)
{
    for (int i = 0; i < *count; i++)
        if (strcmp(list[i].group, row->group) == 0 && strcmp(list[i].name, row->name) == 0)
            return &list[i];
    if (*count == TOP_MOST_LINKS) return NULL;
    top_link *new = &list[(*count)++];
    *new = (top_link){.calls = 0};
    memcpy(new->group, row->group, sizeof new->group);
    memcpy(new->name, row->name, sizeof new->name);
    return new;
}

int top_read_links(const run_view *v, top_link *out)
{
    int count = 0;
    for (int r = 0; r < v->ranks; r++) {
        const spans *s = v->rank[r];
        for (uint32_t i = 0; s && i < s->row_count; i++) {
            const spans_row *row = &s->rows[i];
            top_link *x = row->kind == SPANS_CALL && row->count ? find(out, &count, row) : NULL;
            if (!x) continue;
            x->calls += row->count;
            x->bytes += row->count * row->bytes;
            x->ns += row->sum_ns;
            x->waited_ns += row->waited_ns;
        }
    }
    return count;
}

double top_link_rate(const top_link *x)
{
    return x->ns > x->waited_ns ? (double)x->bytes * 1e9 / (double)(x->ns - x->waited_ns) : 0;
}

void top_add_links(const run_view *v, text *out)
{
    top_link list[TOP_MOST_LINKS];
    const int count = top_read_links(v, list);
    top_tone_add(out, TOP_TITLE);
    text_add(
        out,
        "   process group        call                  calls       bytes     a second  waited\n");
    for (int i = 0; i < count; i++) {
        const top_link *x = &list[i];
        char bytes[24], rate[24], calls[24];
        text_bytes(bytes, (double)x->bytes);
        text_bytes(rate, top_link_rate(x));
        top_format_count(calls, (double)x->calls);
        top_tone_add(out, TOP_PLAIN);
        text_add(out, "   ");
        top_add_column(out, x->group[0] ? x->group : "-", 20, false);
        text_add(out, " ");
        top_add_column(out, x->name, 18, false);
        top_add_right(out, calls, 9);
        top_add_right(out, bytes, 12);
        top_add_right(out, top_link_rate(x) > 0 ? rate : "-", 13);
        text_addf(out, " %5.0f %%\n", x->ns ? 100.0 * (double)x->waited_ns / (double)x->ns : 0);
    }
    if (!count) text_add(out, "   no call so far\n");
}
