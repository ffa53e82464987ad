// network_algorithm.c -- the algorithms of all_reduce in communicators of network.h. All have the order of sums of
// base/reduce.h, so all give the same bits. A new algorithm is one row. Called by network_collective.c.
//
//   recursive_doubling   partners at distance 1, 2, 4 … exchange the sums of their groups, which are then
//                        equal on both
//   gather               Bruck's all-gather of all arrays; each rank reduces them
//   halving_doubling     the same partners exchange half of what they have summed so far, and go back
//   direct               each rank reduces its share of all arrays, and sends the result to all
//
// The first and the third add partial sums. 16-bit types are rounded once, so they are not legal for them.
#include "comm/network/network_private.h"

#include <math.h>
#include <string.h>

enum { LINE = 64 };

// `count` elements of the array of the call.
typedef struct piece {
    const network_call *x;
    char *data;
    size_t count, element;
    dtype type;
    comm_reduce_op op;
} piece;

typedef struct algorithm_row {
    const char *name;
    bool for_powers_of_two; // ranks
    bool for_16_bits;
    size_t most_bytes[2]; // of an array, up to which it is chosen: for two ranks, and for more
    bool gathers;         // its workspace holds the arrays of all ranks
    bool cuts;            // it cuts an array into pieces itself
    status (*run)(const piece *p, err *e);
    comm_describe_flows describe;
} algorithm_row;

// Up to `most` elements from `first` on.
static piece piece_at(const piece *p, size_t first, size_t most)
{
    piece out = *p;
    if (first > p->count) first = p->count;
    out.data += first * p->element;
    out.count = p->count - first < most ? p->count - first : most;
    return out;
}

static void reduce_pair(const piece *p, char *low, char *high, char *out, size_t count)
{
    const void *from[2] = {low, high};
    void *to = out;
    reduce_arrays(&to, 1, from, 2, count, p->type, p->op);
}

// ---- recursive_doubling

static status recursive_doubling(const piece *p, err *e)
{
    status result = OK;
    const int rank = p->x->comm->base.rank, size = p->x->comm->base.size;
    char *theirs = p->x->comm->work;
    for (int distance = 1; distance < size; distance *= 2) {
        const int partner = rank ^ distance;
        const size_t bytes = p->count * p->element;
        TRY(network_recv_part(p->x, partner, theirs, bytes, e));
        TRY(network_send_part(p->x, partner, p->data, bytes, e));
        TRY(network_parts_end(p->x, e));
        reduce_pair(p, rank < partner ? p->data : theirs, rank < partner ? theirs : p->data,
                    p->data, p->count);
    }
done:
    return result;
}

// ---- gather

static status gather(const piece *p, err *e)
{
    status result = OK;
    const network_comm *c = p->x->comm;
    const int rank = c->base.rank, size = c->base.size;
    const size_t bytes = p->count * p->element;
    const void *from[REDUCE_SOURCES];
    void *to = p->data;
    if (bytes) memcpy(c->work, p->data, bytes);
    for (int have = 1; have < size; have *= 2) { // block i is that of rank + i
        const int blocks = have < size - have ? have : size - have;
        TRY(network_recv_part(p->x, (rank + have) % size, c->work + (size_t)have * bytes,
                              (size_t)blocks * bytes, e));
        TRY(network_send_part(p->x, (rank + size - have) % size, c->work, (size_t)blocks * bytes,
                              e));
        TRY(network_parts_end(p->x, e));
    }
    for (int r = 0; r < size; r++) from[r] = c->work + (size_t)((r + size - rank) % size) * bytes;
    reduce_arrays(&to, 1, from, size, p->count, p->type, p->op);
done:
    return result;
}

// ---- halving_doubling

// The lower partner keeps the first half of the range.
static void halve(size_t *first, size_t *count, bool lower)
{
    const size_t half = *count / 2;
    if (!lower) *first += half;
    *count = lower ? half : *count - half;
}

// The range that this rank has summed after the steps below `distance`.
static void range_at(const piece *p, int distance, size_t *first, size_t *count)
{
    *first = 0;
    *count = p->count;
    for (int d = 1; d < distance; d *= 2) halve(first, count, (p->x->comm->base.rank & d) == 0);
}

