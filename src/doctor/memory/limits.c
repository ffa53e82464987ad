// limits.c -- the probes of what a shell hands to its processes (ulimit), and of the number of threads. They read
// /proc/self/limits, because getrlimit could not be shown a fault by a test.
#include "base/text.h"
#include "doctor/doctor.h"
#include "doctor/memory/group.h"
#include "doctor/memory/probes.h"
#include "doctor/memory/readings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CAPABILITY_IPC_LOCK = 14, THREADS_OF_RANK = 64, OTHER_THREADS = 512, OTHER_FILES = 1024 };
#define GIB (UINT64_C(1) << 30)

static void count_text(char out[24], uint64_t count)
{
    if (count == UINT64_MAX)
        snprintf(out, 24, "unlimited");
    else
        snprintf(out, 24, "%llu", (unsigned long long)count);
}

status probe_memlock(const doctor_context *c, doctor_findings *out, err *e)
{
    status result = OK;
    bool rdma, exempt;
    resource_limit l;
    memory_figures m;
    char soft[24], total[24];
    TRY(reading_has_entries(c, "/sys/class/infiniband", &rdma, e));
    TRY(reading_capability(c, "CapEff:", CAPABILITY_IPC_LOCK, &exempt, e));
    TRY(reading_limit_of(c, out, "Max locked memory", &l, e));
    TRY(reading_memory_of(c, out, &m, e));
    if (!rdma) {
        doctor_skip(out, "there is no InfiniBand or RoCE device");
        goto done;
    }
    if (!l.known || !m.known || exempt || l.soft >= m.total / 2) goto done;
    reading_bytes(soft, l.soft);
    reading_bytes(total, m.total);
    doctor_find_as(out, c->peer ? DOCTOR_ERROR : DOCTOR_WARNING, "where", "ulimit -l", "limit",
                   soft, "memory", total, NULL);
done:
    return result;
}

status probe_nofile(const doctor_context *c, doctor_findings *out, err *e)
{
    status result = OK;
    resource_limit l;
    int ranks;
    char hard[24], need[24];
    TRY(reading_ranks(c, &ranks, e));
    TRY(reading_limit_of(c, out, "Max open files", &l, e));
    const uint64_t files = OTHER_FILES + 64 * (uint64_t)ranks;
    if (!l.known || l.hard >= files) goto done;
    count_text(hard, l.hard);
    count_text(need, files);
    doctor_find(out, "where", "ulimit -n", "limit", hard, "need", need, NULL);
done:
    return result;
}

status probe_nofile_huge(const doctor_context *c, doctor_findings *out, err *e)
{
    status result = OK;
    resource_limit l;
    char soft[24];
    TRY(reading_limit_of(c, out, "Max open files", &l, e));
    if (!l.known || l.soft < UINT64_C(1) << 27) goto done;
    count_text(soft, l.soft);
    doctor_find(out, "where", "ulimit -n", "limit", soft, NULL);
done:
    return result;
}

// Threads that the ranks of this host start: one for each core, and those of libraries in each rank.
static status threads_needed(const doctor_context *c, uint64_t *out, err *e)
{
    status result = OK;
    int ranks, cores;
    TRY(reading_ranks(c, &ranks, e));
    TRY(reading_cores(c, &cores, e));
    *out = (uint64_t)ranks * THREADS_OF_RANK + (uint64_t)cores;
done:
    return result;
}

status probe_nproc(const doctor_context *c, doctor_findings *out, err *e)
{
    status result = OK;
    resource_limit l;
    uint64_t need, user = 1;
    char *own = NULL, soft[24], threads[24];
    TRY(threads_needed(c, &need, e));
    TRY(reading_limit_of(c, out, "Max processes", &l, e));
    TRY(reading_need(c, out, "/proc/self/status", &own, e));
    if (own && reading_number(own, "Uid:", &user) && user == 0) {
        doctor_skip(out, "the limit does not count for user 0");
        goto done;
    }
    if (!l.known || !own || l.soft >= need + OTHER_THREADS) goto done;
    count_text(soft, l.soft);
    count_text(threads, need + OTHER_THREADS);
    doctor_find(out, "where", "ulimit -u", "limit", soft, "need", threads, NULL);
done:
    free(own);
    return result;
}

