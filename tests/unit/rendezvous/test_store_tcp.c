// The TCP store: what every store does, refused strangers and other users of the machine, a server that ends, and bytes
// that are no request.
#include "store_cases.h"

#include "net/socket.h"
#include "rendezvous/store_server.h"
#include "rendezvous/store_tcp.h"
#include "rendezvous/store_wire.h"

#include <event2/event.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static struct {
    store_server *server;
    net_address address;
    net_secret secret;
} the = {.secret = {.key = "of the server, its clients"}};

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
    (void)state;
    comm_store *s = open_store();
    net_secret other = the.secret;
    other.key[3]++;
    expect_refused(&other, "it has another secret");
    assert_int_equal(comm_store_set(s, "k", "v", 1, 0, NULL), OK);
    close_store(s);
}

static void test_a_lost_server_is_an_error(void **state)
{
    (void)state;
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
    (void)state;
    comm_store *s = open_store(), *gone = open_again(s), *quiet = open_again(s),
               *alive = open_again(s);
    const store_value lost = {"lost", 4};
    assert_int_equal(comm_store_tcp_set_on_disconnect(gone, "a", lost, 0, NULL), OK);
    assert_int_equal(comm_store_tcp_set_on_disconnect(quiet, "b", lost, 50, NULL), OK);
    assert_int_equal(comm_store_tcp_set_on_disconnect(alive, "c", lost, LONG_MS, NULL), OK);
    assert_int_equal(comm_store_wait(s, "a", 0, NULL), E_PEER);
    close_again(gone);
    expect_word(s, "a", "lost");
    expect_word(s, "b", "lost");
    assert_int_equal(comm_store_wait(s, "c", 0, NULL), E_PEER);
    // One that was taken back, and one for a key that has a value.
    assert_int_equal(comm_store_tcp_set_on_disconnect(alive, "c", (store_value){0}, 0, NULL), OK);
    close_again(alive);
    assert_int_equal(comm_store_set(s, "b", "found", 5, 0, NULL), OK);
    close_again(quiet);
    comm_store *last =
        open_again(s); // the server has noticed the others when it answers this one's will
    assert_int_equal(comm_store_tcp_set_on_disconnect(last, "d", lost, 0, NULL), OK);
    close_again(last);
    expect_word(s, "d", "lost");
    expect_word(s, "b", "found");
    assert_int_equal(comm_store_wait(s, "c", 0, NULL), E_PEER);
    close_store(s);
}

static int64_t soon(void)
{
    return clock_ns() + LONG_MS * INT64_C(1000000);
}

// Connects, and sends `told` or, where that is NULL, an answer to the hello. *told_out receives what it sent.
static int answer_challenge(const net_response *sent, net_response *sent_out, net_session *session,
                            net_outcome *outcome)
{
    int fd = -1;
    net_challenge challenge;
    net_response response;
    err e;
    if (net_connect(&the.address, soon(), &fd, &e) != OK) fail_msg("%s", e.text);
    assert_int_equal(net_read(fd, &challenge, sizeof challenge, soon(), &e), OK);
    assert_int_equal(net_response_make(&the.secret, &challenge, &response, session, &e), OK);
    if (sent) response = *sent;
    assert_int_equal(net_write(fd, &response, sizeof response, soon(), &e), OK);
    assert_int_equal(net_read(fd, outcome, sizeof *outcome, soon(), &e), OK);
    if (sent_out) *sent_out = response;
    return fd;
}

// Connects and shows the secret, but no more.
static int authenticate(net_session *session)
{
    net_outcome outcome;
    err e;
    const int fd = answer_challenge(NULL, NULL, session, &outcome);
    if (net_outcome_check(session, &outcome, &e) != OK) fail_msg("%s", e.text);
    return fd;
}

// The server closes the connection without an answer.
static void expect_closed(int fd)
{
    char byte;
    err e;
    assert_int_equal(net_read(fd, &byte, 1, soon(), &e), E_IO);
    close(fd);
}

static void send_request(int fd, store_request head, const char *rest, size_t bytes)
{
    assert_int_equal(net_write(fd, &head, sizeof head, soon(), NULL), OK);
    assert_int_equal(net_write(fd, rest, bytes, soon(), NULL), OK);
}

static void test_bytes_that_are_no_request_end_the_connection(void **state)
{
    (void)state;
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
        const int fd = authenticate(&session);
        send_request(fd, bad[i], "k", 1);
        expect_closed(fd);
    }
    const int fd = authenticate(&session);
    char rest[1 + NET_MAC_BYTES] = "k"; // a code of zeros
    send_request(fd, (store_request){.op = STORE_REMOVE, .key_bytes = 1}, rest, sizeof rest);
    expect_closed(fd);
    assert_int_equal(comm_store_set(s, "k", "v", 1, 0, NULL), OK);
    close_store(s);
}

