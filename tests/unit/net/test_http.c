// test_http.c -- the server of HTTP on the loopback address: its answers byte by byte, what it refuses, and its limits.
#include "net/http.h"

#include "net/socket.h"

#include "base/clock.h"

#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { ROOM = 1 << 16, TURNS = 3 };

typedef struct served {
    http_server *server;
    pthread_t thread;
    _Atomic int stop;
    _Atomic int turns;
} served;

static void answer(void *arg, const char *path, http_reply *out)
{
    (void)arg;
    if (strcmp(path, "/metrics") != 0 && strcmp(path, "/a b") != 0) return;
    out->code = 200;
    if (path[1] == 'a') out->type = "text/html";
    text_addf(&out->body, "this is %s\n", path);
}

static void turn(void *arg)
{
    served *s = arg;
    s->turns++;
}

static void *serve(void *arg)
{
    served *s = arg;
    assert_int_equal(http_serve_with(s->server, &s->stop, turn, NULL), OK);
    return NULL;
}

static int begin(void **state)
{
    static served s;
    err e = {0};
    s.stop = s.turns = 0;
    alarm(120);
    if (http_open("0", answer, &s, &s.server, &e) != OK) return -1;
    *state = &s;
    return pthread_create(&s.thread, NULL, serve, &s);
}

static int end(void **state)
{
    served *s = *state;
    s->stop = 1;
    pthread_join(s->thread, NULL);
    http_close(s->server);
    return 0;
}

static int64_t deadline(void)
{
    return clock_ns() + INT64_C(60) * 1000000000;
}

static int open_client(const served *s)
{
    net_address a;
    int fd = -1;
    assert_int_equal(net_address_resolve("127.0.0.1", http_port(s->server), &a, NULL), OK);
    assert_int_equal(net_connect(&a, deadline(), &fd, NULL), OK);
    return fd;
}

// Reads until the server closes the connection. Returns the bytes.
static size_t read_all(int fd, char *out)
{
    size_t bytes = 0;
    for (;;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        assert_int_equal(poll(&p, 1, 60000), 1);
        const ssize_t got = read(fd, out + bytes, ROOM - 1 - bytes);
        if (got <= 0) break;
        bytes += (size_t)got;
    }
    out[bytes] = 0;
    close(fd);
    return bytes;
}

// Sends a request and returns the answer, which the next call replaces.
static const char *ask(const served *s, const char *request)
{
    static char reply[ROOM];
    const int fd = open_client(s);
    assert_int_equal(net_write(fd, request, strlen(request), deadline(), NULL), OK);
    read_all(fd, reply);
    return reply;
}

static const char *body_of(const char *reply)
{
    const char *at = strstr(reply, "\r\n\r\n");
    return at ? at + 4 : "";
}

static void get_and_head_are_answered(void **state)
{
    const served *s = *state;
    const char *reply = ask(s, "GET /metrics?x=1 HTTP/1.0\r\n\r\n");
    assert_non_null(strstr(reply, " 200 OK\r\n"));
    assert_non_null(strstr(reply, "Content-Type: text/plain; charset=utf-8\r\n"));
    assert_string_equal(body_of(reply), "this is /metrics\n");
    reply = ask(s, "GET /a%20b HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    assert_non_null(strstr(reply, "Content-Type: text/html\r\n"));
    assert_string_equal(body_of(reply), "this is /a b\n");
    reply = ask(s, "HEAD /metrics HTTP/1.0\r\n\r\n");
    assert_non_null(strstr(reply, " 200 OK\r\n"));
    assert_non_null(strstr(reply, "Content-Length: 17\r\n"));
    assert_string_equal(body_of(reply), "");
    reply = ask(s, "GET / HTTP/1.0\r\n\r\n");
    assert_non_null(strstr(reply, " 404 Not Found\r\n"));
}

static void other_requests_are_refused(void **state)
{
    const served *s = *state;
    static const char *const refused[] = {"POST", "PUT", "DELETE", "OPTIONS", "PATCH"};
    char request[ROOM];
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        snprintf(request, sizeof request,
                 "%s /metrics HTTP/1.1\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
                 refused[i]);
        const char *reply = ask(s, request);
        assert_non_null(strstr(reply, "HTTP/1.1 405 "));
        assert_non_null(strstr(reply, "Allow: GET, HEAD\r\n"));
    }
    assert_non_null(strstr(
        ask(s, "POST / HTTP/1.1\r\nConnection: close\r\nContent-Length: 99999\r\n\r\n"), " 413 "));
    assert_non_null(strstr(ask(s, "BREW / HTTP/1.1\r\n\r\n"), " 501 "));
    assert_null(strstr(ask(s, "nonsense\r\n\r\n"), " 200 "));
    int used = snprintf(request, sizeof request, "GET /metrics HTTP/1.0\r\nX: ");
    memset(request + used, 'a', 2 * HTTP_HEADER_BYTES);
    strcpy(request + used + 2 * HTTP_HEADER_BYTES, "\r\n\r\n");
    assert_null(strstr(ask(s, request), " 200 "));
}

// Clients that say nothing hold all connections; one more is answered as soon as one of them has gone.
static void connections_are_limited(void **state)
{
    const served *s = *state;
    const char *const request = "GET /metrics HTTP/1.0\r\n\r\n";
    int silent[HTTP_CONNECTIONS];
    char reply[ROOM];
    for (int i = 0; i < HTTP_CONNECTIONS; i++) silent[i] = open_client(s);
    const int one = open_client(s);
    assert_int_equal(net_write(one, request, strlen(request), deadline(), NULL), OK);
    struct pollfd p = {.fd = one, .events = POLLIN};
    assert_int_equal(poll(&p, 1, 300), 0);
    close(silent[0]);
    read_all(one, reply);
    assert_string_equal(body_of(reply), "this is /metrics\n");
    for (int i = 1; i < HTTP_CONNECTIONS; i++) close(silent[i]);
    assert_string_equal(body_of(ask(s, request)), "this is /metrics\n");
}

static void turns_are_taken(void **state)
{
    served *s = *state;
    const int64_t last = deadline();
    while (s->turns < TURNS && clock_ns() < last) poll(NULL, 0, 10);
    assert_true(s->turns >= TURNS);
}

static void addresses_are_checked(void **state)
{
    http_server *s = NULL, *other = NULL;
    err e = {0};
    char taken[32];
    (void)state;
    assert_int_equal(http_open("nowhere", answer, NULL, &s, &e), E_USAGE);
    assert_non_null(strstr(e.text, "\"nowhere\""));
    assert_int_equal(http_open("0", answer, NULL, &s, &e), OK);
    assert_int_equal(strncmp(http_address(s), "127.0.0.1:", 10), 0);
    snprintf(taken, sizeof taken, "127.0.0.1:%d", http_port(s));
    assert_int_equal(http_open(taken, answer, NULL, &other, &e), E_IO);
    assert_non_null(strstr(e.text, taken));
    http_close(s);
    http_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(get_and_head_are_answered, begin, end),
        cmocka_unit_test_setup_teardown(other_requests_are_refused, begin, end),
        cmocka_unit_test_setup_teardown(connections_are_limited, begin, end),
        cmocka_unit_test_setup_teardown(turns_are_taken, begin, end),
        cmocka_unit_test(addresses_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
