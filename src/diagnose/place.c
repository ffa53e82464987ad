// place.c -- see place.h. The forms are tables of expressions.
#include "diagnose/place.h"

#include "base/alloc.h"
#include "diagnose/expression.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// A prefix is near the beginning of a line.
enum { HEAD_BYTES = 240, MOST_RANK = 1 << 24 };

static const char *const PREFIXES[] = {
    "\\[\\d+,(?<rank>\\d+)\\]<std(?:out|err)>",                     // mpirun --tag-output
    "^(?:\\([^)]*\\) ?)?\\[?(?i:rank)[ :]?(?<rank>\\d+)\\]?[:\\]]", // PyTorch, "[rank3]:", "[Rank 3]"
    "\\[(?:PG \\S* ?(?:ID )?.*?)?[Rr]ank (?<rank>\\d+)\\]",         // ProcessGroupNCCL
    "^\\[pod/(?<host>[\\w.-]+)/",                                   // kubectl logs --prefix
    "\\[rank(?<rank>\\d+)\\]:",
    "^\\[default(?<local>\\d+)\\]:",                             // torchrun --tee
    "^(?<rank>\\d{1,5}): ",                                      // srun --label
    "(?:^|[ >:])(?<host>[A-Za-z][\\w.-]*):\\d+:\\d+ \\[\\d+\\]", // NCCL
    "^\\[[\\d.]+\\] \\[(?<host>[\\w.-]+):\\d+:\\d+\\]",          // UCX
    "^\\[(?<host>[A-Za-z][\\w.-]*):\\d+\\] ",                    // Open MPI
    "^(?<host>[A-Za-z][\\w.-]*) \\[\\d+\\] ",                    // NCCL up to 2.2
    "^(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) +\\d+ [\\d:]+ (?<host>[\\w.-]+) "
    "\\S+: ", // syslog
    "slurmstepd: error: \\*\\*\\* \\w+ \\S+ ON (?<host>\\w[\\w.-]*\\w) CANCELLED",
    "srun: error: (?<host>[\\w.-]+): tasks? (?:(?<rank>\\d+):)?",
    "^(?<host>(?:[a-z][a-z0-9]*-[a-z0-9-]*|node|worker|gpu|host)\\d+): ", // pdsh
    "^trireme: (?:error: )?rank (?<rank>\\d+): ",
    "\\brank (?<rank>\\d+) \\(host (?<host>[\\w.-]+)", // Trireme
};

// Month and day, hour, minute and second; "2024-06-29 00:06:24", glog's "W0629 00:06:24", syslog's "Jun 29 00:06:24".
static const char *const TIMES[] = {
    "\\d{4}[-/](?<month>\\d\\d)[-/](?<day>\\d\\d)[ T_](?<hour>\\d\\d):(?<minute>\\d\\d):(?<second>"
    "\\d\\d(?:[.,]\\d+)?)",
    "\\b[IWEF](?<month>1[0-2]|0?[1-9])(?<day>[0-3]\\d) (?<hour>\\d\\d):(?<minute>\\d\\d):(?<second>"
    "\\d\\d(?:[.]\\d+)?)",
    "\\b(?<name>Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) +(?<day>\\d+) (?<hour>\\d\\d):"
    "(?<minute>\\d\\d):(?<second>\\d\\d)",
};

// Colours and a time stand before a prefix.
static const char BEFORE[] =
    "^(?:\\s|\\x1b\\[[\\d;]*[A-Za-z]|\\[?\\d{4}[-/]\\d\\d[-/]\\d\\d[ "
    "T]\\d\\d:\\d\\d:\\d\\d(?:[.,]\\d+)?(?:Z|[+-]\\d\\d:?\\d\\d)?\\]?\\s)+";

// Logs of one rank, by their paths: "rank3.log", torchrun's "attempt_0/3/stderr.log".
static const char *const PATHS[] = {
    "(?i:rank)[-_.]?(?<rank>\\d+)(?:[^/\\d][^/]*)?$",
    "attempt_\\d+/(?<local>\\d+)/[^/]*$",
};

static const char *const BLOCK[] = {
    "^\\s*rank\\s*: (?<rank>\\d+) \\(local_rank: (?<local>\\d+)\\)",
    "^\\s*host\\s*: (?<host>[\\w.-]+)",
    "^\\s*time\\s*: (?<time>\\d{4}-)",
};

enum {
    PREFIX_COUNT = sizeof PREFIXES / sizeof *PREFIXES,
    TIME_COUNT = sizeof TIMES / sizeof *TIMES,
    BLOCK_COUNT = sizeof BLOCK / sizeof *BLOCK,
    PATH_COUNT = sizeof PATHS / sizeof *PATHS,
};

struct place_reader {
    expression *prefix[PREFIX_COUNT], *time[TIME_COUNT], *block[BLOCK_COUNT];
    expression *path[PATH_COUNT], *before;
};

