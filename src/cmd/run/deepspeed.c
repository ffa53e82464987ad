// deepspeed.c -- `trireme deepspeed`: the flags, hostfile and filters of DeepSpeed's launcher. On this host it is
// `trireme run`; deepspeed_hosts.c runs it on several.
#include "cmd/run/deepspeed.h"

#include "base/file.h"
#include "base/proc.h"
#include "cmd/cmd.h"
#include "cmd/command.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define AT(member) offsetof(deepspeed_request, member)

static const flag flags[] = {
    {"-H, --hostfile", FLAG_TEXT, AT(hostfile), "FILE",
     "Names the file with a host and its slots in each line (default: /job/hostfile; without it, "
     "this host)."},
    {"-i, --include", FLAG_TEXT, AT(include), "HOST[:SLOT,...][@HOST...]",
     "Uses only these hosts and slots."},
    {"-e, --exclude", FLAG_TEXT, AT(exclude), "HOST[:SLOT,...][@HOST...]",
     "Leaves these hosts and slots out."},
    {"--num-nodes", FLAG_COUNT, AT(nodes), "N", "Uses the first N hosts."},
    {"--num-gpus", FLAG_COUNT, AT(slots), "N",
     "Uses the first N slots of each host; on this host without a hostfile, starts N workers."},
    {"--num-accelerators", FLAG_COUNT, AT(slots), "N", "The same as --num-gpus."},
    {"--node-rank", FLAG_COUNT, AT(ssh.node_rank), "N",
     "Sets the number of this host in the list, from 0, with --no-ssh."},
    {"--no-ssh", FLAG_SWITCH, AT(ssh.none), NULL,
     "Starts the ranks of this host only; the same line is started on each other host."},
    {"--no-ssh-check", FLAG_SWITCH, AT(ssh.no_check), NULL,
     "Accepted; without effect, because no host is tried before the run."},
    {"--save-pid", FLAG_SWITCH, AT(save_pid), NULL,
     "Writes the number of this process to /tmp/NUMBER.deepspeed while it runs."},
    {"--master-addr", FLAG_TEXT, AT(master_addr), "HOST",
     "Names the host on which ranks meet (default: the first host)."},
    {"--master-port", FLAG_COUNT, AT(master_port), "PORT",
     "Sets the port on which ranks meet (default: a free one; on several hosts 29500)."},
    {"--launcher", FLAG_TEXT, AT(ssh.launcher), "ssh|pdsh",
     "Says how other hosts are reached: an ssh for each, or one pdsh (default: ssh)."},
    {"--launcher-args", FLAG_TEXT, AT(ssh.launcher_args), "ARGS",
     "Gives the launcher more arguments."},
    {"--ssh-port", FLAG_COUNT, AT(ssh.port), "PORT", "Sets the port of ssh."},
    {"--force-multi", FLAG_SWITCH, AT(force_multi), NULL,
     "Uses the launcher also where the list has this host only."},
    {"--elastic-training", FLAG_SWITCH, AT(elastic), NULL,
     "Goes on with the hosts that are left when one is lost."},
    {"--min-elastic-nodes", FLAG_COUNT, AT(min_nodes), "N",
     "Sets the fewest hosts of an elastic run (default: 1)."},
    {"--max-elastic-nodes", FLAG_COUNT, AT(max_nodes), "N",
     "Sets the most hosts of an elastic run (default: all of the list)."},
    {"--bind-cores-to-rank", FLAG_SWITCH, AT(bind_cores), NULL,
     "Binds each rank to an equal share of its host's physical cores."},
    {"--bind-core-list", FLAG_TEXT, AT(core_list), "CORE[-CORE],...",
     "Names the cores of each host that --bind-cores-to-rank shares out."},
    {"--module", FLAG_SWITCH, AT(module), NULL, "The program is a Python module."},
    {"--no-python", FLAG_SWITCH, AT(no_python), NULL,
     "The program is run as it is, without Python."},
    {"--no-local-rank", FLAG_SWITCH, AT(no_local_rank), NULL,
     "Leaves out the argument --local_rank=N."},
    {"--enable-each-rank-log", FLAG_TEXT, AT(log_folder), "DIR",
     "Writes the output of each rank to files in this folder."},
    {"--log-level", FLAG_TEXT, AT(log_level), "LEVEL", "Accepted; without effect."},
    {"-q, --quiet", FLAG_SWITCH, AT(quiet), NULL, "Leaves warnings out."},
    {"--secret-file", FLAG_TEXT, AT(secret_file), "FILE",
     "Names the file with the secret of the run (default: TRIREME_SECRET_FILE, or a random "
     "secret). "
     "ssh hands it to the hosts; pdsh cannot, so it needs a file, the same path on every host."},
};
enum { FLAGS = sizeof flags / sizeof *flags };

