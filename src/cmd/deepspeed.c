// deepspeed.c -- `trireme deepspeed`: the flags, hostfile and filters of DeepSpeed's launcher. On this host it is
// `trireme run`; on several it runs one `trireme run` on each through ssh, which are the workers of an agent here.
#define _GNU_SOURCE // environ
#include "cmd/run.h"

#include "base/alloc.h"
#include "base/file.h"
#include "cmd/cmd.h"
#include "cmd/command.h"
#include "launch/hostfile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char RANK_WORD[] = "--local_rank=${local_rank}";

typedef struct deepspeed_request {
    const char *hostfile, *include, *exclude, *launcher, *launcher_args, *master_addr, *secret_file;
    const char *log_folder, *log_level;
    int64_t nodes, slots, master_port, ssh_port; // -1: not given
    bool module, no_python, no_local_rank, force_multi;
} deepspeed_request;

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
    {"--master-addr", FLAG_TEXT, AT(master_addr), "HOST",
     "Names the host on which ranks meet (default: the first host)."},
    {"--master-port", FLAG_COUNT, AT(master_port), "PORT",
     "Sets the port on which ranks meet (default: a free one; on several hosts 29500)."},
    {"--launcher", FLAG_TEXT, AT(launcher), "ssh",
     "Says how other hosts are reached (default: ssh)."},
    {"--launcher-args", FLAG_TEXT, AT(launcher_args), "ARGS", "Gives ssh more arguments."},
    {"--ssh-port", FLAG_COUNT, AT(ssh_port), "PORT", "Sets the port of ssh."},
    {"--force-multi", FLAG_SWITCH, AT(force_multi), NULL,
     "Uses ssh also where the list has one host."},
    {"--module", FLAG_SWITCH, AT(module), NULL, "The program is a Python module."},
    {"--no-python", FLAG_SWITCH, AT(no_python), NULL,
     "The program is run as it is, without Python."},
    {"--no-local-rank", FLAG_SWITCH, AT(no_local_rank), NULL,
     "Leaves out the argument --local_rank=N."},
    {"--enable-each-rank-log", FLAG_TEXT, AT(log_folder), "DIR",
     "Writes the output of each rank to files in this folder."},
    {"--log-level", FLAG_TEXT, AT(log_level), "LEVEL", "Accepted; without effect."},
    {"--secret-file", FLAG_TEXT, AT(secret_file), "FILE",
     "Names the file with the secret of the run, the same path on every host (default: "
     "TRIREME_SECRET_FILE)."},
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

static void add_slots(text *out, const hostfile_host *h)
{
    const char *comma = "";
    for (int s = 0; s < h->slots; s++)
        if (h->takes[s]) text_addf(out, "%s%d", comma, s), comma = ",";
}

// ---- this host ----

static int start_here(const deepspeed_request *q, const hostfile_host *h, char **rest, int count)
{
    char workers[16];
    text slots = {0};
    snprintf(workers, sizeof workers, "%d", hostfile_taken(h));
    const run_request r = {
        .workers = {.nproc = workers,
                    .max_restarts = -1,
                    .shutdown_s = -1,
                    .module = q->module,
                    .no_python = q->no_python,
                    .rank_word = q->no_local_rank ? NULL : RANK_WORD},
        .nodes = {.node_rank = -1, .master_addr = q->master_addr, .master_port = q->master_port},
        .outputs = {.folder = q->log_folder, .tee = q->log_folder ? "3" : NULL}};
    if (q->include || q->exclude) {
        add_slots(&slots, h);
        setenv("CUDA_VISIBLE_DEVICES", slots.chars ? slots.chars : "", 1);
        text_clear(&slots);
    }
    return run_start(&r, rest, count);
}

// ---- several hosts ----

// A word for a shell: in quotes. A dollar ends them and begins new ones, so that ${local_rank} is left to the agent of
// the other host: the agent here looks for these characters, too.
static void add_word(text *out, const char *word)
{
    text_add(out, " '");
    for (; *word; word++) {
        if (*word == '\'')
            text_add(out, "'\\''");
        else
            text_add_bytes(out, word, 1);
        if (*word == '$') text_add(out, "''");
    }
    text_add(out, "'");
}

// DeepSpeed passes on the variables whose names begin so.
static void add_environment(text *out)
{
    static const char *const BEGIN[] = {"NCCL", "PYTHON", "UCX", "TORCH", "OMP_", "TRIREME_"};
    for (char **v = environ; *v; v++)
        for (size_t i = 0; i < sizeof BEGIN / sizeof *BEGIN; i++)
            if (strncmp(*v, BEGIN[i], strlen(BEGIN[i])) == 0) add_word(out, *v);
}

