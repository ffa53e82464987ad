// launcher.c -- see launcher.h. One table has a row for each launcher; those that describe the whole cluster as JSON
// have a function. Called by cmd/ and launch.c before a run writes anything.
#include "launch/launcher.h"

#include "base/text.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { IDENTITIES = 4 };
#define DEADLINE_VARIABLE   "TRIREME_ATTACH_TIMEOUT"
#define DEADLINE_DEFAULT_MS 300000

typedef struct launcher_row {
    const char *name;
    const char *rank, *ranks, *local_rank, *local_ranks; // variables; NULL: there is none
    const char *node;                                    // local_ranks lists a number for each node
    const char *host;  // the number of the node, where it tells one
    const char *alone; // where this is set, and no local variable is, each host has one process
    const char
        *identity[IDENTITIES]; // variables; where none is set, the parent process is the identity
} launcher_row;

static const launcher_row ROWS[] = {
    {"torchrun",
     "RANK",
     "WORLD_SIZE",
     "LOCAL_RANK",
     "LOCAL_WORLD_SIZE",
     NULL,
     "GROUP_RANK",
     "MASTER_ADDR",
     {"MASTER_PORT", "MASTER_ADDR", "TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_RUN_ID"}},
    {"mpirun (Open MPI)",
     "OMPI_COMM_WORLD_RANK",
     "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE",
     NULL,
     NULL,
     NULL,
     {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "OMPI_MCA_orte_ess_jobid"}},
    {"mpiexec (PMI)",
     "PMI_RANK",
     "PMI_SIZE",
     "MPI_LOCALRANKID",
     "MPI_LOCALNRANKS",
     NULL,
     NULL,
     NULL,
     {"PMI_JOBID", "MPICH_JOBID"}},
    {"mpiexec (MVAPICH)",
     "MV2_COMM_WORLD_RANK",
     "MV2_COMM_WORLD_SIZE",
     "MV2_COMM_WORLD_LOCAL_RANK",
     "MV2_COMM_WORLD_LOCAL_SIZE",
     NULL,
     NULL,
     NULL,
     {"MPIRUN_ID"}},
    {"a launcher with PMIx", "PMIX_RANK", NULL, NULL, NULL, NULL, NULL, NULL, {NULL}},
    // Not SLURM_NTASKS: a batch script, which runs once, has it too.
    {"srun",
     "SLURM_PROCID",
     "SLURM_STEP_NUM_TASKS",
     "SLURM_LOCALID",
     "SLURM_STEP_TASKS_PER_NODE",
     "SLURM_NODEID",
     "SLURM_NODEID",
     NULL,
     {"SLURM_JOB_ID", "SLURM_STEP_ID"}},
    {"srun", "SLURM_PROCID", NULL, NULL, NULL, NULL, NULL, NULL, {NULL}},
};

// This process as the variables describe it.
typedef struct launcher_match {
    launcher_location
        location; // launcher NULL: nothing; ranks 0: there are several, and it is not known how many
    text variables;        // "RANK=1 WORLD_SIZE=2"
    const char *unset;     // without this variable the process is alone
    const char *lacks;     // what is not set, and is needed to attach; NULL: nothing
    const char *malformed; // the first variable whose value is no whole number; NULL: there is none
} launcher_match;

static const char *value_of(const char *variable)
{
    const char *value = variable ? getenv(variable) : NULL;
    return value && *value ? value : NULL;
}

// Launchers write decimal digits only, so a number with a unit, such as 2k, is none.
static bool read_number(launcher_match *f, const char *variable, int *out)
{
    const char *value = value_of(variable);
    int64_t number;
    if (!value) return false;
    if (strspn(value, "0123456789") == strlen(value) && text_to_count(value, &number) &&
        number <= INT32_MAX)
        return *out = (int)number, true;
    if (!f->malformed) f->malformed = variable;
    return false;
}

