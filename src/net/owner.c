// owner.c -- see owner.h. The kernel is asked for the one socket at the other end: its table (/proc/net/tcp) would cost
// time for every connection of the machine, at every connection.
#include "net/owner.h"

#include "net/address.h"

#include <arpa/inet.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

typedef struct owner_request {
    struct nlmsghdr header;
    struct inet_diag_req_v2 body;
} owner_request;

typedef struct owner_reply {
    struct nlmsghdr header;
    struct inet_diag_msg body;
    char attributes[512];
} owner_reply;

static void put_host(const net_address *a, __be32 out[4])
{
    if (a->raw.ss_family == AF_INET6)
        memcpy(out, &((const struct sockaddr_in6 *)&a->raw)->sin6_addr, sizeof(struct in6_addr));
    else
        memcpy(out, &((const struct sockaddr_in *)&a->raw)->sin_addr, sizeof(struct in_addr));
}

// The socket from `peer` to `own`, as its own end sees it.
static owner_request request_of(const net_address *peer, const net_address *own)
{
    owner_request q = {.header = {.nlmsg_len = sizeof q,
                                  .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                                  .nlmsg_flags = NLM_F_REQUEST},
                       .body = {.sdiag_family = (unsigned char)peer->raw.ss_family,
                                .sdiag_protocol = IPPROTO_TCP,
                                .idiag_states = ~0u,
                                .id = {.idiag_sport = htons((uint16_t)net_address_port(peer)),
                                       .idiag_dport = htons((uint16_t)net_address_port(own)),
                                       .idiag_cookie = {INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE}}}};
    put_host(peer, q.body.id.idiag_src);
    put_host(own, q.body.id.idiag_dst);
    return q;
}

static bool find_owner(const net_address *peer, const net_address *own, uid_t *out)
{
    const owner_request q = request_of(peer, own);
    owner_reply r;
    ssize_t got = -1;
    const int fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    if (fd < 0) return false;
    if (send(fd, &q, sizeof q, 0) == (ssize_t)sizeof q) got = recv(fd, &r, sizeof r, 0);
    close(fd);
    if (got < (ssize_t)(sizeof r.header + sizeof r.body) ||
        r.header.nlmsg_type != SOCK_DIAG_BY_FAMILY)
        return false;
    *out = r.body.idiag_uid;
    return true;
}

bool net_peer_is_foreign(int fd)
{
    net_address peer = {.bytes = sizeof peer.raw}, own = {.bytes = sizeof own.raw};
    uid_t owner;
    if (getpeername(fd, (struct sockaddr *)&peer.raw, &peer.bytes) != 0 ||
        getsockname(fd, (struct sockaddr *)&own.raw, &own.bytes) != 0)
        return false;
    return net_address_is_loopback(&peer) && find_owner(&peer, &own, &owner) && owner != geteuid();
}
