// trace_flow.c -- finds the ids that join calls of several ranks (trace_flow.h).
#include "monitor/trace/trace_flow.h"

#include "base/alloc.h"
#include "base/lookup.h"
#include "base/mesh.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_KINDS = 64, KEY_BYTES = 256 };

static uint64_t hash_of(const char *key)
{
    const uint64_t hash = lookup_hash(key, strlen(key));
    return hash ? hash : 1;
}

// ---- Process groups

// The axes that a group's name is made of: "dp_shard_cp". 0: it is none of axes.
static mesh_axes axes_of(const char *group)
{
    mesh_axes axes = 0;
    if (strcmp(group, "world") == 0) return AXES_ALL;
    if (strcmp(group, "tied") == 0) return MESH_AXIS(AXIS_PP);
    for (int a = 0; a < AXES && *group; a++) {
        const size_t bytes = strlen(axis_name((axis)a));
        if (strncmp(group, axis_name((axis)a), bytes) != 0) continue;
        if (group[bytes] && group[bytes] != '_') continue;
        axes |= MESH_AXIS(a);
        group += bytes + (group[bytes] == '_');
    }
    return *group ? 0 : axes;
}

bool trace_flow_group(const char *place, const char *group, uint64_t *out)
{
    const mesh_axes axes = axes_of(group);
    char key[KEY_BYTES], name[32];
    int used = snprintf(key, sizeof key, "%s", group), read = 0, coord;
    // The ranks of a group have equal coordinates on all other axes.
    while (axes && sscanf(place, "%31s %d%n", name, &coord, &read) == 2) {
        bool other = true;
        for (int a = 0; a < AXES; a++)
            if (strcmp(name, axis_name((axis)a)) == 0 && axes & MESH_AXIS(a)) other = false;
        if (other && used < (int)sizeof key)
            used += snprintf(key + used, sizeof key - (size_t)used, " %s %d", name, coord);
        place += read;
    }
    *out = hash_of(key);
    return axes != 0;
}

// ---- Calls

// Collectives of one kind and group, counted within a step.
typedef struct kind {
    const spans_row *row; // of its first call
    uint64_t group;
    bool joined;
    uint32_t step, count;
} kind;

static kind *kind_of(kind *kinds, int *count, const spans_row *row, const char *place)
{
    for (int i = 0; i < *count; i++)
        if (strcmp(kinds[i].row->name, row->name) == 0 &&
            strcmp(kinds[i].row->group, row->group) == 0)
            return &kinds[i];
    if (*count == MOST_KINDS) return NULL;
    kind *k = &kinds[(*count)++];
    *k = (kind){.row = row};
    k->joined = trace_flow_group(place, row->group, &k->group);
    return k;
}

static uint64_t collective(kind *k, uint32_t step)
{
    char key[KEY_BYTES];
    if (!k || !k->joined) return 0;
    if (k->step != step) k->count = 0;
    k->step = step;
    snprintf(key, sizeof key, "%016llx %s %u %u", (unsigned long long)k->group, k->row->name, step,
             k->count++);
    return hash_of(key);
}

// Messages of activations and of gradients are counted apart.
static uint64_t message(const spans *s, const spans_row *row, uint32_t number)
{
    char key[KEY_BYTES];
    const bool sends = strcmp(row->name, "send") == 0;
    const bool gradient = row->parent >= 0 && strstr(s->rows[row->parent].name, "_GRAD");
    snprintf(key, sizeof key, "message %d %d %d %u", sends ? s->head->rank : row->peer,
             sends ? row->peer : s->head->rank, gradient, number);
    return hash_of(key);
}

status trace_flow_find(const trace_rank *r, uint64_t **out, err *e)
{
    status result = OK;
    uint64_t *flow = NULL;
    kind kinds[MOST_KINDS];
    int count = 0;
    TRY(alloc_zeroed(&flow, r->count, sizeof *flow, "the calls of a trace", e));
    for (size_t i = 0; i < r->count; i++) {
        const spans_row *row = trace_row(r, i);
        if (row->kind != SPANS_CALL) continue;
        flow[i] = row->peer >= 0 ? message(r->record, row, r->span[i].peer_span)
                                 : collective(kind_of(kinds, &count, row, r->record->head->place),
                                              r->span[i].step);
    }
    *out = flow;
done:
    return result;
}
