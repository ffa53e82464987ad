// recorder.c -- writes the flight recorder: communicators, calls, and when they started and ended. See
// recorder.h. Called by comm.c for every call. It compares nothing (recorder_compare.c) and writes no
// file (recorder_dump.c).
#define _GNU_SOURCE // MAP_ANONYMOUS
#include "base/alloc.h"
#include "base/size.h"
#include "comm/recorder_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

// ---- Memory

comm_record_rank *comm_recorder_rank(const comm_recorder *r, int rank)
{
    char *first = (char *)(uintptr_t)r + size_align(sizeof *r, 64);
    return (comm_record_rank *)(first + (size_t)rank * r->rank_bytes);
}

static size_t slots_bytes(int entries)
{
    return sizeof(comm_record_rank) + (size_t)entries * sizeof(comm_record_slot);
}

_Atomic int32_t *comm_recorder_members(const comm_recorder *r, int rank, int group)
{
    char *own = (char *)comm_recorder_rank(r, rank);
    return (_Atomic int32_t *)(void *)(own + slots_bytes(r->o.entries)) +
           (size_t)group * (size_t)r->o.all_ranks;
}

static void close_recorder(comm_recorder *r)
{
    // What lies in the arena is gone with it.
    if (!r->o.arena) munmap(r, r->bytes);
}

void comm_recorder_use(world *w, comm_recorder *r)
{
    w->last_calls = (comm_last_calls){r, comm_recorder_describe, close_recorder};
}

status comm_recorder_open(world *w, int entries, bool compares, err *e)
{
    status result = OK;
    const size_t members = (size_t)RECORDER_GROUPS * (size_t)w->all_ranks * sizeof(int32_t);
    const size_t rank_bytes = size_align(slots_bytes(entries) + members, 64);
    const size_t bytes = size_align(sizeof(comm_recorder), 64) + (size_t)w->ranks * rank_bytes;
    void *memory;
    if (!entries && !compares) return OK;
    // The kernel gives a page when it is first written.
    if (w->arena) {
        TRY(comm_arena_take(w->arena, bytes, false, &memory, e));
    } else {
        memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED) return err_errno(e, "cannot map the flight recorder");
    }
    comm_recorder *r = memory;
    *r = (comm_recorder){
        .o = {.ranks = w->ranks,
              .first_rank = w->first_rank,
              .all_ranks = w->all_ranks,
              .entries = entries,
              .compares = compares,
              .spin = w->spin,
              .arena = w->arena,
              .failure = w->failure,
              .watchdog = w->watchdog},
        .bytes = bytes,
        .rank_bytes = rank_bytes,
        .limits = {.failure = w->failure, .timeout_ms = &w->watchdog->limit_ms, .spin = w->spin}};
    comm_recorder_use(w, r);
done:
    return result;
}

bool comm_record_read(const comm_record_slot *s, comm_record_entry *out, uint64_t *id)
{
    uint64_t words[RECORD_WORDS];
    *id = atomic_load(&s->id);
    for (int i = 0; i < RECORD_WORDS; i++) words[i] = atomic_load(&s->words[i]);
    memcpy(out, words, sizeof words);
    return *id && atomic_load(&s->id) == *id;
}

void comm_record_write(comm_record_slot *s, uint64_t id, const comm_record_entry *x)
{
    uint64_t words[RECORD_WORDS];
    memcpy(words, x, sizeof words);
    atomic_store(&s->id, 0);
    for (int i = 0; i < RECORD_WORDS; i++) atomic_store(&s->words[i], words[i]);
    atomic_store(&s->started_ns, 0);
    atomic_store(&s->completed_ns, 0);
    atomic_store(&s->id, id);
}

// ---- Communicators

void comm_record_label(const comm_record_group *g, char out[RECORD_LABEL_WORDS * 8])
{
    for (int i = 0; i < RECORD_LABEL_WORDS; i++) {
        const uint64_t word = atomic_load(&g->label[i]);
        memcpy(out + i * 8, &word, 8);
    }
}

void comm_recording_set_label(comm_recording *x, const char *label)
{
    char chars[RECORD_LABEL_WORDS * 8] = {0};
    if (!x || !x->group) return;
    snprintf(chars, sizeof chars, "%s", label ? label : "");
    for (int i = 0; i < RECORD_LABEL_WORDS; i++) {
        uint64_t word;
        memcpy(&word, chars + i * 8, 8);
        atomic_store(&x->group->label[i], word);
    }
}

// A row that was never used, else one that was closed; NULL: all are open.
static comm_record_group *take_row(comm_record_rank *r, int *row)
{
    comm_record_group *closed = NULL;
    for (int i = 0; i < RECORDER_GROUPS; i++) {
        comm_record_group *g = &r->groups[i];
        const bool used = atomic_load(&g->key) != 0;
        if (used && (closed || !atomic_load(&g->left))) continue;
        *row = i;
        closed = g;
        if (!used) break;
    }
    return closed;
}

