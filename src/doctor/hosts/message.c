// message.c -- see message.h.
#include "doctor/hosts/message.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "doctor/hosts/repeat.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SLICE_MS = 250, LOOKUP_MS = 5000, MS_NS = 1000000 };

void host_message_clear(host_message *m)
{
    doctor_report_clear(&m->report);
    free(m->pair);
    free(m->lookup);
    *m = (host_message){0};
}

static status look_up_all(const host_group *g, host_message *m, err *e)
{
    status result = OK;
    const char **names = NULL;
    TRY(alloc_zeroed(&names, (size_t)g->count, sizeof *names, "names of hosts", e));
    TRY(alloc_zeroed(&m->lookup, (size_t)g->count, sizeof *m->lookup, "names of hosts", e));
    m->hosts = g->count;
    for (int i = 0; i < g->count; i++) names[i] = g->member[i].name;
    TRY(host_names_look_up(names, g->count, LOOKUP_MS, m->lookup, e));
done:
    free(names);
    return result;
}

status host_message_fill(host_group *g, bool active, host_message *out, err *e)
{
    status result = OK;
    TRY(host_group_clock(g, &out->clock.ahead_s, &out->clock.error_s, e));
    if (!active) return OK;
    TRY(look_up_all(g, out, e));
    result = host_pairs_measure(g, &out->pair, &out->pairs, e);
    if (result == OK) result = host_pairs_repeat(g, out->pair, out->pairs, e);
    if (result == E_PEER) result = OK; // the pairs that are left are said to be not measured
done:
    return result;
}

// ---- JSON

static status pairs_to_json(const host_message *m, json_t *root, err *e)
{
    status result = OK;
    json_t *list = json_array(), *one;
    for (int i = 0; i < m->pairs; i++) {
        TRY(host_pair_to_json(&m->pair[i], &one, e));
        json_array_append_new(list, one);
    }
    json_object_set(root, "pairs", list);
done:
    json_decref(list);
    return result;
}

static status to_json(const host_message *m, json_t **out, err *e)
{
    status result = OK;
    json_t *report = NULL, *names;
    json_t *root = json_pack("{s:f,s:f}", "ahead_s", m->clock.ahead_s, "error_s", m->clock.error_s);
    if (!root) FAIL(E_MEMORY, "no memory for what this host reports");
    TRY(doctor_to_json(&m->report, &report, e));
    json_object_set_new(root, "report", report);
    TRY(pairs_to_json(m, root, e));
    if (m->lookup) {
        names = json_array();
        for (int i = 0; i < m->hosts; i++)
            json_array_append_new(names,
                                  json_pack("[b,b]", m->lookup[i].found, m->lookup[i].is_loopback));
        json_object_set_new(root, "names", names);
    }
    *out = root;
    root = NULL;
done:
    json_decref(root);
    return result;
}

static status pairs_from_json(const host_group *g, const json_t *list, host_message *m, err *e)
{
    status result = OK;
    size_t i;
    json_t *one;
    TRY(alloc_zeroed(&m->pair, json_array_size(list), sizeof *m->pair, "pairs of hosts", e));
    json_array_foreach(list, i, one)
    {
        host_pair *p = &m->pair[m->pairs];
        if (!host_pair_from_json(one, p) || p->from < 0 || p->from >= p->to || p->to >= g->count)
            FAIL(E_USAGE, "a host reports pairs that this version of Trireme does not understand");
        m->pairs++;
    }
done:
    return result;
}

static status names_from_json(const host_group *g, const json_t *names, host_message *m, err *e)
{
    status result = OK;
    size_t i;
    json_t *one;
    if (json_array_size(names) != (size_t)g->count) return OK;
    TRY(alloc_zeroed(&m->lookup, (size_t)g->count, sizeof *m->lookup, "names of hosts", e));
    m->hosts = g->count;
    json_array_foreach(names, i, one) m->lookup[i] =
        (host_lookup){.found = json_is_true(json_array_get(one, 0)),
                      .is_loopback = json_is_true(json_array_get(one, 1))};
done:
    return result;
}

static status from_json(const host_group *g, const json_t *root, host_message *out, err *e)
{
    status result = OK;
    TRY(doctor_from_json(json_object_get(root, "report"), &out->report, e));
    TRY(pairs_from_json(g, json_object_get(root, "pairs"), out, e));
    TRY(names_from_json(g, json_object_get(root, "names"), out, e));
    out->clock = (host_clock){.ahead_s = json_number_value(json_object_get(root, "ahead_s")),
                              .error_s = json_number_value(json_object_get(root, "error_s"))};
done:
    return result;
}

// ---- On their way

status host_message_send(host_group *g, const host_message *m, err *e)
{
    status result = OK;
    char key[STORE_KEY_BYTES], *chars = NULL;
    json_t *root = NULL;
    TRY(to_json(m, &root, e));
    chars = json_dumps(root, JSON_COMPACT);
    if (!chars) FAIL(E_MEMORY, "no memory for what this host reports");
    snprintf(key, sizeof key, "report/%d", g->index);
    TRY(host_group_put(g, key, chars, strlen(chars), e));
done:
    free(chars);
    json_decref(root);
    return result;
}

// Waits for the message of a host. *gone: it will not come.
static status await(host_group *g, int i, int64_t deadline_ns, char **out, size_t *bytes,
                    bool *gone, err *e)
{
    char key[STORE_KEY_BYTES];
    snprintf(key, sizeof key, "report/%d", i);
    for (*gone = false;;) {
        const bool is_over = clock_ns() >= deadline_ns || host_group_is_gone(g, i);
        const status got = host_group_get(g, key, is_over ? 0 : SLICE_MS, out, bytes, e);
        if (got != E_PEER) return got;
        if (!is_over) continue;
        *gone = true;
        return OK;
    }
}

static status receive_one(host_group *g, int i, int64_t deadline_ns, host_message *out, bool *gone,
                          err *e)
{
    status result = OK;
    char *chars = NULL;
    size_t bytes = 0;
    json_t *root = NULL;
    TRY(await(g, i, deadline_ns, &chars, &bytes, gone, e));
    root = *gone ? NULL : json_loadb(chars, bytes, 0, NULL);
    if (root) TRY(from_json(g, root, out, e));
    free(out->report.host); // all of this program name the host alike
    out->report.host = NULL;
    TRY(text_copy(g->member[i].name, &out->report.host, e));
done:
    if (result != OK) err_prefix(e, "host %s: ", g->member[i].name);
    json_decref(root);
    free(chars);
    return result;
}

status host_message_receive_all(host_group *g, int64_t deadline_ms, host_message *all,
                                bool *is_gone, err *e)
{
    status result = OK;
    const int64_t deadline_ns = clock_ns() + deadline_ms * MS_NS;
    for (int i = 0; i < g->count; i++) TRY(receive_one(g, i, deadline_ns, &all[i], &is_gone[i], e));
done:
    return result;
}
