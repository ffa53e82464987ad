// bench_link.c -- `trireme bench link`: bandwidth and latency between two ranks, or between two hosts, as ib_write_bw
// and iperf3 measure them. Reads the command line and starts both ends, or one of them.
#include "cmd/bench/bench_link.h"

#include "base/text.h"
#include "cmd/cmd.h"
#include "cmd/command.h"
#include "cmd/console.h"
#include "launch/launch.h"
#include "net/interface.h"
#include "net/socket.h"
#include "net/user_secret.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct link_request {
    bench_link_plan plan; // 0, and a warm_up of -1: not given
    double timeout_s;
    const char *comm, *device, *interface, *serve, *secret_file;
    const char *server; // the argument: this is the client; NULL: it is not
    bool json;
    bench_link_tcp tcp;
    char title[160];
} link_request;

#define SERVER     "a benchmark's server"
#define AT(member) offsetof(link_request, member)
static const flag flags[] = {
    {"-b, --minbytes", FLAG_COUNT, AT(plan.least), "BYTES",
     "Sets the smallest message (default: 8)."},
    {"-e, --maxbytes", FLAG_COUNT, AT(plan.most), "BYTES",
     "Sets the largest message, at most 1Gi (default: 16Mi)."},
    {"-f, --stepfactor", FLAG_COUNT, AT(plan.factor), "N",
     "Multiplies the size by N from row to row (default: 8)."},
    {"-n, --iters", FLAG_COUNT, AT(plan.iterations), "N",
     "Sets the number of messages of a row (default: 64 MiB of them, but 10 to 1000)."},
    {"-w, --warmup_iters", FLAG_COUNT, AT(plan.warm_up), "N",
     "Sets the number of round trips before each row that are not counted (default: 10)."},
    {"--comm", FLAG_TEXT, AT(comm), "auto|local|p2p|hier|tls|ucx|tcp",
     "Chooses what moves messages between two ranks of this machine: a communicator, as "
     "launch.comm "
     "does, or a plain TCP socket (default: auto)."},
    {"--device", FLAG_TEXT, AT(device), "auto|cpu|cuda",
     "Chooses the device of the messages of a communicator (default: auto)."},
    {"--interface", FLAG_TEXT, AT(interface), "RULE",
     "Chooses the interface of the TCP server: eth for names that start so, =eth0 for one name, "
     "^eth "
     "and ^=eth0 for all others, with commas for several (default: TRIREME_SOCKET_IFNAME, "
     "NCCL_SOCKET_IFNAME or GLOO_SOCKET_IFNAME, or the first one of several hosts). Implies --comm "
     "tcp."},
    {"--serve", FLAG_TEXT, AT(serve), "[ADDRESS:]PORT",
     "Waits for one client on this address, or on that of the interface, and answers it. Port 0 "
     "takes a "
     "free one."},
    {"--secret-file", FLAG_TEXT, AT(secret_file), "FILE",
     "Names the file with the secret that both hosts have (default: TRIREME_SECRET_FILE). A server "
     "that "
     "other hosts reach needs one."},
    {"-T, --timeout", FLAG_NUMBER, AT(timeout_s), "SECONDS",
     "Ends the command when one end waits longer than this for the other one (default: 60)."},
    {"--json", FLAG_SWITCH, AT(json), NULL, "Prints one JSON object."},
};
enum { FLAGS = sizeof flags / sizeof *flags };

// ---- Both ends on this machine

static status rank_link(world *w, int rank, int ranks, void *arg, err *e)
{
    const link_request *q = arg;
    bench_link l = {.plan = q->plan, .json = q->json, .timeout_s = q->timeout_s, .fd = -1};
    (void)ranks;
    if (strcmp(q->comm, "tcp") != 0)
        return bench_link_over_comm(&l, w, rank, q->comm, q->device ? q->device : "auto", e);
    memcpy(l.title, q->title, sizeof l.title);
    return rank == 0 ? bench_link_connect(&l, &q->tcp, e) : bench_link_serve(&l, &q->tcp, e);
}

// The address of the chosen interface.
static status find_interface(const link_request *q, net_interface *out, err *e)
{
    const char *variable;
    return net_interface_find(q->interface ? q->interface : net_interface_rule(&variable), out, e);
}

