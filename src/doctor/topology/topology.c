// topology.c -- makes the tree of a machine's parts from hwloc's objects. Cores that share everything become one part, and a
// bridge to a single device is left out. It prints nothing.
#include "doctor/topology/topology_private.h"

#include "base/alloc.h"
#include "base/file.h"

#include <stdlib.h>
#include <string.h>

const char *topology_kind_name(topology_kind k)
{
    static const char *const names[] = {"machine", "group",  "socket", "numa", "cache",
                                        "cores",   "bridge", "gpu",    "nic",  "disk"};
    _Static_assert(sizeof names / sizeof *names == TOPOLOGY_KINDS, "each kind has a name");
    return names[k];
}

const char *topology_info(hwloc_obj_t o, const char *key)
{
    return hwloc_obj_get_info_by_name(o, key);
}

status topology_list(hwloc_const_bitmap_t set, char **out, err *e)
{
    char *list = NULL;
    if (!set) return text_copy("", out, e);
    if (hwloc_bitmap_list_asprintf(&list, set) < 0)
        return alloc_failed(0, "the numbers of hardware threads", e);
    const status result = text_copy(list, out, e);
    free(list);
    return result;
}

// ---- Items

// Adds a part; takes `label`, also where it fails.
static status add_part(topology_item *to, topology_kind kind, text *label,
                       hwloc_const_bitmap_t threads, topology_item **out, err *e)
{
    status result = OK;
    size_t room = (size_t)to->room;
    topology_item made = {.kind = kind};
    TRY(text_take(label, &made.label, e));
    TRY(topology_list(threads, &made.threads, e));
    TRY(alloc_grow(&to->part, &room, (size_t)to->parts + 1, sizeof *to->part,
                   "the parts of the machine", e));
    to->room = (int)room;
    *out = &to->part[to->parts++];
    **out = made;
done:
    if (result != OK) {
        text_clear(label);
        free(made.label);
        free(made.threads);
    }
    return result;
}

static void clear_item(topology_item *x)
{
    for (int i = 0; i < x->parts; i++) clear_item(&x->part[i]);
    free(x->part);
    free(x->label);
    free(x->threads);
    free(x->rate);
}

void topology_each(topology_item *of, void (*visit)(topology_item *item, void *arg), void *arg)
{
    visit(of, arg);
    for (int i = 0; i < of->parts; i++) topology_each(&of->part[i], visit, arg);
}

// ---- Cores

static void add_bytes(text *out, uint64_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB"};
    double value = (double)bytes;
    int unit = 0;
    for (; unit < 3 && value >= 1024; unit++) value /= 1024;
    text_addf(out, "%.*f %s", value == (double)(uint64_t)value ? 0 : 1, value, units[unit]);
}

static void add_cache(text *out, hwloc_obj_t o)
{
    const hwloc_obj_cache_type_t type = o->attr->cache.type;
    text_addf(out, "L%u%s ", o->attr->cache.depth,
              type == HWLOC_OBJ_CACHE_DATA          ? "d"
              : type == HWLOC_OBJ_CACHE_INSTRUCTION ? "i"
                                                    : "");
    add_bytes(out, o->attr->cache.size);
}

static int count_within(const topology_builder *b, hwloc_obj_t o, hwloc_obj_type_t type)
{
    return hwloc_get_nbobjs_inside_cpuset_by_type(b->from, o->cpuset, type);
}

// Returns whether the object is one core, or a cache of one core.
static bool is_one_core(const topology_builder *b, hwloc_obj_t o)
{
    const bool may =
        o->type == HWLOC_OBJ_CORE || o->type == HWLOC_OBJ_PU || hwloc_obj_type_is_cache(o->type);
    return may && o->memory_arity == 0 && count_within(b, o, HWLOC_OBJ_CORE) <= 1;
}

// "2 hardware threads, L2 1 MiB, L1d 48 KiB": what each of such cores has.
static void describe_core(const topology_builder *b, hwloc_obj_t o, text *out)
{
    const int threads = count_within(b, o, HWLOC_OBJ_PU);
    text_addf(out, "%d hardware thread%s", threads, threads == 1 ? "" : "s");
    for (; o; o = o->first_child) {
        if (!hwloc_obj_type_is_cache(o->type)) continue;
        text_add(out, ", ");
        add_cache(out, o);
    }
}

