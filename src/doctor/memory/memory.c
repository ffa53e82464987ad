// memory.c -- the probes of how much memory a run may take: limits of control groups, what is free, what the kernel has
// killed, and what each GPU should have beside it.
#include "base/cgroup.h"
#include "base/text.h"
#include "doctor/doctor.h"
#include "doctor/memory/group.h"
#include "doctor/memory/probes.h"
#include "doctor/memory/readings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GIB (UINT64_C(1) << 30)

// What this process could have at most: the memory of the machine, or the least limit of its groups.
static status ceiling(const doctor_context *c, const memory_figures *m, group_limit *limit,
                      uint64_t *bytes, err *e)
{
    status result = OK;
    TRY(group_least(c, GROUP_MEMORY, "memory.max", "memory.limit_in_bytes", limit, e));
    *bytes = limit->value < m->total ? limit->value : m->total;
done:
    return result;
}

status probe_group_memory(const doctor_context *c, doctor_findings *out, err *e)
{
    status result = OK;
    memory_figures m;
    group_limit limit;
    uint64_t most;
    int ranks;
    char bytes[24], left_bytes[24], total[24];
    TRY(reading_memory_of(c, out, &m, e));
    TRY(reading_ranks(c, &ranks, e));
    TRY(ceiling(c, &m, &limit, &most, e));
    if (!m.known) goto done;
    if (limit.value == UINT64_MAX) {
        doctor_skip(out, "no control group limits the memory");
        goto done;
    }
    // A limit within 5 % of the machine's memory is how Kubernetes and Slurm leave some to the system.
    if (limit.value >= m.total - m.total / 20) goto done;
    const uint64_t left = cgroup_memory_left(c->root);
    text_bytes(bytes, (double)limit.value);
    text_bytes(left_bytes, (double)left);
    text_bytes(total, (double)m.total);
    doctor_find_as(out, left / GIB < (uint64_t)ranks ? DOCTOR_WARNING : DOCTOR_NOTE, "where",
                   limit.folder, "limit", bytes, "left", left_bytes, "memory", total, NULL);
done:
    return result;
}

status probe_group_high(const doctor_context *c, doctor_findings *out, err *e)
{
    status result = OK;
    group_limit high, most;
    char slow[24];
    TRY(group_least(c, GROUP_MEMORY, "memory.high", NULL, &high, e));
    TRY(group_least(c, GROUP_MEMORY, "memory.max", NULL, &most, e));
    if (high.value == UINT64_MAX) {
        doctor_skip(out, "no control group has memory.high");
        goto done;
    }
    if (high.value >= most.value) goto done;
    text_bytes(slow, (double)high.value);
    doctor_find(out, "where", high.folder, "limit", slow, NULL);
done:
    return result;
}

status probe_group_oom(const doctor_context *c, doctor_findings *out, err *e)
{
    status result = OK;
    uint64_t count;
    bool found;
    char times[48];
    TRY(group_counted(c, GROUP_MEMORY, "memory.events", "memory.oom_control", "oom_kill", &count,
                      &found, e));
    reading_counted(times, count, "time");
    if (!found)
        doctor_skip(out, "no control group counts the processes that were killed");
    else if (count)
        doctor_find(out, "where", "control group", "times", times, NULL);
done:
    return result;
}

status probe_machine_oom(const doctor_context *c, doctor_findings *out, err *e)
{
    status result = OK;
    char *content = NULL, times[48];
    uint64_t count = 0;
    TRY(reading_need(c, out, "/proc/vmstat", &content, e));
    if (!content || !reading_number(content, "oom_kill", &count) || !count) goto done;
    reading_counted(times, count, "time");
    doctor_find(out, "where", "/proc/vmstat", "times", times, NULL);
done:
    free(content);
    return result;
}

status probe_available(const doctor_context *c, doctor_findings *out, err *e)
{
    status result = OK;
    memory_figures m;
    group_limit limit;
    uint64_t most, left;
    char bytes[24], total[24];
    TRY(reading_memory_of(c, out, &m, e));
    TRY(ceiling(c, &m, &limit, &most, e));
    if (!m.known) goto done;
    left = cgroup_memory_left(c->root);
    if (m.available < left) left = m.available;
    doctor_measure(out, "memory_available_bytes", (double)left, "B", false);
    doctor_measure(out, "memory_bytes", (double)most, "B", true);
    if (left >= most / 10) goto done;
    text_bytes(bytes, (double)left);
    text_bytes(total, (double)most);
    doctor_find(out, "where", "memory", "left", bytes, "memory", total, NULL);
done:
    return result;
}

status probe_per_gpu(const doctor_context *c, doctor_findings *out, err *e)
{
    status result = OK;
    memory_figures m;
    group_limit limit;
    uint64_t most;
    int gpus;
    char count[48], need[24], bytes[24];
    TRY(reading_gpus(c, &gpus, e));
    TRY(reading_memory_of(c, out, &m, e));
    TRY(ceiling(c, &m, &limit, &most, e));
    if (!gpus) {
        doctor_skip(out, "there is no GPU");
        goto done;
    }
    // The kernel keeps some of what is built in, so that 64 GB show as a little less than 64 GB.
    const uint64_t wanted = 16 * GIB * (uint64_t)gpus;
    if (!m.known || most >= wanted - wanted / 10) goto done;
    reading_counted(count, (uint64_t)gpus, "GPU");
    text_bytes(need, (double)wanted);
    text_bytes(bytes, (double)most);
    doctor_find(out, "where", "memory", "memory", bytes, "gpus", count, "need", need, NULL);
done:
    return result;
}

status probe_pressure(const doctor_context *c, doctor_findings *out, err *e)
{
    status result = OK;
    char *content = NULL, words[128], share[24];
    double average = 0;
    TRY(reading_need(c, out, "/proc/pressure/memory", &content, e));
    if (!content || !reading_words(content, "full", words, sizeof words)) goto done;
    const char *number = strstr(words, "avg60=");
    if (number) average = strtod(number + strlen("avg60="), NULL);
    if (average < 5) goto done;
    snprintf(share, sizeof share, "%.0f", average);
    doctor_find(out, "where", "/proc/pressure/memory", "share", share, NULL);
done:
    free(content);
    return result;
}

status probe_panic_on_oom(const doctor_context *c, doctor_findings *out, err *e)
{
    int64_t value;
    char number[24];
    (void)e;
    if (!doctor_read_number(c, "/proc/sys/vm/panic_on_oom", &value)) {
        doctor_skip(out, "/proc/sys/vm/panic_on_oom does not exist");
        return OK;
    }
    snprintf(number, sizeof number, "%lld", (long long)value);
    if (value) doctor_find(out, "where", "vm.panic_on_oom", "value", number, NULL);
    return OK;
}
