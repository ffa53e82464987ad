// tls.h -- TLS 1.3 (RFC 8446) on connected sockets, with a pre-shared key and without certificates. Both ends have the
// key, so each knows that the other one is of the same job, and nobody else reads or changes what they send.
//
// The protocol and its cipher (TLS_AES_128_GCM_SHA256) are OpenSSL's. No call waits: the sockets are non-blocking, and a
// call that cannot go on says what it waits for. The caller bounds how many ends that have not authenticated there are, and
// for how long. It does not know what is sent. Called by the communicator tls.
//
// Kernel TLS is not asked for: OpenSSL 3.0 cannot update the keys of such a connection, and AES-GCM needs new keys after
// 2^24.5 records (RFC 8446, 5.5), which a long run sends.
#ifndef TRIREME_NET_TLS_H
#define TRIREME_NET_TLS_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { NET_TLS_KEY_BYTES = 32, NET_TLS_RECORD = 16384 };

// The bytes that a connection sends with one key: 2^22 full records.
static const uint64_t NET_TLS_UPDATE_BYTES = UINT64_C(1) << 36;

typedef struct net_tls_context net_tls_context; // of one key
typedef struct net_tls net_tls;                 // one end of a connection

// The event that a call waits for.
typedef enum net_tls_wants {
    NET_TLS_READY,  // nothing: it did what it was called for
    NET_TLS_READS,  // until the socket can be read
    NET_TLS_WRITES, // until the socket can be written
    NET_TLS_ENDED,  // for ever: net_tls_why says why
} net_tls_wants;

// update_bytes: NET_TLS_UPDATE_BYTES, or less in a test. The caller closes *out after all of its connections.
status net_tls_context_open(const unsigned char key[NET_TLS_KEY_BYTES], uint64_t update_bytes,
                            net_tls_context **out, err *e);
// c may be NULL.
void net_tls_context_close(net_tls_context *c);

// Begins a connection on a connected socket, which net_tls_close closes. Where it fails, the socket is closed.
status net_tls_open(net_tls_context *c, int fd, bool is_server, net_tls **out, err *e);
// Goes on with the handshake. NET_TLS_READY: the other end has shown that it has the key.
net_tls_wants net_tls_handshake(net_tls *t);
// Receives 1 to `bytes` bytes.
net_tls_wants net_tls_read(net_tls *t, void *to, size_t bytes, size_t *got);
// Sends one record, of NET_TLS_RECORD bytes at most. After NET_TLS_WRITES the caller repeats the call with the same bytes.
net_tls_wants net_tls_write(net_tls *t, const void *from, size_t bytes);
int net_tls_fd(const net_tls *t);
// After NET_TLS_ENDED; the text stays.
const char *net_tls_why(const net_tls *t);
// Returns whether the other end's kernel has all bytes that were sent, or the connection has ended.
bool net_tls_has_left(const net_tls *t);
// Tells the other end that no more bytes come. It does not wait.
void net_tls_finish(net_tls *t);
// Closes the socket. t may be NULL.
void net_tls_close(net_tls *t);

#endif
