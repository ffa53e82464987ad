// interface_checks.c -- probes of network interfaces. See interfaces.h for what they read; interface_rows.c has their rows.
#include "doctor/network/probes.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FAST_MBITS = 25000 };

// Returns whether messages between hosts may go through it: not only those of this machine and its containers.
static bool carries(const doctor_interface *i)
{
    return doctor_interface_is_usable(i) &&
           (i->kind == INTERFACE_CARD || i->kind == INTERFACE_OTHER);
}

static const char *name_of_kind(interface_kind k)
{
    return k == INTERFACE_LOOPBACK ? "the loopback interface"
           : k == INTERFACE_BRIDGE ? "a bridge of containers or virtual machines"
                                   : "a virtual interface";
}

// Reads the interfaces; *skipped says that there is none, which the finding then says.
static status read_interfaces(const doctor_context *c, doctor_findings *out, doctor_interfaces *all,
                              bool *skipped, err *e)
{
    const status result = doctor_interfaces_read(c, all, e);
    *skipped = result == OK && all->count == 0;
    if (*skipped) doctor_skip(out, "/sys/class/net has no interface");
    return result;
}

status doctor_probe_interface_taken(const doctor_context *c, doctor_findings *out, err *e)
{
    status result = OK;
    doctor_interfaces all = {0};
    bool skipped;
    const char *variable;
    TRY(read_interfaces(c, out, &all, &skipped, e));
    const char *rule = doctor_interface_rule(c, &variable);
    const doctor_interface *taken = doctor_interface_taken(&all, rule), *card = NULL;
    if (skipped) goto done;
    if (!taken) {
        doctor_skip(out, "no interface that is up is chosen by %s", rule ? variable : "any rule");
        goto done;
    }
    doctor_fact(out, "interface", taken->name);
    for (int i = 0; i < all.count && !card; i++)
        if (carries(&all.item[i]) && all.item[i].kind == INTERFACE_CARD) card = &all.item[i];
    if (card && (taken->kind == INTERFACE_LOOPBACK || taken->kind == INTERFACE_BRIDGE))
        doctor_find(out, "where", taken->name, "kind", name_of_kind(taken->kind), "card",
                    card->name, "reason",
                    rule ? variable : "its place before the others in the kernel's list", NULL);
done:
    free(all.item);
    return result;
}

status doctor_probe_interface_rule(const doctor_context *c, doctor_findings *out, err *e)
{
    static const char *const VARIABLES[] = {"TRIREME_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME",
                                            "GLOO_SOCKET_IFNAME", NULL};
    status result = OK;
    doctor_interfaces all = {0};
    text names = {0};
    bool skipped, has_rule = false;
    TRY(read_interfaces(c, out, &all, &skipped, e));
    if (skipped) goto done;
    doctor_interface_list(&all, &names);
    TRY(text_check(&names, e));
    for (const char *const *v = VARIABLES; *v; v++) {
        const char *rule = doctor_variable(c, *v);
        if (!rule || !*rule) continue;
        has_rule = true;
        if (!doctor_interface_taken(&all, rule))
            doctor_find(out, "where", *v, "rule", rule, "names", names.bytes ? names.chars : "none",
                        NULL);
    }
    if (!has_rule) doctor_skip(out, "no variable names an interface");
done:
    text_clear(&names);
    free(all.item);
    return result;
}

// ---- One interface at a time

// Looks at one interface, and finds what is wrong with it.
typedef void look(const doctor_context *c, const doctor_interface *i, doctor_findings *out);

// Looks at all interfaces through which messages between hosts may go.
static status look_at_all(const doctor_context *c, doctor_findings *out, look *one, err *e)
{
    status result = OK;
    doctor_interfaces all = {0};
    bool skipped;
    int looked = 0;
    TRY(read_interfaces(c, out, &all, &skipped, e));
    for (int i = 0; i < all.count; i++)
        if (carries(&all.item[i])) one(c, &all.item[i], out), looked++;
    if (!skipped && looked == 0) doctor_skip(out, "no interface leads to other hosts");
done:
    free(all.item);
    return result;
}

static void look_at_carrier(const doctor_context *c, const doctor_interface *i,
                            doctor_findings *out)
{
    (void)c;
    if (!i->has_carrier) doctor_find(out, "where", i->name, NULL);
}

status doctor_probe_interface_carrier(const doctor_context *c, doctor_findings *out, err *e)
{
    return look_at_all(c, out, look_at_carrier, e);
}

static void look_at_speed(const doctor_context *c, const doctor_interface *i, doctor_findings *out)
{
    char mbits[24], least[24], key[48];
    const double need = doctor_threshold(c, "interface_mbits", 1000);
    if (i->mbits <= 0) return;
    snprintf(key, sizeof key, "%s_mbits", i->name);
    doctor_measure(out, key, (double)i->mbits, "Mb/s", true);
    if ((double)i->mbits >= need) return;
    snprintf(mbits, sizeof mbits, "%" PRId64, i->mbits);
    snprintf(least, sizeof least, "%.0f", need);
    doctor_find(out, "where", i->name, "mbits", mbits, "least", least, NULL);
}

status doctor_probe_interface_speed(const doctor_context *c, doctor_findings *out, err *e)
{
    return look_at_all(c, out, look_at_speed, e);
}

static void look_at_duplex(const doctor_context *c, const doctor_interface *i, doctor_findings *out)
{
    (void)c;
    if (i->is_half_duplex) doctor_find(out, "where", i->name, NULL);
}