static void fill_row(comm_record_group *g, uint64_t key, const comm *c)
{
    atomic_store(&g->key, 0);
    atomic_store(&g->rank, c->rank);
    atomic_store(&g->size, c->size);
    atomic_store(&g->collectives, 0);
    atomic_store(&g->has_messages, 0);
    atomic_store(&g->transport, c->ops->name);
    atomic_store(&g->published.value, 0);
    for (int i = 0; i < 2; i++) atomic_store(&g->next[i].id, 0);
    atomic_store(&g->left, 0);
    atomic_store(&g->key, key);
}

// Where the communicator does not tell its members, only this rank is known.
static void write_members(const comm_recording *x, const comm *c)
{
    const comm_recorder *r = x->recorder;
    _Atomic int32_t *members = comm_recorder_members(r, x->rank, x->row);
    if (c->size > r->o.all_ranks) return; // a test without hosts
    for (int i = 0; i < c->size; i++)
        atomic_store(&members[i], i == c->rank      ? r->o.first_rank + x->rank
                                  : c->ops->rank_of ? c->ops->rank_of(c, i)
                                                    : -1);
}

// Takes the process of `from`, or a new one.
static status take_process(comm_recording *x, const comm_recording *from, err *e)
{
    if (from)
        x->process = from->process;
    else if (alloc_zeroed(&x->process, 1, sizeof *x->process, "the flight recorder", e) != OK)
        return E_MEMORY;
    x->process->users++;
    return OK;
}

static void give_process(comm_record_process *p)
{
    if (!p || --p->users > 0) return;
    free(p->captured);
    free(p);
}

static status recording_open(comm_recorder *r, int rank, uint64_t key, const comm_recording *from,
                             comm *c, err *e)
{
    status result = OK;
    comm_recording *x = NULL;
    TRY(alloc_zeroed(&x, 1, sizeof *x, "the recording of a communicator", e));
    c->recording = x;
    x->recorder = r;
    x->rank = rank;
    x->size = c->size;
    TRY(take_process(x, from, e));
    TRY(alloc_zeroed(&x->pairs, 2 * (size_t)c->size, sizeof *x->pairs,
                     "the recording of a communicator", e));
    x->group = take_row(comm_recorder_rank(r, rank), &x->row);
    if (!x->group && r->o.compares)
        FAIL(E_INTERNAL, "found more than %d process groups open on a rank; valid are at most %d",
             RECORDER_GROUPS, RECORDER_GROUPS);
    if (!x->group) goto done;
    write_members(x, c);
    fill_row(x->group, key, c);
    comm_recording_set_label(x, c->label);
    if (r->o.compares && c->size > 1) TRY(comm_record_find_peers(c, e));
done:
    if (result != OK) comm_abort(c, e); // the others wait for this rank
    return result;
}

status comm_recorder_attach(comm_recorder *r, int rank, comm *c, err *e)
{
    return recording_open(r, rank, 1, NULL, c, e);
}

