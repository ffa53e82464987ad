// attach.c -- see attach.h. Called by launch/. Messages are packets of a fixed size: a request to rank 0, and its
// reply, which carries the descriptor of the memory or an error.
#define _GNU_SOURCE // struct ucred, accept4
#include "rendezvous/attach.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/size.h"
#include "base/text.h"
#include "rendezvous/peers.h"
#include "rendezvous/world_private.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <xxhash.h>

// As long as nobody listens, or another process has the name, a process tries again each AGAIN_MS.
enum { AGAIN_MS = 10, MS_NS = 1000000, VERSION_BYTES = 24, LISTED = 8 };

typedef struct attach_request {
    char version[VERSION_BYTES];
    int32_t rank, ranks, first_rank;
    uint32_t slots; // comm_mapping_free_slots
} attach_request;

typedef struct attach_reply {
    status code; // OK: a descriptor comes with it
    char text[ERR_TEXT_BYTES];
    void *address;
    size_t bytes;
} attach_reply;

// Rank 0 while the others join.
typedef struct attach_rendezvous {
    const comm_rank_location *location;
    int64_t end_ns;
    int listener;
    uint32_t slots;
    comm_peers *peers; // by rank - 1; fd -1: has not joined
} attach_rendezvous;

static attach_request own_request(const comm_rank_location *p)
{
    attach_request h = {.rank = p->rank,
                        .ranks = p->ranks,
                        .first_rank = p->first_rank,
                        .slots = comm_mapping_free_slots()};
    snprintf(h.version, sizeof h.version, "%s", p->version);
    return h;
}

// "\0trireme-attach-", the user, and a hash of the identity.
static socklen_t name_of(const comm_rank_location *p, struct sockaddr_un *out)
{
    const uint64_t hash = XXH3_64bits(p->identity, strlen(p->identity));
    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    const int length =
        snprintf(out->sun_path + 1, sizeof out->sun_path - 1, "trireme-attach-%u-%016llx",
                 (unsigned)geteuid(), (unsigned long long)hash);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

static double seconds_of(const comm_rank_location *p)
{
    return (double)p->deadline_ms * 1e-3;
}

static status open_socket(int *fd, err *e)
{
    *fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    return *fd >= 0 ? OK : err_errno(e, "cannot open a socket for the ranks of this machine");
}

// Returns whether something can be read before the deadline.
static bool wait_readable(int fd, int64_t end_ns)
{
    for (;;) {
        struct pollfd one = {.fd = fd, .events = POLLIN};
        const int64_t left_ms = (end_ns - clock_ns() + MS_NS - 1) / MS_NS;
        const int ready = poll(&one, 1, (int)size_min(size_max(left_ms, 0), 1000));
        if (ready > 0) return true;
        if (ready < 0 && errno != EINTR) return false;
        if (left_ms <= 0) return false;
    }
}

// The process at the other end. False where it belongs to another user.
static bool read_peer(int fd, pid_t *pid)
{
    struct ucred who = {.pid = 0};
    socklen_t bytes = sizeof who;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &bytes) != 0) return false;
    *pid = who.pid;
    return who.uid == geteuid();
}

static void close_fd(int *fd)
{
    if (*fd >= 0) close(*fd);
    *fd = -1;
}

// ---- Rank 0

static status listen_as(attach_rendezvous *m, err *e)
{
    status result = OK;
    struct sockaddr_un name;
    const socklen_t bytes = name_of(m->location, &name);
    TRY(open_socket(&m->listener, e));
    while (bind(m->listener, (const struct sockaddr *)&name, bytes) != 0) {
        if (errno == EADDRINUSE && clock_ns() >= m->end_ns)
            FAIL(E_USAGE, "another process is rank 0 of this job (%s); valid: one process a rank",
                 m->location->identity);
        if (errno != EADDRINUSE) {
            result = err_errno(e, "cannot listen for the ranks of this machine");
            goto done;
        }
        usleep(AGAIN_MS * 1000);
    }
    if (listen(m->listener, SOMAXCONN) != 0)
        result = err_errno(e, "cannot listen for the ranks of this machine");
done:
    return result;
}

// Names the ranks that did not join.
static status refuse_missing(const attach_rendezvous *m, int missing, err *e)
{
    text list = {0};
    int listed = 0;
    for (int i = 0; i < m->peers->count && listed < LISTED; i++)
        if (m->peers->items[i].fd < 0) text_addf(&list, listed++ ? ", %d" : "%d", i + 1);
    if (missing > listed) text_addf(&list, " and %d more", missing - listed);
    err_set(e, E_PEER, "local rank%s %s of %d did not come within %.3g s (%s)",
            missing == 1 ? "" : "s", list.chars, m->location->ranks, seconds_of(m->location),
            m->location->identity);
    text_clear(&list);
    return E_PEER;
}

