// run.c -- `trireme run`, and `trireme torchrun`: starts any program as a group of workers, on one or many hosts, with
// torchrun's flags, environment and reports. launch/agent.h does the work.
#include "cmd/run/run.h"

#include "cmd/cmd.h"
#include "cmd/command.h"
#include "cmd/console.h"

#include <stdlib.h>

#define W(member) offsetof(run_request, workers.member)
#define N(member) offsetof(run_request, nodes.member)
#define O(member) offsetof(run_request, outputs.member)

static const flag flags[] = {
    {"--nnodes", FLAG_TEXT, N(nnodes), "N|MIN:MAX",
     "Sets the number of nodes, or its bounds (default: 1)."},
    {"--nproc-per-node", FLAG_TEXT, W(nproc), "N|auto|gpu|cpu",
     "Sets the workers on this node: a number, one for each GPU or core, or auto: GPUs, else cores "
     "(default: 1)."},
    {"--rdzv-backend", FLAG_TEXT, N(backend), "static|c10d",
     "Says how nodes get their numbers: static by --node-rank, c10d in the order in which they "
     "arrive (default: static)."},
    {"--rdzv-endpoint", FLAG_TEXT, N(endpoint), "HOST[:PORT]",
     "Names the leading node, on which the nodes meet (default port: 29400)."},
    {"--rdzv-id", FLAG_TEXT, N(id), "ID", "Names the run; the same on every node."},
    {"--rdzv-conf", FLAG_TEXT, N(conf), "K=V,...",
     "Sets join_timeout (600), last_call_timeout (30), close_timeout (30), in seconds, "
     "keep_alive_interval (5) and "
     "keep_alive_max_attempt (3), whose product is the time without a sign of life after which a "
     "node is lost, and "
     "is_host (true: this node leads)."},
    {"--standalone", FLAG_SWITCH, N(standalone), NULL,
     "Runs on this node alone, on a free port; the other flags of rendezvous have no effect."},
    {"--max-restarts", FLAG_COUNT, W(max_restarts), "N",
     "Starts all workers again up to so many times after a failure (default: 0)."},
    {"--monitor-interval", FLAG_NUMBER, W(monitor_s), "S",
     "Accepted; without effect, because the end of a worker is noticed at once."},
    {"--start-method", FLAG_TEXT, W(start_method), "spawn|fork|forkserver",
     "Accepted; without effect, because workers are programs."},
    {"--event-log-handler", FLAG_TEXT, O(events), "NAME", "Accepted; without effect."},
    {"--role", FLAG_TEXT, W(role), "NAME", "Names the workers' role (default: default)."},
    {"-m, --module", FLAG_SWITCH, W(module), NULL,
     "The program is a Python module, as for python -m."},
    {"--no-python", FLAG_SWITCH, W(no_python), NULL,
     "The program is run as it is, without Python."},
    {"--run-path", FLAG_SWITCH, W(run_path), NULL,
     "The program is a Python script that is run by runpy.run_path."},
    {"--log-dir", FLAG_TEXT, O(folder), "DIR",
     "Sets the folder of log files (default: a temporary one)."},
    {"-r, --redirects", FLAG_TEXT, O(redirects), "0|1|2|3|RANK:N,...",
     "Writes stdout (1), stderr (2) or both (3) to files instead of the console, for all or some "
     "local ranks."},
    {"-t, --tee", FLAG_TEXT, O(tee), "0|1|2|3|RANK:N,...",
     "Writes stdout (1), stderr (2) or both (3) to files and, with a prefix, to the console."},
    {"--local-ranks-filter", FLAG_TEXT, O(ranks), "RANK,...",
     "Shows only these local ranks on the console."},
    {"--duplicate-stdout-filters", FLAG_TEXT, O(stdout_words), "WORD,...",
     "Copies lines of stdout that hold one of the words to filtered_stdout.log; ,, is a comma in a "
     "word."},
    {"--duplicate-stderr-filters", FLAG_TEXT, O(stderr_words), "WORD,...", "The same for stderr."},
    {"--node-rank", FLAG_COUNT, N(node_rank), "N",
     "Sets this node's number, from 0, where rendezvous is static."},
    {"--master-addr", FLAG_TEXT, N(master_addr), "HOST",
     "Names node 0 where rendezvous is static (default: 127.0.0.1)."},
    {"--master-port", FLAG_COUNT, N(master_port), "PORT",
     "Sets the port on which nodes meet where rendezvous is static (default: 29500); on one node, "
     "MASTER_PORT of the "
     "workers (default: a free one)."},
    {"--local-addr", FLAG_TEXT, N(local_addr), "HOST",
     "Sets this node's address for the others (default: the one that reaches the leading node)."},
    {"--logs-specs", FLAG_TEXT, O(specs), "NAME",
     "Accepted; without effect, because it names code of Python."},
    {"--numa-binding", FLAG_TEXT, W(numa), "node|socket|exclusive|core-complex",
     "Binds each worker to the cores of a NUMA node, of its socket, to a share of its physical "
     "cores, or to those of one last-level cache. Workers are divided among nodes in order."},
    {"--bind-cores-to-rank", FLAG_SWITCH, W(bind_cores), NULL,
     "Binds each worker to an equal share of the physical cores, as DeepSpeed's launcher does."},
    {"--bind-core-list", FLAG_TEXT, W(core_list), "CORE[-CORE],...",
     "Names the cores that --bind-cores-to-rank shares out."},
    {"--signals-to-handle", FLAG_TEXT, W(signals), "SIGNAL,...",
     "Names the signals that stop the run and are passed on to the workers (default: SIGTERM,"
     "SIGINT,SIGHUP,SIGQUIT)."},
    {"--shutdown-timeout", FLAG_COUNT, W(shutdown_s), "S",
     "Sets the seconds from SIGTERM to SIGKILL when workers are stopped (default: 30, or "
     "TORCH_ELASTIC_SHUTDOWN_TIMEOUT)."},
    {"--virtual-local-rank", FLAG_SWITCH, W(own_gpu), NULL,
     "Gives each worker LOCAL_RANK 0 and a CUDA_VISIBLE_DEVICES with its own GPU only."},
    {"--use-env", FLAG_SWITCH, W(use_env), NULL,
     "Leaves out the argument --local-rank that launch adds."},
    {"--secret-file", FLAG_TEXT, N(secret_file), "FILE",
     "Names the file with the secret of the run, which nodes on several hosts need, or - for the "
     "first line of the standard input, whose end stops the run (default: TRIREME_SECRET_FILE)."},
    {"--json", FLAG_SWITCH, offsetof(run_request, json), NULL,
     "Prints the start, each failed worker and the end as one JSON object a line, among the lines "
     "that workers print."},
};
enum { FLAGS = sizeof flags / sizeof *flags };

