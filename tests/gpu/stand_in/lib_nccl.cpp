// lib_nccl.cpp -- the calls of the stand-in of NCCL (device/cuda/libraries/cuda_nccl_abi.h), for ranks that are threads or
// processes of one machine. It is as late as a non-blocking communicator may be: nothing is issued to a stream, joined or
// split before the caller asks for the second time whether it is done. A call on a communicator that is not ready, was
// ended, or is of another GPU ends the process with a line, as do arrays that overlap and calls that differ between
// ranks: with NCCL these hang or give wrong numbers. Two ranks on one GPU are refused as NCCL does. A rank that is gone
// is not noticed, as NCCL does not notice it within a host. Every distinct call is written to the tape.
//
// TRIREME_STAND_IN_WITHOUT=ncclCommSplit is a library without that call, TRIREME_STAND_IN_NCCL_ERROR a number of calls
// after which a communicator has a remote error.
#include "lib_nccl.h"
#include "runtime_state.h"
#include "tape.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

using namespace stand_in_nccl;

namespace stand_in_nccl
{

struct id_words {
    uint64_t magic;
    int32_t pid, file;
};
constexpr uint64_t MAGIC = 0x7a1de0c1;

struct group {
    int depth = 0;
    ncclComm_t comm = nullptr;
    std::shared_ptr<job> calls;
};
static thread_local group open_group;

std::mutex &mutex()
{
    static std::mutex m;
    return m;
}

const char *name_of(const terms &t)
{
    static const char *const names[] = {"ncclAllReduce", "ncclReduceScatter", "ncclAllGather",
                                        "ncclBroadcast", "a message"};
    return names[t.kind];
}

size_t bytes_of(uint32_t type)
{
    return type == ncclUint8                             ? 1
           : type == ncclFloat16 || type == ncclBfloat16 ? 2
           : type == ncclFloat32                         ? 4
           : type == ncclInt64 || type == ncclFloat64    ? 8
                                                         : 0;
}

static int current_device()
{
    int d = -1;
    if (cudaGetDevice(&d) != cudaSuccess) stand_in_die("NCCL: no GPU is the thread's current one");
    return d;
}

// ---- joining

static shared *map_file(int file)
{
    void *p = mmap(nullptr, sizeof(shared), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    return p == MAP_FAILED ? nullptr : (shared *)p;
}

static ncclResult_t make_id(ncclUniqueId *id)
{
    const int file = memfd_create("stand-in of NCCL", MFD_CLOEXEC); // open until the process ends
    if (file < 0 || ftruncate(file, (off_t)sizeof(shared)) != 0) return ncclSystemError;
    const id_words w = {MAGIC, getpid(), file};
    memset(id, 0, sizeof *id);
    memcpy(id, &w, sizeof w);
    return ncclSuccess;
}

static ncclResult_t take_seat(body &c, const ncclUniqueId &id)
{
    id_words w;
    char path[64];
    memcpy(&w, &id, sizeof w);
    if (w.magic != MAGIC) return ncclInvalidArgument;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", w.pid, w.file);
    const int file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0) return ncclSystemError; // the process has ended
    c.shared = map_file(file);
    close(file);
    if (!c.shared) return ncclSystemError;
    seat &s = c.shared->seats[c.rank];
    c.shared->size = c.size;
    {
        stand_in::guard g(stand_in::the().mutex);
        s.device = stand_in::the().devices[(size_t)c.device].physical;
    }
    if (s.taken.exchange(1)) stand_in_die("NCCL: two ranks of a communicator are rank %d", c.rank);
    return ncclSuccess;
}

static void fail(body &c, ncclResult_t failure, const char *text)
{
    c.at = phase::FAILED;
    c.failure = failure;
    c.last_error = text;
}

static void look_at_seats(body &c)
{
    char text[128];
    for (int r = 0; r < c.size; r++)
        if (!c.shared->seats[r].taken) return;
    c.at = phase::READY;
    for (int r = 0; r < c.size; r++)
        for (int k = 0; k < r && c.at == phase::READY; k++) {
            if (c.shared->seats[r].device != c.shared->seats[k].device) continue;
            snprintf(text, sizeof text,
                     "Duplicate GPU detected : rank %d and rank %d both on CUDA device %x000", r, k,
                     (unsigned)c.shared->seats[r].device + 1);
            fail(c, ncclInvalidUsage, text);
        }
}

static ncclResult_t new_comm(ncclComm_t *out, int rank, int size, const ncclUniqueId &id)
{
    auto c = std::make_shared<body>();
    c->rank = rank;
    c->size = size;
    c->device = current_device();
    const ncclResult_t result = take_seat(*c, id);
    if (result != ncclSuccess) return result;
    static std::vector<std::unique_ptr<ncclComm>> all; // handles stay
    all.push_back(std::make_unique<ncclComm>(ncclComm{c}));
    *out = all.back().get();
    return ncclSuccess;
}

// ---- splitting

// The members of a color in the order of the new communicator.
static std::vector<int> members_of(const body &c, int color)
{
    std::vector<int> out;
    const seat *seats = c.shared->seats;
    for (int r = 0; r < c.size; r++) {
        if (seats[r].color != color) continue;
        auto at = out.end();
        while (at != out.begin() && seats[*(at - 1)].key > seats[r].key) --at;
        out.insert(at, r);
    }
    return out;
}

static void go_on_splitting(body &c)
{
    seat &own = c.shared->seats[c.rank];
    for (int r = 0; r < c.size; r++)
        if (c.shared->seats[r].splits < c.splits) return;
    if (own.color >= 0) {
        const std::vector<int> members = members_of(c, own.color);
        seat &first = c.shared->seats[members[0]];
        int rank = 0;
        while (members[(size_t)rank] != c.rank) rank++;
        if (rank == 0 && own.told < c.splits) {
            make_id(&own.id);
            own.told = c.splits;
        }
        if (first.told < c.splits) return;
        const ncclResult_t made = new_comm(c.child, rank, (int)members.size(), first.id);
        if (made != ncclSuccess) return fail(c, made, "a new communicator");
    }
    c.at = phase::READY;
}

// ---- issuing

static void check_usable(ncclComm_t comm, const char *what)
{
    if (!comm) stand_in_die("%s: no communicator", what);
    const body &c = *comm->body;
    if (c.at == phase::ENDED) stand_in_die("%s: the communicator was ended before", what);
    if (c.at != phase::READY && c.at != phase::FAILED)
        stand_in_die("%s: an earlier call of the communicator is in progress; "
                     "ncclCommGetAsyncError says when it is done",
                     what);
    if (c.device != current_device())
        stand_in_die("%s: GPU %d is the thread's current one, the communicator has %d", what,
                     current_device(), c.device);
}

static job &job_of(void *state)
{
    return **(std::shared_ptr<job> *)state;
}

static void run_job(void *state)
{
    run(job_of(state));
}

static bool is_job_ready(void *state)
{
    return is_ready(job_of(state));
}

static bool has_job_ended(void *state)
{
    return job_of(state).ended;
}

static void release_job(void *state)
{
    delete (std::shared_ptr<job> *)state;
}

// Issues the job to its stream, in the thread that made the call.
static void launch(body &c)
{
    const std::shared_ptr<job> j = c.launch;
    enum cudaStreamCaptureStatus status;
    unsigned long long id = 0;
    c.launch = nullptr;
    c.at = phase::READY;
    if (cudaStreamGetCaptureInfo(j->stream, &status, &id) != cudaSuccess)
        return fail(c, ncclUnhandledCudaError, "the stream");
    j->captured = status == cudaStreamCaptureStatusActive;
    if (j->captured && !c.captures[id]) c.captures[id] = std::make_shared<order>();
    j->order = j->captured ? c.captures[id] : c.issued;
    j->ticket = j->order->calls++;
    const stand_in_work work = {.name = name_of(j->parts[0].call),
                                .run = run_job,
                                .release = release_job,
                                .state = new std::shared_ptr<job>(j),
                                .ready = is_job_ready,
                                .ended = has_job_ended};
    if (stand_in_issue(j->stream, work) != cudaSuccess)
        fail(c, ncclUnhandledCudaError, "the work of a call");
}

static ncclResult_t start(ncclComm_t comm, const std::shared_ptr<job> &j, const char *what)
{
    std::lock_guard<std::mutex> g(mutex());
    check_usable(comm, what);
    body &c = *comm->body;
    if (c.at == phase::FAILED) return c.failure;
    static const char *error = getenv("TRIREME_STAND_IN_NCCL_ERROR");
    if (error && c.issued->calls >= (uint64_t)atoi(error)) {
        fail(c, ncclRemoteError, "the stand-in was told so");
        return ncclInProgress;
    }
    j->comm = comm->body;
    c.launch = j;
    c.caller = pthread_self();
    c.polls = 0;
    c.at = phase::LAUNCHING;
    return ncclInProgress;
}

static void check_apart(const char *what, const char *a, size_t a_bytes, const char *b,
                        size_t b_bytes, const char *in_place)
{
    if (a == in_place || a_bytes == 0 || b_bytes == 0) return;
    if (a < b + b_bytes && b < a + a_bytes)
        stand_in_die("%s: the arrays overlap, and are not those of a call in place", what);
}

static void check_arrays(const body &c, const job::part &p)
{
    const char *what = name_of(p.call);
    const size_t element = bytes_of(p.call.type), one = p.call.count * element,
                 all = one * (size_t)c.size;
    const bool gathers = p.call.kind == ALL_GATHER, scatters = p.call.kind == REDUCE_SCATTER;
    const size_t in = scatters ? all : one, out = gathers ? all : one, own = one * (size_t)c.rank;
    if (element == 0) stand_in_die("%s: type %u", what, p.call.type);
    if (((uintptr_t)p.in | (uintptr_t)p.out) % element != 0)
        stand_in_die("%s: an array is not aligned to its elements", what);
    if (p.in) stand_in_check_range(what, p.in, in);
    if (p.out) stand_in_check_range(what, p.out, out);
    if (gathers)
        check_apart(what, p.in, in, p.out, out, p.out + own);
    else if (scatters)
        check_apart(what, p.out, out, p.in, in, p.in + own);
    else if (p.in && p.out)
        check_apart(what, p.in, in, p.out, out, p.out);
}

static ncclResult_t call(ncclComm_t comm, cudaStream_t stream, terms call, const void *in,
                         void *out)
{
    if (!comm) return ncclInvalidArgument;
    const job::part p = {call, (const char *)in, (char *)out};
    const body &c = *comm->body;
    if (call.root < 0 || call.root >= c.size) return ncclInvalidArgument;
    if (call.count == 0) stand_in_die("%s: of no elements", name_of(call));
    check_arrays(c, p);
    tape_write("nccl call=%u type=%u op=%u in_place=%d", call.kind, call.type, call.op, in == out);
    group &g = open_group;
    if (g.depth == 0) {
        auto j = std::make_shared<job>();
        j->stream = stream;
        j->parts = {p};
        return start(comm, j, name_of(call));
    }
    if (call.kind != MESSAGE || (g.comm && g.comm != comm))
        stand_in_die("%s: a group has messages of one communicator here", name_of(call));
    if (!g.calls) g.calls = std::make_shared<job>();
    if (g.comm && g.calls->stream != stream)
        stand_in_die("%s: a group has one stream here", name_of(call));
    g.comm = comm;
    g.calls->stream = stream;
    g.calls->parts.push_back(p);
    return ncclSuccess;
}

} // namespace stand_in_nccl

