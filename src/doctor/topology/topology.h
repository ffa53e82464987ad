// topology.h -- what a machine is made of and how its parts are linked: sockets, NUMA nodes, caches, cores, GPUs, network
// interfaces and disks, as hwloc finds them. `trireme topo` prints it, and the checks of room measure/ ask it which cores
// belong together. It knows no device of device/: what is linked by NVLink is told to it.
#ifndef TRIREME_DOCTOR_TOPOLOGY_H
#define TRIREME_DOCTOR_TOPOLOGY_H

#include "base/err.h"
#include "base/text.h"

#include <jansson.h>

typedef enum topology_kind {
    TOPOLOGY_MACHINE,
    TOPOLOGY_GROUP,
    TOPOLOGY_SOCKET,
    TOPOLOGY_NUMA,
    TOPOLOGY_CACHE,
    TOPOLOGY_CORES, // that share everything above them
    TOPOLOGY_BRIDGE,
    TOPOLOGY_GPU,
    TOPOLOGY_NIC,
    TOPOLOGY_DISK,
    TOPOLOGY_KINDS
} topology_kind;

// A part of the machine, and the parts within it.
typedef struct topology_item {
    topology_kind kind;
    int number;  // of a NUMA node, a GPU or a NIC; else 0
    char *label; // one line, "L3 cache, 32 MiB"
    char *
        threads; // numbers of its hardware threads as the kernel lists them, "0-7,64-71"; "" for what is on a bus
    char *rate;                 // what was measured of it; NULL: nothing
    struct topology_item *part; // [parts]
    int parts, room;
} topology_item;

// By what two devices reach each other, with the letters of `nvidia-smi topo -m`.
typedef enum topology_path {
    TOPOLOGY_SELF, // X
    TOPOLOGY_NV,   // NV#: NVLink, with their number
    TOPOLOGY_PIX,  // at most one PCIe bridge
    TOPOLOGY_PXB,  // several PCIe bridges, but not the host bridge
    TOPOLOGY_PHB,  // a PCIe host bridge
    TOPOLOGY_NODE, // host bridges within one NUMA node
    TOPOLOGY_SYS,  // from NUMA node to NUMA node
    TOPOLOGY_PATHS
} topology_path;

// A GPU or a network interface: a row and a column of the matrix.
typedef struct topology_device {
    topology_kind kind;
    int number;       // among those of its kind, in the order of PCI addresses: the 2 of GPU2
    char *title;      // "NVIDIA H100 80GB HBM3", or the names of an interface, "mlx5_0, ib0"
    char address[16]; // on the PCI bus, "0000:17:00.0"
    char *threads;    // hardware threads near it
    char *nodes;      // NUMA nodes near it, "0-1"
} topology_device;

typedef struct topology {
    topology_item machine;
    topology_device *device; // [devices]
    int devices;
    topology_path *path; // [devices, devices]
    int *links;          // [devices, devices] of TOPOLOGY_NV
    text note;           // lines of what was measured between parts
} topology;

typedef struct topology_source {
    const char *xml;       // a file that lstopo or hwloc has written; NULL: not that
    const char *synthetic; // hwloc's description, "pack:2 core:4 pu:2"; NULL: not that
    const char *
        root; // stands before /sys, for the rates of interfaces; NULL: they are not read, as the machine is another one
} topology_source;

// E_USAGE names the file or the description that hwloc does not read. The caller calls topology_close.
status topology_open(const topology_source *from, topology *out, err *e);
void topology_close(topology *t); // safe on a zeroed one

// Says that two GPUs are joined by so many NVLinks, which then is their path.
void topology_set_nvlinks(topology *t, int gpu, int other, int links);
// Sets the NVLinks of all GPUs, as NVML says, which is this library of the driver; without it nothing changes.
void topology_read_nvlinks(topology *t, const char *library);
// The GPU at a PCI address as NVML writes it ("00000000:17:00.0"), or -1.
int topology_find_gpu(const topology *t, const char *address);
const char *topology_kind_name(topology_kind k);
// "PIX", "NV18". `out` has 8 bytes.
void topology_path_text(const topology *t, int row, int column, char out[8]);

// Calls `visit` for each item, the outer ones first.
void topology_each(topology_item *of, void (*visit)(topology_item *item, void *arg), void *arg);

void topology_add_text(text *out, const topology *t);
// The matrix of `nvidia-smi topo -m` with its legend; nothing where there is no device.
void topology_add_matrix(text *out, const topology *t);
// A picture as SVG, with `title` at its top.
status topology_draw(text *out, const topology *t, const char *title, err *e);
status topology_to_json(const topology *t, json_t **out, err *e);

#endif
