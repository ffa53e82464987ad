// interfaces.c -- see interfaces.h.
#include "doctor/network/interfaces.h"

#include "base/alloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_BYTES = 160, IS_UP = 1, TYPE_LOOPBACK = 772 };

static bool read_word(const doctor_context *c, const char *name, const char *file, char *out,
                      size_t bytes)
{
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "/sys/class/net/%s/%s", name, file);
    return doctor_read_line(c, path, out, bytes);
}

bool doctor_interface_number(const doctor_context *c, const char *name, const char *file,
                             int64_t *out)
{
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "/sys/class/net/%s/%s", name, file);
    return doctor_read_number(c, path, out);
}

static bool starts_with_one(const char *name, const char *const *begin)
{
    for (; *begin; begin++)
        if (strncmp(name, *begin, strlen(*begin)) == 0) return true;
    return false;
}

static interface_kind kind_of(const doctor_context *c, const char *name)
{
    static const char *const BRIDGES[] = {"docker", "virbr", "br-",    "cni",  "flannel",
                                          "cali",   "lxcbr", "podman", "veth", NULL};
    int64_t type;
    char line[PATH_BYTES];
    if (doctor_interface_number(c, name, "type", &type) && type == TYPE_LOOPBACK)
        return INTERFACE_LOOPBACK;
    if (starts_with_one(name, BRIDGES)) return INTERFACE_BRIDGE;
    return read_word(c, name, "device/uevent", line, sizeof line) ? INTERFACE_CARD
                                                                  : INTERFACE_OTHER;
}

static void read_one(const doctor_context *c, const char *name, doctor_interface *out)
{
    char word[32];
    int64_t carrier;
    *out = (doctor_interface){.mbits = -1, .kind = kind_of(c, name)};
    snprintf(out->name, sizeof out->name, "%s", name);
    if (read_word(c, name, "flags", word, sizeof word))
        out->is_up = strtoul(word, NULL, 16) & IS_UP;
    (void)doctor_interface_number(c, name, "ifindex", &out->index);
    (void)doctor_interface_number(c, name, "mtu", &out->mtu);
    (void)doctor_interface_number(c, name, "speed", &out->mbits);
    out->has_carrier = !doctor_interface_number(c, name, "carrier", &carrier) || carrier == 1;
    out->is_half_duplex =
        read_word(c, name, "duplex", word, sizeof word) && strcmp(word, "half") == 0;
}

static doctor_interface *named(const doctor_interfaces *all, const char *name)
{
    for (int i = 0; i < all->count; i++)
        if (strcmp(all->item[i].name, name) == 0) return &all->item[i];
    return NULL;
}

// Lines of /proc/net/route: "eth0 000200C0 00000000 0001 0 0 0 00FFFFFF 0 0 0". Each interface with an IPv4 address has one.
static status read_routes(const doctor_context *c, doctor_interfaces *all, err *e)
{
    status result = OK;
    char *routes = NULL, *rest = NULL, name[32];
    bool denied;
    unsigned subnet, gateway, mask;
    TRY(doctor_read(c, "/proc/net/route", &routes, &denied, e));
    for (char *line = routes ? strtok_r(routes, "\n", &rest) : NULL; line;
         line = strtok_r(NULL, "\n", &rest)) {
        if (sscanf(line, "%31s %8x %8x %*x %*d %*d %*d %8x", name, &subnet, &gateway, &mask) != 4)
            continue;
        doctor_interface *i = named(all, name);
        if (!i) continue;
        i->has_ipv4 = true;
        if (gateway == 0 && mask != 0 && i->mask == 0) i->subnet = subnet, i->mask = mask;
    }
done:
    free(routes);
    return result;
}

// Lines of /proc/net/if_inet6: "fd00...02 04 40 00 82 eth0": address, index, prefix, scope, flags, name.
static status read_ipv6(const doctor_context *c, doctor_interfaces *all, err *e)
{
    status result = OK;
    char *lines = NULL, *rest = NULL, name[32];
    bool denied;
    TRY(doctor_read(c, "/proc/net/if_inet6", &lines, &denied, e));
    for (char *line = lines ? strtok_r(lines, "\n", &rest) : NULL; line;
         line = strtok_r(NULL, "\n", &rest)) {
        if (sscanf(line, "%*32s %*x %*x %*x %*x %31s", name) != 1) continue;
        doctor_interface *i = named(all, name);
        if (i) i->has_ipv6 = true;
    }
done:
    free(lines);
    return result;
}

static int by_index(const void *a, const void *b)
{
    const int64_t x = ((const doctor_interface *)a)->index,
                  y = ((const doctor_interface *)b)->index;
    return (x > y) - (x < y);
}

status doctor_interfaces_read(const doctor_context *c, doctor_interfaces *out, err *e)
{
    status result = OK;
    char **names = NULL;
    int count = 0;
    *out = (doctor_interfaces){0};
    TRY(doctor_names(c, "/sys/class/net", &names, &count, e));
    TRY(alloc_zeroed(&out->item, (size_t)count, sizeof *out->item, "the interfaces", e));
    for (int i = 0; i < count; i++) read_one(c, names[i], &out->item[i]);
    out->count = count;
    if (count) qsort(out->item, (size_t)count, sizeof *out->item, by_index);
    for (int i = 0; i < count; i++) // the kernel gives lo an address, but no route in this file
        if (out->item[i].kind == INTERFACE_LOOPBACK) out->item[i].has_ipv4 = true;
    TRY(read_routes(c, out, e));
    TRY(read_ipv6(c, out, e));
done:
    doctor_names_free(names, count);
    if (result != OK) {
        free(out->item);
        *out = (doctor_interfaces){0};
    }
    return result;
}

bool doctor_interface_is_usable(const doctor_interface *i)
{
    return i->is_up && (i->has_ipv4 || i->has_ipv6);
}

const char *doctor_interface_rule(const doctor_context *c, const char **variable)
{
    static const char *const variables[] = {"TRIREME_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME",
                                            "GLOO_SOCKET_IFNAME"};
    for (int i = 0; i < 3; i++) {
        const char *rule = doctor_variable(c, variables[i]);
        *variable = variables[i];
        if (rule && *rule) return rule;
    }
    return NULL;
}

const doctor_interface *doctor_interface_taken(const doctor_interfaces *all, const char *rule)
{
    const doctor_interface *best = NULL;
    int most = 0;
    for (int i = 0; i < all->count; i++) {
        const doctor_interface *one = &all->item[i];
        if (!doctor_interface_is_usable(one)) continue;
        if (rule && !net_interface_matches(rule, one->name)) continue;
        const int merit = 1 + (one->kind == INTERFACE_LOOPBACK ? 0 : 2) + one->has_ipv4;
        if (merit > most) most = merit, best = one;
    }
    return best;
}

void doctor_interface_list(const doctor_interfaces *all, text *out)
{
    for (int i = 0; i < all->count; i++)
        if (doctor_interface_is_usable(&all->item[i]))
            text_addf(out, "%s%s", out->bytes ? ", " : "", all->item[i].name);
}
