// recorder_dump.c -- writes the recordings as PyTorch's Flight Recorder does, one file for each rank, and as JSON. Called
// by the starting process after a failure. It reads the shared memory only, so a rank may have been killed, and others
// may still run.
//
// torchfrtrace compares the calls of all ranks. It knows a process group by a name, which is the same on all members,
// and by the ranks that are its members. It expects that all members of a group come to each of its calls, so the
// messages from one rank to another are a group of their own. And it takes the name of a call for "nccl:all_reduce" and the
// like: its older versions refuse any other library than nccl. Who carried the call out stands in "communicator".
#include "base/file.h"
#include "base/proc.h"
#include "base/values.h"
#include "comm/recorder_private.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WHAT_BYTES = 96, NAME_BYTES = 64, LABEL_BYTES = RECORD_LABEL_WORDS * 8 };

// Of the files that torchfrtrace reads: the one of PyTorch 2.10 and later.
static const char VERSION[] = "2.10";

// A rank whose calls are written.
typedef struct dump {
    values v;
    const comm_recorder *recorder;
    const comm_record_rank *own;
    int rank; // of this machine
} dump;

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

static bool is_message(const comm_record_entry *x)
{
    return comm_call_row_of(x->call.kind)->is_message;
}

static void put_text(values *v, const char *key, const char *s)
{
    values_key(v, key);
    values_text(v, s);
}

static void put_int(values *v, const char *key, int64_t n)
{
    values_key(v, key);
    values_int(v, n);
}

// ---- Groups

static int member_rank(const dump *d, int group, int member)
{
    return atomic_load(&comm_recorder_members(d->recorder, d->rank, group)[member]);
}

// The group of all ranks is PyTorch's default group, "0".
static void name_group(const comm_record_group *g, char out[NAME_BYTES])
{
    const uint64_t key = atomic_load(&g->key);
    snprintf(out, NAME_BYTES, key == 1 ? "0" : "%016" PRIx64, key);
}

// Messages from rank `from` of the run to rank `to`, in a group.
static void name_pair(const comm_record_group *g, int from, int to, char out[NAME_BYTES])
{
    name_group(g, out);
    const size_t bytes = strlen(out);
    snprintf(out + bytes, NAME_BYTES - bytes, ":%d->%d", from, to);
}

static void put_group(values *v, const char *name, const char *label, const text *ranks)
{
    values_key(v, name);
    values_open_object(v);
    put_text(v, "name", name);
    put_text(v, "desc", label[0] ? label : "undefined");
    put_text(v, "ranks", ranks->chars);
    values_close_object(v);
}

static void put_pairs(dump *d, int group, const char *label)
{
    const comm_record_group *g = &d->own->groups[group];
    const int own = d->recorder->o.first_rank + d->rank, size = atomic_load(&g->size);
    for (int i = 0; i < 2 * size; i++) {
        const int other = member_rank(d, group, i / 2), from = i % 2 ? other : own,
                  to = i % 2 ? own : other;
        char name[NAME_BYTES];
        text ranks = {0};
        if (other == own || other < 0) continue;
        name_pair(g, from, to, name);
        text_addf(&ranks, "[%d, %d]", from < to ? from : to, from < to ? to : from);
        if (ranks.failed) text_fail(&d->v.out);
        put_group(&d->v, name, label, &ranks);
        text_clear(&ranks);
    }
}

static void put_groups(dump *d)
{
    char label[LABEL_BYTES], name[NAME_BYTES];
    values_key(&d->v, "pg_config");
    values_open_object(&d->v);
    for (int i = 0; i < RECORDER_GROUPS && atomic_load(&d->own->groups[i].key); i++) {
        const comm_record_group *g = &d->own->groups[i];
        text ranks = {0};
        text_add(&ranks, "[");
        for (int member = 0; member < atomic_load(&g->size); member++)
            text_addf(&ranks, "%s%d", member ? ", " : "", member_rank(d, i, member));
        text_add(&ranks, "]");
        if (ranks.failed) text_fail(&d->v.out);
        comm_record_label(g, label);
        name_group(g, name);
        put_group(&d->v, name, label, &ranks);
        text_clear(&ranks);
        if (atomic_load(&g->has_messages)) put_pairs(d, i, label);
    }
    values_close_object(&d->v);
}

