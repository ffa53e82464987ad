// binding.c -- see binding.h.
#define _GNU_SOURCE // sched_getaffinity
#include "launch/binding.h"

#include "base/alloc.h"
#include "base/text.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NODES = 1024, CACHES = 8, LINE = 4096 };

static const char *const NAMES[] = {[BINDING_NODE] = "node",
                                    [BINDING_SOCKET] = "socket",
                                    [BINDING_EXCLUSIVE] = "exclusive",
                                    [BINDING_CORE_COMPLEX] = "core-complex"};

bool binding_named(const char *name, binding_kind *out)
{
    for (int k = 0; k < BINDING_LIST; k++)
        if (strcmp(name, NAMES[k]) == 0) return *out = (binding_kind)k, true;
    return false;
}

// ---- sets of cores ----

static bool has(const binding_cores *c, int core)
{
    return c->bits[core / 64] >> core % 64 & 1;
}

static void add(binding_cores *c, int core)
{
    c->bits[core / 64] |= UINT64_C(1) << core % 64;
}

static void keep(binding_cores *c, const binding_cores *of)
{
    for (int i = 0; i < BINDING_CORES / 64; i++) c->bits[i] &= of->bits[i];
}

static void add_all(binding_cores *c, const binding_cores *more)
{
    for (int i = 0; i < BINDING_CORES / 64; i++) c->bits[i] |= more->bits[i];
}

static void leave_out(binding_cores *c, const binding_cores *what)
{
    for (int i = 0; i < BINDING_CORES / 64; i++) c->bits[i] &= ~what->bits[i];
}

int binding_count(const binding_cores *c)
{
    int count = 0;
    for (int i = 0; i < BINDING_CORES / 64; i++) count += __builtin_popcountll(c->bits[i]);
    return count;
}

// The first core, or -1.
static int first_of(const binding_cores *c)
{
    for (int core = 0; core < BINDING_CORES; core++)
        if (has(c, core)) return core;
    return -1;
}

status binding_usable(binding_cores *out, err *e)
{
    *out = (binding_cores){{0}};
    if (sched_getaffinity(0, sizeof *out, (cpu_set_t *)(void *)out) == 0) return OK;
    return err_errno(e, "cannot read which of at most %d cores this process may use",
                     BINDING_CORES);
}

static bool read_core(const char **next, int *out)
{
    char *end;
    if (**next < '0' || **next > '9') return false;
    const unsigned long core = strtoul(*next, &end, 10);
    *next = end;
    *out = (int)core;
    return core < BINDING_CORES;
}

// "0-3,8", as the kernel and numactl write it.
static bool read_list(const char *list, binding_cores *out)
{
    *out = (binding_cores){{0}};
    for (const char *next = list;;) {
        int low, high;
        if (!read_core(&next, &low)) return false;
        high = low;
        if (*next == '-' && (next++, !read_core(&next, &high))) return false;
        if (high < low) return false;
        for (int core = low; core <= high; core++) add(out, core);
        if (*next == 0) return true;
        if (*next++ != ',') return false;
    }
}

// ---- /sys ----

// A machine as this process may use it.
typedef struct machine {
    const char *root;
    binding_cores usable;
    binding_cores nodes[NODES]; // [count], those with a usable core
    int count;
} machine;

// The first line of a file of /sys/devices/system; false: there is none.
static bool read_line(const machine *m, const char *path, char line[LINE])
{
    text full = {0};
    text_addf(&full, "%s/sys/devices/system/%s", m->root, path);
    FILE *f = fopen(full.chars, "re");
    text_clear(&full);
    if (!f) return false;
    const bool read = fgets(line, LINE, f) != NULL;
    fclose(f);
    if (read) line[strcspn(line, "\n")] = 0;
    return read;
}

// The usable cores in a file of a core; the core alone where there is no such file.
static binding_cores cores_beside(const machine *m, int core, const char *name)
{
    char path[128], line[LINE];
    binding_cores c;
    snprintf(path, sizeof path, "cpu/cpu%d/%s", core, name);
    if (!read_line(m, path, line) || !read_list(line, &c)) c = (binding_cores){{0}}, add(&c, core);
    keep(&c, &m->usable);
    return c;
}

// Nodes are in order. A machine that names none has one.
static void read_nodes(machine *m)
{
    for (int n = 0; n < NODES; n++) {
        char path[64], line[LINE];
        binding_cores c;
        snprintf(path, sizeof path, "node/node%d/cpulist", n);
        if (!read_line(m, path, line) || !read_list(line, &c)) continue;
        keep(&c, &m->usable);
        if (binding_count(&c)) m->nodes[m->count++] = c;
    }
    if (m->count == 0) m->nodes[m->count++] = m->usable;
}

