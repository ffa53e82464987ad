// rdma_checks.c -- probes of InfiniBand and RoCE ports. See ports.h for what they read.
#include "doctor/network/ports.h"
#include "doctor/network/probes.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Looks at one port, and finds what is wrong with it.
typedef status look(const doctor_context *c, const doctor_port *p, doctor_findings *out, err *e);

// Looks at all ports, or at the active ones of RoCE only.
static status look_at_all(const doctor_context *c, doctor_findings *out, bool is_roce, look *one,
                          err *e)
{
    status result = OK;
    doctor_ports all = {0};
    int looked = 0;
    TRY(doctor_ports_read(c, &all, e));
    for (int i = 0; i < all.count; i++) {
        const doctor_port *p = &all.item[i];
        if (is_roce && !(p->is_ethernet && doctor_port_is_active(p))) continue;
        TRY(one(c, p, out, e));
        looked++;
    }
    if (!looked)
        doctor_skip(out, is_roce ? "there is no active RoCE port"
                                 : "there is no InfiniBand or RoCE device");
done:
    free(all.item);
    return result;
}

// ---- State and rate

static status look_at_state(const doctor_context *c, const doctor_port *p, doctor_findings *out,
                            err *e)
{
    (void)c, (void)e;
    if (strcmp(p->physical, "LinkUp") == 0 && !doctor_port_is_active(p))
        doctor_find(out, "where", p->name, "state", p->state, NULL);
    return OK;
}

status doctor_probe_ib_state(const doctor_context *c, doctor_findings *out, err *e)
{
    return look_at_all(c, out, false, look_at_state, e);
}

static status look_at_cable(const doctor_context *c, const doctor_port *p, doctor_findings *out,
                            err *e)
{
    (void)c, (void)e;
    if (*p->physical && strcmp(p->physical, "LinkUp") != 0 && !doctor_port_is_active(p))
        doctor_find(out, "where", p->name, "physical", p->physical, NULL);
    return OK;
}

status doctor_probe_ib_cable(const doctor_context *c, doctor_findings *out, err *e)
{
    return look_at_all(c, out, false, look_at_cable, e);
}

static status look_at_rate(const doctor_context *c, const doctor_port *p, doctor_findings *out,
                           err *e)
{
    char gbits[24], least[24], key[PORT_NAME_BYTES + 8];
    const double need = doctor_threshold(c, "ib_gbits", 0);
    (void)e;
    if (!doctor_port_is_active(p) || p->gbits <= 0) return OK;
    snprintf(key, sizeof key, "%s_gbits", p->name);
    doctor_measure(out, key, p->gbits, "Gb/s", true);
    if (p->gbits >= need) return OK;
    snprintf(gbits, sizeof gbits, "%g", p->gbits);
    snprintf(least, sizeof least, "%g", need);
    doctor_find(out, "where", p->name, "gbits", gbits, "least", least, NULL);
    return OK;
}

status doctor_probe_ib_rate(const doctor_context *c, doctor_findings *out, err *e)
{
    return look_at_all(c, out, false, look_at_rate, e);
}

// An active port of the same kind with the highest rate; NULL: there is none.
static const doctor_port *fastest(const doctor_ports *all, bool is_ethernet)
{
    const doctor_port *best = NULL;
    for (int i = 0; i < all->count; i++) {
        const doctor_port *p = &all->item[i];
        if (!doctor_port_is_active(p) || p->is_ethernet != is_ethernet) continue;
        if (!best || p->gbits > best->gbits) best = p;
    }
    return best;
}

status doctor_probe_ib_rates_differ(const doctor_context *c, doctor_findings *out, err *e)
{
    status result = OK;
    doctor_ports all = {0};
    char gbits[24], most[24];
    TRY(doctor_ports_read(c, &all, e));
    if (all.count < 2) doctor_skip(out, "there are no two InfiniBand or RoCE ports");
    // Cards for storage are of another kind more often than of another rate.
    for (int i = 0; i < all.count && all.count > 1; i++) {
        const doctor_port *p = &all.item[i], *best = fastest(&all, p->is_ethernet);
        if (!doctor_port_is_active(p) || p->gbits <= 0 || p->gbits >= best->gbits) continue;
        snprintf(gbits, sizeof gbits, "%g", p->gbits);
        snprintf(most, sizeof most, "%g", best->gbits);
        doctor_find(out, "where", p->name, "gbits", gbits, "other", best->name, "most", most, NULL);
    }
done:
    free(all.item);
    return result;
}

