// store_serve.h -- answers the requests of one client of the TCP store. Used by store_server.c only.
#ifndef TRIREME_RENDEZVOUS_STORE_SERVE_H
#define TRIREME_RENDEZVOUS_STORE_SERVE_H

#include "rendezvous/store_server.h"
#include "rendezvous/store_table.h"
#include "rendezvous/store_wire.h"

struct bufferevent;
struct event;

// The state that all clients share.
typedef struct store_service {
    store_table *table;
    uint64_t clock; // clock_identity
} store_service;

// The action on disconnect: the server gives the key the value.
typedef struct store_on_disconnect {
    char key[STORE_KEY_BYTES];
    char value[STORE_VALUE_BYTES];
    size_t bytes; // 0: no action
    struct event *silence;
    struct timeval limit;
} store_on_disconnect;

typedef struct store_client {
    store_waiter waiter; // first: a waiter is turned back into its client
    struct store_client *next, **link;
    store_server *server;
    store_service *service;
    struct bufferevent *io;
    struct event *late; // ends the wait of a request, or of an unauthenticated client
    net_challenge challenge;
    net_session session;
    bool known;   // has shown the secret
    bool refused; // gets its last message
    bool waits;   // for a key
    store_on_disconnect on_disconnect;
    bool wants_value; // of that key
} store_client;

// Returns whether a complete request has arrived. *valid is false if the bytes are no request.
bool store_serve_ready(store_client *c, bool *valid);
// Takes the request that is there, and replies or lets the client wait. What it sets wakes other clients.
void store_serve(store_client *c);
// Replies that nobody has set the key.
void store_serve_late(store_client *c);
// The client has made no call for too long: its action on disconnect is done.
void store_serve_silent(store_client *c);
// The client is about to be released. Its action on disconnect is done.
void store_serve_leave(store_client *c);

#endif
