// recorder_dump.c -- writes the recordings as JSON, one file for each rank, with the fields of PyTorch's
// Flight Recorder. Called by the starting process after a failure. It reads the shared memory only, so a
// rank may have been killed, and others may still run.
#include "base/file.h"
#include "base/proc.h"
#include "base/text.h"
#include "comm/recorder_private.h"

#include <stdlib.h>
#include <string.h>

enum { WHAT_BYTES = 96 };

// PyTorch's names of types.
static const char *type_name(dtype t)
{
    return t == F32    ? "Float"
           : t == BF16 ? "BFloat16"
           : t == F16  ? "Half"
           : t == F64  ? "Double"
           : t == I64  ? "Long"
                       : "Byte";
}

// ---- Groups

// The members of a group of this machine, in the order of their ranks in it.
static void add_members(text *t, const comm_recorder *r, const comm_record_group *group)
{
    const uint64_t key = atomic_load(&group->key);
    const int size = atomic_load(&group->size);
    const char *comma = "";
    text_add(t, "\"[");
    for (int member = 0; member < size; member++)
        for (int rank = 0; rank < r->o.ranks; rank++) {
            const comm_record_group *g = comm_recorder_rank(r, rank)->groups;
            int i = 0;
            while (i < RECORDER_GROUPS &&
                   (atomic_load(&g[i].key) != key || atomic_load(&g[i].rank) != member))
                i++;
            if (i == RECORDER_GROUPS) continue;
            text_addf(t, "%s%d", comma, r->o.first_rank + rank);
            comma = ", ";
            break;
        }
    text_add(t, "]\"");
}

static void add_groups(text *t, const comm_recorder *r, const comm_record_rank *own)
{
    char label[RECORD_LABEL_WORDS * 8];
    text_add(t, "\"pg_config\": {");
    for (int i = 0; i < RECORDER_GROUPS && atomic_load(&own->groups[i].key); i++) {
        text_addf(t, "%s\"%d\": {\"name\": \"%d\", \"desc\": ", i ? ", " : "", i, i);
        comm_record_label(&own->groups[i], label);
        text_add_json(t, label);
        text_add(t, ", \"ranks\": ");
        add_members(t, r, &own->groups[i]);
        text_add(t, "}");
    }
    text_add(t, "},\n");
}

// The latest collective of a group that has started (or has completed), of those in the ring; -1: none.
static int64_t latest(const comm_recorder *r, const comm_record_rank *own, int group,
                      bool completed)
{
    int64_t most = -1;
    for (int i = 0; i < r->o.entries; i++) {
        const comm_record_slot *s = &own->slots[i];
        comm_record_entry x;
        uint64_t id;
        if (!comm_record_read(s, &x, &id) || x.group != group) continue;
        const bool message = x.call.kind == CALL_SEND || x.call.kind == CALL_RECV;
        const bool counts = !message && atomic_load(completed ? &s->completed_ns : &s->started_ns);
        if (counts && (int64_t)x.sequence > most) most = (int64_t)x.sequence;
    }
    return most;
}

static void add_status(text *t, const comm_recorder *r, const comm_record_rank *own)
{
    text_add(t, "\"pg_status\": {");
    for (int i = 0; i < RECORDER_GROUPS && atomic_load(&own->groups[i].key); i++)
        text_addf(t,
                  "%s\"%d\": {\"last_enqueued_collective\": %lld, \"last_started_collective\": "
                  "%lld, \"last_completed_collective\": %lld}",
                  i ? ", " : "", i, (long long)atomic_load(&own->groups[i].collectives),
                  (long long)latest(r, own, i, false), (long long)latest(r, own, i, true));
    text_add(t, "},\n");
}

// ---- Entries

static void add_sizes(text *t, const comm_record_entry *x, int ranks)
{
    const comm_call_shape *c = &x->call;
    const bool gathers = c->kind == CALL_ALL_GATHER, scatters = c->kind == CALL_REDUCE_SCATTER;
    const unsigned long long count = c->count, all = count * (unsigned long long)ranks;
    const bool has_arrays = c->kind > CALL_SHARE;
    if (!has_arrays) {
        text_add(t, "\"input_sizes\": [], \"input_dtypes\": [], \"output_sizes\": [], "
                    "\"output_dtypes\": [], ");
        return;
    }
    const char *type = type_name((dtype)c->type);
    text_addf(t,
              "\"input_sizes\": [[%llu]], \"input_dtypes\": [\"%s\"], \"output_sizes\": [[%llu]], "
              "\"output_dtypes\": [\"%s\"], ",
              scatters ? all : count, type, gathers ? all : count, type);
}