// ---- Counters

static status look_at_errors(const doctor_context *c, const doctor_port *p, doctor_findings *out,
                             err *e)
{
    // How many of each are normal since the counters were cleared: cables are plugged, and links train.
    static const struct {
        const char *name;
        int64_t most;
    } COUNTERS[] = {{"link_downed", 5},
                    {"link_error_recovery", 5},
                    {"symbol_error", 100},
                    {"port_rcv_errors", 100},
                    {"port_rcv_remote_physical_errors", 100},
                    {"local_link_integrity_errors", 0},
                    {"excessive_buffer_overrun_errors", 0}};
    char count[24];
    (void)e;
    for (size_t i = 0; i < sizeof COUNTERS / sizeof *COUNTERS; i++) {
        const int64_t n = doctor_port_counter(c, p, COUNTERS[i].name);
        if (n <= COUNTERS[i].most) continue;
        snprintf(count, sizeof count, "%" PRId64, n);
        doctor_find(out, "where", p->name, "counter", COUNTERS[i].name, "count", count, NULL);
    }
    return OK;
}

status doctor_probe_ib_errors(const doctor_context *c, doctor_findings *out, err *e)
{
    return look_at_all(c, out, false, look_at_errors, e);
}

// ---- Variables and device files

// The rule of NCCL_IB_HCA: "mlx5", "=mlx5_0:1,mlx5_1:1", "^mlx5_2"; "^=" for all but whole names.
static bool hca_matches(const char *rule, const doctor_port *p)
{
    const bool others = rule[0] == '^';
    if (others) rule++;
    const bool exact = rule[0] == '=';
    if (exact) rule++;
    bool found = false;
    for (size_t bytes; *rule && !found; rule += bytes + (rule[bytes] == ',')) {
        bytes = strcspn(rule, ",");
        const size_t device = strcspn(rule, ",:");
        const char *name = device < bytes ? p->name : p->device;
        found = bytes > 0 && strncmp(rule, name, bytes) == 0 && (!exact || !name[bytes]);
    }
    return found != others;
}

status doctor_probe_ib_hca_rule(const doctor_context *c, doctor_findings *out, err *e)
{
    status result = OK;
    doctor_ports all = {0};
    text names = {0};
    const char *rule = doctor_variable(c, "NCCL_IB_HCA");
    TRY(doctor_ports_read(c, &all, e));
    if (!rule || !*rule || all.count == 0) {
        doctor_skip(out,
                    all.count ? "NCCL_IB_HCA is not set" : "there is no InfiniBand or RoCE device");
        goto done;
    }
    for (int i = 0; i < all.count; i++) {
        if (hca_matches(rule, &all.item[i]) && doctor_port_is_active(&all.item[i])) goto done;
        text_addf(&names, "%s%s", i ? ", " : "", all.item[i].name);
    }
    TRY(text_check(&names, e));
    doctor_find(out, "where", "NCCL_IB_HCA", "rule", rule, "names", names.chars, NULL);
done:
    text_clear(&names);
    free(all.item);
    return result;
}

status doctor_probe_ib_disabled(const doctor_context *c, doctor_findings *out, err *e)
{
    status result = OK;
    doctor_ports all = {0};
    const char *disabled = doctor_variable(c, "NCCL_IB_DISABLE");
    const doctor_port *active = NULL;
    TRY(doctor_ports_read(c, &all, e));
    for (int i = 0; i < all.count && !active; i++)
        if (doctor_port_is_active(&all.item[i])) active = &all.item[i];
    if (!active)
        doctor_skip(out, "there is no active InfiniBand or RoCE port");
    else if (disabled && strcmp(disabled, "1") == 0)
        doctor_find(out, "where", "NCCL_IB_DISABLE", "port", active->name, NULL);
done:
    free(all.item);
    return result;
}

status doctor_probe_ib_devices(const doctor_context *c, doctor_findings *out, err *e)
{
    status result = OK;
    doctor_ports all = {0};
    char **files = NULL;
    int count = 0, verbs = 0;
    TRY(doctor_ports_read(c, &all, e));
    TRY(doctor_names(c, "/dev/infiniband", &files, &count, e));
    for (int i = 0; i < count; i++) verbs += strncmp(files[i], "uverbs", 6) == 0;
    if (!all.count)
        doctor_skip(out, "there is no InfiniBand or RoCE device");
    else if (!verbs)
        doctor_find(out, "where", "/dev/infiniband", "device", all.item[0].device, NULL);
done:
    doctor_names_free(files, count);
    free(all.item);
    return result;
}

