// help.c -- prints help of the program, of a command, of one flag or key. Called by command.c and
// `trireme help`. Its sentences come from the rows of commands and keys.
#include "cmd/help.h"

#include "base/text.h"
#include "cmd/cmd.h"
#include "cmd/console.h"
#include "config/job.h"

#include <stdlib.h>
#include <string.h>

enum { COLUMNS = 100, NAME_COLUMNS = 28 };

void help_wrap(const char *sentences, int indent, FILE *out)
{
    int column = 0;
    for (const char *word = sentences; *word;) {
        const int bytes = (int)strcspn(word, " \n");
        if (column && column + 1 + bytes > COLUMNS) {
            fputc('\n', out);
            column = 0;
        }
        if (!column)
            column = fprintf(out, "%*s%.*s", indent, "", bytes, word);
        else
            column += fprintf(out, " %.*s", bytes, word);
        word += bytes;
        for (; *word == ' ' || *word == '\n'; word++)
            if (*word == '\n') {
                fputc('\n', out);
                column = 0;
            }
    }
    if (column) fputc('\n', out);
}

static void print_row(const command *c, const char *title, void *arg)
{
    fprintf(arg, "  %-*s%s\n", NAME_COLUMNS, title, c->help);
}

static void print_subcommands(const command *c, const char *title, FILE *out)
{
    const bool top = c == &command_trireme;
    if (top)
        fprintf(out, "trireme %s: %s\n\n", TRIREME_VERSION, c->help);
    else
        fprintf(out, "%s: %s\n\n", title, c->help);
    fprintf(out, "usage: %s %sCOMMAND [arguments]\n\n", title, c->flag_count ? "[flags] " : "");
    command_each(c, print_row, out);
    if (c->flag_count) {
        fputc('\n', out);
        flags_help(c->flags, c->flag_count, out);
    }
    fprintf(out,
            "\n`%s COMMAND --help` explains a command, `trireme help KEY` a key of the job file.\n",
            title);
    if (top)
        fputs("Exit codes: 0 done, 1 the run failed, 2 bad usage or input, 3 does not fit in "
              "memory,\n130 interrupted and saved.\n",
              out);
}

static void print_usage(const command *c, const char *title, FILE *out)
{
    const char *form = c->usage ? c->usage : "";
    const char *before = "usage:";
    do {
        const int bytes = (int)strcspn(form, "\n");
        fprintf(out, "%s %s%s%.*s\n", before, title, bytes ? " " : "", bytes, form);
        before = "      ";
        form += bytes + (form[bytes] == '\n');
    } while (*form);
}

static void print_keys(FILE *out)
{
    text t = {0};
    job_help(&t);
    fprintf(out, "\n%s", t.chars ? t.chars : "");
    text_clear(&t);
}

void help_command(const command *c, const char *title, FILE *out)
{
    if (c->subcommands && !c->run) {
        print_subcommands(c, title, out);
        return;
    }
    print_usage(c, title, out);
    fputc('\n', out);
    help_wrap(c->help, 0, out);
    if (c->about) help_wrap(c->about, 0, out);
    if (c->flag_count) {
        fputc('\n', out);
        flags_help(c->flags, c->flag_count, out);
    }
    if (c->subcommands) {
        fputc('\n', out);
        command_each(c, print_row, out);
    }
    if (c == &command_train)
        print_keys(out);
    else if (c->takes_job)
        fprintf(out,
                "\nEvery key of the job file is also a flag: `trireme train --help` lists them, "
                "`%s --help KEY` explains one.\n",
                title);
}

// The key's value in the job of the arguments. Without arguments it prints nothing.
static status print_value_in_job(const command *c, const char *path, int argc, char **argv, err *e)
{
    status result = OK;
    job *j = NULL;
    text value = {0}, from = {0};
    if (!c->takes_job || argc < 2 || !path) goto done;
    TRY(flags_take(c->flags, c->flag_count, &argc, argv, NULL, e));
    TRY(cmd_open_job(argc, argv, &j, e));
    if (job_find_value(j, path, &value, &from))
        console_line("  %-10s %s (origin: %s)", "here", value.chars, from.chars);
    else
        printf("  %-10s not read by this job\n", "here");
done:
    text_clear(&value);
    text_clear(&from);
    job_close(j);
    return result;
}