// The latest collective of a group that has started (or has completed), of those in the ring; -1: none.
static int64_t latest(const dump *d, int group, bool completed)
{
    int64_t most = -1;
    for (int i = 0; i < d->recorder->o.entries; i++) {
        const comm_record_slot *s = &d->own->slots[i];
        comm_record_entry x;
        uint64_t id;
        if (!comm_record_read(s, &x, &id) || x.group != group || is_message(&x)) continue;
        if (atomic_load(completed ? &s->completed_ns : &s->started_ns) &&
            (int64_t)x.sequence > most)
            most = (int64_t)x.sequence;
    }
    return most;
}

static void put_status(dump *d)
{
    char number[16];
    values_key(&d->v, "pg_status");
    values_open_object(&d->v);
    for (int i = 0; i < RECORDER_GROUPS && atomic_load(&d->own->groups[i].key); i++) {
        snprintf(number, sizeof number, "%d", i);
        values_key(&d->v, number);
        values_open_object(&d->v);
        put_int(&d->v, "last_enqueued_collective",
                (int64_t)atomic_load(&d->own->groups[i].collectives));
        put_int(&d->v, "last_started_collective", latest(d, i, false));
        put_int(&d->v, "last_completed_collective", latest(d, i, true));
        values_close_object(&d->v);
    }
    values_close_object(&d->v);
}

// ---- Entries

static void put_array(values *v, const char *sizes, const char *types, uint64_t count, dtype t,
                      bool is_there)
{
    values_key(v, sizes);
    values_open_list(v);
    if (is_there) {
        values_open_list(v);
        values_int(v, (int64_t)count);
        values_close_list(v);
    }
    values_close_list(v);
    values_key(v, types);
    values_open_list(v);
    if (is_there) values_text(v, type_name(t));
    values_close_list(v);
}

static void put_arrays(values *v, const comm_signature *c, int ranks)
{
    const comm_call_row *row = comm_call_row_of(c->kind);
    const uint64_t all = c->hash ? c->count : c->count * (uint64_t)ranks; // a segment is a tensor
    put_array(v, "input_sizes", "input_dtypes", row->in == COMM_ALL_COUNTS ? all : c->count,
              (dtype)c->type, row->in != COMM_NO_ARRAY);
    put_array(v, "output_sizes", "output_dtypes", row->out == COMM_ALL_COUNTS ? all : c->count,
              (dtype)c->type, row->out != COMM_NO_ARRAY);
}

static void put_time(values *v, const char *key, int64_t ns)
{
    values_key(v, key);
    if (ns)
        values_int(v, ns);
    else
        values_none(v);
}

static void put_times(values *v, const comm_record_slot *s, const comm_record_entry *x)
{
    const int64_t started = atomic_load(&s->started_ns), completed = atomic_load(&s->completed_ns);
    put_text(v, "state", completed ? "completed" : started ? "started" : "scheduled");
    put_int(v, "time_created_ns", x->issued_ns);
    put_time(v, "time_discovered_started_ns", started);
    put_time(v, "time_discovered_completed_ns", completed);
    values_key(v, "duration_ms");
    if (completed && started)
        values_double(v, (double)(completed - started) * 1e-6);
    else
        values_none(v);
    values_key(v, "retired");
    values_bool(v, completed != 0);
}

static void put_frame(dump *d, const comm_record_entry *x)
{
    char call[CALL_TEXT_BYTES], what[WHAT_BYTES] = "";
    void (*describe)(uint64_t, char *, size_t) =
        atomic_load(&d->recorder->o.watchdog->activities[d->rank].describe);
    if (describe && x->what) describe(x->what, what, sizeof what);
    values_key(&d->v, "frames");
    values_open_list(&d->v);
    values_open_object(&d->v);
    put_text(&d->v, "name", what[0] ? what : comm_signature_describe(&x->call, call));
    put_text(&d->v, "filename", "");
    put_int(&d->v, "line", 0);
    values_close_object(&d->v);
    values_close_list(&d->v);
}