// ---- RoCE

static status look_at_roce_mtu(const doctor_context *c, const doctor_port *p, doctor_findings *out,
                               err *e)
{
    enum { LEAST = 4200 }; // 4096 bytes and the headers
    status result = OK;
    char folder[PORT_PATH_BYTES], path[2 * PORT_PATH_BYTES], number[24], **names = NULL;
    int count = 0;
    int64_t mtu;
    snprintf(folder, sizeof folder, "/sys/class/infiniband/%s/device/net", p->device);
    TRY(doctor_names(c, folder, &names, &count, e));
    for (int i = 0; i < count; i++) {
        snprintf(path, sizeof path, "%s/%s/mtu", folder, names[i]);
        if (!doctor_read_number(c, path, &mtu) || mtu >= LEAST) continue;
        snprintf(number, sizeof number, "%" PRId64, mtu);
        doctor_find(out, "where", p->name, "interface", names[i], "mtu", number, NULL);
    }
done:
    doctor_names_free(names, count);
    return result;
}

status doctor_probe_roce_mtu(const doctor_context *c, doctor_findings *out, err *e)
{
    return look_at_all(c, out, true, look_at_roce_mtu, e);
}

// The type of an entry of the GID table, "RoCE v2"; false where the entry is empty.
static bool read_gid_type(const doctor_context *c, const doctor_port *p, const char *index,
                          char out[PORT_WORD_BYTES])
{
    char path[PORT_PATH_BYTES + PORT_WORD_BYTES], gid[PORT_WORD_BYTES];
    snprintf(path, sizeof path, "%s/gids/%s", p->folder, index);
    if (!doctor_read_line(c, path, gid, sizeof gid) || strspn(gid, "0:") == strlen(gid))
        return false;
    snprintf(path, sizeof path, "%s/gid_attrs/types/%s", p->folder, index);
    return doctor_read_line(c, path, out, PORT_WORD_BYTES);
}

static status look_at_roce_gid(const doctor_context *c, const doctor_port *p, doctor_findings *out,
                               err *e)
{
    status result = OK;
    char folder[PORT_PATH_BYTES + 8], type[PORT_WORD_BYTES], **names = NULL;
    int count = 0;
    bool found = false;
    snprintf(folder, sizeof folder, "%s/gids", p->folder);
    TRY(doctor_names(c, folder, &names, &count, e));
    for (int i = 0; i < count && !found; i++)
        found = read_gid_type(c, p, names[i], type) && strcmp(type, "RoCE v2") == 0;
    if (!found) doctor_find(out, "where", p->name, NULL);
done:
    doctor_names_free(names, count);
    return result;
}

status doctor_probe_roce_gid(const doctor_context *c, doctor_findings *out, err *e)
{
    return look_at_all(c, out, true, look_at_roce_gid, e);
}

static status look_at_gid_index(const doctor_context *c, const doctor_port *p, doctor_findings *out,
                                err *e)
{
    char type[PORT_WORD_BYTES] = "an empty entry";
    const char *index = doctor_variable(c, "NCCL_IB_GID_INDEX");
    (void)e;
    if (index && *index && (!read_gid_type(c, p, index, type) || strcmp(type, "RoCE v2") != 0))
        doctor_find(out, "where", p->name, "index", index, "type", type, NULL);
    return OK;
}

status doctor_probe_gid_index(const doctor_context *c, doctor_findings *out, err *e)
{
    return look_at_all(c, out, true, look_at_gid_index, e);
}

static status look_at_loss(const doctor_context *c, const doctor_port *p, doctor_findings *out,
                           err *e)
{
    char path[PORT_PATH_BYTES + PORT_WORD_BYTES], count[24];
    int64_t lost;
    (void)e;
    // Packets that came out of order, or not at all: on a network without losses there are none.
    snprintf(path, sizeof path, "%s/hw_counters/out_of_sequence", p->folder);
    if (!doctor_read_number(c, path, &lost) || lost <= 100) return OK;
    snprintf(count, sizeof count, "%" PRId64, lost);
    doctor_find(out, "where", p->name, "count", count, NULL);
    return OK;
}

status doctor_probe_roce_loss(const doctor_context *c, doctor_findings *out, err *e)
{
    return look_at_all(c, out, true, look_at_loss, e);
}