static status run_here(link_request *q, err *e)
{
    status result = OK;
    const launch_options o = {.ranks = 2};
    net_interface i;
    net_address bound;
    char address[NET_ADDRESS_TEXT];
    q->tcp.listener = -1;
    TRY(launcher_check(e));
    if (strcmp(q->comm, "tcp") == 0) {
        // Nobody else has the secret, so no other host can take the place of the client.
        TRY(net_secret_draw(&q->tcp.secret, e));
        TRY(find_interface(q, &i, e));
        TRY(net_listen(&i.address, &q->tcp.listener, &bound, e));
        q->tcp.address = bound;
        net_address_print(&bound, address);
        snprintf(q->title, sizeof q->title, "tcp to %s of interface %s", address, i.name);
    }
    TRY(launch_ranks(&o, rank_link, q, NULL, e));
done:
    if (q->tcp.listener >= 0) close(q->tcp.listener);
    return result;
}

// ---- One end

static status find_address(const link_request *q, net_address *out, err *e)
{
    status result = OK;
    net_endpoint where;
    net_interface i;
    int64_t port = -1;
    char title[NET_ADDRESS_TEXT];
    if (text_to_count(q->serve, &port)) {
        if (port < 0 || port > 65535)
            FAIL(E_USAGE, "--serve: found port %lld; valid are 0 to 65535", (long long)port);
        TRY(find_interface(q, &i, e));
        *out = i.address;
        net_address_set_port(out, (int)port);
        goto done;
    }
    if (q->interface) FAIL(E_USAGE, "--serve: an address and --interface; give one of both");
    TRY(net_endpoint_parse(q->serve, &where, e));
    if (!where.has_port)
        FAIL(E_USAGE, "--serve: found '%s', without a port; valid is ADDRESS:PORT", q->serve);
    TRY(net_address_resolve(where.host, where.port, out, e));
    net_address_print_host(out, title);
    if (!net_address_is_own(out) && strcmp(title, "0.0.0.0") != 0 && strcmp(title, "::") != 0)
        FAIL(E_USAGE, "--serve: %s is no address of this machine", title);
done:
    return result;
}

static status run_server(link_request *q, err *e)
{
    status result = OK;
    net_address bound;
    char address[NET_ADDRESS_TEXT];
    bench_link l = {.timeout_s = q->timeout_s, .fd = -1};
    q->tcp.listener = -1;
    TRY(find_address(q, &q->tcp.address, e));
    TRY(net_secret_find(q->secret_file, &q->tcp.address, SERVER, &q->tcp.secret, e));
    TRY(net_listen(&q->tcp.address, &q->tcp.listener, &bound, e));
    net_address_print(&bound, address);
    printf("listening on %s\n", address);
    TRY(console_flush(e));
    TRY(bench_link_serve(&l, &q->tcp, e));
    printf("served messages of %lld to %lld bytes; %llu bytes arrived wrong\n",
           (long long)l.plan.least, (long long)l.plan.most, (unsigned long long)l.wrong);
done:
    if (q->tcp.listener >= 0) close(q->tcp.listener);
    return result;
}

static status run_client(link_request *q, err *e)
{
    status result = OK;
    net_endpoint where;
    bench_link l = {.plan = q->plan, .json = q->json, .timeout_s = q->timeout_s, .fd = -1};
    TRY(net_endpoint_parse(q->server, &where, e));
    if (!where.has_port || !where.port)
        FAIL(E_USAGE, "bench link: found '%s', without a port; valid is ADDRESS:PORT", q->server);
    TRY(net_address_resolve(where.host, where.port, &q->tcp.address, e));
    TRY(net_secret_find(q->secret_file, &q->tcp.address, SERVER, &q->tcp.secret, e));
    TRY(bench_link_connect(&l, &q->tcp, e));
done:
    return result;
}

// ---- Arguments

