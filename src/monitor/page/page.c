// page.c -- puts the page together (page.h): the template, its style and script, and the data.
#include "monitor/page/page.h"

#include "base/file.h"
#include "monitor/page/page_data.h"
#include "monitor/report/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// The texts of page.html, page.css and the scripts (CMakeLists.txt).
extern const char PAGE_HTML[], PAGE_CSS[], PAGE_CHARTS_JS[], PAGE_TIMELINE_JS[], PAGE_JS[];

enum { FORMAT = 1 };

void page_add_number(text *t, double value)
{
    if (isfinite(value))
        text_addf(t, "%.6g", value);
    else
        text_add(t, "null");
}

void page_add_ms(text *t, double ns)
{
    page_add_number(t, ns / 1e6);
}

void page_add_comma(text *t, size_t index)
{
    if (index) text_add(t, ",");
}

static void add_member(text *t, const char *key, const char *value)
{
    text_addf(t, ",\"%s\":", key);
    if (value)
        text_add_json(t, value);
    else
        text_add(t, "null");
}

// ---- The run

static void add_now(text *t)
{
    char now[40] = "";
    const time_t seconds = time(NULL);
    struct tm parts;
    if (gmtime_r(&seconds, &parts)) strftime(now, sizeof now, "%Y-%m-%d %H:%M:%S UTC", &parts);
    add_member(t, "made", now);
}

static void add_run(const page_view *p, text *t)
{
    const run_view *v = p->v;
    const int64_t logged = v->steps ? v->step[v->steps - 1].step : 0;
    text_addf(t, "{\"ranks\":%d,\"recorded\":%d,\"step\":%lld", v->ranks, v->recorded,
              (long long)(logged ? logged : (int64_t)p->last));
    add_member(t, "folder", v->folder);
    add_member(t, "state", run_view_state(v));
    add_member(t, "error", v->error);
    add_member(t, "reason", json_string_value(json_object_get(v->end, "reason")));
    text_add(t, ",\"seconds\":");
    const json_t *seconds = json_object_get(v->end, "seconds");
    page_add_number(t, json_is_number(seconds) ? json_number_value(seconds) : NAN);
    add_now(t);
    text_add(t, "}");
}

static status add_json(text *t, const json_t *value, err *e)
{
    status result = OK;
    char *chars = NULL;
    if (!value) {
        text_add(t, "null");
        return OK;
    }
    chars = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
    if (!chars) FAIL(E_MEMORY, "no memory for the data of a page");
    text_add(t, chars);
done:
    free(chars);
    return result;
}

// ---- The report

static void add_report(const report *r, text *t)
{
    if (!r) {
        text_add(t, "null");
        return;
    }
    text_add(t, "{\"format\":1");
    add_member(t, "verdict", r->verdict);
    add_member(t, "line", r->line);
    add_member(t, "next", r->next);
    text_add(t, ",\"evidence\":[");
    for (int i = 0; i < r->evidences; i++) {
        page_add_comma(t, (size_t)i);
        text_add_json(t, r->evidence[i]);
    }
    text_add(t, "]}");
}

status page_report(const report *r, text *out, err *e)
{
    status result = OK;
    if (r && r->json)
        TRY(add_json(out, r->json, e));
    else
        add_report(r, out);
    result = text_check(out, e);
done:
    return result;
}

// ---- The data

static void add_words(text *t)
{
    text_add(t, ",\"phase_words\":[");
    for (int i = 0; i < SPANS_PHASES; i++) {
        page_add_comma(t, (size_t)i);
        text_add_json(t, spans_phase_word(i));
    }
    text_add(t, "],\"memory_words\":[");
    for (int i = 0; i < SPANS_MEMORIES; i++) {
        page_add_comma(t, (size_t)i);
        text_add_json(t, spans_memory_word(i));
    }
    text_add(t, "]");
}

static status add_data(const page_view *p, const report *r, text *t, err *e)
{
    status result = OK;
    text_addf(t, "{\"format\":%d,\"run\":", FORMAT);
    add_run(p, t);
    text_add(t, ",\"report\":");
    add_report(r, t);
    add_words(t);
    text_add(t, ",\"log\":");
    page_add_log(p->v, t);
    text_add(t, ",\"eval\":");
    page_add_evals(p->v, t);
    text_add(t, ",\"save\":");
    page_add_saves(p->v, t);
    text_add(t, ",\"steps\":");
    TRY(page_add_steps(p, t, e));
    text_add(t, ",\"ranks\":");
    TRY(page_add_ranks(p, t, e));
    text_add(t, ",\"memory\":");
    page_add_memory(p, t);
    text_add(t, ",\"timeline\":");
    TRY(page_add_timeline(p, t, e));
    text_add(t, ",\"waits\":");
    TRY(page_add_waits(p, t, e));
    text_add(t, ",\"settings\":");
    TRY(add_json(t, p->v->start, e));
    text_add(t, "}");
    result = text_check(t, e);
done:
    return result;
}

status page_data(const run_view *v, const report *r, text *out, err *e)
{
    status result = OK;
    page_view p = {0};
    TRY(page_view_read(v, &p, e));
    TRY(add_data(&p, r, out, e));
done:
    page_view_clear(&p);
    return result;
}

// ---- The page

// In a string of JSON < may be written as an escape. So no name ends the script element that holds the data.
static void add_escaped(text *t, const text *data)
{
    const char *from = data->chars, *end = from + data->bytes;
    while (from < end) {
        const char *less = memchr(from, '<', (size_t)(end - from));
        text_add_bytes(t, from, (size_t)((less ? less : end) - from));
        if (!less) break;
        text_add(t, "\\u003c");
        from = less + 1;
    }
}

// Appends the template; each of its lines that is a mark is replaced by a part.
static void add_template(text *t, const text *data)
{
    static const struct {
        const char *mark, *part;
    } parts[] = {{"@STYLE@\n", PAGE_CSS},
                 {"@CHARTS@\n", PAGE_CHARTS_JS},
                 {"@TIMELINE@\n", PAGE_TIMELINE_JS},
                 {"@SCRIPT@\n", PAGE_JS}};
    for (const char *line = PAGE_HTML; *line;) {
        const char *newline = strchr(line, '\n');
        const size_t bytes = newline ? (size_t)(newline + 1 - line) : strlen(line);
        const char *part = NULL;
        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
            if (strncmp(line, parts[i].mark, strlen(parts[i].mark)) == 0) part = parts[i].part;
        if (part)
            text_add(t, part);
        else if (strncmp(line, "@DATA@\n", bytes) == 0)
            add_escaped(t, data);
        else
            text_add_bytes(t, line, bytes);
        line += bytes;
    }
}

status page_make(const run_view *v, const report *r, text *out, err *e)
{
    status result = OK;
    text data = {0};
    TRY(page_data(v, r, &data, e));
    add_template(out, &data);
    result = text_check(out, e);
done:
    text_clear(&data);
    return result;
}

status page_write(const run_view *v, const report *r, err *e)
{
    status result = OK;
    text page = {0};
    char *path = NULL;
    TRY(file_join(v->folder, "report.html", &path, e));
    TRY(page_make(v, r, &page, e));
    TRY(file_replace(path, page.chars, page.bytes, e));
done:
    text_clear(&page);
    free(path);
    return result;
}
