// disk_checks.c -- the disk below a run's folder (train.out), and the disks and arrays of this machine, as /sys and
// /proc/mdstat describe them. The table of this room calls the probes. SMART needs root, so it is not read.
#include "doctor/storage/storage.h"

#include "base/text.h"
#include "doctor/doctor.h"
#include "store/tier.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Opens the folder; where it has no disk, the check is skipped, and *known is false.
static status find_disk(const doctor_context *c, doctor_findings *out, storage_folder *f,
                        bool *known, err *e)
{
    status result = OK;
    TRY(storage_folder_find(c, out, f, known, e));
    if (!*known || *f->disk) return OK;
    doctor_skip(out, "%s is on no disk of this machine (%s)", f->shown, f->mount->type);
    *known = false;
done:
    return result;
}

static bool is_rotational(const doctor_context *c, const storage_folder *f)
{
    int64_t rotates;
    // A disk of a virtual machine may be of any kind, and says that it rotates.
    if (strncmp(f->disk, "vd", 2) == 0 || strncmp(f->disk, "xvd", 3) == 0) return false;
    return storage_disk_number(c, f, "queue/rotational", &rotates) && rotates == 1;
}

status storage_probe_rotational(const doctor_context *c, doctor_findings *out, err *e)
{
    status result = OK;
    storage_folder f;
    bool known;
    TRY(find_disk(c, out, &f, &known, e));
    if (known && is_rotational(c, &f)) doctor_find(out, "where", f.shown, "disk", f.disk, NULL);
    storage_folder_close(&f);
done:
    return result;
}

// The scheduler in use stands in brackets: "none mq-deadline [bfq]".
status storage_probe_scheduler(const doctor_context *c, doctor_findings *out, err *e)
{
    status result = OK;
    storage_folder f;
    bool known;
    char path[200], line[200], name[32] = "";
    TRY(find_disk(c, out, &f, &known, e));
    snprintf(path, sizeof path, "/sys/block/%s/queue/scheduler", f.disk);
    if (known && doctor_read_line(c, path, line, sizeof line)) {
        const char *bracket = strchr(line, '[');
        if (bracket) sscanf(bracket, "[%31[^]]", name);
        if (!is_rotational(c, &f) && (strcmp(name, "bfq") == 0 || strcmp(name, "cfq") == 0))
            doctor_find(out, "where", f.disk, "scheduler", name, "disk", f.disk, NULL);
    }
    storage_folder_close(&f);
done:
    return result;
}

status storage_probe_read_ahead(const doctor_context *c, doctor_findings *out, err *e)
{
    enum { LEAST_KIB = 128 };
    status result = OK;
    storage_folder f;
    bool known;
    int64_t kib;
    char has[24];
    TRY(find_disk(c, out, &f, &known, e));
    if (known && storage_disk_number(c, &f, "queue/read_ahead_kb", &kib) && kib < LEAST_KIB) {
        snprintf(has, sizeof has, "%" PRId64, kib);
        doctor_find(out, "where", f.disk, "disk", f.disk, "has", has, NULL);
    }
    storage_folder_close(&f);
done:
    return result;
}

status storage_probe_sectors(const doctor_context *c, doctor_findings *out, err *e)
{
    status result = OK;
    storage_folder f;
    bool known;
    int64_t bytes;
    char has[24], most[24];
    TRY(find_disk(c, out, &f, &known, e));
    if (known && storage_disk_number(c, &f, "queue/logical_block_size", &bytes) &&
        bytes > TIER_ALIGN) {
        snprintf(has, sizeof has, "%" PRId64, bytes);
        snprintf(most, sizeof most, "%d", TIER_ALIGN);
        doctor_find(out, "where", f.disk, "disk", f.disk, "has", has, "most", most, NULL);
    }
    storage_folder_close(&f);
done:
    return result;
}

// ext4 counts the errors that it met since the last check, in /sys/fs/ext4/DEVICE/errors_count.
status storage_probe_errors(const doctor_context *c, doctor_findings *out, err *e)
{
    status result = OK;
    char **names = NULL, path[300], counted[24];
    int count = 0;
    int64_t errors;
    TRY(doctor_names(c, "/sys/fs/ext4", &names, &count, e));
    for (int i = 0; i < count; i++) {
        snprintf(path, sizeof path, "/sys/fs/ext4/%s/errors_count", names[i]);
        if (!doctor_read_number(c, path, &errors) || errors == 0) continue;
        snprintf(counted, sizeof counted, "%" PRId64, errors);
        doctor_find(out, "where", names[i], "errors", counted, NULL);
    }
done:
    doctor_names_free(names, count);
    return result;
}