// ---- which hosts ----

static status choose(const deepspeed_request *q, hostfile *out, err *e)
{
    status result = OK;
    const char *path = q->hostfile ? q->hostfile : "/job/hostfile";
    const bool filters = q->include || q->exclude, alone = !q->hostfile && !file_exists(path);
    if (q->include && q->exclude) FAIL(E_USAGE, "--include and --exclude exclude each other");
    if (filters && (q->nodes >= 0 || q->slots >= 0))
        FAIL(E_USAGE, "--include and --exclude stand without --num-nodes and --num-gpus");
    if (alone && q->slots > HOSTFILE_SLOTS)
        FAIL(E_USAGE, "--num-gpus: found %lld; valid are 1 to %d", (long long)q->slots,
             HOSTFILE_SLOTS);
    if (alone)
        TRY(hostfile_make("localhost", q->slots > 0 ? (int)q->slots : run_auto_workers(), out, e));
    else
        TRY(hostfile_read(path, out, e));
    if (q->include) TRY(hostfile_include(out, q->include, e));
    if (q->exclude) TRY(hostfile_exclude(out, q->exclude, e));
    TRY(hostfile_keep_first(out, q->nodes, q->slots, e));
done:
    return result;
}

// ---- this host ----

// Returns whether it is this host, by its own name or by an address. A name that nobody knows is left to ssh, which says so.
static bool is_local(const hostfile_host *h)
{
    char own[NET_HOST_BYTES];
    net_address address;
    proc_host_name(own, sizeof own);
    return strcmp(h->name, own) == 0 ||
           (net_address_resolve(h->name, 0, &address, NULL) == OK && net_address_is_own(&address));
}

// Starts the ranks of one host of the list. The agents of several meet as those of ssh do.
static int start_local(const deepspeed_request *q, const hostfile *f, int node, char **rest,
                       int count)
{
    char workers[16], nodes[16];
    text slots = {0};
    const hostfile_host *h = &f->hosts[node];
    const bool are_several = f->count > 1;
    const int64_t port = q->master_port < 0 && are_several ? DEEPSPEED_PORT : q->master_port;
    const char *leader = are_several ? f->hosts[0].name : NULL;
    snprintf(workers, sizeof workers, "%d", hostfile_taken(h));
    snprintf(nodes, sizeof nodes, "%d", f->count);
    const run_request r = {.workers = {.nproc = workers,
                                       .max_restarts = q->elastic ? DEEPSPEED_RESTARTS : -1,
                                       .shutdown_s = -1,
                                       .bind_cores = q->bind_cores,
                                       .core_list = q->core_list,
                                       .module = q->module,
                                       .no_python = q->no_python,
                                       .quiet = q->quiet,
                                       .rank_word = q->no_local_rank ? NULL : DEEPSPEED_RANK_WORD},
                           .nodes = {.nnodes = nodes,
                                     .node_rank = node,
                                     .master_addr = q->master_addr ? q->master_addr : leader,
                                     .master_port = port,
                                     .secret_file = q->secret_file},
                           .outputs = {.folder = q->log_folder, .tee = q->log_folder ? "3" : NULL}};
    if (q->include || q->exclude || are_several) {
        deepspeed_add_slots(&slots, h);
        setenv("CUDA_VISIBLE_DEVICES", slots.chars ? slots.chars : "", 1);
        text_clear(&slots);
    }
    return run_start(&r, rest, count);
}

static status check_elastic(const deepspeed_request *q, err *e)
{
    if (!q->elastic && (q->min_nodes >= 0 || q->max_nodes >= 0))
        return err_set(e, E_USAGE,
                       "--min-elastic-nodes and --max-elastic-nodes stand with --elastic-training");
    if (q->elastic && q->ssh.pdsh)
        return err_set(e, E_USAGE,
                       "--elastic-training: found --launcher pdsh, which ends when one host is "
                       "lost; valid is ssh");
    return OK;
}

