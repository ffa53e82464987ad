// top.c -- `trireme top`: shows runs while they go, the runs of this machine or those that are named.
#include "cmd/top.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/proc.h"
#include "cmd/cmd.h"
#include "cmd/command.h"
#include "cmd/console.h"
#include "device/device.h"
#include "monitor/report/report.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { VERDICT_S = 5, VERDICT_SHARE = 20 }; // seconds between verdicts, and times that one takes

// ---- Runs

static status add_run(top_list *t, const char *folder, err *e)
{
    status result = OK;
    run_view *v = NULL;
    TRY(alloc_grow(&t->view, &t->view_room, t->count + 1, sizeof *t->view, "the runs", e));
    TRY(alloc_grow(&t->run, &t->run_room, t->count + 1, sizeof *t->run, "the runs", e));
    TRY(alloc_grow(&t->note, &t->note_room, t->count + 1, sizeof *t->note, "the runs", e));
    TRY(run_view_open(folder, &v, e));
    t->view[t->count] = v;
    t->note[t->count] = (top_note){.problem = NULL};
    t->run[t->count] = (top_run){.v = v};
    t->count++;
done:
    return result;
}

static bool has_run(const top_list *t, const char *folder)
{
    for (size_t i = 0; i < t->count; i++)
        if (strcmp(t->view[i]->folder, folder) == 0) return true;
    return false;
}

// A run that begins or ends in this moment may be unreadable: the next look finds it.
static status find_runs(top_list *t, err *e)
{
    status result = OK;
    char **folder = NULL;
    size_t count = 0;
    TRY(top_find("/proc", &folder, &count, e));
    for (size_t i = 0; i < count; i++)
        if (!has_run(t, folder[i])) (void)add_run(t, folder[i], NULL);
done:
    for (size_t i = 0; i < count; i++) free(folder[i]);
    free(folder);
    return result;
}

// A verdict costs time in proportion to the recorded steps of all ranks, so it is made now and then.
static status make_verdict(const run_view *v, top_note *note, err *e)
{
    status result = OK;
    report *r = NULL;
    const double begin_s = clock_seconds();
    if (begin_s < note->again_s) return OK;
    TRY(report_make(v, &r, e));
    free(note->verdict);
    note->verdict = NULL;
    if (!r->is_short) TRY(text_copy(r->line, &note->verdict, e));
    note->again_s = clock_seconds() + VERDICT_S + VERDICT_SHARE * (clock_seconds() - begin_s);
done:
    report_close(r);
    return result;
}

status top_list_refresh(top_list *t, err *e)
{
    status result = OK;
    if (t->finds) TRY(find_runs(t, e));
    for (size_t i = 0; i < t->count; i++) {
        err why = {0};
        top_note *note = &t->note[i];
        free(note->problem);
        note->problem = NULL;
        if (run_view_refresh(t->view[i], &why) != OK) TRY(text_copy(why.text, &note->problem, e));
        TRY(make_verdict(t->view[i], note, e));
        t->run[i].verdict = note->problem ? note->problem : note->verdict;
    }
done:
    return result;
}

static void clear(top_list *t)
{
    for (size_t i = 0; i < t->count; i++) {
        run_view_close(t->view[i]);
        free(t->note[i].problem);
        free(t->note[i].verdict);
    }
    free(t->view);
    free(t->run);
    free(t->note);
    text_clear(&t->devices);
}

// ---- Devices

typedef void device_visit(const device_description *d, void *arg);

// The GPUs, or the processor where there are none.
static void each_device(device_visit *visit, void *arg)
{
    device_description d;
    int count = 1;
    for (int i = 0; i < count; i++) {
        if (device_describe("cuda", &(device_options){.index = i}, &d, NULL) != OK) break;
        count = d.count;
        visit(&d, arg);
    }
    if (device_describe("cpu", NULL, &d, NULL) == OK) visit(&d, arg);
}

static void add_device(const device_description *d, void *arg)
{
    text *t = arg;
    char bytes[24];
    text_bytes(bytes, (double)d->free_bytes);
    if (d->is_host_memory)
        text_addf(t, "   cpu       %-38s %3d cores  %12s free\n", d->kind, proc_usable_cores(),
                  bytes);
    else if (d->utilization >= 0)
        text_addf(t, "   gpu %-5d %-38s %3d %% busy %12s free\n", d->index, d->title,
                  d->utilization, bytes);
    else
        text_addf(t, "   gpu %-5d %-38s            %12s free\n", d->index, d->title, bytes);
}

