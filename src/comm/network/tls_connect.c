// tls_connect.c -- opens the connections of a rank for the transport tls. A rank listens on one interface, connects to all
// ranks before it, accepts those behind it, and closes its port when they have come: nobody reaches a run that trains.
//
// Until then anybody may connect. A client that has not authenticated is one of PENDING, for PENDING_NS at most. Where
// there is no room for one more, those from addresses where no rank is leave first, the oldest of them. A rank whose
// connection was closed so tries again.
#define _GNU_SOURCE // accept4
#include "comm/network/tls_private.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "net/owner.h"
#include "net/socket.h"
#include "rendezvous/hosts.h"

#include <errno.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { PENDING = 256, SLICE_MS = 100, SALT_BYTES = 32, ACCEPTS = 64 };
static const int64_t PENDING_NS = 10000000000, CONNECT_NS = 2000000000, MS_NS = 1000000;
static const char WHAT[] = "a communicator";

// What a rank tells the others through the store.
typedef struct tls_card {
    net_address address;
    unsigned char salt[SALT_BYTES]; // rank 0's is that of the key
} tls_card;

// What both ends of a connection say first under TLS.
typedef struct tls_identity {
    char magic[8];
    int32_t rank, size;
} tls_identity;

static const char MAGIC[8] = "TRMTLS02";

// A client that has not authenticated, or has not said which rank it is.
typedef struct tls_pending {
    net_tls *link; // NULL: the place is free
    int64_t since;
    bool is_rank_address, is_through;
    short events; // that it waits for
    size_t have;
    tls_identity identity;
} tls_pending;

// ---- Opening

// The rule of the environment, else the interface that leads to where the hosts met, else loopback.
static status choose_interface(const network_rank *own, net_interface *out, err *e)
{
    const char *variable, *rule = net_interface_rule(&variable);
    const comm_hosts *hosts = own->world->hosts;
    status result = OK;
    if (rule) {
        result = net_interface_find(rule, out, e);
        if (result != OK) err_prefix(e, "communicator tls: %s: ", variable);
        return result;
    }
    if (comm_hosts_on_loopback(own->world)) {
        *out = (net_interface){.name = "lo"};
        return net_address_resolve("127.0.0.1", 0, &out->address, e);
    }
    return net_address_is_loopback(&hosts->address) ? net_interface_find(NULL, out, e)
                                                    : net_interface_toward(&hosts->address, out, e);
}

// The key of this run alone: of the job's secret and of what rank 0 has drawn.
static status open_context(network_rank *own, const unsigned char salt[SALT_BYTES], err *e)
{
    static const char purpose[] = "trireme data ports";
    const net_secret *secret = &own->world->secret;
    unsigned char salted[sizeof purpose + SALT_BYTES], key[NET_TLS_KEY_BYTES];
    memcpy(salted, purpose, sizeof purpose);
    memcpy(salted + sizeof purpose, salt, SALT_BYTES);
    if (!HMAC(EVP_sha256(), secret->key, sizeof secret->key, salted, sizeof salted, key, NULL))
        return err_set(e, E_IO, "communicator tls: OpenSSL made no key");
    const status result = net_tls_context_open(key, NET_TLS_UPDATE_BYTES, &tls_of(own)->context, e);
    OPENSSL_cleanse(key, sizeof key);
    return result;
}

// The ranks learn each other's addresses and the salt of the key.
static status exchange_cards(network_rank *own, const comm_options *o, const net_address *listens,
                             err *e)
{
    status result = OK;
    tls_state *s = tls_of(own);
    const comm_rendezvous all = {
        .store = o->store, .failure = own->world->failure, .rank = o->rank, .size = o->size};
    tls_card card = {.address = *listens};
    char *cards = NULL;
    size_t bytes = 0;
    if (RAND_bytes(card.salt, SALT_BYTES) != 1) FAIL(E_IO, "the system gave no random numbers");
    TRY(comm_rendezvous_all_gather(&all, &card, sizeof card, o->deadline_ms, &cards, &bytes, e));
    if (bytes != sizeof card) FAIL(E_IO, "communicator tls: the ranks are of different versions");
    for (int r = 0; r < own->size; r++) {
        tls_card one;
        memcpy(&one, cards + (size_t)r * bytes, sizeof one);
        s->address[r] = one.address;
        if (r == 0) TRY(open_context(own, one.salt, e));
    }
done:
    free(cards);
    return result;
}

