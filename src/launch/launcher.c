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
    const char *host; // the number of the node, where it tells one
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
     {"MASTER_PORT", "MASTER_ADDR", "TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_RUN_ID"}},
    {"mpirun (Open MPI)",
     "OMPI_COMM_WORLD_RANK",
     "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE",
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
     {"PMI_JOBID", "MPICH_JOBID"}},
    {"mpiexec (MVAPICH)",
     "MV2_COMM_WORLD_RANK",
     "MV2_COMM_WORLD_SIZE",
     "MV2_COMM_WORLD_LOCAL_RANK",
     "MV2_COMM_WORLD_LOCAL_SIZE",
     NULL,
     NULL,
     {"MPIRUN_ID"}},
    {"a launcher with PMIx", "PMIX_RANK", NULL, NULL, NULL, NULL, NULL, {NULL}},
    // Not SLURM_NTASKS: a batch script, which runs once, has it too.
    {"srun",
     "SLURM_PROCID",
     "SLURM_STEP_NUM_TASKS",
     "SLURM_LOCALID",
     "SLURM_STEP_TASKS_PER_NODE",
     "SLURM_NODEID",
     "SLURM_NODEID",
     {"SLURM_JOB_ID", "SLURM_STEP_ID"}},
    {"srun", "SLURM_PROCID", NULL, NULL, NULL, NULL, NULL, {NULL}},
};

// What the variables say of this process.
typedef struct launcher_found {
    launcher_place
        place; // launcher NULL: nothing; ranks 0: there are several, and it is not known how many
    text variables;    // "RANK=1 WORLD_SIZE=2"
    const char *unset; // without this variable the process is alone
    const char *lacks; // what is not set or not valid, and is needed to attach; NULL: nothing
} launcher_found;

static bool read_number(const char *variable, int64_t most, int *out)
{
    const char *value = variable ? getenv(variable) : NULL;
    int64_t number;
    if (!value || !text_to_count(value, &number) || number > most) return false;
    *out = (int)number;
    return true;
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
    const char *value = name ? getenv(name) : NULL;
    const size_t bytes = strlen(identity);
    if (value && *value)
        snprintf(identity + bytes, LAUNCHER_IDENTITY_BYTES - bytes, " %s=%s", name, value);
}

static void add_identity(const launcher_row *l, launcher_place *p)
{
    snprintf(p->run, sizeof p->run, "%s", l->name);
    for (int i = 0; i < IDENTITIES; i++) add_variable(l->identity[i], p->run);
    strcpy(p->identity, p->run);
    const size_t bytes = strlen(p->identity);
    if (strcmp(p->run, l->name) == 0)
        snprintf(p->identity + bytes, sizeof p->identity - bytes, " parent process %d",
                 (int)getppid());
    if (p->local_ranks != p->ranks) add_variable(l->host, p->identity);
}

static void read_local(const launcher_row *l, launcher_found *f)
{
    launcher_place *p = &f->place;
    int node = 0;
    f->lacks = NULL;
    if (!l->ranks)
        f->lacks = "the number of processes";
    else if (!read_number(l->local_rank, INT32_MAX, &p->local_rank))
        f->lacks = l->local_rank;
    else if (l->node && read_number(l->node, INT32_MAX, &node) &&
             !read_list(l->local_ranks, node, &p->local_ranks))
        f->lacks = l->local_ranks;
    else if (!l->node && !read_number(l->local_ranks, INT32_MAX, &p->local_ranks))
        f->lacks = l->local_ranks;
    else if (l->node && !getenv(l->node))
        f->lacks = l->node;
    else
        add_identity(l, p);
}