static void close_all(expression **x, int count)
{
    for (int i = 0; i < count; i++) expression_close(x[i]);
}

void place_reader_close(place_reader *r)
{
    if (!r) return;
    close_all(r->prefix, PREFIX_COUNT);
    close_all(r->time, TIME_COUNT);
    close_all(r->block, BLOCK_COUNT);
    close_all(r->path, PATH_COUNT);
    expression_close(r->before);
    free(r);
}

status place_reader_open(place_reader **out, err *e)
{
    status result = OK;
    place_reader *r = NULL;
    TRY(alloc_zeroed(&r, 1, sizeof *r, "a log's patterns", e));
    for (int i = 0; i < PREFIX_COUNT; i++) TRY(expression_open(PREFIXES[i], &r->prefix[i], e));
    for (int i = 0; i < TIME_COUNT; i++) TRY(expression_open(TIMES[i], &r->time[i], e));
    for (int i = 0; i < BLOCK_COUNT; i++) TRY(expression_open(BLOCK[i], &r->block[i], e));
    for (int i = 0; i < PATH_COUNT; i++) TRY(expression_open(PATHS[i], &r->path[i], e));
    TRY(expression_open(BEFORE, &r->before, e));
    *out = r;
    r = NULL;
done:
    place_reader_close(r);
    return result;
}

static int number(const char *value, size_t bytes)
{
    int n = 0;
    for (size_t i = 0; i < bytes && value[i] >= '0' && value[i] <= '9'; i++) {
        n = 10 * n + (value[i] - '0');
        if (n > MOST_RANK) return -1;
    }
    return n;
}

void place_set(place *p, const char *name, const char *value, size_t bytes)
{
    if (bytes == 0) return;
    if (strcmp(name, "rank") == 0 && p->rank < 0) p->rank = number(value, bytes);
    if (strcmp(name, "local") == 0 && p->local < 0) p->local = number(value, bytes);
    if (strcmp(name, "host") == 0 && !p->host[0] && bytes < sizeof p->host)
        snprintf(p->host, sizeof p->host, "%.*s", (int)bytes, value);
}

static void take(const expression *x, const char *line, size_t bytes, place *p)
{
    expression_match m;
    if (!expression_find(x, line, bytes, &m)) return;
    for (int i = 0; i < m.count; i++)
        place_set(p, m.group[i].name, line + m.group[i].begin, m.group[i].end - m.group[i].begin);
}

static int month_of(const char *name)
{
    static const char MONTHS[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    const char *at_month = strstr(MONTHS, name);
    return at_month ? (int)(at_month - MONTHS) / 3 + 1 : 1;
}

// Months count 31 days, so that times of different logs compare without a calendar. A run over New Year is compared
// wrongly.
static double seconds_of(const expression_match *m, const char *line)
{
    double month = 1, day = 1, hour = 0, minute = 0, second = 0;
    for (int i = 0; i < m->count; i++) {
        char value[24];
        const expression_group *g = &m->group[i];
        snprintf(value, sizeof value, "%.*s", (int)(g->end - g->begin), line + g->begin);
        const double n = number(value, strlen(value));
        if (strcmp(g->name, "month") == 0) month = n;
        if (strcmp(g->name, "name") == 0) month = month_of(value);
        if (strcmp(g->name, "day") == 0) day = n;
        if (strcmp(g->name, "hour") == 0) hour = n;
        if (strcmp(g->name, "minute") == 0) minute = n;
        if (strcmp(g->name, "second") == 0) {
            char *point = strchr(value, ',');
            if (point) *point = '.';
            second = strtod(value, NULL);
        }
    }
    return ((month * 31 + day) * 24 + hour) * 3600 + minute * 60 + second;
}

void place_read_time(const place_reader *r, const char *line, size_t bytes, place *p)
{
    expression_match m;
    for (int i = 0; i < TIME_COUNT && p->when < 0; i++)
        if (expression_find(r->time[i], line, bytes < HEAD_BYTES ? bytes : HEAD_BYTES, &m))
            p->when = seconds_of(&m, line);
}

void place_read(const place_reader *r, const char *line, size_t bytes, place *p)
{
    expression_match m;
    const size_t head = bytes < HEAD_BYTES ? bytes : HEAD_BYTES;
    const size_t begin = expression_find(r->before, line, head, &m) ? m.end : 0;
    for (int i = 0; i < PREFIX_COUNT; i++) take(r->prefix[i], line + begin, head - begin, p);
    place_read_time(r, line, bytes, p);
}

void place_read_block(const place_reader *r, const char *line, size_t bytes, place *p)
{
    for (int i = 0; i < BLOCK_COUNT; i++) take(r->block[i], line, bytes, p);
}

void place_read_path(const place_reader *r, const char *path, place *p)
{
    for (int i = 0; i < PATH_COUNT && p->rank < 0 && p->local < 0; i++)
        take(r->path[i], path, strlen(path), p);
}
