// cores.c -- the probes of the cores that a run may use: quotas and weights of control groups, affinity masks, cores that
// are offline or isolated, and the ranks that share them.
#include "base/text.h"
#include "doctor/doctor.h"
#include "doctor/memory/group.h"
#include "doctor/memory/nodes.h"
#include "doctor/memory/readings.h"
#include "doctor/processor/probes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CPUS "/sys/devices/system/cpu"

typedef struct cores_search {
    double cores; // 0: no group has a quota
    char folder[256];
} cores_search;

// Keeps the least quota, in cores. Version 2: "200000 100000" or "max 100000"; version 1: two files, and -1 for none.
static bool take_quota(const doctor_context *c, const char *folder, int version, void *arg)
{
    cores_search *s = arg;
    char path[320], line[64];
    int64_t quota = 0, period = 0;
    if (version == 2) {
        long long read_quota, read_period;
        snprintf(path, sizeof path, "%s/cpu.max", folder);
        if (!doctor_read_line(c, path, line, sizeof line) ||
            sscanf(line, "%lld %lld", &read_quota, &read_period) != 2)
            return true;
        quota = read_quota;
        period = read_period;
    } else {
        snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", folder);
        if (!doctor_read_number(c, path, &quota)) return true;
        snprintf(path, sizeof path, "%s/cpu.cfs_period_us", folder);
        if (!doctor_read_number(c, path, &period)) return true;
    }
    const double cores = quota > 0 && period > 0 ? (double)quota / (double)period : 0;
    if (cores <= 0 || (s->cores > 0 && cores >= s->cores)) return true;
    s->cores = cores;
    snprintf(s->folder, sizeof s->folder, "%s", folder);
    return true;
}

status probe_cpu_limit(const doctor_context *c, doctor_findings *out, err *e)
{
    status result = OK;
    cores_search s = {.cores = 0};
    int cores, ranks;
    char quota[24], usable[24], threads[24];
    TRY(group_walk(c, GROUP_CPU, take_quota, &s, e));
    TRY(reading_cores(c, &cores, e));
    TRY(reading_ranks(c, &ranks, e));
    if (s.cores <= 0) {
        doctor_skip(out, "no control group limits the time of cores");
        goto done;
    }
    if (s.cores > cores - 0.01) goto done;
    const int each = (int)s.cores / ranks;
    snprintf(quota, sizeof quota, "%.4g", s.cores);
    snprintf(usable, sizeof usable, "%d", cores);
    snprintf(threads, sizeof threads, "%d", each > 1 ? each : 1);
    doctor_find(out, "where", s.folder, "quota", quota, "cores", usable, "threads", threads, NULL);
done:
    return result;
}

status probe_cpu_throttled(const doctor_context *c, doctor_findings *out, err *e)
{
    status result = OK;
    uint64_t periods, throttled;
    bool counts, found;
    char share[24];
    TRY(group_counted(c, GROUP_CPU, "cpu.stat", "cpu.stat", "nr_periods", &periods, &counts, e));
    TRY(group_counted(c, GROUP_CPU, "cpu.stat", "cpu.stat", "nr_throttled", &throttled, &found, e));
    if (!counts || !found || !periods) {
        doctor_skip(out, "no control group limits the time of cores");
        goto done;
    }
    const double percent = 100.0 * (double)throttled / (double)periods;
    if (percent < 5) goto done;
    snprintf(share, sizeof share, "%.0f", percent);
    doctor_find(out, "where", "control group", "share", share, NULL);
done:
    return result;
}

// The number of cores in a list of /sys; 0 where the file is missing or empty.
static int listed_cores(const doctor_context *c, const char *name)
{
    char path[128], line[2048];
    snprintf(path, sizeof path, CPUS "/%s", name);
    return doctor_read_line(c, path, line, sizeof line) ? reading_listed(line) : 0;
}

status probe_cpuset(const doctor_context *c, doctor_findings *out, err *e)
{
    status result = OK;
    int usable;
    char may[48], all[24];
    TRY(reading_cores(c, &usable, e));
    const int online = listed_cores(c, "online");
    if (!usable || !online) {
        doctor_blind(out, "/proc/self/status and " CPUS "/online do not say which cores there are");
        goto done;
    }
    doctor_measure(out, "cores_usable", usable, "cores", true);
    if (usable >= online) goto done;
    reading_counted(may, (uint64_t)usable, "core");
    snprintf(all, sizeof all, "%d", online);
    doctor_find_as(out, usable == 1 ? DOCTOR_WARNING : DOCTOR_NOTE, "where", "affinity mask",
                   "usable", may, "online", all, NULL);
done:
    return result;
}

