// cmd.c -- failures, warnings and the arguments of a job, for every command. See cmd.h.
#include "cmd/cmd.h"

#include "base/text.h"
#include "cmd/console.h"
#include "config/debug.h"
#include "config/environment.h"
#include "session/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int cmd_fail(const err *e)
{
    fflush(stdout);
    console_fail("%s", e->text);
    return status_exit_code(e->code);
}

const char *cmd_job_path(int argc, char **argv)
{
    return argc > 1 && strncmp(argv[1], "--", 2) != 0 ? argv[1] : NULL;
}

status cmd_open_job(int argc, char **argv, job **out, err *e)
{
    return cmd_open_job_own(argc, argv, &(job_own){.model = false}, out, e);
}

status cmd_open_job_own(int argc, char **argv, const job_own *own, job **out, err *e)
{
    const char *path = cmd_job_path(argc, argv);
    int skip = path ? 2 : 1;
    if (argc < 2 && !own->theirs)
        return err_set(e, E_USAGE, "%s: the job file is missing: trireme %s JOB.yaml", argv[0],
                       argv[0]);
    const status result = job_open_own(path, argc - skip, argv + skip, own, out, e);
    if (result == OK) cmd_warn((*out)->warnings.chars);
    return result;
}

static void each_line(const char *lines, void (*print)(const char *format, ...))
{
    while (lines && *lines) {
        const size_t bytes = strcspn(lines, "\n");
        print("%.*s", (int)bytes, lines);
        lines += bytes + (lines[bytes] == '\n');
    }
}

void cmd_say_lines(const char *lines)
{
    each_line(lines, console_say);
}

void cmd_warn(const char *lines)
{
    each_line(lines, console_warn);
}

void cmd_say_communicator(comm *c)
{
    text lines = {0};
    if (c->can.open_ports)
        console_warn("communicator %s: the ports of its ranks trust the network: whoever "
                     "reaches them can stop or change the run",
                     c->ops->name);
    if (debug_says(DEBUG_ENV)) environment_add_ignored(c->ops->name, c->can.tree_order, &lines);
    if (debug_says(DEBUG_INIT) || debug_says(DEBUG_NET))
        comm_add_choice(c, debug_says(DEBUG_NET), &lines);
    cmd_say_lines(lines.chars);
    text_clear(&lines);
}

status cmd_open_model(session_run *r, int argc, char **argv, const session_model_names *names,
                      err *e)
{
    status result = OK;
    session_inputs *in = &r->inputs;
    if (!join_follows(&r->join)) {
        TRY(cmd_open_job_own(argc, argv, &r->join.own, &r->job, e));
        TRY(session_use_model(r->job, names, e));
        TRY(session_inputs_open(r->job, in, e));
        cmd_warn(in->warnings.chars);
    }
    TRY(join_same(&r->join, names, &r->job, in, e));
    if (!in->valid) {
        in->valid = in->train;
        in->train = NULL;
    }
done:
    return result;
}

int cmd_end(session_join *c, status result, err *e)
{
    result = join_end(c, result, e);
    if (result == E_INTERRUPTED && join_follows(c))
        return status_exit_code(result); // rank 0 prints it
    return result == OK ? 0 : cmd_fail(e);
}

int cmd_end_run(session_run *r, status result, err *e)
{
    const bool quiet = !r->job || r->job->quiet;
    result = session_run_end(r, result, e);
    if (r->verdict.word && !quiet) {
        console_say("verdict: %s", r->verdict.line);
        console_say("next: %s", r->verdict.next);
    }
    session_verdict_clear(&r->verdict);
    return cmd_end(&r->join, result, e);
}
