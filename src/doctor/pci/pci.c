// pci.c -- see pci.h.
#include "doctor/pci/pci.h"

#include "base/alloc.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char FOLDER[] = "/sys/bus/pci/devices";

bool pci_read_line(const doctor_context *c, const char *address, const char *file, char *out,
                   size_t bytes)
{
    char path[256];
    if (snprintf(path, sizeof path, "%s/%s/%s", FOLDER, address, file) >= (int)sizeof path)
        return false;
    return doctor_read_line(c, path, out, bytes);
}

// Numbers of /sys are decimal, or hexadecimal after 0x.
bool pci_read_number(const doctor_context *c, const char *address, const char *file, int64_t *out)
{
    char line[64], *end;
    if (!pci_read_line(c, address, file, line, sizeof line)) return false;
    *out = strtoll(line, &end, 0);
    return end != line && *end == '\0';
}

static pci_kind kind_of(int64_t vendor, int64_t class_code)
{
    enum { NVIDIA = 0x10de, DISPLAY = 0x03, NETWORK = 0x02, NVME = 0x0108, BRIDGE_OTHER = 0x0680 };
    if (vendor == NVIDIA && class_code >> 16 == DISPLAY) return PCI_GPU;
    if (vendor == NVIDIA && class_code >> 8 == BRIDGE_OTHER) return PCI_SWITCH;
    if (class_code >> 16 == NETWORK) return PCI_NETWORK;
    if (class_code >> 8 == NVME) return PCI_DISK;
    return PCI_OTHER;
}

status pci_read(const doctor_context *c, pci_list *out, err *e)
{
    status result = OK;
    char **name = NULL;
    int count = 0;
    *out = (pci_list){NULL, 0};
    TRY(doctor_names(c, FOLDER, &name, &count, e));
    if (count > 0)
        TRY(alloc_zeroed(&out->device, (size_t)count, sizeof *out->device, "PCI devices", e));
    for (int i = 0; i < count; i++) {
        int64_t vendor, class_code;
        pci_device *d = &out->device[out->count];
        if (!pci_read_number(c, name[i], "vendor", &vendor) ||
            !pci_read_number(c, name[i], "class", &class_code))
            continue;
        d->kind = kind_of(vendor, class_code);
        if (d->kind == PCI_OTHER || strlen(name[i]) >= sizeof d->address) continue;
        memcpy(d->address, name[i], strlen(name[i]) + 1);
        out->count++;
    }
done:
    doctor_names_free(name, count);
    if (result != OK) pci_clear(out);
    return result;
}

void pci_clear(pci_list *l)
{
    free(l->device);
    *l = (pci_list){NULL, 0};
}

int pci_count(const pci_list *l, pci_kind kind)
{
    int count = 0;
    for (int i = 0; i < l->count; i++) count += l->device[i].kind == kind;
    return count;
}

const char *pci_kind_text(pci_kind kind)
{
    static const char *const texts[] = {
        [PCI_OTHER] = "device",         [PCI_GPU] = "GPU",        [PCI_SWITCH] = "NVSwitch",
        [PCI_NETWORK] = "network card", [PCI_DISK] = "NVMe disk",
    };
    return texts[kind];
}

// The entry of a device is a link to a folder that stands in the folder of its bridge.
bool pci_parent(const doctor_context *c, const char *address, char out[PCI_ADDRESS_BYTES])
{
    char path[256], full[PATH_MAX], *below = NULL;
    unsigned domain, bus, slot, function;
    bool found = false;
    int used = 0;
    err ignored;
    if (snprintf(path, sizeof path, "%s/%s", FOLDER, address) >= (int)sizeof path) return false;
    if (doctor_path(c, path, &below, &ignored) != OK) return false;
    if (realpath(below, full)) {
        char *last = strrchr(full, '/');
        if (last) *last = '\0';
        char *parent = last ? strrchr(full, '/') : NULL;
        found = parent &&
                sscanf(parent, "/%x:%x:%x.%x%n", &domain, &bus, &slot, &function, &used) == 4 &&
                parent[used] == '\0' && strlen(parent + 1) < PCI_ADDRESS_BYTES;
        if (found) memcpy(out, parent + 1, strlen(parent));
    }
    free(below);
    return found;
}
