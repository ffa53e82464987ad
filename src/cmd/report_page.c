// report_page.c -- writes and serves the page of a run (report_page.h). The server is net/http.h's.
#include "cmd/report_page.h"

#include "base/file.h"
#include "cmd/console.h"
#include "monitor/page/page.h"
#include "monitor/report/report.h"
#include "monitor/run_view.h"
#include "net/http.h"

#include <signal.h>
#include <string.h>
#include <time.h>

status report_write_html(const char *run, const char *file, err *e)
{
    status result = OK;
    run_view *v = NULL;
    report *r = NULL;
    text page = {0};
    TRY(run_view_open(run, &v, e));
    TRY(report_make(v, &r, e));
    TRY(page_make(v, r, &page, e));
    TRY(file_replace(file, page.chars, page.bytes, e));
    console_line("wrote %s", file);
done:
    text_clear(&page);
    report_close(r);
    run_view_close(v);
    return result;
}

// ---- The server

typedef struct page_server {
    run_view *v;
    sigset_t ends; // signals that end the command, which are blocked
    _Atomic int stop;
} page_server;

static void look_for_signal(void *arg)
{
    page_server *p = arg;
    if (sigtimedwait(&p->ends, NULL, &(struct timespec){0}) > 0) p->stop = 1;
}

typedef status page_writer(const run_view *v, const report *r, text *out, err *e);

static status write_report(const run_view *v, const report *r, text *out, err *e)
{
    (void)v;
    return page_report(r, out, e);
}

static const struct {
    const char *path, *type;
    page_writer *write;
} pages[] = {
    {"/", "text/html; charset=utf-8", page_make},
    {"/data.json", "application/json", page_data},
    {"/report.json", "application/json", write_report},
};

// A run whose log is being written may be unreadable for a moment: the answer says so, and the next one is whole.
static void answer(void *arg, const char *path, http_reply *out)
{
    run_view *v = ((page_server *)arg)->v;
    report *r = NULL;
    err e = {0};
    for (size_t i = 0; i < sizeof pages / sizeof *pages; i++) {
        if (strcmp(path, pages[i].path) != 0) continue;
        status result = run_view_refresh(v, &e);
        if (result == OK) result = report_make(v, &r, &e);
        if (result == OK) result = pages[i].write(v, r, &out->body, &e);
        out->code = result == OK ? 200 : 500;
        out->type = result == OK ? pages[i].type : "text/plain; charset=utf-8";
        if (result != OK) {
            text_clear(&out->body);
            text_addf(&out->body, "%s\n", e.text);
        }
    }
    report_close(r);
}

status report_serve(const char *run, const char *address, err *e)
{
    status result = OK;
    page_server p = {.v = NULL};
    sigset_t before;
    http_server *server = NULL;
    TRY(run_view_open(run, &p.v, e));
    TRY(http_open(address, answer, &p, &server, e));
    sigemptyset(&p.ends);
    sigaddset(&p.ends, SIGINT);
    sigaddset(&p.ends, SIGTERM);
    sigprocmask(SIG_BLOCK, &p.ends, &before);
    console_line("the page of %s is at http://%s/ (Ctrl-C ends this)", run, http_address(server));
    result = console_flush(e);
    if (result == OK) result = http_serve_with(server, &p.stop, look_for_signal, e);
    sigprocmask(SIG_SETMASK, &before, NULL);
done:
    http_close(server);
    run_view_close(p.v);
    return result;
}
