// replay_keys.c -- which calls of different ranks belong together (replay_record.h): collectives by the instance of
// their process group, messages by their two ends. It reads the names of groups (parallel/traffic.h) and where ranks
// are in the mesh.
#include "monitor/replay/replay_record.h"

#include "base/alloc.h"

#include <string.h>

typedef struct replay_key_is {
    const replay_keys *keys;
    uint64_t key;
} replay_key_is;

static bool is_key(const void *given, int number)
{
    const replay_key_is *x = given;
    return x->keys->key[number] == x->key;
}

// The number of a key, which is new or not.
static status number_of(replay_keys *k, uint64_t key, int *out, err *e)
{
    status result = OK;
    const uint64_t hash = lookup_hash(&key, sizeof key);
    *out = lookup_find(&k->table, hash, is_key, &(replay_key_is){k, key});
    if (*out >= 0) return OK;
    TRY(alloc_grow(&k->key, &k->room, k->count + 1, sizeof *k->key, "the calls of a step", e));
    TRY(lookup_add(&k->table, hash, (int)k->count, e));
    *out = (int)k->count;
    k->key[k->count++] = key;
done:
    return result;
}

// The axes that a name joins: "dp_shard_cp". 0: it joins none.
static mesh_axes axes_of(const char *name)
{
    mesh_axes axes = 0;
    if (strcmp(name, "dp") == 0) return AXES_DATA;
    if (strcmp(name, "tied") == 0) return MESH_AXIS(AXIS_PP);
    if (strcmp(name, "world") == 0 || strcmp(name, "all ranks") == 0) return AXES_ALL;
    while (*name) {
        int found = -1;
        for (int a = 0; a < AXES; a++) {
            const size_t bytes = strlen(axis_name((axis)a));
            if (strncmp(name, axis_name((axis)a), bytes) == 0 &&
                (name[bytes] == 0 || name[bytes] == '_'))
                found = a;
        }
        if (found < 0) return 0;
        axes |= MESH_AXIS(found);
        name += strlen(axis_name((axis)found));
        name += *name == '_';
    }
    return axes;
}

enum { GROUP_OF_PARTS = 1 << AXES };

// Ranks of one instance have the same color. False: nothing is known of the group.
static bool find_instance(const replay_record *r, const char *group, const int *coord,
                          uint64_t *axes, uint64_t *color)
{
    const replay_lists *k = &r->known;
    const mesh_axes joined = axes_of(group);
    const bool shared = strcmp(group, "kv_heads") == 0, kept = strcmp(group, "post_forward") == 0;
    const int ranks = shared ? k->shared_ranks : kept ? k->kept_ranks : 0;
    const mesh_axes over = shared ? k->shared_over : k->kept_over;
    *axes = joined;
    *color = joined ? (uint64_t)mesh_group_first(&r->mesh, coord, joined) : 0;
    if (joined) return true;
    if (ranks < 1) return false;
    *axes = GROUP_OF_PARTS + (unsigned)shared;
    *color = (uint64_t)mesh_group_first(&r->mesh, coord, over) * (uint64_t)r->mesh.ranks +
             (uint64_t)(mesh_group_index(&r->mesh, coord, over) / ranks);
    return true;
}

// Gradients overtake activations. Others are messages of passes.
static unsigned kind_of_message(const spans_row *instr)
{
    return strstr(instr->name, "_GRAD") ? 1 : strstr(instr->name, "_ACT") ? 2 : 3;
}

status replay_record_set_call(replay_record *r, const spans_row *call, const spans_row *instr,
                              int peer, replay_piece *piece, replay_part *part, err *e)
{
    const uint64_t rank = (uint64_t)piece->rank, other = (uint64_t)peer;
    uint64_t axes, color;
    part->peer = peer;
    if (peer >= 0) {
        piece->sends = strcmp(call->name, "send") == 0 || strncmp(call->name, "SEND", 4) == 0;
        part->kind = piece->sends ? PART_SEND : PART_RECEIVE;
        const uint64_t from = piece->sends ? rank : other, to = piece->sends ? other : rank;
        return number_of(&r->channels, (from << 32 | to) << 2 | kind_of_message(instr),
                         &piece->channel, e);
    }
    part->kind = PART_COLLECTIVE;
    if (!find_instance(r, call->group, r->coord[piece->rank], &axes, &color)) return OK;
    // The passes of an axis have a communicator of their own, on the compute stream.
    return number_of(&r->comms, (color << 8 | axes) << 2 | (unsigned)(instr->stream & 3),
                     &piece->comm, e);
}
