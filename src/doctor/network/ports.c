// ports.c -- see ports.h.
#include "doctor/network/ports.h"

#include "base/alloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEVICES "/sys/class/infiniband"

static bool read_word(const doctor_context *c, const char *folder, const char *file, char *out,
                      size_t bytes)
{
    char path[PORT_PATH_BYTES + PORT_WORD_BYTES];
    snprintf(path, sizeof path, "%s/%s", folder, file);
    return doctor_read_line(c, path, out, bytes);
}

// "4: ACTIVE" becomes "ACTIVE".
static void read_named(const doctor_context *c, const char *folder, const char *file,
                       char out[PORT_WORD_BYTES])
{
    char line[PORT_WORD_BYTES] = "";
    (void)read_word(c, folder, file, line, sizeof line);
    const char *name = strchr(line, ':');
    name = name ? name + 1 : line;
    name += strspn(name, " ");
    memmove(out, name, strlen(name) + 1);
}

static status add_port(const doctor_context *c, const char *device, const char *port,
                       doctor_ports *all, err *e)
{
    status result = OK;
    char line[PORT_WORD_BYTES];
    TRY(alloc_grow(&all->item, &all->room, (size_t)all->count + 1, sizeof *all->item, "the ports",
                   e));
    doctor_port *p = &all->item[all->count];
    *p = (doctor_port){.gbits = 0};
    snprintf(p->device, sizeof p->device, "%s", device);
    snprintf(p->name, sizeof p->name, "%s:%s", p->device, port);
    snprintf(p->folder, sizeof p->folder, DEVICES "/%s/ports/%s", p->device, port);
    read_named(c, p->folder, "state", p->state);
    read_named(c, p->folder, "phys_state", p->physical);
    if (read_word(c, p->folder, "rate", line, sizeof line)) // "400 Gb/sec (4X NDR)"
        p->gbits = strtod(line, NULL);
    p->is_ethernet =
        read_word(c, p->folder, "link_layer", line, sizeof line) && strcmp(line, "Ethernet") == 0;
    all->count++;
done:
    return result;
}

static status read_device(const doctor_context *c, const char *device, doctor_ports *all, err *e)
{
    status result = OK;
    char folder[PORT_PATH_BYTES], **ports = NULL;
    int count = 0;
    snprintf(folder, sizeof folder, DEVICES "/%s/ports", device);
    TRY(doctor_names(c, folder, &ports, &count, e));
    for (int i = 0; i < count; i++) TRY(add_port(c, device, ports[i], all, e));
done:
    doctor_names_free(ports, count);
    return result;
}

status doctor_ports_read(const doctor_context *c, doctor_ports *out, err *e)
{
    status result = OK;
    char **devices = NULL;
    int count = 0;
    *out = (doctor_ports){0};
    TRY(doctor_names(c, DEVICES, &devices, &count, e));
    for (int i = 0; i < count; i++) TRY(read_device(c, devices[i], out, e));
done:
    doctor_names_free(devices, count);
    if (result != OK) {
        free(out->item);
        *out = (doctor_ports){0};
    }
    return result;
}

bool doctor_port_is_active(const doctor_port *p)
{
    return strcmp(p->state, "ACTIVE") == 0;
}

int64_t doctor_port_counter(const doctor_context *c, const doctor_port *p, const char *name)
{
    char path[PORT_PATH_BYTES + PORT_WORD_BYTES];
    int64_t n;
    snprintf(path, sizeof path, "%s/counters/%s", p->folder, name);
    return doctor_read_number(c, path, &n) ? n : 0;
}