static status open_events(tls_state *s, err *e)
{
    struct epoll_event wakes = {.events = EPOLLIN | EPOLLET};
    s->events = epoll_create1(EPOLL_CLOEXEC);
    s->waker = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (s->events < 0 || s->waker < 0 || epoll_ctl(s->events, EPOLL_CTL_ADD, s->waker, &wakes) != 0)
        return err_errno(e, "communicator tls: cannot wait for events");
    return OK;
}

status tls_state_open(network_rank *own, const comm_options *o, err *e)
{
    status result = OK;
    const size_t size = (size_t)o->size;
    tls_state *s;
    net_address listens;
    TRY(alloc_zeroed(&s, 1, sizeof *s, WHAT, e));
    *s = (tls_state){.own = own, .listener = -1, .events = -1, .waker = -1};
    own->state = s;
    TRY(open_events(s, e));
    TRY(alloc_zeroed(&s->address, size, sizeof *s->address, WHAT, e));
    TRY(alloc_zeroed(&s->peer, size, sizeof *s->peer, WHAT, e));
    for (size_t r = 0; r < size; r++) s->peer[r].lost = &own->lost[r];
    TRY(choose_interface(own, &s->interface, e));
    TRY(net_listen(&s->interface.address, &s->listener, &listens, e));
    TRY(exchange_cards(own, o, &listens, e));
done:
    return result;
}

// ---- Peers

// Takes the connection, on which both ends know each other.
static status add_peer(network_rank *own, int rank, net_tls *link, err *e)
{
    status result = OK;
    tls_state *s = tls_of(own);
    tls_peer *p = &s->peer[rank];
    struct epoll_event events = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = p};
    p->link = link;
    p->readable = p->writable = true;
    TRY(alloc_zeroed(&p->stage, NET_TLS_RECORD, 1, WHAT, e));
    if (epoll_ctl(s->events, EPOLL_CTL_ADD, net_tls_fd(link), &events) != 0)
        result = err_errno(e, "communicator tls: cannot wait for events");
done:
    return result;
}

static tls_identity identity_of(const network_rank *own)
{
    tls_identity g = {.rank = own->rank, .size = own->size};
    memcpy(g.magic, MAGIC, sizeof MAGIC);
    return g;
}

// Is it the identity of a rank of this run whose connection is not there yet?
static bool is_expected(const network_rank *own, const tls_identity *g)
{
    return memcmp(g->magic, MAGIC, sizeof MAGIC) == 0 && g->size == own->size &&
           g->rank > own->rank && g->rank < own->size && !tls_of(own)->peer[g->rank].link;
}

static short events_of(net_tls_wants wants)
{
    return wants == NET_TLS_WRITES ? POLLOUT : POLLIN;
}

static net_tls_wants shake(tls_pending *p)
{
    if (p->is_through) return NET_TLS_READY;
    const net_tls_wants wants = net_tls_handshake(p->link);
    p->is_through = wants == NET_TLS_READY;
    return wants;
}

static net_tls_wants receive_identity(tls_pending *p)
{
    net_tls_wants wants = NET_TLS_READY;
    while (wants == NET_TLS_READY && p->have < sizeof p->identity) {
        size_t got = 0;
        wants = net_tls_read(p->link, (char *)&p->identity + p->have, sizeof p->identity - p->have,
                             &got);
        p->have += got;
    }
    return wants;
}

// ---- Ranks behind this one come

static void drop_pending(tls_pending *p)
{
    net_tls_close(p->link);
    *p = (tls_pending){.link = NULL};
}

