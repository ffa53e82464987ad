// The first byte says which of two servers of the TCP store is the target, one without and one with a secret, and
// what the client knows. The rest is what the client sends. Then another client must be served: bad bytes end at
// most the connection that sent them.
#include "fuzz.h"

#include "base/clock.h"
#include "comm/store_server.h"
#include "comm/store_tcp.h"
#include "net/socket.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { WAIT_MS = 60000, SECURED = 1, STRANGER = 2 };

typedef struct server {
    net_secret secret;
    store_server *store;
    net_address address;
    comm_store *other;
} server;

static server the[2] = {{.secret = {0}}, {.secret = {.given = true, .key = "of the servers"}}};

static void close_servers(void)
{
    for (int i = 0; i < 2; i++) {
        comm_store_close(the[i].other);
        store_server_close(the[i].store);
    }
}

// The process that runs the inputs opens the servers, because a fork would leave their threads behind.
static void open_servers(void)
{
    net_address local;
    err e = {.code = OK};
    FUZZ_CLAIM(net_address_resolve("127.0.0.1", 0, &local, &e) == OK, "%s", e.text);
    for (server *s = the; s < the + 2; s++) {
        FUZZ_CLAIM(store_server_open(&local, &s->secret, &s->store, &s->address, &e) == OK, "%s",
                   e.text);
        FUZZ_CLAIM(comm_store_tcp_open(&s->address, &s->secret, WAIT_MS, &s->other, &e) == OK, "%s",
                   e.text);
    }
    atexit(close_servers);
}

// A client that knows the secret is greeted. It seals its message.
static bool send_greeted(const server *s, int fd, const uint8_t *input, size_t bytes, int64_t end)
{
    unsigned char code[NET_MAC_BYTES];
    net_hello hello;
    net_answer answer;
    net_welcome welcome;
    net_session session;
    err e = {.code = OK};
    FUZZ_CLAIM(net_read(fd, &hello, sizeof hello, end, &e) == OK, "%s", e.text);
    FUZZ_CLAIM(net_answer_make(&s->secret, &hello, &answer, &session, &e) == OK, "%s", e.text);
    FUZZ_CLAIM(net_write(fd, &answer, sizeof answer, end, &e) == OK, "%s", e.text);
    FUZZ_CLAIM(net_read(fd, &welcome, sizeof welcome, end, &e) == OK, "%s", e.text);
    FUZZ_CLAIM(net_welcome_check(&session, &welcome, &e) == OK, "%s", e.text);
    if (session.secured) net_seal(&session, input, bytes, code);
    // The server may close the connection in the middle.
    return net_write(fd, input, bytes, end, NULL) == OK &&
           (!session.secured || net_write(fd, code, sizeof code, end, NULL) == OK);
}

static bool run(const uint8_t *input, size_t bytes)
{
    int fd = -1;
    int64_t sum = 0;
    err e = {.code = OK};
    if (bytes == 0) return false;
    if (!the[0].store) open_servers();
    const server *s = &the[input[0] & SECURED];
    const int64_t end = clock_ns() + WAIT_MS * INT64_C(1000000);
    FUZZ_CLAIM(net_connect(&s->address, end, &fd, &e) == OK, "%s", e.text);
    const bool sent = input[0] & STRANGER ? net_write(fd, input + 1, bytes - 1, end, NULL) == OK
                                          : send_greeted(s, fd, input + 1, bytes - 1, end);
    // The input may have made this key something else than a number.
    FUZZ_CLAIM(comm_store_add(s->other, "calls", 1, &sum, WAIT_MS, &e) == OK || e.code == E_USAGE,
               "%s", e.text);
    shutdown(fd, SHUT_RDWR);
    close(fd);
    return sent;
}

const fuzz_target fuzz_this = {.binary = true, .run = run};
