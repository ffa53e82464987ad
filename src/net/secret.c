// secret.c -- see secret.h. SHA-256, HMAC and the comparison are OpenSSL's, random numbers the kernel's.
#include "net/secret.h"

#include "base/file.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

static const char MAGIC[8] = "TRIREME2";

enum { ACCEPTED = 1, WRONG_SECRET = 2, WRONG_PROTOCOL = 3, OTHER_USER = 4 };

static void digest(const void *key, size_t key_bytes, const void *data, size_t bytes,
                   unsigned char out[NET_MAC_BYTES])
{
    HMAC(EVP_sha256(), key, (int)key_bytes, data, bytes, out, NULL);
}

status net_secret_read(const char *path, net_secret *out, err *e)
{
    status result = OK;
    struct stat info;
    char *chars = NULL;
    size_t bytes = 0;
    if (stat(path, &info) != 0) {
        result = err_errno(e, "secret file %s", path);
        if (e) e->code = E_USAGE;
        return E_USAGE;
    }
    if (info.st_mode & (S_IRWXG | S_IRWXO))
        FAIL(E_USAGE, "secret file %s: others may use it (mode %03o); valid: chmod 600 %s", path,
             (unsigned)info.st_mode & 0777, path);
    TRY(file_read_small(path, NET_SECRET_MOST, &chars, &bytes, e));
    while (bytes > 0 && (chars[bytes - 1] == '\n' || chars[bytes - 1] == '\r')) bytes--;
    if (bytes < NET_SECRET_LEAST)
        FAIL(E_USAGE,
             "secret file %s: it has %zu bytes; valid are %d to %d, such as the output of: "
             "head -c 32 /dev/urandom | base64",
             path, bytes, NET_SECRET_LEAST, NET_SECRET_MOST);
    static const char PURPOSE[] = "trireme secret";
    digest(PURPOSE, sizeof PURPOSE, chars, bytes, out->key);
done:
    if (chars) OPENSSL_cleanse(chars, bytes);
    free(chars);
    return result;
}

static status draw(unsigned char *out, size_t bytes, err *e)
{
    if (getrandom(out, bytes, 0) == (ssize_t)bytes) return OK;
    return err_set(e, E_IO, "the system gave no random numbers");
}

status net_secret_draw(net_secret *out, err *e)
{
    return draw(out->key, sizeof out->key, e);
}

status net_challenge_make(net_challenge *out, err *e)
{
    memset(out, 0, sizeof *out);
    memcpy(out->magic, MAGIC, sizeof MAGIC);
    return draw(out->nonce, sizeof out->nonce, e);
}

void net_challenge_refuse(net_challenge *out)
{
    memset(out, 0, sizeof *out);
    memcpy(out->magic, MAGIC, sizeof MAGIC);
    out->verdict = OTHER_USER;
}

// The key of a connection follows from the secret and both nonces.
static void open_session(const net_secret *s, const net_challenge *h, const net_response *a,
                         bool is_server, net_session *out)
{
    unsigned char both[2 * NET_NONCE_BYTES];
    memcpy(both, h->nonce, NET_NONCE_BYTES);
    memcpy(both + NET_NONCE_BYTES, a->nonce, NET_NONCE_BYTES);
    *out = (net_session){.is_server = is_server};
    digest(s->key, sizeof s->key, both, sizeof both, out->key);
}

// Computes the code by which one end shows that it has the key.
static void own_code(const net_session *s, const char *end, unsigned char out[NET_MAC_BYTES])
{
    digest(s->key, sizeof s->key, end, strlen(end), out);
}

static bool has_code(const net_session *s, const char *end, const unsigned char code[NET_MAC_BYTES])
{
    unsigned char own[NET_MAC_BYTES];
    own_code(s, end, own);
    return CRYPTO_memcmp(own, code, sizeof own) == 0;
}

static status refuse(int verdict, err *e)
{
    static const char *const WHY[] = {
        [WRONG_SECRET] = "it has another secret; valid: the same --secret-file on every host",
        [WRONG_PROTOCOL] = "it is no server of this version of Trireme",
        [OTHER_USER] = "it is a process of another user of this machine; valid: one user",
    };
    const bool known = verdict > 0 && verdict < (int)(sizeof WHY / sizeof *WHY) && WHY[verdict];
    return err_set(e, E_USAGE, "%s", WHY[known ? verdict : WRONG_PROTOCOL]);
}

status net_response_make(const net_secret *s, const net_challenge *challenge, net_response *out,
                         net_session *session, err *e)
{
    status result = OK;
    memset(out, 0, sizeof *out);
    if (memcmp(challenge->magic, MAGIC, sizeof MAGIC) != 0) return refuse(WRONG_PROTOCOL, e);
    if (challenge->verdict) return refuse(challenge->verdict, e);
    memcpy(out->magic, MAGIC, sizeof MAGIC);
    TRY(draw(out->nonce, sizeof out->nonce, e));
    open_session(s, challenge, out, false, session);
    own_code(session, "client", out->code);
done:
    return result;
}

bool net_response_check(const net_secret *s, const net_challenge *challenge,
                        const net_response *response, net_outcome *out, net_session *session)
{
    memset(out, 0, sizeof *out);
    open_session(s, challenge, response, true, session);
    if (memcmp(response->magic, MAGIC, sizeof MAGIC) != 0)
        out->verdict = WRONG_PROTOCOL;
    else if (!has_code(session, "client", response->code))
        out->verdict = WRONG_SECRET;
    else
        out->verdict = ACCEPTED;
    // An unauthenticated client gets no code: it could learn nothing from it, and needs none.
    if (out->verdict == ACCEPTED) own_code(session, "server", out->code);
    return out->verdict == ACCEPTED;
}

status net_outcome_check(const net_session *session, const net_outcome *outcome, err *e)
{
    if (outcome->verdict != ACCEPTED) return refuse(outcome->verdict, e);
    return has_code(session, "server", outcome->code) ? OK : refuse(WRONG_SECRET, e);
}

// Covers the direction and the number of a frame, so that no frame can be sent again or back.
static void code_of(const net_session *s, bool from_server, uint64_t number, const void *frame,
                    size_t bytes, unsigned char out[NET_MAC_BYTES])
{
    unsigned char header[1 + sizeof number + NET_MAC_BYTES];
    header[0] = from_server;
    memcpy(header + 1, &number, sizeof number);
    digest(s->key, sizeof s->key, frame, bytes, header + 1 + sizeof number);
    digest(s->key, sizeof s->key, header, sizeof header, out);
}

void net_seal(net_session *s, const void *frame, size_t bytes, unsigned char out[NET_MAC_BYTES])
{
    code_of(s, s->is_server, s->sent++, frame, bytes, out);
}

bool net_seal_check(net_session *s, const void *frame, size_t bytes,
                    const unsigned char code[NET_MAC_BYTES])
{
    unsigned char own[NET_MAC_BYTES];
    code_of(s, !s->is_server, s->received++, frame, bytes, own);
    return CRYPTO_memcmp(own, code, sizeof own) == 0;
}
