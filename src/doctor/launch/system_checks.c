// system_checks.c -- the kernel's limits and the services that a run depends on: open files, process ids, the clock, sessions,
// core files, ssh. The table of this room calls the probes.
#include "doctor/launch/launch_checks.h"

#include "base/text.h"
#include "doctor/doctor.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NEARLY 0.9

status launch_probe_files(const doctor_context *c, doctor_findings *out, err *e)
{
    (void)e;
    char line[128], used[24], all[24];
    double open, most;
    if (!doctor_read_line(c, "/proc/sys/fs/file-nr", line, sizeof line) ||
        sscanf(line, "%lf %*f %lf", &open, &most) != 2) {
        doctor_blind(out, "/proc/sys/fs/file-nr cannot be read");
    } else if (open > NEARLY * most) {
        snprintf(used, sizeof used, "%.0f", open);
        snprintf(all, sizeof all, "%.0f", most);
        doctor_find(out, "open", used, "most", all, NULL);
    }
    return OK;
}

// /proc/loadavg: "0.50 0.40 0.30 2/512 712": 512 threads.
status launch_probe_pids(const doctor_context *c, doctor_findings *out, err *e)
{
    (void)e;
    char line[128], used[24], all[24];
    double threads;
    int64_t most;
    if (!doctor_read_line(c, "/proc/loadavg", line, sizeof line) ||
        sscanf(line, "%*f %*f %*f %*d/%lf", &threads) != 1 ||
        !doctor_read_number(c, "/proc/sys/kernel/pid_max", &most)) {
        doctor_blind(out, "/proc/loadavg or /proc/sys/kernel/pid_max cannot be read");
    } else if (threads > NEARLY * (double)most) {
        snprintf(used, sizeof used, "%.0f", threads);
        snprintf(all, sizeof all, "%" PRId64, most);
        doctor_find(out, "threads", used, "most", all, NULL);
    }
    return OK;
}

status launch_probe_kernel(const doctor_context *c, doctor_findings *out, err *e)
{
    (void)e;
    enum { MAJOR = 5, MINOR = 6 };
    char line[128];
    int major_number, minor_number;
    if (!doctor_read_line(c, "/proc/sys/kernel/osrelease", line, sizeof line) ||
        sscanf(line, "%d.%d", &major_number, &minor_number) != 2) {
        doctor_blind(out, "/proc/sys/kernel/osrelease cannot be read");
        return OK;
    }
    doctor_fact(out, "kernel", line);
    if (major_number < MAJOR || (major_number == MAJOR && minor_number < MINOR))
        doctor_find(out, "version", line, NULL);
    return OK;
}

status launch_probe_ptrace(const doctor_context *c, doctor_findings *out, err *e)
{
    (void)e;
    int64_t scope;
    if (!doctor_read_number(c, "/proc/sys/kernel/yama/ptrace_scope", &scope))
        doctor_skip(out, "this kernel does not limit ptrace");
    else if (scope >= 2)
        doctor_find(out, "value", scope == 2 ? "2" : "3", "who",
                    scope == 2 ? "root alone" : "nobody", NULL);
    return OK;
}

// "|/usr/share/apport/apport -p%p": a program that takes core files.
status launch_probe_core(const doctor_context *c, doctor_findings *out, err *e)
{
    status result = OK;
    char line[256], program[256], *full = NULL;
    struct stat info;
    if (!doctor_read_line(c, "/proc/sys/kernel/core_pattern", line, sizeof line) ||
        sscanf(line, "|%255s", program) != 1)
        return OK;
    TRY(doctor_path(c, program, &full, e));
    if (stat(full, &info) != 0) doctor_find(out, "where", program, NULL);
done:
    free(full);
    return result;
}

// A line of its own, without a comment sign: "KillUserProcesses=yes".
status launch_probe_logout(const doctor_context *c, doctor_findings *out, err *e)
{
    static const char *const words[] = {"KillUserProcesses=yes", "KillUserProcesses=true",
                                        "KillUserProcesses=1", "KillUserProcesses=on"};
    status result = OK;
    char *content = NULL;
    bool denied;
    TRY(doctor_read(c, "/etc/systemd/logind.conf", &content, &denied, e));
    if (!content) doctor_skip(out, "there is no logind");
    for (char *rest = content, *line; rest && (line = strsep(&rest, "\n"));)
        for (size_t i = 0; i < sizeof words / sizeof *words; i++)
            if (strcmp(line, words[i]) == 0) doctor_find(out, "setting", line, NULL);
done:
    free(content);
    return result;
}

static status exists(const doctor_context *c, const char *path, bool *out, err *e)
{
    char *full = NULL;
    struct stat info;
    const status result = doctor_path(c, path, &full, e);
    *out = result == OK && stat(full, &info) == 0;
    free(full);
    return result;
}

// Containers have the clock of their host, and no systemd.
status launch_probe_clock(const doctor_context *c, doctor_findings *out, err *e)
{
    static const char *const marks[] = {"/run/systemd/timesync/synchronized",
                                        "/run/chrony/chronyd.pid",
                                        "/run/chronyd.pid",
                                        "/run/ntpd.pid",
                                        "/run/ntpsec/ntpd.pid",
                                        "/run/openntpd.pid",
                                        "/run/ptp4l.pid"};
    status result = OK;
    bool there = false;
    TRY(exists(c, "/run/systemd/system", &there, e));
    if (!there) {
        doctor_skip(out, "no systemd runs here, so the clock is the host's or has another keeper");
        return OK;
    }
    there = false;
    for (size_t i = 0; i < sizeof marks / sizeof *marks && !there; i++)
        TRY(exists(c, marks[i], &there, e));
    if (!there) doctor_find(out, "where", "clock", NULL);
done:
    return result;
}

status launch_probe_reboot(const doctor_context *c, doctor_findings *out, err *e)
{
    bool there;
    const status result = exists(c, "/run/reboot-required", &there, e);
    if (there) doctor_find(out, "where", "/run/reboot-required", NULL);
    return result;
}

status launch_find_program(const doctor_context *c, const char *name, char **out, err *e)
{
    status result = OK;
    char path[600], *full = NULL;
    const char *rest = doctor_variable(c, "PATH");
    *out = NULL;
    while (rest && *rest && !*out) {
        const size_t bytes = strcspn(rest, ":");
        snprintf(path, sizeof path, "%.*s/%s", (int)(bytes < 500 ? bytes : 500), rest, name);
        TRY(doctor_path(c, path, &full, e));
        if (access(full, X_OK) == 0) TRY(text_copy(path, out, e));
        free(full);
        full = NULL;
        rest += bytes + (rest[bytes] == ':');
    }
done:
    free(full);
    return result;
}

status launch_probe_ssh(const doctor_context *c, doctor_findings *out, err *e)
{
    status result = OK;
    char *program = NULL;
    if (!c->peer) {
        doctor_skip(out, "no other host is named");
        return OK;
    }
    TRY(launch_find_program(c, "ssh", &program, e));
    if (!program) doctor_find(out, "where", "ssh", NULL);
done:
    free(program);
    return result;
}