// Reads "4(x2),3", the tasks of three nodes.
static bool read_list(const char *variable, int index, int *out)
{
    const char *c = variable ? getenv(variable) : NULL;
    while (c && *c) {
        int tasks, times = 1, length = 0;
        if (sscanf(c, "%9d%n", &tasks, &length) != 1) return false;
        c += length;
        if (sscanf(c, "(x%9d)%n", &times, &length) == 1) c += length;
        *out = tasks;
        index -= times;
        if (index < 0) return tasks > 0;
        c += *c == ',';
    }
    return false;
}

// Adds " NAME=value" to an identity, where the variable is set.
static void add_variable(const char *name, char identity[LAUNCHER_IDENTITY_BYTES])
{
    const char *value = value_of(name);
    const size_t bytes = strlen(identity);
    if (value) snprintf(identity + bytes, LAUNCHER_IDENTITY_BYTES - bytes, " %s=%s", name, value);
}

static void add_identity(const launcher_row *l, launcher_location *p)
{
    snprintf(p->run, sizeof p->run, "%s", p->launcher);
    for (int i = 0; i < IDENTITIES; i++) add_variable(l->identity[i], p->run);
    strcpy(p->identity, p->run);
    const size_t bytes = strlen(p->identity);
    if (strcmp(p->run, p->launcher) == 0)
        snprintf(p->identity + bytes, sizeof p->identity - bytes, " parent process %d",
                 (int)getppid());
    if (p->local_ranks != p->ranks) add_variable(l->host, p->identity);
}

// Returns whether this is the one process of a host, by the variables that are not set. A PyTorchJob starts pods so.
static bool is_alone_on_host(const launcher_row *l)
{
    return value_of(l->alone) && !value_of(l->local_rank) && !value_of(l->local_ranks);
}

static void read_local(const launcher_row *l, launcher_match *f)
{
    launcher_location *p = &f->location;
    int node = 0;
    f->lacks = NULL;
    if (is_alone_on_host(l))
        p->local_ranks = 1;
    else if (!l->ranks)
        f->lacks = "the number of processes";
    else if (!read_number(f, l->local_rank, &p->local_rank))
        f->lacks = l->local_rank;
    else if (l->node && read_number(f, l->node, &node) &&
             !read_list(l->local_ranks, node, &p->local_ranks))
        f->lacks = l->local_ranks;
    else if (!l->node && !read_number(f, l->local_ranks, &p->local_ranks))
        f->lacks = l->local_ranks;
    else if (l->node && !getenv(l->node))
        f->lacks = l->node;
    if (!f->lacks) add_identity(l, p);
}

// `trireme run` sets torchrun's variables and its own, which a torchrun below it does not change.
static const char *name_of(const launcher_row *l)
{
    const char *own = value_of(LAUNCHER_RUN_VARIABLE), *id = value_of("TORCHELASTIC_RUN_ID");
    return l == &ROWS[0] && own && id && strcmp(own, id) == 0 ? "trireme run" : l->name;
}

// Returns whether the environment has the rank of one of several processes.
static bool read_rank(const launcher_row *l, launcher_match *f)
{
    launcher_location *p = &f->location;
    const bool has_rank = read_number(f, l->rank, &p->rank);
    const bool has_ranks = read_number(f, l->ranks, &p->ranks);
    return has_rank && (l->ranks ? has_ranks && p->ranks > 1 : p->rank > 0);
}

// Fills f where the variables of the row say that there are several processes. Where an earlier row has said so
// without all that is needed, as PMI's under srun, only a complete row of the same process counts.
static void read_row(const launcher_row *l, launcher_match *f)
{
    launcher_match own = {.location = {.launcher = name_of(l), .starts = 1},
                          .unset = l->ranks ? l->ranks : l->rank,
                          .malformed = f->malformed};
    const launcher_location *before = &f->location;
    launcher_location *p = &own.location;
    if (before->launcher && !f->lacks) return;
    const bool is_several = read_rank(l, &own);
    if (is_several) read_local(l, &own);
    f->malformed = own.malformed;
    if (!is_several) return;
    if (before->launcher &&
        (own.lacks || before->rank != p->rank || (before->ranks && before->ranks != p->ranks)))
        return;
    text_addf(&own.variables, "%s=%d", l->rank, p->rank);
    if (l->ranks) text_addf(&own.variables, " %s=%d", l->ranks, p->ranks);
    text_clear(&f->variables);
    *f = own;
}

