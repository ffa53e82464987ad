// world.c -- the state that the ranks of one machine share: it opens it before the fork, and holds
// the first failure, the request to stop, and the process groups.
//
// Called by the starting process (launch/), and once by each rank. It does not know how ranks are
// started, and it does not know any collective.
#define _GNU_SOURCE // CPU_COUNT
#include "comm/shared.h"

#include "base/size.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

// How long a rank waits for the failure record of a rank that has left its communicators.
enum { LEAVER_WAIT_MS = 500 };

// Maps address space only: a page is taken when it is first written. The size is halved until the
// limit of the process (ulimit -v) allows it. The memory is anonymous, so a limit of file size does
// not matter.
static status arena_map(world *w, err *e)
{
    const size_t least = (size_t)64 << 20;
    size_t bytes = 4 * (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
    if (bytes < (size_t)16 << 30) bytes = (size_t)16 << 30;
    for (; bytes >= least; bytes /= 2) {
        void *arena = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                           MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (arena == MAP_FAILED) continue;
        madvise(arena, bytes, MADV_DONTDUMP);
        w->arena = arena;
        w->arena_bytes = bytes;
        return OK;
    }
    return err_set(e, E_IO,
                   "cannot map %zu MiB of shared memory: see the limit that ulimit -v shows",
                   least >> 20);
}

static int usable_cores(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
    return (int)sysconf(_SC_NPROCESSORS_ONLN); // more cores than a cpu_set_t holds
}

status world_open(int ranks, bool as_threads, world **out, err *e)
{
    status result = OK;
    world *w = MAP_FAILED;
    *out = NULL;
    if (ranks < 1 || ranks > WORLD_RANKS)
        FAIL(E_USAGE, "%d ranks on one machine: valid are 1 to %d", ranks, WORLD_RANKS);
    w = mmap(NULL, sizeof *w, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (w == MAP_FAILED) {
        result = err_errno(e, "cannot map the ranks' control page");
        goto done;
    }
    w->ranks = ranks;
    w->as_threads = as_threads;
    w->spin = ranks <= usable_cores();
    if (ranks > 1) {
        int everyone[WORLD_RANKS];
        for (int r = 0; r < ranks; r++) everyone[r] = r;
        TRY(arena_map(w, e));
        TRY(comm_group_open(w, ranks, everyone, &w->all, e));
    }
    *out = w;
done:
    if (result != OK && w != MAP_FAILED) world_close(w);
    return result;
}

void world_close(world *w)
{
    if (!w) return;
    if (w->arena) munmap(w->arena, w->arena_bytes);
    munmap(w, sizeof *w);
}

int world_size(const world *w)
{
    return w->ranks;
}

status world_attach(world *w, int rank, device *d, comm **out, err *e)
{
    status result = OK;
    *out = NULL;
    if (w->ranks == 1) {
        TRY(comm_solo_open(out, e));
    } else {
        if (!d->ops->call)
            FAIL(E_USAGE,
                 "device %s: ranks of one machine need a device whose memory the host "
                 "can address, for example cpu",
                 d->ops->name);
        TRY(local_comm_open(w, w->all, rank, out, e));
    }
done:
    return result;
}

// A rank claims the failure first and writes the record after that. Readers wait for
// failure_publish, so they never see an incomplete record.
static bool failure_claim(world *w, int rank)
{
    int none = 0;
    return atomic_compare_exchange_strong(&w->claimed, &none, rank + 2);
}

static void failure_publish(world *w, int rank)
{
    w->failed_rank = rank;
    atomic_store_explicit(&w->failed, 1, memory_order_release);
}

bool world_fail(world *w, int rank, const err *why)
{
    if (!failure_claim(w, rank)) return false;
    w->failure = *why;
    if (rank >= 0) err_prefix(&w->failure, "rank %d: ", rank);
    failure_publish(w, rank);
    return true;
}

bool world_lost(world *w, int rank, pid_t pid, int wait_status, const char *why)
{
    // A rank that died between its claim and its record cannot complete it.
    bool ours =
        failure_claim(w, rank) || (atomic_load(&w->claimed) == rank + 2 && !world_has_failed(w));
    if (!ours) return false;
    memset(&w->failure, 0, sizeof w->failure);
    if (WIFSIGNALED(wait_status))
        err_set(&w->failure, E_PEER, "rank %d (pid %d) was killed by signal %d (%s)%s%s", rank,
                (int)pid, WTERMSIG(wait_status), strsignal(WTERMSIG(wait_status)), why ? ": " : "",
                why ? why : "");
    else
        err_set(&w->failure, E_PEER,
                "rank %d (pid %d) ended with exit code %d before its work was done", rank, (int)pid,
                WEXITSTATUS(wait_status));
    failure_publish(w, rank);
    return true;
}

bool world_failure(const world *w, int *rank, err *out)
{
    if (!world_has_failed(w)) return false;
    if (rank) *rank = w->failed_rank;
    if (out) *out = w->failure;
    return true;
}

status world_peer_error(const world *w, err *e)
{
    return err_set(e, E_PEER, "%s", w->failure.text);
}

void world_set_watchdog(world *w, int64_t milliseconds)
{
    atomic_store(&w->watchdog_ms, milliseconds);
}

comm_activity *world_activity(world *w, int rank)
{
    return &w->activities[rank];
}

enum { ACTIVITY_BYTES = 96 };

// Describes the activity `what` of `rank` in out. Returns false when it is not known.
static bool describe_activity(world *w, int rank, uint64_t what, char out[ACTIVITY_BYTES])
{
    void (*describe)(uint64_t, char *, size_t) = atomic_load(&w->activities[rank].describe);
    if (!describe || !what) return false;
    describe(what, out, ACTIVITY_BYTES);
    return true;
}

status world_wait_error(world *w, const world_wait *wait, err *e)
{
    err why = {0};
    char waiting_for[ACTIVITY_BYTES], awaited_in[ACTIVITY_BYTES];
    if (world_has_failed(w)) return world_peer_error(w, e);
    const uint64_t awaited_what = atomic_load(&w->activities[wait->awaited].what);
    if (!describe_activity(w, wait->waiting, wait->what, waiting_for)) waiting_for[0] = 0;
    if (!describe_activity(w, wait->awaited, awaited_what, awaited_in)) awaited_in[0] = 0;
    err_set(&why, E_PEER,
            "Watchdog caught collective operation timeout: rank %d did not come to %s%s%s%s%s%s "
            "within %.3g s%s%s",
            wait->awaited, wait->call, wait->label ? " over " : "", wait->label ? wait->label : "",
            waiting_for[0] ? " (" : "", waiting_for, waiting_for[0] ? ")" : "",
            (double)atomic_load(&w->watchdog_ms) * 1e-3, awaited_in[0] ? "; it is in " : "",
            awaited_in);
    // -1: the message names the awaited rank, and no rank has reported a failure of its own.
    world_fail(w, -1, &why);
    return err_set(e, E_PEER, "%s", why.text);
}

bool world_leaver_failed(const world *w)
{
    const struct timespec one_ms = {0, 1000 * 1000};
    for (int i = 0; i < LEAVER_WAIT_MS && !world_has_failed(w); i++) nanosleep(&one_ms, NULL);
    return world_has_failed(w);
}

void world_request_stop(world *w)
{
    atomic_store(&w->stop, 1);
}

bool world_stop_requested(const world *w)
{
    return atomic_load(&w->stop) != 0;
}

status comm_group_open(world *w, int size, const int *world_ranks, comm_group **out, err *e)
{
    status result = OK;
    const size_t head = size_align(sizeof(comm_group), 64);
    const size_t members = (size_t)size * sizeof(comm_member);
    const size_t channels = (size_t)size * (size_t)size * sizeof(comm_channel);
    const size_t staging_offset = size_align(head + members + channels, 4096);
    void *memory = NULL;
    TRY(heap_take(w, staging_offset + (size_t)size * 4 * STAGING_BYTES, false, &memory, e));
    comm_group *g = memory;
    g->members_left = size;
    g->size = size;
    memcpy(g->world_rank, world_ranks, (size_t)size * sizeof *world_ranks);
    g->members = (comm_member *)((char *)memory + head);
    g->channels = (comm_channel *)((char *)memory + head + members);
    g->staging = (char *)memory + staging_offset;
    *out = g;
done:
    return result;
}

void comm_group_leave(world *w, comm_group *g)
{
    if (atomic_fetch_sub(&g->members_left, 1) != 1) return;
    for (int i = 0; i < g->size * g->size; i++) heap_give(w, g->channels[i].ring);
    heap_give(w, g);
}
