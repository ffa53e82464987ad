// arguments.c -- makes a tree of a command line's arguments, given as words or as the text of a shell script. dialect.c
// calls it. See private.h.
#include "config/dialect/private.h"

#include "base/alloc.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { ARGUMENTS_MAX = 4096 };

// "--num-layers" without dashes, as the key num_layers; `bytes` of the name.
static status key_of(const char *name, size_t bytes, text *out, err *e)
{
    text_clear(out);
    text_add_bytes(out, name, bytes);
    for (size_t i = 0; i < out->bytes; i++)
        if (out->chars[i] == '-') out->chars[i] = '_';
    return text_check(out, e);
}

static bool is_option(const char *word)
{
    return word[0] == '-' && (isalpha((unsigned char)word[1]) || (word[1] == '-' && word[2]));
}

static status add_item(yaml_node *list, const char *word, int line, err *e)
{
    yaml_node *n = NULL;
    const status result = yaml_node_scalar(word, line, &n, e);
    if (result == OK) yaml_node_append(list, n);
    return result;
}

// The value of option argv[*i], after which *i stands on the last argument that it takes.
static status take_option(const dialect_row *row, const char *equals, int argc, char *const *argv,
                          int *i, int line, yaml_node **out, err *e)
{
    status result = OK;
    yaml_node *n = NULL;
    const bool has_next = *i + 1 < argc && !is_option(argv[*i + 1]);
    bool flag;
    if (equals) {
        TRY(yaml_node_scalar(equals + 1, line, &n, e));
    } else if (row && row->type == DIALECT_LIST) {
        TRY(yaml_node_list(line, &n, e));
        while (*i + 1 < argc && !is_option(argv[*i + 1])) TRY(add_item(n, argv[++*i], line, e));
    } else if (!has_next ||
               (row && row->type == DIALECT_BOOL && !text_to_bool(argv[*i + 1], &flag))) {
        TRY(yaml_node_scalar("true", line, &n, e));
    } else {
        TRY(yaml_node_scalar(argv[++*i], line, &n, e));
    }
    *out = n;
    n = NULL;
done:
    yaml_node_free(n);
    return result;
}

static void put(yaml_node *map, yaml_node *n)
{
    yaml_node *last = NULL;
    for (yaml_node *c = map->first; c; last = c, c = c->next) {
        if (strcmp(c->key, n->key) != 0) continue;
        if (last)
            last->next = c->next;
        else
            map->first = c->next;
        if (map->last == c) map->last = last;
        c->next = NULL;
        yaml_node_free(c);
        break;
    }
    yaml_node_append(map, n);
}

status dialect_parse_arguments(const dialect *d, int argc, char *const *argv, const int *line,
                               yaml_node **out, err *e)
{
    status result = OK;
    yaml_node *map = NULL, *n = NULL;
    text key = {0};
    TRY(yaml_node_list(1, &map, e));
    map->kind = NODE_MAP;
    for (int i = 0; i < argc; i++) {
        const int at = line ? line[i] : 0;
        if (!is_option(argv[i]) || !text_is_utf8(argv[i], strlen(argv[i]), NULL))
            FAIL(E_USAGE, "found argument %.*s; valid: --option value or --option=value",
                 TEXT_CUT(argv[i], 200));
        const char *name = argv[i] + strspn(argv[i], "-"), *equals = strchr(name, '=');
        TRY(key_of(name, equals ? (size_t)(equals - name) : strlen(name), &key, e));
        TRY(take_option(dialect_row_of_option(d, key.chars), equals, argc, argv, &i, at, &n, e));
        TRY(text_take(&key, &n->key, e));
        put(map, n);
        n = NULL;
    }
    *out = map;
    map = NULL;
done:
    text_clear(&key);
    yaml_node_free(n);
    yaml_node_free(map);
    return result;
}

// ---- the words of a shell ----

typedef struct shell_words {
    char *word[ARGUMENTS_MAX];
    int line[ARGUMENTS_MAX];
    int count;
} shell_words;

// Takes one word at *s, with its quotes, and moves *s behind it.
static status take_word(const char *name, const char **s, const char *end, int *line, text *out,
                        err *e)
{
    char quote = 0;
    for (; *s < end && (quote || !isspace((unsigned char)**s)); (*s)++) {
        const char c = **s;
        if (c == '\n') (*line)++;
        if (quote ? c == quote : c == '"' || c == '\'') {
            quote = quote ? 0 : c;
            if (!quote) text_add(out, "");
        } else if (c == '\\' && quote != '\'' && *s + 1 < end) {
            if (*++*s == '\n')
                (*line)++;
            else
                text_add_bytes(out, *s, 1);
        } else if ((c == '$' || c == '`') && quote != '\'') {
            const int bytes = (int)strcspn(*s, " \t\n\"'");
            return err_set(
                e, E_USAGE,
                "%s:%d: found %.*s, which only a shell can replace; valid: the value itself", name,
                *line, bytes > 80 ? 80 : bytes, *s);
        } else {
            text_add_bytes(out, *s, 1);
        }
    }
    if (quote)
        return err_set(e, E_USAGE, "%s:%d: found no %c at the end of a text", name, *line, quote);
    return text_check(out, e);
}

// Adds the words from an option on; those before the first one start a program and are none of its arguments.
static status take_words(const char *name, const char *s, const char *end, shell_words *all, err *e)
{
    status result = OK;
    text word = {0};
    for (int line = 1; s < end;) {
        if (*s == '\n') line++;
        const bool goes_on = *s == '\\' && s + 1 < end && s[1] == '\n';
        if (isspace((unsigned char)*s) || goes_on) {
            if (goes_on) line++, s++;
            s++;
        } else if (*s == '#') {
            while (s < end && *s != '\n') s++;
        } else {
            const int from = line;
            text_clear(&word);
            TRY(take_word(name, &s, end, &line, &word, e));
            if (!word.chars || (!all->count && !is_option(word.chars))) continue;
            if (all->count == ARGUMENTS_MAX)
                FAIL(E_USAGE, "%s:%d: more than %d arguments", name, line, ARGUMENTS_MAX);
            if (strlen(word.chars) != word.bytes)
                FAIL(E_USAGE, "%s:%d: a zero byte in text", name, line);
            all->line[all->count] = from;
            TRY(text_take(&word, &all->word[all->count], e));
            all->count++;
        }
    }
done:
    text_clear(&word);
    return result;
}

status dialect_parse_shell(const dialect *d, const char *name, const char *s, size_t bytes,
                           yaml_node **out, err *e)
{
    status result = OK;
    shell_words *all = NULL;
    TRY(alloc_zeroed(&all, 1, sizeof *all, "arguments", e));
    TRY(take_words(name, s, s + bytes, all, e));
    result = dialect_parse_arguments(d, all->count, all->word, all->line, out, e);
    if (result == E_USAGE) err_prefix(e, "%s: ", name);
done:
    for (int i = 0; all && i < all->count; i++) free(all->word[i]);
    free(all);
    return result;
}
