// agent.c -- see agent.h: the rounds of one node, from joining to the end. agent_group.c meets the other nodes,
// agent_workers.c runs the workers, agent_watch.c learns of the end.
#include "launch/agent.h"

#include "base/alloc.h"
#include "launch/agent_folder.h"
#include "launch/agent_watch.h"
#include "launch/agent_workers.h"
#include "launch/hangup.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum { WAIT_MS = 1000, SIGNAL = 0, END = 1, OTHERS = 2 };

typedef struct agent {
    const agent_options *options;
    agent_result *out;
    agent_group group;
    agent_round round;
    launch_guard guard;
    int signals;     // descriptor
    sigset_t before; // the mask to restore
    agent_folder folder;
    bool has_lost; // output of workers
} agent;

// The causes that end a round.
typedef enum round_end { ROUND_DONE, ROUND_FAILED, ROUND_JOINED, ROUND_SIGNALLED } round_end;

// ---- opening ----

static status open_signals(agent *a, err *e)
{
    sigset_t set = a->options->signals;
    if (!hangup_stops()) sigdelset(&set, SIGHUP);
    a->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (a->signals < 0) return err_errno(e, "cannot watch for signals");
    pthread_sigmask(SIG_BLOCK, &set, &a->before);
    return OK;
}

// The guard is forked before the store's thread starts.
static status open_agent(agent *a, err *e)
{
    status result = OK;
    TRY(guard_open(a->options->workers, &a->guard, e));
    TRY(open_signals(a, e));
    TRY(agent_folder_open(a->options->logs.folder, &a->folder, e));
    TRY(agent_group_open(&a->options->rendezvous, a->signals, &a->group, e));
done:
    return result;
}

static void close_agent(agent *a, status result)
{
    agent_group_close(&a->group);
    guard_close(&a->guard, result == OK);
    agent_folder_close(&a->folder);
    if (a->signals < 0) return;
    close(a->signals);
    pthread_sigmask(SIG_SETMASK, &a->before, NULL);
}

// ---- a round ----

static status keep_failures(agent *a, const agent_watch *watch, const agent_workers *w, err *e)
{
    status result = OK;
    agent_result *out = a->out;
    free(out->failures);
    out->failures = NULL;
    TRY(alloc_zeroed(&out->failures, (size_t)w->failed + 1, sizeof *out->failures, "the failures",
                     e));
    out->failures[0] = watch->failure;
    out->count = 1;
    for (int i = 0; i < w->failed; i++)
        if (w->failures[i].rank != watch->failure.rank)
            out->failures[out->count++] = w->failures[i];
done:
    return result;
}

static int read_signal(int fd)
{
    struct signalfd_siginfo info;
    return read(fd, &info, sizeof info) == sizeof info ? (int)info.ssi_signo : 0;
}

static status publish_signal(agent *a, int number, err *e)
{
    worker_failure f;
    char what[64];
    snprintf(what, sizeof what, "its agent was stopped by signal %d (%s)", number,
             strsignal(number));
    agent_group_lost(&a->group, a->round.node, what, &f);
    return agent_group_fail(&a->group, &a->round, &f, e);
}

// Until the round has ended for all nodes, or a signal has come.
static status watch_round(agent *a, agent_workers *w, agent_watch *watch, err *e)
{
    status result = OK;
    bool published = false;
    struct pollfd others[OTHERS] = {[SIGNAL] = {.fd = a->signals, .events = POLLIN},
                                    [END] = {.fd = watch->ended, .events = POLLIN}};
    while (!others[END].revents) {
        TRY(agent_workers_wait(w, WAIT_MS, others, OTHERS, e));
        if (others[SIGNAL].revents && !a->out->signal) {
            a->out->signal = read_signal(a->signals);
            TRY(publish_signal(a, a->out->signal, e));
        }
        if (published) continue;
        if (w->failed > 0) TRY(agent_group_find(&a->group, &a->round, &w->failures[0], e));
        if (w->failed > 0)
            TRY(agent_group_fail(&a->group, &a->round, &w->failures[0], e));
        else if (w->alive == 0)
            TRY(agent_group_finish(&a->group, &a->round, e));
        else
            TRY(agent_group_add_waiting(&a->group, &a->round, e));
        published = w->failed > 0 || w->alive == 0;
    }
done:
    return result;
}

static void say_failure(const agent *a, const worker_failure *f)
{
    text line = {0};
    worker_failure_line(f, &line);
    if (text_check(&line, NULL) == OK) a->options->say(line.chars);
    text_clear(&line);
}

static round_end end_of(const agent *a, const agent_watch *watch)
{
    if (watch->done) return ROUND_DONE;
    if (a->out->signal) return ROUND_SIGNALLED;
    return watch->joins ? ROUND_JOINED : ROUND_FAILED;
}

