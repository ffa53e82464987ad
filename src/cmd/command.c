// command.c -- finds the row that a command line calls, and runs it or prints its help. Called by
// main. It knows commands only by their rows.
#include "cmd/command.h"

#include "base/text.h"
#include "cmd/cmd.h"
#include "cmd/help.h"

#include <stdio.h>
#include <string.h>

enum { TITLE_BYTES = 80 };

const command *command_find_sub(const command *of, const char *word)
{
    for (size_t i = 0; of->subcommands && of->subcommands[i]; i++) {
        const char *name = of->subcommands[i]->name;
        const size_t bytes = strcspn(name, " ");
        if (strlen(word) == bytes && memcmp(word, name, bytes) == 0) return of->subcommands[i];
    }
    return NULL;
}

status command_unknown(const command *of, const char *title, const char *word, err *e)
{
    const char *names[64];
    size_t count = 0;
    while (count < 64 && of->subcommands && of->subcommands[count]) {
        names[count] = of->subcommands[count]->name;
        count++;
    }
    const char *near = text_nearest(word, names, count);
    const bool top = of == &command_trireme;
    const char *below = top ? "" : title + strlen("trireme ");
    return err_set(e, E_USAGE,
                   "there is no command '%s%s%.*s'%s%s%s; `trireme help%s%s` lists them", below,
                   top ? "" : " ", TEXT_CUT(word, 100), near ? ", did you mean '" : "",
                   near ? near : "", near ? "'" : "", top ? "" : " ", below);
}

static void visit_all(const command *of, const char *title,
                      void (*visit)(const command *c, const char *title, void *arg), void *arg)
{
    for (size_t i = 0; of->subcommands[i]; i++) {
        const command *c = of->subcommands[i];
        text below = {0};
        text_addf(&below, "%s%s%s", title, *title ? " " : "", c->name);
        if (!c->subcommands || c->run) visit(c, below.chars, arg);
        if (c->subcommands) visit_all(c, below.chars, visit, arg);
        text_clear(&below);
    }
}

void command_each(const command *of, void (*visit)(const command *c, const char *title, void *arg),
                  void *arg)
{
    visit_all(of, "", visit, arg);
}

static bool is_long_help(const char *word)
{
    return strcmp(word, "--help") == 0 || strncmp(word, "--help=", 7) == 0;
}

// The index of the argument that asks for help, or 0. --help is never the value of a flag. -h is
// one only after a flag of the command that needs a value.
static int help_index(const command *c, int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (c->takes_program && argv[i][0] != '-') break;
        if (is_long_help(argv[i]) || strcmp(argv[i], "-h") == 0) return i;
        const flag *f = flag_find(c->flags, c->flag_count, argv[i]);
        const bool needs_value = f && f->kind != FLAG_SWITCH && !strchr(argv[i], '=');
        if (needs_value && i + 1 < argc && !is_long_help(argv[i + 1])) i++;
    }
    return 0;
}

// Prints help of the command, or of the flag or key after --help, which is argv[index].
static int call_help(const command *c, char title[TITLE_BYTES], int argc, char **argv, int index)
{
    err e = {0};
    const char *topic = NULL;
    int next = index + 1;
    if (strncmp(argv[index], "--help=", 7) == 0)
        topic = argv[index] + 7;
    else if (next < argc && argv[next][0] != '-')
        topic = argv[next++];
    const command *sub = topic ? command_find_sub(c, topic) : NULL;
    if (sub) snprintf(title + strlen(title), TITLE_BYTES - strlen(title), " %s", sub->name);
    if (!topic || sub) {
        help_command(sub ? sub : c, title, stdout);
        return 0;
    }
    // The other arguments are a job's; help_topic prints the key's value in it and the origin.
    int rest = index;
    while (next < argc) argv[rest++] = argv[next++];
    return help_topic(c, title, topic, rest, argv, &e) == OK ? 0 : cmd_fail(&e);
}

// Puts flags that stand before the name of a subcommand behind it, which takes them: "--config FILE model" becomes
// "model --config FILE". *names is whether there is a name.
static status move_flags(const command *c, int argc, char **argv, bool *names, err *e)
{
    int first = 1;
    const flag *f;
    while (first < argc && (f = flag_find(c->flags, c->flag_count, argv[first]))) {
        const bool is_one_word = f->kind == FLAG_SWITCH || strchr(argv[first], '=');
        first += is_one_word ? 1 : 2;
        if (first > argc)
            return err_set(e, E_USAGE, "%s: needs a value (%s)", flag_long_name(f), f->value);
    }
    *names = first < argc;
    if (!*names) return OK;
    char *name = argv[first];
    memmove(argv + 2, argv + 1, (size_t)(first - 1) * sizeof *argv);
    argv[1] = name;
    return OK;
}

int command_call(int argc, char **argv)
{
    err e = {0};
    const command *c = &command_trireme;
    char title[TITLE_BYTES] = "trireme";
    while (c->subcommands) {
        if (c->run && (argc < 2 || !command_find_sub(c, argv[1]))) break;
        bool names = false;
        if (move_flags(c, argc, argv, &names, &e) != OK) return cmd_fail(&e);
        if (!names) {
            help_command(c, title, stderr);
            return 2;
        }
        const command *sub = command_find_sub(c, argv[1]);
        if (!sub && help_index(c, 2, argv)) return call_help(c, title, argc, argv, 1);
        if (!sub && c == &command_trireme && strcmp(argv[1], "--version") == 0) {
            printf("trireme %s\n", TRIREME_VERSION);
            return 0;
        }
        if (!sub) {
            command_unknown(c, title, argv[1], &e);
            return cmd_fail(&e);
        }
        const size_t used = strlen(title);
        snprintf(title + used, sizeof title - used, " %s", sub->name);
        c = sub;
        argc--, argv++;
    }
    const int help = help_index(c, argc, argv);
    if (help) return call_help(c, title, argc, argv, help);
    return c->run(argc, argv);
}
