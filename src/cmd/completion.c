// completion.c -- `trireme completion`: scripts with which a shell completes arguments. A script
// asks the program for the words (`trireme completion words`), so it knows no command, flag or key
// itself.
#include "cmd/cmd.h"
#include "cmd/command.h"

#include "base/text.h"
#include "config/job.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static const char bash_script[] =
    "# Completion of trireme's arguments in bash: source this file.\n"
    "_trireme() {\n"
    "    local IFS=$'\\n'\n"
    "    COMPREPLY=($(\"${COMP_WORDS[0]/#\\~/$HOME}\" completion words -- "
    "\"${COMP_WORDS[@]:1:COMP_CWORD}\" 2>/dev/null))\n"
    "}\n"
    "complete -o default -F _trireme trireme\n";

static const char zsh_script[] =
    "#compdef trireme\n"
    "# Completion of trireme's arguments in zsh: a file _trireme in a folder of $fpath, or source "
    "it.\n"
    "_trireme() {\n"
    "    local -a found\n"
    "    found=(\"${(@f)$(\"${words[1]/#\\~/$HOME}\" completion words -- "
    "\"${(@)words[2,CURRENT]}\" 2>/dev/null)}\")\n"
    "    if [[ -n ${found[1]} ]]; then compadd -- $found; else _files; fi\n"
    "}\n"
    "if [[ ${funcstack[1]} == _trireme ]]; then _trireme \"$@\"; else compdef _trireme trireme; "
    "fi\n";

// Prints `before` and `word` if together they begin with the typed text.
static void complete_word(const char *typed, const char *before, const char *word)
{
    text whole = {0};
    text_addf(&whole, "%s%s", before, word);
    if (strncmp(whole.chars, typed, strlen(typed)) == 0) puts(whole.chars);
    text_clear(&whole);
}

// Offers the words of "auto|never|DIR". Names in capitals stand for values of the user.
static void complete_choices(const char *typed, const char *before, const char *choices)
{
    for (const char *choice = choices; *choice;) {
        const size_t bytes = strcspn(choice, "|");
        char word[64];
        snprintf(word, sizeof word, "%.*s", (int)bytes, choice);
        if (strchr(choices, '|') && !isupper((unsigned char)word[0]))
            complete_word(typed, before, word);
        choice += bytes + (choice[bytes] == '|');
    }
}

// The visit of all keys completes keys, or the values of one key.
typedef struct completion_visit {
    const char *typed, *before, *key;
} completion_visit;

static void complete_key(const key_help *k, void *arg)
{
    const completion_visit *l = arg;
    if (!k->of_entry || !*l->before) complete_word(l->typed, l->before, k->path);
}

static void complete_value(const key_help *k, void *arg)
{
    const completion_visit *l = arg;
    if (strcmp(k->path, l->key) != 0) return;
    if (k->special) complete_word(l->typed, l->before, k->special);
    for (int i = 0; k->words && k->words[i]; i++) complete_word(l->typed, l->before, k->words[i]);
}

// Offers the values of "--name", each with `before` in front.
static void complete_values(const command *c, const char *name, const char *typed,
                            const char *before)
{
    const flag *f = flag_find(c->flags, c->flag_count, name);
    if (f && f->value) complete_choices(typed, before, f->value);
    if (!f && c->takes_job)
        job_help_each(complete_value,
                      &(completion_visit){.typed = typed, .before = before, .key = name + 2});
}

static void complete_subcommands(const command *c, const char *typed)
{
    for (size_t i = 0; c->subcommands && c->subcommands[i]; i++)
        complete_word(typed, "", c->subcommands[i]->name);
}

static void complete_flags(const command *c, const char *typed)
{
    for (size_t i = 0; i < c->flag_count; i++)
        complete_word(typed, "", flag_long_name(&c->flags[i]));
    complete_word(typed, "", "--help");
    if (c->takes_job)
        job_help_each(complete_key, &(completion_visit){.typed = typed, .before = "--"});
}

// Returns whether the word after `before` is its value.
static bool takes_value(const command *c, const char *before)
{
    const flag *f = flag_find(c->flags, c->flag_count, before);
    if (strncmp(before, "--", 2) != 0 || strchr(before, '=')) return false;
    return f ? f->kind != FLAG_SWITCH : c->takes_job && job_help_find(before + 2);
}

// Completes the last argument of a command. bash passes --key=value as three words, zsh as one.
static void complete_argument(const command *c, int count, char **words)
{
    const char *typed = words[count - 1], *before = count > 1 ? words[count - 2] : "";
    const char *equals = strncmp(typed, "--", 2) == 0 ? strchr(typed, '=') : NULL;
    if (strcmp(before, "=") == 0 && count > 2) {
        before = words[count - 3];
    } else if (strcmp(typed, "=") == 0 && count > 1) {
        typed = "";
    } else if (equals) {
        text name = {0}, prefix = {0};
        text_add_bytes(&name, typed, (size_t)(equals - typed));
        text_addf(&prefix, "%s=", name.chars);
        complete_values(c, name.chars, typed, prefix.chars);
        text_clear(&name);
        text_clear(&prefix);
        return;
    }
    if (strcmp(before, "--help") == 0)
        job_help_each(complete_key, &(completion_visit){.typed = typed, .before = ""});
    else if (takes_value(c, before))
        complete_values(c, before, typed, "");
    else if (typed[0] == '-')
        complete_flags(c, typed);
    else if (c->usage && !strchr(c->usage, ' '))
        complete_choices(typed, "", c->usage);
}

static void complete(int count, char **words)
{
    const command *c = &command_trireme;
    int used = 0;
    const bool help = count > 1 && strcmp(words[0], "help") == 0;
    if (help) used++;
    while (used < count - 1 && c->subcommands && command_find_sub(c, words[used]))
        c = command_find_sub(c, words[used++]);
    if (c->subcommands && used == count - 1) {
        complete_subcommands(c, words[used]);
        if (!c->run) complete_word(words[used], "", "--help");
        if (c == &command_trireme) complete_word(words[used], "", "--version");
    }
    if (help && c == &command_trireme)
        job_help_each(complete_key, &(completion_visit){.typed = words[count - 1], .before = ""});
    if ((!c->subcommands || c->run) && !help) complete_argument(c, count - used, words + used);
}

static int cmd_completion(int argc, char **argv)
{
    err e = {0};
    const char *word = argc > 1 ? argv[1] : "";
    if (strcmp(word, "bash") == 0 && argc == 2)
        fputs(bash_script, stdout);
    else if (strcmp(word, "zsh") == 0 && argc == 2)
        fputs(zsh_script, stdout);
    else if (strcmp(word, "words") == 0 && argc > 3 && strcmp(argv[2], "--") == 0)
        complete(argc - 3, argv + 3);
    else {
        err_set(&e, E_USAGE, "completion: found '%.*s'; valid: bash, zsh", TEXT_CUT(word, 60));
        return cmd_fail(&e);
    }
    return 0;
}

const command command_completion = {
    .name = "completion",
    .run = cmd_completion,
    .usage = "bash|zsh",
    .help = "Prints a script that lets a shell complete commands, flags, keys and their values.",
    .about = "In bash: source <(trireme completion bash). The script asks the installed "
             "program for the words, so it always completes those of that version.",
};
