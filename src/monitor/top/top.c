// top.c -- puts the screen of `trireme top` together (top.h): head, runs, curves, and one page of the chosen run.
#include "monitor/top/top.h"

#include "base/file.h"
#include "monitor/top/top_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LEAST_WIDTH = 40, LEAST_CURVE = 3, MOST_CURVE = 12, ONCE_CURVE = 8, ONCE_WIDTH = 100 };

// ---- Columns and numbers

void top_tone_add(text *t, int tone)
{
    text_add_bytes(t, &(char){(char)tone}, 1);
}

// The bytes of a character of UTF-8 but the first one.
static bool continues(char c)
{
    return ((unsigned char)c & 0xc0) == 0x80;
}

static int characters_of(const char *s)
{
    int count = 0;
    for (; *s; s++) count += !continues(*s);
    return count;
}

// Where the character number `skip` begins.
static const char *skip_characters(const char *s, int skip)
{
    for (; *s; s++)
        if (!continues(*s) && skip-- == 0) break;
    return s;
}

static void add_printable(text *t, const char *s, const char *end)
{
    text_add_printable(t, s, (size_t)(end - s), "");
}

void top_add_column(text *t, const char *s, int columns, bool keep_end)
{
    const int count = characters_of(s);
    if (count <= columns) {
        add_printable(t, s, s + strlen(s));
        for (int i = count; i < columns; i++) text_add(t, " ");
        return;
    }
    const char *begin = keep_end ? skip_characters(s, count - columns) : s;
    add_printable(t, begin, skip_characters(begin, columns));
}

void top_add_right(text *t, const char *s, int columns)
{
    for (int i = characters_of(s); i < columns; i++) text_add(t, " ");
    text_add(t, s);
}

void top_format_count(char out[24], double value)
{
    static const char units[] = " kMGT";
    int u = 0;
    if (!isfinite(value)) {
        strcpy(out, "-");
        return;
    }
    for (; value >= 999.5 && u < 4; u++) value /= 1000.0;
    if (u == 0)
        (void)snprintf(out, 24, "%.3g", value);
    else
        (void)snprintf(out, 24, "%.3g%c", value, units[u]);
}

void top_format_ms(char out[24], double ns)
{
    const double ms = ns / 1e6;
    if (ms >= 9999.5)
        (void)snprintf(out, 24, "%.3g s", ms / 1e3);
    else
        (void)snprintf(out, 24, ms < 9.95 ? "%.2f ms" : ms < 99.5 ? "%.1f ms" : "%.0f ms", ms);
}

void top_add_plain(const text *lines, text *out)
{
    for (size_t i = 0; i < lines->bytes; i++) {
        const unsigned char c = (unsigned char)lines->chars[i];
        if (c >= ' ' || c == '\n') text_add_bytes(out, &lines->chars[i], 1);
    }
}

// ---- The screen

static const char *const PAGES[TOP_PAGES] = {"ranks", "links", "devices"};
static const char *const SORTS[TOP_SORTS] = {"rank", "waits that it caused", "own time", "memory"};

static void add_head(int count, const top_settings *s, text *out)
{
    top_tone_add(out, TOP_TITLE);
    text_addf(out, "trireme top  %d run%s", count, count == 1 ? "" : "s");
    top_tone_add(out, TOP_SOFT);
    text_add(out, "   ");
    for (int i = 0; i < TOP_PAGES; i++) {
        top_tone_add(out, i == (int)s->page ? TOP_CHOSEN : TOP_SOFT);
        text_addf(out, " %d %s ", i + 1, PAGES[i]);
    }
    top_tone_add(out, TOP_SOFT);
    text_addf(out, "  by %s\n", SORTS[s->sort]);
}

static void add_keys(text *out)
{
    top_tone_add(out, TOP_SOFT);
    text_add(out, "q quit  1 2 3 pages  left right run  up down scroll  s sort  ? help\n");
}

static void add_help(text *out)
{
    static const char *const lines[] = {
        "q            ends this program; the runs go on",
        "1 2 3        shows ranks, links or devices",
        "left right   chooses the run that is shown in detail",
        "up down      scrolls the list by a line; page up and page down by a screen",
        "s            sorts ranks by number, waits that they caused, own time, memory",
        "?            shows and hides this text",
        "",
        "input … other are shares of a step, means of the last 32 steps.",
        "\"others wait\" is how long all other ranks together waited for the rank in a step.",
        "!: by itself a tenth slower than the median of its stage, in four of five steps.",
    };
    text_add(out, "\n");
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) text_addf(out, "  %s\n", lines[i]);
}

static void add_text_or(text *out, const char *s, const char *otherwise)
{
    const char *chars = s ? s : otherwise;
    text_add_printable(out, chars, strlen(chars), "");
}

