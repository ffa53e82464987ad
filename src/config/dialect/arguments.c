// arguments.c -- makes a tree of a command line's arguments, given as words or as a script (shell.c). dialect.c calls it.
// See private.h.
#include "config/dialect/private.h"
#include "config/dialect/shell.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    } else if (row && (row->type == DIALECT_LIST || (row->type == DIALECT_ANY && has_next &&
                                                     *i + 2 < argc && !is_option(argv[*i + 2])))) {
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
        char place[16] = "";
        if (line) snprintf(place, sizeof place, "%d: ", at);
        if (!is_option(argv[i]) || !text_is_utf8(argv[i], strlen(argv[i]), NULL))
            FAIL(E_USAGE, "%sfound argument %.*s; valid: --option value or --option=value", place,
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

// Makes a map of the options that the launcher of a script has; its other words are programs.
static status take_launcher(const shell_words *w, yaml_node **out, err *e)
{
    status result = OK;
    yaml_node *map = NULL, *n = NULL;
    text key = {0};
    TRY(yaml_node_list(1, &map, e));
    map->kind = NODE_MAP;
    TRY(text_copy("launcher", &map->key, e));
    for (int i = 0; i < (int)w->count; i++) {
        if (!is_option(w->word[i])) continue;
        const char *name = w->word[i] + strspn(w->word[i], "-"), *equals = strchr(name, '=');
        const int line = w->line[i];
        TRY(key_of(name, equals ? (size_t)(equals - name) : strlen(name), &key, e));
        TRY(take_option(NULL, equals, (int)w->count, w->word, &i, line, &n, e));
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

// Adds the key "command" where the program of a script is one of its words.
static status add_command(const dialect *d, const char *program, yaml_node *map, err *e)
{
    status result = OK;
    yaml_node *n = NULL;
    const dialect_row *row = dialect_row_of_key(d, "command");
    const char *slash = program ? strrchr(program, '/') : NULL;
    const char *word = slash ? slash + 1 : program;
    if (!word || !row || !row->words) return OK;
    const size_t bytes = strcspn(word, ".");
    for (int i = 0; row->words[i][0]; i++) {
        if (strlen(row->words[i][0]) != bytes || strncmp(row->words[i][0], word, bytes) != 0)
            continue;
        TRY(yaml_node_scalar(row->words[i][0], 0, &n, e));
        TRY(text_copy("command", &n->key, e));
        put(map, n);
        n = NULL;
    }
done:
    yaml_node_free(n);
    return result;
}

status dialect_parse_shell(const dialect *d, const char *name, const char *s, size_t bytes,
                           yaml_node **out, err *e)
{
    status result = OK;
    shell_command c = {.has_program = false};
    yaml_node *launcher = NULL;
    const dialect_row *row = dialect_row_of_key(d, "launcher");
    TRY(shell_read(name, s, bytes, d->command, &c, e));
    result =
        dialect_parse_arguments(d, (int)c.argument.count, c.argument.word, c.argument.line, out, e);
    if (result == E_USAGE) err_prefix(e, "%s:", name);
    if (result != OK) goto done;
    TRY(add_command(d, c.program, *out, e));
    if (!row || !c.launcher.count) goto done;
    TRY(take_launcher(&c.launcher, &launcher, e));
    yaml_node_append(*out, launcher);
done:
    shell_command_clear(&c);
    return result;
}
