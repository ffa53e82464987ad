// tls_private.h -- what the files of the transport tls share. Only tls*.c include it.
//
// A connection carries frames: a header, then its bytes. A part of a call is one DATA frame, which the receiver matches by
// its tag with a receive. A part that comes before its receive is kept; a connection whose next part is long is not read
// as long as the rank has other things to do, because most receives come soon. A long part of a call that does not exchange as
// much as it sends would be kept for as long as its receiver takes, so its sender asks first:
//   ASK, with the number of the part  ->  GRANT, when the receive is there  ->  GRANTED, with the bytes
#ifndef TRIREME_COMM_TLS_PRIVATE_H
#define TRIREME_COMM_TLS_PRIVATE_H

#include "comm/network/network_private.h"
#include "comm/network/tls.h"
#include "net/interface.h"
#include "net/tls.h"

enum { TLS_UNASKED_BYTES = 64 << 10 };

typedef enum tls_frame {
    TLS_DATA,
    TLS_ASK,
    TLS_GRANT,
    TLS_GRANTED,
    TLS_FAILURE, // the line of the run's failure, and the rank that failed
} tls_frame;

typedef struct tls_header {
    uint32_t frame;  // tls_frame
    int32_t rank;    // of a failure
    uint64_t tag;    // of a part
    uint64_t number; // of a part that asks
    uint64_t bytes;  // behind the header; of TLS_ASK: of the part
} tls_header;

// A part on its way, or a frame of the transport's own. In one list of its connection, or in none when it is done.
typedef struct tls_request {
    struct tls_request *next;
    tls_header header;
    char *data;
    size_t bytes;       // at data
    size_t header_done; // bytes of the header that were sent
    size_t done;        // bytes that were sent or received
    bool is_done;
    bool is_own;              // of the transport: nobody tests it, and `data` is released with it
    struct tls_request *heir; // the receive that waits for this part, which came before it
} tls_request;

typedef struct tls_list {
    tls_request *first, *last;
} tls_list;

// The connection to a rank.
typedef struct tls_peer {
    net_tls *link;     // NULL: there is none any more, or it is this rank itself
    const char **lost; // of the rank
    bool readable, writable;
    // Sends: those that wait for their turn, and those that have asked.
    tls_list queue, asked;
    uint64_t numbers; // of parts that asked
    char *stage;      // [NET_TLS_RECORD] of the next record
    size_t staged;
    // Receives: those that nothing has come for, those whose part may come, and parts that came before their receive.
    tls_list posted, granted, early;
    // The frame that comes in.
    tls_header header;
    size_t header_have, body_have;
    tls_request *into; // NULL: its bytes are dropped
    bool is_held;      // its receive is not there yet
} tls_peer;

// The connections of a rank.
typedef struct tls_state {
    network_rank *own;
    net_tls_context *context;
    net_interface interface; // the ports listen there, and connections begin there
    int listener;            // -1: closed
    int events, waker;       // descriptors of epoll and of its wake-up
    net_address *address;    // [size] where the ranks listen
    tls_peer *peer;          // [size]
    tls_request *unused;
} tls_state;

static inline tls_state *tls_of(const network_rank *own)
{
    return own->state;
}

// ---- tls_connect.c: of network_transport

status tls_state_open(network_rank *own, const comm_options *o, err *e);
status tls_connect(network_rank *own, int64_t deadline_ms, err *e);
void tls_state_close(network_rank *own);

// ---- tls_frames.c. All under the lock of the rank.

// A request with a header, from the unused ones. NULL: no memory is left.
tls_request *tls_request_take(tls_state *s, tls_header header, void *data, size_t bytes);
void tls_request_give(tls_state *s, tls_request *r);
// Begins to send or to receive a part: `r` is in a list of the peer, or done, afterwards. A send leaves with tls_move.
void tls_send(tls_state *s, tls_peer *p, tls_request *r, bool asks);
void tls_receive(tls_state *s, tls_peer *p, tls_request *r);
// Tells the other rank of the run's failure. It does nothing where no memory is left.
void tls_send_failure(tls_state *s, tls_peer *p, int rank, const char *line);
// Removes a request from the lists of its peer.
void tls_drop(tls_state *s, tls_peer *p, tls_request *r);
// Sends and receives as much as goes without waiting. Returns whether something moved.
bool tls_move(tls_state *s, tls_peer *p);
// Keeps the bytes of a frame whose receive is not there. Returns whether there is one.
bool tls_keep(tls_state *s, tls_peer *p);
// Is something to be sent?
bool tls_has_queue(const tls_peer *p);
// Closes the connection. `why` stays; NULL: the rank is not lost.
void tls_peer_close(tls_state *s, tls_peer *p, const char *why);
// Releases the parts that nobody will receive.
void tls_drop_early(tls_state *s, tls_peer *p);

#endif