// The command of one host: `trireme run` as the node of that number.
static status write_remote(const deepspeed_request *q, const hostfile *f, int node, char **rest,
                           int count, text *out, err *e)
{
    char own[4096], folder[4096];
    const hostfile_host *h = &f->hosts[node];
    run_find_self(own, sizeof own);
    if (!getcwd(folder, sizeof folder)) return err_errno(e, "cannot find the current folder");
    text_add(out, "cd");
    add_word(out, folder);
    text_add(out, " && exec env");
    add_environment(out);
    text_add(out, " CUDA_VISIBLE_DEVICES=");
    add_slots(out, h);
    add_word(out, own);
    text_addf(out, " run --nnodes %d --node-rank %d --nproc-per-node %d --master-port %d", f->count,
              node, hostfile_taken(h), q->master_port < 0 ? 29500 : (int)q->master_port);
    text_add(out, " --master-addr");
    add_word(out, q->master_addr ? q->master_addr : f->hosts[0].name);
    if (q->secret_file) text_add(out, " --secret-file"), add_word(out, q->secret_file);
    if (q->log_folder) text_add(out, " --tee 3 --log-dir"), add_word(out, q->log_folder);
    if (q->module) text_add(out, " --module");
    if (q->no_python) text_add(out, " --no-python");
    add_word(out, rest[0]);
    if (!q->no_local_rank) add_word(out, RANK_WORD);
    for (int i = 1; i < count; i++) add_word(out, rest[i]);
    return text_check(out, e);
}

// Each worker of the agent here is an ssh to one host. The terminal that -tt asks for ends what runs there when ssh ends.
static int start_there(const deepspeed_request *q, const hostfile *f, char **rest, int count)
{
    status result = OK;
    err error = {0}, *e = &error;
    char workers[16], **words = NULL;
    text script = {0};
    const size_t most = 4 + 2 * (size_t)f->count;
    int code = 0;
    TRY(alloc_zeroed(&words, most + 1, sizeof *words, "the commands of the hosts", e));
    text_add(&script, "shift $((2 * ${local_rank})); exec ssh -tt -o BatchMode=yes");
    if (q->ssh_port >= 0) text_addf(&script, " -p %d", (int)q->ssh_port);
    if (q->launcher_args) text_addf(&script, " %s", q->launcher_args);
    text_add(&script, " \"$1\" \"$2\"");
    TRY(text_check(&script, e));
    TRY(text_copy("sh", &words[0], e));
    TRY(text_copy("-c", &words[1], e));
    TRY(text_take(&script, &words[2], e));
    TRY(text_copy("sh", &words[3], e));
    for (int i = 0; i < f->count; i++) {
        text line = {0};
        TRY(text_copy(f->hosts[i].name, &words[4 + 2 * i], e));
        TRY(write_remote(q, f, i, rest, count, &line, e));
        TRY(text_take(&line, &words[5 + 2 * i], e));
    }
    snprintf(workers, sizeof workers, "%d", f->count);
    const run_request r = {
        .workers = {.nproc = workers, .max_restarts = -1, .shutdown_s = -1, .no_python = true},
        .nodes = {.node_rank = -1, .master_port = -1, .standalone = true}};
    code = run_start(&r, words, (int)most);
done:
    for (size_t i = 0; words && i < most; i++) free(words[i]);
    free(words);
    text_clear(&script);
    return result == OK ? code : cmd_fail(e);
}

static status read_request(int argc, char **argv, deepspeed_request *q, int *first, err *e)
{
    status result = OK;
    TRY(flags_parse_leading(flags, FLAGS, argc, argv, q, first, e));
    if (*first == argc) FAIL(E_USAGE, "give the program that the workers run, after the flags");
    if (q->launcher && strcmp(q->launcher, "ssh") != 0)
        FAIL(E_USAGE,
             "--launcher: found %s; valid is ssh; under Slurm and MPI start trireme with srun or "
             "mpirun",
             q->launcher);
    if (q->master_port > 65535 || q->ssh_port > 65535)
        FAIL(E_USAGE, "--master-port and --ssh-port: valid are 0 to 65535");
done:
    return result;
}

static int cmd_deepspeed(int argc, char **argv)
{
    err e = {0};
    deepspeed_request q = {.nodes = -1, .slots = -1, .master_port = -1, .ssh_port = -1};
    hostfile f = {0};
    int first = argc, code = 0;
    if (read_request(argc, argv, &q, &first, &e) != OK || choose(&q, &f, &e) != OK)
        code = cmd_fail(&e);
    else if (f.count == 1 && !q.force_multi)
        code = start_here(&q, &f.hosts[0], argv + first, argc - first);
    else
        code = start_there(&q, &f, argv + first, argc - first);
    hostfile_close(&f);
    return code;
}

const command command_deepspeed = {
    .name = "deepspeed",
    .run = cmd_deepspeed,
    .usage = "[-H FILE] [-i HOSTS] [--num-gpus N] [flags] SCRIPT [arguments of the script]",
    .help = "Starts ranks on the hosts of a hostfile, as the launcher of DeepSpeed does.",
    .about = "On one host this is run, with the argument --local_rank=N for the script. On several "
             "hosts it starts run on each through ssh; the hosts need the same folder, the same "
             "program trireme and, with --secret-file, the same secret.",
    .flags = flags,
    .flag_count = FLAGS,
    .takes_program = true,
};
