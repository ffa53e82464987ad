// tcp_checks.c -- probes of the kernel's TCP settings, its table of connections, and its firewall.
#include "doctor/network/probes.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB 1048576.0

// ---- Firewall

static status find_tables(const doctor_context *c, char out[128], bool *denied, err *e)
{
    status result = OK;
    char *content = NULL;
    TRY(doctor_read(c, "/proc/net/ip_tables_names", &content, denied, e));
    if (content && *content) {
        content[strcspn(content, "\n")] = 0;
        snprintf(out, 128, "the table %s of iptables", content);
    }
done:
    free(content);
    return result;
}

status doctor_probe_firewall(const doctor_context *c, doctor_findings *out, err *e)
{
    status result = OK;
    char *modules = NULL, found[128] = "", port[16];
    bool denied = false, ignored;
    TRY(find_tables(c, found, &denied, e));
    TRY(doctor_read(c, "/proc/modules", &modules, &ignored, e));
    // A module that filters is loaded when the first rule that needs it is written.
    const bool has_modules =
        modules && (strncmp(modules, "nf_tables ", 10) == 0 || strstr(modules, "\nnf_tables "));
    if (!*found && has_modules) snprintf(found, sizeof found, "nf_tables");
    snprintf(port, sizeof port, "%d", c->port);
    if (*found)
        doctor_find(out, "where", "firewall", "tables", found, "port", port, NULL);
    else if (denied)
        doctor_blind(out, "/proc/net/ip_tables_names: only root may read it");
done:
    free(modules);
    return result;
}

status doctor_probe_conntrack_full(const doctor_context *c, doctor_findings *out, err *e)
{
    int64_t count, most;
    char number[24], limit[24];
    (void)e;
    if (!doctor_read_number(c, "/proc/sys/net/netfilter/nf_conntrack_count", &count) ||
        !doctor_read_number(c, "/proc/sys/net/netfilter/nf_conntrack_max", &most) || most <= 0) {
        doctor_skip(out, "the kernel does not track connections");
        return OK;
    }
    snprintf(number, sizeof number, "%" PRId64, count);
    snprintf(limit, sizeof limit, "%" PRId64, most);
    if ((double)count >= 0.9 * (double)most)
        doctor_find(out, "where", "nf_conntrack", "count", number, "most", limit, NULL);
    return OK;
}

// ---- TCP

static int64_t fastest(const doctor_interfaces *all)
{
    int64_t most = 0;
    for (int i = 0; i < all->count; i++)
        if (doctor_interface_is_usable(&all->item[i]) && all->item[i].mbits > most)
            most = all->item[i].mbits;
    return most;
}

// The last of the three numbers of tcp_rmem and tcp_wmem; 0: not known.
static int64_t most_of(const doctor_context *c, const char *path)
{
    char line[96];
    int64_t most = 0;
    if (!doctor_read_line(c, path, line, sizeof line) ||
        sscanf(line, "%*d %*d %" SCNd64, &most) != 1)
        return 0;
    return most;
}

status doctor_probe_tcp_buffers(const doctor_context *c, doctor_findings *out, err *e)
{
    enum { FAST_MBITS = 10000 };
    static const char *const PATHS[] = {"/proc/sys/net/ipv4/tcp_rmem",
                                        "/proc/sys/net/ipv4/tcp_wmem", NULL};
    status result = OK;
    doctor_interfaces all = {0};
    char size[24], gbits[24];
    TRY(doctor_interfaces_read(c, &all, e));
    const int64_t mbits = fastest(&all);
    if (mbits < FAST_MBITS) {
        doctor_skip(out, "no interface has 10 Gb/s");
        goto done;
    }
    // 10 Gb/s and a round trip of 1 ms hold 1.2 MiB; the kernel keeps half of a buffer for itself.
    const double need = (double)mbits / FAST_MBITS * 2.5 * MIB;
    snprintf(gbits, sizeof gbits, "%.0f", (double)mbits * 1e-3);
    for (const char *const *path = PATHS; *path; path++) {
        const int64_t most = most_of(c, *path);
        if (!most || (double)most >= need || (double)most >= 4 * MIB) continue;
        text_bytes(size, (double)most);
        doctor_find(out, "where", strrchr(*path, '/') + 1, "size", size, "gbits", gbits, NULL);
    }
done:
    free(all.item);
    return result;
}

static void find_zero(const doctor_context *c, const char *path, doctor_findings *out)
{
    int64_t value;
    if (!doctor_read_number(c, path, &value))
        doctor_skip(out, "%s does not exist", path);
    else if (value == 0)
        doctor_find(out, "where", strrchr(path, '/') + 1, NULL);
}

status doctor_probe_tcp_window_scaling(const doctor_context *c, doctor_findings *out, err *e)
{
    (void)e;
    find_zero(c, "/proc/sys/net/ipv4/tcp_window_scaling", out);
    return OK;
}

status doctor_probe_tcp_sack(const doctor_context *c, doctor_findings *out, err *e)
{
    (void)e;
    find_zero(c, "/proc/sys/net/ipv4/tcp_sack", out);
    return OK;
}
