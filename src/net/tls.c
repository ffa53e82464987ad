// tls.c -- see tls.h.
#define _GNU_SOURCE // strerrordesc_np
#include "net/tls.h"

#include "base/alloc.h"

#include <errno.h>
#include <linux/sockios.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

// Four records are received at once.
enum { READ_BYTES = 4 * (NET_TLS_RECORD + 256) };

static const unsigned char IDENTITY[] = "trireme";
static const unsigned char CIPHER[] = {0x13, 0x01}; // TLS_AES_128_GCM_SHA256

struct net_tls_context {
    SSL_CTX *ssl;
    BIO_METHOD *socket;
    uint64_t update_bytes;
    unsigned char key[NET_TLS_KEY_BYTES];
};

struct net_tls {
    SSL *ssl;
    int fd;
    bool is_retry;                 // the write under way is to be repeated
    uint64_t update_bytes, so_far; // sent with this key
    const char *why;
};

static status tls_error(const char *what, err *e)
{
    const char *why = ERR_reason_error_string(ERR_get_error());
    ERR_clear_error();
    return err_set(e, E_IO, "TLS: cannot %s: %s", what, why ? why : "unknown reason");
}

// ---- The socket. OpenSSL's own would raise SIGPIPE.

static int after_call(BIO *bio, ssize_t got)
{
    BIO_clear_retry_flags(bio);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
        const int code = errno;
        BIO_set_flags(bio, BIO_FLAGS_SHOULD_RETRY);
        errno = code;
    }
    return (int)got;
}

static int send_bytes(BIO *bio, const char *from, int bytes)
{
    const net_tls *t = BIO_get_data(bio);
    const int sent = after_call(bio, send(t->fd, from, (size_t)bytes, MSG_NOSIGNAL));
    if (sent < 0 && BIO_should_retry(bio)) BIO_set_retry_write(bio);
    return sent;
}

static int recv_bytes(BIO *bio, char *to, int bytes)
{
    const net_tls *t = BIO_get_data(bio);
    const int got = after_call(bio, recv(t->fd, to, (size_t)bytes, 0));
    if (got < 0 && BIO_should_retry(bio)) BIO_set_retry_read(bio);
    return got;
}

static long control(BIO *bio, int command, long number, void *pointer)
{
    (void)bio, (void)number, (void)pointer;
    return command == BIO_CTRL_FLUSH;
}

// ---- The key

static SSL_SESSION *session_of(SSL *ssl)
{
    const net_tls_context *c = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
    const SSL_CIPHER *cipher = SSL_CIPHER_find(ssl, CIPHER);
    SSL_SESSION *s = SSL_SESSION_new();
    if (s && cipher && SSL_SESSION_set1_master_key(s, c->key, sizeof c->key) &&
        SSL_SESSION_set_cipher(s, cipher) && SSL_SESSION_set_protocol_version(s, TLS1_3_VERSION))
        return s;
    SSL_SESSION_free(s);
    return NULL;
}

static int use_key(SSL *ssl, const EVP_MD *digest, const unsigned char **identity, size_t *bytes,
                   SSL_SESSION **out)
{
    *identity = IDENTITY;
    *bytes = sizeof IDENTITY - 1;
    *out = NULL;
    // A server that asks for another hash than the key's gets no key, and so no connection.
    if (digest && !EVP_MD_is_a(digest, "SHA256")) return 1;
    *out = session_of(ssl);
    return *out != NULL;
}

static int find_key(SSL *ssl, const unsigned char *identity, size_t bytes, SSL_SESSION **out)
{
    *out = NULL;
    if (bytes != sizeof IDENTITY - 1 || memcmp(identity, IDENTITY, bytes) != 0) return 1;
    *out = session_of(ssl);
    return *out != NULL;
}

// ---- Opening

