// progress.c -- prints the progress line. Rank 0 calls it after every step and for events between
// steps. It deliberately does not know the trainer. It never fails, because a run must not stop when
// its output cannot be written.
#include "monitor/progress.h"
#include "base/clock.h"
#include "base/file.h"

#include <math.h>
#include <poll.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { FIELD_COUNT = 7, FIELD_BYTES = 64, PLAIN_COLUMNS = 0, DEFAULT_COLUMNS = 80 };

static const double redraw_s = 0.1, plain_least_s = 1.0, plain_share = 0.1;

// --- the text ----------------------------------------------------------------------------------

static void format_duration(char *out, size_t room, double seconds)
{
    long long s = (long long)(seconds + 0.5);
    if (s < 60) {
        snprintf(out, room, "%llds", s);
    } else if (s < 3600) {
        snprintf(out, room, "%lldm%02llds", s / 60, s % 60);
    } else if (s < 86400) {
        snprintf(out, room, "%lldh%02lldm", s / 3600, s / 60 % 60);
    } else {
        snprintf(out, room, "%lldd%02lldh", s / 86400, s / 3600 % 24);
    }
}

// "987", "12.3k", "4.56M"
static void format_rate(char *out, size_t room, double rate)
{
    static const char units[] = " kMGT";
    int u = 0;

    for (; rate >= 999.5 && u < 4; u++) rate /= 1000.0;
    if (u == 0) {
        snprintf(out, room, rate < 9.95 ? "%.1f" : "%.0f", rate);
    } else {
        snprintf(out, room, "%.*f%c", rate < 9.995 ? 2 : rate < 99.95 ? 1 : 0, rate, units[u]);
    }
}

typedef char progress_fields[FIELD_COUNT][FIELD_BYTES];

// The fields in their order on the line.
enum { FIELD_STEP, FIELD_LOSS, FIELD_LR, FIELD_NORM, FIELD_RATE, FIELD_MFU, FIELD_LEFT };

static void fill_fields(const event_step *s, double left_s, progress_fields f)
{
    char rate[16], left[24];

    memset(f, 0, sizeof(progress_fields));
    snprintf(f[FIELD_STEP], FIELD_BYTES, "step %lld/%lld", (long long)s->step, (long long)s->steps);
    snprintf(f[FIELD_LOSS], FIELD_BYTES, "loss %.4f%s", s->loss, s->skipped ? " (skipped)" : "");
    snprintf(f[FIELD_LR], FIELD_BYTES, "lr %.2e", s->lr);
    snprintf(f[FIELD_NORM], FIELD_BYTES, fabs(s->grad_norm) < 1e4 ? "|g| %.2f" : "|g| %.1e",
             s->grad_norm);
    format_rate(rate, sizeof rate, (double)s->tokens_per_s);
    snprintf(f[FIELD_RATE], FIELD_BYTES, "%s %s/s", rate, s->unit ? s->unit : "tok");
    if (isfinite(s->mfu))
        snprintf(f[FIELD_MFU], FIELD_BYTES, "mfu %.0f %%", 100.0 * (double)s->mfu);
    if (left_s >= 0.0 && isfinite(left_s)) {
        format_duration(left, sizeof left, left_s);
        snprintf(f[FIELD_LEFT], FIELD_BYTES, "%s left", left);
    }
}

static int line_width(progress_fields f)
{
    int width = 0;
    for (int i = 0; i < FIELD_COUNT; i++)
        if (f[i][0]) width += (int)strlen(f[i]) + (width ? 2 : 0);
    return width;
}

void progress_format(const event_step *s, double left_s, int columns, text *out)
{
    static const int drop_first[] = {FIELD_MFU,  FIELD_NORM, FIELD_LR,
                                     FIELD_RATE, FIELD_LEFT, FIELD_LOSS};
    progress_fields f;
    bool any = false;

    fill_fields(s, left_s, f);
    for (int i = 0; columns > 0 && i < FIELD_COUNT - 1 && line_width(f) > columns; i++)
        f[drop_first[i]][0] = 0;
    for (int i = 0; i < FIELD_COUNT; i++) {
        if (!f[i][0]) continue;
        text_addf(out, "%s%s", any ? "  " : "", f[i]);
        any = true;
    }
}

// --- the stream --------------------------------------------------------------------------------

void progress_open(progress *p, FILE *out, progress_mode mode)
{
    if (mode == PROGRESS_AUTO) mode = isatty(fileno(out)) ? PROGRESS_TERMINAL : PROGRESS_PLAIN;
    *p = (progress){.out = out, .mode = mode, .started_s = clock_seconds()};
}