// The group's name, and that of the call: "nccl:send 0->1" has the places of both ranks in the pair.
static void put_names(dump *d, const comm_record_entry *x)
{
    const comm_record_group *g = &d->own->groups[x->group];
    const int own = d->recorder->o.first_rank + d->rank;
    char name[NAME_BYTES], call[NAME_BYTES], label[LABEL_BYTES];
    const char *transport = atomic_load(&g->transport);
    comm_record_label(g, label);
    name_group(g, name);
    snprintf(call, sizeof call, "nccl:%s",
             comm_call_row_of(x->call.kind)->torch[x->call.hash != 0]);
    if (is_message(x)) {
        const int other = member_rank(d, (int)x->group, x->call.peer), mine = own > other;
        const bool sends = x->call.kind == CALL_SEND;
        name_pair(g, sends ? own : other, sends ? other : own, name);
        snprintf(call, sizeof call, sends ? "nccl:send %d->%d" : "nccl:recv %d<-%d", mine, !mine);
    }
    put_int(&d->v, "pg_id", x->group);
    values_key(&d->v, "process_group");
    values_open_list(&d->v);
    values_text(&d->v, name);
    values_text(&d->v, label[0] ? label : "undefined");
    values_close_list(&d->v);
    put_text(&d->v, "profiling_name", call);
    put_text(&d->v, "communicator", transport);
}

static void put_entry(dump *d, const comm_record_slot *s)
{
    comm_record_entry x;
    uint64_t id;
    char rank[32];
    values *v = &d->v;
    if (!comm_record_read(s, &x, &id)) return;
    const int64_t sequence = (int64_t)x.sequence;
    values_open_object(v);
    put_int(v, "record_id", (int64_t)id - 1);
    put_int(v, "op_id", (int64_t)id);
    put_int(v, "collective_seq_id", sequence);
    put_int(v, "p2p_seq_id", is_message(&x) ? sequence : 0);
    values_key(v, "is_p2p");
    values_bool(v, is_message(&x));
    put_names(d, &x);
    put_frame(d, &x);
    put_arrays(v, &x.call, atomic_load(&d->own->groups[x.group].size));
    put_times(v, s, &x);
    put_int(v, "timeout_ms", atomic_load(&d->recorder->o.watchdog->limit_ms));
    snprintf(rank, sizeof rank, "%d", d->recorder->o.first_rank + d->rank);
    put_text(v, "thread_id", rank);
    snprintf(rank, sizeof rank, "rank %d", d->recorder->o.first_rank + d->rank);
    put_text(v, "thread_name", rank);
    values_close_object(v);
}

// ---- Files

static void put_rank(dump *d)
{
    char host[65];
    values *v = &d->v;
    const uint64_t calls = atomic_load(&d->own->calls), room = (uint64_t)d->recorder->o.entries;
    proc_host_name(host, sizeof host);
    values_open_object(v);
    put_text(v, "version", VERSION);
    put_text(v, "nccl_version", ""); // PyTorch before 2.10, and since
    put_text(v, "comm_lib_version", "");
    put_text(v, "host_name", host);
    put_int(v, "rank", d->recorder->o.first_rank + d->rank);
    put_groups(d);
    put_status(d);
    values_key(v, "entries");
    values_open_list(v);
    for (uint64_t n = calls > room ? calls - room : 0; n < calls; n++)
        put_entry(d, &d->own->slots[n % room]);
    values_close_list(v);
    values_close_object(v);
    values_end(v);
}

// Makes the folder of a file.
static status make_folder(const char *path, err *e)
{
    status result = OK;
    text folder = {0};
    const char *slash = strrchr(path, '/');
    if (!slash || slash == path) return OK;
    text_add_bytes(&folder, path, (size_t)(slash - path));
    TRY(text_check(&folder, e));
    TRY(file_make_directories(folder.chars, e));
done:
    text_clear(&folder);
    return result;
}

static status write_rank(const comm_recorder *r, int rank, values_form form, const char *prefix,
                         err *e)
{
    status result = OK;
    text path = {0};
    dump d = {.v.form = form, .recorder = r, .own = comm_recorder_rank(r, rank), .rank = rank};
    const bool json = form == VALUES_JSON;
    text_addf(&path, "%s%s%d%s", prefix, json ? "json/" : "", r->o.first_rank + rank,
              json ? ".json" : "");
    TRY(text_check(&path, e));
    TRY(make_folder(path.chars, e));
    put_rank(&d);
    TRY(text_check(&d.v.out, e));
    TRY(file_replace(path.chars, d.v.out.chars, d.v.out.bytes, e));
done:
    text_clear(&d.v.out);
    text_clear(&path);
    return result;
}

status comm_recorder_dump(const comm_recorder *r, int first, int count, const char *prefix, err *e)
{
    status result = OK;
    for (int rank = first; rank < first + count; rank++) {
        if (!atomic_load(&comm_recorder_rank(r, rank)->calls)) continue;
        TRY(write_rank(r, rank, VALUES_PICKLE, prefix, e));
        TRY(write_rank(r, rank, VALUES_JSON, prefix, e));
    }
done:
    return result;
}