// The length of the host in "host:port".
static size_t host_bytes(const char *address)
{
    const char *colon = strrchr(address, ':');
    return colon ? (size_t)(colon - address) : strlen(address);
}

// Adds the tasks of one kind, which are ranks in their order. `mine` is the address of this process; NULL: it is not
// known yet.
static void add_tasks(const json_t *tasks, const char *mine, launcher_location *p)
{
    for (size_t i = 0; i < json_array_size(tasks); i++) {
        const char *address = json_string_value(json_array_get(tasks, i));
        if (address && host_bytes(address) == host_bytes(mine) &&
            memcmp(address, mine, host_bytes(mine)) == 0) {
            if (p->ranks < p->rank) p->local_rank++;
            p->local_ranks++;
        }
        p->ranks++;
    }
}

// {"cluster": {"worker": ["host:port", ...], "chief": [...], ...}, "task": {"type": "worker", "index": 0}}
static void read_cluster(const json_t *root, launcher_match *f)
{
    const json_t *cluster = json_object_get(root, "cluster"), *task = json_object_get(root, "task");
    const json_t *chief = json_object_get(cluster, "chief");
    const json_t *worker = json_object_get(cluster, "worker");
    const char *type = json_string_value(json_object_get(task, "type"));
    const json_t *index = json_object_get(task, "index");
    const bool is_worker = type && strcmp(type, "worker") == 0;
    const bool is_chief = type && strcmp(type, "chief") == 0;
    const json_t *own = is_chief ? chief : is_worker ? worker : NULL;
    const char *mine = json_string_value(json_array_get(own, (size_t)json_integer_value(index)));
    const char *first =
        json_string_value(json_array_get(json_array_size(chief) ? chief : worker, 0));
    launcher_location *p = &f->location;
    if (json_object_get(cluster, "ps")) f->lacks = "a cluster without the tasks ps";
    if (!mine || !first || !json_is_integer(index))
        f->lacks = "the task of this process, a chief or worker of the lists";
    if (f->lacks) return;
    p->starts = 1;
    p->rank = (int)json_integer_value(index) + (is_worker ? (int)json_array_size(chief) : 0);
    add_tasks(chief, mine, p);
    add_tasks(worker, mine, p);
    snprintf(p->run, sizeof p->run, "TF_CONFIG %d tasks from %s", p->ranks, first);
    strcpy(p->identity, p->run);
    snprintf(p->rendezvous.host, sizeof p->rendezvous.host, "%s", first);
}

static status read_tensorflow(launcher_match *f, err *e)
{
    status result = OK;
    const char *given = getenv("TF_CONFIG"), *kind;
    json_t *tasks;
    size_t count = 0;
    if (!given || !*given || f->location.launcher) return OK;
    json_t *root = json_loads(given, 0, NULL);
    if (!root)
        FAIL(E_USAGE, "TF_CONFIG: it is not valid JSON; valid: unset, or TensorFlow's format");
    json_object_foreach(json_object_get(root, "cluster"), kind, tasks)
    {
        count += json_is_object(tasks) ? json_object_size(tasks) : json_array_size(tasks);
    }
    if (count <= 1) goto done;
    f->location.launcher = f->unset = "TF_CONFIG";
    text_addf(&f->variables, "TF_CONFIG with %zu tasks", count);
    read_cluster(root, f);
done:
    json_decref(root);
    return result;
}

