// trace.c -- `trireme trace`: cuts steps out of the records of a run, while it goes or after its end, and writes them for
// Perfetto and for tools that read the traces of PyTorch's profiler.
#include "cmd/cmd.h"
#include "cmd/console.h"

#include "base/clock.h"
#include "base/file.h"
#include "cmd/command.h"
#include "monitor/trace/trace.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LOOK_MS = 20, REFRESH_MS = 1000 };

typedef struct trace_request {
    const char *run;
    int64_t steps, from; // from 0: the steps that come, or the last ones
    const char *format, *output, *timeout;
    bool perfetto, kineto, json;
    int64_t timeout_ms;
} trace_request;

#define AT(field) offsetof(trace_request, field)
static const flag flags[] = {
    {"--steps", FLAG_COUNT, AT(steps), "N", "Sets how many steps are traced (default: 3)."},
    {"--from", FLAG_COUNT, AT(from), "STEP",
     "Traces from this step on (default: the next N steps of a run that goes on, the last N of one "
     "that has ended)."},
    {"--format", FLAG_TEXT, AT(format), "perfetto|kineto|both",
     "Chooses the format: an archive for Perfetto (the default), a JSON file for each rank as "
     "PyTorch's profiler writes it, or both."},
    {"--out", FLAG_TEXT, AT(output), "FILE",
     "Writes the archive to this file, or the JSON files into this folder (default: into the "
     "trace's folder)."},
    {"--timeout", FLAG_TEXT, AT(timeout), "DURATION",
     "Sets how long a run may take no step before the command stops waiting (default: 600s)."},
    {"--json", FLAG_SWITCH, AT(json), NULL, "Prints one JSON object."},
};
enum { FLAGS = sizeof flags / sizeof *flags };

// ---- Waiting for steps

static bool goes_on(const run_view *v)
{
    for (int r = 0; r < v->ranks; r++)
        if (v->rank[r] && run_view_runs(v, r)) return true;
    return false;
}

// The last step that this rank has recorded; 0: none.
static uint64_t last_of(const run_view *v, int rank)
{
    spans_step s = {0};
    const uint64_t steps = atomic_load(&v->rank[rank]->head->steps);
    return steps && spans_read_step(v->rank[rank], steps - 1, &s) ? s.step : 0;
}

// The rank that is furthest behind, or in front; -1: no rank has a record yet.
static int find_rank(const run_view *v, bool behind)
{
    int found = -1;
    for (int r = 0; r < v->ranks; r++) {
        if (!v->rank[r]) continue;
        const bool better = found < 0 || (behind ? last_of(v, r) < last_of(v, found)
                                                 : last_of(v, r) > last_of(v, found));
        if (better) found = r;
    }
    return found;
}

// Waits until all ranks have recorded this step. *ended: the run has ended before.
static status wait_for(run_view *v, uint64_t step, int64_t timeout_ms, bool *ended, err *e)
{
    status result = OK;
    uint64_t seen = 0;
    double moved = clock_seconds(), read = moved;
    *ended = false;
    for (;;) {
        const int behind = find_rank(v, true);
        const uint64_t last = behind < 0 ? 0 : last_of(v, behind);
        const double now = clock_seconds();
        if (last >= step && v->recorded) return OK;
        if (last > seen) seen = last, moved = now;
        if (behind >= 0 && !goes_on(v)) {
            *ended = true;
            return OK;
        }
        if (now - moved > (double)timeout_ms * 1e-3)
            FAIL(E_IO,
                 "rank %d has recorded no step for %.0f s; its last is step %" PRIu64
                 ", and step %" PRIu64 " is to be traced",
                 behind < 0 ? 0 : behind, now - moved, last, step);
        nanosleep(&(struct timespec){.tv_nsec = LOOK_MS * 1000000L}, NULL);
        if (now - read < REFRESH_MS * 1e-3) continue;
        TRY(run_view_refresh(v, e));
        read = now;
    }
done:
    return result;
}

// ---- The steps

static status choose_last(const run_view *v, uint64_t steps, uint64_t *first, uint64_t *last,
                          err *e)
{
    uint64_t begin, end;
    if (!v->recorded)
        return err_set(e, E_USAGE, "%s: has no records of ranks (spans/rank-00000.spans)",
                       v->folder);
    if (!run_view_common_steps(v, &begin, &end))
        return err_set(e, E_USAGE, "%s: no step is recorded by all ranks", v->folder);
    *last = end;
    *first = end - begin >= steps ? end - steps + 1 : begin;
    return OK;
}

static status choose(run_view *v, const trace_request *r, uint64_t *first, uint64_t *last, err *e)
{
    status result = OK;
    bool ended = true;
    const uint64_t steps = (uint64_t)r->steps;
    *first = (uint64_t)r->from;
    if (goes_on(v)) {
        if (!*first) *first = last_of(v, find_rank(v, false)) + 1;
        *last = *first + steps - 1;
        TRY(wait_for(v, *last, r->timeout_ms, &ended, e));
        if (!ended) goto done;
    }
    if (r->from)
        *last = *first + steps - 1;
    else
        TRY(choose_last(v, steps, first, last, e));
done:
    return result;
}

// ---- What was written

typedef struct trace_output {
    char *folder, *archive, *kineto; // the last two NULL: not written
    uint64_t first, last, spans;
    int ranks;
} trace_output;