static status check_no_ssh(const deepspeed_request *q, const hostfile *f, err *e)
{
    if (!q->ssh.none && q->ssh.node_rank < 0) return OK;
    if (!q->ssh.none) return err_set(e, E_USAGE, "--node-rank stands with --no-ssh");
    if (q->elastic || q->force_multi)
        return err_set(e, E_USAGE, "--no-ssh stands without --elastic-training and --force-multi");
    if (q->ssh.node_rank < 0 || q->ssh.node_rank >= f->count)
        return err_set(e, E_USAGE, "--no-ssh: valid is --node-rank N, from 0 to %d", f->count - 1);
    return OK;
}

static status read_request(int argc, char **argv, deepspeed_request *q, int *first, err *e)
{
    status result = OK;
    TRY(flags_parse_leading(flags, FLAGS, argc, argv, q, first, e));
    if (*first == argc) FAIL(E_USAGE, "give the program that the workers run, after the flags");
    q->ssh.pdsh = q->ssh.launcher && strcmp(q->ssh.launcher, "pdsh") == 0;
    if (q->ssh.launcher && !q->ssh.pdsh && strcmp(q->ssh.launcher, "ssh") != 0)
        FAIL(E_USAGE,
             "--launcher: found %s; valid are ssh and pdsh; under Slurm and MPI start trireme with "
             "srun or mpirun",
             q->ssh.launcher);
    TRY(check_elastic(q, e));
    if (q->master_port > 65535 || q->ssh.port > 65535)
        FAIL(E_USAGE, "--master-port and --ssh-port: valid are 0 to 65535");
done:
    return result;
}

// The file that programs which start DeepSpeed look for.
static status save_pid(char path[64], err *e)
{
    snprintf(path, 64, "/tmp/%d.deepspeed", (int)getpid());
    (void)unlink(path); // an earlier process of this number was killed
    const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (fd < 0) return err_errno(e, "--save-pid: cannot make %s", path);
    const bool written = dprintf(fd, "%d", (int)getpid()) > 0;
    close(fd);
    return written ? OK : err_errno(e, "--save-pid: cannot write %s", path);
}

static int start(const deepspeed_request *q, const hostfile *f, char **rest, int count)
{
    err e = {0};
    char path[64] = "";
    int code = 0;
    if (q->save_pid && save_pid(path, &e) != OK)
        code = cmd_fail(&e);
    else if (q->ssh.none)
        code = start_local(q, f, (int)q->ssh.node_rank, rest, count);
    else if (f->count == 1 && !q->force_multi && is_local(&f->hosts[0]))
        code = start_local(q, f, 0, rest, count);
    else
        code = deepspeed_start_remote(q, f, rest, count);
    if (q->save_pid) unlink(path);
    return code;
}

static int cmd_deepspeed(int argc, char **argv)
{
    err e = {0};
    deepspeed_request q = {.nodes = -1,
                           .slots = -1,
                           .ssh = {.port = -1, .node_rank = -1},
                           .master_port = -1,
                           .min_nodes = -1,
                           .max_nodes = -1};
    hostfile f = {0};
    int first = argc, code = 0;
    if (read_request(argc, argv, &q, &first, &e) != OK || choose(&q, &f, &e) != OK ||
        check_no_ssh(&q, &f, &e) != OK)
        code = cmd_fail(&e);
    else
        code = start(&q, &f, argv + first, argc - first);
    hostfile_close(&f);
    return code;
}

const command command_deepspeed = {
    .name = "deepspeed",
    .run = cmd_deepspeed,
    .usage = "[-H FILE] [-i HOSTS] [--num-gpus N] [flags] SCRIPT [arguments of the script]",
    .help = "Starts ranks on the hosts of a hostfile, as the launcher of DeepSpeed does.",
    .about = "On one host this is run, with the argument --local_rank=N for the script. On several "
             "hosts it starts run on each through ssh or pdsh; the hosts need the same folder and "
             "the same "
             "program trireme. ssh hands each host the secret of the run.",
    .flags = flags,
    .flag_count = FLAGS,
    .takes_program = true,
};
