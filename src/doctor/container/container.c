// container.c -- finds out whether this process is in a container, and has the probes of what the container takes away:
// namespaces, capabilities and system calls.
#include "doctor/container/probes.h"
#include "doctor/doctor.h"
#include "doctor/memory/nodes.h"
#include "doctor/memory/readings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CAPABILITY_PTRACE = 19, CAPABILITY_NICE = 23 };

static status has_file(const doctor_context *c, const char *path, bool *has, err *e)
{
    char *content = NULL;
    bool denied = false;
    const status result = doctor_read(c, path, &content, &denied, e);
    *has = denied || content;
    free(content);
    return result;
}

status container_name(const doctor_context *c, char name[32], err *e)
{
    static const struct {
        const char *file, *variable, *name;
    } TRACES[] = {
        {NULL, "KUBERNETES_SERVICE_HOST", "kubernetes"},
        {NULL, "APPTAINER_NAME", "apptainer"},
        {NULL, "SINGULARITY_NAME", "singularity"},
        {"/run/.containerenv", NULL, "podman"},
        {"/.dockerenv", NULL, "docker"},
    };
    status result = OK;
    const char *given = doctor_variable(c, "container"); // systemd-nspawn, LXC and podman set it
    name[0] = 0;
    for (size_t i = 0; i < sizeof TRACES / sizeof *TRACES && !name[0]; i++) {
        bool has = TRACES[i].variable && doctor_variable(c, TRACES[i].variable);
        if (TRACES[i].file) TRY(has_file(c, TRACES[i].file, &has, e));
        if (has) snprintf(name, 32, "%s", TRACES[i].name);
    }
    if (!name[0] && given) snprintf(name, 32, "%s", given);
done:
    return result;
}

status container_need(const doctor_context *c, doctor_findings *out, char name[32], err *e)
{
    const status result = container_name(c, name, e);
    if (result == OK && !name[0]) doctor_skip(out, "this is no container");
    return result;
}

status probe_container_ipc(const doctor_context *c, doctor_findings *out, err *e)
{
    static const char HOST[] =
        "ipc:[4026531839]"; // the number that the kernel gives the first namespace
    status result = OK;
    char name[32], link[64] = "", *path = NULL;
    TRY(container_need(c, out, name, e));
    if (!name[0]) goto done;
    TRY(doctor_path(c, "/proc/self/ns/ipc", &path, e));
    const ssize_t bytes = readlink(path, link, sizeof link - 1);
    if (bytes <= 0)
        doctor_blind(out, "/proc/self/ns/ipc cannot be read");
    else if (strcmp(link, HOST) != 0)
        doctor_find(out, "where", "/proc/self/ns/ipc", "container", name, NULL);
done:
    free(path);
    return result;
}

status probe_container_ptrace(const doctor_context *c, doctor_findings *out, err *e)
{
    status result = OK;
    char name[32];
    bool has;
    int64_t scope = 0; // 1: only descendants may be traced. The check ptrace speaks of 2 and 3.
    TRY(container_need(c, out, name, e));
    TRY(reading_capability(c, "CapBnd:", CAPABILITY_PTRACE, &has, e));
    if (!name[0] || has || !doctor_read_number(c, "/proc/sys/kernel/yama/ptrace_scope", &scope) ||
        scope != 1)
        goto done;
    doctor_find(out, "where", "CAP_SYS_PTRACE", "container", name, NULL);
done:
    return result;
}

status probe_container_numa(const doctor_context *c, doctor_findings *out, err *e)
{
    status result = OK;
    char name[32], *own = NULL;
    memory_node node[MEMORY_NODES];
    int nodes;
    bool has;
    uint64_t seccomp = 0;
    TRY(container_need(c, out, name, e));
    if (!name[0]) goto done;
    TRY(memory_nodes_read(c, node, &nodes, e));
    TRY(reading_capability(c, "CapBnd:", CAPABILITY_NICE, &has, e));
    TRY(reading_need(c, out, "/proc/self/status", &own, e));
    if (nodes < 2)
        doctor_skip(out, "there is one NUMA node");
    else if (own && reading_number(own, "Seccomp:", &seccomp) && seccomp == 2 && !has)
        doctor_find(out, "where", "CAP_SYS_NICE", "container", name, NULL);
done:
    free(own);
    return result;
}

status probe_container_user(const doctor_context *c, doctor_findings *out, err *e)
{
    status result = OK;
    char name[32], line[128], inside[24], outside[24];
    unsigned long long first, real, count;
    TRY(container_need(c, out, name, e));
    if (!name[0] || !doctor_read_line(c, "/proc/self/uid_map", line, sizeof line) ||
        sscanf(line, "%llu %llu %llu", &first, &real, &count) != 3 || first == real)
        goto done;
    snprintf(inside, sizeof inside, "%llu", first);
    snprintf(outside, sizeof outside, "%llu", real);
    doctor_find(out, "where", "/proc/self/uid_map", "user", inside, "outer", outside, NULL);
done:
    return result;
}

status probe_container_capabilities(const doctor_context *c, doctor_findings *out, err *e)
{
    status result = OK;
    const char *given = doctor_variable(c, "NVIDIA_DRIVER_CAPABILITIES");
    char name[32];
    int gpus;
    TRY(container_need(c, out, name, e));
    TRY(reading_gpus(c, &gpus, e));
    if (!name[0]) goto done;
    if (!gpus)
        doctor_skip(out, "there is no GPU");
    else if (given && *given && !strstr(given, "compute") && !strstr(given, "all"))
        doctor_find(out, "where", "NVIDIA_DRIVER_CAPABILITIES", "value", given, NULL);
done:
    return result;
}

status probe_subsystem(const doctor_context *c, doctor_findings *out, err *e)
{
    char release[128];
    (void)e;
    if (!doctor_read_line(c, "/proc/sys/kernel/osrelease", release, sizeof release)) {
        doctor_skip(out, "/proc/sys/kernel/osrelease does not exist");
        return OK;
    }
    doctor_fact(out, "kernel_release", release);
    if (strstr(release, "icrosoft"))
        doctor_find(out, "where", "/proc/sys/kernel/osrelease", "release", release, NULL);
    return OK;
}