// Adds one part for the run of cores that starts at `first` and are alike. *after becomes the sibling behind them.
static status add_cores(topology_builder *b, hwloc_obj_t first, topology_item *to,
                        hwloc_obj_t *after, err *e)
{
    status result = OK;
    text each = {0}, label = {0};
    topology_item *made;
    int count = 0;
    hwloc_bitmap_t threads = hwloc_bitmap_alloc();
    describe_core(b, first, &each);
    *after = first;
    for (hwloc_obj_t o = first; o && is_one_core(b, o); o = o->next_sibling) {
        text own = {0};
        describe_core(b, o, &own);
        const bool alike = own.chars && each.chars && strcmp(own.chars, each.chars) == 0;
        text_clear(&own);
        if (!alike) break;
        hwloc_bitmap_or(threads, threads, o->cpuset);
        *after = o->next_sibling;
        count++;
    }
    TRY(text_check(&each, e));
    text_addf(&label, "%d core%s%s %s", count, count == 1 ? "" : "s",
              count == 1 ? ":" : ", each:", each.chars);
    TRY(add_part(to, TOPOLOGY_CORES, &label, threads, &made, e));
done:
    text_clear(&each);
    hwloc_bitmap_free(threads);
    return result;
}

// ---- What is on a bus

static status add_device(topology_builder *b, hwloc_obj_t o, topology_item *to, err *e)
{
    topology_item *made;
    text label = {0};
    const int index = topology_device_of(b, o);
    if (index < 0 && o->attr->pcidev.class_id >> 8 != 1) return OK; // neither a device nor a disk
    if (index >= 0) {
        const topology_device *d = &b->to->device[index];
        text_addf(&label, "%s%d %s, %s", d->kind == TOPOLOGY_GPU ? "GPU" : "NIC", d->number,
                  d->title, d->address);
        if (d->kind == TOPOLOGY_NIC) topology_add_speed(b->source, o, &label);
    } else {
        int names = 0;
        text_add(&label, "disk");
        for (hwloc_obj_t c = o->io_first_child; c; c = c->next_sibling)
            if (c->type == HWLOC_OBJ_OS_DEVICE && c->attr->osdev.type == HWLOC_OBJ_OSDEV_BLOCK)
                text_addf(&label, "%s %s", names++ ? "," : "", c->name);
        if (!names) {
            text_clear(&label);
            return OK;
        }
    }
    if (o->attr->pcidev.linkspeed > 0)
        text_addf(&label, ", PCIe %.1f GB/s", (double)o->attr->pcidev.linkspeed);
    const topology_kind kind = index < 0 ? TOPOLOGY_DISK : b->to->device[index].kind;
    const status result = add_part(to, kind, &label, NULL, &made, e);
    if (result == OK && index >= 0) made->number = b->to->device[index].number;
    return result;
}

// A bridge to several devices is a part of its own.
static status add_bus(topology_builder *b, hwloc_obj_t o, topology_item *to, err *e)
{
    status result = OK;
    topology_item within = {.kind = TOPOLOGY_BRIDGE}, *made;
    text label = {0};
    if (o->type == HWLOC_OBJ_PCI_DEVICE) return add_device(b, o, to, e);
    if (o->type != HWLOC_OBJ_BRIDGE) return OK;
    for (hwloc_obj_t c = o->io_first_child; c; c = c->next_sibling) TRY(add_bus(b, c, &within, e));
    if (within.parts == 0) goto done;
    const bool is_host = o->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_HOST;
    if (is_host)
        text_addf(&label, "PCIe host bridge %04x:%02x",
                  (unsigned)o->attr->bridge.downstream.pci.domain,
                  (unsigned)o->attr->bridge.downstream.pci.secondary_bus);
    else
        text_addf(
            &label, "PCIe bridge %04x:%02x:%02x.%x", (unsigned)o->attr->bridge.upstream.pci.domain,
            (unsigned)o->attr->bridge.upstream.pci.bus, (unsigned)o->attr->bridge.upstream.pci.dev,
            (unsigned)o->attr->bridge.upstream.pci.func);
    TRY(add_part(to, TOPOLOGY_BRIDGE, &label, NULL, &made, e));
    if (within.parts == 1) { // stands for what it leads to
        free(made->label);
        free(made->threads);
        *made = within.part[0];
        within.parts = 0;
    } else {
        made->part = within.part;
        made->parts = within.parts;
        made->room = within.room;
        within = (topology_item){.kind = TOPOLOGY_BRIDGE};
    }
done:
    text_clear(&label);
    clear_item(&within);
    return result;
}

// ---- All

static topology_kind kind_of(hwloc_obj_t o)
{
    if (o->type == HWLOC_OBJ_PACKAGE) return TOPOLOGY_SOCKET;
    return hwloc_obj_type_is_cache(o->type) ? TOPOLOGY_CACHE : TOPOLOGY_GROUP;
}

static void describe_object(hwloc_obj_t o, text *out)
{
    const char *const model = topology_info(o, "CPUModel");
    const unsigned number = o->os_index == HWLOC_UNKNOWN_INDEX ? o->logical_index : o->os_index;
    if (o->type == HWLOC_OBJ_PACKAGE)
        text_addf(out, "socket %u%s%s", number, model ? ", " : "", model ? model : "");
    else if (o->type == HWLOC_OBJ_DIE)
        text_addf(out, "die %u", number);
    else if (hwloc_obj_type_is_cache(o->type))
        add_cache(out, o);
    else
        text_addf(out, "group %u", o->logical_index);
}