static bool set_up(net_tls_context *c)
{
    if (!c->ssl || !c->socket) return false;
    SSL_CTX_set_app_data(c->ssl, c);
    SSL_CTX_set_options(c->ssl, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION);
    SSL_CTX_set_session_cache_mode(c->ssl, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_mode(c->ssl, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_read_ahead(c->ssl, 1);
    SSL_CTX_set_default_read_buffer_len(c->ssl, READ_BYTES);
    SSL_CTX_set_psk_use_session_callback(c->ssl, use_key);
    SSL_CTX_set_psk_find_session_callback(c->ssl, find_key);
    return SSL_CTX_set_min_proto_version(c->ssl, TLS1_3_VERSION) &&
           SSL_CTX_set_ciphersuites(c->ssl, "TLS_AES_128_GCM_SHA256") &&
           SSL_CTX_set_num_tickets(c->ssl, 0) && BIO_meth_set_write(c->socket, send_bytes) &&
           BIO_meth_set_read(c->socket, recv_bytes) && BIO_meth_set_ctrl(c->socket, control);
}

status net_tls_context_open(const unsigned char key[NET_TLS_KEY_BYTES], uint64_t update_bytes,
                            net_tls_context **out, err *e)
{
    status result = OK;
    net_tls_context *c = NULL;
    TRY(alloc_zeroed(&c, 1, sizeof *c, "TLS", e));
    c->ssl = SSL_CTX_new(TLS_method());
    c->socket = BIO_meth_new(BIO_TYPE_SOURCE_SINK | BIO_get_new_index(), "socket");
    c->update_bytes = update_bytes;
    memcpy(c->key, key, sizeof c->key);
    if (!set_up(c)) result = tls_error("start", e);
done:
    *out = result == OK ? c : NULL;
    if (result != OK) net_tls_context_close(c);
    return result;
}

void net_tls_context_close(net_tls_context *c)
{
    if (!c) return;
    SSL_CTX_free(c->ssl);
    BIO_meth_free(c->socket);
    OPENSSL_cleanse(c->key, sizeof c->key);
    free(c);
}

status net_tls_open(net_tls_context *c, int fd, bool is_server, net_tls **out, err *e)
{
    net_tls *t = NULL;
    status result = alloc_zeroed(&t, 1, sizeof *t, "TLS", e);
    BIO *bio = NULL;
    *out = NULL;
    if (result != OK) {
        close(fd);
        return result;
    }
    *t = (net_tls){.fd = fd, .update_bytes = c->update_bytes};
    t->ssl = SSL_new(c->ssl);
    bio = BIO_new(c->socket);
    if (!t->ssl || !bio) {
        BIO_free(bio);
        net_tls_close(t);
        return tls_error("open a connection", e);
    }
    BIO_set_data(bio, t);
    BIO_set_init(bio, 1);
    SSL_set_bio(t->ssl, bio, bio);
    if (is_server) {
        SSL_set_accept_state(t->ssl);
    } else { // a server that shows a certificate instead of the key is refused: no authority is known
        SSL_set_connect_state(t->ssl);
        SSL_set_verify(t->ssl, SSL_VERIFY_PEER, NULL);
    }
    *out = t;
    return OK;
}

// ---- Calls

static net_tls_wants end_with(net_tls *t, const char *why)
{
    t->why = why;
    return NET_TLS_ENDED;
}

// Returns what follows a call of OpenSSL that returned `how`. errno is that of the call.
static net_tls_wants judge(net_tls *t, int how)
{
    const int code = errno;
    const char *reason;
    if (how > 0) return NET_TLS_READY;
    switch (SSL_get_error(t->ssl, how)) {
    case SSL_ERROR_WANT_READ:
        return NET_TLS_READS;
    case SSL_ERROR_WANT_WRITE:
        return NET_TLS_WRITES;
    case SSL_ERROR_ZERO_RETURN:
        return end_with(t, "it has left");
    case SSL_ERROR_SYSCALL:
        reason = code ? strerrordesc_np(code) : NULL;
        return end_with(t, reason ? reason : "the connection was closed");
    default:
        if (ERR_GET_REASON(ERR_peek_error()) == SSL_R_UNEXPECTED_EOF_WHILE_READING)
            return end_with(t, "the connection was closed");
        reason = ERR_reason_error_string(ERR_peek_error());
        return end_with(t, reason ? reason : "an unknown error of TLS");
    }
}

static void before_call(void)
{
    ERR_clear_error();
    errno = 0;
}

net_tls_wants net_tls_handshake(net_tls *t)
{
    before_call();
    const net_tls_wants wants = judge(t, SSL_do_handshake(t->ssl));
    if (wants != NET_TLS_READY || SSL_session_reused(t->ssl)) return wants;
    return end_with(t, "the other end did not show that it has the key");
}

net_tls_wants net_tls_read(net_tls *t, void *to, size_t bytes, size_t *got)
{
    before_call();
    *got = 0;
    return judge(t, SSL_read_ex(t->ssl, to, bytes, got));
}

net_tls_wants net_tls_write(net_tls *t, const void *from, size_t bytes)
{
    size_t sent;
    before_call();
    if (!t->is_retry) t->so_far += bytes;
    if (!t->is_retry && t->so_far > t->update_bytes) {
        t->so_far = bytes;
        if (!SSL_key_update(t->ssl, SSL_KEY_UPDATE_NOT_REQUESTED))
            return end_with(t, "TLS made no new key");
    }
    const net_tls_wants wants = judge(t, SSL_write_ex(t->ssl, from, bytes, &sent));
    t->is_retry = wants == NET_TLS_WRITES || wants == NET_TLS_READS;
    return wants;
}

int net_tls_fd(const net_tls *t)
{
    return t->fd;
}

const char *net_tls_why(const net_tls *t)
{
    return t->why;
}

bool net_tls_has_left(const net_tls *t)
{
    int waiting = 0;
    struct pollfd p = {.fd = t->fd};
    // Bytes that the other end did not take before it closed its socket stay counted.
    return poll(&p, 1, 0) > 0 || ioctl(t->fd, SIOCOUTQ, &waiting) != 0 || waiting == 0;
}

void net_tls_finish(net_tls *t)
{
    before_call();
    SSL_shutdown(t->ssl);
}

void net_tls_close(net_tls *t)
{
    if (!t) return;
    SSL_free(t->ssl);
    close(t->fd);
    free(t);
    ERR_clear_error();
}
