// attack.h -- what somebody without the secret may send to the ports of a run: connections that say nothing, that say it
// byte by byte, and frames of TLS and of the store with changed, missing and additional bytes. Included by the program
// attack (attack.c) and by tests that choose the moment.
#ifndef TESTS_ATTACK_H
#define TESTS_ATTACK_H

#include <arpa/inet.h>
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ATTACK_PORTS = 64, ATTACK_FRAME = 4096, ATTACK_PIDS = 256 };

static inline uint32_t attack_draw(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

// ---- Ports

// Adds the addresses of sockets that listen and whose inode is in the list.
static inline int attack_read_table(const char *table, const unsigned long *inodes, int count,
                                    struct sockaddr_in *out, int found)
{
    char line[400];
    FILE *f = fopen(table, "re");
    while (f && found < ATTACK_PORTS && fgets(line, sizeof line, f)) {
        unsigned host, port, state;
        unsigned long inode;
        if (sscanf(line, " %*d: %8x:%4x %*x:%*x %2x %*s %*s %*s %*u %*u %lu", &host, &port, &state,
                   &inode) != 4 ||
            state != 10)
            continue;
        for (int i = 0; i < count; i++)
            if (inodes[i] == inode)
                out[found++] = (struct sockaddr_in){.sin_family = AF_INET,
                                                    .sin_port = htons((uint16_t)port),
                                                    .sin_addr.s_addr = host};
    }
    if (f) fclose(f);
    return found;
}

// The addresses on which a process listens, in IPv4.
static inline int attack_ports(int pid, struct sockaddr_in out[ATTACK_PORTS])
{
    enum { MOST = 4096 };
    unsigned long inodes[MOST];
    int count = 0;
    char path[300], target[100];
    snprintf(path, sizeof path, "/proc/%d/fd", pid);
    DIR *d = opendir(path);
    for (const struct dirent *x; d && count < MOST && (x = readdir(d));) {
        snprintf(path, sizeof path, "/proc/%d/fd/%.20s", pid, x->d_name);
        const ssize_t bytes = readlink(path, target, sizeof target - 1);
        target[bytes > 0 ? bytes : 0] = 0;
        count += sscanf(target, "socket:[%lu]", &inodes[count]) == 1;
    }
    if (d) closedir(d);
    snprintf(path, sizeof path, "/proc/%d/net/tcp", pid);
    return attack_read_table(path, inodes, count, out, 0);
}

// Appends the processes below those that are in the list.
static inline int attack_descendants(int pids[ATTACK_PIDS], int count)
{
    DIR *d = opendir("/proc");
    int all[4096][2], processes = 0;
    for (const struct dirent *x; d && processes < 4096 && (x = readdir(d));) {
        char path[64], line[400];
        if (!isdigit((unsigned char)x->d_name[0])) continue;
        snprintf(path, sizeof path, "/proc/%.10s/stat", x->d_name);
        FILE *f = fopen(path, "re");
        if (f && fgets(line, sizeof line, f)) {
            const char *behind = strrchr(line, ')');
            all[processes][0] = atoi(x->d_name);
            if (behind && sscanf(behind, ") %*c %d", &all[processes][1]) == 1) processes++;
        }
        if (f) fclose(f);
    }
    if (d) closedir(d);
    for (int i = 0; i < count && count < ATTACK_PIDS; i++)
        for (int p = 0; p < processes && count < ATTACK_PIDS; p++)
            if (all[p][1] == pids[i]) pids[count++] = all[p][0];
    return count;
}

// ---- Frames

static inline unsigned int attack_wrong_key(SSL *ssl, const char *hint, char *identity,
                                            unsigned int most, unsigned char *key,
                                            unsigned int most_key)
{
    (void)ssl, (void)hint;
    snprintf(identity, most, "trireme");
    memset(key, 7, most_key < 32 ? most_key : 32);
    return most_key < 32 ? most_key : 32;
}

// The first flight of a client that has another key.
static inline size_t attack_client_hello(unsigned char out[ATTACK_FRAME])
{
    SSL_CTX *c = SSL_CTX_new(TLS_client_method());
    SSL_CTX_set_psk_client_callback(c, attack_wrong_key);
    SSL *ssl = SSL_new(c);
    BIO *in = BIO_new(BIO_s_mem()), *sent = BIO_new(BIO_s_mem());
    SSL_set_bio(ssl, in, sent);
    SSL_set_connect_state(ssl);
    SSL_do_handshake(ssl);
    const int bytes = BIO_read(sent, out, ATTACK_FRAME);
    SSL_free(ssl);
    SSL_CTX_free(c);
    return bytes > 0 ? (size_t)bytes : 0;
}

// A frame as a client sends it, or nearly so.
static inline size_t attack_make_frame(uint32_t *seed, const unsigned char *hello,
                                       size_t hello_bytes, unsigned char out[ATTACK_FRAME])
{
    size_t bytes = 1 + attack_draw(seed) % 700;
    const uint32_t kind = attack_draw(seed) % 8;
    for (size_t i = 0; i < bytes; i++) out[i] = (unsigned char)attack_draw(seed);
    if (kind < 4) {
        bytes = hello_bytes;
        memcpy(out, hello, bytes);
    } else if (kind < 6) { // an answer to the hello of a store, and frames behind it
        memcpy(out, "TRIREME2", 8);
        if (bytes < 72) bytes = 72;
    } else if (kind < 7) {
        bytes = (size_t)snprintf((char *)out, ATTACK_FRAME, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    }
    for (uint32_t i = attack_draw(seed) % 6; i > 0; i--)
        out[attack_draw(seed) % bytes] ^= (unsigned char)(1u << attack_draw(seed) % 8);
    if (attack_draw(seed) % 4 == 0) bytes = 1 + attack_draw(seed) % bytes;
    return bytes;
}

// ---- Connections

// As many descriptors as the system allows.
static inline void attack_allow_files(void)
{
    struct rlimit r;
    if (getrlimit(RLIMIT_NOFILE, &r) != 0) return;
    r.rlim_cur = r.rlim_max;
    setrlimit(RLIMIT_NOFILE, &r);
}

// -1: nobody listens there, or no descriptor is left.
static inline int attack_connect(const struct sockaddr_in *a)
{
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct sockaddr_in to = *a;
    if (to.sin_addr.s_addr == htonl(INADDR_ANY)) to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0) return -1;
    if (connect(fd, (const struct sockaddr *)&to, sizeof to) != 0 && errno == EINPROGRESS) {
        struct pollfd p = {.fd = fd, .events = POLLOUT};
        int why = ETIMEDOUT;
        socklen_t bytes = sizeof why;
        if (poll(&p, 1, 1000) == 1) getsockopt(fd, SOL_SOCKET, SO_ERROR, &why, &bytes);
        if (why == 0) return fd;
    }
    close(fd);
    return -1;
}

#endif
