// run_options.c -- from the flags of `trireme run` to the options of its agent. See run.h.
#define _GNU_SOURCE // sigabbrev_np
#include "cmd/run/run.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/proc.h"
#include "cmd/command.h"
#include "device/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

enum { C10D_PORT = 29400, STATIC_PORT = 29500, MOST_WORKERS = 4096, MOST_NODES = 4096 };

// ---- nodes ----

static bool read_count(const char *given, size_t bytes, int most, int *out)
{
    char word[16];
    int64_t number = 0;
    if (bytes == 0 || bytes >= sizeof word) return false;
    memcpy(word, given, bytes);
    word[bytes] = 0;
    if (!text_to_count(word, &number) || number < 1 || number > most) return false;
    *out = (int)number;
    return true;
}

static status read_nodes(const char *given, agent_rendezvous *m, err *e)
{
    m->least = m->most = 1;
    if (!given) return OK;
    const char *colon = strchr(given, ':');
    const size_t first = colon ? (size_t)(colon - given) : strlen(given);
    bool valid = read_count(given, first, MOST_NODES, &m->least);
    m->most = m->least;
    if (colon) valid = valid && read_count(colon + 1, strlen(colon + 1), MOST_NODES, &m->most);
    if (valid && m->least <= m->most) return OK;
    return err_set(e, E_USAGE, "--nnodes: found %s; valid are N and MIN:MAX, from 1 to %d", given,
                   MOST_NODES);
}

// The keys of --rdzv-conf, in seconds or as a truth value.
static status read_conf(const char *given, agent_rendezvous *m, err *e)
{
    status result = OK;
    double join_s = 600, last_call_s = 30, close_s = 30, read_s = 60, interval_s = 5, attempts = 3;
    const struct {
        const char *name;
        double *value;
    } keys[] = {{"join_timeout", &join_s},
                {"last_call_timeout", &last_call_s},
                {"close_timeout", &close_s},
                {"read_timeout", &read_s},
                {"keep_alive_interval", &interval_s},
                {"keep_alive_max_attempt", &attempts}};
    enum { KEYS = sizeof keys / sizeof *keys };
    char *copy = NULL, *rest = NULL;
    TRY(text_copy(given ? given : "", &copy, e));
    for (char *part = strtok_r(copy, ",", &rest); part; part = strtok_r(NULL, ",", &rest)) {
        char *value = strchr(part, '=');
        bool host = false, known = false, valid = value != NULL;
        if (value) *value++ = 0;
        for (int i = 0; i < KEYS && valid; i++)
            if (strcmp(part, keys[i].name) == 0) {
                known = true;
                valid = text_to_double(value, keys[i].value) && *keys[i].value > 0 &&
                        *keys[i].value < 1e9;
            }
        if (valid && strcmp(part, "is_host") == 0) {
            known = true;
            valid = text_to_bool(value, &host);
            m->is_leader = host;
        }
        // Of other stores than Trireme's; a store of type tcp is what there is.
        if (valid && strcmp(part, "store_type") == 0)
            known = true, valid = strcmp(value, "tcp") == 0;
        if (!valid)
            FAIL(E_USAGE,
                 "--rdzv-conf: %s: valid are key=value pairs, numbers above 0, is_host=true|false",
                 part);
        if (!known)
            FAIL(E_USAGE,
                 "--rdzv-conf: unknown key %s; valid are join_timeout, last_call_timeout, "
                 "close_timeout, "
                 "read_timeout, keep_alive_interval, keep_alive_max_attempt, is_host, store_type",
                 part);
    }
    m->join_ms = (int64_t)(join_s * 1e3);
    m->last_call_ms = (int64_t)(last_call_s * 1e3);
    m->close_ms = (int64_t)(close_s * 1e3);
    m->silent_ms = (int64_t)(interval_s * attempts * 1e3);
done:
    free(copy);
    return result;
}

