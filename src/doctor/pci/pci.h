// pci.h -- the devices of the PCI bus that matter to a run, as /sys/bus/pci/devices lists them, for the probes of this
// folder and of doctor/gpu/. It judges nothing.
#ifndef TRIREME_DOCTOR_PCI_PCI_H
#define TRIREME_DOCTOR_PCI_PCI_H

#include "doctor/check.h"

typedef enum pci_kind {
    PCI_OTHER,
    PCI_GPU,    // of NVIDIA
    PCI_SWITCH, // NVSwitch, which connects GPUs
    PCI_NETWORK,
    PCI_DISK, // NVMe
} pci_kind;

enum { PCI_ADDRESS_BYTES = 32 };

typedef struct pci_device {
    char address[PCI_ADDRESS_BYTES]; // "0000:1b:00.0"
    pci_kind kind;
} pci_device;

typedef struct pci_list {
    pci_device *device; // without those of PCI_OTHER, by address
    int count;
} pci_list;

// Reads the list; it is empty where /sys shows no bus. The caller calls pci_clear.
status pci_read(const doctor_context *c, pci_list *out, err *e);
void pci_clear(pci_list *l);
int pci_count(const pci_list *l, pci_kind kind);
const char *pci_kind_text(pci_kind kind); // "GPU", "network card"

// A file of a device below /sys/bus/pci/devices; false where it cannot be read or is no number.
bool pci_read_number(const doctor_context *c, const char *address, const char *file, int64_t *out);
bool pci_read_line(const doctor_context *c, const char *address, const char *file, char *out,
                   size_t bytes);
// The bridge or root port that the device hangs on; false where it has none, or /sys does not say it.
bool pci_parent(const doctor_context *c, const char *address, char out[PCI_ADDRESS_BYTES]);

#endif
