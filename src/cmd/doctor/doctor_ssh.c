// doctor_ssh.c -- starts doctor on each host of a list through ssh, with the variables that torchrun would set and a secret by
// standard input, as `trireme deepspeed` does. Called by doctor.c. The first host prints what all have found.
#include "cmd/doctor/doctor_hosts.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "cmd/cmd.h"
#include "cmd/console.h"
#include "cmd/run/deepspeed.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { BY_SSH = 255, END_MS = 5000, MS_NS = 1000000 };

// The ssh of each host. pid 0: it has ended.
typedef struct remote_hosts {
    hostfile list;
    pid_t *pid; // [list.count]
    int port;   // of the store
    int64_t timeout_ms, ssh_port;
} remote_hosts;

// "a,b,c": each host has one slot.
static status read_names(const char *names, hostfile *out, err *e)
{
    status result = OK;
    hostfile one = {0};
    for (size_t bytes; *names; names += bytes + (names[bytes] == ',')) {
        char name[NET_HOST_BYTES];
        bytes = strcspn(names, ",");
        if (!bytes || bytes >= sizeof name)
            FAIL(E_USAGE, "--hosts: found an empty or too long name; valid: a,b,c");
        snprintf(name, sizeof name, "%.*s", (int)bytes, names);
        TRY(hostfile_make(name, 1, &one, e));
        TRY(alloc_grow(&out->hosts, &out->room, (size_t)out->count + 1, sizeof *out->hosts,
                       "the hosts", e));
        out->hosts[out->count++] = one.hosts[0];
        hostfile_close(&one);
        one = (hostfile){0};
    }
    if (!out->count) FAIL(E_USAGE, "--hosts: found no name; valid: a,b,c");
done:
    hostfile_close(&one);
    return result;
}

static void add_names(text *out, const hostfile *list)
{
    text names = {0};
    for (int i = 0; i < list->count; i++)
        text_addf(&names, "%s%s", i ? "," : "", list->hosts[i].name);
    deepspeed_add_word(out, names.chars ? names.chars : "");
    text_clear(&names);
}

// What host i runs. One host alone needs no launcher's variables.
static status write_command(const remote_hosts *r, int i, int argc, char **argv, text *out, err *e)
{
    status result = OK;
    char own[4096], folder[4096];
    text address = {0};
    run_find_self(own, sizeof own);
    if (!getcwd(folder, sizeof folder)) return err_errno(e, "cannot find the current folder");
    text_add(out, "cd");
    deepspeed_add_word(out, folder);
    text_add(out, " && exec env");
    TRY(deepspeed_add_environment(out, e));
    if (r->list.count > 1) {
        text_addf(out, " RANK=%d WORLD_SIZE=%d LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 GROUP_RANK=%d", i,
                  r->list.count, i);
        text_addf(out, " GROUP_WORLD_SIZE=%d MASTER_PORT=%d", r->list.count, r->port);
        text_addf(&address, "MASTER_ADDR=%s", r->list.hosts[0].name);
        TRY(text_check(&address, e));
        deepspeed_add_word(out, address.chars);
    }
    deepspeed_add_word(out, own);
    text_add(out, " doctor");
    if (r->list.count > 1) {
        text_addf(out, " --timeout %lldms --secret-file - --hosts", (long long)r->timeout_ms);
        add_names(out, &r->list);
    }
    for (int k = 1; k < argc; k++) deepspeed_add_word(out, argv[k]);
    TRY(text_check(out, e));
done:
    text_clear(&address);
    return result;
}