static status add_memory(hwloc_obj_t o, topology_item *to, err *e)
{
    status result = OK;
    topology_item *made;
    for (; o; o = o->next_sibling) {
        text label = {0};
        if (o->type != HWLOC_OBJ_NUMANODE) { // a cache of memory stands above its node
            TRY(add_memory(o->memory_first_child, to, e));
            continue;
        }
        text_addf(&label, "NUMA node %u", o->os_index);
        if (o->attr->numanode.local_memory) {
            text_add(&label, ", ");
            add_bytes(&label, o->attr->numanode.local_memory);
        }
        TRY(add_part(to, TOPOLOGY_NUMA, &label, o->cpuset, &made, e));
        made->number = (int)o->os_index;
    }
done:
    return result;
}

static status add_parts(topology_builder *b, hwloc_obj_t o, topology_item *to, err *e)
{
    status result = OK;
    TRY(add_memory(o->memory_first_child, to, e));
    for (hwloc_obj_t c = o->first_child; c;) {
        topology_item *made;
        text label = {0};
        if (is_one_core(b, c)) {
            TRY(add_cores(b, c, to, &c, e));
            continue;
        }
        describe_object(c, &label);
        TRY(add_part(to, kind_of(c), &label, c->cpuset, &made, e));
        TRY(add_parts(b, c, made, e));
        c = c->next_sibling;
    }
    for (hwloc_obj_t c = o->io_first_child; c; c = c->next_sibling) TRY(add_bus(b, c, to, e));
done:
    return result;
}

static status describe_machine(const topology_builder *b, err *e)
{
    status result = OK;
    text label = {0};
    static const struct {
        hwloc_obj_type_t type;
        const char *one, *more;
    } counts[] = {{HWLOC_OBJ_PACKAGE, "socket", "sockets"},
                  {HWLOC_OBJ_NUMANODE, "NUMA node", "NUMA nodes"},
                  {HWLOC_OBJ_CORE, "core", "cores"},
                  {HWLOC_OBJ_PU, "hardware thread", "hardware threads"}};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        const int n = hwloc_get_nbobjs_by_type(b->from, counts[i].type);
        if (n > 0)
            text_addf(&label, "%s%d %s", label.bytes ? ", " : "", n,
                      n == 1 ? counts[i].one : counts[i].more);
    }
    TRY(text_take(&label, &b->to->machine.label, e));
    TRY(topology_list(hwloc_get_root_obj(b->from)->cpuset, &b->to->machine.threads, e));
done:
    text_clear(&label);
    return result;
}

// Reads the machine, or what describes another one.
static status load(const topology_source *from, hwloc_topology_t *out, err *e)
{
    status result = OK;
    hwloc_topology_t h = NULL;
    if (hwloc_topology_init(&h) != 0) return alloc_failed(0, "the topology", e);
    hwloc_topology_set_io_types_filter(h, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
    if (from->xml && !file_exists(from->xml)) FAIL(E_USAGE, "%s: there is no such file", from->xml);
    if (from->xml && hwloc_topology_set_xml(h, from->xml) != 0)
        FAIL(E_USAGE, "%s: hwloc does not read it; valid is XML that `lstopo FILE.xml` writes",
             from->xml);
    if (from->synthetic && hwloc_topology_set_synthetic(h, from->synthetic) != 0)
        FAIL(E_USAGE,
             "'%s': hwloc does not read it; valid: a description such as pack:2 core:4 pu:2",
             from->synthetic);
    if (hwloc_topology_load(h) != 0)
        FAIL(from->xml ? E_USAGE : E_IO, "%s: hwloc cannot load the topology",
             from->xml ? from->xml : "this machine");
    *out = h;
    h = NULL;
done:
    if (h) hwloc_topology_destroy(h);
    return result;
}

status topology_open(const topology_source *from, topology *out, err *e)
{
    status result = OK;
    *out = (topology){.machine = {.kind = TOPOLOGY_MACHINE}};
    topology_builder b = {.source = from, .to = out};
    TRY(load(from, &b.from, e));
    TRY(topology_list_devices(&b, e));
    TRY(describe_machine(&b, e));
    TRY(add_parts(&b, hwloc_get_root_obj(b.from), &out->machine, e));
done:
    if (b.from) hwloc_topology_destroy(b.from);
    free(b.object);
    if (result != OK) topology_close(out);
    return result;
}

void topology_close(topology *t)
{
    clear_item(&t->machine);
    for (int i = 0; i < t->devices; i++) {
        free(t->device[i].title);
        free(t->device[i].threads);
        free(t->device[i].nodes);
    }
    free(t->device);
    free(t->path);
    free(t->links);
    text_clear(&t->note);
    *t = (topology){.machine = {.kind = TOPOLOGY_MACHINE}};
}