void top_list_read_devices(top_list *t)
{
    text_clear(&t->devices);
    text_addf(&t->devices,
              "%c   device    name                                   load            memory\n%c",
              TOP_TITLE, TOP_PLAIN);
    each_device(add_device, &t->devices);
}

static void add_device_json(const device_description *d, void *arg)
{
    json_t *one = json_pack("{s:s, s:i, s:o, s:I}", "device", d->name, "index", d->index, "title",
                            json_of_text(d->title[0] ? d->title : d->kind), "free_bytes",
                            (json_int_t)d->free_bytes);
    if (d->utilization >= 0) json_object_set_new(one, "utilization", json_integer(d->utilization));
    json_array_append_new(arg, one);
}

// ---- The command

static status print_json(const top_list *t, err *e)
{
    status result = OK;
    json_t *out = NULL, *devices = json_array();
    each_device(add_device_json, devices);
    TRY(top_json(t->run, (int)t->count, devices, &out, e));
    json_dumpf(out, stdout, JSON_COMPACT);
    putchar('\n');
done:
    json_decref(out);
    return result;
}

static status print_once(top_list *t, err *e)
{
    status result = OK;
    text lines = {0}, plain = {0};
    top_list_read_devices(t);
    const top_settings s = {.width = console_columns(), .devices = t->devices.chars};
    if (!t->count) text_add(&lines, "No run trains on this machine. Give the folders of runs.\n\n");
    TRY(top_add(t->run, (int)t->count, &s, &lines, e));
    top_add_plain(&lines, &plain);
    TRY(text_check(&plain, e));
    console_print(plain.chars, plain.bytes);
done:
    text_clear(&lines);
    text_clear(&plain);
    return result;
}

typedef struct top_request {
    bool once, json;
    double every_s;
} top_request;

static const flag flags[] = {
    {"--once", FLAG_SWITCH, offsetof(top_request, once), NULL,
     "Prints all of it once as plain text. So does a program without ncurses, and one whose "
     "output is no terminal."},
    {"--json", FLAG_SWITCH, offsetof(top_request, json), NULL, "Prints it once as a JSON object."},
    {"--every", FLAG_NUMBER, offsetof(top_request, every_s), "SECONDS",
     "Looks at the runs after this time, at least 0.1 (default: 1)."},
};
enum { FLAGS = sizeof flags / sizeof *flags };

static status show(top_list *t, const top_request *r, err *e)
{
    if (r->json) return print_json(t, e);
#ifdef TRIREME_NCURSES
    if (!r->once && isatty(STDOUT_FILENO) && isatty(STDIN_FILENO))
        return top_screen_show(t, r->every_s, e);
#endif
    return print_once(t, e);
}

static int cmd_top(int argc, char **argv)
{
    status result = OK;
    err error = {0}, *e = &error;
    top_request r = {.every_s = 1};
    flag_texts folders = {0};
    top_list t = {0};
    TRY(flags_parse(flags, FLAGS, argc, argv, &r, &folders, e));
    if (!(r.every_s >= 0.1 && r.every_s <= 3600))
        FAIL(E_USAGE, "--every %g: valid are seconds from 0.1 to 3600", r.every_s);
    for (size_t i = 0; i < folders.count; i++) TRY(add_run(&t, folders.items[i], e));
    t.finds = !folders.count;
    TRY(top_list_refresh(&t, e));
    TRY(show(&t, &r, e));
done:
    clear(&t);
    flag_texts_clear(&folders);
    return result == OK ? 0 : cmd_fail(e);
}

const command command_top = {
    .name = "top",
    .run = cmd_top,
    .usage = "[RUN ...] [--once] [--json] [--every SECONDS]",
    .help = "Shows runs live: loss, ranks, phases, stragglers, memory, links, devices.",
    .about =
        "Looks at the folders of runs from outside. Without RUN it shows the runs of this user "
        "whose ranks are on this machine. A run that has ended is shown, too.",
    .flags = flags,
    .flag_count = FLAGS,
};
