// join.c -- see join.h. On other hosts the process of the first rank receives what rank 0 has decided, and passes it to
// those of its host. So what differs between processes, such as the memory that was free when they looked, changes nothing.
#include "session/join.h"

#include "base/file.h"
#include "base/json.h"
#include "rendezvous/hosts.h"
#include "rendezvous/peers.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

// Begins the message of rank 0, and that of the first rank of another host to those of its host. Behind it stand the job
// as YAML with its final 0 (no byte: there is no job), and the data.
typedef struct join_header {
    // Of this host, at one address in all of its processes. NULL: nothing is recorded.
    comm_recorder *recorder;
    uint64_t yaml_bytes, data_bytes;
    bool records;
} join_header;

status join_open(session_join *c, int argc, char **argv, err *e)
{
    status result = OK;
    *c = (session_join){.first_rank = -1};
    for (int i = 0; i < argc; i++) text_add_bytes(&c->line, argv[i], strlen(argv[i]) + 1);
    TRY(text_check(&c->line, e));
    TRY(launcher_find(&c->location, e));
    c->own = (job_own){.launcher = c->location.launcher,
                       .ranks = c->location.ranks,
                       .local_ranks = c->location.local_ranks};
done:
    return result;
}

status join_attach(session_join *c, err *e)
{
    return c->location.launcher ? launch_attach(&c->location, TRIREME_VERSION, &c->world, e) : OK;
}

status join_part(const session_join *c, int ranks, int number, session_join *out, bool *takes_part,
                 err *e)
{
    status result = OK;
    char word[32];
    *out = (session_join){.location = c->location, .own = c->own, .first_rank = -1};
    launcher_location *p = &out->location;
    *takes_part = !p->launcher || p->rank < ranks;
    text_add_bytes(&out->line, c->line.chars, c->line.bytes);
    TRY(text_check(&out->line, e));
    if (!p->launcher || !*takes_part) goto done;
    const int here = ranks - (p->rank - p->local_rank);
    if (p->local_ranks > here) p->local_ranks = here;
    if (p->starts > here) p->starts = here;
    p->ranks = out->own.ranks = ranks;
    out->own.local_ranks = p->local_ranks;
    // The processes are there, and may be busy with an earlier part for long.
    p->deadline_ms = INT32_MAX;
    snprintf(word, sizeof word, " part %d", number);
    strncat(p->run, word, sizeof p->run - strlen(p->run) - 1);
    strncat(p->identity, word, sizeof p->identity - strlen(p->identity) - 1);
    TRY(join_attach(out, e));
done:
    return result;
}

bool join_follows(const session_join *c)
{
    return c->location.rank > 0;
}

// Gives the other processes of this host a message. j may be NULL.
static status broadcast_local(world *w, const job *j, void *message, size_t bytes, err *e)
{
    status result = OK;
    join_header *head = message;
    if (j && head->records)
        TRY(comm_recorder_open(w, (int)j->checks.record_calls, j->checks.desync, e));
    if (j) comm_watchdog_set(w->watchdog, j->checks.watchdog_ms);
    head->recorder = w->last_calls.recorder;
    if (w->peers) TRY(comm_peers_broadcast(w, message, bytes, e));
done:
    return result;
}

status join_broadcast(const session_join *c, const job *j, bool records, const void *data,
                      size_t bytes, err *e)
{
    status result = OK;
    text yaml = {0}, all = {0};
    world *w = c->world;
    if (!w) return OK;
    if (j) job_write_yaml(j, &yaml);
    TRY(text_check(&yaml, e));
    const join_header head = {
        .yaml_bytes = j ? yaml.bytes + 1 : 0, .data_bytes = bytes, .records = records};
    text_add_bytes(&all, (const char *)&head, sizeof head);
    if (j) text_add_bytes(&all, yaml.chars, yaml.bytes + 1);
    text_add_bytes(&all, data, bytes);
    TRY(text_check(&all, e));
    if (w->hosts) TRY(comm_hosts_broadcast(w, all.chars, all.bytes, e));
    TRY(broadcast_local(w, j, all.chars, all.bytes, e));
done:
    text_clear(&yaml);
    text_clear(&all);
    return result;
}

