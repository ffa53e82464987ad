// check_original.c -- the steps of `trireme translate --check` under the original: writes original.py and its request to
// the temporary folder, starts it as `trireme run` starts a program, and reads the lines that it has left. It knows no
// system's name.
#include "cmd/check/check.h"

#include "base/file.h"
#include "cmd/run/run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static status write_file(const check *c, const char *name, const char *chars, char **path, err *e)
{
    status result = OK;
    TRY(file_join(c->folder, name, path, e));
    TRY(file_replace(*path, chars, strlen(chars), e));
done:
    return result;
}

// Adds what becomes known late: the file of the results, and the learning rates of the steps here.
static status write_request(const check *c, const char *result_path, char **path, err *e)
{
    status result = OK;
    json_t *rates = json_array();
    char *out = NULL;
    for (int64_t i = 0; i < c->own->steps; i++)
        json_array_append_new(rates, json_real(c->own->step[i].lr));
    json_object_set_new(c->request, "rates", rates);
    json_object_set_new(c->request, "result", json_of_text(result_path));
    out = json_dumps(c->request, JSON_INDENT(2));
    if (!out) FAIL(E_MEMORY, "no memory for the request of the original");
    TRY(write_file(c, "request.json", out, path, e));
done:
    free(out);
    return result;
}

// ---- What it has left

static void take_text(const json_t *line, const char *name, bool is_line, text *out)
{
    const char *s = json_string_value(json_object_get(line, name));
    if (s) text_addf(out, "%s%s", s, is_line ? "\n" : "");
}

static double number_of(const json_t *line, const char *name, double fallback)
{
    const json_t *n = json_object_get(line, name);
    return json_is_number(n) ? json_number_value(n) : fallback;
}

// A line is a step, or has one of the other members.
static void take_line(check *c, const json_t *line)
{
    check_side *s = c->original;
    const json_int_t step = json_integer_value(json_object_get(line, "step"));
    if (step == s->steps + 1 && step <= c->steps)
        s->step[s->steps++] =
            (check_step){number_of(line, "loss", NAN), number_of(line, "grad_norm", NAN),
                         number_of(line, "lr", NAN)};
    s->peak_bytes = number_of(line, "peak_bytes", s->peak_bytes);
    s->base_bytes = number_of(line, "base_bytes", s->base_bytes);
    take_text(line, "versions", false, &c->versions);
    take_text(line, "note", true, &c->notes);
    take_text(line, "cannot", false, &c->cannot);
}

static status read_results(check *c, const char *path, err *e)
{
    status result = OK;
    char *chars = NULL, *rest = NULL;
    if (!file_exists(path)) return OK;
    TRY(file_read_small(path, FILE_MOST_CONFIG, &chars, NULL, e));
    for (char *s = strtok_r(chars, "\n", &rest); s; s = strtok_r(NULL, "\n", &rest)) {
        json_error_t problem;
        json_t *line = json_load_python(s, strlen(s), 0, &problem);
        if (!json_is_object(line)) text_addf(&c->cannot, "its driver wrote a line that is no JSON");
        take_line(c, line);
        json_decref(line);
    }
done:
    free(chars);
    return result;
}

// ---- The start

// The failure is read from the result.
static void unsaid(const char *line)
{
    (void)line;
}

// The workers' output goes to files; the record of a failure has its end.
static status start(const check *c, int ranks, char **words, int count, agent_result *out, err *e)
{
    status result = OK;
    char workers[16];
    run_options o = {0};
    text logs = {0};
    snprintf(workers, sizeof workers, "%d", ranks);
    text_addf(&logs, "%s/logs", c->folder);
    TRY(text_check(&logs, e));
    const run_request q = {.workers = {.nproc = workers,
                                       .max_restarts = -1,
                                       .shutdown_s = -1,
                                       .no_python = true,
                                       .quiet = true},
                           .nodes = {.node_rank = -1, .master_port = -1, .standalone = true},
                           .outputs = {.folder = logs.chars, .redirects = "3"}};
    sigset_t before;
    TRY(run_options_open(&q, words, count, &o, e));
    o.agent.say = unsaid;
    // A second signal must not end the process before the temporary folder is removed.
    sigprocmask(SIG_BLOCK, &o.agent.signals, &before);
    result = agent_run(&o.agent, out, e);
    if (!out->signal) sigprocmask(SIG_SETMASK, &before, NULL);
done:
    run_options_close(&o);
    text_clear(&logs);
    return result;
}

status check_run_original(check *c, int ranks, const char *word, err *e)
{
    status result = OK;
    agent_result r = {0};
    char *program = NULL, *request = NULL, *lines = NULL;
    TRY(file_join(c->folder, "result", &lines, e));
    TRY(write_file(c, "original.py", CHECK_ORIGINAL, &program, e));
    TRY(write_request(c, lines, &request, e));
    char *words[] = {(char *)(uintptr_t)c->q->python, program, request, (char *)(uintptr_t)word};
    remove(lines);
    result = start(c, ranks, words, word ? 4 : 3, &r, e);
    if (result == E_PEER && r.count > 0) {
        text_add(&c->cannot, "it failed: ");
        worker_failure_line(&r.failures[0], &c->cannot);
        result = OK;
    }
    if (r.signal) result = err_set(e, E_INTERRUPTED, "interrupted");
    if (result == OK) TRY(read_results(c, lines, e));
    if (result == OK && !word && !c->cannot.bytes && c->original->steps < c->steps)
        text_addf(&c->cannot, "it ended after %lld of %lld steps", (long long)c->original->steps,
                  (long long)c->steps);
    if (result == OK) TRY(text_check(&c->cannot, e));
done:
    free(r.failures);
    free(program);
    free(request);
    free(lines);
    return result;
}
