// runtime_state.h -- shared by the files of the stand-in for the CUDA runtime (runtime_*.cpp) and by no other
// file: devices, blocks of memory, streams and captures of the process. One mutex guards all of it; a
// function that takes a `guard` is called with the mutex held, and may release it while work runs.
#ifndef TRIREME_STAND_IN_RUNTIME_STATE_H
#define TRIREME_STAND_IN_RUNTIME_STATE_H

#include "runtime.h"

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace stand_in
{

using guard = std::unique_lock<std::mutex>;

constexpr int MAX_DEVICES = 16;
constexpr size_t PAGE = 4096, ALIGN = 256;
constexpr unsigned char POISON = 0xff; // NaN as a float, out of every range as an index

// ---- memory (runtime_memory.cpp, runtime_protect.cpp, runtime_host.cpp, runtime_ipc.cpp)

enum class block_kind { DEVICE, IMPORT, PINNED, REGISTERED };

// A range of memory that the runtime knows. Blocks of devices are mapped twice: where their pointers
// point, for running work only, and at `alias`, for the stand-in itself.
struct block {
    block_kind kind;
    char *start;
    size_t bytes;
    char *pages; // first page of the mapping, and its size without guard pages
    size_t page_bytes;
    char *alias; // of `start`
    int device;  // that owns it, or that opened it
    bool live = true;
    bool mapped = false; // pinned memory of which kernels may know the address
    int opened = 0;      // IMPORT: opens without their closes
    struct shared_page *shared = nullptr;
    uint64_t offset = 0; // DEVICE: of the shared page, in the pool's file
};

// The page before a block of a device, in the same file: other processes map it, too.
struct shared_page {
    uint64_t id; // random; a handle has it, too
    uint64_t bytes, start;
    uint32_t freed;
    int32_t openers[64]; // processes that have the block open; 0: a free place
};

struct pool {
    int fd = -1;
    char *base = nullptr, *alias = nullptr;
    size_t used = 0; // bytes of addresses given out so far
};

// ---- work (runtime_queue.cpp)

// An event's record. Waits of streams hold on to it after the event was recorded again.
struct mark {
    struct CUstream_st *stream;
    uint64_t position; // of the record among the stream's items
    bool done = false;
    int64_t ns = 0;
};

struct closure {
    stand_in_work work;
    std::string name;
    explicit closure(const stand_in_work &w) : work(w), name(w.name)
    {
    }
    closure(const closure &) = delete;
    closure &operator=(const closure &) = delete;
    ~closure()
    {
        if (work.release) work.release(work.state);
    }
};

enum class op_kind { WORK, COPY, SET, MARK, WAIT, HOST, WRITE_VALUE, WAIT_VALUE, GRAPH };

struct op {
    op_kind kind;
    const char *call = ""; // that issued it, for messages
    std::shared_ptr<closure> work;
    std::shared_ptr<stand_in::mark> mark;
    struct CUevent_st *event = nullptr; // MARK of a graph
    void *dst = nullptr;                // COPY and SET; *_VALUE: the address
    const void *src = nullptr;
    size_t bytes = 0;
    uint64_t value = 0;
    uint32_t flags = 0;
    bool is_passed = false;   // WAIT_VALUE: the value was seen, before the wait was first
    uint64_t source_hash = 0; // COPY from the host; 0: not checked
    cudaHostFn_t host = nullptr;
    void *host_arg = nullptr;
    std::shared_ptr<struct graph_run> run;
};

struct graph_node {
    stand_in::op op;
    std::vector<size_t> after; // indices of nodes
    std::vector<size_t> next;  // of the nodes that have this one in `after`; of an executable graph
    int device;
    int priority; // of the stream that was recorded
};

struct graph_run {
    bool
        node_priorities; // nodes run with their own, not with that of the stream that the graph was launched into
    std::shared_ptr<std::vector<graph_node>> nodes;
    std::vector<uint64_t> source_hash;        // of each node
    std::vector<std::shared_ptr<mark>> marks; // of the nodes that record an event; else NULL
    std::vector<size_t> missing; // of each node, the number of those before it that are not done
    std::vector<size_t> ready;   // nodes that have not started, and miss none
    size_t left;                 // nodes that are not done
};

struct item {
    stand_in::op op;
    int64_t issued_ns;
};

// What a waiting thread waits for: a position of a stream.
struct goal {
    struct CUstream_st *stream;
    uint64_t position;
};
using goals = std::vector<goal>;

// ---- captures (runtime_capture.cpp)

using node_set = std::set<size_t>;

struct capture {
    unsigned long long id;
    cudaStreamCaptureMode mode;
    struct CUstream_st *origin;
    uint64_t thread;
    bool invalid = false;
    std::shared_ptr<std::vector<graph_node>> nodes = std::make_shared<std::vector<graph_node>>();
    std::map<struct CUstream_st *, node_set> streams; // last nodes of each captured stream
};

// ---- the process

struct device {
    int physical; // index on the machine
    size_t used = 0;
    stand_in::pool pool;
    std::set<int> peers; // whose memory this device may use
    struct CUstream_st *null_stream = nullptr;
};

struct process {
    std::mutex mutex;
    std::condition_variable changed;
    int pid = 0; // that called first; 0: none yet
    cudaError_t refusal = cudaSuccess;
    size_t limit = 0;
    uint64_t seed = 0, random = 0;
    bool spoils_peers = false; // TRIREME_STAND_IN_PEERS
    std::vector<device> devices;
    std::map<uintptr_t, block> blocks; // by the address of `pages`; dead ones explain faults
    std::vector<block *> usable;       // the live ones of devices, and of other processes
    std::set<CUstream_st *> streams;   // those destroyed, too, while they have work
    std::vector<CUstream_st *> ended;  // the others
    std::set<CUevent_st *> events;
    std::map<unsigned long long, std::shared_ptr<capture>> captures;
    std::map<const void *, int> shared_limits; // of kernels, by cudaFuncSetAttribute
    unsigned long long last_capture = 0;

    // execution
    bool busy = false;                        // a piece of work holds the device
    int open_for = -1;                        // the device whose memory is accessible; -1: none
    uint64_t blocks_now = 0, blocks_open = 0; // versions of the table of blocks
    std::vector<const goals *> waiting;
    int paused = 0, helpers = 0, idle_helpers = 0;
    int64_t waited_ns = 0; // when a thread last waited
    stand_in_observer observe = nullptr;
};

process &the();

} // namespace stand_in

