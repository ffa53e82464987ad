// topology_devices.c -- GPUs and network interfaces of a machine, and the paths between each two of them. Called by
// topology.c, with hwloc's objects.
#include "doctor/topology/topology_private.h"

#include "base/alloc.h"
#include "base/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NVIDIA = 0x10de, AMD = 0x1002, DISPLAY = 0x03, ACCELERATOR = 0x12, NETWORK = 0x02 };

// The first child that is an interface of this type; NULL: there is none.
static hwloc_obj_t interface_of(hwloc_obj_t pci, hwloc_obj_osdev_type_t type)
{
    for (hwloc_obj_t c = pci->io_first_child; c; c = c->next_sibling)
        if (c->type == HWLOC_OBJ_OS_DEVICE && c->attr->osdev.type == type) return c;
    return NULL;
}

// Boards have display controllers for their consoles, which are of other vendors.
static bool is_gpu(hwloc_obj_t o)
{
    const unsigned class = o->attr->pcidev.class_id >> 8, vendor = o->attr->pcidev.vendor_id;
    return (class == DISPLAY || class == ACCELERATOR) && (vendor == NVIDIA || vendor == AMD);
}

static bool is_nic(hwloc_obj_t o)
{
    return o->attr->pcidev.class_id >> 8 == NETWORK ||
           interface_of(o, HWLOC_OBJ_OSDEV_OPENFABRICS) || interface_of(o, HWLOC_OBJ_OSDEV_NETWORK);
}

static int compare(const void *a, const void *b)
{
    const hwloc_obj_t x = *(const hwloc_obj_t *)a, y = *(const hwloc_obj_t *)b;
    const bool gpu_x = is_gpu(x), gpu_y = is_gpu(y);
    const struct hwloc_pcidev_attr_s *p = &x->attr->pcidev, *q = &y->attr->pcidev;
    if (gpu_x != gpu_y) return gpu_x ? -1 : 1;
    if (p->domain != q->domain) return p->domain < q->domain ? -1 : 1;
    if (p->bus != q->bus) return p->bus - q->bus;
    return p->dev != q->dev ? p->dev - q->dev : p->func - q->func;
}

// ---- Titles

// The line "Model:" of the driver's file of a GPU.
static void add_model(const topology_builder *b, const char *address, text *out)
{
    text path = {0};
    char *lines = NULL;
    text_addf(&path, "%s/proc/driver/nvidia/gpus/%s/information", b->source->root, address);
    if (path.chars && file_exists(path.chars)) {
        FILE *f = fopen(path.chars, "r");
        size_t room = 0;
        while (f && getline(&lines, &room, f) > 0)
            if (strncmp(lines, "Model:", 6) == 0)
                text_addf(out, "%.*s", (int)strcspn(lines + 6 + strspn(lines + 6, " \t"), "\n"),
                          lines + 6 + strspn(lines + 6, " \t"));
        if (f) fclose(f);
    }
    free(lines);
    text_clear(&path);
}

static void add_gpu_title(const topology_builder *b, hwloc_obj_t o, const char *address, text *out)
{
    const struct hwloc_pcidev_attr_s *p = &o->attr->pcidev;
    const char *const name = topology_info(o, "PCIDevice");
    if (b->source->root) add_model(b, address, out);
    if (out->bytes) return;
    if (name)
        text_add(out, name);
    else
        text_addf(out, "%s GPU %04x:%04x", p->vendor_id == NVIDIA ? "NVIDIA" : "AMD", p->vendor_id,
                  p->device_id);
}

static void add_nic_title(hwloc_obj_t o, text *out)
{
    static const hwloc_obj_osdev_type_t types[] = {HWLOC_OBJ_OSDEV_OPENFABRICS,
                                                   HWLOC_OBJ_OSDEV_NETWORK};
    for (size_t i = 0; i < 2; i++)
        for (hwloc_obj_t c = o->io_first_child; c; c = c->next_sibling)
            if (c->type == HWLOC_OBJ_OS_DEVICE && c->attr->osdev.type == types[i])
                text_addf(out, "%s%s", out->bytes ? ", " : "", c->name);
    if (!out->bytes)
        text_addf(out, "%04x:%04x without a driver", o->attr->pcidev.vendor_id,
                  o->attr->pcidev.device_id);
}

// The first number of a file of /sys; 0: there is none.
static double read_number(const char *root, const char *folder, const char *name, const char *file)
{
    double value = 0;
    text path = {0};
    text_addf(&path, "%s/sys/class/%s/%s/%s", root, folder, name, file);
    FILE *f = path.chars ? fopen(path.chars, "r") : NULL;
    if (f && fscanf(f, "%lf", &value) != 1) value = 0;
    if (f) fclose(f);
    text_clear(&path);
    return value;
}

void topology_add_speed(const topology_source *source, hwloc_obj_t pci, text *out)
{
    const hwloc_obj_t ib = interface_of(pci, HWLOC_OBJ_OSDEV_OPENFABRICS),
                      net = interface_of(pci, HWLOC_OBJ_OSDEV_NETWORK);
    double gbits = 0;
    if (!source->root) return;
    if (ib) gbits = read_number(source->root, "infiniband", ib->name, "ports/1/rate");
    if (gbits <= 0 && net) gbits = read_number(source->root, "net", net->name, "speed") / 1000;
    if (gbits > 0) text_addf(out, ", %g Gb/s", gbits);
}

// ---- Paths