status storage_probe_nvme(const doctor_context *c, doctor_findings *out, err *e)
{
    status result = OK;
    char **names = NULL, path[300], state[32];
    int count = 0;
    TRY(doctor_names(c, "/sys/class/nvme", &names, &count, e));
    if (!count) doctor_skip(out, "there is no NVMe drive");
    for (int i = 0; i < count; i++) {
        snprintf(path, sizeof path, "/sys/class/nvme/%s/state", names[i]);
        if (doctor_read_line(c, path, state, sizeof state) && strcmp(state, "live") != 0)
            doctor_find(out, "where", names[i], "state", state, NULL);
    }
done:
    doctor_names_free(names, count);
    return result;
}

// The sensors of drives say their temperature and their limit in thousandths of a degree.
status storage_probe_temperature(const doctor_context *c, doctor_findings *out, err *e)
{
    enum { MILLI = 1000 };
    status result = OK;
    char **names = NULL, path[300], driver[32], now[24], most[24];
    int count = 0, drives = 0;
    int64_t is, limit;
    TRY(doctor_names(c, "/sys/class/hwmon", &names, &count, e));
    for (int i = 0; i < count; i++) {
        snprintf(path, sizeof path, "/sys/class/hwmon/%s/name", names[i]);
        if (!doctor_read_line(c, path, driver, sizeof driver)) continue;
        if (strcmp(driver, "nvme") != 0 && strcmp(driver, "drivetemp") != 0) continue;
        drives++;
        snprintf(path, sizeof path, "/sys/class/hwmon/%s/temp1_input", names[i]);
        if (!doctor_read_number(c, path, &is)) continue;
        snprintf(path, sizeof path, "/sys/class/hwmon/%s/temp1_max", names[i]);
        if (!doctor_read_number(c, path, &limit) || limit <= 0 || is < limit) continue;
        snprintf(now, sizeof now, "%" PRId64, is / MILLI);
        snprintf(most, sizeof most, "%" PRId64, limit / MILLI);
        doctor_find(out, "where", names[i], "driver", driver, "now", now, "most", most, NULL);
    }
    if (!drives) doctor_skip(out, "no drive tells its temperature");
done:
    doctor_names_free(names, count);
    return result;
}

// Calls `visit` for each line of /proc/mdstat, with the array whose lines these are.
typedef void storage_visit(doctor_findings *out, const char *array, const char *line);

static status visit_raid(const doctor_context *c, doctor_findings *out, storage_visit *visit,
                         err *e)
{
    status result = OK;
    char *lines = NULL, array[32] = "";
    bool denied, any = false;
    TRY(doctor_read(c, "/proc/mdstat", &lines, &denied, e));
    for (char *rest = lines, *line; rest && (line = strsep(&rest, "\n"));) {
        if (strncmp(line, "md", 2) == 0) sscanf(line, "%31[^ :]", array);
        any = any || *array;
        if (*array) visit(out, array, line);
    }
    if (!any) doctor_skip(out, "there is no software RAID");
done:
    free(lines);
    return result;
}

// "976630464 blocks super 1.2 [2/1] [U_]": a '_' stands for a member that is missing.
static void look_for_missing(doctor_findings *out, const char *array, const char *line)
{
    const char *states = strrchr(line, '[');
    if (!states || !strpbrk(states, "U_") || strspn(states + 1, "U_") + 2 != strlen(states)) return;
    if (strchr(states, '_')) doctor_find(out, "where", array, "states", states, NULL);
}

// "[==>..........]  recovery = 12.6% (37043392/292945152) finish=127.5min speed=33440K/sec"
static void look_for_rebuild(doctor_findings *out, const char *array, const char *line)
{
    static const char *const words[] = {"recovery", "resync", "reshape", "check", "repair"};
    char form[32], percent[16];
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        snprintf(form, sizeof form, "%s = ", words[i]);
        const char *found = strstr(line, form);
        if (!found || sscanf(found + strlen(form), "%15[0-9.]", percent) != 1) continue;
        doctor_find(out, "where", array, "work", words[i], "percent", percent, NULL);
    }
}

status storage_probe_raid_degraded(const doctor_context *c, doctor_findings *out, err *e)
{
    return visit_raid(c, out, look_for_missing, e);
}

status storage_probe_raid_rebuilds(const doctor_context *c, doctor_findings *out, err *e)
{
    return visit_raid(c, out, look_for_rebuild, e);
}