static const flag *find_topic_flag(const command *c, const char *word)
{
    text name = {0};
    text_addf(&name, "%s%s", word[0] == '-' ? "" : "--", word);
    const flag *f = flag_find(c->flags, c->flag_count, name.chars);
    text_clear(&name);
    return f;
}

static status unknown_flag(const command *c, const char *title, const char *word, err *e)
{
    const char *names[128];
    size_t count = 0;
    for (; count < 128 && count < c->flag_count; count++)
        names[count] = flag_long_name(&c->flags[count]) + 2;
    const char *near = text_nearest(word, names, count);
    return err_set(e, E_USAGE, "--help: %.*s: no flag of %s%s%s%s", TEXT_CUT(word, 100), title,
                   near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}

status help_topic(const command *c, const char *title, const char *word, int argc, char **argv,
                  err *e)
{
    status result = OK;
    text t = {0};
    const flag *f = find_topic_flag(c, word);
    if (f) {
        flags_help(f, 1, stdout);
        goto done;
    }
    if (!c->takes_job && (!c->subcommands || c->run)) {
        result = unknown_flag(c, title, word, e);
        goto done;
    }
    TRY(job_help_topic(word, &t, e));
    fputs(t.chars ? t.chars : "", stdout);
    TRY(print_value_in_job(c, job_help_find(word), argc, argv, e));
done:
    text_clear(&t);
    return result;
}

// ---- trireme help

typedef struct help_request {
    bool man;
} help_request;

static const flag flags[] = {
    {"--man", FLAG_SWITCH, offsetof(help_request, man), NULL,
     "Prints the whole manual as a page for man (troff)."},
};
enum { FLAGS = sizeof flags / sizeof *flags };

// The row that the first *used words call. The other words call no command.
static const command *find_command(const flag_texts *words, char *title, size_t bytes, size_t *used)
{
    const command *c = &command_trireme;
    snprintf(title, bytes, "trireme");
    *used = 0;
    while (*used < words->count && c->subcommands && command_find_sub(c, words->items[*used])) {
        c = command_find_sub(c, words->items[(*used)++]);
        const size_t length = strlen(title);
        snprintf(title + length, bytes - length, " %s", c->name);
    }
    return c;
}

static status help(const flag_texts *words, err *e)
{
    status result = OK;
    char title[80];
    size_t used;
    const command *c = find_command(words, title, sizeof title, &used);
    const char *topic = used < words->count ? words->items[used] : NULL;
    if (!topic)
        help_command(c, title, stdout);
    else if (job_help_find(topic) || strchr(topic, '.') || !c->subcommands || c->run)
        TRY(help_topic(c, title, topic, 1, NULL, e));
    else if (c != &command_trireme || !help_search_word(topic, stdout))
        result = command_unknown(c, title, topic, e);
done:
    return result;
}

static int cmd_help(int argc, char **argv)
{
    status result = OK;
    err error = {0}, *e = &error;
    help_request r = {.man = false};
    flag_texts words = {0};
    TRY(flags_parse(flags, FLAGS, argc, argv, &r, &words, e));
    if (r.man)
        help_manual(stdout);
    else
        TRY(help(&words, e));
done:
    flag_texts_clear(&words);
    return result == OK ? 0 : cmd_fail(e);
}

const command command_help = {
    .name = "help",
    .run = cmd_help,
    .usage = "[COMMAND | KEY | WORD] [--man]",
    .help = "Lists the commands, or explains one command or one key of the job file.",
    .about = "A word that is neither is searched: help lists the keys, with their aliases, and the "
             "commands that speak of it.",
    .flags = flags,
    .flag_count = FLAGS,
};