// A free place, or that of the client which leaves first. NULL: every place is of a rank's address that is newer.
static tls_pending *make_place(tls_pending *all, bool is_rank_address)
{
    tls_pending *leaves = NULL;
    for (int i = 0; i < PENDING; i++) {
        tls_pending *p = &all[i];
        if (!p->link) return p;
        if (p->is_rank_address && !is_rank_address) continue;
        if (!leaves || p->is_rank_address < leaves->is_rank_address ||
            (p->is_rank_address == leaves->is_rank_address && p->since < leaves->since))
            leaves = p;
    }
    if (leaves) drop_pending(leaves);
    return leaves;
}

static bool is_rank_address(const network_rank *own, const struct sockaddr *a)
{
    for (int r = own->rank + 1; r < own->size; r++)
        if (net_address_is_host(&tls_of(own)->address[r], a)) return true;
    return false;
}

static status accept_some(network_rank *own, tls_pending *all, err *e)
{
    status result = OK;
    tls_state *s = tls_of(own);
    for (int i = 0; i < ACCEPTS; i++) {
        struct sockaddr_storage from;
        socklen_t bytes = sizeof from;
        const int fd =
            accept4(s->listener, (struct sockaddr *)&from, &bytes, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) break; // none is there, or it has gone
        const bool from_rank = is_rank_address(own, (const struct sockaddr *)&from);
        const bool may_stay = !net_peer_is_foreign(fd) && net_prepare(fd, NULL) == OK;
        tls_pending *p = may_stay ? make_place(all, from_rank) : NULL;
        if (!p) {
            close(fd);
            continue;
        }
        *p = (tls_pending){.since = clock_ns(), .is_rank_address = from_rank, .events = POLLIN};
        TRY(net_tls_open(s->context, fd, true, &p->link, e));
    }
done:
    return result;
}

// Goes on with one client. It becomes a peer, or it is dropped.
static status step_pending(network_rank *own, tls_pending *p, int *missing, err *e)
{
    const tls_identity mine = identity_of(own);
    net_tls_wants wants = shake(p);
    if (wants == NET_TLS_READY) wants = receive_identity(p);
    if (wants == NET_TLS_READS || wants == NET_TLS_WRITES) {
        p->events = events_of(wants);
        return OK;
    }
    // The first record fits into every socket.
    if (wants == NET_TLS_ENDED || !is_expected(own, &p->identity) ||
        net_tls_write(p->link, &mine, sizeof mine) != NET_TLS_READY) {
        drop_pending(p);
        return OK;
    }
    net_tls *link = p->link;
    const int rank = p->identity.rank;
    *p = (tls_pending){.link = NULL};
    --*missing;
    return add_peer(own, rank, link, e);
}

// Waits until the port or a client has something, and goes on with all that have.
static status serve(network_rank *own, tls_pending *all, int *missing, err *e)
{
    status result = OK;
    struct pollfd fds[PENDING + 1];
    tls_pending *of[PENDING + 1];
    int count = 1;
    fds[0] = (struct pollfd){.fd = tls_of(own)->listener, .events = POLLIN};
    for (int i = 0; i < PENDING; i++) {
        if (!all[i].link) continue;
        of[count] = &all[i];
        fds[count++] = (struct pollfd){.fd = net_tls_fd(all[i].link), .events = all[i].events};
    }
    if (poll(fds, (nfds_t)count, SLICE_MS) < 0 && errno != EINTR)
        FAIL(E_IO, "communicator tls: cannot wait for other ranks");
    const int64_t now = clock_ns();
    for (int i = 1; i < count; i++)
        if (fds[i].revents)
            TRY(step_pending(own, of[i], missing, e));
        else if (now - of[i]->since > PENDING_NS)
            drop_pending(of[i]);
    if (fds[0].revents) TRY(accept_some(own, all, e));
done:
    return result;
}

static status check_time(const network_rank *own, int64_t until, int rank, err *e)
{
    if (comm_failure_known(own->world->failure)) return comm_failure_error(own->world->failure, e);
    if (until == 0 || clock_ns() < until) return OK;
    return err_set(e, E_PEER,
                   "communicator tls: cannot connect to rank %d: it did not come in time", rank);
}