// The chosen run in one line, its verdict and its error.
static void add_about(const top_run *r, text *out)
{
    const run_view *v = r->v;
    top_tone_add(out, TOP_TITLE);
    add_text_or(out, file_shown(v->folder), "");
    top_tone_add(out, TOP_SOFT);
    text_addf(out, "  %d rank%s", v->ranks, v->ranks == 1 ? "" : "s");
    static const char *const keys[] = {"model", "policy", "precision", "device"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        if (!run_view_text(v, keys[i])) continue;
        text_add(out, ", ");
        add_text_or(out, run_view_text(v, keys[i]), "");
    }
    text_add(out, "\n");
    if (v->error || r->verdict) {
        top_tone_add(out, v->error ? TOP_BAD : TOP_TITLE);
        add_text_or(out, v->error, r->verdict ? r->verdict : "");
        text_add(out, "\n");
    }
}

static status add_page(const top_run *r, const top_settings *s, top_page page, text *out, err *e)
{
    if (page == TOP_RANKS) return top_add_ranks(r->v, s, out, e);
    if (page == TOP_LINKS) top_add_links(r->v, out);
    if (page == TOP_DEVICES) text_add(out, s->devices && *s->devices ? s->devices : "no device\n");
    return OK;
}

static size_t lines_of(const text *t)
{
    size_t count = 0;
    for (size_t i = 0; i < t->bytes; i++) count += t->chars[i] == '\n';
    return count;
}

// Adds a line, at most `width` characters of it; tones take no place. Returns where the next one begins.
static const char *add_line(const char *line, int width, text *out)
{
    int columns = 0;
    for (; *line && *line != '\n'; line++) {
        const unsigned char c = (unsigned char)*line;
        if (c >= ' ' && !continues(*line)) columns++;
        if (c < ' ' || columns <= width) text_add_bytes(out, line, 1);
    }
    text_add(out, "\n");
    return *line ? line + 1 : line;
}

// Adds the lines from number `skip` on, at most `most` of them. The first `kept` ones always come.
static void add_lines(const text *from, int kept, int skip, int most, int width, text *out)
{
    const char *line = from->chars ? from->chars : "";
    for (int i = 0; *line && most > 0; i++) {
        if (i >= kept && i < kept + skip) {
            const char *end = strchr(line, '\n');
            line = end ? end + 1 : line + strlen(line);
            continue;
        }
        line = add_line(line, width, out);
        most--;
    }
}

static status add_screen(const top_run *runs, int count, const top_settings *s, text *out, err *e)
{
    status result = OK;
    text top = {0}, page = {0}, keys = {0};
    const int width = s->width > LEAST_WIDTH ? s->width : LEAST_WIDTH;
    add_head(count, s, &top);
    top_add_runs(runs, count, s, &top);
    const int rest = s->height - (int)lines_of(&top) - 1;
    int curve = rest / 3 < MOST_CURVE ? rest / 3 : MOST_CURVE;
    if (s->help) {
        add_help(&page);
    } else if (count) {
        if (curve >= LEAST_CURVE)
            TRY(top_add_curves(runs, count, width, curve, s->is_ascii, &top, e));
        add_about(&runs[s->run], &top);
        TRY(add_page(&runs[s->run], s, s->page, &page, e));
    } else {
        text_add(&page, "\n  No run trains on this machine. Give the folders of runs.\n");
    }
    TRY(text_check(&top, e));
    TRY(text_check(&page, e));
    add_lines(&top, 0, 0, s->height - 1, width, out);
    const int left = s->height - 1 - (int)lines_of(&top), list = (int)lines_of(&page);
    const int most = list - left > 0 ? list - left : 0;
    add_lines(&page, 1, s->first < most ? s->first : most, left, width, out);
    for (int i = (int)lines_of(out); i < s->height - 1; i++) text_add(out, "\n");
    add_keys(&keys);
    add_lines(&keys, 0, 0, 1, width, out);
done:
    text_clear(&top);
    text_clear(&page);
    text_clear(&keys);
    return result;
}

// All of it, one page after the other.
static status add_all(const top_run *runs, int count, const top_settings *s, text *out, err *e)
{
    status result = OK;
    const int width = s->width > LEAST_WIDTH ? s->width : ONCE_WIDTH;
    top_settings each = *s;
    each.run = -1;
    each.width = width;
    top_add_runs(runs, count, &each, out);
    if (count) TRY(top_add_curves(runs, count, width, ONCE_CURVE, s->is_ascii, out, e));
    for (int i = 0; i < count; i++) {
        text_add(out, "\n");
        add_about(&runs[i], out);
        TRY(top_add_ranks(runs[i].v, &each, out, e));
        text_add(out, "\n");
        top_add_links(runs[i].v, out);
    }
    if (s->devices && *s->devices) text_addf(out, "\n%s", s->devices);
done:
    return result;
}

status top_add(const top_run *runs, int count, const top_settings *s, text *out, err *e)
{
    status result = OK;
    if (s->height > 0)
        TRY(add_screen(runs, count, s, out, e));
    else
        TRY(add_all(runs, count, s, out, e));
    result = text_check(out, e);
done:
    return result;
}
