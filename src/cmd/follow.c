// follow.c -- where another launcher has started a process for each rank, rank 0's decides, and the others follow: they
// open the job as rank 0 has resolved it, and resume from the same checkpoint. On other hosts the process of the first
// rank hears it, and tells those of its host. So what differs between processes, such as
// the memory that was free when they looked, changes nothing. Called by start.c. See train_run.h.
#include "cmd/train_run.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "comm/hosts.h"
#include "comm/peers.h"

#include <stdlib.h>
#include <string.h>

// What rank 0 tells, and what the first rank of each other host tells those of its host. Behind it stand the folder of
// the checkpoint (empty: none) and the job as YAML, each with its final 0.
typedef struct told_start {
    uint64_t resume_step;
    // Of this host, at one address in all of its processes. NULL: nothing is recorded.
    comm_recorder *recorder;
    size_t resume_bytes; // with the final 0
    bool is_done;
} told_start;

// Tells the other processes of this host.
static status tell_here(const train_start *s, void *data, size_t bytes, err *e)
{
    status result = OK;
    world *w = s->attached;
    told_start *head = data;
    if (!s->is_done) {
        TRY(world_record(w, (int)s->job->checks.record_calls, s->job->checks.desync, e));
        comm_watchdog_set(w->watchdog, s->job->checks.watchdog_ms);
    }
    head->recorder = w->recorder;
    if (w->peers) TRY(comm_peers_tell(w, data, bytes, e));
done:
    return result;
}

status train_start_tell(const train_start *s, err *e)
{
    status result = OK;
    text yaml = {0}, all = {0};
    const char *resume = s->resume ? s->resume : "";
    const told_start head = {
        .resume_step = s->resume_step, .resume_bytes = strlen(resume) + 1, .is_done = s->is_done};
    job_write_yaml(s->job, &yaml);
    TRY(text_check(&yaml, e));
    text_add_bytes(&all, &head, sizeof head);
    text_add_bytes(&all, resume, head.resume_bytes);
    text_add_bytes(&all, yaml.chars, yaml.bytes + 1);
    TRY(text_check(&all, e));
    if (s->attached->hosts) TRY(comm_hosts_tell(s->attached, all.chars, all.bytes, e));
    TRY(tell_here(s, all.chars, all.bytes, e));
done:
    text_clear(&yaml);
    text_clear(&all);
    return result;
}

// Another host may have sent the bytes.
static bool is_whole(const told_start *head, size_t bytes)
{
    const char *behind = (const char *)(head + 1);
    if (bytes < sizeof *head + 2) return false;
    const size_t words = bytes - sizeof *head;
    return head->resume_bytes > 0 && head->resume_bytes < words &&
           behind[head->resume_bytes - 1] == 0 && behind[words - 1] == 0;
}

// Opens what rank 0 has told.
static status take_start(train_start *s, const job_own *own, const void *data, size_t bytes, err *e)
{
    status result = OK;
    job_own told = *own;
    const told_start *head = data;
    const char *resume = (const char *)(head + 1);
    if (!is_whole(head, bytes)) FAIL(E_IO, "what rank 0 tells (%zu bytes) is damaged", bytes);
    job_call yaml = {.kind = JOB_CALL_YAML, .text = (char *)resume + head->resume_bytes};
    told.by_calls = true;
    told.call = &yaml;
    told.calls = 1;
    s->is_done = head->is_done;
    if (s->is_done) goto done;
    TRY(job_open_own(NULL, 0, NULL, &told, &s->job, e));
    s->job->quiet = true;
    TRY(session_inputs_open_to_plan(s->job, &s->inputs, e));
    s->resume_step = head->resume_step;
    if (*resume) TRY(text_copy(resume, &s->resume, e));
done:
    if (s->job) s->job->own = *own; // the call lies on the stack
    return result;
}

status train_start_follow(train_start *s, const job_own *own, err *e)
{
    status result = OK;
    world *w = s->attached;
    void *far = NULL;
    const void *data;
    size_t bytes;
    if (w->first == 0) {
        TRY(comm_hosts_hear(w, &far, &bytes, e));
        TRY(take_start(s, own, far, bytes, e));
        TRY(tell_here(s, far, bytes, e));
    } else {
        TRY(comm_peers_hear(w, &data, &bytes, e));
        w->recorder = ((const told_start *)data)->recorder;
        TRY(take_start(s, own, data, bytes, e));
    }
done:
    free(far);
    return result;
}