// Flags that this form of the command would ignore.
static status check_form(const link_request *q, err *e)
{
    const bench_link_plan *p = &q->plan;
    const bool sizes = p->least || p->most || p->factor || p->iterations || p->warm_up >= 0;
    const bool alone = !q->serve && !q->server;
    if (q->serve && q->server)
        return err_set(e, E_USAGE, "bench link: --serve and %s; a server has no other server",
                       q->server);
    if (q->serve && (sizes || q->json))
        return err_set(
            e, E_USAGE,
            "bench link: --serve takes no sizes, counts and --json: the client has them");
    if (!alone && (q->comm || q->device))
        return err_set(e, E_USAGE,
                       "bench link: --comm and --device are of two ranks of this machine");
    if (q->server && q->interface)
        return err_set(e, E_USAGE, "bench link: --interface: the address %s chooses the way",
                       q->server);
    if (alone && q->secret_file)
        return err_set(e, E_USAGE, "bench link: --secret-file is for --serve and ADDRESS:PORT");
    if (q->interface && q->comm && strcmp(q->comm, "tcp") != 0)
        return err_set(e, E_USAGE, "bench link: --interface: found --comm %s; valid is tcp",
                       q->comm);
    if (q->device && ((q->comm && strcmp(q->comm, "tcp") == 0) || q->interface))
        return err_set(e, E_USAGE, "bench link: --device: TCP sockets send memory of the host");
    return OK;
}

static status check_plan(bench_link_plan *p, err *e)
{
    if (!p->least) p->least = 8;
    if (!p->most) p->most = 16 << 20;
    if (!p->factor) p->factor = 8;
    if (p->warm_up < 0) p->warm_up = 10;
    if (p->most > BENCH_LINK_MOST)
        return err_set(e, E_USAGE, "--maxbytes: found %lld; valid are 1 to %d", (long long)p->most,
                       BENCH_LINK_MOST);
    if (p->least > p->most)
        return err_set(e, E_USAGE, "--minbytes %lld is more than --maxbytes %lld",
                       (long long)p->least, (long long)p->most);
    if (p->factor < 2 || p->factor > BENCH_LINK_MOST)
        return err_set(e, E_USAGE, "--stepfactor: found %lld; valid are 2 to %d",
                       (long long)p->factor, BENCH_LINK_MOST);
    if (p->iterations > BENCH_LINK_MOST_MESSAGES || p->warm_up > BENCH_LINK_MOST_MESSAGES)
        return err_set(e, E_USAGE, "--iters and --warmup_iters: valid is at most %d",
                       BENCH_LINK_MOST_MESSAGES);
    return OK;
}

static status read_arguments(link_request *q, int argc, char **argv, err *e)
{
    status result = OK;
    flag_texts rest = {0};
    TRY(flags_parse(flags, FLAGS, argc, argv, q, &rest, e));
    if (rest.count > 1)
        FAIL(E_USAGE, "bench link: found '%s' after '%s'; valid is one ADDRESS:PORT", rest.items[1],
             rest.items[0]);
    if (rest.count) q->server = rest.items[0];
    if (!(q->timeout_s > 0 && q->timeout_s <= 1e6))
        FAIL(E_USAGE, "--timeout: found %g; valid are seconds above 0, at most 1e6", q->timeout_s);
    TRY(check_form(q, e));
    TRY(check_plan(&q->plan, e));
    if (!q->comm) q->comm = q->interface ? "tcp" : "auto";
done:
    flag_texts_clear(&rest);
    return result;
}

static int cmd_bench_link(int argc, char **argv)
{
    status result = OK;
    err failure = {0}, *e = &failure;
    link_request q = {.plan.warm_up = -1, .timeout_s = 60};
    TRY(read_arguments(&q, argc, argv, e));
    if (q.serve)
        TRY(run_server(&q, e));
    else if (q.server)
        TRY(run_client(&q, e));
    else
        TRY(run_here(&q, e));
done:
    return result == OK ? 0 : cmd_fail(e);
}

const command command_bench_link = {
    .name = "link",
    .run = cmd_bench_link,
    .usage = "[flags]\n--serve [ADDRESS:]PORT [flags]\nADDRESS:PORT [flags]",
    .help = "Measures bandwidth and latency between two ranks or two hosts.",
    .about =
        "The first form measures two ranks of this machine, over a communicator or over a TCP "
        "socket "
        "of an interface; the kernel keeps such a connection within the machine. The other two are "
        "a "
        "server on one host and its client on another. Each row is one size of message. The "
        "latency "
        "is half the time of a round trip, and the bandwidth that of messages of one direction "
        "until "
        "the last one has arrived, in 1e9 bytes a second. The last message of each direction is "
        "compared byte by byte. The exit code is 1 when a byte arrived wrong or an end was lost.",
    .flags = flags,
    .flag_count = FLAGS,
};
