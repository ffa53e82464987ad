// fault.c -- the message of a rank that lost a page of a mapped file. See fault.h. Called by
// processes.c. Does not know what the ranks map.
#include "launch/fault.h"

#include "base/maps.h"

#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

// "\0trireme-fault-" and the pid of the starting process. Async-signal-safe. An abstract name lies
// in no folder and disappears with the socket.
static socklen_t name_of(pid_t starter, struct sockaddr_un *out)
{
    static const char PREFIX[] = "trireme-fault-";
    char *end = out->sun_path + 1;
    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(end, PREFIX, sizeof PREFIX - 1);
    end += sizeof PREFIX - 1;
    for (; starter > 0; starter /= 10) *end++ = (char)('0' + starter % 10); // reversed digits
    return (socklen_t)(end - (char *)out);
}

int fault_listen(void)
{
    struct sockaddr_un name;
    const socklen_t bytes = name_of(getpid(), &name);
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && bind(fd, (const struct sockaddr *)&name, bytes) == 0) return fd;
    if (fd >= 0) close(fd);
    return -1;
}

static void lost_page(int signal_number, siginfo_t *info, void *context)
{
    char line[MAPS_LINE_BYTES];
    struct sockaddr_un name;
    (void)context;
    if (maps_describe_lost(info->si_addr, line, sizeof line)) {
        const socklen_t bytes = name_of(getppid(), &name);
        const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        if (fd >= 0) {
            sendto(fd, line, strlen(line), MSG_DONTWAIT, (const struct sockaddr *)&name, bytes);
            close(fd);
        }
    }
    signal(signal_number, SIG_DFL); // the access repeats and kills the process
}

void fault_install(void)
{
    struct sigaction lost = {.sa_sigaction = lost_page, .sa_flags = SA_SIGINFO};
    sigemptyset(&lost.sa_mask);
    sigaction(SIGBUS, &lost, NULL);
}

bool fault_receive(int listener, char *out, size_t room)
{
    const ssize_t got = listener < 0 ? -1 : recv(listener, out, room - 1, MSG_DONTWAIT);
    if (got <= 0) return false;
    out[got] = 0;
    return true;
}
