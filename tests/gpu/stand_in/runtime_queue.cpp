// runtime_queue.cc -- the queues of the CUDA runtime's stand-in: what runs next, and on which thread. A thread
// that waits runs work itself until what it waits for is complete. Work that waits for memory calls
// stand_in_pause; then other threads, or helpers that are started for it, run the work of others.
#include "runtime_state.h"

#include <algorithm>
#include <thread>

namespace
{

using namespace stand_in;

const int64_t PATIENCE_NS = 20000000; // until a helper runs what nobody waits for
const int MOST_HELPERS = 64;
const auto POLL = std::chrono::microseconds(50); // of what other processes change
const int LONGEST_POLLS = 8;

struct candidate {
    CUstream_st *stream;
    long node; // of the graph at the stream's head; -1: the head itself
};
using candidates = std::vector<candidate>;

// ---- what may run

bool may_start(const op &o)
{
    switch (o.kind) {
    case op_kind::WAIT:
        return o.mark->done;
    case op_kind::WAIT_VALUE:
        return o.is_passed || is_value_reached(o);
    case op_kind::WORK:
        return !o.work->work.ready || o.work->work.ready(o.work->work.state);
    default:
        return true;
    }
}

// CUDA says what a wait for a value keeps back, and not that what stands before it has ended: a GPU's front end looks at the
// value while the stream's earlier work is still under way. So a stale value lets the wait pass.
void look_ahead(CUstream_st *s)
{
    for (item &i : s->items) {
        op &o = i.op;
        if (o.kind == op_kind::WAIT || o.kind == op_kind::HOST || o.kind == op_kind::GRAPH) return;
        if (o.kind != op_kind::WAIT_VALUE || o.is_passed) continue;
        if (next_random() % 2 || !is_value_reached(o)) return;
        o.is_passed = true;
    }
}

// Work of several steps may not have ended.
bool has_ended(const op &o)
{
    return o.kind != op_kind::WORK || !o.work->work.ended || o.work->work.ended(o.work->work.state);
}

void add_candidates(CUstream_st *s, candidates &out)
{
    if (s->items.empty() || s->running) return;
    const item &head = s->items.front();
    if (head.op.kind != op_kind::GRAPH) {
        if (may_start(head.op)) out.push_back({s, -1});
        return;
    }
    for (size_t n : head.op.run->ready) {
        const op &o = (*head.op.run->nodes)[n].op;
        if (o.kind == op_kind::WAIT || may_start(o)) out.push_back({s, (long)n});
    }
}

// Positions that waiting threads need, by stream.
using needs = std::map<CUstream_st *, uint64_t>;

void need(needs &all, CUstream_st *s, uint64_t position)
{
    uint64_t &now = all[s];
    if (position > now) now = position;
}

needs direct_needs()
{
    needs out;
    for (const goals *waiting : the().waiting)
        for (const goal &one : *waiting) need(out, one.stream, one.position);
    return out;
}

// Adds what the first items of needed streams wait for, and so on.
void follow_events(needs &all)
{
    for (bool grows = true; grows;) {
        grows = false;
        for (const auto &[s, position] : needs(all)) {
            if (s->done >= position || s->items.empty()) continue;
            const op &head = s->items.front().op;
            if (head.kind != op_kind::WAIT || head.mark->done) continue;
            if (all[head.mark->stream] >= head.mark->position) continue;
            need(all, head.mark->stream, head.mark->position);
            grows = true;
        }
    }
}

candidates of_streams(const needs &all, bool inside)
{
    candidates out;
    for (CUstream_st *s : the().streams) {
        const auto found = all.find(s);
        const bool needed = found != all.end();
        // What stands behind the needed position may run, too; it runs as late as it can.
        if (inside ? needed && s->done < found->second : !needed) add_candidates(s, out);
    }
    return out;
}

candidates anything()
{
    candidates out;
    for (CUstream_st *s : the().streams) add_candidates(s, out);
    return out;
}

bool choose(candidate *out)
{
    candidates list;
    needs wanted = direct_needs();
    for (CUstream_st *s : the().streams) look_ahead(s);
    const int style = wanted.empty() ? 2 : (int)(the().seed % 3);
    if (style == 0) list = of_streams(wanted, false); // what the host waits for runs last
    if (style == 1) follow_events(wanted);            // only what it needs runs
    if (list.empty() && style < 2) list = of_streams(wanted, true);
    if (list.empty()) list = anything();
    if (list.empty()) return false;
    *out = list[next_random() % list.size()];
    return true;
}

// ---- running it

void help();

void start_helper()
{
    if (the().idle_helpers > 0 || the().helpers >= MOST_HELPERS) return;
    the().helpers++;
    std::thread(help).detach();
}

void run_work(guard &g, int device, const op &o, int priority)
{
    process &p = the();
    const std::shared_ptr<closure> work = o.work;
    const stand_in_observer observe = p.observe;
    p.busy = true;
    open_memory(device);
    g.unlock();
    stand_in_watch_faults();
    set_running_name(work->name.c_str());
    if (observe) observe(work->name.c_str(), priority);
    work->work.run(work->work.state);
    set_running_name(nullptr);
    g.lock();
    p.busy = false;
}

void run_host_function(guard &g, const op &o)
{
    const op own = o;
    the().paused++; // it may block
    start_helper();
    g.unlock();
    set_running_name("a host function");
    own.host(own.host_arg);
    set_running_name(nullptr);
    g.lock();
    the().paused--;
}

void finish_mark(mark &m)
{
    m.done = true;
    m.ns = now_ns();
}

void run_op(guard &g, int device, const op &o, uint64_t source_hash, int priority)
{
    switch (o.kind) {
    case op_kind::WORK:
        run_work(g, device, o, priority);
        break;
    case op_kind::COPY:
        run_copy(o, source_hash);
        break;
    case op_kind::SET:
        run_set(o);
        break;
    case op_kind::MARK:
        if (o.mark) finish_mark(*o.mark);
        break;
    case op_kind::HOST:
        run_host_function(g, o);
        break;
    case op_kind::WRITE_VALUE:
        run_write_value(o);
        break;
    case op_kind::WAIT:
    case op_kind::WAIT_VALUE:
    case op_kind::GRAPH:
        break;
    }
}

// The first item is complete.
void finish_item(CUstream_st *s)
{
    s->items.pop_front();
    s->done++;
    if (!s->destroyed || !s->items.empty()) return;
    the().streams.erase(s);
    the().ended.push_back(s); // others may still compare positions with it
}

void run_node(guard &g, CUstream_st *s, size_t node)
{
    const std::shared_ptr<graph_run> run = s->items.front().op.run;
    start_node(*run, node);
    const graph_node &n = (*run->nodes)[node];
    op o = n.op;
    if (o.kind == op_kind::MARK) o.mark = run->marks[node]; // NULL: the event is no more
    run_op(g, n.device, o, run->source_hash[node], run->node_priorities ? n.priority : s->priority);
    if (!has_ended(o)) {
        run->ready.push_back(node);
        return;
    }
    finish_node(*run, node);
    if (run->left == 0) finish_item(s);
}

bool are_reached(const goals &what)
{
    for (const goal &one : what)
        if (one.stream->done < one.position) return false;
    return true;
}

// Wakes the other threads if there is something for one of them to do: the thread that ran work runs more,
// and the others would only contend for the mutex.
void wake()
{
    process &p = the();
    bool useful = p.paused > 0;
    for (const goals *waiting : p.waiting) useful = useful || are_reached(*waiting);
    if (useful) p.changed.notify_all();
}

void run_candidate(guard &g, const candidate &c)
{
    if (c.node >= 0) {
        run_node(g, c.stream, (size_t)c.node);
    } else {
        const item head = c.stream->items.front();
        c.stream->running = true;
        run_op(g, c.stream->device, head.op, head.op.source_hash, c.stream->priority);
        c.stream->running = false;
        if (has_ended(head.op)) finish_item(c.stream);
    }
    wake();
}

// ---- helpers

int64_t oldest_ns()
{
    int64_t oldest = INT64_MAX;
    for (const CUstream_st *s : the().streams)
        if (!s->items.empty() && s->items.front().issued_ns < oldest)
            oldest = s->items.front().issued_ns;
    return oldest;
}

// True if no thread that waits can run work, although there may be some: none waits, or each is inside
// work that paused.
bool helpers_are_needed()
{
    const process &p = the();
    const int64_t now = now_ns(), oldest = oldest_ns();
    if (oldest == INT64_MAX) return false;
    if (p.paused) return p.paused >= (int)p.waiting.size();
    if (!p.waiting.empty()) return false;
    return now - oldest > PATIENCE_NS && now - p.waited_ns > PATIENCE_NS;
}

void help()
{
    process &p = the();
    guard g(p.mutex);
    p.idle_helpers++;
    for (;;) {
        candidate c;
        if (p.busy || !helpers_are_needed() || !choose(&c)) {
            if (!p.busy && p.waiting.empty()) close_memory();
            if (p.idle_helpers > 1 && !p.paused) break;
            p.changed.wait_for(g, p.paused ? POLL : POLL * 40);
            continue;
        }
        p.idle_helpers--;
        run_candidate(g, c);
        p.idle_helpers++;
        p.changed.notify_all(); // threads that wait go on in the helper's place
    }
    p.idle_helpers--;
    p.helpers--;
}

} // namespace

