// The input is what a client sends to the server of the TCP store after the greeting, without a secret. Then another
// client must be served: bad bytes end at most the connection that sent them.
#include "fuzz.h"

#include "base/clock.h"
#include "comm/store_server.h"
#include "comm/store_tcp.h"
#include "net/socket.h"

#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { WAIT_MS = 60000 };

static struct {
    store_server *server;
    net_address address;
    comm_store *other;
} the;

static void close_target(void)
{
    comm_store_close(the.other);
    store_server_close(the.server);
}

// The process that runs the inputs opens the server, because a fork would leave its thread behind.
static void open_target(void)
{
    net_address local;
    err e = {.code = OK};
    const net_secret none = {0};
    FUZZ_CLAIM(net_address_resolve("127.0.0.1", 0, &local, &e) == OK, "%s", e.text);
    FUZZ_CLAIM(store_server_open(&local, &none, &the.server, &the.address, &e) == OK, "%s", e.text);
    FUZZ_CLAIM(comm_store_tcp_open(&the.address, &none, WAIT_MS, &the.other, &e) == OK, "%s",
               e.text);
    atexit(close_target);
}

static bool run(const uint8_t *input, size_t bytes)
{
    int fd = -1;
    int64_t sum = 0;
    net_hello hello;
    net_answer answer;
    net_welcome welcome;
    net_session session;
    err e = {.code = OK};
    const net_secret none = {0};
    if (!the.server) open_target();
    const int64_t end = clock_ns() + WAIT_MS * INT64_C(1000000);
    FUZZ_CLAIM(net_connect(&the.address, end, &fd, &e) == OK, "%s", e.text);
    FUZZ_CLAIM(net_read(fd, &hello, sizeof hello, end, &e) == OK, "%s", e.text);
    FUZZ_CLAIM(net_answer_make(&none, &hello, &answer, &session, &e) == OK, "%s", e.text);
    FUZZ_CLAIM(net_write(fd, &answer, sizeof answer, end, &e) == OK, "%s", e.text);
    FUZZ_CLAIM(net_read(fd, &welcome, sizeof welcome, end, &e) == OK, "%s", e.text);
    // The server may close the connection in the middle.
    const bool sent = net_write(fd, input, bytes, end, NULL) == OK;
    // The input may have made this key something else than a number.
    FUZZ_CLAIM(comm_store_add(the.other, "calls", 1, &sum, WAIT_MS, &e) == OK || e.code == E_USAGE,
               "%s", e.text);
    shutdown(fd, SHUT_RDWR);
    close(fd);
    return sent;
}

const fuzz_target fuzz_this = {.binary = true, .run = run};