// splitmix64 of a, then of b.
static uint64_t mix(uint64_t a, uint64_t b)
{
    uint64_t x = (a + b) * 0x9e3779b97f4a7c15u + 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

status comm_recording_split(comm *parent, int color, comm *c, err *e)
{
    comm_recording *from = parent->recording;
    if (!from || !from->group) return OK;
    const uint64_t key = mix(mix(atomic_load(&from->group->key), ++from->splits), (uint32_t)color);
    return recording_open(from->recorder, from->rank, key ? key : 1, from, c, e);
}

void comm_recording_close(comm_recording *x)
{
    if (!x) return;
    if (x->group) {
        atomic_store(&x->group->left, 1);
        doorbell_ring(&x->group->published, doorbell_read(&x->group->published));
    }
    give_process(x->process);
    free(x->pairs);
    free(x->peers);
    free(x->peer_ranks);
    free(x->gathered);
    free(x);
}

// ---- Calls

static bool is_of(const comm_record_mark *m)
{
    return atomic_load(&m->slot->id) == m->id;
}

static status mark_started(void *arg, err *e)
{
    const comm_record_mark *m = arg;
    (void)e;
    if (is_of(m)) atomic_store(&m->slot->started_ns, now_ns());
    return OK;
}

// A call that has failed is not completed.
static status mark_completed(void *arg, err *e)
{
    const comm_record_mark *m = arg;
    (void)e;
    if (is_of(m) && !comm_failure_known(m->failure)) atomic_store(&m->slot->completed_ns, now_ns());
    return OK;
}

static void mark(const comm_record_mark *m, device_stream *on, device_stream_fn fn)
{
    if (!on)
        fn((void *)(uintptr_t)m, NULL);
    else if (on->device->ops->call)
        on->device->ops->call(on, fn, m, sizeof *m);
}

// The place of a call among those that it may meet, from 1.
static uint64_t next_sequence(comm_recording *x, const comm_signature *call)
{
    if (!comm_call_row_of(call->kind)->is_message)
        return atomic_fetch_add(&x->group->collectives, 1) + 1;
    atomic_store(&x->group->has_messages, 1);
    return ++x->pairs[call->peer + (call->kind == CALL_RECV ? x->size : 0)];
}

static comm_record_entry next_entry(comm_recording *x, const comm_signature *call, uint64_t what)
{
    return (comm_record_entry){.call = *call,
                               .group = x->row,
                               .sequence = next_sequence(x, call),
                               .what = what,
                               .issued_ns = now_ns()};
}

// Writes an entry into the ring. Returns where its times go.
static comm_record_mark add_entry(const comm_recording *x, const comm_record_entry *entry)
{
    const comm_recorder *r = x->recorder;
    comm_record_rank *own = comm_recorder_rank(r, x->rank);
    const uint64_t id = atomic_load(&own->calls) + 1;
    const comm_record_mark m = {
        .slot = &own->slots[(id - 1) % (uint64_t)r->o.entries], .id = id, .failure = r->o.failure};
    comm_record_write(m.slot, id, entry);
    atomic_store(&own->calls, id);
    return m;
}

static status capture(comm_recording *x, const comm_record_entry *entry, err *e)
{
    comm_record_process *p = x->process;
    if (p->count == p->room) {
        const status result = alloc_grow(&p->captured, &p->room, p->count + 1, sizeof *p->captured,
                                         "captured calls", e);
        if (result != OK) return result;
    }
    p->captured[p->count++] =
        (comm_record_captured){.recording = x, .call = entry->call, .what = entry->what};
    return OK;
}

status comm_record_begin(comm *c, const comm_call *call, device_stream *on, comm_record_mark *m,
                         err *e)
{
    status result = OK;
    comm_recording *x = c->recording;
    m->slot = NULL;
    if (!x || !x->group) return OK;
    const comm_recorder *r = x->recorder;
    const bool message = comm_call_row_of(call->kind)->is_message;
    const comm_signature signature = comm_call_signature(call);
    const comm_record_entry entry =
        next_entry(x, &signature, atomic_load(&r->o.watchdog->activities[x->rank].what));
    if (r->o.entries) *m = add_entry(x, &entry);
    if (r->o.entries && x->process->captures) TRY(capture(x, &entry, e));
    if (x->peers && !message) TRY(comm_record_compare(c, &entry, e));
    if (message && c->ops->group) m->slot = NULL; // it starts when its group ends
    if (m->slot) mark(m, on, mark_started);
done:
    return result;
}

void comm_record_end(const comm_record_mark *m, device_stream *on)
{
    if (m->slot) mark(m, on, mark_completed);
}

// ---- What a device does without the host

void comm_recorder_settle(comm *c)
{
    const comm_recording *x = c->recording;
    if (!x || !x->recorder->o.entries || comm_failure_known(x->recorder->o.failure)) return;
    comm_record_rank *own = comm_recorder_rank(x->recorder, x->rank);
    const uint64_t calls = atomic_load(&own->calls), room = (uint64_t)x->recorder->o.entries;
    const int64_t now = now_ns();
    if (calls - x->process->settled > room) x->process->settled = calls - room;
    while (x->process->settled < calls) {
        comm_record_slot *s = &own->slots[x->process->settled++ % room];
        if (!atomic_load(&s->completed_ns)) atomic_store(&s->completed_ns, now);
    }
}

void comm_recorder_begin_capture(comm *c)
{
    if (!c->recording) return;
    c->recording->process->captures = true;
    c->recording->process->count = 0;
}

void comm_recorder_end_capture(comm *c)
{
    if (c->recording) c->recording->process->captures = false;
}

void comm_recorder_replay(comm *c)
{
    const comm_record_process *p = c->recording ? c->recording->process : NULL;
    for (size_t i = 0; p && i < p->count; i++) {
        const comm_record_captured *call = &p->captured[i];
        const comm_record_entry entry = next_entry(call->recording, &call->call, call->what);
        add_entry(call->recording, &entry);
    }
}

void comm_recorder_describe(const comm_recorder *r, int rank, char *out, size_t room)
{
    const comm_record_rank *own = comm_recorder_rank(r, rank);
    const uint64_t calls = atomic_load(&own->calls);
    comm_record_entry x;
    uint64_t id;
    char label[RECORD_LABEL_WORDS * 8];
    out[0] = 0;
    if (!calls || !r->o.entries) return;
    const comm_record_slot *s = &own->slots[(calls - 1) % (uint64_t)r->o.entries];
    if (!comm_record_read(s, &x, &id)) return;
    const int64_t started = atomic_load(&s->started_ns), completed = atomic_load(&s->completed_ns);
    const int64_t since = completed ? completed : started ? started : x.issued_ns;
    comm_record_label(&own->groups[x.group], label);
    snprintf(out, room, "%s %llu%s%s, %s %.1f s ago", comm_signature_name(&x.call),
             (unsigned long long)x.sequence, label[0] ? " over " : "", label,
             completed ? "completed"
             : started ? "started"
                       : "issued",
             (double)(now_ns() - since) * 1e-9);
}
