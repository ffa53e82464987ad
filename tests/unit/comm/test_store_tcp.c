// The TCP store: what every store does with and without a secret, refused strangers, a server that ends, and
// bytes that are no request.
#include "store_cases.h"

#include "comm/store_server.h"
#include "comm/store_tcp.h"
#include "comm/store_wire.h"
#include "net/socket.h"

#include <unistd.h>

static struct {
    store_server *server;
    net_address address;
    net_secret secret;
} the;

static comm_store *connect_store(const net_secret *secret)
{
    comm_store *s = NULL;
    err e;
    if (comm_store_tcp_open(&the.address, secret, LONG_MS, &s, &e) != OK) fail_msg("%s", e.text);
    return s;
}

static void start_server(void)
{
    net_address local;
    err e;
    alarm(200);
    if (net_address_resolve("127.0.0.1", 0, &local, &e) != OK ||
        store_server_open(&local, &the.secret, &the.server, &the.address, &e) != OK)
        fail_msg("%s", e.text);
}

static comm_store *open_store(void)
{
    start_server();
    return connect_store(&the.secret);
}

static void close_store(comm_store *s)
{
    comm_store_close(s);
    store_server_close(the.server);
}

static comm_store *open_again(comm_store *s)
{
    (void)s;
    return connect_store(&the.secret);
}

static void close_again(comm_store *s)
{
    comm_store_close(s);
}

static int with_secret(void **state)
{
    (void)state;
    the.secret.given = true;
    memset(the.secret.key, 7, sizeof the.secret.key);
    return 0;
}

static int without_secret(void **state)
{
    (void)state;
    the.secret = (net_secret){0};
    return 0;
}

static void expect_refused(const net_secret *secret, const char *why)
{
    comm_store *s = NULL;
    err e;
    assert_int_equal(comm_store_tcp_open(&the.address, secret, LONG_MS, &s, &e), E_USAGE);
    assert_null(s);
    if (!strstr(e.text, why)) fail_msg("\"%s\" does not say \"%s\"", e.text, why);
}

static void test_strangers_are_refused(void **state)
{
    with_secret(state);
    comm_store *s = open_store();
    net_secret other = the.secret;
    other.key[3]++;
    expect_refused(&other, "it has another secret");
    expect_refused(&(net_secret){0}, "it needs the job's secret; valid: --secret-file FILE");
    assert_int_equal(comm_store_set(s, "k", "v", 1, 0, NULL), OK);
    close_store(s);
    without_secret(state);
    s = open_store();
    expect_refused(&other, "it has no secret, and this host has");
    close_store(s);
}

static void test_an_address_of_the_network_needs_a_secret(void **state)
{
    net_address any, bound;
    store_server *server = NULL;
    err e;
    without_secret(state);
    assert_int_equal(net_address_resolve("0.0.0.0", 0, &any, &e), OK);
    assert_int_equal(store_server_open(&any, &the.secret, &server, &bound, &e), E_USAGE);
    assert_non_null(
        strstr(e.text, "a store on 0.0.0.0:0, which other hosts reach, needs a secret"));
    with_secret(state);
    assert_int_equal(store_server_open(&any, &the.secret, &server, &bound, &e), OK);
    store_server_close(server);
}

static void test_a_lost_server_is_an_error(void **state)
{
    without_secret(state);
    comm_store *s = open_store();
    err e;
    assert_int_equal(comm_store_set(s, "k", "v", 1, 0, NULL), OK);
    store_server_close(the.server);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(comm_store_get(s, "k", NULL, 0, NULL, LONG_MS, &e), E_IO);
        assert_non_null(strstr(e.text, "the store at 127.0.0.1:"));
    }
    comm_store_close(s);
}

static void expect_word(comm_store *s, const char *key, const char *value)
{
    char got[16];
    size_t bytes = 0;
    assert_int_equal(comm_store_get(s, key, got, sizeof got, &bytes, LONG_MS, NULL), OK);
    assert_int_equal(bytes, strlen(value));
    assert_memory_equal(got, value, bytes);
}

static void test_a_will_is_done_when_its_client_is_gone_or_silent(void **state)
{
    without_secret(state);
    comm_store *s = open_store(), *gone = open_again(s), *quiet = open_again(s),
               *alive = open_again(s);
    const store_value lost = {"lost", 4};
    assert_int_equal(comm_store_tcp_will(gone, "a", lost, 0, NULL), OK);
    assert_int_equal(comm_store_tcp_will(quiet, "b", lost, 50, NULL), OK);
    assert_int_equal(comm_store_tcp_will(alive, "c", lost, LONG_MS, NULL), OK);
    assert_int_equal(comm_store_wait(s, "a", 0, NULL), E_PEER);
    close_again(gone);
    expect_word(s, "a", "lost");
    expect_word(s, "b", "lost");
    assert_int_equal(comm_store_wait(s, "c", 0, NULL), E_PEER);
    // One that was taken back, and one for a key that has a value.
    assert_int_equal(comm_store_tcp_will(alive, "c", (store_value){0}, 0, NULL), OK);
    close_again(alive);
    assert_int_equal(comm_store_set(s, "b", "found", 5, 0, NULL), OK);
    close_again(quiet);
    comm_store *last =
        open_again(s); // the server has noticed the others when it answers this one's will
    assert_int_equal(comm_store_tcp_will(last, "d", lost, 0, NULL), OK);
    close_again(last);
    expect_word(s, "d", "lost");
    expect_word(s, "b", "found");
    assert_int_equal(comm_store_wait(s, "c", 0, NULL), E_PEER);
    close_store(s);
}

