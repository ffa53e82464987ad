// registry.c -- the communicators that this version has: their names, what they can do, and how each
// is opened. See registry.h. A new communicator is one row.
//
// Called by session/ and by programs that measure. Of a communicator it knows no more than its row.
#include "comm/registry.h"

#include "comm/hier/hier.h"
#include "comm/local/local.h"
#include "comm/nccl/nccl.h"
#include "comm/network/mpi.h"
#include "comm/network/network.h"
#include "comm/network/tls.h"
#include "comm/p2p/p2p.h"
#include "comm/recorder.h"
#include "comm/solo.h"
#include "device/kernels.h"
#include "rendezvous/hosts.h"
#include "rendezvous/world.h"
#ifdef TRIREME_UCX
#include "comm/network/ucx.h"
#endif

#include <string.h>

// The memory of the devices that a communicator works on: any, what the host can address, or GPUs' own.
typedef enum row_memory { MEMORY_ANY, MEMORY_OF_HOST, MEMORY_APART } row_memory;

typedef struct registry_row {
    const char *name;
    const comm_capabilities *can;
    int least_ranks, most_ranks; // most_ranks 0: any number
    row_memory memory;
    bool is_far;   // its ranks may be on several machines
    bool is_named; // "auto" never takes it
    status (*open)(const comm_options *o, comm **out, err *e);
    comm_describe_flows describe; // its calls
} registry_row;

static status solo_row_open(const comm_options *o, comm **out, err *e)
{
    (void)o;
    return comm_solo_open(out, e);
}

// "auto" is the first row that can have the ranks and the device.
static const registry_row ROWS[] = {
    {"solo", &SOLO_CAPABILITIES, 1, 1, MEMORY_ANY, false, false, solo_row_open, solo_flows},
    {"local", &LOCAL_CAPABILITIES, 2, 0, MEMORY_OF_HOST, false, false, local_open, local_flows},
    {"p2p", &P2P_CAPABILITIES, 2, KERNEL_REDUCE_RANKS, MEMORY_ANY, false, false, p2p_open,
     p2p_flows},
    {"nccl", &NCCL_CAPABILITIES, 2, NCCL_RANKS, MEMORY_APART, true, false, nccl_open, nccl_flows},
    {"hier", &HIER_CAPABILITIES, 2, REDUCE_SOURCES, MEMORY_OF_HOST, true, false, hier_open,
     hier_flows},
    {"tls", &NETWORK_CAPABILITIES, 2, REDUCE_SOURCES, MEMORY_OF_HOST, true, true, tls_open,
     network_flows},
#ifdef TRIREME_UCX
    {"ucx", &NETWORK_CAPABILITIES, 2, REDUCE_SOURCES, MEMORY_OF_HOST, true, true, ucx_open,
     network_flows},
#endif
    {"mpi", &NETWORK_CAPABILITIES, 2, REDUCE_SOURCES, MEMORY_OF_HOST, true, true, mpi_open,
     network_flows},
};
enum { ROW_COUNT = sizeof ROWS / sizeof *ROWS };

#ifdef TRIREME_UCX
#define NOT_BUILT ""
#else
#define NOT_BUILT "; ucx is not built in"
#endif
static const char VALID[] =
    "auto, solo (one rank), local (ranks of one machine), p2p (ranks of one machine whose devices "
    "have memory of their own), nccl (GPUs of any hosts, one for each rank), hier (ranks of "
    "several "
    "hosts: local in each; between them ucx over RDMA devices, else tls), tls (ranks on any "
    "hosts), "
    "ucx (ranks on any hosts of a trusted network), and mpi (ranks that mpirun has "
    "started)" NOT_BUILT;

const char *const COMM_WORDS[] = {"auto", "local", "p2p", "nccl", "hier",
                                  "tls",  "ucx",   "mpi", NULL};

static bool can_have(const registry_row *row, int size)
{
    return size >= row->least_ranks && (size <= row->most_ranks || row->most_ranks == 0);
}