static status run_round(agent *a, round_end *end, err *e)
{
    status result = OK;
    agent_watch watch = {.ended = -1};
    agent_workers w = {
        .options = a->options, .round = &a->round, .guard = &a->guard, .matches = {-1, -1}};
    text folder = {0};
    worker_failure own;
    bool is_cut_off = false;
    TRY(agent_group_join(&a->group, a->options, &a->round, e));
    TRY(agent_watch_open(&a->group, &a->round, &watch, e));
    text_addf(&folder, "%s/attempt_%d", a->folder.path, a->round.restarts);
    TRY(text_check(&folder, e));
    TRY(agent_workers_start(&w, folder.chars, e));
    TRY(watch_round(a, &w, &watch, e));
    *end = end_of(a, &watch);
    // If the leader does not answer, the others may start again without this node: its workers must be gone by then.
    is_cut_off = watch.alone;
    if (*end == ROUND_FAILED) say_failure(a, &watch.failure);
    if (*end == ROUND_FAILED) TRY(keep_failures(a, &watch, &w, e));
done:
    if (result != OK && watch.running) { // the other nodes must not wait for this one
        agent_group_lost(&a->group, a->round.node, e ? e->text : "failed", &own);
        (void)agent_group_fail(&a->group, &a->round, &own, NULL);
    }
    agent_workers_stop(&w, is_cut_off ? SIGKILL : a->out->signal ? a->out->signal : SIGTERM);
    agent_watch_close(&watch);
    agent_workers_close(&w);
    a->has_lost = a->has_lost || w.has_lost;
    text_clear(&folder);
    return result;
}

// Returns whether the run continues after a failure. A node that has left costs no restart, where fewer nodes are
// enough.
static bool may_restart(agent *a)
{
    const agent_rendezvous *m = &a->options->rendezvous;
    const bool is_node = a->out->failures[0].rank < 0;
    if (is_node && (m->least == m->most || !a->group.store)) return false;
    if (!is_node && a->round.left == 0) return false;
    if (!is_node) a->round.left--;
    return true;
}

// Says what a user can do after a node is lost, which ends the run.
static void say_remedy(const agent *a)
{
    const agent_rendezvous *m = &a->options->rendezvous;
    text line = {0};
    if (a->out->failures[0].rank >= 0 || m->most == 1) return;
    text_add(&line, "the same command on every node starts again, and `train` resumes from its "
                    "newest checkpoint");
    if (m->least == m->most)
        text_addf(&line, "; with --nnodes %d:%d --rdzv-backend c10d a run goes on without a node",
                  m->most - 1, m->most);
    if (text_check(&line, NULL) == OK) a->options->say(line.chars);
    text_clear(&line);
}

static void say_restart(const agent *a, round_end end)
{
    text line = {0};
    text_addf(&line, "%sstarts all workers again (%d of %d restarts left)",
              end == ROUND_JOINED ? "a node has come: " : "", a->round.left,
              a->options->max_restarts);
    if (text_check(&line, NULL) == OK) a->options->say(line.chars);
    text_clear(&line);
}

static status run_rounds(agent *a, err *e)
{
    status result = OK;
    round_end end = ROUND_FAILED;
    a->round.left = a->options->max_restarts;
    for (;; a->round.restarts++, a->round.number++) {
        TRY(run_round(a, &end, e));
        if (end != ROUND_JOINED && (end != ROUND_FAILED || !may_restart(a))) break;
        say_restart(a, end);
        a->out->count = 0; // what ended this round has been said, and ends no later one
    }
    if (end == ROUND_DONE && a->has_lost)
        FAIL(E_IO, "all workers succeeded, but output of theirs is lost");
    if (end == ROUND_SIGNALLED)
        FAIL(E_INTERRUPTED, "stopped by signal %d (%s)", a->out->signal, strsignal(a->out->signal));
    if (end == ROUND_FAILED) {
        say_remedy(a);
        text line = {0};
        worker_failure_line(&a->out->failures[0], &line);
        result = err_set(e, E_PEER, "%s", line.chars ? line.chars : "a worker failed");
        text_clear(&line);
    }
done:
    return result;
}

status agent_run(const agent_options *o, agent_result *out, err *e)
{
    status result = OK;
    agent a = {.options = o,
               .out = out,
               .signals = -1,
               .guard.alive = -1,
               .folder.lock = -1,
               .group.reserved = -1};
    *out = (agent_result){0};
    TRY(open_agent(&a, e));
    TRY(run_rounds(&a, e));
done:
    if (result == E_INTERRUPTED && !out->signal) out->signal = read_signal(a.signals);
    close_agent(&a, result);
    return result;
}
