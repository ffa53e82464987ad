// rank_checks.c -- variables by which a launcher tells a process its rank: are they complete, do they agree. The table of this
// room calls the probes. It does not know how a run finds its rank (launch/launcher.c).
#include "doctor/environment/environment.h"

#include "base/json.h"
#include "base/text.h"
#include "doctor/doctor.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct rank_variables {
    const char *launcher, *rank, *ranks;
} rank_variables;

static const rank_variables LAUNCHERS[] = {
    {"torchrun", "RANK", "WORLD_SIZE"},
    {"torchrun", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    {"PMI", "PMI_RANK", "PMI_SIZE"},
    {"MVAPICH", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"},
    {"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"},
};
enum { LAUNCHER_COUNT = sizeof LAUNCHERS / sizeof *LAUNCHERS };

// A rank is one of 0 to ranks - 1, and comes with the number of ranks.
static status look_at_pair(const doctor_context *c, doctor_findings *out, const rank_variables *l,
                           err *e)
{
    status result = OK;
    const char *rank, *ranks;
    int64_t number, count;
    text problem = {0};
    const bool has_rank = environment_is_set(c, l->rank, &rank);
    const bool has_ranks = environment_is_set(c, l->ranks, &ranks);
    if (!has_rank) return OK;
    if (!has_ranks && strcmp(l->rank, "SLURM_PROCID") == 0) return OK;
    if (!has_ranks)
        text_addf(&problem, "%s=%s is set without %s", l->rank, rank, l->ranks);
    else if (!environment_number(c, l->rank, &number) || !environment_number(c, l->ranks, &count))
        text_addf(&problem, "%s=%s of %s=%s: not both are whole numbers", l->rank, rank, l->ranks,
                  ranks);
    else if (number >= count)
        text_addf(&problem, "%s=%s is no rank of %s=%s", l->rank, rank, l->ranks, ranks);
    TRY(text_check(&problem, e));
    if (problem.bytes) doctor_find(out, "where", l->rank, "problem", problem.chars, NULL);
done:
    text_clear(&problem);
    return result;
}

status environment_probe_ranks(const doctor_context *c, doctor_findings *out, err *e)
{
    status result = OK;
    for (int i = 0; i < LAUNCHER_COUNT; i++) TRY(look_at_pair(c, out, &LAUNCHERS[i], e));
done:
    return result;
}

status environment_probe_master(const doctor_context *c, doctor_findings *out, err *e)
{
    (void)e;
    const char *address, *port;
    const bool has_address = environment_is_set(c, "MASTER_ADDR", &address);
    const bool has_port = environment_is_set(c, "MASTER_PORT", &port);
    if (has_address == has_port) return OK;
    doctor_find(out, "where", has_address ? "MASTER_ADDR" : "MASTER_PORT", "value",
                has_address ? address : port, "other", has_address ? "MASTER_PORT" : "MASTER_ADDR",
                NULL);
    return OK;
}

// srun or mpirun starts several tasks on this host, and a launcher in each starts several processes more.
status environment_probe_twice(const doctor_context *c, doctor_findings *out, err *e)
{
    (void)e;
    static const rank_variables outer[] = {
        {"srun", "SLURM_STEP_TASKS_PER_NODE", NULL},
        {"mpirun", "OMPI_COMM_WORLD_LOCAL_SIZE", NULL},
        {"mpiexec", "MPI_LOCALNRANKS", NULL},
    };
    int64_t workers;
    const char *value;
    char tasks[24], processes[24];
    if (!environment_number(c, "LOCAL_WORLD_SIZE", &workers) || workers < 2) return OK;
    for (size_t i = 0; i < sizeof outer / sizeof *outer; i++) {
        if (!environment_is_set(c, outer[i].rank, &value) || atoi(value) < 2) continue;
        snprintf(tasks, sizeof tasks, "%d", atoi(value));
        snprintf(processes, sizeof processes, "%" PRId64, workers);
        doctor_find(out, "where", outer[i].launcher, "tasks", tasks, "workers", processes, NULL);
    }
    return OK;
}

// Two launchers that count other numbers of ranks.
status environment_probe_launchers(const doctor_context *c, doctor_findings *out, err *e)
{
    (void)e;
    const rank_variables *first = NULL;
    int64_t count, before = 0;
    char counted[24], earlier[24];
    for (int i = 0; i < LAUNCHER_COUNT; i++) {
        const rank_variables *l = &LAUNCHERS[i];
        if (strcmp(l->rank, "LOCAL_RANK") == 0 || !environment_number(c, l->ranks, &count))
            continue;
        if (first && count != before) {
            snprintf(counted, sizeof counted, "%" PRId64, count);
            snprintf(earlier, sizeof earlier, "%" PRId64, before);
            doctor_find(out, "where", l->ranks, "value", counted, "other", first->ranks, "before",
                        earlier, NULL);
            return OK;
        }
        first = l;
        before = count;
    }
    return OK;
}

static const char *judge_tf_config(const json_t *j)
{
    const json_t *cluster = json_object_get(j, "cluster"), *task = json_object_get(j, "task");
    const char *type = json_string_value(json_object_get(task, "type"));
    const json_t *index = json_object_get(task, "index");
    if (!json_is_object(cluster)) return "has no object \"cluster\"";
    if (!type || !json_is_integer(index)) return "has no \"task\" with \"type\" and \"index\"";
    const json_t *hosts = json_object_get(cluster, type);
    if (!json_is_array(hosts)) return "has no list of hosts for the type of its task";
    if (json_integer_value(index) < 0 ||
        (size_t)json_integer_value(index) >= json_array_size(hosts))
        return "has an index of its task that is no host of the list";
    return NULL;
}

status environment_probe_tf_config(const doctor_context *c, doctor_findings *out, err *e)
{
    (void)e;
    const char *value;
    json_error_t wrong;
    if (!environment_is_set(c, "TF_CONFIG", &value)) return OK;
    json_t *j = json_loads(value, 0, &wrong);
    const char *problem = json_is_object(j) ? judge_tf_config(j) : "is no object of JSON";
    if (problem) doctor_find(out, "where", "TF_CONFIG", "problem", problem, NULL);
    json_decref(j);
    return OK;
}

// A shell in which RANK was exported makes each program wait for other ranks.
status environment_probe_left_over(const doctor_context *c, doctor_findings *out, err *e)
{
    (void)e;
    int64_t rank, ranks;
    const char *value;
    char number[24], count[24];
    if (!environment_number(c, "RANK", &rank) || !environment_number(c, "WORLD_SIZE", &ranks) ||
        ranks < 2 || environment_is_set(c, "TORCHELASTIC_RUN_ID", &value) ||
        environment_is_set(c, "LOCAL_RANK", &value))
        return OK;
    snprintf(number, sizeof number, "%" PRId64, rank);
    snprintf(count, sizeof count, "%" PRId64, ranks);
    doctor_find(out, "where", "RANK", "rank", number, "ranks", count, NULL);
    return OK;
}