// A sealed request that adds 1 to "n". The reply is read.
enum { ADD_BYTES = sizeof(store_request) + 1 + NET_MAC_BYTES };

static void add_one(int fd, net_session *session, unsigned char frame[ADD_BYTES])
{
    const store_request head = {.op = STORE_ADD, .key_bytes = 1, .number = 1};
    unsigned char reply[sizeof(store_reply) + NET_MAC_BYTES];
    memcpy(frame, &head, sizeof head);
    frame[sizeof head] = 'n';
    net_seal(session, frame, sizeof head + 1, frame + sizeof head + 1);
    assert_int_equal(net_write(fd, frame, ADD_BYTES, soon(), NULL), OK);
    assert_int_equal(net_read(fd, reply, sizeof reply, soon(), NULL), OK);
}

static void test_a_request_is_not_taken_twice(void **state)
{
    (void)state;
    comm_store *s = open_store();
    net_session session;
    unsigned char frame[ADD_BYTES];
    const int fd = authenticate(&session);
    add_one(fd, &session, frame);
    assert_int_equal(number_of(s, "n"), 1);
    assert_int_equal(net_write(fd, frame, sizeof frame, soon(), NULL), OK);
    expect_closed(fd);
    assert_int_equal(number_of(s, "n"), 1);
    close_store(s);
}

// What was heard on one connection opens no other one, and does nothing on it: the server draws a nonce for each.
static void test_bytes_of_another_connection_are_refused(void **state)
{
    (void)state;
    comm_store *s = open_store();
    net_session session, other;
    net_response first;
    net_outcome outcome;
    err e;
    unsigned char frame[ADD_BYTES];
    int fd = answer_challenge(NULL, &first, &session, &outcome);
    assert_int_equal(net_outcome_check(&session, &outcome, &e), OK);
    add_one(fd, &session, frame);
    close(fd);
    fd = answer_challenge(&first, NULL, &other, &outcome);
    assert_int_equal(net_outcome_check(&session, &outcome, &e), E_USAGE);
    assert_non_null(strstr(e.text, "it has another secret"));
    expect_closed(fd);
    fd = authenticate(&other); // with its own answer, and the other one's first request
    assert_int_equal(net_write(fd, frame, sizeof frame, soon(), NULL), OK);
    expect_closed(fd);
    assert_int_equal(number_of(s, "n"), 1);
    close_store(s);
}

// ---- Memory

// The bytes of libevent's memory, which holds all that the server has received, and the most since the last look.
static _Atomic int64_t held, most_held;

static void note_held(int64_t more)
{
    const int64_t now = atomic_fetch_add(&held, more) + more;
    int64_t before = atomic_load(&most_held);
    while (now > before && !atomic_compare_exchange_weak(&most_held, &before, now)) {
    }
}

static void *take(size_t bytes)
{
    void *p = malloc(bytes);
    if (p) note_held((int64_t)malloc_usable_size(p));
    return p;
}

static void *take_more(void *p, size_t bytes)
{
    const int64_t before = (int64_t)malloc_usable_size(p);
    void *q = realloc(p, bytes);
    if (q) note_held((int64_t)malloc_usable_size(q) - before);
    return q;
}

static void give(void *p)
{
    note_held(-(int64_t)malloc_usable_size(p));
    free(p);
}

// Sends as much of 1 MiB as the other end takes without waiting for it.
static void send_much(int fd)
{
    static const char zeros[1 << 20];
    for (size_t sent = 0; sent < sizeof zeros;) {
        const ssize_t n = send(fd, zeros + sent, sizeof zeros - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n <= 0) return;
        sent += (size_t)n;
    }
}

// Strangers that send a lot cost the server less than they send, and it drops them.
static void test_strangers_cost_little_memory(void **state)
{
    (void)state;
    enum { STRANGERS = 32, EACH = 16 << 10 };
    comm_store *s = open_store();
    int fds[STRANGERS];
    net_challenge challenge;
    char rest[64];
    for (int i = 0; i < STRANGERS; i++) {
        assert_int_equal(net_connect(&the.address, soon(), &fds[i], NULL), OK);
        assert_int_equal(net_read(fds[i], &challenge, sizeof challenge, soon(), NULL), OK);
    }
    const int64_t before = atomic_load(&held);
    atomic_store(&most_held, before);
    for (int i = 0; i < STRANGERS; i++) send_much(fds[i]);
    for (int i = 0; i < STRANGERS; i++) {
        while (net_read(fds[i], rest, 1, soon(), NULL) == OK) {
        }
        close(fds[i]);
    }
    assert_true(before > 0);
    assert_in_range(atomic_load(&most_held) - before, 0, STRANGERS * EACH);
    assert_int_equal(comm_store_set(s, "k", "v", 1, 0, NULL), OK);
    close_store(s);
}

