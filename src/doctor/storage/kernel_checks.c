// kernel_checks.c -- what the kernel lets a run do with files: files of memory, dirty pages, and how long others
// wait for disks. The table of this room calls the probes.
#include "doctor/storage/storage.h"

#include "base/text.h"
#include "doctor/doctor.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// 2: memfd_create without MFD_NOEXEC_SEAL is refused, and rendezvous/mapping.c calls it so.
status storage_probe_memfd(const doctor_context *c, doctor_findings *out, err *e)
{
    (void)e;
    int64_t value;
    if (!doctor_read_number(c, "/proc/sys/vm/memfd_noexec", &value))
        doctor_skip(out, "this kernel has no limit on files of memory");
    else if (value == 2)
        doctor_find(out, "value", "2", NULL);
    return OK;
}

// "full avg10=0.00 avg60=0.01 avg300=0.05 total=8194622"
status storage_probe_pressure(const doctor_context *c, doctor_findings *out, err *e)
{
    status result = OK;
    char *content = NULL, share[24];
    bool denied;
    double percent = 0;
    const double most = doctor_threshold(c, "io_pressure_percent", 20);
    TRY(doctor_read(c, "/proc/pressure/io", &content, &denied, e));
    const char *full = content ? strstr(content, "full ") : NULL;
    if (!full || sscanf(full, "full avg10=%*f avg60=%lf", &percent) != 1) {
        doctor_skip(out, "this kernel does not count pressure");
    } else if (percent > most) {
        snprintf(share, sizeof share, "%.0f", percent);
        doctor_find(out, "percent", share, NULL);
    }
done:
    free(content);
    return result;
}

static status read_memory_kib(const doctor_context *c, double *kib, err *e)
{
    status result = OK;
    char *content = NULL;
    bool denied;
    *kib = 0;
    TRY(doctor_read(c, "/proc/meminfo", &content, &denied, e));
    const char *total = content ? strstr(content, "MemTotal:") : NULL;
    if (total) sscanf(total, "MemTotal: %lf", kib);
done:
    free(content);
    return result;
}

// With vm.dirty_bytes the ratio is 0.
status storage_probe_dirty(const doctor_context *c, doctor_findings *out, err *e)
{
    status result = OK;
    int64_t percent;
    double kib;
    char ratio[24], size[24];
    const double most_kib = doctor_threshold(c, "dirty_gib", 64) * 1024 * 1024;
    TRY(read_memory_kib(c, &kib, e));
    if (!doctor_read_number(c, "/proc/sys/vm/dirty_ratio", &percent))
        doctor_skip(out, "/proc/sys/vm/dirty_ratio cannot be read");
    else if (kib * (double)percent / 100 > most_kib) {
        snprintf(ratio, sizeof ratio, "%" PRId64, percent);
        text_bytes(size, kib * 1024 * (double)percent / 100);
        doctor_find(out, "percent", ratio, "size", size, NULL);
    }
done:
    return result;
}
