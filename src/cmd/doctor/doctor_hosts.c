// doctor_hosts.c -- doctor on the hosts of a run: each host checks itself, all meet in a TCP store, and rank 0's host compares
// and prints. Called by doctor.c under a launcher. doctor_ssh.c starts it where there is none.
#include "cmd/doctor/doctor_hosts.h"

#include "base/alloc.h"
#include "base/proc.h"
#include "cmd/cmd.h"
#include "cmd/console.h"
#include "cmd/doctor/doctor.h"
#include "doctor/hosts/message.h"
#include "doctor/hosts/print.h"
#include "launch/secret_input.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_TIMEOUT_MS = 30000, ACTIVE_MS = 90000, STRESS_MS = 3600000 };

status doctor_hosts_timeout(const doctor_hosts_flags *f, int64_t *out_ms, err *e)
{
    *out_ms = DEFAULT_TIMEOUT_MS;
    if (!f->timeout ||
        (text_to_duration_ms(f->timeout, out_ms) && *out_ms > 0 && *out_ms <= INT32_MAX))
        return OK;
    return err_set(e, E_USAGE, "--timeout: found %s; valid: a duration, such as 30s or 5m",
                   f->timeout);
}

// ---- Names of hosts

// The name that --hosts gives this place of the list, or the host's own name.
static void find_name(const doctor_hosts_request *q, char *out, size_t bytes)
{
    const char *names = q->flags->hosts;
    for (int i = 0; names && i < q->location->rank; i++) {
        names = strchr(names, ',');
        names = names ? names + 1 : NULL;
    }
    if (names)
        snprintf(out, bytes, "%.*s", (int)strcspn(names, ","), names);
    else
        proc_host_name(out, bytes);
}

// The names of the hosts that did not come, by --hosts where it is given, else by their ranks.
static status name_missing(const doctor_hosts_request *q, const host_group *g, char ***out, err *e)
{
    status result = OK;
    TRY(alloc_zeroed(out, (size_t)g->missing_count, sizeof **out, "names of hosts", e));
    for (int i = 0; i < g->missing_count; i++) {
        char name[HOST_NAME_BYTES + 16];
        launcher_location other = *q->location;
        doctor_hosts_request of = *q;
        other.rank = g->missing[i];
        of.location = &other;
        if (q->flags->hosts)
            find_name(&of, name, sizeof name);
        else
            snprintf(name, sizeof name, "the process of rank %d", other.rank);
        TRY(text_copy(name, &(*out)[i], e));
    }
done:
    return result;
}

// ---- Rank 0's host

// What rank 0's host has received.
typedef struct cluster {
    host_message *all; // [count]
    bool *is_gone;
    doctor_report *report; // [count], which `all` owns
    host_clock *clock;
    host_pair *pair;
    host_lookup *lookup;
    char **missing;
    int count, pairs, missing_count;
    doctor_report between;
} cluster;

static void cluster_close(cluster *c)
{
    for (int i = 0; c->all && i < c->count; i++) host_message_clear(&c->all[i]);
    for (int i = 0; c->missing && i < c->missing_count; i++) free(c->missing[i]);
    doctor_report_clear(&c->between);
    free(c->all);
    free(c->is_gone);
    free(c->report);
    free(c->clock);
    free(c->pair);
    free(c->lookup);
    free(c->missing);
}

static status cluster_open(cluster *c, int count, err *e)
{
    status result = OK;
    const size_t n = (size_t)count;
    *c = (cluster){.count = count};
    TRY(alloc_zeroed(&c->all, n, sizeof *c->all, "reports of hosts", e));
    TRY(alloc_zeroed(&c->is_gone, n, sizeof *c->is_gone, "reports of hosts", e));
    TRY(alloc_zeroed(&c->report, n, sizeof *c->report, "reports of hosts", e));
    TRY(alloc_zeroed(&c->clock, n, sizeof *c->clock, "reports of hosts", e));
    TRY(alloc_zeroed(&c->pair, n * n, sizeof *c->pair, "reports of hosts", e));
    TRY(alloc_zeroed(&c->lookup, n * n, sizeof *c->lookup, "reports of hosts", e));
done:
    return result;
}

// Puts what the hosts say side by side. A host that looked no names up counts as one that knows them all.
static void arrange(cluster *c)
{
    for (int i = 0; i < c->count; i++) {
        const host_message *m = &c->all[i];
        c->report[i] = m->report;
        c->clock[i] = m->clock;
        for (int p = 0; p < m->pairs; p++) c->pair[c->pairs++] = m->pair[p];
        for (int j = 0; j < c->count; j++)
            c->lookup[i * c->count + j] = m->lookup ? m->lookup[j] : (host_lookup){.found = true};
    }
}

