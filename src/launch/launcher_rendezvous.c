// launcher_rendezvous.c -- where the hosts of a run meet, from the environment of its launcher. See launcher.h.
#include "launch/launcher.h"

#include "base/text.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Ports that follow from a job's number lie below those that the system gives to connections.
enum { PORT = 29500, LAST_PORT = 65535, SLURM_PORT = 10000, SLURM_PORTS = 20000, STEPS = 7919 };

static const char *variable(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

static int64_t number(const char *name)
{
    int64_t out = 0;
    const char *value = variable(name);
    return value && text_to_count(value, &out) ? out : 0;
}

// Writes the first host of a list as Slurm writes them: "node[07-09,12],login", "node-a.b", "rack[1-2]n[3-4]".
static bool first_host(const char *list, char out[NET_HOST_BYTES])
{
    size_t bytes = 0;
    for (const char *c = list; *c && *c != ','; c++) {
        if (*c == '[') {
            c++;
            for (; *c && !strchr("-,]", *c) && bytes < NET_HOST_BYTES - 1; c++) out[bytes++] = *c;
            c += strcspn(c, "]");
            if (!*c) return false;
            continue;
        }
        if (bytes == NET_HOST_BYTES - 1) return false;
        out[bytes++] = *c;
    }
    out[bytes] = 0;
    return bytes > 0;
}

static bool is_srun(const launcher_location *p)
{
    return strcmp(p->launcher, "srun") == 0;
}

// The agent of torchrun may keep a store of its own at MASTER_PORT: the next port is then that of Trireme's.
static status find_port(launcher_location *p, err *e)
{
    const char *given = variable("MASTER_PORT"), *agent = variable("TORCHELASTIC_USE_AGENT_STORE");
    int64_t port = p->rendezvous.port ? p->rendezvous.port : PORT;
    if (!given && is_srun(p))
        port =
            SLURM_PORT + (number("SLURM_JOB_ID") + STEPS * number("SLURM_STEP_ID")) % SLURM_PORTS;
    if (given && (!text_to_count(given, &port) || port < 1 || port > LAST_PORT))
        return err_set(e, E_USAGE, "MASTER_PORT: found %s; valid: 1 to %d", given, LAST_PORT);
    if (agent && strcmp(agent, "True") == 0) port += port < LAST_PORT ? 1 : -1;
    p->rendezvous.port = (int)port;
    return OK;
}

status launcher_find_rendezvous(launcher_location *p, err *e)
{
    status result = OK;
    const char *address = variable("MASTER_ADDR"), *nodes = variable("SLURM_STEP_NODELIST");
    char *host = p->rendezvous.host, task[NET_HOST_BYTES];
    if (!nodes) nodes = variable("SLURM_JOB_NODELIST");
    if (address)
        snprintf(host, NET_HOST_BYTES, "%s", address);
    else if (host[0])
        TRY(net_endpoint_parse(strcpy(task, host), &p->rendezvous, e));
    else if (is_srun(p) && nodes && !first_host(nodes, host))
        FAIL(E_USAGE, "SLURM_JOB_NODELIST: found %s; valid: hosts such as node[1-4]", nodes);
    if (!host[0])
        FAIL(E_USAGE,
             "%s has started processes on several hosts, %d of them here; valid: MASTER_ADDR, the "
             "host of rank 0, and MASTER_PORT, a free port there (mpirun -x, mpiexec -genv)",
             p->launcher, p->local_ranks);
    TRY(find_port(p, e));
done:
    return result;
}