status probe_pids(const doctor_context *c, doctor_findings *out, err *e)
{
    status result = OK;
    group_limit most;
    uint64_t need;
    int64_t used = 0;
    char path[320], limit[24], left[24], threads[24];
    TRY(threads_needed(c, &need, e));
    TRY(group_least(c, GROUP_PIDS, "pids.max", "pids.max", &most, e));
    if (most.value == UINT64_MAX) {
        doctor_skip(out, "no control group limits the number of threads");
        goto done;
    }
    snprintf(path, sizeof path, "%s/pids.current", most.folder);
    if (!doctor_read_number(c, path, &used)) used = 0;
    const uint64_t rest = most.value > (uint64_t)used ? most.value - (uint64_t)used : 0;
    if (rest >= need) goto done;
    count_text(limit, most.value);
    count_text(left, rest);
    count_text(threads, need);
    doctor_find(out, "where", most.folder, "limit", limit, "left", left, "need", threads, NULL);
done:
    return result;
}

status probe_stack(const doctor_context *c, doctor_findings *out, err *e)
{
    status result = OK;
    resource_limit l;
    char soft[24];
    TRY(reading_limit_of(c, out, "Max stack size", &l, e));
    if (!l.known || l.soft >= UINT64_C(2) << 20) goto done;
    reading_bytes(soft, l.soft);
    doctor_find(out, "where", "ulimit -s", "limit", soft, NULL);
done:
    return result;
}

status probe_address_space(const doctor_context *c, doctor_findings *out, err *e)
{
    status result = OK;
    resource_limit l;
    memory_figures m;
    int gpus;
    char soft[24], total[24];
    TRY(reading_gpus(c, &gpus, e));
    TRY(reading_limit_of(c, out, "Max address space", &l, e));
    TRY(reading_memory_of(c, out, &m, e));
    if (!l.known || !m.known || l.soft == UINT64_MAX || (!gpus && l.soft / 2 >= m.total)) goto done;
    reading_bytes(soft, l.soft);
    reading_bytes(total, m.total);
    doctor_find_as(out, gpus ? DOCTOR_ERROR : DOCTOR_WARNING, "where", "ulimit -v", "limit", soft,
                   "memory", total, NULL);
done:
    return result;
}

status probe_file_size(const doctor_context *c, doctor_findings *out, err *e)
{
    status result = OK;
    resource_limit l;
    char soft[24];
    TRY(reading_limit_of(c, out, "Max file size", &l, e));
    if (!l.known || l.soft >= 1024 * GIB) goto done;
    reading_bytes(soft, l.soft);
    doctor_find(out, "where", "ulimit -f", "limit", soft, NULL);
done:
    return result;
}

status probe_core_files(const doctor_context *c, doctor_findings *out, err *e)
{
    status result = OK;
    resource_limit l;
    char soft[24], pattern[256];
    TRY(reading_limit_of(c, out, "Max core file size", &l, e));
    if (!doctor_read_line(c, "/proc/sys/kernel/core_pattern", pattern, sizeof pattern)) {
        doctor_skip(out, "/proc/sys/kernel/core_pattern does not exist");
        goto done;
    }
    if (!l.known || l.soft < GIB || pattern[0] == '|' || !pattern[0]) goto done;
    reading_bytes(soft, l.soft);
    doctor_find(out, "where", "ulimit -c", "limit", soft, "pattern", pattern, NULL);
done:
    return result;
}

status probe_map_count(const doctor_context *c, doctor_findings *out, err *e)
{
    int64_t most;
    char number[24];
    (void)e;
    if (!doctor_read_number(c, "/proc/sys/vm/max_map_count", &most)) {
        doctor_skip(out, "/proc/sys/vm/max_map_count does not exist");
        return OK;
    }
    snprintf(number, sizeof number, "%lld", (long long)most);
    if (most < 65530) doctor_find(out, "where", "vm.max_map_count", "limit", number, NULL);
    return OK;
}

status probe_oom_score(const doctor_context *c, doctor_findings *out, err *e)
{
    int64_t score;
    char number[24];
    (void)e;
    if (!doctor_read_number(c, "/proc/self/oom_score_adj", &score)) {
        doctor_skip(out, "/proc/self/oom_score_adj does not exist");
        return OK;
    }
    snprintf(number, sizeof number, "%lld", (long long)score);
    if (score > 0) doctor_find(out, "where", "/proc/self/oom_score_adj", "score", number, NULL);
    return OK;
}
