// pages.c -- the probes of pages: overcommit, swap, huge pages, and errors of memory modules that the kernel has counted.
#include "base/text.h"
#include "doctor/doctor.h"
#include "doctor/memory/probes.h"
#include "doctor/memory/readings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

status probe_overcommit(const doctor_context *c, doctor_findings *out, err *e)
{
    status result = OK;
    int64_t mode;
    memory_figures m;
    char left[24], total[24];
    TRY(reading_memory_of(c, out, &m, e));
    if (!doctor_read_number(c, "/proc/sys/vm/overcommit_memory", &mode)) {
        doctor_skip(out, "/proc/sys/vm/overcommit_memory does not exist");
        goto done;
    }
    const uint64_t rest = m.commit_limit > m.committed ? m.commit_limit - m.committed : 0;
    if (!m.known || mode != 2 || rest >= m.total) goto done;
    text_bytes(left, (double)rest);
    text_bytes(total, (double)m.total);
    doctor_find(out, "where", "vm.overcommit_memory", "left", left, "memory", total, NULL);
done:
    return result;
}

status probe_swap_used(const doctor_context *c, doctor_findings *out, err *e)
{
    status result = OK;
    memory_figures m;
    char used[24], total[24];
    TRY(reading_memory_of(c, out, &m, e));
    if (!m.known) goto done;
    if (!m.swap_total) {
        doctor_skip(out, "there is no swap");
        goto done;
    }
    const uint64_t bytes = m.swap_total - m.swap_free;
    if (bytes <= m.total / 20) goto done;
    text_bytes(used, (double)bytes);
    text_bytes(total, (double)m.swap_total);
    doctor_find(out, "where", "swap", "used", used, "swap", total, NULL);
done:
    return result;
}

// The first device of /proc/swaps that is not compressed memory; false where there is none.
static bool swap_device(const char *swaps, char *out, size_t bytes)
{
    for (const char *line = strchr(swaps, '\n'); line && line[1]; line = strchr(line + 1, '\n')) {
        if (strncmp(line + 1, "/dev/zram", strlen("/dev/zram")) == 0) continue;
        snprintf(out, bytes, "%.*s", (int)strcspn(line + 1, " \t\n"), line + 1);
        return true;
    }
    return false;
}

status probe_swappiness(const doctor_context *c, doctor_findings *out, err *e)
{
    status result = OK;
    int64_t value = 0;
    char *swaps = NULL, device[256], number[24];
    TRY(reading_need(c, out, "/proc/swaps", &swaps, e));
    if (!swaps) goto done;
    if (!swap_device(swaps, device, sizeof device)) {
        doctor_skip(out, "there is no swap on a disk");
        goto done;
    }
    if (!doctor_read_number(c, "/proc/sys/vm/swappiness", &value) || value <= 60) goto done;
    snprintf(number, sizeof number, "%lld", (long long)value);
    doctor_find(out, "where", "vm.swappiness", "value", number, "device", device, NULL);
done:
    free(swaps);
    return result;
}

status probe_huge_transparent(const doctor_context *c, doctor_findings *out, err *e)
{
    static const char PATH[] = "/sys/kernel/mm/transparent_hugepage/enabled";
    char line[128];
    (void)e;
    if (!doctor_read_line(c, PATH, line, sizeof line)) {
        doctor_skip(out, "%s does not exist", PATH);
        return OK;
    }
    doctor_fact(out, "transparent_huge_pages", line);
    if (strstr(line, "[never]")) doctor_find(out, "where", PATH, NULL);
    return OK;
}

status probe_huge_unused(const doctor_context *c, doctor_findings *out, err *e)
{
    status result = OK;
    memory_figures m;
    char unused[24], total[24];
    TRY(reading_memory_of(c, out, &m, e));
    const uint64_t bytes = m.huge_free * m.huge_page;
    if (!m.known || bytes <= m.total / 20) goto done;
    text_bytes(unused, (double)bytes);
    text_bytes(total, (double)m.total);
    doctor_find(out, "where", "vm.nr_hugepages", "unused", unused, "memory", total, NULL);
done:
    return result;
}

// Calls doctor_find for each memory controller whose counter `name` is at least `least`, and doctor_skip where there is none.
static status find_counted(const doctor_context *c, doctor_findings *out, const char *name,
                           int64_t least, err *e)
{
    status result = OK;
    char **names = NULL, path[320], errors[48];
    int n = 0, controllers = 0;
    int64_t count;
    TRY(doctor_names(c, "/sys/devices/system/edac/mc", &names, &n, e));
    for (int i = 0; i < n; i++) {
        snprintf(path, sizeof path, "/sys/devices/system/edac/mc/%s/%s", names[i], name);
        if (!doctor_read_number(c, path, &count)) continue;
        controllers++;
        reading_counted(errors, (uint64_t)count, "error");
        if (count >= least) doctor_find(out, "where", names[i], "errors", errors, NULL);
    }
    if (!controllers) doctor_skip(out, "the kernel counts no errors of memory modules (EDAC)");
done:
    doctor_names_free(names, n);
    return result;
}

status probe_corrected(const doctor_context *c, doctor_findings *out, err *e)
{
    return find_counted(c, out, "ce_count", 100, e);
}

status probe_uncorrected(const doctor_context *c, doctor_findings *out, err *e)
{
    return find_counted(c, out, "ue_count", 1, e);
}

status probe_retired(const doctor_context *c, doctor_findings *out, err *e)
{
    status result = OK;
    memory_figures m;
    char bytes[24];
    TRY(reading_memory_of(c, out, &m, e));
    text_bytes(bytes, (double)m.corrupted);
    if (m.corrupted) doctor_find(out, "where", "/proc/meminfo", "bytes", bytes, NULL);
done:
    return result;
}