static status write_formats(const trace_request *r, const run_view *cut, trace_output *m, err *e)
{
    status result = OK;
    char name[TRACE_NAME_BYTES], file[TRACE_NAME_BYTES + 8];
    snprintf(file, sizeof file, "%s.tar", trace_name(m->first, m->last, name));
    if (r->perfetto && r->output) {
        TRY(text_copy(r->output, &m->archive, e));
        TRY(trace_write_perfetto(cut, r->output, e));
    } else if (r->perfetto) {
        TRY(file_join(m->folder, file, &m->archive, e));
    }
    if (!r->kineto) goto done;
    TRY(r->output && !r->perfetto ? text_copy(r->output, &m->kineto, e)
                                  : file_join(m->folder, "kineto", &m->kineto, e));
    TRY(trace_write_kineto(cut, m->kineto, e));
done:
    return result;
}

static uint64_t spans_of(const run_view *v)
{
    uint64_t count = 0;
    for (int r = 0; r < v->ranks; r++)
        if (v->rank[r]) count += atomic_load(&v->rank[r]->head->spans);
    return count;
}

static void print(const trace_request *r, const trace_output *m)
{
    if (r->json) {
        json_t *j = json_pack("{s:I, s:I, s:i, s:I, s:o}", "first", (json_int_t)m->first, "last",
                              (json_int_t)m->last, "ranks", m->ranks, "spans", (json_int_t)m->spans,
                              "folder", json_of_text(m->folder));
        if (m->archive) json_object_set_new(j, "perfetto", json_of_text(m->archive));
        if (m->kineto) json_object_set_new(j, "kineto", json_of_text(m->kineto));
        json_dumpf(j, stdout, JSON_COMPACT);
        putchar('\n');
        json_decref(j);
        return;
    }
    console_line("traced steps %" PRIu64 " to %" PRIu64 " of %d ranks, %" PRIu64 " spans, into %s",
                 m->first, m->last, m->ranks, m->spans, m->folder);
    if (m->archive) console_line("%s opens in https://ui.perfetto.dev", m->archive);
    if (m->kineto) console_line("%s has a file for each rank, as PyTorch's profiler", m->kineto);
}

static status trace(const trace_request *r, err *e)
{
    status result = OK;
    run_view *v = NULL, *cut = NULL;
    trace_output m = {0};
    TRY(run_view_open(r->run, &v, e));
    TRY(choose(v, r, &m.first, &m.last, e));
    if (v->recorded < v->ranks)
        console_warn("%d of %d ranks have a record in %s; the others are not traced", v->recorded,
                     v->ranks, v->folder);
    m.ranks = v->recorded;
    TRY(trace_cut(v, m.first, m.last, &m.folder, e));
    TRY(run_view_open(m.folder, &cut, e));
    m.spans = spans_of(cut);
    TRY(write_formats(r, cut, &m, e));
    print(r, &m);
done:
    run_view_close(cut);
    run_view_close(v);
    free(m.folder);
    free(m.archive);
    free(m.kineto);
    return result;
}

// ---- The command line

static status check(trace_request *r, const flag_texts *words, err *e)
{
    const bool both = strcmp(r->format, "both") == 0;
    if (words->count != 1) return err_set(e, E_USAGE, "trace: give the folder of a run");
    r->run = words->items[0];
    r->perfetto = both || strcmp(r->format, "perfetto") == 0;
    r->kineto = both || strcmp(r->format, "kineto") == 0;
    if (!r->perfetto && !r->kineto)
        return err_set(e, E_USAGE, "--format: found %.*s; valid: perfetto, kineto, both",
                       TEXT_CUT(r->format, 100));
    if (both && r->output)
        return err_set(e, E_USAGE, "--out: takes one format; valid with perfetto or kineto");
    if (r->steps < 1 || r->steps > SPANS_STEPS)
        return err_set(e, E_USAGE, "--steps: found %" PRId64 "; valid: 1 to %d", r->steps,
                       SPANS_STEPS);
    if (!text_to_duration_ms(r->timeout, &r->timeout_ms) || r->timeout_ms < 0)
        return err_set(e, E_USAGE, "--timeout: found %.*s; valid: a duration as 30s or 5m",
                       TEXT_CUT(r->timeout, 100));
    return OK;
}

static int cmd_trace(int argc, char **argv)
{
    status result = OK;
    err error = {0}, *e = &error;
    trace_request r = {.steps = 3, .format = "perfetto", .timeout = "600s"};
    flag_texts words = {0};
    TRY(flags_parse(flags, FLAGS, argc, argv, &r, &words, e));
    TRY(check(&r, &words, e));
    TRY(trace(&r, e));
done:
    flag_texts_clear(&words);
    return result == OK ? 0 : cmd_fail(e);
}

static const command *const SUBCOMMANDS[] = {&command_trace_report, NULL};

const command command_trace = {
    .name = "trace",
    .run = cmd_trace,
    .usage = "RUN [--steps N] [--from STEP] [--format perfetto|kineto|both] [--out FILE] [--json]",
    .help = "Traces steps of a run, while it goes or after its end.",
    .about = "Every rank keeps a record of its last steps, so a trace is a copy of these, and "
             "needs no restart. It is written into RUN/traces. In a run that goes on, the command "
             "waits until all ranks have taken N more steps.",
    .flags = flags,
    .flag_count = FLAGS,
    .subcommands = SUBCOMMANDS,
};
