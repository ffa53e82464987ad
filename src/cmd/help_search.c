// help_search.c -- `trireme help WORD` for a word that names no command and no key: lists the keys and commands that
// speak of it. Called by help.c. It knows keys and commands by their rows only.
#include "cmd/command.h"
#include "cmd/help.h"
#include "config/job.h"

#include <ctype.h>
#include <string.h>

typedef struct help_search {
    const char *word;
    const char *heading; // printed before the first row that is found; NULL: it was printed
    FILE *out;
    int found;
} help_search;

static char folded(char c)
{
    return c == '-' ? '_' : (char)tolower((unsigned char)c);
}

// Returns whether `word` begins a word of `where`. Case does not count, and '-' equals '_'.
static bool speaks_of(const char *where, const char *word)
{
    const size_t bytes = strlen(word);
    for (size_t i = 0; where && where[i]; i++) {
        size_t same = 0;
        if (i > 0 && isalnum((unsigned char)where[i - 1])) continue;
        while (same < bytes && where[i + same] && folded(where[i + same]) == folded(word[same]))
            same++;
        if (same == bytes) return true;
    }
    return false;
}

static void print_found(help_search *s, const char *name, const char *sentence, const char *also)
{
    if (s->heading) fprintf(s->out, "%s%s\n", s->found ? "\n" : "", s->heading);
    s->heading = NULL;
    s->found++;
    fprintf(s->out, "  %s%s%s%s\n", name, also ? " (" : "", also ? also : "", also ? ")" : "");
    help_wrap(sentence, 6, s->out);
}

// The alias in "fsdp = zero3, FULL_SHARD = zero3" that speaks of the word, else NULL.
static const char *find_alias(const char *also, const char *word, char out[64])
{
    while (also && *also) {
        const size_t bytes = strcspn(also, ",");
        snprintf(out, 64, "%.*s", (int)bytes, also);
        if (speaks_of(out, word)) return out;
        also += bytes + strspn(also + bytes, ", ");
    }
    return NULL;
}

static void visit_key(const key_help *k, void *arg)
{
    help_search *s = arg;
    char alias[64];
    const char *also = find_alias(k->also.chars, s->word, alias);
    if (also || speaks_of(k->path, s->word) || speaks_of(k->help, s->word) ||
        speaks_of(k->valid.chars, s->word))
        print_found(s, k->path, k->help, also);
}

static void visit_command(const command *c, const char *title, void *arg)
{
    help_search *s = arg;
    const char *flag_name = NULL;
    for (size_t i = 0; i < c->flag_count && !flag_name; i++)
        if (speaks_of(c->flags[i].name, s->word) || speaks_of(c->flags[i].help, s->word))
            flag_name = flag_long_name(&c->flags[i]);
    if (flag_name || speaks_of(title, s->word) || speaks_of(c->help, s->word) ||
        speaks_of(c->about, s->word))
        print_found(s, title, c->help, flag_name);
}

bool help_search_word(const char *word, FILE *out)
{
    help_search s = {.word = word, .heading = "Keys of the job file:", .out = out};
    if (!*word) return false;
    job_help_each(visit_key, &s);
    s.heading = "Commands:";
    command_each(&command_trireme, visit_command, &s);
    if (s.found)
        fputs("\n`trireme help KEY` explains a key, `trireme help COMMAND` a command.\n", out);
    return s.found > 0;
}