static void add_times(text *t, const comm_record_slot *s, const comm_record_entry *x)
{
    const int64_t started = atomic_load(&s->started_ns), completed = atomic_load(&s->completed_ns);
    text_addf(t, "\"state\": \"%s\", \"time_created_ns\": %lld, ",
              completed ? "completed"
              : started ? "started"
                        : "scheduled",
              (long long)x->issued_ns);
    if (started)
        text_addf(t, "\"time_discovered_started_ns\": %lld, ", (long long)started);
    else
        text_add(t, "\"time_discovered_started_ns\": null, ");
    if (completed)
        text_addf(t, "\"time_discovered_completed_ns\": %lld, \"duration_ms\": %.6f, ",
                  (long long)completed, (double)(completed - started) * 1e-6);
    else
        text_add(t, "\"time_discovered_completed_ns\": null, \"duration_ms\": null, ");
    text_addf(t, "\"retired\": %s, ", completed ? "true" : "false");
}

static void add_names(text *t, const comm_recorder *r, int rank, const comm_record_entry *x,
                      const comm_record_group *g)
{
    char label[RECORD_LABEL_WORDS * 8], call[CALL_TEXT_BYTES], what[WHAT_BYTES] = "";
    const comm_activity *a = &r->o.watchdog->activities[rank];
    void (*describe)(uint64_t, char *, size_t) = atomic_load(&a->describe);
    const char *transport = atomic_load(&g->transport);
    comm_record_label(g, label);
    if (describe && x->what) describe(x->what, what, sizeof what);
    text_addf(t, "\"pg_id\": %d, \"process_group\": [\"%d\", ", (int)x->group, (int)x->group);
    text_add_json(t, label);
    text_addf(t, "], \"profiling_name\": \"%s:%s\", \"frames\": [{\"name\": ", transport,
              comm_call_name((comm_call_kind)x->call.kind));
    text_add_json(t, what[0] ? what : comm_call_describe(&x->call, call));
    text_add(t, ", \"filename\": \"\", \"line\": 0}], ");
}

static void add_entry(text *t, const comm_recorder *r, int rank, const comm_record_slot *s)
{
    comm_record_entry x;
    uint64_t id;
    if (!comm_record_read(s, &x, &id)) return;
    const comm_record_group *g = &comm_recorder_rank(r, rank)->groups[x.group];
    const bool message = x.call.kind == CALL_SEND || x.call.kind == CALL_RECV;
    const unsigned long long sequence = x.sequence;
    if (t->bytes && t->chars[t->bytes - 1] == '}') text_add(t, ",\n");
    text_addf(t, "{\"record_id\": %llu, \"op_id\": %llu, ", (unsigned long long)id - 1,
              (unsigned long long)id);
    text_addf(t, "\"collective_seq_id\": %llu, \"p2p_seq_id\": %llu, \"is_p2p\": %s, ",
              message ? 0 : sequence, message ? sequence : 0, message ? "true" : "false");
    add_names(t, r, rank, &x, g);
    add_sizes(t, &x, atomic_load(&g->size));
    add_times(t, s, &x);
    text_addf(t, "\"timeout_ms\": %lld, \"thread_id\": \"%d\", \"thread_name\": \"rank %d\"}",
              (long long)atomic_load(&r->o.watchdog->limit_ms), r->o.first_rank + rank,
              r->o.first_rank + rank);
}

static status write_rank(const comm_recorder *r, int rank, const char *path, err *e)
{
    status result = OK;
    text t = {0};
    char host[65];
    const comm_record_rank *own = comm_recorder_rank(r, rank);
    const uint64_t calls = atomic_load(&own->calls), room = (uint64_t)r->o.entries;
    proc_host_name(host, sizeof host);
    text_add(&t, "{\"version\": \"2.5\", \"nccl_version\": \"\", \"host_name\": ");
    text_add_json(&t, host);
    text_addf(&t, ", \"rank\": %d,\n", r->o.first_rank + rank);
    add_groups(&t, r, own);
    add_status(&t, r, own);
    text_add(&t, "\"nccl_comm_state\": {},\n\"entries\": [\n");
    TRY(text_check(&t, e));
    for (uint64_t n = calls > room ? calls - room : 0; n < calls; n++)
        add_entry(&t, r, rank, &own->slots[n % room]);
    text_add(&t, "\n]}\n");
    TRY(text_check(&t, e));
    TRY(file_replace(path, t.chars, t.bytes, e));
done:
    text_clear(&t);
    return result;
}

// Makes the folder of PREFIX<rank>.
static status make_folder(const char *prefix, err *e)
{
    status result = OK;
    text folder = {0};
    const char *slash = strrchr(prefix, '/');
    if (!slash || slash == prefix) return OK;
    text_add_bytes(&folder, prefix, (size_t)(slash - prefix));
    TRY(text_check(&folder, e));
    TRY(file_make_directories(folder.chars, e));
done:
    text_clear(&folder);
    return result;
}

status comm_recorder_dump(const comm_recorder *r, int first, int count, const char *prefix, err *e)
{
    status result = OK;
    text path = {0};
    for (int rank = first; rank < first + count; rank++) {
        if (!atomic_load(&comm_recorder_rank(r, rank)->calls)) continue;
        TRY(make_folder(prefix, e));
        text_clear(&path);
        text_addf(&path, "%s%d", prefix, r->o.first_rank + rank);
        TRY(text_check(&path, e));
        TRY(write_rank(r, rank, path.chars, e));
    }
done:
    text_clear(&path);
    return result;
}