namespace stand_in
{

void queue_now(CUstream_st *s, op o)
{
    if (!the().helpers) start_helper();
    s->items.push_back({std::move(o), now_ns()});
    s->issued++;
}

static void queue_wait(CUstream_st *s, CUstream_st *on)
{
    if (on->items.empty() || on == s) return;
    auto m = std::make_shared<mark>();
    m->stream = on;
    m->position = on->issued + 1;
    op o = {};
    o.kind = op_kind::MARK;
    o.mark = m;
    queue_now(on, o);
    o.kind = op_kind::WAIT;
    queue_now(s, o);
}

cudaError_t issue(guard &, CUstream_st *s, op o)
{
    if (running_name()) return cudaErrorNotPermitted; // a host function must not call CUDA
    const bool legacy = s == the().devices[s->device].null_stream;
    if (legacy)
        if (cudaError_t error = check_legacy_use(s->device)) return error;
    if (s->capture) return record(s, std::move(o));
    // The legacy stream and the blocking streams of its device wait for each other.
    if (legacy) {
        for (CUstream_st *other : std::set<CUstream_st *>(the().streams))
            if (other->device == s->device && other->blocking) queue_wait(s, other);
    } else if (s->blocking && the().devices[s->device].null_stream) {
        queue_wait(s, the().devices[s->device].null_stream);
    }
    queue_now(s, std::move(o));
    return cudaSuccess;
}

void await(guard &g, const goals &what)
{
    process &p = the();
    int polls = 1;
    p.waiting.push_back(&what);
    while (!are_reached(what)) {
        candidate c;
        if (p.busy) {
            p.changed.wait_for(g, POLL * 20);
        } else if (choose(&c)) {
            run_candidate(g, c);
            polls = 1;
        } else {
            p.changed.wait_for(g, POLL * polls);
            polls = std::min(2 * polls, LONGEST_POLLS);
        }
    }
    std::erase(p.waiting, &what);
    p.waited_ns = now_ns();
    if (!p.busy && p.waiting.empty()) close_memory();
    p.changed.notify_all();
}

void run_one(guard &g)
{
    candidate c;
    const goals nothing;
    process &p = the();
    p.waiting.push_back(&nothing);
    if (!p.busy && choose(&c)) run_candidate(g, c);
    std::erase(p.waiting, &nothing);
    p.waited_ns = now_ns();
    if (!p.busy && p.waiting.empty()) close_memory();
}

} // namespace stand_in

using namespace stand_in;

extern "C" {

cudaError_t stand_in_issue(cudaStream_t stream, stand_in_work work)
{
    auto own = std::make_shared<closure>(work); // released after the mutex, whatever happens
    guard g(the().mutex);
    cudaError_t error;
    if (!begin(&error)) return report(error);
    CUstream_st *s = stream_of(stream, &error);
    if (!s) return report(error);
    if (s->device != current_device()) return report(cudaErrorInvalidResourceHandle);
    op o = {};
    o.kind = op_kind::WORK;
    o.call = "launch";
    o.work = own;
    return report(issue(g, s, std::move(o)));
}

void stand_in_set_observer(stand_in_observer observe)
{
    guard g(the().mutex);
    the().observe = observe;
}

void stand_in_pause(void)
{
    process &p = the();
    guard g(p.mutex);
    const int device = p.open_for;
    const char *name = running_name();
    p.busy = false;
    p.paused++;
    start_helper();
    p.changed.notify_all();
    p.changed.wait_for(g, POLL);
    while (p.busy) p.changed.wait_for(g, POLL * 20);
    p.busy = true;
    p.paused--;
    open_memory(device);
    set_running_name(name);
}
}