status probe_cores_per_rank(const doctor_context *c, doctor_findings *out, err *e)
{
    status result = OK;
    int usable, ranks, gpus;
    char cores[48], count[48], need[24];
    TRY(reading_cores(c, &usable, e));
    TRY(reading_ranks(c, &ranks, e));
    TRY(reading_gpus(c, &gpus, e));
    const int wanted =
        gpus ? 2 * ranks
             : ranks; // a rank of a GPU has a thread that issues and one that reads data
    if (!usable) doctor_blind(out, "/proc/self/status does not say which cores there are");
    if (!usable || usable >= wanted) goto done;
    reading_counted(cores, (uint64_t)usable, "core");
    reading_counted(count, (uint64_t)ranks, "rank");
    snprintf(need, sizeof need, "%d", wanted);
    doctor_find(out, "where", "cores", "cores", cores, "ranks", count, "need", need, NULL);
done:
    return result;
}

status probe_cores_offline(const doctor_context *c, doctor_findings *out, err *e)
{
    char line[64], off[24], all[24];
    const int present = listed_cores(c, "present"), online = listed_cores(c, "online");
    (void)e;
    if (!present || !online) {
        doctor_skip(out, CPUS "/present does not exist");
        return OK;
    }
    // Without simultaneous threads, half of the cores that are counted are off as intended.
    if (doctor_read_line(c, CPUS "/smt/control", line, sizeof line) &&
        (strcmp(line, "off") == 0 || strcmp(line, "forceoff") == 0)) {
        doctor_skip(out, "simultaneous threads of cores are switched off");
        return OK;
    }
    if (online >= present) return OK;
    snprintf(off, sizeof off, "%d", present - online);
    snprintf(all, sizeof all, "%d", present);
    doctor_find(out, "where", CPUS, "offline", off, "present", all, NULL);
    return OK;
}

status probe_cores_isolated(const doctor_context *c, doctor_findings *out, err *e)
{
    char list[1024];
    (void)e;
    if (!doctor_read_line(c, CPUS "/isolated", list, sizeof list))
        doctor_skip(out, CPUS "/isolated does not exist");
    else if (reading_listed(list))
        doctor_find(out, "where", CPUS "/isolated", "list", list, NULL);
    return OK;
}

status probe_numa_ranks(const doctor_context *c, doctor_findings *out, err *e)
{
    status result = OK;
    memory_node node[MEMORY_NODES];
    int nodes, ranks, gpus;
    char count[48], node_count[24];
    TRY(memory_nodes_read(c, node, &nodes, e));
    TRY(reading_ranks(c, &ranks, e));
    TRY(reading_gpus(c, &gpus, e));
    doctor_measure(out, "numa_nodes", nodes, "nodes", true);
    if (nodes < 2) {
        doctor_skip(out, "there is one NUMA node");
        goto done;
    }
    if (ranks % nodes == 0 || (gpus && ranks == 1)) goto done;
    reading_counted(count, (uint64_t)ranks, "rank");
    snprintf(node_count, sizeof node_count, "%d", nodes);
    doctor_find(out, "where", "NUMA nodes", "ranks", count, "nodes", node_count, NULL);
done:
    return result;
}

status probe_nice(const doctor_context *c, doctor_findings *out, err *e)
{
    status result = OK;
    char *content = NULL, number[24];
    int nice = 0;
    TRY(reading_need(c, out, "/proc/self/stat", &content, e));
    // The name of the process is in parentheses and may hold any character, so the fields count from the last one.
    const char *fields = content ? strrchr(content, ')') : NULL;
    if (!fields ||
        sscanf(fields, ") %*c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %d",
               &nice) != 1 ||
        nice <= 0)
        goto done;
    snprintf(number, sizeof number, "%d", nice);
    doctor_find(out, "where", "/proc/self/stat", "nice", number, NULL);
done:
    free(content);
    return result;
}

status probe_cpu_weight(const doctor_context *c, doctor_findings *out, err *e)
{
    status result = OK;
    group_limit weight, shares;
    char number[24];
    TRY(group_least(c, GROUP_CPU, "cpu.weight", NULL, &weight, e));
    TRY(group_least(c, GROUP_CPU, "cpu.weight", "cpu.shares", &shares, e));
    const bool old = weight.value == UINT64_MAX; // version 1, whose usual share is 1024
    const group_limit *least = old ? &shares : &weight;
    const uint64_t usual = old ? 1024 : 100;
    if (least->value == UINT64_MAX) {
        doctor_skip(out, "no control group has a weight");
        goto done;
    }
    if (least->value >= usual) goto done;
    snprintf(number, sizeof number, "%.3g", (double)least->value / (double)usual);
    doctor_find(out, "where", least->folder, "weight", number, NULL);
done:
    return result;
}
