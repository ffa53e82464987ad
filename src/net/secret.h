// secret.h -- a secret that the hosts of a job share, and connections whose both ends show that they have it.
//
// Called by both ends of a connection: the server sends a challenge, the client a response, the server the outcome.
// Each end draws a nonce, so no code serves twice. Afterwards each message carries a code over its number
// and its bytes, under a key of this connection alone. Codes are HMAC-SHA256 (RFC 2104), compared in constant
// time. Nothing is encrypted: the secret keeps others out, and does not hide what is sent. user_secret.h finds the
// secret of a rendezvous.
#ifndef TRIREME_NET_SECRET_H
#define TRIREME_NET_SECRET_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

enum { NET_MAC_BYTES = 32, NET_NONCE_BYTES = 32, NET_SECRET_LEAST = 16, NET_SECRET_MOST = 4096 };

typedef struct net_secret {
    unsigned char key[NET_MAC_BYTES];
} net_secret;

// Reads the secret from a file: NET_SECRET_LEAST to NET_SECRET_MOST bytes, without the line end. E_USAGE
// where others than the owner may read the file.
status net_secret_read(const char *path, net_secret *out, err *e);
// Draws a random one. E_IO.
status net_secret_draw(net_secret *out, err *e);

// The first messages of the two ends, in this order. All are complete at these sizes.
typedef struct net_challenge { // from the server
    char magic[8];
    unsigned char verdict, zero[7]; // 0, or why the client may not stay
    unsigned char nonce[NET_NONCE_BYTES];
} net_challenge;

typedef struct net_response { // from the client
    char magic[8];
    unsigned char nonce[NET_NONCE_BYTES], code[NET_MAC_BYTES];
} net_response;

typedef struct net_outcome { // from the server
    unsigned char verdict, zero[7];
    unsigned char code[NET_MAC_BYTES];
} net_outcome;

// One end of a connection after that.
typedef struct net_session {
    bool is_server;
    unsigned char key[NET_MAC_BYTES];
    uint64_t sent, received; // frames
} net_session;

status net_challenge_make(net_challenge *out, err *e);
// The same for a process of another user (owner.h). The connection ends with it.
void net_challenge_refuse(net_challenge *out);
// The client's turn. E_USAGE where the other end is no such server, or belongs to another user.
status net_response_make(const net_secret *s, const net_challenge *challenge, net_response *out,
                         net_session *session, err *e);
// The server's turn. Returns whether the client may stay. *out is sent in both cases.
bool net_response_check(const net_secret *s, const net_challenge *challenge,
                        const net_response *response, net_outcome *out, net_session *session);
// The client's last turn. E_USAGE where the secrets differ.
status net_outcome_check(const net_session *session, const net_outcome *outcome, err *e);

// Computes the code of the next frame to send, which follows it.
void net_seal(net_session *s, const void *frame, size_t bytes, unsigned char out[NET_MAC_BYTES]);
// Returns whether `code` is that of the next frame of the other end.
bool net_seal_check(net_session *s, const void *frame, size_t bytes,
                    const unsigned char code[NET_MAC_BYTES]);

#endif
