// store.h -- the place where ranks find each other: keys and small values, as a table of functions.
//
// Communicators use it while they open and split: ranks tell each other addresses, colors and keys.
// No step of training uses it. Nothing here assumes that ranks share memory or a machine.
//
// Every call has a deadline: milliseconds from the call on, 0 for no wait. A call that waits for
// another rank returns E_PEER when the time is over. E_IO says that the store itself is lost.
//
// Stores:
//   page    memory that the ranks of one machine share (comm_store_page_open)
//   tcp     a connection to the server of a job of many machines (store_tcp.h)
#ifndef TRIREME_RENDEZVOUS_STORE_H
#define TRIREME_RENDEZVOUS_STORE_H

#include "base/err.h"

#include <stdint.h>

enum {
    STORE_KEY_BYTES = 64,     // of a key with its final 0
    STORE_VALUE_BYTES = 1024, // the longest value
};
#define STORE_MOST_MS INT64_C(1000000000000) // the longest deadline: its nanoseconds fit in 64 bits

// A value that somebody else owns.
typedef struct store_value {
    const void *data; // [bytes]
    size_t bytes;
} store_value;

// A time of this process (clock_ns) and offset_ns make the time at the store's host, to within error_ns.
typedef struct store_clock {
    int64_t offset_ns, error_ns;
} store_clock;

typedef struct comm_store comm_store;

typedef struct comm_store_ops {
    const char *name;
    void (*close)(comm_store *s);
    status (*set)(comm_store *s, const char *key, const void *value, size_t bytes,
                  int64_t deadline_ms, err *e);
    status (*get)(comm_store *s, const char *key, void *out, size_t room, size_t *bytes,
                  int64_t deadline_ms, err *e);
    status (*wait)(comm_store *s, const char *key, int64_t deadline_ms, err *e);
    status (*add)(comm_store *s, const char *key, int64_t amount, int64_t *sum, int64_t deadline_ms,
                  err *e);
    status (*remove)(comm_store *s, const char *key, int64_t deadline_ms, err *e);
    status (*compare)(comm_store *s, const char *key, store_value expected, store_value value,
                      void *out, size_t room, size_t *bytes, int64_t deadline_ms, err *e);
    status (*clock)(comm_store *s, store_clock *out, err *e); // NULL: the store is on this machine
} comm_store_ops;

struct comm_store {
    const comm_store_ops *ops;
};

// Not collective. s may be NULL.
void comm_store_close(comm_store *s);

// All of these may be called by any rank at any time. A key has 1 to STORE_KEY_BYTES - 1 characters,
// all printable and no space. E_USAGE where it has not, or where the value is too long.

// Gives a key a value [bytes], also where it has one. E_FIT when the store is full.
status comm_store_set(comm_store *s, const char *key, const void *value, size_t bytes,
                      int64_t deadline_ms, err *e);
// Waits until the key has a value, and copies it to out [room]. *bytes (NULL allowed) receives its
// length. E_USAGE when it is longer than the room.
status comm_store_get(comm_store *s, const char *key, void *out, size_t room, size_t *bytes,
                      int64_t deadline_ms, err *e);
// Waits until the key has a value.
status comm_store_wait(comm_store *s, const char *key, int64_t deadline_ms, err *e);
// Adds to the number of a key, which is 0 where the key has no value. *sum (NULL allowed) receives
// the new number. comm_store_get returns it as an int64_t. E_USAGE when the value is no such number;
// E_FIT when the store is full.
status comm_store_add(comm_store *s, const char *key, int64_t amount, int64_t *sum,
                      int64_t deadline_ms, err *e);
// Takes the key and its value away. A key without a value is no error.
status comm_store_remove(comm_store *s, const char *key, int64_t deadline_ms, err *e);
// Gives the key the value where it has the expected one; 0 expected bytes mean no value, too. Copies the
// value that the key has after that to out [room]; *bytes (NULL allowed) receives its length, 0 where it has
// none. Of many callers that expect the same, one succeeds. E_FIT when the store is full.
status comm_store_compare(comm_store *s, const char *key, store_value expected, store_value value,
                          void *out, size_t room, size_t *bytes, int64_t deadline_ms, err *e);

// Measures how the clock of this process lies beside that of the store's host: of some calls the fastest one counts,
// and the error is half of its time. All processes of a machine have one clock, so beside a store of this machine both
// numbers are 0. Two clocks drift apart by some microseconds a second. s may be NULL.
status comm_store_clock(comm_store *s, store_clock *out, err *e);

// A store for `keys` keys in memory that the ranks of one machine map at one address. One process makes it in
// comm_store_page_bytes zeroed bytes, aligned to 64. Each process opens it, or inherits it open through fork, and
// closes it. A rank that dies during a call leaves the store usable: the call then has happened completely or
// not at all. E_IO, E_MEMORY.
size_t comm_store_page_bytes(int keys);
status comm_store_page_make(void *memory, int keys, err *e);
status comm_store_page_open(void *memory, comm_store **out, err *e);

#endif
