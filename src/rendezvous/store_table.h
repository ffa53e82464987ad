// store_table.h -- the keys and values of the TCP store's server, and who waits for a key.
//
// Called by store_server.c, from one thread. It does not know connections: a waiter is a node that the
// server embeds in its own struct.
#ifndef TRIREME_RENDEZVOUS_STORE_TABLE_H
#define TRIREME_RENDEZVOUS_STORE_TABLE_H

#include "rendezvous/store.h"

#include <stdbool.h>

typedef struct store_table store_table;

// Somebody who waits for a key to get a value.
typedef struct store_waiter {
    struct store_waiter *next, **link; // link NULL: waits for no key
    struct store_entry *entry;
} store_waiter;

// A table of at most `keys` keys. The caller closes it, when nobody waits any more.
status store_table_open(int keys, store_table **out, err *e);
void store_table_close(store_table *t);

// Returns whether the key has a value, which is *out then, borrowed until the next change of the table.
bool store_table_get(store_table *t, const char *key, store_value *out);
// Gives the key a value, and moves those who waited for it to the list *woken (each with link NULL).
// E_FIT when the table is full.
status store_table_set(store_table *t, const char *key, store_value v, store_waiter **woken,
                       err *e);
void store_table_remove(store_table *t, const char *key);
// The key has no value; w waits until it has. E_FIT when the table is full.
status store_table_wait(store_table *t, const char *key, store_waiter *w, err *e);
// w waits no longer. Nothing happens where it waits for no key.
void store_table_leave(store_table *t, store_waiter *w);

#endif
