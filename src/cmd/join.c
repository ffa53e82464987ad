// join.c -- see join.h. On other hosts the process of the first rank hears what rank 0 has decided, and tells those of its
// host. So what differs between processes, such as the memory that was free when they looked, changes nothing. Called by
// the commands whose ranks another launcher may have started.
#include "cmd/join.h"

#include "base/file.h"
#include "cmd/cmd.h"
#include "comm/hosts.h"
#include "comm/peers.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

// What rank 0 tells, and what the first rank of each other host tells those of its host. Behind it stand the job as YAML
// with its final 0 (no byte: there is no job), and the data.
typedef struct told_head {
    // Of this host, at one address in all of its processes. NULL: nothing is recorded.
    comm_recorder *recorder;
    uint64_t yaml_bytes, data_bytes;
    bool records;
} told_head;

status join_open(cmd_join *c, int argc, char **argv, err *e)
{
    status result = OK;
    *c = (cmd_join){.first_rank = -1};
    for (int i = 0; i < argc; i++) text_add_bytes(&c->line, argv[i], strlen(argv[i]) + 1);
    TRY(text_check(&c->line, e));
    TRY(launcher_find(&c->place, e));
    c->own = (job_own){.launcher = c->place.launcher,
                       .ranks = c->place.ranks,
                       .local_ranks = c->place.local_ranks};
done:
    return result;
}

status join_attach(cmd_join *c, err *e)
{
    return c->place.launcher ? launch_attach(&c->place, TRIREME_VERSION, &c->world, e) : OK;
}

status join_part(const cmd_join *c, int ranks, int number, cmd_join *out, bool *takes_part, err *e)
{
    status result = OK;
    char word[32];
    *out = (cmd_join){.place = c->place, .own = c->own, .first_rank = -1};
    launcher_place *p = &out->place;
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

bool join_follows(const cmd_join *c)
{
    return c->place.rank > 0;
}

// Tells the other processes of this host. j may be NULL.
static status tell_here(world *w, const job *j, void *told, size_t bytes, err *e)
{
    status result = OK;
    told_head *head = told;
    if (j && head->records) TRY(world_record(w, (int)j->checks.record_calls, j->checks.desync, e));
    if (j) comm_watchdog_set(w->watchdog, j->checks.watchdog_ms);
    head->recorder = w->recorder;
    if (w->peers) TRY(comm_peers_tell(w, told, bytes, e));
done:
    return result;
}

status join_tell(const cmd_join *c, const job *j, bool records, const void *data, size_t bytes,
                 err *e)
{
    status result = OK;
    text yaml = {0}, all = {0};
    world *w = c->world;
    if (!w) return OK;
    if (j) job_write_yaml(j, &yaml);
    TRY(text_check(&yaml, e));
    const told_head head = {
        .yaml_bytes = j ? yaml.bytes + 1 : 0, .data_bytes = bytes, .records = records};
    text_add_bytes(&all, (const char *)&head, sizeof head);
    if (j) text_add_bytes(&all, yaml.chars, yaml.bytes + 1);
    text_add_bytes(&all, data, bytes);
    TRY(text_check(&all, e));
    if (w->hosts) TRY(comm_hosts_tell(w, all.chars, all.bytes, e));
    TRY(tell_here(w, j, all.chars, all.bytes, e));
done:
    text_clear(&yaml);
    text_clear(&all);
    return result;
}

// Opens what rank 0 has told. Another host may have sent the bytes.
static status take(const cmd_join *c, const void *told, size_t bytes, job **j, text *data, err *e)
{
    status result = OK;
    job_own own = c->own;
    const told_head *head = told;
    char *yaml = (char *)(head + 1);
    if (bytes < sizeof *head || head->yaml_bytes > bytes - sizeof *head ||
        head->data_bytes != bytes - sizeof *head - head->yaml_bytes ||
        (head->yaml_bytes && yaml[head->yaml_bytes - 1] != 0))
        FAIL(E_IO, "what rank 0 tells (%zu bytes) is damaged", bytes);
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

status join_hear(const cmd_join *c, join_opens *opens, void *arg, job **j, text *data, err *e)
{
    status result = OK;
    world *w = c->world;
    void *remote = NULL;
    const void *told;
    size_t bytes;
    *j = NULL;
    if (w->first == 0) {
        TRY(comm_hosts_hear(w, &remote, &bytes, e));
        told = remote;
    } else {
        TRY(comm_peers_hear(w, &told, &bytes, e));
        w->recorder = ((const told_head *)told)->recorder;
    }
    TRY(take(c, told, bytes, j, data, e));
    if (opens && *j) TRY(opens(arg, *j, data, e));
    if (remote) TRY(tell_here(w, *j, remote, bytes, e));
done:
    free(remote);
    return result;
}

// What a process opens that follows.
typedef struct follower {
    const cmd_join *join;
    const char *model; // folder; NULL: the job's
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
    if (f->model) TRY(cmd_use_model(j, f->model, e));
    if (f->in) TRY(session_inputs_open_to_plan(j, f->in, e));
done:
    return result;
}

static status open_same(const follower *f, job **j, err *e)
{
    status result = OK;
    text line = {0};
    job *heard = NULL;
    const cmd_join *c = f->join;
    if (!join_follows(c))
        return join_tell(c, j ? *j : NULL, false, c->line.chars, c->line.bytes, e);
    TRY(join_hear(c, open_inputs, (void *)(uintptr_t)f, &heard, &line, e));
    if (!heard) TRY(open_inputs((void *)(uintptr_t)f, NULL, &line, e));
    if (j) *j = heard, heard = NULL;
done:
    job_close(heard);
    text_clear(&line);
    return result;
}

status join_same(const cmd_join *c, job **j, session_inputs *in, err *e)
{
    const follower f = {.join = c, .in = in};
    return open_same(&f, j, e);
}

status join_open_model(const cmd_join *c, int argc, char **argv, const char *folder, job **j,
                       session_inputs *in, err *e)
{
    status result = OK;
    const follower f = {.join = c, .model = folder, .in = in};
    if (!join_follows(c)) {
        TRY(cmd_open_job_own(argc, argv, &c->own, j, e));
        TRY(cmd_use_model(*j, folder, e));
        TRY(session_inputs_open(*j, in, e));
        cmd_warn(in->warnings.chars);
    }
    TRY(open_same(&f, j, e));
    if (!in->valid) {
        in->valid = in->train;
        in->train = NULL;
    }
done:
    return result;
}

status join_run(cmd_join *c, const launch_options *o, launch_rank_main fn, void *arg, err *e)
{
    launch_options own = *o;
    own.attached = c->world;
    own.starter = c->place.starter;
    c->has_run = true;
    return launch_ranks(&own, fn, arg, &c->first_rank, e);
}

status join_fail(cmd_join *c, status result, err *e)
{
    if (result == OK || !c->world || c->has_run) return result;
    c->has_run = true;
    return launch_fail(c->world, &c->first_rank, e);
}

// Writes the file in which launchers look for the message of a failed process, in PyTorch's format, with the rank that
// the message is of. A file that cannot be written must not hide the failure.
static void tell_launcher(const cmd_join *c, const err *why)
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

void join_close(cmd_join *c)
{
    world_close(c->world);
    text_clear(&c->line);
    c->world = NULL;
}

int join_end(cmd_join *c, status result, err *e)
{
    result = join_fail(c, result, e);
    join_close(c);
    if (result == OK) return 0;
    if (result == E_INTERRUPTED && join_follows(c))
        return status_exit_code(result); // rank 0 says it
    if (result != E_INTERRUPTED) tell_launcher(c, e);
    return cmd_fail(e);
}
