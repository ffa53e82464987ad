// attack.c -- attacks every port on which some processes, or those below them, listen, until they have ended:
//   attack CONNECTIONS SEED PID...
// CONNECTIONS connections stay open; half of them say nothing, and half send a frame byte by byte. The others send one
// frame and end. Prints how many ports, connections and frames there were.
#include "attack/attack.h"

#include <signal.h>

enum { FRAMES_A_TURN = 200 };

typedef struct attack {
    unsigned char hello[ATTACK_FRAME];
    size_t hello_bytes;
    uint32_t seed;
    int *open; // [connections]
    int connections, opened;
    unsigned long frames, all;
    uint16_t seen[ATTACK_PORTS];
    int ports;
} attack;

static void count_port(attack *a, uint16_t port)
{
    for (int i = 0; i < a->ports; i++)
        if (a->seen[i] == port) return;
    if (a->ports < ATTACK_PORTS) a->seen[a->ports++] = port;
}

static void attack_port(attack *a, const struct sockaddr_in *port)
{
    unsigned char frame[ATTACK_FRAME];
    count_port(a, port->sin_port);
    for (int i = 0; i < FRAMES_A_TURN; i++) {
        const int fd = attack_connect(port);
        if (fd < 0) return;
        const size_t bytes = attack_make_frame(&a->seed, a->hello, a->hello_bytes, frame);
        if (send(fd, frame, bytes, MSG_NOSIGNAL) > 0) a->frames++;
        a->all++;
        if (a->opened < a->connections) a->open[a->opened++] = attack_connect(port);
        close(fd);
    }
}

// Every second one that is open sends one byte more; closed ones make room.
static void send_slowly(attack *a)
{
    for (int i = 0; i < a->opened;) {
        const int fd = a->open[i];
        const bool ended =
            fd < 0 ||
            (i % 2 && send(fd, a->hello + a->frames % a->hello_bytes, 1, MSG_NOSIGNAL) < 0 &&
             errno != EAGAIN);
        if (ended) {
            if (fd >= 0) close(fd);
            a->open[i] = a->open[--a->opened];
        } else {
            i++;
        }
    }
}

static bool lives(int pid)
{
    char path[64], line[400];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *f = fopen(path, "re");
    const bool found = f && fgets(line, sizeof line, f) && strrchr(line, ')') &&
                       strncmp(strrchr(line, ')'), ") Z", 3) != 0;
    if (f) fclose(f);
    return found;
}

int main(int argc, char **argv)
{
    attack a = {.seed = argc > 3 ? (uint32_t)atoi(argv[2]) : 0};
    if (argc < 4 || (a.connections = atoi(argv[1])) < 1) {
        fprintf(stderr, "usage: attack CONNECTIONS SEED PID...\n");
        return 2;
    }
    a.open = calloc((size_t)a.connections, sizeof *a.open);
    a.hello_bytes = attack_client_hello(a.hello);
    if (!a.open || !a.hello_bytes) return 1;
    attack_allow_files();
    for (bool any = true; any;) {
        int pids[ATTACK_PIDS], count = 0;
        any = false;
        for (int i = 3; i < argc && count < ATTACK_PIDS; i++) {
            pids[count++] = atoi(argv[i]);
            any = any || lives(pids[count - 1]);
        }
        count = attack_descendants(pids, count);
        for (int i = 0; i < count; i++) {
            struct sockaddr_in ports[ATTACK_PORTS];
            const int found = attack_ports(pids[i], ports);
            for (int p = 0; p < found; p++) attack_port(&a, &ports[p]);
        }
        send_slowly(&a);
        poll(NULL, 0, 1);
    }
    for (int i = 0; i < a.opened; i++)
        if (a.open[i] >= 0) close(a.open[i]);
    free(a.open);
    printf("%d ports, %lu connections, %lu frames, seed %s\n", a.ports, a.all, a.frames, argv[2]);
    return 0;
}