// The child's end: ssh reads the secret.
static void run_ssh(const remote_hosts *r, int i, const char *command, int input)
{
    char wait[48], port[24];
    char *words[] = {"ssh",
                     "-T",
                     "-o",
                     "BatchMode=yes",
                     "-o",
                     wait,
                     "-o",
                     "ServerAliveInterval=10",
                     "-p",
                     port,
                     r->list.hosts[i].name,
                     (char *)command,
                     NULL};
    snprintf(wait, sizeof wait, "ConnectTimeout=%lld", (long long)(r->timeout_ms / 1000 + 1));
    snprintf(port, sizeof port, "%lld", (long long)(r->ssh_port < 0 ? 22 : r->ssh_port));
    if (r->ssh_port < 0) { // the port may stand in the user's configuration
        words[8] = words[10];
        words[9] = words[11];
        words[10] = NULL;
    }
    if (dup2(input, STDIN_FILENO) >= 0) execvp("ssh", words);
    dprintf(STDERR_FILENO, "trireme: doctor: cannot start ssh: %s\n", strerror(errno));
    _exit(BY_SSH);
}

static status start_all(remote_hosts *r, const net_secret *secret, int argc, char **argv, err *e)
{
    status result = OK;
    text command = {0};
    for (int i = 0; i < r->list.count; i++) {
        int input = -1;
        text_clear(&command);
        TRY(write_command(r, i, argc, argv, &command, e));
        TRY(deepspeed_open_input(secret, &input, e));
        const pid_t pid = fork();
        if (pid == 0) run_ssh(r, i, command.chars, input);
        close(input);
        if (pid < 0) {
            result = err_errno(e, "cannot start a process");
            goto done;
        }
        r->pid[i] = pid;
    }
done:
    text_clear(&command);
    return result;
}

static int code_of(int state)
{
    return WIFEXITED(state) ? WEXITSTATUS(state) : BY_SSH;
}

// Waits until all have ended; once the first one has, the others have some seconds. Returns the first one's exit code.
static int await_all(remote_hosts *r)
{
    const struct timespec pause = {.tv_nsec = 20 * MS_NS};
    int64_t end_ns = INT64_MAX;
    int code = BY_SSH, left = r->list.count;
    while (left > 0) {
        left = 0;
        for (int i = 0; i < r->list.count; i++) {
            int state;
            if (!r->pid[i]) continue;
            if (clock_ns() > end_ns) kill(r->pid[i], SIGKILL);
            if (waitpid(r->pid[i], &state, WNOHANG) == 0) {
                left++;
                continue;
            }
            r->pid[i] = 0;
            if (i == 0) code = code_of(state), end_ns = clock_ns() + INT64_C(1) * END_MS * MS_NS;
            if (code_of(state) == BY_SSH && clock_ns() <= end_ns)
                console_warn("doctor: ssh to host %s failed", r->list.hosts[i].name);
        }
        if (left) nanosleep(&pause, NULL);
    }
    return code;
}

// That of the user's file, or a random one.
static status find_secret(const doctor_hosts_flags *f, net_secret *out, err *e)
{
    const char *file = f->secret_file ? f->secret_file : getenv("TRIREME_SECRET_FILE");
    return file && *file ? net_secret_read(file, out, e) : net_secret_draw(out, e);
}

int doctor_hosts_start(const doctor_hosts_flags *f, int port, int argc, char **argv)
{
    status result = OK;
    err error = {0}, *e = &error;
    remote_hosts r = {.port = port, .ssh_port = f->ssh_port};
    net_secret secret;
    int code = 0;
    if (f->hosts && f->hostfile) FAIL(E_USAGE, "--hosts and --hostfile exclude each other");
    TRY(doctor_hosts_timeout(f, &r.timeout_ms, e));
    TRY(find_secret(f, &secret, e));
    if (f->hosts)
        TRY(read_names(f->hosts, &r.list, e));
    else
        TRY(hostfile_read(f->hostfile, &r.list, e));
    TRY(alloc_zeroed(&r.pid, (size_t)r.list.count, sizeof *r.pid, "the hosts", e));
    result = start_all(&r, &secret, argc, argv, e);
    for (int i = 0; result != OK && i < r.list.count; i++)
        if (r.pid[i]) kill(r.pid[i], SIGKILL);
    code = await_all(&r);
done:
    hostfile_close(&r.list);
    free(r.pid);
    if (result != OK) {
        err_prefix(e, "doctor: ");
        return cmd_fail(e);
    }
    return code == BY_SSH ? 2 : code;
}
