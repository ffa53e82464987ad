// agent_environment.c -- see agent_environment.h.
#define _GNU_SOURCE // environ
#include "launch/agent_environment.h"

#include "base/alloc.h"
#include "launch/launcher.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char PREFIX[] = "[${role_name}${local_rank}]:";
enum { WORD_BYTES = 64 };

// A name that stands for a value, "${rank}" for example.
typedef struct macro {
    const char *name;
    char value[WORD_BYTES];
} macro;

static void expand(const char *pattern, const macro *m, int count, text *out)
{
    for (const char *next = pattern; *next;) {
        int found = 0;
        while (found < count && strncmp(next, m[found].name, strlen(m[found].name)) != 0) found++;
        if (found < count) {
            text_add(out, m[found].value);
            next += strlen(m[found].name);
        } else {
            text_add_bytes(out, next++, 1);
        }
    }
}

void agent_environment_prefix(const agent_options *o, const agent_round *r, int local,
                              char out[PREFIX_BYTES])
{
    macro m[] = {{.name = "${role_name}"}, {.name = "${local_rank}"}, {.name = "${rank}"}};
    text line = {0};
    snprintf(m[0].value, WORD_BYTES, "%.*s", TEXT_CUT(o->role, WORD_BYTES - 1));
    snprintf(m[1].value, WORD_BYTES, "%d", local);
    snprintf(m[2].value, WORD_BYTES, "%d", r->first_rank + local);
    expand(o->logs.prefix ? o->logs.prefix : PREFIX, m, sizeof m / sizeof *m, &line);
    const char *chars = line.chars ? line.chars : "";
    snprintf(out, PREFIX_BYTES, "%.*s", TEXT_CUT(chars, PREFIX_BYTES - 1));
    text_clear(&line);
}

status agent_environment_program(char *const *program, int local, char ***out, err *e)
{
    status result = OK;
    size_t count = 0;
    macro m = {.name = "${local_rank}"};
    snprintf(m.value, WORD_BYTES, "%d", local);
    while (program[count]) count++;
    TRY(alloc_zeroed(out, count + 1, sizeof **out, "the arguments of a worker", e));
    for (size_t i = 0; i < count; i++) {
        text word = {0};
        text_add(&word, "");
        expand(program[i], &m, 1, &word);
        TRY(text_take(&word, &(*out)[i], e));
    }
done:
    return result;
}

void agent_environment_program_free(char **program)
{
    for (char **word = program; word && *word; word++) free(*word);
    free(program);
}

// Sets the variables that tell a worker its rank.
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
    // DeepSpeed's names
    TRY(worker_env_set(v, e, "CROSS_RANK", "%d", r->node));
    TRY(worker_env_set(v, e, "CROSS_SIZE", "%d", r->nodes));
    TRY(worker_env_set(v, e, "LOCAL_SIZE", "%d", w->options->workers));
done:
    return result;
}

// Adds the address of the workers' rendezvous, and what PyTorch's own modules read.
static status set_rendezvous(const agent_workers *w, int local, worker_env *v, err *e)
{
    status result = OK;
    const agent_options *o = w->options;
    TRY(worker_env_set(v, e, "MASTER_ADDR", "%s", w->round->master));
    TRY(worker_env_set(v, e, "MASTER_PORT", "%d", w->round->master_port));
    TRY(worker_env_set(v, e, "TORCHELASTIC_RESTART_COUNT", "%d", w->round->restarts));
    TRY(worker_env_set(v, e, "TORCHELASTIC_MAX_RESTARTS", "%d", o->max_restarts));
    TRY(worker_env_set(v, e, "TORCHELASTIC_RUN_ID", "%s", o->rendezvous.id));
    TRY(worker_env_set(v, e, LAUNCHER_RUN_VARIABLE, "%s", o->rendezvous.id));
    // PyTorch's store is that of rank 0: the agents' store is Trireme's.
    TRY(worker_env_set(v, e, "TORCHELASTIC_USE_AGENT_STORE", "False"));
    TRY(worker_env_set(v, e, GUARD_VARIABLE, "%s", w->guard->mark));
    TRY(worker_env_set(v, e, "TORCHELASTIC_ERROR_FILE", "%s", w->workers[local].error_file));
    if (!getenv("TORCH_NCCL_ASYNC_ERROR_HANDLING"))
        TRY(worker_env_set(v, e, "TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"));
    if (o->python) TRY(worker_env_set(v, e, "PYTHON_EXEC", "%s", o->python));
    if (o->rendezvous.secret_file)
        TRY(worker_env_set(v, e, "TRIREME_SECRET_FILE", "%s", o->rendezvous.secret_file));
    if (o->threads && !getenv("OMP_NUM_THREADS"))
        TRY(worker_env_set(v, e, "OMP_NUM_THREADS", "%d", o->threads));
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
    TRY(set_rendezvous(w, local, out, e));
    if (w->options->own_gpu) TRY(set_own_gpu(local, out, e));
done:
    return result;
}