extern "C" {

ncclResult_t ncclGetVersion(int *version)
{
    *version = 22809;
    return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t result)
{
    return result == ncclSuccess              ? "no error"
           : result == ncclInvalidUsage       ? "invalid usage"
           : result == ncclInvalidArgument    ? "invalid argument"
           : result == ncclUnhandledCudaError ? "unhandled cuda error"
           : result == ncclRemoteError        ? "remote process exited or there was a network error"
           : result == ncclSystemError        ? "unhandled system error"
                                              : "internal error";
}

const char *ncclGetLastError(ncclComm_t comm)
{
    return comm ? comm->body->last_error.c_str() : "";
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    return make_id(id);
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t *config)
{
    std::lock_guard<std::mutex> g(mutex());
    if (size < 1 || size > MOST_RANKS || rank < 0 || rank >= size ||
        config->magic != NCCL_CONFIG_MAGIC || config->size != sizeof *config)
        return ncclInvalidArgument;
    if (config->blocking != 0) stand_in_die("ncclCommInitRankConfig: a communicator that blocks");
    const ncclResult_t made = new_comm(comm, rank, size, id);
    return made == ncclSuccess ? ncclInProgress : made;
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *out,
                           ncclConfig_t *config)
{
    std::lock_guard<std::mutex> g(mutex());
    if (config->blocking != 0) stand_in_die("ncclCommSplit: a communicator that blocks");
    check_usable(comm, "ncclCommSplit");
    body &c = *comm->body;
    if (color < NCCL_SPLIT_NOCOLOR) return ncclInvalidArgument;
    seat &own = c.shared->seats[c.rank];
    own.color = color;
    own.key = key;
    *out = nullptr;
    c.child = out;
    c.splits++;
    own.splits = c.splits;
    c.at = phase::SPLITTING;
    return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error)
{
    std::lock_guard<std::mutex> g(mutex());
    if (!comm || comm->body->at == phase::ENDED) return ncclInvalidArgument;
    body &c = *comm->body;
    if (c.at == phase::JOINING && ++c.polls > 1) look_at_seats(c);
    if (c.at == phase::SPLITTING) go_on_splitting(c);
    if (c.at == phase::LAUNCHING && pthread_equal(c.caller, pthread_self()) && ++c.polls > 1)
        launch(c);
    if (c.at == phase::FINISHING && !c.running) c.at = phase::READY;
    *error = c.at == phase::FAILED  ? c.failure
             : c.at == phase::READY ? ncclSuccess
                                    : ncclInProgress;
    return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
    std::lock_guard<std::mutex> g(mutex());
    check_usable(comm, "ncclCommFinalize");
    if (comm->body->at == phase::READY) comm->body->at = phase::FINISHING;
    return ncclInProgress;
}

static void end(body &c)
{
    c.at = phase::ENDED;
    c.aborted = true; // what still runs ends
}

ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    if (!comm) return ncclSuccess;
    std::lock_guard<std::mutex> g(mutex());
    check_usable(comm, "ncclCommDestroy");
    if (comm->body->running) stand_in_die("ncclCommDestroy: a call of the communicator runs");
    end(*comm->body);
    return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    if (!comm) return ncclSuccess;
    std::lock_guard<std::mutex> g(mutex());
    if (comm->body->at == phase::ENDED)
        stand_in_die("ncclCommAbort: the communicator was ended before");
    end(*comm->body);
    return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void *in, void *out, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    return call(comm, stream, {ALL_REDUCE, type, op, 0, count}, in, out);
}