static status halving_step(const piece *p, int distance, err *e)
{
    status result = OK;
    const int rank = p->x->comm->base.rank, partner = rank ^ distance;
    char *theirs = p->x->comm->work;
    size_t first, count, mine, keep, other, give;
    range_at(p, distance, &first, &count);
    mine = other = first, keep = give = count;
    halve(&mine, &keep, rank < partner);
    halve(&other, &give, rank > partner);
    TRY(network_recv_part(p->x, partner, theirs, keep * p->element, e));
    TRY(network_send_part(p->x, partner, p->data + other * p->element, give * p->element, e));
    TRY(network_parts_end(p->x, e));
    char *own = p->data + mine * p->element;
    reduce_pair(p, rank < partner ? own : theirs, rank < partner ? theirs : own, own, keep);
done:
    return result;
}

static status doubling_step(const piece *p, int distance, err *e)
{
    status result = OK;
    const int rank = p->x->comm->base.rank, partner = rank ^ distance;
    size_t first, count, mine, have, other, want;
    range_at(p, distance, &first, &count);
    mine = other = first, have = want = count;
    halve(&mine, &have, rank < partner);
    halve(&other, &want, rank > partner);
    TRY(network_recv_part(p->x, partner, p->data + other * p->element, want * p->element, e));
    TRY(network_send_part(p->x, partner, p->data + mine * p->element, have * p->element, e));
    TRY(network_parts_end(p->x, e));
done:
    return result;
}

static status halving_doubling(const piece *p, err *e)
{
    status result = OK;
    const int size = p->x->comm->base.size;
    for (int d = 1; d < size; d *= 2) TRY(halving_step(p, d, e));
    for (int d = size / 2; d > 0; d /= 2) TRY(doubling_step(p, d, e));
done:
    return result;
}

// ---- direct

static size_t share_first(const piece *p, int rank)
{
    const size_t line = LINE / p->element, size = (size_t)p->x->comm->base.size;
    const size_t each = ((p->count + size - 1) / size + line - 1) / line * line;
    return each * (size_t)rank < p->count ? each * (size_t)rank : p->count;
}

// Each rank receives its share of the arrays of all others, in `room`.
static status exchange_shares(const piece *p, char *room, err *e)
{
    status result = OK;
    const int rank = p->x->comm->base.rank, size = p->x->comm->base.size;
    const size_t bytes = (share_first(p, rank + 1) - share_first(p, rank)) * p->element;
    for (int r = 0; r < size; r++) {
        if (r == rank) continue;
        TRY(network_recv_part(p->x, r, room, bytes, e));
        room += bytes;
    }
    for (int i = 1; i < size; i++) {
        const int r = (rank + i) % size;
        const size_t begin = share_first(p, r), end = share_first(p, r + 1);
        TRY(network_send_part(p->x, r, p->data + begin * p->element, (end - begin) * p->element,
                              e));
    }
done:
    return result;
}

static void reduce_share(const piece *p, char *room)
{
    const int rank = p->x->comm->base.rank, size = p->x->comm->base.size;
    const size_t first = share_first(p, rank), count = share_first(p, rank + 1) - first;
    const void *from[REDUCE_SOURCES];
    void *to = p->data + first * p->element;
    for (int r = 0; r < size; r++) {
        from[r] = r == rank ? to : room;
        if (r != rank) room += count * p->element;
    }
    reduce_arrays(&to, 1, from, size, count, p->type, p->op);
}

static status gather_shares(const piece *p, err *e)
{
    status result = OK;
    const int rank = p->x->comm->base.rank, size = p->x->comm->base.size;
    const size_t first = share_first(p, rank), count = share_first(p, rank + 1) - first;
    for (int i = 1; i < size; i++) {
        const int r = (rank + i) % size;
        const size_t begin = share_first(p, r), end = share_first(p, r + 1);
        TRY(network_recv_part(p->x, r, p->data + begin * p->element, (end - begin) * p->element,
                              e));
        TRY(network_send_part(p->x, r, p->data + first * p->element, count * p->element, e));
    }
done:
    return result;
}

