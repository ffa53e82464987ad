// nodes.c -- the probes of NUMA nodes, and nodes.h.
#include "doctor/memory/nodes.h"

#include "base/text.h"
#include "doctor/doctor.h"
#include "doctor/memory/probes.h"
#include "doctor/memory/readings.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NODES "/sys/devices/system/node"

static uint64_t node_bytes(const char *content, const char *name, const char *figure)
{
    char key[96];
    uint64_t kib = 0;
    snprintf(key, sizeof key, "Node %s %s", name + strlen("node"), figure);
    return reading_number(content, key, &kib) ? kib * 1024 : 0;
}

static status node_read(const doctor_context *c, const char *name, memory_node *out, err *e)
{
    status result = OK;
    char path[128], list[1024], *content = NULL;
    bool denied;
    *out = (memory_node){.cores = 0};
    snprintf(out->name, sizeof out->name, "%s", name);
    snprintf(path, sizeof path, NODES "/%s/cpulist", name);
    if (doctor_read_line(c, path, list, sizeof list)) out->cores = reading_listed(list);
    snprintf(path, sizeof path, NODES "/%s/meminfo", name);
    TRY(doctor_read(c, path, &content, &denied, e));
    if (!content) goto done;
    out->total = node_bytes(content, out->name, "MemTotal:");
    out->droppable = node_bytes(content, out->name, "MemFree:") +
                     node_bytes(content, out->name, "Active(file):") +
                     node_bytes(content, out->name, "Inactive(file):");
done:
    free(content);
    return result;
}

status memory_nodes_read(const doctor_context *c, memory_node out[MEMORY_NODES], int *count, err *e)
{
    status result = OK;
    char **names = NULL;
    int n = 0;
    *count = 0;
    TRY(doctor_names(c, NODES, &names, &n, e));
    for (int i = 0; i < n && *count < MEMORY_NODES; i++) {
        if (strncmp(names[i], "node", 4) != 0 || !isdigit((unsigned char)names[i][4])) continue;
        TRY(node_read(c, names[i], &out[*count], e));
        *count += out[*count].cores > 0;
    }
done:
    doctor_names_free(names, n);
    return result;
}

// Reads the nodes. *count is 0 where the machine has fewer than two, after doctor_skip.
static status several(const doctor_context *c, doctor_findings *out, memory_node node[MEMORY_NODES],
                      int *count, err *e)
{
    status result = OK;
    TRY(memory_nodes_read(c, node, count, e));
    if (*count < 2) {
        doctor_skip(out, "there is one NUMA node");
        *count = 0;
    }
done:
    return result;
}

status probe_numa_balancing(const doctor_context *c, doctor_findings *out, err *e)
{
    status result = OK;
    memory_node node[MEMORY_NODES];
    int count;
    int64_t value = 0;
    TRY(several(c, out, node, &count, e));
    if (count && doctor_read_number(c, "/proc/sys/kernel/numa_balancing", &value) && value)
        doctor_find(out, "where", "kernel.numa_balancing", NULL);
done:
    return result;
}

status probe_zone_reclaim(const doctor_context *c, doctor_findings *out, err *e)
{
    status result = OK;
    memory_node node[MEMORY_NODES];
    int count;
    int64_t value = 0;
    char number[24];
    TRY(several(c, out, node, &count, e));
    if (!count || !doctor_read_number(c, "/proc/sys/vm/zone_reclaim_mode", &value) || !value)
        goto done;
    snprintf(number, sizeof number, "%lld", (long long)value);
    doctor_find(out, "where", "vm.zone_reclaim_mode", "value", number, NULL);
done:
    return result;
}

status probe_node_free(const doctor_context *c, doctor_findings *out, err *e)
{
    status result = OK;
    memory_node node[MEMORY_NODES];
    int count;
    bool roomy = false; // another node has memory left, so that pages go there
    char left[24], total[24];
    TRY(several(c, out, node, &count, e));
    for (int i = 0; i < count; i++) roomy = roomy || node[i].droppable >= node[i].total / 4;
    for (int i = 0; roomy && i < count; i++) {
        if (!node[i].total || node[i].droppable >= node[i].total / 20) continue;
        text_bytes(left, (double)node[i].droppable);
        text_bytes(total, (double)node[i].total);
        doctor_find(out, "where", node[i].name, "left", left, "memory", total, NULL);
    }
done:
    return result;
}

status probe_node_size(const doctor_context *c, doctor_findings *out, err *e)
{
    status result = OK;
    memory_node node[MEMORY_NODES];
    int count, largest = 0;
    char bytes[24], most[24];
    TRY(several(c, out, node, &count, e));
    for (int i = 1; i < count; i++)
        if (node[i].total > node[largest].total) largest = i;
    for (int i = 0; i < count; i++) {
        if (node[i].total >= node[largest].total / 4 * 3) continue;
        text_bytes(bytes, (double)node[i].total);
        text_bytes(most, (double)node[largest].total);
        doctor_find(out, "where", node[i].name, "memory", bytes, "other", node[largest].name,
                    "most", most, NULL);
    }
done:
    return result;
}