status doctor_probe_interface_duplex(const doctor_context *c, doctor_findings *out, err *e)
{
    return look_at_all(c, out, look_at_duplex, e);
}

static int64_t counter(const doctor_context *c, const char *name, const char *file)
{
    char path[64];
    int64_t n;
    snprintf(path, sizeof path, "statistics/%s", file);
    return doctor_interface_number(c, name, path, &n) ? n : 0;
}

// Finds counters whose sum is more than 100, and more than `share` of all packets: a few come from the time when the
// interface was set up.
static void look_at_counters(const doctor_context *c, const char *name, const char *const *files,
                             double share, doctor_findings *out)
{
    enum { FEW = 100 };
    int64_t sum = 0, most = 0;
    const char *worst = "";
    char count[24], packets[24];
    const int64_t all = counter(c, name, "rx_packets") + counter(c, name, "tx_packets");
    for (; *files; files++) {
        const int64_t n = counter(c, name, *files);
        sum += n;
        if (n > most) most = n, worst = *files;
    }
    if (sum <= FEW || (double)sum <= share * (double)all) return;
    snprintf(count, sizeof count, "%" PRId64, sum);
    snprintf(packets, sizeof packets, "%" PRId64, all);
    doctor_find(out, "where", name, "count", count, "packets", packets, "counter", worst, NULL);
}

static void look_at_errors(const doctor_context *c, const doctor_interface *i, doctor_findings *out)
{
    static const char *const FILES[] = {"rx_errors", "tx_errors", NULL};
    look_at_counters(c, i->name, FILES, 1e-6, out);
}

status doctor_probe_interface_errors(const doctor_context *c, doctor_findings *out, err *e)
{
    return look_at_all(c, out, look_at_errors, e);
}

// Not rx_dropped: it counts packets of protocols that nobody listens to.
static void look_at_drops(const doctor_context *c, const doctor_interface *i, doctor_findings *out)
{
    static const char *const FILES[] = {"rx_missed_errors", "rx_fifo_errors", "tx_dropped", NULL};
    look_at_counters(c, i->name, FILES, 1e-5, out);
}

status doctor_probe_interface_drops(const doctor_context *c, doctor_findings *out, err *e)
{
    return look_at_all(c, out, look_at_drops, e);
}

static void look_at_mtu(const doctor_context *c, const doctor_interface *i, doctor_findings *out)
{
    char mtu[24], gbits[24];
    (void)c;
    if (i->mbits < FAST_MBITS || i->mtu <= 0 || i->mtu > 1500) return;
    snprintf(mtu, sizeof mtu, "%" PRId64, i->mtu);
    snprintf(gbits, sizeof gbits, "%.0f", (double)i->mbits * 1e-3);
    doctor_find(out, "where", i->name, "mtu", mtu, "gbits", gbits, NULL);
}

status doctor_probe_interface_mtu(const doctor_context *c, doctor_findings *out, err *e)
{
    return look_at_all(c, out, look_at_mtu, e);
}

// ---- Pairs of interfaces of one subnet

static bool are_of_one_subnet(const doctor_interface *a, const doctor_interface *b)
{
    return carries(a) && carries(b) && a->mask && a->mask == b->mask && a->subnet == b->subnet;
}

status doctor_probe_mtu_mixed(const doctor_context *c, doctor_findings *out, err *e)
{
    status result = OK;
    doctor_interfaces all = {0};
    bool skipped;
    char mtu[24], other[24];
    TRY(read_interfaces(c, out, &all, &skipped, e));
    for (int i = 0; i < all.count; i++)
        for (int j = 0; j < i; j++) {
            const doctor_interface *a = &all.item[j], *b = &all.item[i];
            if (!are_of_one_subnet(a, b) || a->mtu == b->mtu) continue;
            snprintf(mtu, sizeof mtu, "%" PRId64, a->mtu);
            snprintf(other, sizeof other, "%" PRId64, b->mtu);
            doctor_find(out, "where", a->name, "mtu", mtu, "other", b->name, "other_mtu", other,
                        NULL);
        }
done:
    free(all.item);
    return result;
}

// rp_filter of an interface is the larger one of its own file and that of all.
static bool filters_strictly(const doctor_context *c, const char *name)
{
    char path[96];
    int64_t own = 0, all = 0;
    snprintf(path, sizeof path, "/proc/sys/net/ipv4/conf/%s/rp_filter", name);
    (void)doctor_read_number(c, path, &own);
    (void)doctor_read_number(c, "/proc/sys/net/ipv4/conf/all/rp_filter", &all);
    return (own > all ? own : all) == 1;
}

status doctor_probe_rp_filter(const doctor_context *c, doctor_findings *out, err *e)
{
    status result = OK;
    doctor_interfaces all = {0};
    bool skipped;
    int pairs = 0;
    TRY(read_interfaces(c, out, &all, &skipped, e));
    if (skipped) goto done;
    for (int i = 0; i < all.count; i++)
        for (int j = 0; j < i; j++) {
            const doctor_interface *a = &all.item[j], *b = &all.item[i];
            if (!are_of_one_subnet(a, b)) continue;
            pairs++;
            if (filters_strictly(c, a->name) || filters_strictly(c, b->name))
                doctor_find(out, "where", a->name, "other", b->name, NULL);
        }
    if (!pairs) doctor_skip(out, "no two interfaces are in one subnet");
done:
    free(all.item);
    return result;
}
