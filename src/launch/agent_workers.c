// agent_workers.c -- see agent_workers.h. agent_environment.c knows what a worker finds in its environment.
#include "launch/agent_workers.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/proc.h"
#include "launch/agent_environment.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LOOK_MS = 50, OTHERS = 4 };

static const char *const STREAMS[WORKER_STREAMS] = {"out", "err"};
static const int STREAM_BITS[WORKER_STREAMS] = {AGENT_STDOUT, AGENT_STDERR};

// ---- output ----

// folder/stdout.log, for example. The caller frees *out.
static status name_file(const char *folder, const char *kind, int stream, char **out, err *e)
{
    text path = {0};
    text_addf(&path, "%s/%s%s.log", folder, kind, STREAMS[stream]);
    return text_take(&path, out, e);
}

static const char *const *words_of(const agent_logs *l, int stream)
{
    const char *const *words = stream == 0 ? l->stdout_words : l->stderr_words;
    return words && *words ? words : NULL;
}

// Finds where a stream of a worker goes. *file is the path of its file; the caller frees it.
static status plan_stream(const agent_workers *w, int local, int stream, const char *folder,
                          worker_output_plan *p, char **file, err *e)
{
    status result = OK;
    const agent_logs *l = &w->options->logs;
    const int bit = STREAM_BITS[stream];
    const bool teed = l->tee && l->tee[local] & bit;
    const bool redirected = l->redirect && l->redirect[local] & bit;
    const bool shown = (!l->shown || l->shown[local]) && (teed || !redirected);
    *p = (worker_output_plan){.console = shown ? 1 + stream : -1,
                              .keep_tail = stream == 1,
                              .words = words_of(l, stream),
                              .matches = w->matches[stream]};
    if (teed) agent_environment_prefix(w->options, w->round, local, p->prefix);
    if (teed || redirected) TRY(name_file(folder, "std", stream, file, e));
    p->file = *file;
done:
    return result;
}

static status open_streams(agent_workers *w, int local, const char *folder,
                           int children[WORKER_STREAMS], err *e)
{
    status result = OK;
    char *file = NULL;
    for (int s = 0; s < WORKER_STREAMS; s++) {
        worker_output_plan plan;
        TRY(plan_stream(w, local, s, folder, &plan, &file, e));
        TRY(worker_output_open(&plan, &w->workers[local].streams[s], &children[s], e));
        w->workers[local].streams[s].plan.file = NULL; // it is open
        free(file);
        file = NULL;
    }
done:
    free(file);
    return result;
}

static status open_matches(agent_workers *w, const char *folder, err *e)
{
    status result = OK;
    char *path = NULL;
    for (int s = 0; s < WORKER_STREAMS; s++) {
        w->matches[s] = -1;
        if (!words_of(&w->options->logs, s)) continue;
        TRY(name_file(folder, "filtered_std", s, &path, e));
        w->matches[s] = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
        if (w->matches[s] < 0) {
            result = err_errno(e, "cannot write %s", path);
            goto done;
        }
        free(path);
        path = NULL;
    }
done:
    free(path);
    return result;
}

// ---- start ----

static status start_one(agent_workers *w, int local, const char *attempt, err *e)
{
    status result = OK;
    agent_worker *worker = &w->workers[local];
    int children[WORKER_STREAMS] = {-1, -1};
    worker_env env = {0};
    char **program = NULL;
    text folder = {0};
    text_addf(&folder, "%s/%d", attempt, local);
    TRY(text_check(&folder, e));
    TRY(file_make_directories(folder.chars, e));
    TRY(file_join(folder.chars, "error.json", &worker->error_file, e));
    TRY(open_streams(w, local, folder.chars, children, e));
    TRY(agent_environment(w, local, &env, e));
    TRY(agent_environment_program(w->options->program, local, &program, e));
    const binding_cores *cores = w->options->cores;
    const worker_command c = {.argv = program,
                              .env = env.names,
                              .out = children[0],
                              .error = children[1],
                              .cores = cores ? &cores[local] : NULL};
    TRY(worker_start(&c, &worker->process, e));
    atomic_store(&w->guard->groups[local], worker->process.pid);
    w->alive++;
done:
    for (int s = 0; s < WORKER_STREAMS; s++)
        if (children[s] >= 0) close(children[s]);
    worker_env_close(&env);
    agent_environment_program_free(program);
    text_clear(&folder);
    return result;
}

status agent_workers_start(agent_workers *w, const char *folder, err *e)
{
    status result = OK;
    const size_t count = (size_t)w->options->workers;
    w->count = w->options->workers;
    w->before = oom_read("");
    w->matches[0] = w->matches[1] = -1;
    TRY(alloc_zeroed(&w->workers, count, sizeof *w->workers, "the list of workers", e));
    TRY(alloc_zeroed(&w->failures, count + 1, sizeof *w->failures, "the list of workers", e));
    TRY(alloc_zeroed(&w->polled, (1 + WORKER_STREAMS) * count + OTHERS, sizeof *w->polled,
                     "the list of workers", e));
    for (int i = 0; i < w->count; i++) {
        w->workers[i].process.pidfd = -1;
        for (int s = 0; s < WORKER_STREAMS; s++)
            w->workers[i].streams[s] = (worker_output){.from = -1, .file = -1};
    }
    TRY(file_make_directories(folder, e));
    TRY(open_matches(w, folder, e));
    for (int i = 0; i < w->count; i++) TRY(start_one(w, i, folder, e));
done:
    return result;
}

