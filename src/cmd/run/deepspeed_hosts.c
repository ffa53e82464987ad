// deepspeed_hosts.c -- `trireme deepspeed` on several hosts: it runs one `trireme run` on each through ssh or pdsh, which
// are the workers of an agent here. Called by deepspeed.c.
#define _GNU_SOURCE // environ
#include "cmd/run/deepspeed.h"

#include "base/alloc.h"
#include "base/file.h"
#include "cmd/cmd.h"
#include "net/secret.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void deepspeed_add_slots(text *out, const hostfile_host *h)
{
    const char *comma = "";
    for (int s = 0; s < h->slots; s++)
        if (h->takes[s]) text_addf(out, "%s%d", comma, s), comma = ",";
}

// A word for a shell: in quotes. A dollar ends them and begins new ones, so that ${local_rank} is left to the agent of
// the other host: the agent here looks for these characters, too.
void deepspeed_add_word(text *out, const char *word)
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

// NAME=VALUE of a line, which is changed; NULL: there is nothing in the line. env takes other words for options.
static status read_variable(const char *path, int number, char *line, char **out, err *e)
{
    *out = NULL;
    line[strcspn(line, "\r")] = 0;
    line += strspn(line, " \t");
    if (!*line || *line == '#') return OK;
    const size_t name =
        strspn(line, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789");
    if (name == 0 || line[name] != '=' || (*line >= '0' && *line <= '9'))
        return err_set(e, E_USAGE, "%s: line %d: valid is NAME=VALUE", path, number);
    *out = line;
    return OK;
}

// The lines of .deepspeed_env (DS_ENV_FILE), in this folder, else in that of the user.
static status add_environment_file(text *out, err *e)
{
    enum { MOST_BYTES = 1 << 20 };
    status result = OK;
    char *chars = NULL, *path = NULL, *variable = NULL;
    const char *given = getenv("DS_ENV_FILE"), *home = getenv("HOME");
    const bool is_given = given && *given;
    const char *name = is_given ? given : ".deepspeed_env";
    if (file_exists(name))
        TRY(text_copy(name, &path, e));
    else
        TRY(file_join(home ? home : "", name, &path, e));
    if (!is_given && !file_exists(path)) goto done;
    TRY(file_read_small(path, MOST_BYTES, &chars, NULL, e));
    int number = 1;
    for (char *line = chars, *next; line; line = next, number++) {
        next = strchr(line, '\n');
        if (next) *next++ = 0;
        TRY(read_variable(path, number, line, &variable, e));
        if (variable) deepspeed_add_word(out, variable);
    }
done:
    free(path);
    free(chars);
    return result;
}

// DeepSpeed passes on the variables whose names begin so, and those of its file, which come later and count.
status deepspeed_add_environment(text *out, err *e)
{
    static const char *const BEGIN[] = {"NCCL", "PYTHON", "UCX", "TORCH", "OMP_", "TRIREME_"};
    for (char **v = environ; *v; v++)
        for (size_t i = 0; i < sizeof BEGIN / sizeof *BEGIN; i++)
            if (strncmp(*v, BEGIN[i], strlen(BEGIN[i])) == 0) deepspeed_add_word(out, *v);
    return add_environment_file(out, e);
}

// Adds the address of the rendezvous. The hosts of an elastic run have no fixed numbers; the first one leads.
static void add_rendezvous(const deepspeed_request *q, const hostfile *f, int node, text *out)
{
    const char *master = q->master_addr ? q->master_addr : f->hosts[0].name;
    const int port = q->master_port < 0 ? DEEPSPEED_PORT : (int)q->master_port;
    if (!q->elastic) {
        text_addf(out, " --nnodes %d --node-rank %d --master-port %d --master-addr", f->count, node,
                  port);
        deepspeed_add_word(out, master);
        return;
    }
    text endpoint = {0};
    text_addf(&endpoint, "%s:%d", master, port);
    text_addf(out, " --nnodes %d:%d --max-restarts %d --rdzv-backend c10d --rdzv-conf is_host=%s",
              q->min_nodes < 0 ? 1 : (int)q->min_nodes,
              q->max_nodes < 0 ? f->count : (int)q->max_nodes, DEEPSPEED_RESTARTS,
              node == 0 ? "true" : "false");
    text_add(out, " --rdzv-endpoint");
    deepspeed_add_word(out, endpoint.chars ? endpoint.chars : "");
    text_clear(&endpoint);
}

// The command of one host: `trireme run` as the node of that number.
static status write_remote(const deepspeed_request *q, const hostfile *f, int node, char **rest,
                           int count, text *out, err *e)
{
    status result = OK;
    char own[4096], folder[4096];
    const hostfile_host *h = &f->hosts[node];
    run_find_self(own, sizeof own);
    if (!getcwd(folder, sizeof folder)) return err_errno(e, "cannot find the current folder");
    text_add(out, "cd");
    deepspeed_add_word(out, folder);
    text_add(out, " && exec env");
    // A variable that is set causes no warning.
    if (q->quiet && !getenv("OMP_NUM_THREADS") && hostfile_taken(h) > 1)
        text_add(out, " OMP_NUM_THREADS=1");
    TRY(deepspeed_add_environment(out, e));
    text_add(out, " CUDA_VISIBLE_DEVICES=");
    deepspeed_add_slots(out, h);
    deepspeed_add_word(out, own);
    text_addf(out, " run --nproc-per-node %d", hostfile_taken(h));
    add_rendezvous(q, f, node, out);
    if (q->bind_cores) text_add(out, " --bind-cores-to-rank");
    if (q->core_list) text_add(out, " --bind-core-list"), deepspeed_add_word(out, q->core_list);
    if (!q->ssh.pdsh)
        text_add(out, " --secret-file -");
    else if (q->secret_file)
        text_add(out, " --secret-file"), deepspeed_add_word(out, q->secret_file);
    if (q->log_folder) text_add(out, " --tee 3 --log-dir"), deepspeed_add_word(out, q->log_folder);
    if (q->module) text_add(out, " --module");
    if (q->no_python) text_add(out, " --no-python");
    deepspeed_add_word(out, rest[0]);
    if (!q->no_local_rank) deepspeed_add_word(out, DEEPSPEED_RANK_WORD);
    for (int i = 1; i < count; i++) deepspeed_add_word(out, rest[i]);
    TRY(text_check(out, e));
done:
    return result;
}

// The commands of an agent here: its program, and how many workers run it.
typedef struct remote_commands {
    char **words; // end with NULL
    size_t count;
    int workers;
} remote_commands;

static status open_commands(remote_commands *c, const text *script, size_t more, err *e)
{
    status result = OK;
    TRY(text_check(script, e));
    TRY(alloc_zeroed(&c->words, 4 + more + 1, sizeof *c->words, "the commands of the hosts", e));
    TRY(text_copy("sh", &c->words[c->count++], e));
    TRY(text_copy("-c", &c->words[c->count++], e));
    TRY(text_copy(script->chars, &c->words[c->count++], e));
    TRY(text_copy("sh", &c->words[c->count++], e));
done:
    return result;
}

// The standard input of one ssh: a pipe that holds the secret as a line, and that stays open as long as this process lives.
// When ssh or this process ends, `trireme run` on that host stops. *out is the descriptor from which ssh reads.
status deepspeed_open_input(const net_secret *s, int *out, err *e)
{
    char line[2 * NET_MAC_BYTES + 2];
    int ends[2];
    for (size_t i = 0; i < sizeof s->key; i++) snprintf(line + 2 * i, 3, "%02x", s->key[i]);
    line[2 * NET_MAC_BYTES] = '\n';
    if (pipe(ends) != 0) return err_errno(e, "cannot open a pipe");
    fcntl(ends[1], F_SETFD, FD_CLOEXEC);
    *out = ends[0];
    if (write(ends[1], line, sizeof line - 1) == (ssize_t)sizeof line - 1) return OK;
    return err_errno(e, "cannot write the secret into a pipe");
}

// That of the user's file, or a random one.
static status find_secret(const deepspeed_request *q, net_secret *out, err *e)
{
    const char *file = q->secret_file ? q->secret_file : getenv("TRIREME_SECRET_FILE");
    return file && *file ? net_secret_read(file, out, e) : net_secret_draw(out, e);
}

// Each worker of the agent here is an ssh to one host. In an elastic run the end of the first host's command is that of the run; the others may be lost.
static status write_ssh(const deepspeed_request *q, const hostfile *f, char **rest, int count,
                        remote_commands *c, err *e)
{
    status result = OK;
    text script = {0}, line = {0};
    net_secret secret;
    char number[16];
    int input = -1;
    TRY(find_secret(q, &secret, e));
    text_add(&script, "shift $((3 * ${local_rank})); ");
    if (!q->elastic) text_add(&script, "exec ");
    text_add(&script, "ssh -T -o BatchMode=yes");
    if (q->ssh.port >= 0) text_addf(&script, " -p %d", (int)q->ssh.port);
    if (q->ssh.launcher_args) text_addf(&script, " %s", q->ssh.launcher_args);
    text_add(&script, " \"$1\" \"$2\" <\"/proc/self/fd/$3\"");
    if (q->elastic)
        text_add(&script, " && exit; code=$?; [ ${local_rank} -gt 0 ] || exit $code; "
                          "echo \"trireme: host $1 is lost (exit code $code)\" >&2");
    TRY(open_commands(c, &script, 3 * (size_t)f->count, e));
    for (int i = 0; i < f->count; i++) {
        TRY(text_copy(f->hosts[i].name, &c->words[c->count++], e));
        TRY(write_remote(q, f, i, rest, count, &line, e));
        TRY(text_take(&line, &c->words[c->count++], e));
        TRY(deepspeed_open_input(&secret, &input, e));
        snprintf(number, sizeof number, "%d", input);
        TRY(text_copy(number, &c->words[c->count++], e));
    }
    c->workers = f->count;
done:
    text_clear(&script);
    text_clear(&line);
    return result;
}

// pdsh gives the hosts no standard input.
static status check_pdsh(const deepspeed_request *q, const hostfile *f, err *e)
{
    const char *file = q->secret_file ? q->secret_file : getenv("TRIREME_SECRET_FILE");
    const char *master = q->master_addr ? q->master_addr : f->hosts[0].name;
    net_address a;
    if ((file && *file) ||
        (net_address_resolve(master, 0, &a, NULL) == OK && net_address_is_loopback(&a)))
        return OK;
    return err_set(
        e, E_USAGE,
        "--launcher pdsh: it cannot hand the hosts a secret; valid: --secret-file FILE, the "
        "same path on every host, or --launcher ssh, which needs no file");
}

// One pdsh runs one command on all hosts. It puts the number of a host for %n and a percent sign for %%.
static status write_pdsh(const deepspeed_request *q, const hostfile *f, char **rest, int count,
                         remote_commands *c, err *e)
{
    status result = OK;
    text script = {0}, hosts = {0}, line = {0}, all = {0};
    TRY(check_pdsh(q, f, e));
    text_add(&script, "exec env PDSH_RCMD_TYPE=ssh PDSH_SSH_ARGS_APPEND=\"-tt -o BatchMode=yes");
    if (q->ssh.port >= 0) text_addf(&script, " -p %d", (int)q->ssh.port);
    text_add(&script, "\" pdsh -S -f 1024");
    if (q->ssh.launcher_args) text_addf(&script, " %s", q->ssh.launcher_args);
    text_add(&script, " -w \"$1\" \"$2\"");
    TRY(open_commands(c, &script, 2, e));
    text_add(&all, "case %n in");
    for (int i = 0; i < f->count; i++) {
        TRY(write_remote(q, f, i, rest, count, &line, e));
        text_addf(&hosts, "%s%s", i ? "," : "", f->hosts[i].name);
        text_addf(&all, " %d) ", i);
        for (const char *next = line.chars; *next; next++)
            text_add_bytes(&all, *next == '%' ? "%%" : next, *next == '%' ? 2 : 1);
        text_add(&all, ";;");
        text_clear(&line);
    }
    text_add(&all, " esac");
    TRY(text_take(&hosts, &c->words[c->count++], e));
    TRY(text_take(&all, &c->words[c->count++], e));
    c->workers = 1;
done:
    text_clear(&script);
    text_clear(&hosts);
    text_clear(&line);
    text_clear(&all);
    return result;
}

int deepspeed_start_remote(const deepspeed_request *q, const hostfile *f, char **rest, int count)
{
    status result = OK;
    err error = {0}, *e = &error;
    char workers[16];
    remote_commands c = {0};
    int code = 0;
    if (q->ssh.pdsh)
        TRY(write_pdsh(q, f, rest, count, &c, e));
    else
        TRY(write_ssh(q, f, rest, count, &c, e));
    snprintf(workers, sizeof workers, "%d", c.workers);
    const run_request r = {.workers = {.nproc = workers,
                                       .max_restarts = -1,
                                       .shutdown_s = -1,
                                       .no_python = true,
                                       .quiet = true},
                           .nodes = {.node_rank = -1, .master_port = -1, .standalone = true}};
    code = run_start(&r, c.words, (int)c.count);
done:
    for (size_t i = 0; i < c.count; i++) free(c.words[i]);
    free(c.words);
    return result == OK ? code : cmd_fail(e);
}
