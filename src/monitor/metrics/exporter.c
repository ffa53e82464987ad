// exporter.c -- see exporter.h.
#include "monitor/metrics/exporter.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "monitor/metrics/devices.h"
#include "net/http.h"
#include "net/socket.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TURN_MS = 100, DCGM_PORT = 9400 };
static const char NVML[] = "libnvidia-ml.so.1";
static const int64_t LOOK_NS = INT64_C(1000000000), WRITE_NS = INT64_C(15) * 1000000000,
                     DCGM_NS = INT64_C(200000000);

struct exporter {
    exporter_options o;
    metrics_devices *devices; // NULL: none, or dcgm-exporter has them
    metrics *metrics;
    http_server *server; // NULL: nothing is served
    int alive;
    _Atomic int stop;
    int64_t looked_ns, written_ns;
};

static status write_textfile(exporter *x, err *e)
{
    status result = OK;
    text all = {0};
    if (!x->o.textfile) return OK;
    x->written_ns = clock_ns();
    TRY(metrics_refresh(x->metrics, clock_ns(), e));
    metrics_write(x->metrics, &all);
    TRY(text_check(&all, e));
    TRY(file_replace(x->o.textfile, all.bytes ? all.chars : "", all.bytes, e));
done:
    text_clear(&all);
    return result;
}

static void add_page(http_reply *out)
{
    out->code = 200;
    out->type = "text/html; charset=utf-8";
    text_add(&out->body, "<!doctype html><title>trireme</title><a href=\"/metrics\">metrics</a>\n");
}

static void answer(void *arg, const char *path, http_reply *out)
{
    exporter *x = arg;
    if (strcmp(path, "/") == 0) add_page(out);
    if (strcmp(path, "/metrics") != 0) return;
    out->code = 200;
    out->type = "text/plain; version=0.0.4; charset=utf-8";
    (void)metrics_refresh(x->metrics, clock_ns(), NULL);
    metrics_write(x->metrics, &out->body);
}

// An exporter that lacks memory or cannot write its file for a while does not end: the run goes on without it.
static void take_turn(void *arg)
{
    exporter *x = arg;
    struct pollfd p = {.fd = x->alive, .events = POLLIN};
    const int64_t now = clock_ns();
    if (poll(&p, 1, 0) > 0) atomic_store(&x->stop, 1);
    if (now - x->looked_ns >= LOOK_NS) {
        x->looked_ns = now;
        (void)metrics_refresh(x->metrics, now, NULL);
    }
    if (now - x->written_ns >= WRITE_NS) (void)write_textfile(x, NULL);
}

// Whatever listens on its port on this host counts as dcgm-exporter, but the exporter itself does not.
static bool has_dcgm_exporter(const exporter *x)
{
    net_address a;
    int fd = -1;
    if (x->server && http_port(x->server) == DCGM_PORT) return false;
    if (net_address_resolve("127.0.0.1", DCGM_PORT, &a, NULL) != OK) return false;
    if (net_connect(&a, clock_ns() + DCGM_NS, &fd, NULL) != OK) return false;
    close(fd);
    return true;
}

static status open_devices(exporter *x, err *e)
{
    status result = OK;
    TRY(metrics_devices_open(NVML, &x->devices, e));
    if (!x->devices || !has_dcgm_exporter(x)) goto done;
    metrics_devices_close(x->devices);
    x->devices = NULL;
done:
    return result;
}

status exporter_open(const exporter_options *o, exporter **out, err *e)
{
    status result = OK;
    exporter *x = NULL;
    TRY(alloc_zeroed(&x, 1, sizeof *x, "the exporter of metrics", e));
    x->o = *o;
    if (o->address) TRY(http_open(o->address, answer, x, &x->server, e));
    TRY(open_devices(x, e));
    x->o.metrics.devices = x->devices;
    TRY(metrics_open(&x->o.metrics, &x->metrics, e));
    TRY(write_textfile(x, e));
    *out = x;
    x = NULL;
done:
    exporter_close(x);
    return result;
}

const char *exporter_address(const exporter *x)
{
    return x->server ? http_address(x->server) : "";
}

status exporter_run(exporter *x, int alive, err *e)
{
    status result = OK;
    x->alive = alive;
    if (x->server) TRY(http_serve_with(x->server, &x->stop, take_turn, e));
    while (!atomic_load(&x->stop)) {
        take_turn(x);
        poll(NULL, 0, TURN_MS);
    }
    TRY(write_textfile(x, e));
done:
    return result;
}

void exporter_close(exporter *x)
{
    if (!x) return;
    http_close(x->server);
    metrics_close(x->metrics);
    metrics_devices_close(x->devices);
    free(x);
}