static status check_request(const attach_rendezvous *m, const attach_request *h, pid_t pid, err *e)
{
    const int ranks = m->location->ranks;
    if (strncmp(h->version, m->location->version, sizeof h->version) != 0)
        return err_set(e, E_USAGE, "rank %d is Trireme %.*s, rank 0 is %s; valid: one version",
                       h->rank, VERSION_BYTES, h->version, m->location->version);
    if (h->ranks != ranks || h->rank < 1 || h->rank >= ranks)
        return err_set(
            e, E_USAGE,
            "a process was started as rank %d of %d, and rank 0 as one of %d; valid: one "
            "number of ranks",
            h->rank, h->ranks, ranks);
    if (h->first_rank != m->location->first_rank)
        return err_set(
            e, E_USAGE,
            "local rank %d is rank %d of the run, and local rank 0 is rank %d; valid: ranks of a "
            "host that follow each other (srun --distribution=block, mpirun --map-by slot)",
            h->rank, h->first_rank + h->rank, m->location->first_rank);
    const comm_peer *before = &m->peers->items[h->rank - 1];
    if (before->fd >= 0)
        return err_set(e, E_USAGE,
                       "two processes are rank %d of this job (%s): pid %d and pid %d; valid: one",
                       h->rank, m->location->identity, (int)before->pid, (int)pid);
    return OK;
}

// Sends a reply, with the descriptor if it is no error. A process that has exited is noticed later.
static void send_reply(int fd, const attach_reply *w, int memory_fd)
{
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } control = {.room = {0}};
    struct iovec part = {(void *)w, sizeof *w};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (memory_fd >= 0) {
        message.msg_control = control.room;
        message.msg_controllen = sizeof control.room;
        struct cmsghdr *c = CMSG_FIRSTHDR(&message);
        *c = (struct cmsghdr){
            .cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
        memcpy(CMSG_DATA(c), &memory_fd, sizeof memory_fd);
    }
    (void)sendmsg(fd, &message, MSG_NOSIGNAL);
}

static void refuse(int fd, const err *why)
{
    attach_reply w = {.code = why->code};
    snprintf(w.text, sizeof w.text, "%s", why->text);
    send_reply(fd, &w, -1);
}

// Takes one connection. A process that exits before its request has arrived has not joined.
static status take_connection(attach_rendezvous *m, int *left, err *e)
{
    status result = OK;
    attach_request h = {.rank = 0};
    pid_t pid = 0;
    int fd = accept4(m->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) return OK;
    if (!read_peer(fd, &pid) || !wait_readable(fd, m->end_ns) ||
        recv(fd, &h, sizeof h, 0) != (ssize_t)sizeof h)
        goto done;
    err why = {.code = OK};
    result = check_request(m, &h, pid, &why);
    if (result != OK) {
        refuse(fd, &why);
        err_set(e, result, "%s", why.text);
        goto done;
    }
    m->peers->items[h.rank - 1] = (comm_peer){.rank = h.rank, .fd = fd, .pid = pid};
    m->slots &= h.slots;
    fd = -1;
    --*left;
done:
    close_fd(&fd);
    return result;
}

static status gather(attach_rendezvous *m, err *e)
{
    status result = OK;
    int left = m->peers->count;
    TRY(listen_as(m, e));
    while (left > 0) {
        if (!wait_readable(m->listener, m->end_ns)) return refuse_missing(m, left, e);
        TRY(take_connection(m, &left, e));
    }
    if (!m->slots)
        FAIL(E_USAGE,
             "no address of shared memory is free in all processes of this machine; valid: "
             "trireme train without another launcher");
done:
    return result;
}

static status peers_open(int count, comm_peers **out, err *e)
{
    status result = OK;
    const size_t bytes = sizeof **out + (size_t)count * sizeof(comm_peer);
    TRY(alloc_zeroed(out, 1, bytes, "the processes of this machine", e));
    (*out)->count = count;
    for (int i = 0; i < count; i++) (*out)->items[i] = (comm_peer){.rank = i + 1, .fd = -1};
done:
    return result;
}

static void peers_free(comm_peers *p)
{
    for (int i = 0; p && i < p->count; i++) close_fd(&p->items[i].fd);
    free(p);
}

// Makes the memory and gives it to all others.
static status found_world(attach_rendezvous *m, world **out, err *e)
{
    status result = OK;
    const int ranks = m->location->ranks;
    comm_mapping memory = {.fd = -1};
    TRY(comm_mapping_open(world_header_bytes(ranks), true, m->slots, &memory, e));
    TRY(world_make(&memory, ranks, e));
    attach_reply w = {.address = memory.memory, .bytes = memory.bytes};
    const int fd = dup(memory.fd);
    if (fd < 0) {
        result = err_errno(e, "cannot share memory with the ranks of this machine");
        goto done;
    }
    comm_mapping_seal(&memory);
    result = world_enter(&memory, ranks, out, e);
    for (int i = 0; result == OK && i < m->peers->count; i++)
        send_reply(m->peers->items[i].fd, &w, fd);
    close(fd);
done:
    comm_mapping_close(&memory);
    return result;
}

