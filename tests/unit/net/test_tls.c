// TLS with a pre-shared key: two ends with one key exchange bytes in any sizes and beyond a change of keys; an end with
// another key, without one, or that sends anything else is refused, and so is one whose bytes were changed on their way.
#include "net/tls.h"

#include "net/socket.h"

#include <fcntl.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

static const unsigned char KEY[NET_TLS_KEY_BYTES] = "the key of both ends",
                           OTHER[NET_TLS_KEY_BYTES] = "the key of another job";

typedef struct ends {
    net_tls_context *context[2];
    net_tls *tls[2]; // client and server
} ends;

// Two connected sockets that do not wait.
static void connect_pair(int fds[2])
{
    alarm(60);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
}

static void open_on(ends *x, const unsigned char *client, const unsigned char *server,
                    uint64_t update, const int fds[2])
{
    const unsigned char *keys[2] = {client, server};
    err e;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(net_tls_context_open(keys[i], update, &x->context[i], &e), OK);
        assert_int_equal(net_tls_open(x->context[i], fds[i], i == 1, &x->tls[i], &e), OK);
    }
}

static void close_ends(ends *x)
{
    for (int i = 0; i < 2; i++) {
        net_tls_close(x->tls[i]);
        net_tls_context_close(x->context[i]);
    }
}

// Carries what has come from one socket to the other. `changed`: the byte that is changed; -1: none.
static void carry(int from, int to, int changed)
{
    char bytes[4000];
    const ssize_t got = read(from, bytes, sizeof bytes);
    if (got <= 0) return;
    if (changed >= 0) assert_true(changed < got);
    if (changed >= 0) bytes[changed] ^= 1;
    assert_int_equal(write(to, bytes, (size_t)got), got);
}

// Shakes hands until both ends are through, or one has ended. Returns whether both are.
static bool shake(ends *x)
{
    for (int turn = 0; turn < 1000; turn++) {
        const net_tls_wants client = net_tls_handshake(x->tls[0]),
                            server = net_tls_handshake(x->tls[1]);
        if (client == NET_TLS_ENDED || server == NET_TLS_ENDED) return false;
        if (client == NET_TLS_READY && server == NET_TLS_READY) return true;
    }
    fail_msg("the handshake does not end");
    return false;
}

static void test_ends_with_one_key_exchange_bytes(void **state)
{
    (void)state;
    enum { BYTES = 3000000 };
    ends x;
    int fds[2];
    char *sent = malloc(BYTES), *got = malloc(BYTES);
    for (size_t i = 0; i < BYTES; i++) sent[i] = (char)(i * 2654435761u >> 24);
    connect_pair(fds);
    open_on(&x, KEY, KEY, 100000, fds); // with thirty changes of keys
    assert_true(shake(&x));
    for (int from = 0; from < 2; from++) {
        size_t out = 0, in = 0, step = 1;
        memset(got, 0, BYTES);
        while (in < BYTES) {
            const size_t left = BYTES - out, most = step < NET_TLS_RECORD ? step : NET_TLS_RECORD,
                         bytes = left < most ? left : most;
            if (bytes) {
                const net_tls_wants wants = net_tls_write(x.tls[from], sent + out, bytes);
                assert_true(wants == NET_TLS_READY || wants == NET_TLS_WRITES);
                if (wants == NET_TLS_READY) {
                    out += bytes;
                    step = step * 3 % 20011;
                    continue;
                }
            }
            size_t some;
            const net_tls_wants wants = net_tls_read(x.tls[1 - from], got + in, BYTES - in, &some);
            assert_true(wants == NET_TLS_READY || wants == NET_TLS_READS);
            in += some;
        }
        assert_memory_equal(got, sent, BYTES);
    }
    net_tls_finish(x.tls[0]);
    size_t some;
    assert_int_equal(net_tls_read(x.tls[1], got, 1, &some), NET_TLS_ENDED);
    assert_string_equal(net_tls_why(x.tls[1]), "it has left");
    close_ends(&x);
    free(sent);
    free(got);
}

static void test_an_end_with_another_key_is_refused(void **state)
{
    (void)state;
    ends x;
    int fds[2];
    connect_pair(fds);
    open_on(&x, OTHER, KEY, NET_TLS_UPDATE_BYTES, fds);
    assert_false(shake(&x));
    // Also the other end ends, which the refused one tells.
    while (net_tls_handshake(x.tls[0]) == NET_TLS_READS) continue;
    assert_int_equal(net_tls_handshake(x.tls[0]), NET_TLS_ENDED);
    close_ends(&x);
}

// A server with a certificate, or a client without a key, as any TLS program is.
static void test_an_end_without_a_key_is_refused(void **state)
{
    (void)state;
    int fds[2];
    net_tls_context *context;
    net_tls *server;
    err e;
    connect_pair(fds);
    assert_int_equal(net_tls_context_open(KEY, NET_TLS_UPDATE_BYTES, &context, &e), OK);
    assert_int_equal(net_tls_open(context, fds[1], true, &server, &e), OK);
    SSL_CTX *plain = SSL_CTX_new(TLS_client_method());
    SSL *client = SSL_new(plain);
    SSL_set_fd(client, fds[0]);
    SSL_set_connect_state(client);
    net_tls_wants wants = NET_TLS_READS;
    for (int turn = 0; turn < 1000 && wants != NET_TLS_ENDED; turn++) {
        SSL_do_handshake(client);
        wants = net_tls_handshake(server);
        assert_int_not_equal(wants, NET_TLS_READY);
    }
    assert_int_equal(wants, NET_TLS_ENDED);
    SSL_free(client);
    SSL_CTX_free(plain);
    close(fds[0]);
    net_tls_close(server);
    net_tls_context_close(context);
}