static status accept_ranks(network_rank *own, int64_t until, err *e)
{
    status result = OK;
    tls_pending *all = NULL;
    int missing = own->size - 1 - own->rank;
    TRY(alloc_zeroed(&all, PENDING, sizeof *all, WHAT, e));
    while (missing > 0) {
        int rank = own->rank + 1;
        while (tls_of(own)->peer[rank].link) rank++;
        TRY(check_time(own, until, rank, e));
        TRY(serve(own, all, &missing, e));
    }
done:
    for (int i = 0; all && i < PENDING; i++)
        if (all[i].link) drop_pending(&all[i]);
    free(all);
    return result;
}

// ---- This one goes to the ranks before it

// One step. Returns what it waits for: NET_TLS_READY after the other end's identity has come.
static net_tls_wants step_identity(const network_rank *own, tls_pending *p, bool *has_sent)
{
    const tls_identity mine = identity_of(own);
    net_tls_wants wants = shake(p);
    if (wants == NET_TLS_READY && !*has_sent) {
        wants = net_tls_write(p->link, &mine, sizeof mine);
        *has_sent = wants == NET_TLS_READY;
    }
    return wants == NET_TLS_READY ? receive_identity(p) : wants;
}

// Returns whether the other end is that rank. It is not where its port has been closed, and where it had no place.
static status identify(network_rank *own, int rank, net_tls *link, int64_t until, bool *done,
                       err *e)
{
    status result = OK;
    tls_pending p = {.link = link, .since = clock_ns()};
    bool has_sent = false;
    *done = false;
    for (;;) {
        const net_tls_wants wants = step_identity(own, &p, &has_sent);
        if (wants == NET_TLS_READY) break;
        if (wants == NET_TLS_ENDED || clock_ns() - p.since > PENDING_NS) return OK;
        struct pollfd fd = {.fd = net_tls_fd(link), .events = events_of(wants)};
        poll(&fd, 1, SLICE_MS);
        TRY(check_time(own, until, rank, e));
    }
    *done = memcmp(p.identity.magic, MAGIC, sizeof MAGIC) == 0 && p.identity.size == own->size &&
            p.identity.rank == rank;
done:
    return result;
}

static status connect_rank(network_rank *own, int rank, int64_t until, err *e)
{
    status result = OK;
    tls_state *s = tls_of(own);
    net_tls *link = NULL;
    for (bool done = false; !done;) {
        err why;
        int fd;
        TRY(check_time(own, until, rank, e));
        if (net_connect_from(&s->interface.address, &s->address[rank], clock_ns() + CONNECT_NS, &fd,
                             &why) != OK)
            continue;
        TRY(net_tls_open(s->context, fd, false, &link, e));
        TRY(identify(own, rank, link, until, &done, e));
        if (done) break;
        net_tls_close(link);
        link = NULL;
        poll(NULL, 0, SLICE_MS);
    }
    TRY(add_peer(own, rank, link, e));
    link = NULL;
done:
    if (link != s->peer[rank].link) net_tls_close(link);
    return result;
}

status tls_connect(network_rank *own, int64_t deadline_ms, err *e)
{
    status result = OK;
    tls_state *s = tls_of(own);
    const int64_t until = deadline_ms > 0 ? clock_ns() + deadline_ms * MS_NS : 0;
    if (s->listener < 0) return OK; // all have come
    for (int r = 0; r < own->rank; r++) TRY(connect_rank(own, r, until, e));
    TRY(accept_ranks(own, until, e));
done:
    close(s->listener);
    s->listener = -1;
    return result;
}

// ---- Closing

void tls_state_close(network_rank *own)
{
    tls_state *s = tls_of(own);
    for (int r = 0; s->peer && r < own->size; r++) {
        tls_peer_close(s, &s->peer[r], NULL);
        tls_drop_early(s, &s->peer[r]);
        free(s->peer[r].stage);
    }
    for (tls_request *r = s->unused, *next; r; r = next) {
        next = r->next;
        free(r);
    }
    if (s->listener >= 0) close(s->listener);
    if (s->waker >= 0) close(s->waker);
    if (s->events >= 0) close(s->events);
    net_tls_context_close(s->context);
    free(s->address);
    free(s->peer);
    free(s);
}
