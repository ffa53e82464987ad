// topology_print.c -- a topology as lines of text, as the matrix of `nvidia-smi topo -m`, and as JSON. Called by
// `trireme topo`. It appends to texts and writes no files.
#include "doctor/topology/topology.h"

#include "base/alloc.h"

#include <string.h>

// ---- The tree

static bool shows_threads(topology_kind k)
{
    return k == TOPOLOGY_NUMA || k == TOPOLOGY_CORES;
}

static void add_item(text *out, const topology_item *x, int depth)
{
    text_addf(out, "%*s%s", 2 * depth, "", x->label);
    if (shows_threads(x->kind)) text_addf(out, " (threads %s)", x->threads);
    if (x->rate) text_addf(out, ": %s", x->rate);
    text_add(out, "\n");
    for (int i = 0; i < x->parts; i++) add_item(out, &x->part[i], depth + 1);
}

void topology_add_text(text *out, const topology *t)
{
    add_item(out, &t->machine, 0);
    if (t->note.bytes) text_addf(out, "\n%s", t->note.chars);
}

// ---- The matrix

static const char *name_of(topology_kind k)
{
    return k == TOPOLOGY_GPU ? "GPU" : "NIC";
}

static void add_row(text *out, const topology *t, int row)
{
    const topology_device *d = &t->device[row];
    char letters[8];
    text_addf(out, "%s%d", name_of(d->kind), d->number);
    for (int k = 0; k < t->devices; k++) {
        topology_path_text(t, row, k, letters);
        text_addf(out, "\t%s", letters);
    }
    if (d->kind == TOPOLOGY_GPU) text_addf(out, "\t%s\t%s\tN/A", d->threads, d->nodes);
    text_add(out, "\n");
}

void topology_add_matrix(text *out, const topology *t)
{
    bool has_nic = false;
    if (!t->devices) return;
    for (int i = 0; i < t->devices; i++)
        text_addf(out, "\t%s%d", name_of(t->device[i].kind), t->device[i].number);
    text_add(out, "\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n");
    for (int i = 0; i < t->devices; i++) add_row(out, t, i);
    text_add(out, "\nLegend:\n\n"
                  "  X    = itself\n"
                  "  SYS  = over PCIe and the link between NUMA nodes\n"
                  "  NODE = over PCIe host bridges within a NUMA node\n"
                  "  PHB  = over PCIe and a host bridge\n"
                  "  PXB  = over several PCIe bridges, but no host bridge\n"
                  "  PIX  = over at most one PCIe bridge\n"
                  "  NV#  = over # NVLinks\n");
    for (int i = 0; i < t->devices; i++) {
        if (t->device[i].kind != TOPOLOGY_NIC) continue;
        if (!has_nic) text_add(out, "\nNIC Legend:\n\n");
        has_nic = true;
        text_addf(out, "  NIC%d: %s\n", t->device[i].number, t->device[i].title);
    }
}

// ---- JSON

static json_t *item_to_json(const topology_item *x)
{
    json_t *o = json_object();
    json_object_set_new(o, "kind", json_string(topology_kind_name(x->kind)));
    json_object_set_new(o, "label", json_string(x->label));
    if (x->threads[0]) json_object_set_new(o, "threads", json_string(x->threads));
    if (x->rate) json_object_set_new(o, "rate", json_string(x->rate));
    if (!x->parts) return o;
    json_t *parts = json_array();
    for (int i = 0; i < x->parts; i++) json_array_append_new(parts, item_to_json(&x->part[i]));
    json_object_set_new(o, "parts", parts);
    return o;
}

static json_t *device_to_json(const topology *t, int i)
{
    const topology_device *d = &t->device[i];
    json_t *o = json_pack("{s:s, s:i, s:s, s:s, s:s, s:s}", "kind", topology_kind_name(d->kind),
                          "number", d->number, "title", d->title, "address", d->address, "threads",
                          d->threads, "numa_nodes", d->nodes);
    json_t *paths = json_array();
    for (int k = 0; k < t->devices; k++) {
        char letters[8];
        topology_path_text(t, i, k, letters);
        json_array_append_new(paths, json_string(i == k ? "X" : letters));
    }
    json_object_set_new(o, "paths", paths);
    return o;
}

status topology_to_json(const topology *t, json_t **out, err *e)
{
    json_t *devices = json_array();
    for (int i = 0; i < t->devices; i++) json_array_append_new(devices, device_to_json(t, i));
    *out = json_pack("{s:o, s:o}", "machine", item_to_json(&t->machine), "devices", devices);
    return *out ? OK : alloc_failed(0, "the topology", e);
}