static int terminal_columns(const progress *p)
{
    struct winsize size;

    if (p->columns > 0) return p->columns;
    if (ioctl(fileno(p->out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
    return DEFAULT_COLUMNS;
}

// When the output is full (a stopped terminal, a full pipe), the line is lost, because waiting would
// stop all ranks. When the reader has closed it, `p` becomes quiet.
static void send(progress *p, const text *lines)
{
    struct pollfd out = {.fd = fileno(p->out), .events = POLLOUT};
    if (out.fd >= 0 && poll(&out, 1, 0) == 0) return;
    if (fwrite(lines->chars, 1, lines->bytes, p->out) != lines->bytes || fflush(p->out) != 0)
        p->mode = PROGRESS_QUIET;
}

// One column stays free, because some terminals wrap after a full last column.
static void add_line(progress *p, text *out, double now_s)
{
    bool terminal = p->mode == PROGRESS_TERMINAL;
    int columns = terminal ? terminal_columns(p) - 1 : PLAIN_COLUMNS;
    double left_s = p->last.step >= p->last.steps
                        ? -1.0
                        : p->step_seconds * (double)(p->last.steps - p->last.step);
    text line = {0};

    progress_format(&p->last, left_s, columns, &line);
    text_addf(out, terminal ? "\r%s\033[K" : "%s\n", line.chars);
    text_clear(&line);
    p->on_line = terminal;
    p->has_pending = false;
    p->printed_s = now_s;
}

static void show(progress *p, double now_s)
{
    text line = {0};
    add_line(p, &line, now_s);
    send(p, &line);
    text_clear(&line);
}

static bool is_due(const progress *p, double now_s)
{
    double wait_s = redraw_s;

    if (p->last.step >= p->last.steps || p->printed_s == 0.0) return true;
    if (p->mode == PROGRESS_PLAIN)
        wait_s = fmax(plain_least_s, plain_share * (p->printed_s - p->started_s));
    return now_s - p->printed_s >= wait_s;
}

void progress_step(progress *p, const event_step *s, double now_s)
{
    double seconds = (double)s->seconds;

    if (p->mode == PROGRESS_QUIET) return;
    // The first step of a run is slower than the others, so the mean starts with the second.
    p->step_seconds = p->seen < 2 ? seconds : 0.9 * p->step_seconds + 0.1 * seconds;
    p->seen++;
    p->last = *s;
    p->has_pending = true;
    if (is_due(p, now_s)) show(p, now_s);
}

void progress_note(progress *p, const char *format, ...)
{
    text note = {0}, lines = {0};
    va_list args;

    if (p->mode == PROGRESS_QUIET) return;
    va_start(args, format);
    text_addv(&note, format, args);
    va_end(args);
    if (p->on_line) text_add(&lines, "\r\033[K");
    text_add_printable(&lines, note.chars, note.bytes, "");
    text_add(&lines, "\n");
    if (p->on_line) add_line(p, &lines, p->printed_s);
    send(p, &lines);
    text_clear(&note);
    text_clear(&lines);
}

void progress_close(progress *p)
{
    const text end = {.chars = (char[]){"\n"}, .bytes = 1};

    if (p->mode == PROGRESS_QUIET) return;
    if (p->has_pending) show(p, clock_seconds());
    if (p->on_line && p->mode != PROGRESS_QUIET) send(p, &end);
    p->on_line = false;
}

// --- the sink ----------------------------------------------------------------------------------

static void note_eval(progress *p, const event *ev)
{
    const double loss = ev->eval.loss;
    char perplexity[40] = "";
    if (ev->eval.has_perplexity)
        snprintf(perplexity, sizeof perplexity, "  perplexity %.2f", exp(loss));
    progress_note(p, "step %lld  validation loss %.4f%s", (long long)ev->eval.step, loss,
                  perplexity);
}

// One that is not chronic yet is told by the log alone.
static void note_straggler(progress *p, const event *ev)
{
    char who[24] = "all ranks";
    if (!ev->straggler.chronic) return;
    if (ev->straggler.rank >= 0) snprintf(who, sizeof who, "rank %d", ev->straggler.rank);
    progress_note(p,
                  "step %lld  straggler: %s on host %s; the others wait for it for %.0f %% of a "
                  "step; cause: %s",
                  (long long)ev->straggler.step, who, ev->straggler.host, 100 * ev->straggler.share,
                  ev->straggler.cause);
}

static void note_verdict(progress *p, const event *ev)
{
    progress_note(p, "verdict: %s", ev->verdict.line);
    progress_note(p, "next: %s", ev->verdict.next);
}

static status take(void *arg, const event *ev, err *e)
{
    progress *p = arg;
    (void)e;
    if (ev->kind == EVENT_START && ev->start.checkpoint)
        progress_note(p, "resuming from %s", file_shown(ev->start.checkpoint));
    if (ev->kind == EVENT_STEP) progress_step(p, &ev->step, clock_seconds());
    if (ev->kind == EVENT_EVAL) note_eval(p, ev);
    if (ev->kind == EVENT_SAVE) progress_note(p, "saved %s", file_shown(ev->save.path));
    if (ev->kind == EVENT_STRAGGLER) note_straggler(p, ev);
    if (ev->kind == EVENT_VERDICT) note_verdict(p, ev);
    if (ev->kind == EVENT_NOTE) progress_note(p, "%s", ev->note);
    return OK;
}

static void close_progress(void *p)
{
    progress_close(p);
}

event_sink progress_sink(progress *p)
{
    return (event_sink){.take = take, .close = close_progress, .arg = p};
}
