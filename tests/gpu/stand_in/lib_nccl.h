// lib_nccl.h -- shared by the two files of the stand-in of NCCL, and by no other file. lib_nccl.cpp has its calls,
// lib_nccl_run.cpp the work that they issue to streams.
#ifndef TRIREME_STAND_IN_LIB_NCCL_H
#define TRIREME_STAND_IN_LIB_NCCL_H

#include "device/cuda/libraries/cuda_nccl_abi.h"
#include "runtime.h"

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace stand_in_nccl
{

constexpr int MOST_RANKS = 16;
constexpr size_t CHUNK = 8192;

enum call_kind : uint32_t { ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, BROADCAST, MESSAGE };

// What both ends of a transfer must have in common.
struct terms {
    uint32_t kind, type, op;
    int32_t root;
    uint64_t count;
};

// ---- memory that the ranks of a communicator share: a file of the process that made its id

// Carries the bytes from one rank to another, chunk by chunk.
struct box {
    std::atomic<uint64_t> produced, consumed;
    terms call;
    uint64_t bytes; // of the transfer
    char data[CHUNK];
};

struct seat {
    std::atomic<int> taken;
    int device; // of the machine
    // The rank's latest ncclCommSplit.
    std::atomic<uint64_t> splits, told; // told: its first rank has written the id
    int color, key;
    ncclUniqueId id;
};

struct shared {
    int size;
    seat seats[MOST_RANKS];
    box boxes[MOST_RANKS][MOST_RANKS]; // [from][to]
};

// ---- work

struct transfer {
    int peer;
    bool receives;
    char *memory;
    size_t bytes, done;
    bool ended;
};

// How many calls of a communicator have run, of a capture or of the others.
struct order {
    std::atomic<uint64_t> calls = 0, done = 0;
};

// The calls of one communicator on one stream that start together. A graph runs a job many times.
struct job {
    std::shared_ptr<struct body> comm;
    struct part {
        terms call;
        const char *in;
        char *out;
    };
    std::vector<part> parts;
    cudaStream_t stream;
    std::shared_ptr<stand_in_nccl::order> order;
    uint64_t ticket = 0; // its place in the order
    bool captured = false;
    // While it runs:
    bool begun = false, ended = false;
    std::vector<transfer> all;
    std::vector<terms> calls; // of each transfer
    std::vector<char> room;   // of a sum: the arrays of the others
};

enum class phase { JOINING, READY, LAUNCHING, SPLITTING, FINISHING, FAILED, ENDED };

// A communicator. Work holds on to it.
struct body {
    stand_in_nccl::shared *shared = nullptr;
    int rank = 0, size = 0, device = 0;
    phase at = phase::JOINING;
    ncclResult_t failure = ncclSuccess;
    std::string last_error;
    std::atomic<bool> aborted = false, running = false;
    // LAUNCHING: what is issued when its thread asks again.
    std::shared_ptr<job> launch;
    pthread_t caller;
    int polls = 0;
    // SPLITTING
    ncclComm_t *child = nullptr;
    uint64_t splits = 0;
    std::shared_ptr<stand_in_nccl::order> issued = std::make_shared<order>();
    std::map<uint64_t, std::shared_ptr<stand_in_nccl::order>> captures;
};

std::mutex &mutex();
const char *name_of(const terms &t);
size_t bytes_of(uint32_t type);
// Can a step of the job be made now, and a step. Called by streams.
bool is_ready(const job &j);
void run(job &j);

} // namespace stand_in_nccl

// What the handle of a communicator points to. It stays after its end, so that later uses are noticed.
struct ncclComm {
    std::shared_ptr<stand_in_nccl::body> body;
};

#endif