static status attach_first(const comm_rank_location *p, int64_t end_ns, world **out, err *e)
{
    status result = OK;
    attach_rendezvous m = {
        .location = p, .end_ns = end_ns, .listener = -1, .slots = comm_mapping_free_slots()};
    err why = {.code = OK};
    TRY(peers_open(p->ranks - 1, &m.peers, e));
    result = gather(&m, &why);
    if (result == OK) result = found_world(&m, out, &why);
    if (result == OK) {
        (*out)->peers = m.peers;
        m.peers = NULL;
        goto done;
    }
    for (int i = 0; i < m.peers->count; i++)
        if (m.peers->items[i].fd >= 0) refuse(m.peers->items[i].fd, &why);
    err_set(e, result, "%s", why.text);
done:
    close_fd(&m.listener);
    peers_free(m.peers);
    return result;
}

// ---- The other ranks

static status connect_to_first(const comm_rank_location *p, int64_t end_ns, int *fd, err *e)
{
    status result = OK;
    struct sockaddr_un name;
    const socklen_t bytes = name_of(p, &name);
    pid_t pid = 0;
    TRY(open_socket(fd, e));
    while (connect(*fd, (const struct sockaddr *)&name, bytes) != 0) {
        const bool again = errno == ECONNREFUSED || errno == EAGAIN || errno == EINTR;
        if (!again) {
            result = err_errno(e, "cannot reach rank 0 on this machine");
            goto done;
        }
        if (clock_ns() >= end_ns)
            FAIL(E_PEER, "local rank 0 of %d did not come within %.3g s (%s)", p->ranks,
                 seconds_of(p), p->identity);
        usleep(AGAIN_MS * 1000);
    }
    if (!read_peer(*fd, &pid))
        FAIL(E_USAGE, "a process of another user (pid %d) has the name of this job (%s)", (int)pid,
             p->identity);
done:
    return result;
}

// Receives the reply and the descriptor. The time of rank 0 began later than this rank's at most by this rank's.
static status receive_reply(const comm_rank_location *p, int fd, attach_reply *w, int *memory_fd,
                            err *e)
{
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec part = {w, sizeof *w};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.room,
                             .msg_controllen = sizeof control.room};
    *memory_fd = -1;
    if (!wait_readable(fd, clock_ns() + 2 * p->deadline_ms * MS_NS))
        return err_set(e, E_PEER, "rank 0 did not answer within %.3g s (%s)", 2 * seconds_of(p),
                       p->identity);
    const ssize_t got = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
    if (got != (ssize_t)sizeof *w)
        return err_set(e, E_PEER, "rank 0 was killed or ended before its work was done (%s)",
                       p->identity);
    if (w->code != OK) return err_set(e, w->code, "%.*s", ERR_TEXT_BYTES - 1, w->text);
    const struct cmsghdr *c = CMSG_FIRSTHDR(&message);
    if (!c || c->cmsg_type != SCM_RIGHTS)
        return err_set(e, E_IO, "rank 0 could not share its memory: see the limit of ulimit -n");
    memcpy(memory_fd, CMSG_DATA(c), sizeof *memory_fd);
    return OK;
}

static status attach_other(const comm_rank_location *p, int64_t end_ns, world **out, err *e)
{
    status result = OK;
    const attach_request request = own_request(p);
    attach_reply w;
    comm_mapping memory = {.fd = -1};
    comm_peers *peers = NULL;
    int memory_fd;
    TRY(peers_open(1, &peers, e));
    peers->items[0].rank = 0;
    TRY(connect_to_first(p, end_ns, &peers->items[0].fd, e));
    (void)read_peer(peers->items[0].fd, &peers->items[0].pid);
    if (send(peers->items[0].fd, &request, sizeof request, MSG_NOSIGNAL) != (ssize_t)sizeof request)
        FAIL(E_PEER, "rank 0 (pid %d) was killed or ended before its work was done",
             (int)peers->items[0].pid);
    TRY(receive_reply(p, peers->items[0].fd, &w, &memory_fd, e));
    TRY(comm_mapping_attach(memory_fd, w.address, w.bytes, &memory, e));
    TRY(world_enter(&memory, p->ranks, out, e));
    (*out)->peers = peers;
    peers = NULL;
done:
    comm_mapping_close(&memory);
    peers_free(peers);
    return result;
}

status world_attach(const comm_rank_location *p, world **out, err *e)
{
    status result = OK;
    const int64_t end_ns = clock_ns() + p->deadline_ms * MS_NS;
    *out = NULL;
    TRY((p->rank == 0 ? attach_first : attach_other)(p, end_ns, out, e));
    (*out)->first = p->rank;
    (*out)->count = 1;
    (*out)->first_rank = p->first_rank;
done:
    return result;
}
