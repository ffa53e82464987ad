// rows.c -- see rows.h.
#include "diagnose/rows.h"

#include "base/alloc.h"
#include "diagnose/literals.h"

#include <stdlib.h>
#include <string.h>

// Words of lines that report an error. They are looked at where no row knows a line.
static const char *const ERROR_WORDS[] = {"rror",        "ERROR",     "ailed",    "FAILED",
                                          "ailure",      "atal",      "FATAL",    "xception",
                                          "raceback",    "NCCL WARN", "Aborted",  "aborted",
                                          "core dumped", "Killed",    "killed",   "timed out",
                                          "on-zero",     "WTERMSIG",  "rash",     "panic",
                                          "BUG: ",       "denied",    "egfault",  "annot",
                                          "ould not",    "orrupt",    "xit code", "xit status",
                                          "efused",      "nable to",  "ancelled", "CANCELLED"};
static const char ERROR_LINE[] =
    "(?i)^(?!.*\\b(?:info|debug|\\w*warning|note)\\b)"
    "(?!.*\\b(?:no|0|zero|without|any) (?:\\w+ )?(?:errors?|failures?|exceptions?)\\b)"
    "(?!.*errors?[\"' ]*[:=] *[\"']?(?:0(?:\\.\\d+)?(?:e-?\\d+)?\\b|none|null|\\[\\]))"
    "(?!.*\\b(?:squared|mean|relative|absolute|test|train\\w*|valid\\w*|eval\\w*|max|rms|l2)[-_ ]"
    "error)(?!.*error[-_ ]?(?:rate|bars?|file|handler|correct))"
    ".*?(?<![/"
    "-])(?:\\w*error\\b|\\bfatal\\b|\\w*exception\\b|\\bfailed\\b|\\bfailure\\b|^traceback |nccl "
    "warn|"
    "\\baborted\\b|core dumped|\\bnon-zero\\b|wtermsig "
    "[1-9]|\\bcrash(?:ed|es)?\\b|\\bpanic\\b|\\bbug: "
    "|\\bdenied\\b|\\bsegfault|\\bcannot\\b|\\bcould not\\b|\\bcorrupt(?:ed)?\\b|exit "
    "(?:code|status):? *[1-9]|\\bkilled\\b|\\btimed out\\b|\\brefused\\b|\\bunable "
    "to\\b|\\bcancelled\\b)(?![/-]|\\.[a-z])";

enum { ERROR_COUNT = sizeof ERROR_WORDS / sizeof *ERROR_WORDS };

// A pattern with its cause.
typedef struct row_pattern {
    int cause;     // -1: of ERROR_LINE
    expression *x; // NULL: the literal is enough
    bool seen;     // in the line that is being read
} row_pattern;

struct rows {
    literals *l;
    row_pattern *pattern; // [count], in the order of the causes
    int count;
    expression *error;
};

void rows_close(rows *r)
{
    if (!r) return;
    for (int i = 0; i < r->count; i++) expression_close(r->pattern[i].x);
    free(r->pattern);
    expression_close(r->error);
    literals_close(r->l);
    free(r);
}

status rows_open(rows **out, err *e)
{
    status result = OK;
    rows *r = NULL;
    const char **literal = NULL;
    const int causes = diagnose_cause_count();
    const size_t most = (size_t)causes * DIAGNOSE_PATTERNS + ERROR_COUNT;
    TRY(alloc_zeroed(&r, 1, sizeof *r, "a log's patterns", e));
    TRY(alloc_zeroed(&r->pattern, most, sizeof *r->pattern, "a log's patterns", e));
    TRY(alloc_array(&literal, most, sizeof *literal, "a log's patterns", e));
    for (int cause = 0; cause < causes; cause++) {
        const diagnose_pattern *p = diagnose_cause_at(cause)->pattern;
        for (int i = 0; i < DIAGNOSE_PATTERNS && p[i].literal; i++) {
            row_pattern *own = &r->pattern[r->count];
            if (p[i].regex) TRY(expression_open(p[i].regex, &own->x, e));
            own->cause = cause;
            literal[r->count++] = p[i].literal;
        }
    }
    for (int i = 0; i < ERROR_COUNT; i++) {
        r->pattern[r->count].cause = -1;
        literal[r->count++] = ERROR_WORDS[i];
    }
    TRY(expression_open(ERROR_LINE, &r->error, e));
    TRY(literals_open(literal, r->count, &r->l, e));
    *out = r;
    r = NULL;
done:
    free(literal);
    rows_close(r);
    return result;
}

const char *rows_first(const rows *r, const char *from, const char *end)
{
    return literals_first(r->l, from, end);
}

static void mark(void *arg, int literal)
{
    ((rows *)arg)->pattern[literal].seen = true;
}

int rows_find(rows *r, const char *line, size_t bytes, const bool *passed, rows_hit *hit,
              bool *is_error)
{
    int count = 0;
    bool has_word = false;
    literals_each(r->l, line, line + bytes, mark, r);
    for (int i = 0; i < r->count; i++) {
        row_pattern *p = &r->pattern[i];
        if (!p->seen) continue;
        p->seen = false;
        has_word |= p->cause < 0;
        if (p->cause < 0 || passed[p->cause] || count == ROWS_HITS) continue;
        if (count > 0 && hit[count - 1].cause == p->cause) continue;
        if (count > 0 && diagnose_cause_at(p->cause)->last_resort) continue;
        hit[count] = (rows_hit){.cause = p->cause, .match = {.end = bytes}};
        if (!p->x || expression_find(p->x, line, bytes, &hit[count].match)) count++;
    }
    *is_error = *is_error && has_word && expression_find(r->error, line, bytes, NULL);
    return count;
}