// nccl takes more GPUs than p2p does. It is not chosen by itself: each of its ranks needs a GPU of its own.
static const char *larger_than(const registry_row *row, int size)
{
    return row->open == p2p_open && size > row->most_ranks && size <= NCCL_RANKS
               ? "; valid for them is nccl, with a GPU for each rank"
               : "";
}

static status refuse_ranks(const registry_row *row, int size, err *e)
{
    if (row->least_ranks == row->most_ranks)
        return err_set(e, E_USAGE, "communicator %s: found %d ranks; valid are %d", row->name, size,
                       row->most_ranks);
    if (row->most_ranks == 0)
        return err_set(e, E_USAGE, "communicator %s: found %d ranks; valid are %d and more",
                       row->name, size, row->least_ranks);
    return err_set(e, E_USAGE, "communicator %s: found %d ranks; valid are %d to %d%s", row->name,
                   size, row->least_ranks, row->most_ranks, larger_than(row, size));
}

static bool is_chosen(const registry_row *row, int size, bool is_far, bool host_memory)
{
    return !row->is_named && size >= row->least_ranks && (row->most_ranks != 1 || size == 1) &&
           (row->is_far || !is_far) && row->memory != (host_memory ? MEMORY_APART : MEMORY_OF_HOST);
}

static status find(const char *name, int size, bool is_far, bool host_memory,
                   const registry_row **out, err *e)
{
    const bool is_auto = strcmp(name, "auto") == 0;
    const registry_row *row = NULL;
    for (int i = 0; i < ROW_COUNT && !row; i++)
        if (is_auto ? is_chosen(&ROWS[i], size, is_far, host_memory)
                    : strcmp(ROWS[i].name, name) == 0)
            row = &ROWS[i];
    *out = row;
    if (is_far && (row ? !row->is_far : is_auto))
        return err_set(
            e, E_USAGE,
            "communicator %s: ranks are on several machines; valid are nccl, for GPUs, and "
            "hier, tls and, where it is built in, ucx, for devices whose memory the host can "
            "address",
            name);
    if (!row) return err_set(e, E_USAGE, "communicator %s: valid are %s", name, VALID);
    return can_have(row, size) ? OK : refuse_ranks(row, size, e);
}

status comm_describe(const char *name, int size, bool is_far, bool host_memory,
                     comm_description *out, err *e)
{
    const registry_row *row;
    const status result = find(name, size, is_far, host_memory, &row, e);
    if (result == OK)
        *out = (comm_description){.name = row->name,
                                  .can = *row->can,
                                  .least_ranks = row->least_ranks,
                                  .most_ranks = row->most_ranks};
    return result;
}

bool comm_flows_row_of(const char *name, comm_flows_row *out)
{
    for (int i = 0; i < ROW_COUNT; i++) {
        if (strcmp(ROWS[i].name, name) != 0) continue;
        *out = (comm_flows_row){ROWS[i].can, ROWS[i].describe};
        return true;
    }
    return false;
}

status comm_open(const char *name, comm_options o, comm **out, err *e)
{
    const registry_row *row;
    const bool host_memory = o.device->ops->call != NULL;
    *out = NULL;
    status result = find(name, o.size, o.local_size < o.size, host_memory, &row, e);
    if (result == OK) result = row->open(&o, out, e);
    if (result == OK && o.world && o.world->last_calls.recorder)
        result = comm_recorder_attach(o.world->last_calls.recorder, o.local_rank, *out, e);
    if (result != OK && *out) {
        comm_close(*out);
        *out = NULL;
    }
    return result;
}

comm_options comm_world_options(world *w, int rank, device *d, int64_t deadline_ms)
{
    return (comm_options){.rank = rank,
                          .size = w->all_ranks,
                          .local_rank = rank - w->first_rank,
                          .local_size = w->ranks,
                          .store = w->hosts ? w->hosts->store : w->store,
                          .device = d,
                          .deadline_ms = deadline_ms,
                          .world = w};
}