static void say(const char *line)
{
    console_say("%s", line);
}

// Prints what torchrun prints after the last failure, where a worker failed.
static void print_report(const run_options *o, const agent_result *r)
{
    text report = {0};
    if (r->count == 0 || r->failures[0].rank < 0) return;
    worker_failure_report(o->entry, r->failures, r->count, &report);
    if (report.bytes) console_report(report.chars, report.bytes);
    text_clear(&report);
}

static int exit_code(const agent_result *r, status result)
{
    enum { BY_SIGNAL = 128 };
    return r->signal ? BY_SIGNAL + r->signal : status_exit_code(result);
}

// Programs that take a thread for each core would take all cores several times. Those of Trireme divide them.
static void say_threads(const run_request *q, const run_options *o)
{
    const bool is_own = o->agent.program[0] == o->self;
    if (o->agent.workers == 1 || q->workers.bind_cores || q->workers.quiet || is_own ||
        getenv("OMP_NUM_THREADS"))
        return;
    console_warn("OMP_NUM_THREADS is 1 for each of the %d workers, so that they do not "
                 "overload this host; set it to change that",
                 o->agent.workers);
}

int run_start(const run_request *q, char **rest, int count)
{
    status result = OK;
    err error = {0}, *e = &error;
    run_options o = {0};
    agent_result r = {0};
    run_events events = {.log = NULL};
    TRY(run_options_open(q, rest, count, &o, e));
    o.agent.say = say;
    say_threads(q, &o);
    TRY(run_events_begin(q, &o, &events, e));
    TRY(agent_run(&o.agent, &r, e));
done:
    run_events_end(&events, &r, result, e);
    if (result == E_PEER) print_report(&o, &r);
    // The cause was said when it happened.
    const int code = result == OK || r.count > 0 ? exit_code(&r, result) : cmd_fail(e);
    run_options_close(&o);
    free(r.failures);
    return r.signal ? exit_code(&r, result) : code;
}

static int start(int argc, char **argv, const char *rank_word)
{
    err e = {0};
    run_request q = {.workers = {.max_restarts = -1, .shutdown_s = -1, .rank_word = rank_word},
                     .nodes = {.node_rank = -1, .master_port = -1}};
    int first = argc;
    if (flags_read_environment(flags, FLAGS, "PET_", &q, &e) != OK ||
        flags_parse_leading(flags, FLAGS, argc, argv, &q, &first, &e) != OK)
        return cmd_fail(&e);
    return run_start(&q, argv + first, argc - first);
}

static int cmd_run(int argc, char **argv)
{
    return start(argc, argv, NULL);
}

static int cmd_launch(int argc, char **argv)
{
    return start(argc, argv, "--local-rank=${local_rank}");
}

static const char ABOUT[] = "Starts the program once for each local rank, with torchrun's "
                            "environment (RANK, WORLD_SIZE, LOCAL_RANK, "
                            "MASTER_ADDR, ...). A script of Python is run with python3; `train "
                            "JOB` and other commands of Trireme, and "
                            "programs that can be executed, are run as they are. When a worker "
                            "fails, all workers on all nodes are stopped, and one line on "
                            "every node names the rank, the host and the cause. Each flag has an "
                            "environment variable: PET_NNODES is "
                            "--nnodes. Exit codes: 0 all workers succeeded, 1 a worker failed, 2 "
                            "bad usage, 128 + N stopped by signal N.";

const command command_run = {
    .name = "run",
    .run = cmd_run,
    .usage = "[--nproc-per-node N] [--nnodes N] [flags] PROGRAM [arguments of the program]",
    .help = "Starts any program on several ranks, with torchrun's flags.",
    .about = ABOUT,
    .flags = flags,
    .flag_count = FLAGS,
    .takes_program = true,
};

const command command_torchrun = {
    .name = "torchrun",
    .run = cmd_run,
    .usage = "[--nproc-per-node N] [--nnodes N] [flags] SCRIPT [arguments of the script]",
    .help = "Starts ranks as PyTorch's torchrun does; the same as run.",
    .about = ABOUT,
    .flags = flags,
    .flag_count = FLAGS,
    .takes_program = true,
};

const command command_launch = {
    .name = "launch",
    .run = cmd_launch,
    .usage = "[--nproc-per-node N] [--nnodes N] [flags] SCRIPT [arguments of the script]",
    .help = "Starts ranks as python -m torch.distributed.launch does: run, with the argument "
            "--local-rank=N for the script.",
    .about = ABOUT,
    .flags = flags,
    .flag_count = FLAGS,
    .takes_program = true,
};
