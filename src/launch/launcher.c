// launcher.c -- refuses to run where another launcher has started several processes of this
// program: each would start all ranks of the job, and all would write into one folder.
//
// Called before a run writes anything. It knows the variables in which launchers put the rank of a
// process, one row each, and not how to join their processes.
#include "launch/launch.h"

#include "base/text.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

typedef struct launch_variables {
    const char *name; // of the launcher
    const char *rank;
    const char *size; // NULL: none; then a rank above 0 shows that there are several
} launch_variables;

static const launch_variables LAUNCHERS[] = {
    {"torchrun", "RANK", "WORLD_SIZE"},
    {"mpirun (Open MPI)", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    {"mpiexec (PMI)", "PMI_RANK", "PMI_SIZE"},
    {"mpiexec (MVAPICH)", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"},
    {"a launcher with PMIx", "PMIX_RANK", NULL},
    // Not SLURM_NTASKS: a batch script, which runs once, has it too.
    {"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"},
    {"srun", "SLURM_PROCID", NULL},
};

static bool read_number(const char *variable, int64_t *out)
{
    const char *value = variable ? getenv(variable) : NULL;
    return value && text_to_count(value, out);
}

static status refuse(const char *what, const char *launcher, const char *variable, err *e)
{
    return err_set(
        e, E_USAGE,
        "%s: %s has started several processes, and each would run the full job; valid: "
        "start it once, because it starts launch.ranks ranks itself (or unset %s, if every "
        "process has a job of its own)",
        what, launcher, variable);
}

static status check_row(const launch_variables *l, err *e)
{
    status result = OK;
    text what = {0};
    int64_t rank = 0, size = 0;
    if (!read_number(l->rank, &rank)) return OK;
    const bool has_size = read_number(l->size, &size);
    if (has_size ? size <= 1 : l->size || rank <= 0) return OK;
    text_addf(&what, "%s=%lld", l->rank, (long long)rank);
    if (has_size) text_addf(&what, " %s=%lld", l->size, (long long)size);
    result = refuse(what.chars, l->name, has_size ? l->size : l->rank, e);
    text_clear(&what);
    return result;
}

// {"cluster": {"worker": ["host:port", ...], "chief": [...], ...}, "task": {...}}
static status check_tensorflow(err *e)
{
    status result = OK;
    const char *given = getenv("TF_CONFIG"), *kind;
    json_t *tasks;
    size_t count = 0;
    if (!given || !*given) return OK;
    json_t *root = json_loads(given, 0, NULL);
    if (!root)
        FAIL(E_USAGE, "TF_CONFIG: it is not valid JSON; valid: unset, or TensorFlow's format");
    json_object_foreach(json_object_get(root, "cluster"), kind, tasks)
    {
        count += json_is_object(tasks) ? json_object_size(tasks) : json_array_size(tasks);
    }
    if (count > 1) {
        char what[64];
        snprintf(what, sizeof what, "TF_CONFIG with %zu tasks", count);
        result = refuse(what, "a cluster of TensorFlow", "TF_CONFIG", e);
    }
done:
    json_decref(root);
    return result;
}

status launcher_check(err *e)
{
    status result = OK;
    for (size_t i = 0; i < sizeof LAUNCHERS / sizeof *LAUNCHERS; i++)
        TRY(check_row(&LAUNCHERS[i], e));
    TRY(check_tensorflow(e));
done:
    return result;
}
