// call.c -- the names of calls, and their words in messages. See call.h.
#include "comm/call.h"

#include <stdbool.h>
#include <stdio.h>

const char *comm_call_name(comm_call_kind k)
{
    static const char *const names[] = {
        [CALL_LEAVE] = "close",
        [CALL_BARRIER] = "barrier",
        [CALL_SPLIT] = "split",
        [CALL_SHARE] = "share",
        [CALL_ALL_REDUCE] = "all_reduce",
        [CALL_REDUCE_SCATTER] = "reduce_scatter",
        [CALL_ALL_GATHER] = "all_gather",
        [CALL_ALL_GATHER_SEGMENTS] = "all_gather",
        [CALL_REDUCE_SCATTER_SEGMENTS] = "reduce_scatter",
        [CALL_BROADCAST] = "broadcast",
        [CALL_SEND] = "send",
        [CALL_RECV] = "recv",
    };
    return names[k];
}

static void describe_segments(const comm_call_shape *s, char out[CALL_TEXT_BYTES])
{
    const bool reduces = s->kind == CALL_REDUCE_SCATTER_SEGMENTS;
    snprintf(out, CALL_TEXT_BYTES, "calls %s of %llu %s%s%s%s in %d segments (list %08x%s)",
             comm_call_name((comm_call_kind)s->kind), (unsigned long long)s->count,
             dtype_name((dtype)s->type), reduces ? " (" : "",
             reduces ? reduce_op_name((reduce_op)s->op) : "", reduces ? ")" : "", s->root,
             (unsigned)s->hash, s->in_place ? ", in place" : "");
}

const char *comm_call_describe(const comm_call_shape *s, char out[CALL_TEXT_BYTES])
{
    const char *type = dtype_name((dtype)s->type), *op = reduce_op_name((reduce_op)s->op);
    const char *name = comm_call_name((comm_call_kind)s->kind);
    const unsigned long long count = s->count;
    switch ((comm_call_kind)s->kind) {
    case CALL_LEAVE:
        snprintf(out, CALL_TEXT_BYTES, "leaves the group");
        break;
    case CALL_BARRIER:
    case CALL_SPLIT:
    case CALL_SHARE:
        snprintf(out, CALL_TEXT_BYTES, "calls %s", name);
        break;
    case CALL_BROADCAST:
    case CALL_RECV:
        snprintf(out, CALL_TEXT_BYTES, "calls %s of %llu bytes from %d", name, count, s->root);
        break;
    case CALL_SEND:
        snprintf(out, CALL_TEXT_BYTES, "calls %s of %llu bytes to %d", name, count, s->root);
        break;
    case CALL_ALL_GATHER:
        snprintf(out, CALL_TEXT_BYTES, "calls %s of %llu %s", name, count, type);
        break;
    case CALL_ALL_GATHER_SEGMENTS:
    case CALL_REDUCE_SCATTER_SEGMENTS:
        describe_segments(s, out);
        break;
    default:
        snprintf(out, CALL_TEXT_BYTES, "calls %s of %llu %s (%s)", name, count, type, op);
    }
    return out;
}