// While a piece is reduced and its result is sent, the next one is exchanged. Each has half of the workspace.
static status direct(const piece *p, err *e)
{
    status result = OK;
    const size_t half = NETWORK_WORK_BYTES / 2, slack = (size_t)p->x->comm->base.size * LINE,
                 most = (half - slack) / p->element,
                 pieces = p->count ? (p->count + most - 1) / most : 1;
    for (size_t k = 0; k <= pieces; k++) {
        const piece next = piece_at(p, k * most, most);
        if (k < pieces) TRY(exchange_shares(&next, p->x->comm->work + k % 2 * half, e));
        TRY(network_parts_turn(p->x, e));
        if (k == 0) continue;
        const piece last = piece_at(p, (k - 1) * most, most);
        reduce_share(&last, p->x->comm->work + (k - 1) % 2 * half);
        TRY(gather_shares(&last, e));
    }
    TRY(network_parts_end(p->x, e));
done:
    return result;
}

// ---- The table. The first legal row that takes the size is chosen. The sizes are those at which medians cross,
// within one machine and over TCP (docs/results/2026-11-23-ucx.md). halving_doubling is for networks whose
// ranks are many: here it is faster nowhere.

static const algorithm_row ROWS[] = {
    {"recursive_doubling",
     true,
     false,
     {512 << 10, 2 << 10},
     false,
     false,
     recursive_doubling,
     network_doubling_flows},
    {"gather", false, true, {8 << 10, 2 << 10}, true, false, gather, network_gather_flows},
    {"halving_doubling",
     true,
     false,
     {0, 0},
     false,
     false,
     halving_doubling,
     network_halving_flows},
    {"direct", false, true, {SIZE_MAX, SIZE_MAX}, false, true, direct, network_direct_flows},
};
enum { ROW_COUNT = sizeof ROWS / sizeof *ROWS };

status network_algorithm_named(const char *name, int *out, err *e)
{
    *out = -1;
    if (!name || strcmp(name, "auto") == 0) return OK;
    for (int i = 0; i < ROW_COUNT; i++)
        if (strcmp(ROWS[i].name, name) == 0) *out = i;
    if (*out >= 0) return OK;
    return err_set(e, E_USAGE,
                   "TRIREME_ALGO=%s: valid are auto, recursive_doubling, gather, halving_doubling "
                   "and direct",
                   name);
}

const char *network_algorithm_name(int algorithm)
{
    return algorithm >= 0 && algorithm < ROW_COUNT ? ROWS[algorithm].name : "another algorithm";
}

static bool is_legal(const algorithm_row *row, int size, dtype t)
{
    return (!row->for_powers_of_two || (size & (size - 1)) == 0) &&
           (row->for_16_bits || dtype_bytes(t) > 2);
}

int network_algorithm_choose(int forced, int size, dtype t, size_t bytes)
{
    if (forced >= 0 && is_legal(&ROWS[forced], size, t)) return forced;
    int i = 0;
    while (!is_legal(&ROWS[i], size, t) || bytes > ROWS[i].most_bytes[size > 2]) i++;
    return i;
}

void network_all_reduce_flows(const comm_described_call *c, comm_flows *out)
{
    const algorithm_row *row =
        &ROWS[network_algorithm_choose(-1, c->on.ranks, c->type, (size_t)c->bytes)];
    const double most = NETWORK_WORK_BYTES / (row->gathers ? c->on.ranks : 1),
                 pieces = row->cuts || c->bytes <= most ? 1 : ceil(c->bytes / most);
    const comm_described_call part =
        comm_described_part(c, c->on, CALL_ALL_REDUCE, c->bytes / pieces);
    comm_flows one = {.count = 0};
    row->describe(&part, &one);
    comm_flows_join(out, &one, pieces);
}

status network_run_all_reduce(const network_call *x, err *e)
{
    status result = OK;
    const algorithm_row *row = &ROWS[x->signature.algorithm];
    const size_t element = dtype_bytes(x->call.type), size = (size_t)x->comm->base.size,
                 count = x->call.count,
                 most = NETWORK_WORK_BYTES / (row->gathers ? size : 1) / element;
    const piece all = {.x = x,
                       .data = x->call.out,
                       .count = count,
                       .element = element,
                       .type = x->call.type,
                       .op = x->call.op};
    if (size == 1) return OK;
    if (row->cuts) return row->run(&all, e);
    for (size_t i = 0; i == 0 || i < count; i += most) {
        const piece p = piece_at(&all, i, most);
        TRY(row->run(&p, e));
    }
done:
    return result;
}