ncclResult_t ncclReduceScatter(const void *in, void *out, size_t shard_count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    return call(comm, stream, {REDUCE_SCATTER, type, op, 0, shard_count}, in, out);
}

ncclResult_t ncclAllGather(const void *in, void *out, size_t shard_count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream)
{
    return call(comm, stream, {ALL_GATHER, type, 0, 0, shard_count}, in, out);
}

ncclResult_t ncclBroadcast(const void *in, void *out, size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream)
{
    return call(comm, stream, {BROADCAST, type, 0, root, count}, in, out);
}

ncclResult_t ncclSend(const void *buf, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream)
{
    return call(comm, stream, {MESSAGE, type, 0, peer, count}, buf, nullptr);
}

ncclResult_t ncclRecv(void *buf, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream)
{
    return call(comm, stream, {MESSAGE, type, 0, peer, count}, nullptr, buf);
}

ncclResult_t ncclGroupStart(void)
{
    open_group.depth++;
    return ncclSuccess;
}

ncclResult_t ncclGroupEnd(void)
{
    group &g = open_group;
    if (g.depth == 0) return ncclInvalidUsage;
    if (--g.depth > 0) return ncclSuccess;
    const ncclComm_t comm = g.comm;
    const std::shared_ptr<job> calls = g.calls;
    g.comm = nullptr;
    g.calls = nullptr;
    return comm ? start(comm, calls, "ncclGroupEnd") : ncclSuccess;
}
}