// Fills f where the variables of the row say that there are several processes. Where an earlier row has said so
// without all that is needed, as PMI's under srun, only a complete row of the same process counts.
static void read_row(const launcher_row *l, launcher_found *f)
{
    launcher_found own = {.place.launcher = l->name, .unset = l->ranks ? l->ranks : l->rank};
    const launcher_place *before = &f->place;
    launcher_place *p = &own.place;
    if (before->launcher && !f->lacks) return;
    if (!read_number(l->rank, INT32_MAX, &p->rank)) return;
    if (l->ranks ? !read_number(l->ranks, INT32_MAX, &p->ranks) || p->ranks <= 1 : p->rank <= 0)
        return;
    read_local(l, &own);
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
static void add_tasks(const json_t *tasks, const char *mine, launcher_place *p)
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
static void read_cluster(const json_t *root, launcher_found *f)
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
    launcher_place *p = &f->place;
    if (json_object_get(cluster, "ps")) f->lacks = "a cluster without the tasks ps";
    if (!mine || !first || !json_is_integer(index))
        f->lacks = "the task of this process, a chief or worker of the lists";
    if (f->lacks) return;
    p->rank = (int)json_integer_value(index) + (is_worker ? (int)json_array_size(chief) : 0);
    add_tasks(chief, mine, p);
    add_tasks(worker, mine, p);
    snprintf(p->run, sizeof p->run, "TF_CONFIG %d tasks from %s", p->ranks, first);
    strcpy(p->identity, p->run);
    snprintf(p->meeting.host, sizeof p->meeting.host, "%s", first);
}

static status read_tensorflow(launcher_found *f, err *e)
{
    status result = OK;
    const char *given = getenv("TF_CONFIG"), *kind;
    json_t *tasks;
    size_t count = 0;
    if (!given || !*given || f->place.launcher) return OK;
    json_t *root = json_loads(given, 0, NULL);
    if (!root)
        FAIL(E_USAGE, "TF_CONFIG: it is not valid JSON; valid: unset, or TensorFlow's format");
    json_object_foreach(json_object_get(root, "cluster"), kind, tasks)
    {
        count += json_is_object(tasks) ? json_object_size(tasks) : json_array_size(tasks);
    }
    if (count <= 1) goto done;
    f->place.launcher = f->unset = "TF_CONFIG";
    text_addf(&f->variables, "TF_CONFIG with %zu tasks", count);
    read_cluster(root, f);
done:
    json_decref(root);
    return result;
}

// SM_HOSTS is a list of hosts, each with one process.
static void read_sagemaker(launcher_found *f)
{
    const char *hosts = getenv("SM_HOSTS"), *own = getenv("SM_CURRENT_HOST");
    json_t *list = hosts && !f->place.launcher ? json_loads(hosts, 0, NULL) : NULL;
    const int ranks = (int)json_array_size(list);
    if (ranks > 1) {
        launcher_place *p = &f->place;
        *p = (launcher_place){.launcher = "SageMaker", .ranks = ranks, .local_ranks = 1};
        f->unset = "SM_HOSTS";
        f->lacks = "SM_CURRENT_HOST";
        for (int i = 0; i < ranks && own; i++) {
            const char *name = json_string_value(json_array_get(list, (size_t)i));
            if (!name || strcmp(name, own) != 0) continue;
            p->rank = i;
            f->lacks = NULL;
        }
        snprintf(p->run, sizeof p->run, "SageMaker %s", hosts);
        snprintf(p->identity, sizeof p->identity, "SageMaker %s", own ? own : "");
        text_addf(&f->variables, "SM_HOSTS with %d hosts", ranks);
    }
    json_decref(list);
}

static status find(launcher_found *out, err *e)
{
    status result = OK;
    *out = (launcher_found){.lacks = NULL};
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) read_row(&ROWS[i], out);
    TRY(read_tensorflow(out, e));
    read_sagemaker(out);
done:
    return result;
}

static status check_place(const launcher_found *f, err *e)
{
    const launcher_place *p = &f->place;
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

status launcher_find(launcher_place *out, err *e)
{
    status result = OK;
    launcher_found f;
    TRY(find(&f, e));
    if (f.place.launcher) TRY(check_place(&f, e));
    if (f.place.launcher) TRY(read_deadline(&f.place.deadline_ms, e));
    if (f.place.local_ranks < f.place.ranks) {
        result = launcher_find_meeting(&f.place, e);
        if (result != OK) err_prefix(e, "%s: ", f.variables.chars);
    }
    *out = f.place;
    if (f.place.launcher) starter_find(&out->starter);
done:
    text_clear(&f.variables);
    return result;
}

status launcher_check(err *e)
{
    status result = OK;
    launcher_found f;
    TRY(find(&f, e));
    if (f.place.launcher)
        FAIL(E_USAGE,
             "%s: %s has started several processes, and each would run the full job; valid: start "
             "it once, because it starts all ranks itself (or unset %s, if every process has a job "
             "of its own)",
             f.variables.chars, f.place.launcher, f.unset);
done:
    text_clear(&f.variables);
    return result;
}