// Nodes with numbers: node 0 leads, at --master-addr or --rdzv-endpoint.
static status open_static(const run_nodes *n, run_options *o, err *e)
{
    status result = OK;
    agent_rendezvous *m = &o->agent.rendezvous;
    if (m->least != m->most)
        FAIL(E_USAGE,
             "--nnodes %d:%d: a static rendezvous has a fixed number of nodes; valid: "
             "--rdzv-backend c10d",
             m->least, m->most);
    m->node = n->node_rank < 0 ? 0 : (int)n->node_rank;
    if (n->node_rank >= m->most)
        FAIL(E_USAGE, "--node-rank: found %lld; valid are 0 to %d (--nnodes %d)",
             (long long)n->node_rank, m->most - 1, m->most);
    if (m->most == 1) { // the workers' own rendezvous only
        o->agent.worker_host = n->master_addr;
        o->agent.worker_port = n->master_port > 0 ? (int)n->master_port : 0;
        return OK;
    }
    if (n->endpoint)
        TRY(net_endpoint_parse(n->endpoint, &m->endpoint, e));
    else
        snprintf(m->endpoint.host, sizeof m->endpoint.host, "%.*s",
                 TEXT_CUT(n->master_addr ? n->master_addr : "127.0.0.1", NET_HOST_BYTES - 1));
    if (!m->endpoint.has_port)
        m->endpoint.port = n->master_port >= 0 ? (int)n->master_port : STATIC_PORT;
    m->is_leader = m->node == 0;
done:
    return result;
}

static status open_c10d(const run_nodes *n, run_options *o, err *e)
{
    status result = OK;
    agent_rendezvous *m = &o->agent.rendezvous;
    m->node = -1;
    if (!n->endpoint && m->most == 1) return OK;
    if (!n->endpoint)
        FAIL(E_USAGE,
             "--rdzv-backend c10d: %d nodes need --rdzv-endpoint HOST[:PORT], the leading node",
             m->most);
    TRY(net_endpoint_parse(n->endpoint, &m->endpoint, e));
    if (!m->endpoint.has_port) m->endpoint.port = C10D_PORT;
done:
    return result;
}

