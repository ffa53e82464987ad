// change.c -- prints the keys in which a changed copy of a job differs, and sets them in the job.
// See job_describe_changes in job.h. session/ calls it for memory.fit. It does not know why keys
// changed.
#include "config/private.h"
#include "config/values.h"

#include <stdlib.h>
#include <string.h>

// Appends the value as an argument of the command line: lists as a,b.
static void add_argument(const job *j, const job_key *k, text *out)
{
    text value = {0};
    value_format(j, k, &value);
    for (const char *c = value.chars; c && *c; c++)
        if (!strchr("[] ", *c)) text_add_bytes(out, c, 1);
    if (value.failed) text_fail(out);
    text_clear(&value);
}

static status compare(const job *a, const job *b, const job_key *k, bool *differ, err *e)
{
    status result = OK;
    text left = {0}, right = {0};
    *differ = false;
    if (k->offset == KEY_UNSTORED || value_is_set(a, k) != value_is_set(b, k)) return OK;
    if (!value_is_set(a, k)) return OK;
    value_format(a, k, &left);
    value_format(b, k, &right);
    TRY(text_check(&left, e));
    TRY(text_check(&right, e));
    *differ = strcmp(left.chars, right.chars) != 0;
done:
    text_clear(&left);
    text_clear(&right);
    return result;
}

void job_describe_changes(const job *j, const job *changed, text *out)
{
    for (int i = 0; i < JOB_KEY_COUNT; i++) {
        const job_key *k = &JOB_KEYS[i];
        bool differ;
        if (compare(j, changed, k, &differ, NULL) != OK) text_fail(out);
        if (!differ) continue;
        text_addf(out, "%s%s%s ", out->bytes ? " " : "", j->own.by_calls ? "" : "--", k->path);
        add_argument(changed, k, out);
    }
}

status job_take_changes(job *j, const job *changed, const char *origin, err *e)
{
    status result = OK;
    text arguments = {0};
    for (int i = 0; i < JOB_KEY_COUNT; i++) {
        const job_key *k = &JOB_KEYS[i];
        bool differ;
        TRY(compare(j, changed, k, &differ, e));
        if (!differ) continue;
        text_clear(&arguments);
        add_argument(changed, k, &arguments);
        TRY(text_check(&arguments, e));
        TRY(settings_change(j->values, k->path, arguments.chars, origin, e));
        TRY(value_set(j, k, settings_of(j->values, k->path)->value, e));
    }
    TRY(job_check_parallel(j, e));
done:
    text_clear(&arguments);
    return result;
}
