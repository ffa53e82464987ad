// trace_report.c -- `trireme trace report`: replays a recorded step of a run, and prints its critical path, what each
// rank waits for, and what the step would be if something were otherwise. monitor/replay/ does it.
#include "cmd/cmd.h"
#include "cmd/command.h"
#include "cmd/console.h"

#include "monitor/replay/replay_report.h"
#include "session/replay_job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The flags of the command.
typedef struct report_request {
    const char *step; // as given; NULL: not given
    flag_texts ask;
    bool json;
} report_request;

static const flag flags[] = {
    {"--step", FLAG_TEXT, offsetof(report_request, step), "N",
     "Takes step N (default: the step of median duration)."},
    {"--what-if", FLAG_TEXTS, offsetof(report_request, ask), "CHANGE",
     "Also says what the step would take with a change: rank=3 (rank 3 is as fast as its peers), "
     "communication and input (they take no time), BACKWARD=20 (these instructions take 20 % less "
     "time), schedule=zb (another pipeline schedule)."},
    {"--json", FLAG_SWITCH, offsetof(report_request, json), NULL, "Prints one JSON object."},
};
enum { FLAGS = sizeof flags / sizeof *flags };

static status refuse(const char *word, err *e)
{
    return err_set(
        e, E_USAGE,
        "--what-if: found '%s'; valid: rank=R, communication, input, INSTRUCTION=PERCENT, "
        "schedule=NAME",
        word);
}

static status ask_schedule(replay_report *r, const replay_job *j, const char *name, err *e)
{
    status result = OK;
    double ratio;
    char what[64];
    TRY(replay_job_schedule(j, r->record, name, &ratio, e));
    (void)snprintf(what, sizeof what, "the pipeline's schedule were %s", name);
    replay_report_answer(r, what, r->period * ratio);
done:
    return result;
}

// Answers one word of --what-if.
static status ask(replay_report *r, const replay_job *j, const char *word, err *e)
{
    status result = OK;
    const char *value = strchr(word, '=');
    const size_t bytes = value ? (size_t)(value++ - word) : strlen(word);
    char name[64];
    int64_t rank;
    double less;
    replay_change c = {.kind = CHANGE_NOTHING};
    if (bytes == 0 || bytes >= sizeof name) return refuse(word, e);
    (void)snprintf(name, sizeof name, "%.*s", (int)bytes, word);
    if (value && strcmp(name, "schedule") == 0) {
        TRY(ask_schedule(r, j, value, e));
        goto done;
    }
    if (!value && strcmp(name, "communication") == 0) {
        c.kind = CHANGE_COMM;
    } else if (!value && strcmp(name, "input") == 0) {
        c.kind = CHANGE_INPUT;
    } else if (value && strcmp(name, "rank") == 0) {
        if (!text_to_count(value, &rank) || rank < 0 || rank >= r->record->view->ranks)
            FAIL(E_USAGE, "--what-if: found rank '%s'; valid: 0 to %d", value,
                 r->record->view->ranks - 1);
        c = (replay_change){.kind = CHANGE_RANK, .rank = (int)rank};
    } else {
        if (!value || !text_to_double(value, &less) || less < 0 || less > 100)
            return refuse(word, e);
        c = (replay_change){.kind = CHANGE_INSTR, .instr = name, .faster = less / 100};
    }
    TRY(replay_report_ask(r, &c, e));
done:
    if (result == E_USAGE && strncmp(e->text, "--what-if", 9) != 0) err_prefix(e, "--what-if: ");
    return result;
}

static status find_step(const run_view *v, const char *given, uint64_t *step, err *e)
{
    int64_t number;
    if (!given) return replay_record_median_step(v, step, e);
    if (!text_to_count(given, &number) || number < 1)
        return err_set(e, E_USAGE, "--step: found '%s'; valid: a step, from 1", given);
    *step = (uint64_t)number;
    return OK;
}

static status report(const char *folder, const report_request *q, err *e)
{
    status result = OK;
    run_view *v = NULL;
    replay_job j = {.job = NULL};
    replay_record *record = NULL;
    replay_report r = {.record = NULL};
    text out = {0};
    uint64_t step;
    TRY(run_view_open(folder, &v, e));
    TRY(find_step(v, q->step, &step, e));
    TRY(replay_job_open(v, &j, e));
    TRY(replay_record_open(v, step, &j.known, &record, e));
    TRY(replay_report_make(record, &r, e));
    r.is_median = !q->step;
    r.note = j.why;
    TRY(replay_report_ask_all(&r, e));
    for (size_t i = 0; i < q->ask.count; i++) TRY(ask(&r, &j, q->ask.items[i], e));
    replay_report_print(&r, q->json, &out);
    TRY(text_check(&out, e));
    console_print(out.chars, out.bytes);
done:
    text_clear(&out);
    replay_report_clear(&r);
    replay_record_close(record);
    replay_job_close(&j);
    run_view_close(v);
    return result;
}

static int cmd_trace_report(int argc, char **argv)
{
    status result = OK;
    err error = {0}, *e = &error;
    report_request q = {.step = NULL};
    flag_texts words = {0};
    TRY(flags_parse(flags, FLAGS, argc, argv, &q, &words, e));
    if (words.count != 1)
        FAIL(E_USAGE, "trace report: found %zu folders; valid: one, of a run or a trace",
             words.count);
    TRY(report(words.items[0], &q, e));
done:
    flag_texts_clear(&words);
    flag_texts_clear(&q.ask);
    return result == OK ? 0 : cmd_fail(e);
}

const command command_trace_report = {
    .name = "report",
    .run = cmd_trace_report,
    .usage = "RUN [--step N] [--what-if CHANGE ...] [--json]",
    .help = "Prints what held a step back: critical path, waits, and what if.",
    .about =
        "RUN is the folder of a run, which may go on, or of a trace. The instructions of all "
        "ranks are replayed with the durations that they took. The waits are computed anew, so "
        "a change of one rank or of communication shows what the whole step would take.",
    .flags = flags,
    .flag_count = FLAGS,
};
