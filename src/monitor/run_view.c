// run_view.c -- reads a run's log.jsonl and the records of its ranks (run_view.h).
#define _GNU_SOURCE
#include "monitor/run_view.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_RANKS = 1 << 20 };
static const int64_t SILENT_NS = INT64_C(60) * 1000000000;

// ---- The log

static double number_of(const json_t *line, const char *key)
{
    const json_t *value = json_object_get(line, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static status set_error(run_view *v, const char *chars, err *e)
{
    free(v->error);
    v->error = NULL;
    return chars ? text_copy(chars, &v->error, e) : OK;
}

static void begin_run(run_view *v, json_t *line)
{
    json_decref(v->start);
    json_decref(v->end);
    v->start = json_incref(line);
    v->end = NULL;
    (void)set_error(v, NULL, NULL);
}

// Steps that come again are those of a resumed run.
static void drop_from(run_view *v, int64_t step)
{
    while (v->steps && v->step[v->steps - 1].step >= step) v->steps--;
    while (v->evals && v->eval[v->evals - 1].step >= step) v->evals--;
    while (v->saves && v->save[v->saves - 1].step >= step) v->saves--;
}

static status add_step(run_view *v, const json_t *line, int64_t step, err *e)
{
    status result = OK;
    drop_from(v, step);
    TRY(alloc_grow(&v->step, &v->step_room, v->steps + 1, sizeof *v->step, "the steps of a log",
                   e));
    v->step[v->steps++] = (run_step){.step = step,
                                     .loss = number_of(line, "loss"),
                                     .grad_norm = number_of(line, "grad_norm"),
                                     .lr = number_of(line, "lr"),
                                     .tokens = number_of(line, "tokens"),
                                     .seconds = number_of(line, "seconds"),
                                     .tokens_per_s = number_of(line, "tokens_per_s"),
                                     .matmul_share = number_of(line, "matmul_share"),
                                     .skipped = json_is_true(json_object_get(line, "skipped"))};
    json_decref(v->group_norms);
    v->group_norms = json_incref(json_object_get(line, "grad_norm_by_group"));
done:
    return result;
}

static status add_eval(run_view *v, const json_t *line, int64_t step, err *e)
{
    status result = OK;
    while (v->evals && v->eval[v->evals - 1].step >= step) v->evals--;
    TRY(alloc_grow(&v->eval, &v->eval_room, v->evals + 1, sizeof *v->eval, "the steps of a log",
                   e));
    v->eval[v->evals++] = (run_eval){step, number_of(line, "loss")};
done:
    return result;
}

static status add_save(run_view *v, const json_t *line, int64_t step, err *e)
{
    status result = OK;
    TRY(alloc_grow(&v->save, &v->save_room, v->saves + 1, sizeof *v->save, "the steps of a log",
                   e));
    v->save[v->saves++] = (run_save){step, json_integer_value(json_object_get(line, "bytes")),
                                     number_of(line, "seconds")};
done:
    return result;
}

static status add_line(run_view *v, json_t *line, err *e)
{
    const char *event = json_string_value(json_object_get(line, "event"));
    const int64_t step = json_integer_value(json_object_get(line, "step"));
    if (!event) return OK;
    if (strcmp(event, "start") == 0) begin_run(v, line);
    if (strcmp(event, "step") == 0) return add_step(v, line, step, e);
    if (strcmp(event, "eval") == 0) return add_eval(v, line, step, e);
    if (strcmp(event, "save") == 0) return add_save(v, line, step, e);
    if (strcmp(event, "error") == 0)
        return set_error(v, json_string_value(json_object_get(line, "text")), e);
    if (strcmp(event, "end") == 0) {
        json_decref(v->end);
        v->end = json_incref(line);
    }
    return OK;
}

static void forget_log(run_view *v)
{
    v->steps = v->evals = v->saves = 0;
    v->log_read = 0;
    v->log_line = 0;
    json_decref(v->start);
    json_decref(v->end);
    json_decref(v->group_norms);
    v->start = v->end = v->group_norms = NULL;
    (void)set_error(v, NULL, NULL);
}

static status read_lines(run_view *v, const char *path, const char *chars, size_t bytes, err *e)
{
    status result = OK;
    json_t *line = NULL;
    for (const char *at = chars, *end = chars + bytes; at < end;) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        json_error_t why;
        if (!newline) break;
        v->log_line++;
        v->log_read += (uint64_t)(newline + 1 - at);
        if (newline > at) {
            line = json_loadb(at, (size_t)(newline - at), JSON_REJECT_DUPLICATES, &why);
            if (!line) FAIL(E_USAGE, "%s:%ld: not JSON: %s", path, v->log_line, why.text);
            if (!json_is_object(line))
                FAIL(E_USAGE, "%s:%ld: not a JSON object", path, v->log_line);
            TRY(add_line(v, line, e));
            json_decref(line);
            line = NULL;
        }
        at = newline + 1;
    }
done:
    json_decref(line);
    return result;
}

static status read_log(run_view *v, err *e)
{
    status result = OK;
    char *path = NULL, *chars = NULL;
    FILE *file = NULL;
    TRY(file_join(v->folder, "log.jsonl", &path, e));
    if (!file_exists(path)) goto done;
    file = fopen(path, "re");
    if (!file || fseeko(file, 0, SEEK_END) != 0) FAIL(E_IO, "%s: cannot read it", path);
    const uint64_t bytes = (uint64_t)ftello(file);
    if (bytes < v->log_read) forget_log(v);
    if (bytes - v->log_read > FILE_MOST) FAIL(E_USAGE, "%s: larger than 4 GiB", path);
    TRY(alloc_array(&chars, (size_t)(bytes - v->log_read) + 1, 1, "a log", e));
    if (fseeko(file, (off_t)v->log_read, SEEK_SET) != 0) FAIL(E_IO, "%s: cannot read it", path);
    TRY(read_lines(v, path, chars, fread(chars, 1, (size_t)(bytes - v->log_read), file), e));
done:
    if (file) fclose(file);
    free(chars);
    free(path);
    return result;
}

// ---- The records

status run_view_spans_path(const char *folder, int rank, char **out, err *e)
{
    text t = {0};
    text_addf(&t, "%s/spans/rank-%05d.spans", folder, rank);
    return text_take(&t, out, e);
}

static status make_room(run_view *v, int ranks, err *e)
{
    status result = OK;
    spans **more = NULL;
    if (ranks <= v->ranks) return OK;
    TRY(alloc_zeroed(&more, (size_t)ranks, sizeof *more, "the records of a run", e));
    if (v->ranks) memcpy(more, v->rank, (size_t)v->ranks * sizeof *more);
    free(v->rank);
    v->rank = more;
    v->ranks = ranks;
done:
    return result;
}

static bool same_file(const spans *a, const spans *b)
{
    return a->head->pid == b->head->pid &&
           a->head->clock.realtime_ns == b->head->clock.realtime_ns && a->bytes == b->bytes;
}

// Maps a record that is new, or in the place of an older one.
static status open_rank(run_view *v, const char *path, int rank, err *e)
{
    status result = OK;
    spans *s = NULL;
    TRY(spans_open(path, &s, e));
    if (s->head->rank != rank)
        FAIL(E_USAGE, "%s: holds the record of rank %d", path, s->head->rank);
    TRY(make_room(v, s->rank_count, e));
    if (v->rank[rank] && same_file(v->rank[rank], s)) goto done;
    spans *old = v->rank[rank];
    v->rank[rank] = s;
    s = old;
done:
    spans_close(s);
    return result;
}

static status read_records(run_view *v, err *e)
{
    status result = OK;
    char *folder = NULL, *path = NULL;
    DIR *d = NULL;
    TRY(file_join(v->folder, "spans", &folder, e));
    d = opendir(folder);
    for (struct dirent *x; d && (x = readdir(d));) {
        int rank = -1, used = 0;
        if (sscanf(x->d_name, "rank-%d.spans%n", &rank, &used) != 1 || !used || x->d_name[used] ||
            rank < 0 || rank >= MOST_RANKS)
            continue;
        TRY(file_join(folder, x->d_name, &path, e));
        TRY(open_rank(v, path, rank, e));
        free(path);
        path = NULL;
    }
    v->recorded = 0;
    for (int r = 0; r < v->ranks; r++) v->recorded += v->rank[r] != NULL;
done:
    if (d) closedir(d);
    free(path);
    free(folder);
    return result;
}

// ---- The view

status run_view_refresh(run_view *v, err *e)
{
    status result = OK;
    TRY(read_log(v, e));
    TRY(read_records(v, e));
    const double ranks = run_view_number(v, "ranks");
    if (ranks > 0 && ranks < MOST_RANKS) TRY(make_room(v, (int)ranks, e));
done:
    return result;
}

status run_view_open(const char *folder, run_view **out, err *e)
{
    status result = OK;
    run_view *v = NULL;
    TRY(alloc_zeroed(&v, 1, sizeof *v, "a run", e));
    TRY(text_copy(folder, &v->folder, e));
    if (!file_is_directory(folder)) FAIL(E_USAGE, "%s: no such folder", folder);
    TRY(run_view_refresh(v, e));
    if (!v->start && !v->recorded)
        FAIL(E_USAGE, "%s: not the folder of a run: it has no log.jsonl that begins, and no spans/",
             folder);
    *out = v;
    v = NULL;
done:
    run_view_close(v);
    return result;
}

void run_view_close(run_view *v)
{
    if (!v) return;
    for (int r = 0; r < v->ranks; r++) spans_close(v->rank[r]);
    free(v->rank);
    json_decref(v->start);
    json_decref(v->end);
    json_decref(v->group_norms);
    free(v->error);
    free(v->step);
    free(v->eval);
    free(v->save);
    free(v->folder);
    free(v);
}

const char *run_view_text(const run_view *v, const char *key)
{
    return json_string_value(json_object_get(v->start, key));
}

double run_view_number(const run_view *v, const char *key)
{
    return number_of(v->start, key);
}

static bool same_machine(const spans_head *h)
{
    char boot[sizeof h->boot] = {0};
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
    const bool read = f && fgets(boot, sizeof boot, f);
    if (f) fclose(f);
    boot[strcspn(boot, "\n")] = 0;
    return read && strcmp(boot, h->boot) == 0;
}

bool run_view_runs(const run_view *v, int rank)
{
    const spans *s = v->rank[rank];
    if (!s || atomic_load(&s->head->ended)) return false;
    if (same_machine(s->head)) return kill((pid_t)s->head->pid, 0) == 0 || errno == EPERM;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    const int64_t there =
        (int64_t)now.tv_sec * 1000000000 + now.tv_nsec - s->head->clock.realtime_ns;
    return there - atomic_load(&s->head->updated_ns) < SILENT_NS;
}

const char *run_view_state(const run_view *v)
{
    if (v->error) return "failed";
    if (v->end) return "ended";
    for (int r = 0; r < v->ranks; r++)
        if (run_view_runs(v, r)) return "running";
    return "stopped";
}

// ---- Steps

static bool range_of(const spans *s, uint64_t *first, uint64_t *last)
{
    const uint64_t end = atomic_load(&s->head->steps);
    spans_step a, b;
    if (!end || !spans_read_step(s, end - 1, &b)) return false;
    uint64_t n = end >= s->step_count ? end - s->step_count : 0;
    while (n < end && !spans_read_step(s, n, &a)) n++;
    *first = a.step;
    *last = b.step;
    return n < end;
}

bool run_view_common_steps(const run_view *v, uint64_t *first, uint64_t *last)
{
    bool any = false;
    for (int r = 0; r < v->ranks; r++) {
        uint64_t a, b;
        if (!v->rank[r]) continue;
        if (!range_of(v->rank[r], &a, &b)) return false;
        if (!any || a > *first) *first = a;
        if (!any || b < *last) *last = b;
        any = true;
    }
    return any && *first <= *last;
}

bool run_view_step_of(const run_view *v, int rank, uint64_t step, spans_step *out)
{
    const spans *s = v->rank[rank];
    if (!s) return false;
    // Steps follow each other, so the place of one follows from the last one's.
    const uint64_t end = atomic_load(&s->head->steps);
    if (!end || !spans_read_step(s, end - 1, out) || out->step < step) return false;
    const uint64_t back = out->step - step;
    return back < end && spans_read_step(s, end - 1 - back, out) && out->step == step;
}