// Opens a message. Another host may have sent the bytes.
static status take(const session_join *c, const void *message, size_t bytes, job **j, text *data,
                   err *e)
{
    status result = OK;
    job_own own = c->own;
    const join_header *head = message;
    char *yaml = (char *)(head + 1);
    if (bytes < sizeof *head || head->yaml_bytes > bytes - sizeof *head ||
        head->data_bytes != bytes - sizeof *head - head->yaml_bytes ||
        (head->yaml_bytes && yaml[head->yaml_bytes - 1] != 0))
        FAIL(E_IO, "what rank 0 has sent (%zu bytes) is damaged", bytes);
    text_add_bytes(data, yaml + head->yaml_bytes, head->data_bytes);
    TRY(text_check(data, e));
    if (!head->yaml_bytes) goto done;
    job_call call = {.kind = JOB_CALL_YAML, .text = yaml};
    own.by_calls = true;
    own.call = &call;
    own.calls = 1;
    TRY(job_open_own(NULL, 0, NULL, &own, j, e));
    (*j)->own = c->own; // the call lies on the stack
    (*j)->quiet = true;
done:
    return result;
}

status join_receive(const session_join *c, join_opens *opens, void *arg, job **j, text *data,
                    err *e)
{
    status result = OK;
    world *w = c->world;
    void *remote = NULL;
    const void *message;
    size_t bytes;
    *j = NULL;
    if (w->first == 0) {
        TRY(comm_hosts_receive(w, &remote, &bytes, e));
        message = remote;
    } else {
        TRY(comm_peers_receive(w, &message, &bytes, e));
        comm_recorder_use(w, ((const join_header *)message)->recorder);
    }
    TRY(take(c, message, bytes, j, data, e));
    if (opens && *j) TRY(opens(arg, *j, data, e));
    if (remote) TRY(broadcast_local(w, *j, remote, bytes, e));
done:
    free(remote);
    return result;
}

typedef struct follower {
    const session_join *join;
    const session_model_names *names; // NULL: the job's
    session_inputs *in;
} follower;

static status open_inputs(void *arg, job *j, const text *line, err *e)
{
    status result = OK;
    const follower *f = arg;
    const text *own = &f->join->line;
    if (line->bytes != own->bytes || memcmp(line->chars, own->chars, own->bytes) != 0)
        FAIL(E_USAGE,
             "%s: this process and that of rank 0 have different arguments; valid: the same ones "
             "for all",
             own->chars);
    if (f->names) TRY(session_use_model(j, f->names, e));
    if (f->in) TRY(session_inputs_open_to_plan(j, NULL, f->in, e));
done:
    return result;
}

status join_same(const session_join *c, const session_model_names *names, job **j,
                 session_inputs *in, err *e)
{
    status result = OK;
    text line = {0};
    job *received = NULL;
    follower f = {.join = c, .names = names, .in = in};
    if (!join_follows(c))
        return join_broadcast(c, j ? *j : NULL, false, c->line.chars, c->line.bytes, e);
    TRY(join_receive(c, open_inputs, &f, &received, &line, e));
    if (!received) TRY(open_inputs(&f, NULL, &line, e));
    if (j) *j = received, received = NULL;
done:
    job_close(received);
    text_clear(&line);
    return result;
}

status join_run(session_join *c, const launch_options *o, launch_rank_main fn, void *arg, err *e)
{
    launch_options own = *o;
    own.attached = c->world;
    own.starter = c->location.starter;
    c->has_run = true;
    return launch_ranks(&own, fn, arg, &c->first_rank, e);
}

status join_fail(session_join *c, status result, err *e)
{
    if (result == OK || !c->world || c->has_run) return result;
    c->has_run = true;
    return launch_fail(c->world, &c->first_rank, e);
}

// Writes the file in which launchers look for the message of a failed process, in PyTorch's format, with the rank that
// the message is of. A file that cannot be written must not hide the failure.
static void write_launcher_file(const session_join *c, const err *why)
{
    const char *path = getenv("TORCHELASTIC_ERROR_FILE");
    char when[24];
    if (!path || !*path) return;
    snprintf(when, sizeof when, "%lld", (long long)time(NULL));
    json_t *root = json_pack("{s:{s:o,s:{s:s}},s:i}", "message", "message", json_of_text(why->text),
                             "extraInfo", "timestamp", when, "rank", c->first_rank);
    char *chars = root ? json_dumps(root, JSON_COMPACT) : NULL;
    if (chars) (void)file_replace(path, chars, strlen(chars), NULL);
    free(chars);
    json_decref(root);
}

void join_close(session_join *c)
{
    world_close(c->world);
    text_clear(&c->line);
    c->world = NULL;
}

status join_end(session_join *c, status result, err *e)
{
    result = join_fail(c, result, e);
    join_close(c);
    if (result != OK && result != E_INTERRUPTED) write_launcher_file(c, e);
    return result;
}
