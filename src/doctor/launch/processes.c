// processes.c -- processes that an earlier run left: without a parent, or stopped. The table of this room
// calls the probes. Processes whose files only root may read are passed over.
#include "doctor/launch/launch_checks.h"

#include "doctor/doctor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct launch_process {
    int pid, parent;
    char name[32];
    char state;
} launch_process;

typedef void launch_visit(doctor_findings *out, const launch_process *p);

// "712 (trireme) S 1 ...": a name may hold spaces and brackets, so its last bracket ends it.
static bool read_process(const doctor_context *c, const char *pid, launch_process *out)
{
    char path[300], line[1024];
    snprintf(path, sizeof path, "/proc/%s/stat", pid);
    if (strspn(pid, "0123456789") != strlen(pid) || !doctor_read_line(c, path, line, sizeof line))
        return false;
    const char *open = strchr(line, '('), *close = strrchr(line, ')');
    if (!open || !close || close < open) return false;
    out->pid = atoi(pid);
    snprintf(out->name, sizeof out->name, "%.*s", (int)(close - open - 1), open + 1);
    return sscanf(close + 1, " %c %d", &out->state, &out->parent) == 2;
}

static status visit_each(const doctor_context *c, doctor_findings *out, launch_visit *visit, err *e)
{
    status result = OK;
    char **names = NULL;
    int total = 0;
    launch_process p;
    TRY(doctor_names(c, "/proc", &names, &total, e));
    for (int i = 0; i < total; i++)
        if (read_process(c, names[i], &p)) visit(out, &p);
done:
    doctor_names_free(names, total);
    return result;
}

static void find(doctor_findings *out, const launch_process *p)
{
    char pid[16];
    snprintf(pid, sizeof pid, "%d", p->pid);
    doctor_find(out, "where", pid, "name", p->name, NULL);
}

static bool is_rank(const launch_process *p)
{
    return strcmp(p->name, "trireme") == 0 || strcmp(p->name, "torchrun") == 0 ||
           strcmp(p->name, "deepspeed") == 0;
}

static void look_for_orphan(doctor_findings *out, const launch_process *p)
{
    if (is_rank(p) && p->parent == 1 && p->state != 'Z') find(out, p);
}

static void look_for_stopped(doctor_findings *out, const launch_process *p)
{
    if (is_rank(p) && (p->state == 'T' || p->state == 't')) find(out, p);
}

status launch_probe_orphans(const doctor_context *c, doctor_findings *out, err *e)
{
    return visit_each(c, out, look_for_orphan, e);
}

status launch_probe_stopped(const doctor_context *c, doctor_findings *out, err *e)
{
    return visit_each(c, out, look_for_stopped, e);
}
