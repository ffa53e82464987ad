// topo.c -- `trireme topo`: prints and draws what this machine is made of, and with --measure how fast its parts are. The
// topology is doctor/topology/'s, the rates are those of the active checks (doctor/measure/).
#include "base/file.h"
#include "base/proc.h"
#include "cmd/cmd.h"
#include "cmd/command.h"
#include "cmd/console.h"
#include "device/device.h"
#include "doctor/measure/measure.h"
#include "doctor/topology/topology.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { MOST_LINKED = 8 }; // GPUs between which links are measured

typedef struct topo_request {
    const char *input, *svg;
    bool json, measure;
} topo_request;

static const flag flags[] = {
    {"--svg", FLAG_TEXT, offsetof(topo_request, svg), "FILE.svg",
     "Also writes a picture to this file."},
    {"--json", FLAG_SWITCH, offsetof(topo_request, json), NULL, "Prints one JSON object."},
    {"--measure", FLAG_SWITCH, offsetof(topo_request, measure), NULL,
     "Measures the rate of copies of each NUMA node, the time from core to core, and the links "
     "between GPUs."},
    {"--input", FLAG_TEXT, offsetof(topo_request, input), "FILE.xml",
     "Shows the machine of this file, which `lstopo FILE.xml` has written there (default: this "
     "machine)."},
};
enum { FLAGS = sizeof flags / sizeof *flags };

// What a part of the tree is given.
typedef struct topo_measured {
    const doctor_measured *m;
    double links[MOST_LINKED][MOST_LINKED]; // GB/s from the row's GPU to the column's
    int gpus;
} topo_measured;

static void set_rate(topology_item *x, void *arg)
{
    const doctor_measured *m = ((const topo_measured *)arg)->m;
    if (x->kind != TOPOLOGY_NUMA) return;
    for (int i = 0; i < m->copies.count; i++) {
        text rate = {0};
        if (m->copies.place[i] != x->number || x->rate) continue;
        text_addf(&rate, "copies %.1f GB/s", m->copies.value[i]);
        if (text_take(&rate, &x->rate, NULL) != OK) x->rate = NULL;
    }
}

static status measure_links(topo_measured *x, err *e)
{
    status result = OK;
    device_description d;
    x->gpus = device_describe("cuda", NULL, &d, NULL) == OK ? d.count : 0;
    if (x->gpus > MOST_LINKED) x->gpus = MOST_LINKED;
    for (int from = 0; from < x->gpus; from++)
        for (int to = 0; to < x->gpus; to++)
            if (from != to) TRY(measure_link("cuda", from, to, &x->links[from][to], e));
done:
    return result;
}

static void add_notes(const topo_measured *x, text *out)
{
    const measured_list *l = &x->m->clock.latency;
    for (int i = 0; i < l->count; i++)
        if (l->value[i] > 0)
            text_addf(out, "core 0 to core %d: %.0f ns one way\n", l->place[i], l->value[i]);
    for (int from = 0; from < x->gpus; from++)
        for (int to = 0; to < x->gpus; to++)
            if (from != to)
                text_addf(out, "cuda %d to cuda %d: %.1f GB/s\n", from, to, x->links[from][to]);
}

static status measure(topology *t, topo_measured *x, doctor_measured *m, err *e)
{
    status result = OK;
    char *const none[] = {NULL};
    const doctor_context c = {.root = "", .environment = none};
    x->m = m;
    TRY(measure_copies(&c, m, e));
    TRY(measure_clock_order(&c, m, e));
    TRY(measure_links(x, e));
    topology_each(&t->machine, set_rate, x);
    add_notes(x, &t->note);
    TRY(text_check(&t->note, e));
done:
    return result;
}

// ---- Output

static json_t *list_to_json(const measured_list *l, const char *place, const char *value)
{
    json_t *all = json_array();
    for (int i = 0; i < l->count; i++)
        json_array_append_new(all, json_pack("{s:i, s:f}", place, l->place[i], value, l->value[i]));
    return all;
}

static json_t *measured_to_json(const topo_measured *x)
{
    json_t *links = json_array();
    for (int from = 0; from < x->gpus; from++)
        for (int to = 0; to < x->gpus; to++)
            if (from != to)
                json_array_append_new(links, json_pack("{s:i, s:i, s:f}", "from", from, "to", to,
                                                       "gb_per_s", x->links[from][to]));
    return json_pack("{s:o, s:o, s:o}", "copies",
                     list_to_json(&x->m->copies, "numa_node", "gb_per_s"), "core_latency",
                     list_to_json(&x->m->clock.latency, "core", "ns"), "gpu_links", links);
}

static status print_json(const topology *t, const topo_measured *x, err *e)
{
    status result = OK;
    json_t *all = NULL;
    TRY(topology_to_json(t, &all, e));
    if (x->m) json_object_set_new(all, "measured", measured_to_json(x));
    json_dumpf(all, stdout, JSON_COMPACT);
    putchar('\n');
done:
    json_decref(all);
    return result;
}

static status print_text(const topology *t, err *e)
{
    status result = OK;
    text out = {0};
    topology_add_text(&out, t);
    if (t->devices) text_add(&out, "\n");
    topology_add_matrix(&out, t);
    TRY(text_check(&out, e));
    console_print(out.chars, out.bytes);
done:
    text_clear(&out);
    return result;
}

static status write_picture(const topo_request *r, const topology *t, err *e)
{
    status result = OK;
    text out = {0};
    char host[256];
    proc_host_name(host, sizeof host);
    TRY(topology_draw(&out, t, r->input ? r->input : host, e));
    TRY(file_replace(r->svg, out.chars, out.bytes, e));
done:
    text_clear(&out);
    return result;
}

static int cmd_topo(int argc, char **argv)
{
    status result = OK;
    err error = {0}, *e = &error;
    topo_request r = {0};
    topology t = {0};
    doctor_measured m = {0};
    topo_measured x = {0};
    TRY(flags_parse(flags, FLAGS, argc, argv, &r, NULL, e));
    if (r.input && r.measure)
        FAIL(E_USAGE, "topo: --measure measures this machine; valid without --input");
    TRY(topology_open(&(topology_source){.xml = r.input, .root = r.input ? NULL : ""}, &t, e));
    if (!r.input) topology_read_nvlinks(&t, "libnvidia-ml.so.1");
    if (r.measure) TRY(measure(&t, &x, &m, e));
    if (r.svg) TRY(write_picture(&r, &t, e));
    TRY(r.json ? print_json(&t, &x, e) : print_text(&t, e));
done:
    topology_close(&t);
    doctor_measured_clear(&m);
    return result == OK ? 0 : cmd_fail(e);
}

const command command_topo = {
    .name = "topo",
    .run = cmd_topo,
    .usage = "[--svg FILE.svg] [--measure] [--input FILE.xml] [--json]",
    .help = "Prints the parts of this machine and the links between its devices.",
    .about = "Prints sockets, NUMA nodes, caches, cores, GPUs, network interfaces and disks as a "
             "tree, and the matrix of `nvidia-smi topo -m` with its letters for GPUs and network "
             "interfaces. A bridge to a single device is left out.",
    .flags = flags,
    .flag_count = FLAGS,
};
