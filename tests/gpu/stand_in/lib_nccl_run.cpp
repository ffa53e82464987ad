// lib_nccl_run.cpp -- the work of the stand-in of NCCL: bytes go from rank to rank through boxes of shared memory, so
// that threads and processes are one case. Both ends compare what they call. Sums are a chain over the ranks, rounded
// at each step: an order that is legal, and not the tree of base/reduce.h.
#include "lib_nccl.h"

extern "C" {
#include "base/reduce.h"
}

#include <string.h>

namespace stand_in_nccl
{

// ---- transfers

static std::string text_of(const terms &t)
{
    char text[160];
    snprintf(text, sizeof text, "%s of %llu of type %u, op %u, root %d", name_of(t),
             (unsigned long long)t.count, t.type, t.op, t.root);
    return text;
}

static void compare(const body &c, const transfer &t, const terms &own, const box &b)
{
    if (memcmp(&own, &b.call, sizeof own) == 0 && b.bytes == t.bytes) return;
    stand_in_die("NCCL: rank %d calls %s (%zu bytes) where rank %d calls %s (%llu bytes)", c.rank,
                 text_of(own).c_str(), t.bytes, t.peer, text_of(b.call).c_str(),
                 (unsigned long long)b.bytes);
}

static box &box_of(const body &c, const transfer &t)
{
    return t.receives ? c.shared->boxes[t.peer][c.rank] : c.shared->boxes[c.rank][t.peer];
}

// Can the transfer move a chunk? The transfers of a pair in one direction follow each other.
static bool can_move(const job &j, size_t i)
{
    const transfer &t = j.all[i];
    const box &b = box_of(*j.comm, t);
    if (t.ended || (b.produced != b.consumed) != t.receives) return false;
    for (size_t k = 0; k < i; k++)
        if (!j.all[k].ended && j.all[k].peer == t.peer && j.all[k].receives == t.receives)
            return false;
    return true;
}

static void move_chunk(const body &c, transfer &t, const terms &call)
{
    box &b = box_of(c, t);
    const size_t bytes = t.bytes - t.done < CHUNK ? t.bytes - t.done : CHUNK;
    if (t.receives) {
        compare(c, t, call, b);
        memcpy(t.memory + t.done, b.data, bytes);
        b.consumed++;
    } else {
        b.call = call;
        b.bytes = t.bytes;
        memcpy(b.data, t.memory + t.done, bytes);
        b.produced++;
    }
    t.done += bytes;
    t.ended = t.done == t.bytes;
}

// ---- calls

static dtype type_of(uint32_t type)
{
    switch (type) {
    case ncclFloat32:
        return F32;
    case ncclFloat16:
        return F16;
    case ncclBfloat16:
        return BF16;
    case ncclFloat64:
        return F64;
    default:
        return I64;
    }
}

static void reduce(const terms &t, const std::vector<const void *> &in, void *out)
{
    const reduce_op op = t.op == ncclMax ? REDUCE_MAX : t.op == ncclMin ? REDUCE_MIN : REDUCE_SUM;
    std::vector<char> sum((const char *)in[0], (const char *)in[0] + t.count * bytes_of(t.type));
    void *to = sum.data();
    for (size_t r = 1; r < in.size(); r++) {
        const void *two[2] = {to, in[r]};
        reduce_arrays(&to, 1, two, 2, t.count, type_of(t.type), op);
    }
    memcpy(out, sum.data(), sum.size());
}

static void add(job &j, const terms &call, int peer, bool receives, const void *memory,
                size_t bytes)
{
    j.all.push_back({peer, receives, (char *)(uintptr_t)memory, bytes, 0, false});
    j.calls.push_back(call);
}

static void begin_sum(job &j, const job::part &p, size_t bytes)
{
    const body &c = *j.comm;
    const size_t stride = p.call.kind == REDUCE_SCATTER ? bytes : 0;
    j.room.resize(bytes * (size_t)c.size);
    for (int r = 0; r < c.size; r++) {
        if (r == c.rank) continue;
        add(j, p.call, r, false, p.in + stride * (size_t)r, bytes);
        add(j, p.call, r, true, j.room.data() + bytes * (size_t)r, bytes);
    }
}

static void end_sum(const job &j, const job::part &p, size_t bytes)
{
    const body &c = *j.comm;
    std::vector<const void *> in((size_t)c.size);
    for (int r = 0; r < c.size; r++) in[(size_t)r] = j.room.data() + bytes * (size_t)r;
    in[(size_t)c.rank] = p.in + (p.call.kind == REDUCE_SCATTER ? bytes * (size_t)c.rank : 0);
    reduce(p.call, in, p.out);
}

static void begin_copies(job &j, const job::part &p, size_t bytes)
{
    const body &c = *j.comm;
    for (int r = 0; r < c.size; r++) {
        if (r == c.rank) continue;
        if (p.call.kind == ALL_GATHER) {
            add(j, p.call, r, false, p.in, bytes);
            add(j, p.call, r, true, p.out + bytes * (size_t)r, bytes);
        } else if (c.rank == p.call.root) {
            add(j, p.call, r, false, p.in, bytes);
        } else if (r == p.call.root) {
            add(j, p.call, r, true, p.out, bytes);
        }
    }
}

static void end_copies(const job &j, const job::part &p, size_t bytes)
{
    const body &c = *j.comm;
    if (p.call.kind == BROADCAST && c.rank != p.call.root) return;
    char *own = p.out + (p.call.kind == ALL_GATHER ? bytes * (size_t)c.rank : 0);
    if (own != p.in) memcpy(own, p.in, bytes);
}

static void begin(job &j)
{
    j.begun = true;
    j.ended = false;
    j.all.clear();
    j.calls.clear();
    for (const job::part &p : j.parts) {
        const size_t bytes = p.call.count * bytes_of(p.call.type);
        terms call = p.call;
        if (call.kind == MESSAGE) {
            call.root = 0; // the other end has another peer
            add(j, call, p.call.root, !p.in, p.in ? p.in : p.out, bytes);
        } else if (call.kind == ALL_REDUCE || call.kind == REDUCE_SCATTER) {
            begin_sum(j, p, bytes);
        } else {
            begin_copies(j, p, bytes);
        }
    }
}

static void end(job &j)
{
    const job::part &p = j.parts[0];
    const size_t bytes = p.call.count * bytes_of(p.call.type);
    if (p.call.kind == ALL_REDUCE || p.call.kind == REDUCE_SCATTER)
        end_sum(j, p, bytes);
    else if (p.call.kind != MESSAGE)
        end_copies(j, p, bytes);
    j.order->done++;
}

// Calls of a communicator run in the order of issue, and those of a capture in its order, one at a time.
static bool is_turn(const job &j)
{
    const uint64_t done = j.order->done;
    if (j.comm->running) return false;
    return j.captured ? done % j.order->calls == j.ticket : done == j.ticket;
}

bool is_ready(const job &j)
{
    if (j.comm->aborted) return true;
    if (!j.begun) return is_turn(j);
    bool left = false;
    for (size_t i = 0; i < j.all.size(); i++) {
        if (can_move(j, i)) return true;
        left = left || !j.all[i].ended;
    }
    return !left;
}

void run(job &j)
{
    body &c = *j.comm;
    bool left = false;
    if (!c.aborted && !j.begun) {
        begin(j);
        c.running = true;
    }
    for (size_t i = 0; i < j.all.size() && !c.aborted; i++) {
        if (can_move(j, i)) move_chunk(c, j.all[i], j.calls[i]);
        left = left || !j.all[i].ended;
    }
    if (left && !c.aborted) return;
    if (!c.aborted) end(j);
    c.running = false;
    j.begun = false;
    j.ended = true;
}

} // namespace stand_in_nccl