struct CUstream_st {
    int device;
    bool blocking; // waits for the legacy stream, and that for it
    bool destroyed = false;
    int priority = 0;
    std::deque<stand_in::item> items;
    uint64_t issued = 0, done = 0;
    bool running = false; // the first item runs, and it is no graph
    stand_in::capture *capture = nullptr;
};

struct CUevent_st {
    int device;
    unsigned flags;
    std::shared_ptr<stand_in::mark> mark; // of the latest record; NULL: none
    unsigned long long capture = 0;       // in which it was recorded; 0: in none
    stand_in::node_set nodes;             // then: what it stands for
};

struct CUgraph_st {
    std::shared_ptr<std::vector<stand_in::graph_node>> nodes;
};

struct CUgraphExec_st {
    int device;
    std::shared_ptr<std::vector<stand_in::graph_node>> nodes;
    std::shared_ptr<stand_in::mark> last; // launch
    bool node_priorities;
};

namespace stand_in
{

// runtime_error.cpp
cudaError_t report(cudaError_t error); // what cudaGetLastError returns next, unless it is success
const char *running_name();            // of the work that this thread runs; NULL: none
void set_running_name(const char *name);
int64_t now_ns();

// runtime_device.cpp: true if the runtime can be used; else *error says why. Reads the environment at the
// first call. The thread's current device.
bool begin(cudaError_t *error);
int current_device();

// runtime_memory.cpp
uint64_t next_random();
block *find_block(const void *p); // live or not, in whose pages p lies; NULL: none
// A block of a device, or of another process, exists from now on; it is no more.
void add_block(const block &b);
void end_block(block &b);
cudaError_t add_device_block(int device, size_t bytes, void **out);
// The address at which the stand-in itself reads or writes [p, p + bytes), which must lie in a live block or
// in pageable memory; else ends the process, with `call`.
char *usable(const char *call, const void *p, size_t bytes);
bool is_visible_to(const block &b, int device);
char *reserve(size_t bytes);

// runtime_protect.cpp: makes the memory that work of `device` may use accessible; makes all inaccessible.
void open_memory(int device);
void close_memory();

// runtime_host.cpp
bool is_pinned(const block *b);

// runtime_copy.cpp
uint64_t hash_source(const op &o); // 0 if nothing is to be checked
void run_copy(const op &o, uint64_t source_hash);
void run_set(const op &o);

// runtime_driver.cpp
bool is_value_reached(const op &o);
void run_write_value(const op &o);

// runtime_stream.cpp: the stream that a handle means; NULL and an error if it is none.
CUstream_st *stream_of(cudaStream_t handle, cudaError_t *error);
CUstream_st *null_stream(int device);

} // namespace stand_in

namespace stand_in
{

// runtime_queue.cpp
// Queues an operation, or records it. The caller has checked it.
cudaError_t issue(guard &g, CUstream_st *s, op o);
void queue_now(CUstream_st *s, op o); // without a look at captures and the legacy stream
// Runs work until all positions are reached.
void await(guard &g, const goals &what);
void run_one(guard &g); // at most one piece of work

// runtime_capture.cpp
// What CUDA forbids while a capture is under way: calls that may wait or allocate.
cudaError_t check_unsafe_call();
cudaError_t check_legacy_use(int device); // work on the legacy stream, or a wait for it
cudaError_t record(CUstream_st *s, op o);
cudaError_t invalidate(capture &c, cudaError_t error);
uint64_t thread_id();

// runtime_graph.cpp
void start_node(graph_run &r, size_t node);
void finish_node(graph_run &r, size_t node);
void add_graph(CUgraph_st *graph);

} // namespace stand_in

#endif
