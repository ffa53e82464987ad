// tier_uring.c -- the engine of a tier that transfers blocks by io_uring. tier_service.c calls it
// through tier_engine_ops. It deliberately does not know requests or retries, and it returns the
// disk's errors as numbers.
#include "store/tier_private.h"

#include "base/alloc.h"

#include <errno.h>
#include <liburing.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef struct tier_uring {
    tier_engine base;
    struct io_uring ring;
    int fd;
} tier_uring;

// A ring for a single thread belongs to the thread that enables it, so `begin` enables it.
static status uring_begin(tier_engine *g, err *e)
{
    tier_uring *u = (tier_uring *)g;
    if (!(u->ring.flags & IORING_SETUP_R_DISABLED)) return OK;
    // liburing 2.3 does not export its own function for this call.
    const long rc =
        syscall(SYS_io_uring_register, u->ring.ring_fd, IORING_REGISTER_ENABLE_RINGS, NULL, 0);
    return rc < 0 ? err_errno(e, "io_uring") : OK;
}

static void uring_push(tier_engine *g, const tier_io *io)
{
    tier_uring *u = (tier_uring *)g;
    // Never NULL: the ring has an entry for each of the `depth` transfers.
    struct io_uring_sqe *entry = io_uring_get_sqe(&u->ring);
    if (io->write)
        io_uring_prep_write(entry, u->fd, io->ptr, (unsigned)io->bytes, io->offset);
    else
        io_uring_prep_read(entry, u->fd, io->ptr, (unsigned)io->bytes, io->offset);
    io_uring_sqe_set_data64(entry, io->slot);
}

static status uring_submit_and_wait(tier_engine *g, unsigned least, tier_done *done,
                                    unsigned *count, err *e)
{
    tier_uring *u = (tier_uring *)g;
    int rc;
    do rc = io_uring_submit_and_wait(&u->ring, least);
    while (rc == -EINTR);
    *count = 0;
    // After EAGAIN and EBUSY the kernel accepts the remaining transfers in the next call.
    if (rc < 0 && rc != -EAGAIN && rc != -EBUSY) {
        errno = -rc;
        return err_errno(e, "io_uring");
    }
    unsigned head;
    struct io_uring_cqe *entry;
    io_uring_for_each_cqe(&u->ring, head, entry)
    {
        done[*count].slot = (unsigned)io_uring_cqe_get_data64(entry);
        done[(*count)++].moved = entry->res;
    }
    io_uring_cq_advance(&u->ring, *count);
    return OK;
}

static void uring_close(tier_engine *g)
{
    tier_uring *u = (tier_uring *)g;
    io_uring_queue_exit(&u->ring);
    free(u);
}

// Kernels before 5.6 have rings, but lack the operations READ and WRITE.
static bool knows_operations(struct io_uring *ring)
{
    struct io_uring_probe *probe = io_uring_get_probe_ring(ring);
    const bool knows = probe && io_uring_opcode_supported(probe, IORING_OP_READ) &&
                       io_uring_opcode_supported(probe, IORING_OP_WRITE);
    io_uring_free_probe(probe);
    return knows;
}

// DEFER_TASKRUN (kernels from 6.1 on) handles all completions inside the wait, instead of one
// interrupt for each.
static int init(struct io_uring *ring, unsigned depth)
{
    const unsigned best =
        IORING_SETUP_R_DISABLED | IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN;
    const int rc = io_uring_queue_init(depth, ring, best);
    return rc == -EINVAL ? io_uring_queue_init(depth, ring, 0) : rc;
}

status tier_uring_open(int fd, unsigned depth, tier_engine **out, err *e)
{
    static const tier_engine_ops ops = {uring_begin, uring_push, uring_submit_and_wait,
                                        uring_close};
    tier_uring *u;
    const status result = alloc_zeroed(&u, 1, sizeof *u, "io_uring", e);
    if (result != OK) return result;
    int rc = init(&u->ring, depth);
    if (rc == 0 && !knows_operations(&u->ring)) {
        io_uring_queue_exit(&u->ring);
        rc = -EOPNOTSUPP;
    }
    if (rc != 0) {
        free(u);
        return err_set(e, E_IO, "%s", strerror(-rc));
    }
    u->base = (tier_engine){&ops, sizeof *u + u->ring.sq.ring_sz + u->ring.cq.ring_sz +
                                      u->ring.sq.ring_entries * sizeof(struct io_uring_sqe)};
    u->fd = fd;
    *out = &u->base;
    return OK;
}
