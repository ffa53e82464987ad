// comm.c -- the calls of comm.h. It checks the arguments, as is the same for every communicator,
// records the call (recorder.h), and then hands it to the communicator's table, to packed.c where shards are packed, or
// to compose.c where it is made of messages.
//
// Called by the code that executes a step. It does not know how ranks reach each other.
#include "comm/comm_private.h"

#include "base/alloc.h"
#include "base/text.h"
#include "comm/packed.h"
#include "comm/recorder_private.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

// ---- Communicators

status comm_init(comm *c, const comm_ops *ops, const comm_capabilities *can, int rank, int size,
                 err *e)
{
    *c = (comm){.ops = ops, .rank = rank, .size = size, .can = *can};
    return alloc_zeroed(&c->sent, (size_t)size, sizeof *c->sent, "a communicator", e);
}

void comm_clear(comm *c)
{
    free(c->sent);
    free(c->counts);
}

status comm_count_calls(comm *c, err *e)
{
    return c->counts ? OK : alloc_zeroed(&c->counts, 1, sizeof *c->counts, "counts of calls", e);
}

void comm_close(comm *c)
{
    if (!c) return;
    comm closed = *c;
    c->ops->close(c);
    comm_recording_close(closed.recording);
    comm_clear(&closed);
}

void comm_set_label(comm *c, const char *label)
{
    if (!c) return;
    c->label = label;
    comm_recording_set_label(c->recording, label);
    if (c->ops->set_label) c->ops->set_label(c, label);
}

void comm_add_choice(comm *c, bool routes, text *out)
{
    text route = {0}, seen = {0};
    text_addf(out, "communicator %s: %d ranks", c->ops->name, c->size);
    for (int r = 0; routes && c->ops->add_route && r < c->size; r++) {
        text_clear(&route);
        text_add(&route, "\n");
        if (r != c->rank) c->ops->add_route(c, r, &route);
        text_add(&route, "\n");
        if (route.bytes <= 2 || (seen.bytes && strstr(seen.chars, route.chars))) continue;
        text_add(&seen, route.chars);
        text_addf(out, "; rank %d by %.*s", r, (int)route.bytes - 2, route.chars + 1);
    }
    text_clear(&route);
    text_clear(&seen);
}

void comm_set_packing(comm *c, const comm_packing *packing)
{
    if (c) c->packing = packing;
}

status comm_alloc(comm *c, device *d, size_t bytes, void **out, err *e)
{
    return c->ops->alloc(c, d, bytes, out, e);
}

void comm_release(comm *c, device *d, void *p, size_t bytes)
{
    if (p) c->ops->release(c, d, p, bytes);
}

// ---- Checks

static status check_arrays(const comm *c, const comm_call *call, err *e)
{
    const comm_call_row *row = comm_call_row_of(call->kind);
    if (row->reduces && !reduce_supports(call->type))
        return err_set(e, E_INTERNAL, "%s of %s: valid are fp32, bf16, fp16, fp64 and int64",
                       row->name, dtype_name(call->type));
    if (call->count > SIZE_MAX / dtype_bytes(call->type) / (size_t)c->size)
        return err_set(e, E_INTERNAL, "%s of %zu %s on %d ranks does not fit in memory", row->name,
                       call->count, dtype_name(call->type), c->size);
    return OK;
}

static status check_peer(const comm *c, const char *name, const char *word, int peer,
                         bool may_be_self, err *e)
{
    if (peer < 0 || peer >= c->size || (peer == c->rank && !may_be_self))
        return err_set(e, E_INTERNAL, "%s %s rank %d: this is rank %d of %d", name, word, peer,
                       c->rank, c->size);
    return OK;
}

// Checks that the shards cover every segment, and that no size overflows.
static status check_segments(const comm *c, const comm_call *call, err *e)
{
    const comm_segment *s = call->segment;
    const int64_t most = (int64_t)1 << 48; // elements; most * ranks fits in 64 bits
    for (int i = 0; i < call->segments; i++)
        if (s[i].full_offset < 0 || s[i].shard_offset < 0 || s[i].count < 0 ||
            s[i].shard_count < 0 || s[i].count > most || s[i].shard_count > most ||
            s[i].shard_count * c->size < s[i].count ||
            (s[i].reversed && s[i].shard_count * c->size != s[i].count))
            return err_set(e, E_INTERNAL,
                           "%s: segment %d (%lld elements from %lld, shard from %lld, %lld a rank) "
                           "does not fit %d ranks",
                           comm_call_row_of(call->kind)->name, i, (long long)s[i].count,
                           (long long)s[i].full_offset, (long long)s[i].shard_offset,
                           (long long)s[i].shard_count, c->size);
    return OK;
}

static status check(const comm *c, const comm_call *call, err *e)
{
    status result = OK;
    const comm_call_row *row = comm_call_row_of(call->kind);
    TRY(check_arrays(c, call, e));
    if (row->peer) TRY(check_peer(c, row->name, row->peer, call->peer, !row->is_message, e));
    if (call->segment) TRY(check_segments(c, call, e));
done:
    return result;
}

