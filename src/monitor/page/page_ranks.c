// page_ranks.c -- the data of a page that the records of ranks give: the phases of steps, a row for each rank, memory.
// Called by page.c.
#include "monitor/page/page_data.h"

#include "base/alloc.h"
#include "base/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// ---- The phases of steps: means over ranks

typedef struct page_step {
    uint64_t step;
    int ranks;
    double phase_ns[SPANS_PHASES], gap_ns, memory, memory_most;
} page_step;

static void add_rank(page_step *x, const spans_step *s)
{
    x->ranks++;
    for (int i = 0; i < SPANS_PHASES; i++) x->phase_ns[i] += (double)s->phase_ns[i];
    x->gap_ns += (double)s->gap_ns;
    x->memory += (double)s->bytes_now;
    x->memory_most = fmax(x->memory_most, (double)s->bytes_now);
}

// Of many ranks each k-th is read.
static int each_rank(const run_view *v)
{
    return (v->ranks + PAGE_SAMPLE - 1) / PAGE_SAMPLE;
}

static size_t read_steps(const page_view *p, page_step *out)
{
    size_t count = 0;
    if (!p->last) return 0;
    const uint64_t each = (p->last - p->first) / PAGE_STEPS + 1;
    // The last step is shown.
    for (uint64_t step = p->first + (p->last - p->first) % each; step <= p->last; step += each) {
        page_step x = {.step = step};
        spans_step s;
        for (int r = 0; r < p->v->ranks; r += each_rank(p->v))
            if (run_view_step_of(p->v, r, step, &s)) add_rank(&x, &s);
        if (x.ranks) out[count++] = x;
    }
    return count;
}

static void add_column(const page_step *x, size_t count, size_t offset, double unit, text *t)
{
    text_add(t, "[");
    for (size_t i = 0; i < count; i++) {
        double value;
        memcpy(&value, (const char *)&x[i] + offset, sizeof value);
        page_add_comma(t, i);
        page_add_number(t, value / unit);
    }
    text_add(t, "]");
}

static void add_steps(const page_view *p, page_step *x, size_t count, text *t)
{
    int ranks = 0;
    for (size_t i = 0; i < count; i++) {
        ranks = x[i].ranks > ranks ? x[i].ranks : ranks;
        for (int k = 0; k < SPANS_PHASES; k++) x[i].phase_ns[k] /= x[i].ranks;
        x[i].gap_ns /= x[i].ranks;
        x[i].memory /= x[i].ranks;
    }
    text_addf(t, "{\"ranks\":%d,\"each\":%llu,\"step\":[", ranks,
              (unsigned long long)((p->last - p->first) / PAGE_STEPS + 1));
    for (size_t i = 0; i < count; i++) {
        page_add_comma(t, i);
        text_addf(t, "%llu", (unsigned long long)x[i].step);
    }
    text_add(t, "],\"phase_ms\":[");
    for (int k = 0; k < SPANS_PHASES; k++) {
        page_add_comma(t, (size_t)k);
        add_column(x, count, offsetof(page_step, phase_ns) + (size_t)k * sizeof(double), 1e6, t);
    }
    text_add(t, "],\"gap_ms\":");
    add_column(x, count, offsetof(page_step, gap_ns), 1e6, t);
    text_add(t, ",\"memory\":");
    add_column(x, count, offsetof(page_step, memory), 1, t);
    text_add(t, ",\"memory_most\":");
    add_column(x, count, offsetof(page_step, memory_most), 1, t);
    text_add(t, "}");
}

status page_add_steps(const page_view *p, text *t, err *e)
{
    status result = OK;
    page_step *x = NULL;
    TRY(alloc_zeroed(&x, PAGE_STEPS + 1, sizeof *x, "the steps of a page", e));
    add_steps(p, x, read_steps(p, x), t);
done:
    free(x);
    return result;
}

// ---- A row for each rank

// Hosts and devices repeat: a row names them by number.
static int number_of(json_t *numbers, json_t *words, const char *word)
{
    json_t *found = json_object_get(numbers, word);
    if (found) return (int)json_integer_value(found);
    const int number = (int)json_array_size(words);
    json_object_set_new(numbers, word, json_integer(number));
    json_array_append_new(words, json_string(word));
    return number;
}

// A text of a record, as UTF-8.
static status word_of(const char *chars, char **out, err *e)
{
    status result = OK;
    json_t *word = json_of_text(chars);
    TRY(text_copy(word ? json_string_value(word) : "", out, e));
done:
    json_decref(word);
    return result;
}