// A thousand strangers who say nothing keep nobody with the secret out.
static void test_silent_strangers_keep_nobody_out(void **state)
{
    (void)state;
    enum { SILENT = 1000 };
    struct rlimit files;
    comm_store *s = open_store();
    int fds[SILENT];
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
    files.rlim_cur = files.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
    if (files.rlim_cur < 2 * SILENT) skip();
    for (int i = 0; i < SILENT; i++)
        assert_int_equal(net_connect(&the.address, soon(), &fds[i], NULL), OK);
    comm_store *late = open_again(s);
    assert_int_equal(comm_store_set(late, "k", "v", 1, 0, NULL), OK);
    expect_word(s, "k", "v");
    close_again(late);
    for (int i = 0; i < SILENT; i++) close(fds[i]);
    close_store(s);
}

// Bytes of every kind in the place of the answer that shows the secret: half of them are an answer with one bit changed.
static void test_mutated_answers_are_refused(void **state)
{
    (void)state;
    enum { FRAMES = 2000 };
    comm_store *s = open_store();
    uint64_t x = 88172645463325252u; // xorshift
    for (int i = 0; i < FRAMES; i++) {
        int fd = -1;
        net_challenge challenge;
        net_response response;
        net_session session;
        unsigned char *bytes = (unsigned char *)&response;
        assert_int_equal(net_connect(&the.address, soon(), &fd, NULL), OK);
        assert_int_equal(net_read(fd, &challenge, sizeof challenge, soon(), NULL), OK);
        assert_int_equal(net_response_make(&the.secret, &challenge, &response, &session, NULL), OK);
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        bytes[x % sizeof response] ^= (unsigned char)(1u << (x >> 32) % 8);
        for (size_t b = 0; i % 2 && b < sizeof response; b++)
            bytes[b] ^= (unsigned char)(x >> b % 57);
        net_outcome outcome;
        (void)net_write(fd, bytes, i % 5 ? sizeof response : x % sizeof response, soon(), NULL);
        shutdown(fd, SHUT_WR);
        if (net_read(fd, &outcome, sizeof outcome, soon(), NULL) == OK)
            assert_int_equal(net_outcome_check(&session, &outcome, NULL), E_USAGE);
        close(fd);
    }
    assert_int_equal(comm_store_set(s, "k", "v", 1, 0, NULL), OK);
    close_store(s);
}

// Another user of the machine is refused at once and takes no place, even if it knows the secret.
static void test_another_user_is_refused(void **state)
{
    (void)state;
    if (geteuid() != 0) skip(); // only root can become another user
    comm_store *s = open_store();
    const pid_t pid = fork();
    if (pid == 0) {
        comm_store *other = NULL;
        err e = {0};
        if (setgid(65534) != 0 || setuid(65534) != 0) _exit(2);
        const status got = comm_store_tcp_open(&the.address, &the.secret, LONG_MS, &other, &e);
        _exit(got == E_USAGE && strstr(e.text, "it is a process of another user") ? 0 : 1);
    }
    int how = 0;
    assert_int_equal(waitpid(pid, &how, 0), pid);
    assert_int_equal(how, 0);
    assert_int_equal(comm_store_set(s, "k", "v", 1, 0, NULL), OK);
    close_store(s);
}

int main(void)
{
    const struct CMUnitTest both[] = {STORE_CASES};
    const struct CMUnitTest own[] = {
        cmocka_unit_test(test_strangers_are_refused),
        cmocka_unit_test(test_a_lost_server_is_an_error),
        cmocka_unit_test(test_a_will_is_done_when_its_client_is_gone_or_silent),
        cmocka_unit_test(test_bytes_that_are_no_request_end_the_connection),
        cmocka_unit_test(test_a_request_is_not_taken_twice),
        cmocka_unit_test(test_bytes_of_another_connection_are_refused),
        cmocka_unit_test(test_strangers_cost_little_memory),
        cmocka_unit_test(test_silent_strangers_keep_nobody_out),
        cmocka_unit_test(test_mutated_answers_are_refused),
        cmocka_unit_test(test_another_user_is_refused),
    };
    event_set_mem_functions(take, take_more, give);
    return cmocka_run_group_tests_name("the store", both, NULL, NULL) +
           cmocka_run_group_tests_name("the server", own, NULL, NULL);
}
