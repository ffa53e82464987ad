// cmd.c -- flags, failures and help, as every command has them.
#include "cmd/cmd.h"

#include "base/text.h"
#include "config/job.h"

#include <stdio.h>
#include <string.h>

int cmd_fail(const err *e)
{
    fflush(stdout);
    fprintf(stderr, "trireme: %s\n", e->text);
    return status_exit_code(e->code);
}

int cmd_job_help(const char *usage)
{
    text t = {0};
    job_help(&t);
    printf("%s%s", usage, t.at ? t.at : "");
    text_clear(&t);
    return 0;
}

static const cmd_flag *find_flag(const char *word, size_t length, const cmd_flag *flags, int count)
{
    for (int i = 0; i < count; i++)
        if (strlen(flags[i].name) == length && strncmp(flags[i].name, word, length) == 0)
            return &flags[i];
    return NULL;
}

static status unknown_flag(const char *command, const char *word, const cmd_flag *flags, int count,
                           err *e)
{
    enum { MOST = 64 };
    const char *names[MOST];
    int n = 0;
    for (; n < count && n < MOST; n++) names[n] = flags[n].name;
    const char *near = text_nearest(word, names, (size_t)n);
    return err_set(e, E_USAGE, "%s: unknown flag --%s%s%s%s; `trireme %s --help` lists the flags",
                   command, word, near ? ", did you mean --" : "", near ? near : "",
                   near ? "?" : "", command);
}

status cmd_flags(int argc, char **argv, const cmd_flag *flags, int count, const char **rest,
                 int rest_max, int *rest_count, err *e)
{
    *rest_count = 0;
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "--", 2) != 0) {
            if (*rest_count == rest_max)
                return err_set(e, E_USAGE, "%s: unexpected argument %s", argv[0], argv[i]);
            rest[(*rest_count)++] = argv[i];
            continue;
        }
        const char *word = argv[i] + 2, *equals = strchr(word, '=');
        size_t length = equals ? (size_t)(equals - word) : strlen(word);
        const cmd_flag *f = find_flag(word, length, flags, count);
        if (!f) return unknown_flag(argv[0], word, flags, count, e);
        if (f->is_switch && equals)
            return err_set(e, E_USAGE, "%s: --%s takes no value", argv[0], f->name);
        if (!f->is_switch && !equals && i + 1 == argc)
            return err_set(e, E_USAGE, "%s: --%s needs a value", argv[0], f->name);
        *f->value = f->is_switch ? "" : equals ? equals + 1 : argv[++i];
    }
    return OK;
}