// Connects and shows the secret, but no more.
static int greet(net_session *session)
{
    int fd = -1;
    net_hello hello;
    net_answer answer;
    net_welcome welcome;
    const int64_t deadline = clock_ns() + LONG_MS * INT64_C(1000000);
    err e;
    if (net_connect(&the.address, deadline, &fd, &e) != OK) fail_msg("%s", e.text);
    assert_int_equal(net_read(fd, &hello, sizeof hello, deadline, &e), OK);
    assert_int_equal(net_answer_make(&the.secret, &hello, &answer, session, &e), OK);
    assert_int_equal(net_write(fd, &answer, sizeof answer, deadline, &e), OK);
    assert_int_equal(net_read(fd, &welcome, sizeof welcome, deadline, &e), OK);
    assert_int_equal(net_welcome_check(session, &welcome, &e), OK);
    return fd;
}

// The server closes the connection without an answer.
static void expect_closed(int fd)
{
    char byte;
    err e;
    const int64_t deadline = clock_ns() + LONG_MS * INT64_C(1000000);
    assert_int_equal(net_read(fd, &byte, 1, deadline, &e), E_IO);
    close(fd);
}

static void send_request(int fd, store_request head, const char *rest, size_t bytes)
{
    const int64_t deadline = clock_ns() + LONG_MS * INT64_C(1000000);
    assert_int_equal(net_write(fd, &head, sizeof head, deadline, NULL), OK);
    assert_int_equal(net_write(fd, rest, bytes, deadline, NULL), OK);
}

static void test_bytes_that_are_no_request_end_the_connection(void **state)
{
    without_secret(state);
    comm_store *s = open_store();
    net_session session;
    const store_request bad[] = {
        {.op = STORE_OPS, .key_bytes = 1},
        {.op = STORE_SET, .key_bytes = 0},
        {.op = STORE_SET, .key_bytes = STORE_KEY_BYTES},
        {.op = STORE_SET, .key_bytes = 1, .value_bytes = STORE_VALUE_BYTES + 1},
        {.op = STORE_COMPARE, .key_bytes = 1, .expected_bytes = UINT16_MAX},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const int fd = greet(&session);
        send_request(fd, bad[i], "k", 1);
        expect_closed(fd);
    }
    assert_int_equal(comm_store_set(s, "k", "v", 1, 0, NULL), OK);
    close_store(s);
    with_secret(state);
    s = open_store();
    const int fd = greet(&session);
    char rest[1 + NET_MAC_BYTES] = "k"; // a code of zeros
    send_request(fd, (store_request){.op = STORE_REMOVE, .key_bytes = 1}, rest, sizeof rest);
    expect_closed(fd);
    assert_int_equal(comm_store_set(s, "k", "v", 1, 0, NULL), OK);
    close_store(s);
}

static void test_a_request_is_not_taken_twice(void **state)
{
    with_secret(state);
    comm_store *s = open_store();
    net_session session;
    const int64_t deadline = clock_ns() + LONG_MS * INT64_C(1000000);
    const store_request head = {.op = STORE_ADD, .key_bytes = 1, .number = 1};
    unsigned char frame[sizeof head + 1 + NET_MAC_BYTES],
        reply[sizeof(store_reply) + NET_MAC_BYTES];
    const int fd = greet(&session);
    memcpy(frame, &head, sizeof head);
    frame[sizeof head] = 'n';
    net_seal(&session, frame, sizeof head + 1, frame + sizeof head + 1);
    assert_int_equal(net_write(fd, frame, sizeof frame, deadline, NULL), OK);
    assert_int_equal(net_read(fd, reply, sizeof reply, deadline, NULL), OK);
    assert_int_equal(number_of(s, "n"), 1);
    assert_int_equal(net_write(fd, frame, sizeof frame, deadline, NULL), OK);
    expect_closed(fd);
    assert_int_equal(number_of(s, "n"), 1);
    close_store(s);
}

// More strangers than the server keeps, who say nothing, do not keep those with the secret out for ever.
static void test_silent_strangers_do_not_stay(void **state)
{
    with_secret(state);
    comm_store *s = open_store();
    int fds[2 * STORE_STRANGERS];
    const int64_t deadline = clock_ns() + LONG_MS * INT64_C(1000000);
    for (int i = 0; i < 2 * STORE_STRANGERS; i++)
        assert_int_equal(net_connect(&the.address, deadline, &fds[i], NULL), OK);
    assert_int_equal(comm_store_set(s, "k", "v", 1, 0, NULL), OK);
    comm_store *late = NULL;
    while (!late && clock_ns() < deadline)
        if (comm_store_tcp_open(&the.address, &the.secret, 1000, &late, NULL) != OK) usleep(100000);
    assert_non_null(late);
    comm_store_close(late);
    for (int i = 0; i < 2 * STORE_STRANGERS; i++) close(fds[i]);
    close_store(s);
}

int main(void)
{
    const struct CMUnitTest both[] = {STORE_CASES};
    const struct CMUnitTest own[] = {
        cmocka_unit_test(test_strangers_are_refused),
        cmocka_unit_test(test_an_address_of_the_network_needs_a_secret),
        cmocka_unit_test(test_a_lost_server_is_an_error),
        cmocka_unit_test(test_a_will_is_done_when_its_client_is_gone_or_silent),
        cmocka_unit_test(test_bytes_that_are_no_request_end_the_connection),
        cmocka_unit_test(test_a_request_is_not_taken_twice),
        cmocka_unit_test(test_silent_strangers_do_not_stay),
    };
    return cmocka_run_group_tests_name("with a secret", both, with_secret, NULL) +
           cmocka_run_group_tests_name("without a secret", both, without_secret, NULL) +
           cmocka_run_group_tests_name("the server", own, NULL, NULL);
}
