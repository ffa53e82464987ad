// agent_environment.c -- see agent_environment.h.
#define _GNU_SOURCE // environ
#include "launch/agent_environment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char PREFIX[] = "[${role_name}${local_rank}]:";

void agent_environment_prefix(const agent_options *o, const agent_round *r, int local,
                              char out[PREFIX_BYTES])
{
    const struct {
        const char *name;
        char value[24];
    } numbers[] = {{"${local_rank}", ""}, {"${rank}", ""}};
    char values[2][24];
    text line = {0};
    snprintf(values[0], sizeof values[0], "%d", local);
    snprintf(values[1], sizeof values[1], "%d", r->first_rank + local);
    for (const char *next = o->logs.prefix ? o->logs.prefix : PREFIX; *next;) {
        if (strncmp(next, "${role_name}", 12) == 0) {
            text_add(&line, o->role);
            next += 12;
            continue;
        }
        int found = -1;
        for (int i = 0; i < 2; i++)
            if (strncmp(next, numbers[i].name, strlen(numbers[i].name)) == 0) found = i;
        if (found >= 0) {
            text_add(&line, values[found]);
            next += strlen(numbers[found].name);
        } else {
            text_add_bytes(&line, next++, 1);
        }
    }
    const char *chars = line.chars ? line.chars : "";
    snprintf(out, PREFIX_BYTES, "%.*s", TEXT_CUT(chars, PREFIX_BYTES - 1));
    text_clear(&line);
}

// Who a worker is.
static status set_ranks(const agent_workers *w, int local, worker_env *v, err *e)
{
    status result = OK;
    const agent_round *r = w->round;
    const int rank = r->first_rank + local;
    TRY(worker_env_set(v, e, "LOCAL_RANK", "%d", w->options->own_gpu ? 0 : local));
    TRY(worker_env_set(v, e, "RANK", "%d", rank));
    TRY(worker_env_set(v, e, "GROUP_RANK", "%d", r->node));
    TRY(worker_env_set(v, e, "ROLE_RANK", "%d", rank));
    TRY(worker_env_set(v, e, "ROLE_NAME", "%s", w->options->role));
    TRY(worker_env_set(v, e, "LOCAL_WORLD_SIZE", "%d", w->options->workers));
    TRY(worker_env_set(v, e, "WORLD_SIZE", "%d", r->ranks));
    TRY(worker_env_set(v, e, "GROUP_WORLD_SIZE", "%d", r->nodes));
    TRY(worker_env_set(v, e, "ROLE_WORLD_SIZE", "%d", r->ranks));
done:
    return result;
}

// Where workers meet, and what PyTorch's own modules read.
static status set_meeting(const agent_workers *w, int local, worker_env *v, err *e)
{
    status result = OK;
    const agent_options *o = w->options;
    TRY(worker_env_set(v, e, "MASTER_ADDR", "%s", w->round->master));
    TRY(worker_env_set(v, e, "MASTER_PORT", "%d", w->round->master_port));
    TRY(worker_env_set(v, e, "TORCHELASTIC_RESTART_COUNT", "%d", w->restarts));
    TRY(worker_env_set(v, e, "TORCHELASTIC_MAX_RESTARTS", "%d", o->max_restarts));
    TRY(worker_env_set(v, e, "TORCHELASTIC_RUN_ID", "%s",
                       o->meeting.id[0] ? o->meeting.id : "none"));
    // PyTorch's store is that of rank 0: the agents' store is Trireme's.
    TRY(worker_env_set(v, e, "TORCHELASTIC_USE_AGENT_STORE", "False"));
    TRY(worker_env_set(v, e, "TORCHELASTIC_ERROR_FILE", "%s", w->workers[local].error_file));
    if (!getenv("TORCH_NCCL_ASYNC_ERROR_HANDLING"))
        TRY(worker_env_set(v, e, "TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"));
    if (o->python) TRY(worker_env_set(v, e, "PYTHON_EXEC", "%s", o->python));
    if (o->workers > 1 && !getenv("OMP_NUM_THREADS"))
        TRY(worker_env_set(v, e, "OMP_NUM_THREADS", "1"));
done:
    return result;
}

// The GPU of a worker, of those that the agent may use.
static status set_own_gpu(int local, worker_env *v, err *e)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    if (!visible || !*visible) return worker_env_set(v, e, "CUDA_VISIBLE_DEVICES", "%d", local);
    const char *next = visible;
    for (int i = 0; i < local; i++) {
        next = strchr(next, ',');
        if (!next++)
            return err_set(
                e, E_USAGE,
                "--virtual-local-rank: CUDA_VISIBLE_DEVICES=%s has no GPU for local rank %d",
                visible, local);
    }
    return worker_env_set(v, e, "CUDA_VISIBLE_DEVICES", "%.*s", (int)strcspn(next, ","), next);
}

status agent_environment(const agent_workers *w, int local, worker_env *out, err *e)
{
    status result = OK;
    TRY(worker_env_open(environ, out, e));
    TRY(set_ranks(w, local, out, e));
    TRY(set_meeting(w, local, out, e));
    if (w->options->own_gpu) TRY(set_own_gpu(local, out, e));
done:
    return result;
}
