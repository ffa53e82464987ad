// hidden.c -- the probes of what a container does not show: folders of /sys, files of GPUs and of network cards.
#include "doctor/container/probes.h"
#include "doctor/doctor.h"
#include "doctor/memory/readings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

status probe_sys_hidden(const doctor_context *c, doctor_findings *out, err *e)
{
    static const char *const FOLDERS[] = {"/sys/class/net", "/sys/devices/system/cpu",
                                          "/sys/bus/pci/devices"};
    status result = OK;
    int gpus;
    TRY(reading_gpus(c, &gpus, e));
    for (int i = 0; i < (gpus ? 3 : 2); i++) {
        bool has;
        TRY(reading_has_entries(c, FOLDERS[i], &has, e));
        if (!has) doctor_find(out, "where", FOLDERS[i], NULL);
    }
done:
    return result;
}

// Whether the PCI device at /sys/bus/pci/devices/NAME is a GPU of NVIDIA: its class is a display controller.
static bool is_nvidia(const doctor_context *c, const char *name)
{
    char path[128], vendor[32], class[32];
    snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/vendor", name);
    if (!doctor_read_line(c, path, vendor, sizeof vendor)) return false;
    snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/class", name);
    if (!doctor_read_line(c, path, class, sizeof class)) return false;
    return strcmp(vendor, "0x10de") == 0 && strncmp(class, "0x03", 4) == 0;
}

status probe_gpu_hidden(const doctor_context *c, doctor_findings *out, err *e)
{
    status result = OK;
    char name[32], **names = NULL, built[48], seen[24];
    int n = 0, count = 0, gpus;
    TRY(container_need(c, out, name, e));
    if (!name[0]) goto done;
    TRY(reading_gpus(c, &gpus, e));
    TRY(doctor_names(c, "/sys/bus/pci/devices", &names, &n, e));
    for (int i = 0; i < n; i++) count += is_nvidia(c, names[i]);
    if (count <= gpus) goto done;
    reading_counted(built, (uint64_t)count, "GPU");
    snprintf(seen, sizeof seen, "%d", gpus);
    doctor_find_as(out, gpus ? DOCTOR_NOTE : DOCTOR_WARNING, "where", "/dev", "gpus", built, "seen",
                   seen, NULL);
done:
    doctor_names_free(names, n);
    return result;
}

status probe_rdma_hidden(const doctor_context *c, doctor_findings *out, err *e)
{
    status result = OK;
    char name[32], **cards = NULL, **files = NULL, count[48];
    int n = 0, m = 0, usable = 0;
    TRY(container_need(c, out, name, e));
    if (!name[0]) goto done;
    TRY(doctor_names(c, "/sys/class/infiniband", &cards, &n, e));
    TRY(doctor_names(c, "/dev/infiniband", &files, &m, e));
    for (int i = 0; i < m; i++) usable += strncmp(files[i], "uverbs", 6) == 0;
    reading_counted(count, (uint64_t)n, "RDMA card");
    if (!n)
        doctor_skip(out, "there is no InfiniBand or RoCE device");
    else if (!usable)
        doctor_find(out, "where", "/dev/infiniband", "cards", count, NULL);
done:
    doctor_names_free(cards, n);
    doctor_names_free(files, m);
    return result;
}
