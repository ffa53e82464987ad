// world.c -- opens what the ranks of one machine share, before they start. See world.h.
//
// Called by the starting process (launch/). It does not know how ranks are started, and it does not
// know any collective.
#include "comm/world.h"

#include "base/proc.h"
#include "base/size.h"

#include <sys/mman.h>
#include <unistd.h>

// Sizes for each rank, besides a fixed part: buffers of the arena, and keys of the store. A split
// takes three keys at most for each rank.
enum { BUFFERS = 1 << 15, BUFFERS_EACH = 128, KEYS = 256, KEYS_EACH = 8 };

status world_open(int ranks, bool as_threads, world **out, err *e)
{
    status result = OK;
    *out = NULL;
    if (ranks < 1 || ranks > WORLD_MOST_RANKS)
        return err_set(e, E_USAGE, "%d ranks on one machine: valid are 1 to %d", ranks,
                       WORLD_MOST_RANKS);
    const size_t watchdog = size_align(sizeof(world), 64),
                 failure = watchdog + comm_watchdog_bytes(ranks),
                 stop = failure + size_align(sizeof(comm_failure), 64),
                 bytes = stop + sizeof(comm_stop);
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return err_errno(e, "cannot map what ranks share");
    world *w = (world *)memory;
    *w = (world){.ranks = ranks,
                 .as_threads = as_threads,
                 .spin = ranks <= proc_usable_cores(),
                 .failure = (comm_failure *)(memory + failure),
                 .stop = (comm_stop *)(memory + stop),
                 .watchdog = (comm_watchdog *)(memory + watchdog),
                 .bytes = bytes};
    if (ranks > 1) {
        TRY(comm_arena_open(BUFFERS + BUFFERS_EACH * ranks, &w->arena, e));
        TRY(comm_store_page_open(KEYS + KEYS_EACH * ranks, &w->store, e));
    }
    *out = w;
done:
    if (result != OK) world_close(w);
    return result;
}

status world_record(world *w, int entries, bool compares, err *e)
{
    const comm_recorder_options o = {.ranks = w->ranks,
                                     .entries = entries,
                                     .compares = compares,
                                     .spin = w->spin,
                                     .failure = w->failure,
                                     .watchdog = w->watchdog};
    return entries || compares ? comm_recorder_open(&o, &w->recorder, e) : OK;
}

void world_close(world *w)
{
    if (!w) return;
    comm_recorder_close(w->recorder);
    comm_store_close(w->store);
    comm_arena_close(w->arena);
    munmap(w, w->bytes);
}

comm_options world_options(world *w, int rank, device *d, int64_t deadline_ms)
{
    return (comm_options){.rank = rank,
                          .size = w->ranks,
                          .local_rank = rank,
                          .local_size = w->ranks,
                          .store = w->store,
                          .device = d,
                          .deadline_ms = deadline_ms,
                          .world = w};
}