static status add_words(const page_view *p, const char *key, const char *list, size_t offset,
                        text *t, err *e)
{
    status result = OK;
    json_t *numbers = json_object(), *words = json_array();
    char *word = NULL;
    if (!numbers || !words) FAIL(E_MEMORY, "no memory for the ranks of a page");
    text_addf(t, ",\"%s\":[", key);
    size_t count = 0;
    for (int r = 0; r < p->v->ranks; r++) {
        if (!p->v->rank[r]) continue;
        TRY(word_of((const char *)p->v->rank[r]->head + offset, &word, e));
        page_add_comma(t, count++);
        text_addf(t, "%d", number_of(numbers, words, word));
        free(word);
        word = NULL;
    }
    text_addf(t, "],\"%s\":[", list);
    for (size_t i = 0; i < json_array_size(words); i++) {
        page_add_comma(t, i);
        text_add_json(t, json_string_value(json_array_get(words, i)));
    }
    text_add(t, "]");
done:
    free(word);
    json_decref(words);
    json_decref(numbers);
    return result;
}

typedef double rank_number(const page_view *p, int rank, int item);

static double rank_of(const page_view *p, int rank, int item)
{
    (void)p;
    (void)item;
    return rank;
}

static double stage_of(const page_view *p, int rank, int item)
{
    (void)item;
    return p->v->rank[rank]->head->stage;
}

static double phase_of(const page_view *p, int rank, int item)
{
    return p->rank[rank].phase_ns[item] / 1e6;
}

static double step_of(const page_view *p, int rank, int item)
{
    (void)item;
    return p->rank[rank].step_ns / 1e6;
}

static double waited_of(const page_view *p, int rank, int item)
{
    (void)item;
    return p->rank[rank].waited_ns / 1e6;
}

static double caused_of(const page_view *p, int rank, int item)
{
    (void)item;
    return p->rank[rank].caused_ns / 1e6;
}

static double plan_of(const page_view *p, int rank, int item)
{
    const uint64_t *bytes = p->v->rank[rank]->head->plan_bytes;
    double sum = 0;
    if (item >= 0) return (double)bytes[item];
    for (int i = 0; i < SPANS_MEMORIES; i++) sum += (double)bytes[i];
    return sum;
}

static double now_of(const page_view *p, int rank, int item)
{
    (void)item;
    return (double)atomic_load(&p->v->rank[rank]->head->bytes_now);
}

static double peak_of(const page_view *p, int rank, int item)
{
    (void)item;
    return (double)atomic_load(&p->v->rank[rank]->head->bytes_peak);
}

static void add_numbers(const page_view *p, rank_number *number, int item, text *t)
{
    size_t count = 0;
    text_add(t, "[");
    for (int r = 0; r < p->v->ranks; r++) {
        if (!p->v->rank[r]) continue;
        page_add_comma(t, count++);
        // Bytes have more digits than page_add_number writes.
        const double x = number(p, r, item);
        if (x == floor(x))
            text_addf(t, "%.0f", x);
        else
            page_add_number(t, x);
    }
    text_add(t, "]");
}

status page_add_ranks(const page_view *p, text *t, err *e)
{
    static const struct {
        const char *key;
        rank_number *number;
    } columns[] = {{"rank", rank_of},        {"stage", stage_of},      {"step_ms", step_of},
                   {"waited_ms", waited_of}, {"caused_ms", caused_of}, {"now", now_of},
                   {"peak", peak_of}};
    status result = OK;
    text_addf(t, "{\"recent\":%d", RUN_RECENT_STEPS);
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
        text_addf(t, ",\"%s\":", columns[i].key);
        add_numbers(p, columns[i].number, 0, t);
    }
    text_add(t, ",\"plan\":");
    add_numbers(p, plan_of, -1, t);
    text_add(t, ",\"phase_ms\":[");
    for (int k = 0; k < SPANS_PHASES; k++) {
        page_add_comma(t, (size_t)k);
        add_numbers(p, phase_of, k, t);
    }
    text_add(t, "]");
    TRY(add_words(p, "host", "hosts", offsetof(spans_head, host), t, e));
    TRY(add_words(p, "device", "devices", offsetof(spans_head, device), t, e));
    TRY(add_words(p, "place", "places", offsetof(spans_head, place), t, e));
    text_add(t, "}");
done:
    return result;
}

// ---- Memory of the chosen ranks, as the plan divides it

void page_add_memory(const page_view *p, text *t)
{
    text_add(t, "{\"rank\":[");
    for (int i = 0; i < p->chosen_count; i++) {
        page_add_comma(t, (size_t)i);
        text_addf(t, "%d", p->chosen[i]);
    }
    text_add(t, "],\"plan\":[");
    for (int k = 0; k < SPANS_MEMORIES; k++) {
        text_add(t, k ? ",[" : "[");
        for (int i = 0; i < p->chosen_count; i++) {
            page_add_comma(t, (size_t)i);
            text_addf(t, "%.0f", plan_of(p, p->chosen[i], k));
        }
        text_add(t, "]");
    }
    text_add(t, "]}");
}
