// bench_job.c -- see bench_job.h. `trireme bench train`, `bench pipeline` and `bench scaling` call it.
#include "cmd/bench/bench_job.h"

#include "base/alloc.h"
#include "cmd/cmd.h"

#include <stdlib.h>
#include <string.h>

bench_job bench_job_arguments(int argc, char **argv, const char *const *defaults)
{
    const char *const path = cmd_job_path(argc, argv);
    const int first = path ? 2 : 1;
    return (bench_job){
        .path = path, .args = argv + first, .count = argc - first, .defaults = defaults};
}

bool bench_job_gives(const bench_job *b, const char *key)
{
    const size_t bytes = strcspn(key, "=");
    for (int i = 0; i < b->count; i++)
        if (strncmp(b->args[i], key, bytes) == 0 && strchr("=", b->args[i][bytes])) return true;
    return false;
}

// Returns whether a job file gives the key for itself.
static bool is_of_the_file(const char *key)
{
    static const char *const starts[] = {"--model.", "--data.", "--train.global_batch="};
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++)
        if (strncmp(key, starts[i], strlen(starts[i])) == 0) return true;
    return false;
}

status bench_job_open(const bench_job *b, const text *settings, int count, job **out, err *e)
{
    status result = OK;
    char **all = NULL;
    int n = 0, defaults = 0;
    while (b->defaults[defaults]) defaults++;
    for (int i = 0; i < count; i++) TRY(text_check(&settings[i], e));
    TRY(alloc_zeroed(&all, (size_t)(b->count + defaults + count) + 1, sizeof *all, "the arguments",
                     e));
    for (int i = 0; i < defaults; i++)
        if (!bench_job_gives(b, b->defaults[i]) && !(b->path && is_of_the_file(b->defaults[i])))
            all[n++] = (char *)b->defaults[i];
    for (int i = 0; i < b->count; i++) all[n++] = b->args[i];
    for (int i = 0; i < count; i++) all[n++] = settings[i].chars;
    TRY(job_open_own(b->path, n, all, &b->own, out, e));
done:
    free(all);
    return result;
}

status bench_job_join(const bench_job *b, const text *settings, int count, const session_join *c,
                      job **out, session_inputs *in, err *e)
{
    status result = OK;
    if (!join_follows(c)) {
        TRY(bench_job_open(b, settings, count, out, e));
        TRY(session_inputs_open(*out, in, e));
    }
    TRY(join_same(c, NULL, out, in, e));
done:
    return result;
}

status bench_read_list(const char *name, const char *list, const char *example, int most,
                       int out[BENCH_LIST], int *count, err *e)
{
    *count = 0;
    for (const char *number = list; *number;) {
        char *end;
        const long n = strtol(number, &end, 10);
        if (end == number || n < 1 || n > most || *count == BENCH_LIST || (*end && *end != ','))
            break;
        out[(*count)++] = (int)n;
        if (!*end || !end[1]) return OK;
        number = end + 1;
    }
    return err_set(e, E_USAGE, "%s: found '%s'; valid: up to %d numbers as %s", name, list,
                   BENCH_LIST, example);
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void bench_sort(double *figures, int64_t count)
{
    qsort(figures, (size_t)count, sizeof *figures, compare);
}
