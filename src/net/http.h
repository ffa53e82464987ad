// http.h -- a small server of HTTP for pages and metrics of a run, which answers GET and HEAD in one thread.
//
// The exporter of metrics and `report --serve` call it. It knows neither what it serves nor TLS. It is no server for
// other users: there is no authentication, so it listens on the loopback address unless an address is given.
#ifndef TRIREME_NET_HTTP_H
#define TRIREME_NET_HTTP_H

#include "base/text.h"

#include <stdatomic.h>

// More bytes of headers end a request with an error, more connections wait until one has ended, and a connection that is
// silent for so long is closed.
enum { HTTP_HEADER_BYTES = 8192, HTTP_CONNECTIONS = 64, HTTP_IDLE_S = 10 };

typedef struct http_server http_server;

// `type` is borrowed until the server has sent the answer; NULL: text/plain. The server clears `body`.
typedef struct http_reply {
    int code; // 0: 404
    const char *type;
    text body;
} http_reply;
// Answers a request. `path` is decoded, without the query: "/metrics".
typedef void http_answer(void *arg, const char *path, http_reply *out);

// Listens on "[ADDRESS:]PORT"; port 0 takes a free one. The caller closes *out. E_USAGE and E_IO name the address.
status http_open(const char *address, http_answer *answer, void *arg, http_server **out, err *e);
int http_port(const http_server *s);
// The address with its port, as "127.0.0.1:9400"; borrowed.
const char *http_address(const http_server *s);
// Serves until *stop is not 0 (looked at 10 times a second). Before each look it calls `turn` (NULL: nothing).
status http_serve_with(http_server *s, const _Atomic int *stop, void (*turn)(void *arg), err *e);
status http_serve(http_server *s, const _Atomic int *stop, err *e);
void http_close(http_server *s); // NULL allowed

#endif
