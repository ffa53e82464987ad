// call.c -- the table of calls, and what follows from a call: its traffic, its signature, and words for messages. See
// call.h.
#include "comm/call.h"

#include "comm/compose.h"

#include <stdio.h>

// clang-format off
const comm_call_row COMM_CALL_ROWS[CALL_KINDS] = {
    [CALL_NONE]           = {"an unknown call"},
    [CALL_LEAVE]          = {"close"},
    [CALL_BARRIER]        = {"barrier", {"barrier"}},
    [CALL_SPLIT]          = {"split",   {"barrier"}}, // groups that are split, and ranks that share memory, meet without arrays
    [CALL_SHARE]          = {"share",   {"barrier"}},
    [CALL_COMPARE]        = {"the comparison of a call", .in = COMM_ONE_COUNT, .out = COMM_ALL_COUNTS},
    [CALL_ALL_REDUCE]     = {"all_reduce",     {"all_reduce"}, NULL, COMM_ONE_COUNT, COMM_ONE_COUNT, .reduces = true, .passes = 2},
    [CALL_REDUCE_SCATTER] = {"reduce_scatter", {"reduce_scatter", "REDUCE_SCATTER_coalesced"}, NULL, COMM_ALL_COUNTS, COMM_ONE_COUNT, .reduces = true, .passes = 1},
    [CALL_ALL_GATHER]     = {"all_gather",     {"all_gather", "ALLGATHER_coalesced"}, NULL, COMM_ONE_COUNT, COMM_ALL_COUNTS, .passes = 1},
    [CALL_BROADCAST]      = {"broadcast",      {"broadcast"}, "from", COMM_ONE_COUNT, COMM_ONE_COUNT, .passes = 1},
    [CALL_ALL_TO_ALL]     = {"all_to_all",     {"all_to_all"}, NULL, COMM_ALL_COUNTS, COMM_ALL_COUNTS, .passes = 1, .compose = compose_all_to_all},
    [CALL_GATHER]         = {"gather",         {"gather"}, "to", COMM_ONE_COUNT, COMM_ALL_COUNTS, .passes = 1, .compose = compose_gather},
    [CALL_SCATTER]        = {"scatter",        {"scatter"}, "from", COMM_ALL_COUNTS, COMM_ONE_COUNT, .passes = 1, .compose = compose_scatter},
    [CALL_SEND]           = {"send", {"send"}, "to", COMM_ONE_COUNT, COMM_ONE_COUNT, .is_message = true, .passes = 1},
    [CALL_RECV]           = {"recv", {"recv"}, "from", COMM_ONE_COUNT, COMM_ONE_COUNT, .is_message = true},
};
// clang-format on

uint64_t comm_call_elements(const comm_call *c)
{
    uint64_t elements = 0;
    if (!c->segment) return c->count;
    for (int i = 0; i < c->segments; i++) elements += (uint64_t)c->segment[i].count;
    return elements;
}

// Elements that are not of this rank: over segments, and of an all_to_all with counts.
static uint64_t elements_of_others(const comm_call *c, int rank, int size)
{
    uint64_t elements = 0;
    for (int i = 0; i < c->segments; i++) {
        int64_t first;
        elements +=
            (uint64_t)(c->segment[i].count - comm_segment_shard(&c->segment[i], rank, &first));
    }
    for (int r = 0; c->in_counts && r < size; r++) elements += r == rank ? 0 : c->in_counts[r];
    return elements;
}

double comm_call_traffic(const comm_call *c, int rank, int size)
{
    const comm_call_row *row = comm_call_row_of(c->kind);
    const double element = (double)dtype_bytes(c->type);
    const bool is_full = row->in != COMM_ALL_COUNTS && row->out != COMM_ALL_COUNTS;
    if (c->segment || c->in_counts) return (double)elements_of_others(c, rank, size) * element;
    const double bytes = (double)c->count * element;
    if (row->is_message) return row->passes * bytes;
    return row->passes * (is_full ? bytes * (size - 1) / size : bytes * (size - 1));
}

comm_signature comm_call_signature(const comm_call *c)
{
    return (comm_signature){.kind = (uint8_t)c->kind,
                            .type = (uint8_t)c->type,
                            .op = (uint8_t)c->op,
                            .in_place = c->in_place,
                            .peer = c->segment ? c->segments : c->peer,
                            .count = comm_call_elements(c),
                            .hash = c->segment ? comm_segments_hash(c->segment, c->segments) : 0};
}

// A signature may come from a rank of another version.
static const comm_call_row *row_of(const comm_signature *s)
{
    return &COMM_CALL_ROWS[s->kind < CALL_KINDS ? s->kind : CALL_NONE];
}

const char *comm_signature_name(const comm_signature *s)
{
    return row_of(s)->name;
}

const char *comm_signature_describe(const comm_signature *s, char out[CALL_TEXT_BYTES])
{
    const comm_call_row *row = row_of(s);
    const char *type = row->peer && s->type == U8 ? "bytes" : dtype_name((dtype)s->type);
    char peer[32] = "", list[64] = "";
    if (s->kind == CALL_LEAVE)
        snprintf(out, CALL_TEXT_BYTES, "leaves the group");
    else if (row->in == COMM_NO_ARRAY)
        snprintf(out, CALL_TEXT_BYTES, "calls %s", row->name);
    if (row->in == COMM_NO_ARRAY) return out;
    if (row->peer) snprintf(peer, sizeof peer, " %s %d", row->peer, s->peer);
    if (s->hash)
        snprintf(list, sizeof list, " in %d segments (list %08x%s)", s->peer, (unsigned)s->hash,
                 s->in_place ? ", in place" : "");
    snprintf(out, CALL_TEXT_BYTES, "calls %s of %llu %s%s%s%s%s%s", row->name,
             (unsigned long long)s->count, type, row->reduces ? " (" : "",
             row->reduces ? reduce_op_name((reduce_op)s->op) : "", row->reduces ? ")" : "", peer,
             list);
    return out;
}
