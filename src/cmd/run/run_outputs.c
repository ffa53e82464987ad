// run_outputs.c -- the flags of `trireme run` that say where output goes. See run.h.
#include "cmd/run/run.h"

#include "base/alloc.h"
#include "base/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// "2" for all local ranks, or "0:1,3:2" for some.
static status read_streams(const char *flag, const char *given, int workers, int **out, err *e)
{
    status result = OK;
    char *copy = NULL, *rest = NULL;
    if (!given) return OK;
    TRY(alloc_zeroed(out, (size_t)workers, sizeof **out, "the flags of local ranks", e));
    TRY(text_copy(given, &copy, e));
    for (char *part = strtok_r(copy, ",", &rest); part; part = strtok_r(NULL, ",", &rest)) {
        char *colon = strchr(part, ':');
        int64_t rank = -1, streams = -1;
        if (colon) *colon = 0;
        const bool valid = (!colon || text_to_count(part, &rank)) &&
                           text_to_count(colon ? colon + 1 : part, &streams) && streams >= 0 &&
                           streams <= (AGENT_STDOUT | AGENT_STDERR) && rank < workers &&
                           (colon ? rank >= 0 : true);
        if (!valid)
            FAIL(E_USAGE,
                 "%s: found %s; valid are 0 (none), 1 (stdout), 2 (stderr), 3 (both), and "
                 "RANK:N,... with local ranks 0 to %d",
                 flag, given, workers - 1);
        for (int i = 0; i < workers; i++)
            if (!colon || i == rank) (*out)[i] = (int)streams;
    }
done:
    free(copy);
    return result;
}

static status read_ranks(const char *given, int workers, bool **out, err *e)
{
    status result = OK;
    char *copy = NULL, *rest = NULL;
    if (!given || !*given) return OK;
    TRY(alloc_zeroed(out, (size_t)workers, sizeof **out, "the flags of local ranks", e));
    TRY(text_copy(given, &copy, e));
    for (char *part = strtok_r(copy, ",", &rest); part; part = strtok_r(NULL, ",", &rest)) {
        int64_t rank = -1;
        if (!text_to_count(part, &rank) || rank < 0 || rank >= workers)
            FAIL(E_USAGE, "--local-ranks-filter: found %s; valid are local ranks 0 to %d", given,
                 workers - 1);
        (*out)[rank] = true;
    }
done:
    free(copy);
    return result;
}

// Words between commas; two commas are one that belongs to a word.
static status read_words(const char *given, char ***out, err *e)
{
    status result = OK;
    text word = {0};
    size_t count = 0, room = 0;
    for (const char *c = given; c; c++) {
        if (*c == ',' && c[1] == ',') {
            text_add_bytes(&word, c++, 1);
        } else if (*c && *c != ',') {
            text_add_bytes(&word, c, 1);
        } else {
            TRY(alloc_grow(out, &room, count + 2, sizeof **out, "the filters", e));
            if (word.bytes) TRY(text_take(&word, &(*out)[count++], e));
            (*out)[count] = NULL;
        }
        if (!*c) break;
    }
done:
    text_clear(&word);
    return result;
}

// <log_dir>/<run id>_<random>, as torchrun names it.
static status open_folder(const char *given, run_options *o, err *e)
{
    status result = OK;
    text name = {0};
    if (!given) return OK;
    text_addf(&name, "%s/%s_XXXXXX", given, o->id);
    TRY(file_make_directories(given, e));
    TRY(text_take(&name, &o->folder, e));
    if (!mkdtemp(o->folder)) {
        result = err_errno(e, "--log-dir: cannot make a folder in %s", given);
        if (e) e->code = E_USAGE;
        result = E_USAGE;
    }
done:
    text_clear(&name);
    return result;
}

status run_outputs_open(const run_outputs *q, run_options *o, err *e)
{
    status result = OK;
    const int workers = o->agent.workers;
    agent_logs *l = &o->agent.logs;
    TRY(read_streams("--redirects", q->redirects, workers, &o->redirect, e));
    TRY(read_streams("--tee", q->tee, workers, &o->tee, e));
    TRY(read_ranks(q->ranks, workers, &o->shown, e));
    TRY(read_words(q->stdout_words, &o->stdout_words, e));
    TRY(read_words(q->stderr_words, &o->stderr_words, e));
    TRY(open_folder(q->folder, o, e));
    *l = (agent_logs){.folder = o->folder,
                      .redirect = o->redirect,
                      .tee = o->tee,
                      .shown = o->shown,
                      .prefix = getenv("TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE"),
                      .stdout_words = (const char *const *)o->stdout_words,
                      .stderr_words = (const char *const *)o->stderr_words};
done:
    return result;
}

static void free_words(char **words)
{
    for (char **w = words; w && *w; w++) free(*w);
    free(words);
}

void run_outputs_close(run_options *o)
{
    free_words(o->stdout_words);
    free_words(o->stderr_words);
    free(o->folder);
    free(o->redirect);
    free(o->tee);
    free(o->shown);
}