// SM_HOSTS is a list of hosts, each with one process, which starts a rank for each GPU. The first one is where they meet.
static void read_sagemaker(launcher_match *f)
{
    const char *hosts = value_of("SM_HOSTS"), *own = value_of("SM_CURRENT_HOST");
    json_t *list = hosts && !f->location.launcher ? json_loads(hosts, 0, NULL) : NULL;
    const int count = (int)json_array_size(list);
    int gpus = 0;
    if (count > 1) {
        launcher_location *p = &f->location;
        const int each = read_number(f, "SM_NUM_GPUS", &gpus) && gpus > 0 ? gpus : 1;
        const char *first = json_string_value(json_array_get(list, 0));
        *p = (launcher_location){
            .launcher = "SageMaker", .ranks = count * each, .local_ranks = each, .starts = each};
        f->unset = "SM_HOSTS";
        f->lacks = "SM_CURRENT_HOST";
        for (int i = 0; i < count && own; i++) {
            const char *name = json_string_value(json_array_get(list, (size_t)i));
            if (!name || strcmp(name, own) != 0) continue;
            p->rank = i * each;
            f->lacks = NULL;
        }
        snprintf(p->run, sizeof p->run, "SageMaker %s", hosts);
        snprintf(p->identity, sizeof p->identity, "SageMaker %s", own ? own : "");
        snprintf(p->rendezvous.host, sizeof p->rendezvous.host, "%s", first ? first : "");
        text_addf(&f->variables, "SM_HOSTS with %d hosts", count);
    }
    json_decref(list);
}

static status find(launcher_match *out, err *e)
{
    status result = OK;
    *out = (launcher_match){.lacks = NULL};
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) read_row(&ROWS[i], out);
    TRY(read_tensorflow(out, e));
    read_sagemaker(out);
    if (out->malformed)
        FAIL(E_USAGE,
             "%s: found %s; valid: a whole number, as launchers set it (or unset %s, if no "
             "launcher has started this process)",
             out->malformed, getenv(out->malformed), out->malformed);
done:
    return result;
}

static status check_location(const launcher_match *f, err *e)
{
    const launcher_location *p = &f->location;
    if (f->lacks)
        return err_set(
            e, E_USAGE,
            "%s: %s has started several processes, but does not tell %s; valid: rank, size, "
            "local rank and local size (or unset %s, if every process has a job of its own)",
            f->variables.chars, p->launcher, f->lacks, f->unset);
    if (p->rank >= p->ranks || p->local_rank >= p->local_ranks || p->local_ranks > p->ranks ||
        p->rank < p->local_rank)
        return err_set(e, E_USAGE, "%s: local rank %d of %d; valid: ranks below the sizes",
                       f->variables.chars, p->local_rank, p->local_ranks);
    return OK;
}

static status read_deadline(int64_t *out, err *e)
{
    const char *given = getenv(DEADLINE_VARIABLE);
    *out = DEADLINE_DEFAULT_MS;
    if (!given || !*given || (text_to_duration_ms(given, out) && *out > 0 && *out <= INT32_MAX))
        return OK;
    return err_set(e, E_USAGE, DEADLINE_VARIABLE ": found %s; valid: a duration, such as 30s or 5m",
                   given);
}

status launcher_find(launcher_location *out, err *e)
{
    status result = OK;
    launcher_match f;
    TRY(find(&f, e));
    if (f.location.launcher) TRY(check_location(&f, e));
    if (f.location.launcher) TRY(read_deadline(&f.location.deadline_ms, e));
    if (f.location.local_ranks < f.location.ranks) {
        result = launcher_find_rendezvous(&f.location, e);
        if (result != OK) err_prefix(e, "%s: ", f.variables.chars);
    }
    *out = f.location;
    if (f.location.launcher) starter_find(&out->starter);
done:
    text_clear(&f.variables);
    return result;
}

status launcher_check(err *e)
{
    status result = OK;
    launcher_match f;
    TRY(find(&f, e));
    if (f.location.launcher)
        FAIL(E_USAGE,
             "%s: %s has started several processes, and each would run the full job; valid: start "
             "it once, because it starts all ranks itself (or unset %s, if every process has a job "
             "of its own)",
             f.variables.chars, f.location.launcher, f.unset);
done:
    text_clear(&f.variables);
    return result;
}
