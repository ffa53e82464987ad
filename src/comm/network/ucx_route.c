// ucx_route.c -- by what a rank reaches another one over UCX, for people who asked which interface it took. UCX 1.13
// tells it in its own print of an endpoint only, with a line for each transport:
//   [0]:  0:tcp/eth0.0 md[0]   -> md[0]/tcp/sysdev[255] am
#include "comm/network/ucx_private.h"

#include "net/interface.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// "tcp/eth0" also gets the address of eth0.
static void add_transport(const char *name, text *out)
{
    text rule = {0};
    net_interface found;
    char address[NET_ADDRESS_TEXT];
    for (const char *same = out->chars; same && (same = strstr(same, name));) {
        same += strlen(name);
        if (!*same || *same == ' ') return;
    }
    text_addf(out, "%s%s", out->bytes ? " and " : "", name);
    if (strncmp(name, "tcp/", 4) != 0) return;
    text_addf(&rule, "=%s", name + 4);
    if (!rule.failed && net_interface_find(rule.chars, &found, NULL) == OK) {
        net_address_print_host(&found.address, address);
        text_addf(out, " (%s)", address);
    }
    text_clear(&rule);
}

static void read_line(const char *line, text *out)
{
    char name[64];
    int domain;
    const char *begin = strstr(line, "]:");
    if (!begin || sscanf(begin + 2, " %*d:%63s md[%d", name, &domain) != 2) return;
    char *number = strrchr(name, '.');
    if (number) *number = 0;
    add_transport(name, out);
}

void ucx_add_route(network_rank *own, int rank, text *out)
{
    const ucx_peer *p = &ucx_worker_of(own)->peer[rank];
    char *all = NULL, *rest = NULL;
    size_t bytes = 0;
    text names = {0};
    FILE *f = p->endpoint ? open_memstream(&all, &bytes) : NULL;
    if (!f) return;
    ucx_of(own)->ep_print_info(p->endpoint, f);
    if (fclose(f) == 0)
        for (char *line = strtok_r(all, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
            read_line(line, &names);
    if (names.bytes) text_add(out, names.chars);
    text_clear(&names);
    free(all);
}