// Bridges from the object up to, and not with, `above`.
static int bridges_below(hwloc_obj_t o, hwloc_obj_t above)
{
    int count = 0;
    for (o = o->parent; o != above; o = o->parent) count += o->type == HWLOC_OBJ_BRIDGE;
    return count;
}

static bool shares_node(hwloc_obj_t a, hwloc_obj_t b)
{
    while (!a->nodeset) a = a->parent;
    while (!b->nodeset) b = b->parent;
    return hwloc_bitmap_isequal(a->nodeset, b->nodeset) && hwloc_bitmap_weight(a->nodeset) == 1;
}

// The innermost object above both; hwloc's own function knows no objects on a bus.
static hwloc_obj_t find_common(hwloc_obj_t x, hwloc_obj_t y)
{
    for (; x; x = x->parent)
        for (hwloc_obj_t above = y; above; above = above->parent)
            if (above == x) return x;
    return NULL;
}

static topology_path find_path(hwloc_obj_t x, hwloc_obj_t y)
{
    if (x == y) return TOPOLOGY_SELF;
    const hwloc_obj_t common = find_common(x, y);
    if (common->type == HWLOC_OBJ_BRIDGE) {
        if (common->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_HOST) return TOPOLOGY_PHB;
        const bool several = bridges_below(x, common) > 1 || bridges_below(y, common) > 1;
        return several ? TOPOLOGY_PXB : TOPOLOGY_PIX;
    }
    return shares_node(x, y) ? TOPOLOGY_NODE : TOPOLOGY_SYS;
}

// ---- The list

static status describe_device(const topology_builder *b, int i, err *e)
{
    status result = OK;
    text title = {0};
    topology_device *d = &b->to->device[i];
    hwloc_obj_t o = b->object[i];
    const struct hwloc_pcidev_attr_s *p = &o->attr->pcidev;
    d->kind = is_gpu(o) ? TOPOLOGY_GPU : TOPOLOGY_NIC;
    d->number = i && d[-1].kind == d->kind ? d[-1].number + 1 : 0;
    snprintf(d->address, sizeof d->address, "%04x:%02x:%02x.%x", (unsigned)(p->domain & 0xffff),
             p->bus, p->dev, (unsigned)(p->func & 0xf));
    if (d->kind == TOPOLOGY_GPU)
        add_gpu_title(b, o, d->address, &title);
    else
        add_nic_title(o, &title);
    TRY(text_take(&title, &d->title, e));
    const hwloc_obj_t near = hwloc_get_non_io_ancestor_obj(b->from, o);
    TRY(topology_list(near->cpuset, &d->threads, e));
    TRY(topology_list(near->nodeset, &d->nodes, e));
done:
    text_clear(&title);
    return result;
}

status topology_list_devices(topology_builder *b, err *e)
{
    status result = OK;
    topology *t = b->to;
    int count = 0, room = 0;
    for (hwloc_obj_t o = NULL; (o = hwloc_get_next_pcidev(b->from, o));) room++;
    TRY(alloc_zeroed(&b->object, (size_t)room, sizeof(*b->object), "the devices", e));
    for (hwloc_obj_t o = NULL; (o = hwloc_get_next_pcidev(b->from, o));)
        if (is_gpu(o) || is_nic(o)) b->object[count++] = o;
    qsort(b->object, (size_t)count, sizeof(*b->object), compare);
    TRY(alloc_zeroed(&t->device, (size_t)count, sizeof *t->device, "the devices", e));
    t->devices = count;
    TRY(alloc_zeroed(&t->path, (size_t)(count * count), sizeof *t->path, "the paths", e));
    TRY(alloc_zeroed(&t->links, (size_t)(count * count), sizeof *t->links, "the links", e));
    for (int i = 0; i < count; i++) {
        TRY(describe_device(b, i, e));
        for (int k = 0; k < count; k++)
            t->path[i * count + k] = find_path(b->object[i], b->object[k]);
    }
done:
    return result;
}

int topology_device_of(const topology_builder *b, hwloc_obj_t o)
{
    for (int i = 0; i < b->to->devices; i++)
        if (b->object[i] == o) return i;
    return -1;
}

void topology_set_nvlinks(topology *t, int gpu, int other, int links)
{
    const int cell[] = {gpu * t->devices + other, other * t->devices + gpu};
    for (int i = 0; i < 2; i++) {
        t->path[cell[i]] = TOPOLOGY_NV;
        t->links[cell[i]] = links;
    }
}

int topology_find_gpu(const topology *t, const char *address)
{
    const size_t own = strlen(address);
    for (int i = 0; i < t->devices; i++) {
        const size_t bytes = strlen(t->device[i].address);
        if (t->device[i].kind == TOPOLOGY_GPU && own >= bytes &&
            strcasecmp(address + own - bytes, t->device[i].address) == 0)
            return t->device[i].number;
    }
    return -1;
}

void topology_path_text(const topology *t, int row, int column, char out[8])
{
    static const char *const letters[] = {" X ", "NV", "PIX", "PXB", "PHB", "NODE", "SYS"};
    _Static_assert(sizeof letters / sizeof *letters == TOPOLOGY_PATHS, "each path has letters");
    const int cell = row * t->devices + column;
    if (t->path[cell] == TOPOLOGY_NV)
        snprintf(out, 8, "NV%d", t->links[cell] % 1000);
    else
        snprintf(out, 8, "%s", letters[t->path[cell]]);
}
