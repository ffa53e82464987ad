// binding.h -- which cores the workers of a host run on: those of a NUMA node, of a socket, of a cache, or a share of a
// list.
//
// Called by cmd/ before workers start; worker.c sets what it chose. It reads /sys, and only chooses among the cores
// that this process may use. Memory follows the core that first writes it, as the kernel does without a policy.
#ifndef TRIREME_LAUNCH_BINDING_H
#define TRIREME_LAUNCH_BINDING_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

enum { BINDING_CORES = 1024 }; // numbers of cores are below it

// The bits of a cpu_set_t.
typedef struct binding_cores {
    uint64_t bits[BINDING_CORES / 64];
} binding_cores;

typedef enum binding_kind {
    BINDING_NODE,         // all cores of the worker's NUMA node
    BINDING_SOCKET,       // all cores of the socket of its node
    BINDING_EXCLUSIVE,    // a share of the physical cores of its node, of no other worker
    BINDING_CORE_COMPLEX, // the cores of one last-level cache of its node
    BINDING_LIST,         // a share of a list of cores
} binding_kind;

// The request of a user.
typedef struct binding {
    binding_kind kind;
    const char *list; // BINDING_LIST: "0-3,8"; NULL: one core of each physical core
} binding;

// The kind of that name ("node", "socket", "exclusive", "core-complex"). Returns whether there is one.
bool binding_named(const char *name, binding_kind *out);

// Chooses the cores of each of `workers` workers into out [workers]. Workers are divided among NUMA nodes in their order.
// `usable`: what this process may use. `root` stands before /sys; "" is this machine. E_USAGE where there are too few
// cores, or the list names one that this process may not use.
status binding_choose(const binding *b, const char *root, const binding_cores *usable, int workers,
                      binding_cores *out, err *e);
// Finds what this process may use. E_IO on a machine with more cores than BINDING_CORES.
status binding_usable(binding_cores *out, err *e);
int binding_count(const binding_cores *c);

#endif