static status compare(const doctor_hosts_request *q, host_group *g, cluster *c, err *e)
{
    status result = OK;
    const int64_t more_ms = q->level == DOCTOR_STRESS   ? STRESS_MS
                            : q->level == DOCTOR_ACTIVE ? ACTIVE_MS
                                                        : 0;
    TRY(cluster_open(c, g->count, e));
    TRY(host_message_receive_all(g, g->timeout_ms + more_ms, c->all, c->is_gone, e));
    TRY(name_missing(q, g, &c->missing, e));
    c->missing_count = g->missing_count;
    arrange(c);
    const hosts_input in = {.report = c->report,
                            .count = c->count,
                            .clock = c->clock,
                            .pair = c->pair,
                            .pairs = c->pairs,
                            .lookup = c->lookup,
                            .missing = (const char *const *)c->missing,
                            .missing_count = c->missing_count,
                            .is_gone = c->is_gone,
                            .waited_s = (double)g->timeout_ms * 1e-3};
    TRY(hosts_compare(&in, &c->between, e));
done:
    return result;
}

static status print_json(const cluster *c, err *e)
{
    status result = OK;
    char *chars = NULL;
    json_t *one = NULL, *hosts = json_array(), *pairs = json_array(), *root = json_object();
    for (int i = 0; i < c->count; i++) {
        TRY(doctor_to_json(&c->report[i], &one, e));
        json_array_append_new(hosts, one);
    }
    for (int p = 0; p < c->pairs; p++) {
        TRY(host_pair_to_json(&c->pair[p], &one, e));
        json_array_append_new(pairs, one);
    }
    TRY(doctor_to_json(&c->between, &one, e));
    json_object_set_new(root, "between", one);
    json_object_set(root, "hosts", hosts);
    json_object_set(root, "pairs", pairs);
    chars = json_dumps(root, JSON_COMPACT);
    if (!chars) FAIL(E_MEMORY, "no memory for the report");
    puts(chars);
    TRY(console_flush(e));
done:
    free(chars);
    json_decref(hosts);
    json_decref(pairs);
    json_decref(root);
    return result;
}

static status print(const doctor_hosts_request *q, const cluster *c, err *e)
{
    status result = OK;
    text out = {0};
    if (q->json) return print_json(c, e);
    TRY(hosts_add_text(&out, c->report, c->count, &c->between, q->all, e));
    console_print(out.chars, out.bytes);
    TRY(console_flush(e));
done:
    text_clear(&out);
    return result;
}

static int exit_code(const doctor_hosts_request *q, const cluster *c)
{
    int worst = doctor_exit_code(&c->between, q->strict);
    for (int i = 0; i < c->count; i++) {
        const int own = doctor_exit_code(&c->report[i], q->strict);
        if (own > worst) worst = own;
    }
    return worst;
}

// ---- Every host

static status check(const doctor_hosts_request *q, host_group *g, int *code, err *e)
{
    status result = OK;
    cluster c = {0};
    host_message own = {0};
    doctor_context context = *q->context;
    if (!context.ranks) context.ranks = q->location->local_ranks;
    TRY(doctor_run(&context, q->level, NULL, &own.report, e));
    TRY(host_message_fill(g, q->level > DOCTOR_PASSIVE, &own, e));
    TRY(host_message_send(g, &own, e));
    if (g->index > 0) goto done;
    TRY(compare(q, g, &c, e));
    TRY(print(q, &c, e));
    *code = exit_code(q, &c);
done:
    host_message_clear(&own);
    cluster_close(&c);
    return result;
}

// --secret-file - is the first line of standard input.
static status take_secret(const doctor_hosts_flags *f, char path[SECRET_INPUT_PATH], err *e)
{
    status result = OK;
    if (!f->secret_file || strcmp(f->secret_file, "-") != 0) return OK;
    TRY(secret_input_open(path, e));
    if (setenv("TRIREME_SECRET_FILE", path, 1) != 0)
        result = err_errno(e, "cannot set TRIREME_SECRET_FILE");
done:
    return result;
}

int doctor_hosts_run(const doctor_hosts_request *q)
{
    status result = OK;
    err error = {0}, *e = &error;
    host_group g = {.listener = -1};
    char name[HOST_NAME_BYTES], secret[SECRET_INPUT_PATH] = "";
    int code = 0;
    const launcher_location *p = q->location;
    if (p->local_rank > 0) return 0;
    find_name(q, name, sizeof name);
    host_group_options o = {.host = p->rendezvous.host,
                            .port = p->rendezvous.port,
                            .rank = p->rank,
                            .ranks = p->ranks,
                            .local_ranks = p->local_ranks,
                            .name = name,
                            .secret_file = q->flags->secret_file};
    TRY(doctor_hosts_timeout(q->flags, &o.timeout_ms, e));
    TRY(take_secret(q->flags, secret, e));
    if (*secret) o.secret_file = secret;
    TRY(host_group_open(&o, &g, e));
    TRY(check(q, &g, &code, e));
done:
    host_group_close(&g);
    if (result == OK) return code;
    err_prefix(e, "doctor: host %s: ", name);
    return cmd_fail(e);
}
