// topology_private.h -- what topology.c and topology_devices.c share while a topology is made from hwloc's objects.
#ifndef TRIREME_DOCTOR_TOPOLOGY_PRIVATE_H
#define TRIREME_DOCTOR_TOPOLOGY_PRIVATE_H

#include "doctor/topology/topology.h"

#include <hwloc.h>

typedef struct topology_builder {
    hwloc_topology_t from;
    const topology_source *source;
    topology *to;
    hwloc_obj_t *object; // [to->devices] of hwloc
} topology_builder;

// Lists the devices, with their paths.
status topology_list_devices(topology_builder *b, err *e);
// The index of the device that an object is, or -1.
int topology_device_of(const topology_builder *b, hwloc_obj_t o);
// The value of a key of an object; NULL: it has none.
const char *topology_info(hwloc_obj_t o, const char *key);
// A set of numbers as the kernel lists them, "0-7,64-71". The caller frees *out.
status topology_list(hwloc_const_bitmap_t set, char **out, err *e);
// Appends ", 400 Gb/s" where the source says how fast an interface is.
void topology_add_speed(const topology_source *source, hwloc_obj_t pci, text *out);

#endif