// The cores of the largest cache of a core that several cores share.
static binding_cores cores_of_cache(const machine *m, int core)
{
    for (int i = CACHES - 1; i > 0; i--) {
        char path[64], line[LINE];
        snprintf(path, sizeof path, "cpu/cpu%d/cache/index%d/shared_cpu_list", core, i);
        if (!read_line(m, path, line)) continue;
        snprintf(path, sizeof path, "cache/index%d/shared_cpu_list", i);
        return cores_beside(m, core, path);
    }
    return cores_beside(m, core, "topology/thread_siblings_list");
}

// ---- choices ----

typedef binding_cores (*group_fn)(const machine *m, int core);

static binding_cores cores_of_core(const machine *m, int core)
{
    return cores_beside(m, core, "topology/thread_siblings_list");
}

// Takes groups `first` to `first + count` of those that `group` makes of the cores of `of`, in order. Returns how many
// groups there are.
static int take_groups(const machine *m, const binding_cores *of, group_fn group, int first,
                       int count, binding_cores *out)
{
    binding_cores left = *of;
    int groups = 0;
    *out = (binding_cores){{0}};
    for (int core = first_of(&left); core >= 0; core = first_of(&left), groups++) {
        binding_cores one = group(m, core);
        add(&one, core);
        keep(&one, &left);
        leave_out(&left, &one);
        if (groups >= first && groups < first + count) add_all(out, &one);
    }
    return groups;
}

// Share `k` of `of` shares of `count` things: where it begins, and its size. The first shares are one larger.
static int share_of(int count, int k, int of, int *begin)
{
    const int each = count / of, more = count % of;
    *begin = k * each + (k < more ? k : more);
    return each + (k < more);
}

static binding_cores socket_of(const machine *m, const binding_cores *node)
{
    return cores_beside(m, first_of(node), "topology/core_siblings_list");
}

// Worker `k` of the `of` workers of a node.
static status choose_in_node(const machine *m, binding_kind kind, const binding_cores *node, int k,
                             int of, binding_cores *out, err *e)
{
    binding_cores none;
    int begin, size;
    const group_fn group = kind == BINDING_EXCLUSIVE ? cores_of_core : cores_of_cache;
    if (kind == BINDING_NODE) return *out = *node, OK;
    if (kind == BINDING_SOCKET) return *out = socket_of(m, node), OK;
    const int groups = take_groups(m, node, group, 0, 0, &none);
    if (kind == BINDING_CORE_COMPLEX) {
        take_groups(m, node, group, k % groups, 1, out);
        return OK;
    }
    if (groups < of)
        return err_set(e, E_USAGE,
                       "--numa-binding exclusive: found %d workers on a NUMA node with %d cores; "
                       "valid are at most that many",
                       of, groups);
    size = share_of(groups, k, of, &begin);
    take_groups(m, node, group, begin, size, out);
    return OK;
}

static status choose_of_nodes(const machine *m, binding_kind kind, int workers, binding_cores *out,
                              err *e)
{
    status result = OK;
    for (int n = 0, first = 0; n < m->count; n++) {
        const int end = (int)(((int64_t)(n + 1) * workers + m->count - 1) / m->count);
        for (int w = first; w < end && w < workers; w++)
            TRY(choose_in_node(m, kind, &m->nodes[n], w - first, end - first, &out[w], e));
        first = end;
    }
done:
    return result;
}

// As DeepSpeed: equal shares, and the rest is unused.
static status choose_of_list(const machine *m, const char *list, int workers, binding_cores *out,
                             err *e)
{
    status result = OK;
    binding_cores cores = {{0}}, other;
    if (list && !read_list(list, &cores))
        FAIL(E_USAGE, "--bind-core-list: found %s; valid are cores and ranges, such as 0-3,8",
             list);
    other = cores;
    leave_out(&other, &m->usable);
    if (binding_count(&other))
        FAIL(E_USAGE, "--bind-core-list: core %d is not one that this process may use",
             first_of(&other));
    for (int core = 0; core < BINDING_CORES && !list; core++) {
        binding_cores siblings = cores_of_core(m, core);
        if (has(&m->usable, core) && first_of(&siblings) == core) add(&cores, core);
    }
    const int each = binding_count(&cores) / workers;
    if (each == 0)
        FAIL(E_USAGE, "--bind-cores-to-rank: found %d cores for %d workers; valid is one for each",
             binding_count(&cores), workers);
    for (int w = 0, core = 0; w < workers; w++) {
        out[w] = (binding_cores){{0}};
        for (int taken = 0; taken < each; core++)
            if (has(&cores, core)) add(&out[w], core), taken++;
    }
done:
    return result;
}

status binding_choose(const binding *b, const char *root, const binding_cores *usable, int workers,
                      binding_cores *out, err *e)
{
    machine *m = NULL;
    status result = OK;
    TRY(alloc_zeroed(&m, 1, sizeof *m, "the cores of this machine", e));
    m->root = root;
    m->usable = *usable;
    read_nodes(m);
    if (b->kind == BINDING_LIST)
        TRY(choose_of_list(m, b->list, workers, out, e));
    else
        TRY(choose_of_nodes(m, b->kind, workers, out, e));
done:
    free(m);
    return result;
}
