// cmd.c -- failures, warnings and the arguments of a job, for every command. See cmd.h.
#include "cmd/cmd.h"

#include "base/text.h"
#include "ckpt/ckpt.h"
#include "cmd/console.h"
#include "comm/comm.h"
#include "config/debug.h"
#include "config/environment.h"
#include "config/job.h"

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

status cmd_open_job(int argc, char **argv, struct job **out, err *e)
{
    return cmd_open_job_own(argc, argv, &(job_own){.model = false}, out, e);
}

status cmd_open_job_own(int argc, char **argv, const job_own *own, struct job **out, err *e)
{
    const char *path = cmd_job_path(argc, argv);
    int skip = path ? 2 : 1;
    if (argc < 2)
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

json_t *json_of_text(const char *s)
{
    text valid = {0};
    text_add(&valid, "");
    for (size_t good; *s; s += good + (s[good] != 0)) {
        if (text_is_utf8(s, strlen(s), &good)) good = strlen(s);
        text_add_bytes(&valid, s, good);
    }
    json_t *j = json_string(valid.chars);
    text_clear(&valid);
    return j;
}

status cmd_use_model(struct job *j, const char *folder, err *e)
{
    status result = OK;
    model_config c;
    char *found = NULL;
    TRY(ckpt_locate(folder, &found, NULL, e));
    TRY(model_config_read(found, &c, e));
    if (c.family != j->model.config.family)
        FAIL(E_USAGE, "%s: the model is a %s, the job's is a %s", found,
             model_family_name(c.family), model_family_name(j->model.config.family));
    j->model.config = c;
    free(j->model.path);
    j->model.path = found;
    found = NULL;
    j->model.has_weights = true;
done:
    free(found);
    return result;
}