// One host's run that meets nowhere has an id of its own, as torchrun's --standalone; others have the id that all hosts give.
static status choose_id(const run_nodes *n, run_options *o, err *e)
{
    const agent_rendezvous *m = &o->agent.rendezvous;
    unsigned char b[16];
    if (n->id || m->most > 1 || m->endpoint.host[0]) {
        snprintf(o->id, sizeof o->id, "%.*s", TEXT_CUT(n->id ? n->id : "none", sizeof o->id - 1));
        return OK;
    }
    if (getrandom(b, sizeof b, 0) != (ssize_t)sizeof b)
        return err_errno(e, "cannot draw the id of the run");
    b[6] = (unsigned char)((b[6] & 0x0f) | 0x40); // version 4 of RFC 9562
    b[8] = (unsigned char)((b[8] & 0x3f) | 0x80);
    size_t length = 0;
    for (size_t i = 0; i < sizeof b; i++)
        length += (size_t)snprintf(o->id + length, sizeof o->id - length, "%s%02x",
                                   i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", b[i]);
    return OK;
}

static status open_rendezvous(const run_nodes *n, run_options *o, err *e)
{
    status result = OK;
    agent_rendezvous *m = &o->agent.rendezvous;
    m->node = -1;
    m->is_leader = -1;
    m->local_host = n->local_addr;
    m->secret_file = n->secret_file;
    if (n->secret_file && strcmp(n->secret_file, "-") == 0) {
        TRY(secret_input_open(o->secret_path, e));
        m->secret_file = o->secret_path;
    }
    TRY(read_nodes(n->nnodes, m, e));
    TRY(read_conf(n->conf, m, e));
    if (n->master_port > 65535)
        FAIL(E_USAGE, "--master-port: found %lld; valid are 0 to 65535", (long long)n->master_port);
    if (n->standalone) {
        m->least = m->most = 1;
        m->node = 0;
    } else if (!n->backend || strcmp(n->backend, "static") == 0) {
        TRY(open_static(n, o, e));
    } else if (strcmp(n->backend, "c10d") == 0) {
        TRY(open_c10d(n, o, e));
    } else {
        FAIL(E_USAGE,
             "--rdzv-backend: found %s; valid are static and c10d: Trireme's nodes meet on the "
             "leading node, without another service",
             n->backend);
    }
    TRY(choose_id(n, o, e));
    m->id = o->id;
done:
    return result;
}

// ---- workers ----

int run_usable_gpus(void)
{
    device_description d;
    return device_describe("cuda", NULL, &d, NULL) == OK ? d.count : 0;
}

int run_auto_workers(void)
{
    const int gpus = run_usable_gpus();
    return gpus > 0 ? gpus : proc_usable_cores();
}

void run_find_self(char *out, size_t bytes)
{
    const ssize_t length = readlink("/proc/self/exe", out, bytes - 1);
    out[length > 0 ? length : 0] = 0;
}

static status read_workers(const char *given, int *out, err *e)
{
    *out = 1;
    if (!given) return OK;
    if (strcmp(given, "cpu") == 0) return *out = proc_usable_cores(), OK;
    if (strcmp(given, "auto") == 0) return *out = run_auto_workers(), OK;
    if (strcmp(given, "gpu") == 0) {
        *out = run_usable_gpus();
        if (*out > 0) return OK;
        return err_set(e, E_USAGE,
                       "--nproc-per-node gpu: this host has no GPU that a program may use");
    }
    if (read_count(given, strlen(given), MOST_WORKERS, out)) return OK;
    return err_set(e, E_USAGE, "--nproc-per-node: found %s; valid are 1 to %d, auto, gpu and cpu",
                   given, MOST_WORKERS);
}

static bool is_script(const char *path)
{
    const char *end = strrchr(path, '.');
    return end && strcmp(end, ".py") == 0;
}

static const char *find_python(void)
{
    const char *given = getenv("PYTHON_EXEC");
    return given && *given ? given : "python3";
}

// Finds the words before the user's: none, this program, or Python.
static int fill_front(const run_workers *w, const char *word, run_options *o, const char *front[5])
{
    static const char RUN_PATH[] = "import sys, runpy; sys.argv = sys.argv[1:]; "
                                   "runpy.run_path(sys.argv[0], run_name='__main__')";
    int n = 0;
    if (w->no_python) return 0;
    if (!w->module && !w->run_path && command_find_sub(&command_trireme, word)) {
        front[n++] = o->self;
        return n;
    }
    if (!w->module && !w->run_path && !is_script(word) && access(word, X_OK) == 0) return 0;
    front[n++] = find_python();
    front[n++] = "-u";
    if (w->module) front[n++] = "-m";
    if (w->run_path) front[n++] = "-c", front[n++] = RUN_PATH;
    o->agent.python = front[0];
    return n;
}

static status find_program(const run_workers *w, char **rest, int count, run_options *o, err *e)
{
    status result = OK;
    const char *front[5];
    if (count == 0) FAIL(E_USAGE, "give the program that the workers run, after the flags");
    if (w->module && (w->no_python || w->run_path))
        FAIL(E_USAGE, "--module excludes --no-python and --run-path");
    run_find_self(o->self, sizeof o->self);
    const int before = fill_front(w, rest[0], o, front);
    const char **next = NULL;
    TRY(alloc_zeroed(&next, (size_t)(before + count + 2), sizeof *next, "the program's arguments",
                     e));
    o->program = (char **)next;
    for (int i = 0; i < before; i++) *next++ = front[i];
    *next++ = rest[0];
    if (w->rank_word && !w->use_env) *next++ = w->rank_word;
    for (int i = 1; i < count; i++) *next++ = rest[i];
    o->agent.program = o->program;
    o->entry = rest[0];
done:
    return result;
}

static status bind_workers(const run_workers *w, run_options *o, err *e)
{
    status result = OK;
    const int workers = o->agent.workers;
    binding b = {.kind = BINDING_LIST, .list = w->core_list};
    binding_cores usable;
    if (!w->numa && !w->bind_cores && !w->core_list) goto done;
    if (w->numa && (w->bind_cores || w->core_list))
        FAIL(E_USAGE, "--numa-binding and --bind-cores-to-rank exclude each other");
    if (w->core_list && !w->bind_cores)
        FAIL(E_USAGE, "--bind-core-list stands with --bind-cores-to-rank");
    if (w->numa && !binding_named(w->numa, &b.kind))
        FAIL(E_USAGE,
             "--numa-binding: found %s; valid are node, socket, exclusive and core-complex",
             w->numa);
    TRY(binding_usable(&usable, e));
    TRY(alloc_zeroed(&o->cores, (size_t)workers, sizeof *o->cores, "the cores of workers", e));
    TRY(binding_choose(&b, "", &usable, workers, o->cores, e));
    o->agent.cores = o->cores;
    if (w->bind_cores) o->agent.threads = binding_count(&o->cores[0]);
done:
    return result;
}

// "SIGTERM,SIGINT", for example.
static status read_signals(const char *given, sigset_t *out, err *e)
{
    status result = OK;
    char *copy = NULL, *rest = NULL;
    sigemptyset(out);
    TRY(text_copy(given ? given : "SIGTERM,SIGINT,SIGHUP,SIGQUIT", &copy, e));
    for (char *part = strtok_r(copy, ",", &rest); part; part = strtok_r(NULL, ",", &rest)) {
        int number = 1;
        while (number < NSIG && (!sigabbrev_np(number) || strncmp(part, "SIG", 3) != 0 ||
                                 strcmp(part + 3, sigabbrev_np(number)) != 0))
            number++;
        if (number == NSIG || number == SIGKILL || number == SIGSTOP)
            FAIL(E_USAGE,
                 "--signals-to-handle: found %s; valid are names such as SIGTERM and SIGUSR1, of "
                 "signals that a program can handle",
                 part);
        sigaddset(out, number);
    }
done:
    free(copy);
    return result;
}

static status open_workers(const run_workers *w, run_options *o, err *e)
{
    status result = OK;
    const char *given = getenv("TORCH_ELASTIC_SHUTDOWN_TIMEOUT");
    int64_t stop_s = 30;
    if (given && *given && !text_to_count(given, &stop_s))
        FAIL(E_USAGE, "TORCH_ELASTIC_SHUTDOWN_TIMEOUT: found %s; valid is a number of seconds",
             given);
    if (w->shutdown_s >= 0) stop_s = w->shutdown_s;
    TRY(read_workers(w->nproc, &o->agent.workers, e));
    o->agent.role = w->role ? w->role : "default";
    o->agent.max_restarts =
        w->max_restarts < 0 ? 0 : (int)(w->max_restarts < INT32_MAX ? w->max_restarts : INT32_MAX);
    o->agent.stop_ms = stop_s < 1000000 ? stop_s * 1000 : 1000000000;
    o->agent.own_gpu = w->own_gpu;
    o->agent.threads = o->agent.workers > 1;
    TRY(read_signals(w->signals, &o->agent.signals, e));
    TRY(bind_workers(w, o, e));
done:
    return result;
}

status run_options_open(const run_request *q, char **rest, int count, run_options *out, err *e)
{
    status result = OK;
    TRY(open_workers(&q->workers, out, e));
    TRY(open_rendezvous(&q->nodes, out, e));
    TRY(run_outputs_open(&q->outputs, out, e));
    TRY(find_program(&q->workers, rest, count, out, e));
done:
    return result;
}

void run_options_close(run_options *o)
{
    free(o->program);
    free(o->cores);
    run_outputs_close(o);
}