// ---- Calls

status comm_start_messages(const comm_message *m, int count, device_stream *on, err *e)
{
    status result = OK;
    const comm_ops *ops = m->comm->ops;
    for (int i = 0; i < count; i++)
        if (m[i].call.kind == CALL_SEND) m[i].comm->sent[m[i].call.peer]++;
    if (ops->group) return ops->group(m, count, on, e);
    for (int i = 0; i < count; i++) TRY(ops->issue(m[i].comm, &m[i].call, on, e));
done:
    return result;
}

static status carry_out(comm *c, const comm_call *call, device_stream *on, err *e)
{
    const comm_call_row *row = comm_call_row_of(call->kind);
    if (row->is_message) return comm_start_messages(&(comm_message){c, *call}, 1, on, e);
    return row->compose ? row->compose(c, call, on, e) : c->ops->issue(c, call, on, e);
}

static void count(comm *c, const comm_call *call)
{
    if (!c->counts || comm_call_row_of(call->kind)->in == COMM_NO_ARRAY) return;
    c->counts->kind[call->kind].calls++;
    c->counts->kind[call->kind].bytes += comm_call_traffic(call, c->rank, c->size);
}

status comm_issue_part(comm *c, const comm_call *call, device_stream *on, err *e)
{
    status result = OK;
    comm_record_mark mark = {.slot = NULL};
    if (c->recording) TRY(comm_record_begin(c, call, on, &mark, e));
    TRY(carry_out(c, call, on, e));
    comm_record_end(&mark, on);
done:
    return result;
}

static status issue_timed(comm *c, const comm_call *call, device_stream *on, err *e)
{
    status result = OK;
    comm_timed *const t = c->timed;
    comm_timed now = *t;
    comm_call own = *call;
    if (now.next == now.calls) now.next--;
    own.visit = &now.visit[now.next];
    c->timed = NULL; // the parts of the call are not timed
    if (t->next < t->calls) on->device->ops->stamp(on, &now.stamp[2 * now.next]);
    result = comm_issue(c, &own, on, e);
    if (result == OK) on->device->ops->stamp(on, &now.stamp[2 * now.next + 1]);
    c->timed = t;
    if (t->next < t->calls) t->next++;
    return result;
}

status comm_issue(comm *c, const comm_call *call, device_stream *on, err *e)
{
    status result = OK;
    if (c->timed && c->timed->calls > 0 && on && !call->visit) return issue_timed(c, call, on, e);
    TRY(check(c, call, e));
    if (call->segment && c->can.needs_workspace)
        TRY(packed_issue(c, call, on, e));
    else
        TRY(comm_issue_part(c, call, on, e));
    count(c, call);
done:
    return result;
}

status comm_issue_group(const comm_message *m, int messages, device_stream *on, err *e)
{
    status result = OK;
    comm_record_mark mark; // messages that start together start when the device comes to them
    if (messages > COMM_GROUP_MESSAGES)
        FAIL(E_INTERNAL, "more than %d messages start together", COMM_GROUP_MESSAGES);
    if (messages == 0) return OK;
    if (!m->comm->ops->group) {
        for (int i = 0; i < messages; i++) TRY(comm_issue(m[i].comm, &m[i].call, on, e));
        return OK;
    }
    for (int i = 0; i < messages; i++) {
        TRY(check(m[i].comm, &m[i].call, e));
        if (m[i].comm->recording) TRY(comm_record_begin(m[i].comm, &m[i].call, on, &mark, e));
    }
    TRY(comm_start_messages(m, messages, on, e));
    for (int i = 0; i < messages; i++) count(m[i].comm, &m[i].call);
done:
    return result;
}

status comm_send_wait(comm *c, int peer, uint64_t messages, device_stream *on, err *e)
{
    status result = OK;
    TRY(check_peer(c, "send_wait", "for", peer, false, e));
    if (messages > c->sent[peer])
        FAIL(E_INTERNAL, "send_wait for %llu messages to rank %d: %llu were sent",
             (unsigned long long)messages, peer, (unsigned long long)c->sent[peer]);
    TRY(c->ops->send_wait(c, peer, messages, on, e));
done:
    return result;
}

// ---- The rest of the table

void comm_abort(comm *c, const err *why)
{
    c->ops->abort(c, why);
}

status comm_split(comm *c, int color, int key, comm **out, err *e)
{
    status result = OK;
    const comm_call call = {.kind = CALL_SPLIT};
    comm_record_mark mark = {.slot = NULL};
    *out = NULL;
    if (c->recording) TRY(comm_record_begin(c, &call, NULL, &mark, e));
    TRY(c->ops->split(c, color, key, out, e));
    comm_record_end(&mark, NULL);
    TRY(comm_recording_split(c, color, *out, e));
    if (c->counts) TRY(comm_count_calls(*out, e));
done:
    if (result != OK) {
        comm_close(*out);
        *out = NULL;
    }
    return result;
}