static void say_lost(agent_workers *w, const worker_output *o)
{
    char line[256];
    if (!o->lost || w->has_lost) return;
    w->has_lost = true;
    snprintf(line, sizeof line, "cannot write to %s: %s; output of workers is lost",
             o->lost_of_file ? "the workers' log files" : "standard output", strerror(o->lost));
    w->options->say(line);
}

// ---- the end of a worker ----

// A worker may say which rank is to blame, such as one that it has awaited in vain.
static void blame(agent_workers *w, int rank, worker_failure *f)
{
    const int local = rank - w->round->first_rank;
    if (rank < 0 || rank == f->rank || rank >= w->round->ranks) return;
    f->reported_by = 1 + f->rank;
    f->rank = rank;
    f->local_rank = f->node = -1; // of another node; agent_group_find has it
    f->pid = 0;
    if (local < 0 || local >= w->count) return;
    f->local_rank = local;
    f->node = w->round->node;
    f->pid = (int)w->workers[local].process.pid;
}

static void note_failure(agent_workers *w, int local, pid_t pid, int how)
{
    worker_failure *f = &w->failures[w->failed++];
    *f = (worker_failure){.rank = w->round->first_rank + local,
                          .local_rank = local,
                          .node = w->round->node,
                          .pid = (int)pid,
                          .exit_code = WIFSIGNALED(how) ? -WTERMSIG(how) : WEXITSTATUS(how),
                          .time_s = time(NULL)};
    proc_host_name(f->host, sizeof f->host);
    const worker_output *last = &w->workers[local].streams[1];
    blame(w, worker_failure_read_file(w->workers[local].error_file, f), f);
    const char *oom = f->exit_code == -SIGKILL ? oom_explain(w->before, "") : NULL;
    if (oom) snprintf(f->what, sizeof f->what, "%s", oom);
    worker_failure_take_output(f, last->tail, last->tail_bytes, last->tail_bytes == TAIL_BYTES);
}

static void reap(agent_workers *w, int local)
{
    agent_worker *worker = &w->workers[local];
    const pid_t pid = worker->process.pid;
    const int how = worker_reap(&worker->process);
    atomic_store(&w->guard->groups[local], 0);
    w->alive--;
    for (int s = 0; s < WORKER_STREAMS; s++) {
        worker_output_close(&worker->streams[s]);
        say_lost(w, &worker->streams[s]);
    }
    if (how != 0 && !w->stopping) note_failure(w, local, pid, how);
}

// ---- waiting ----

static int fill_polled(agent_workers *w, struct pollfd *others, int count)
{
    int n = 0;
    for (int i = 0; i < count; i++) w->polled[n++] = others[i];
    for (int i = 0; i < w->count; i++) {
        const agent_worker *worker = &w->workers[i];
        w->polled[n++] = (struct pollfd){.fd = worker->process.pidfd, .events = POLLIN};
        for (int s = 0; s < WORKER_STREAMS; s++)
            w->polled[n++] = (struct pollfd){.fd = worker->streams[s].from, .events = POLLIN};
    }
    return n;
}

status agent_workers_wait(agent_workers *w, int ms, struct pollfd *others, int count, err *e)
{
    const int n = fill_polled(w, others, count);
    const int ready = poll(w->polled, (nfds_t)n, ms);
    for (int i = 0; i < count; i++) others[i].revents = ready > 0 ? w->polled[i].revents : 0;
    if (ready < 0 && errno != EINTR) return err_errno(e, "cannot wait for workers");
    for (int i = 0; i < w->count && ready > 0; i++) {
        const struct pollfd *of = w->polled + count + i * (1 + WORKER_STREAMS);
        for (int s = 0; s < WORKER_STREAMS; s++) {
            worker_output *o = &w->workers[i].streams[s];
            if (of[1 + s].revents && !worker_output_forward(o)) close(o->from), o->from = -1;
            say_lost(w, o);
        }
        if (of[0].revents) reap(w, i);
    }
    return OK;
}

void agent_workers_stop(agent_workers *w, int signal_number)
{
    const int64_t end = clock_ns() + w->options->stop_ms * INT64_C(1000000);
    bool killed = false;
    w->stopping = true;
    for (int i = 0; i < w->count; i++) worker_signal(&w->workers[i].process, signal_number);
    while (w->alive > 0) {
        if (agent_workers_wait(w, LOOK_MS, NULL, 0, NULL) != OK) killed = false;
        if (killed || clock_ns() < end) continue;
        for (int i = 0; i < w->count; i++) worker_signal(&w->workers[i].process, SIGKILL);
        killed = true;
    }
}

void agent_workers_close(agent_workers *w)
{
    for (int i = 0; i < w->count && w->workers; i++) {
        for (int s = 0; s < WORKER_STREAMS; s++) worker_output_close(&w->workers[i].streams[s]);
        free(w->workers[i].error_file);
    }
    for (int s = 0; s < WORKER_STREAMS; s++)
        if (w->matches[s] >= 0) close(w->matches[s]);
    free(w->workers);
    free(w->polled);
    free(w->failures);
    w->workers = NULL;
    w->polled = NULL;
    w->failures = NULL;
    w->count = 0;
}
