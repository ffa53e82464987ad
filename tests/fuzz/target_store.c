// The target is the server of the TCP store. The first byte says whether the client knows its secret. The rest is what the client sends. Then another client must be served: bad bytes end at
// most the connection that sent them.
#include "fuzz.h"

#include "base/clock.h"
#include "net/socket.h"
#include "rendezvous/store_server.h"
#include "rendezvous/store_tcp.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { WAIT_MS = 60000, STRANGER = 2 };

static struct {
    net_secret secret;
    store_server *store;
    net_address address;
    comm_store *other;
} the = {.secret = {.key = "of the server"}};

static void close_server(void)
{
    comm_store_close(the.other);
    store_server_close(the.store);
}

// The process that runs the inputs opens the server, because a fork would leave its thread behind.
static void open_server(void)
{
    net_address local;
    err e = {.code = OK};
    FUZZ_CLAIM(net_address_resolve("127.0.0.1", 0, &local, &e) == OK, "%s", e.text);
    FUZZ_CLAIM(store_server_open(&local, &the.secret, &the.store, &the.address, &e) == OK, "%s",
               e.text);
    FUZZ_CLAIM(comm_store_tcp_open(&the.address, &the.secret, WAIT_MS, &the.other, &e) == OK, "%s",
               e.text);
    atexit(close_server);
}

// A client that knows the secret is greeted. It seals its message.
static bool send_greeted(int fd, const uint8_t *input, size_t bytes, int64_t end)
{
    unsigned char code[NET_MAC_BYTES];
    net_challenge challenge;
    net_response response;
    net_outcome outcome;
    net_session session;
    err e = {.code = OK};
    FUZZ_CLAIM(net_read(fd, &challenge, sizeof challenge, end, &e) == OK, "%s", e.text);
    FUZZ_CLAIM(net_response_make(&the.secret, &challenge, &response, &session, &e) == OK, "%s",
               e.text);
    FUZZ_CLAIM(net_write(fd, &response, sizeof response, end, &e) == OK, "%s", e.text);
    FUZZ_CLAIM(net_read(fd, &outcome, sizeof outcome, end, &e) == OK, "%s", e.text);
    FUZZ_CLAIM(net_outcome_check(&session, &outcome, &e) == OK, "%s", e.text);
    net_seal(&session, input, bytes, code);
    // The server may close the connection in the middle.
    return net_write(fd, input, bytes, end, NULL) == OK &&
           net_write(fd, code, sizeof code, end, NULL) == OK;
}

static bool run(const uint8_t *input, size_t bytes)
{
    int fd = -1;
    int64_t sum = 0;
    err e = {.code = OK};
    if (bytes == 0) return false;
    if (!the.store) open_server();
    const int64_t end = clock_ns() + WAIT_MS * INT64_C(1000000);
    FUZZ_CLAIM(net_connect(&the.address, end, &fd, &e) == OK, "%s", e.text);
    const bool sent = input[0] & STRANGER ? net_write(fd, input + 1, bytes - 1, end, NULL) == OK
                                          : send_greeted(fd, input + 1, bytes - 1, end);
    // The input may have made this key something else than a number.
    FUZZ_CLAIM(comm_store_add(the.other, "calls", 1, &sum, WAIT_MS, &e) == OK || e.code == E_USAGE,
               "%s", e.text);
    shutdown(fd, SHUT_RDWR);
    close(fd);
    return sent;
}

const fuzz_target fuzz_this = {.binary = true, .run = run};
