// store_wire.h -- the messages between the TCP store's server (store_server.c) and its clients
// (store_tcp.c).
//
// A connection starts with the challenge, the response and the outcome of net/secret.h. Then the client sends
// requests, one at a time, and the server replies to each:
//   request   head, key [key_bytes], value [value_bytes], expected [expected_bytes], code
//   reply     head, value [value_bytes], code
// code is the seal of net/secret.h over all bytes before it. Numbers are little-endian, as on every machine that
// Trireme runs on.
#ifndef TRIREME_RENDEZVOUS_STORE_WIRE_H
#define TRIREME_RENDEZVOUS_STORE_WIRE_H

#include "net/secret.h"
#include "rendezvous/store.h"

// The operation of a request. `number` is the amount of ADD; of GET and WAIT the milliseconds to wait; of
// ON_DISCONNECT those of silence.
typedef enum store_op {
    STORE_SET,
    STORE_GET,
    STORE_WAIT,
    STORE_ADD,
    STORE_REMOVE,
    STORE_COMPARE,
    STORE_ON_DISCONNECT,
    STORE_CLOCK,
    STORE_OPS,
} store_op;

typedef enum store_verdict {
    STORE_DONE, // `number` is the sum of ADD or the time of CLOCK, the value that of GET or COMPARE, or the identity of CLOCK
    STORE_LATE, // nobody set the key in time
    STORE_FULL,
    STORE_NO_NUMBER, // ADD to a value that is no number; `number` is its bytes
} store_verdict;

typedef struct store_request {
    uint8_t op, key_bytes;
    uint16_t value_bytes, expected_bytes, zero;
    int64_t number;
} store_request;

typedef struct store_reply {
    uint8_t verdict, zero;
    uint16_t value_bytes;
    uint32_t zeros;
    int64_t number;
} store_reply;

_Static_assert(sizeof(store_request) == 16 && sizeof(store_reply) == 16, "without padding");

enum {
    STORE_REQUEST_MOST =
        sizeof(store_request) + STORE_KEY_BYTES + 2 * STORE_VALUE_BYTES + NET_MAC_BYTES,
    STORE_REPLY_MOST = sizeof(store_reply) + STORE_VALUE_BYTES + NET_MAC_BYTES,
};

#endif