static void test_bytes_that_are_no_tls_end_the_connection(void **state)
{
    (void)state;
    unsigned seed = 20261123;
    for (int series = 0; series < 100; series++) {
        int fds[2];
        net_tls_context *context;
        net_tls *server;
        err e;
        unsigned char noise[20000];
        connect_pair(fds);
        for (size_t i = 0; i < sizeof noise; i++)
            noise[i] = (unsigned char)((seed = seed * 1664525u + 1013904223u) >> 24);
        if (series % 2) memcpy(noise, "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11);
        assert_int_equal(net_tls_context_open(KEY, NET_TLS_UPDATE_BYTES, &context, &e), OK);
        assert_int_equal(net_tls_open(context, fds[1], true, &server, &e), OK);
        assert_int_equal(write(fds[0], noise, sizeof noise), sizeof noise);
        assert_int_equal(net_tls_handshake(server), NET_TLS_ENDED);
        close(fds[0]);
        net_tls_close(server);
        net_tls_context_close(context);
    }
}

// Somebody in between changes one byte of what a client sends. The server takes nothing that it did not send.
static void test_a_changed_byte_ends_the_connection(void **state)
{
    (void)state;
    for (int changed = 0; changed < 60; changed++) {
        ends x;
        int client[2], server[2];
        char bytes[200], got[200];
        size_t some;
        connect_pair(client);
        connect_pair(server);
        open_on(&x, KEY, KEY, NET_TLS_UPDATE_BYTES, (int[2]){client[0], server[0]});
        for (int turn = 0; turn < 10; turn++) { // what the ends send is carried over
            net_tls_handshake(x.tls[0]);
            carry(client[1], server[1], -1);
            net_tls_handshake(x.tls[1]);
            carry(server[1], client[1], -1);
        }
        assert_int_equal(net_tls_handshake(x.tls[1]), NET_TLS_READY);
        memset(bytes, 7, sizeof bytes);
        assert_int_equal(net_tls_write(x.tls[0], bytes, 40), NET_TLS_READY);
        carry(client[1], server[1], changed);
        const net_tls_wants wants = net_tls_read(x.tls[1], got, sizeof got, &some);
        // A longer record waits for its bytes.
        assert_true(wants == NET_TLS_ENDED ||
                    (wants == NET_TLS_READS && (changed == 3 || changed == 4)));
        close_ends(&x);
        close(client[1]);
        close(server[1]);
    }
}

// Somebody in between keeps what a client sent, and sends it again on a connection of his own.
static void test_bytes_that_are_sent_again_are_refused(void **state)
{
    (void)state;
    ends x, again;
    int client[2], server[2], other[2];
    char kept[20000], got[100];
    size_t have = 0, some;
    connect_pair(client);
    connect_pair(server);
    open_on(&x, KEY, KEY, NET_TLS_UPDATE_BYTES, (int[2]){client[0], server[0]});
    for (int turn = 0; turn < 10; turn++) {
        net_tls_handshake(x.tls[0]);
        if (turn == 9) assert_int_equal(net_tls_write(x.tls[0], "lose 7.5", 8), NET_TLS_READY);
        const ssize_t bytes = read(client[1], kept + have, sizeof kept - have);
        if (bytes > 0) assert_int_equal(write(server[1], kept + have, (size_t)bytes), bytes);
        have += bytes > 0 ? (size_t)bytes : 0;
        net_tls_handshake(x.tls[1]);
        carry(server[1], client[1], -1);
    }
    assert_int_equal(net_tls_read(x.tls[1], got, sizeof got, &some), NET_TLS_READY);
    assert_int_equal(some, 8);
    // On the same connection, and on a new one of the same key.
    assert_int_equal(write(server[1], kept, have), have);
    assert_int_equal(net_tls_read(x.tls[1], got, sizeof got, &some), NET_TLS_ENDED);
    connect_pair(other);
    open_on(&again, KEY, KEY, NET_TLS_UPDATE_BYTES, (int[2]){dup(other[0]), other[0]});
    assert_int_equal(write(other[1], kept, have), have);
    assert_int_equal(net_tls_handshake(again.tls[1]), NET_TLS_ENDED);
    close_ends(&x);
    close_ends(&again);
    close(client[1]);
    close(server[1]);
    close(other[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ends_with_one_key_exchange_bytes),
        cmocka_unit_test(test_an_end_with_another_key_is_refused),
        cmocka_unit_test(test_an_end_without_a_key_is_refused),
        cmocka_unit_test(test_a_changed_byte_ends_the_connection),
        cmocka_unit_test(test_bytes_that_are_sent_again_are_refused),
        cmocka_unit_test(test_bytes_that_are_no_tls_end_the_connection),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
