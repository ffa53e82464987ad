// top_json.c -- what `trireme top` shows as JSON. Called by cmd/top.c.
#include "monitor/top/top_parts.h"

#include "base/alloc.h"
#include "base/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static json_t *number(double x)
{
    return isfinite(x) ? json_real(x) : json_null();
}

static json_t *text_or_null(const char *s)
{
    return s ? json_of_text(s) : json_null();
}

static json_t *json_of_rank(const run_view *v, int r, const run_rank *x)
{
    const spans_head *h = v->rank[r]->head;
    json_t *phases = json_object();
    for (int i = 0; i < SPANS_PHASES; i++)
        json_object_set_new(phases, spans_phase_word(i), json_real(x->phase_ns[i] / 1e6));
    return json_pack("{s:i, s:o, s:o, s:o, s:o, s:f, s:o, s:f, s:f, s:b, s:I, s:I}", "rank", r,
                     "host", json_of_text(h->host), "device", json_of_text(h->device), "place",
                     json_of_text(h->place), "now", json_of_text(top_now_of(v, r)), "step_ms",
                     x->step_ns / 1e6, "phase_ms", phases, "waited_ms", x->waited_ns / 1e6,
                     "others_waited_ms", x->caused_ns / 1e6, "straggler",
                     run_recent_is_straggler(x), "memory", (json_int_t)atomic_load(&h->bytes_now),
                     "memory_peak", (json_int_t)atomic_load(&h->bytes_peak));
}

static status json_of_ranks(const run_view *v, json_t *out, err *e)
{
    status result = OK;
    run_rank *rank = NULL;
    uint64_t last;
    TRY(alloc_array(&rank, (size_t)v->ranks, sizeof *rank, "the ranks of a run", e));
    TRY(run_recent_read(v, rank, &last, e));
    for (int r = 0; r < v->ranks; r++)
        if (v->rank[r]) json_array_append_new(out, json_of_rank(v, r, &rank[r]));
done:
    free(rank);
    return result;
}

static json_t *json_of_links(const run_view *v)
{
    top_link list[TOP_MOST_LINKS];
    const int count = top_read_links(v, list);
    json_t *links = json_array();
    for (int i = 0; i < count; i++)
        json_array_append_new(
            links,
            json_pack("{s:o, s:o, s:I, s:I, s:f, s:f, s:f}", "group", json_of_text(list[i].group),
                      "call", json_of_text(list[i].name), "calls", (json_int_t)list[i].calls,
                      "bytes", (json_int_t)list[i].bytes, "seconds", (double)list[i].ns / 1e9,
                      "waited_seconds", (double)list[i].waited_ns / 1e9, "bytes_per_s",
                      top_link_rate(&list[i])));
    return links;
}

static status json_of_run(const top_run *r, json_t **out, err *e)
{
    status result = OK;
    const run_view *v = r->v;
    const run_step *last = v->steps ? &v->step[v->steps - 1] : NULL;
    json_t *ranks = json_array();
    TRY(json_of_ranks(v, ranks, e));
    *out = json_pack("{s:o, s:s, s:o, s:o, s:I, s:o, s:o, s:o, s:o, s:O, s:o}", "run",
                     json_of_text(v->folder), "state", run_view_state(v), "error",
                     text_or_null(v->error), "verdict", text_or_null(r->verdict), "step",
                     (json_int_t)(last ? last->step : 0), "steps",
                     number(run_view_number(v, "steps")), "loss", number(last ? last->loss : NAN),
                     "tokens_per_s", number(last ? last->tokens_per_s : NAN), "seconds",
                     number(top_seconds_of(v)), "ranks", ranks, "links", json_of_links(v));
    if (!*out) FAIL(E_MEMORY, "no memory for the numbers of a run");
done:
    json_decref(ranks);
    return result;
}

status top_json(const top_run *runs, int count, json_t *devices, json_t **out, err *e)
{
    status result = OK;
    json_t *list = json_array();
    for (int i = 0; i < count; i++) {
        json_t *one = NULL;
        TRY(json_of_run(&runs[i], &one, e));
        json_array_append_new(list, one);
    }
    *out = json_pack("{s:O, s:O}", "runs", list, "devices", devices);
    if (!*out) FAIL(E_MEMORY, "no memory for the numbers of runs");
done:
    json_decref(list);
    json_decref(devices);
    return result;
}
