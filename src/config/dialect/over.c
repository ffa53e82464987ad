// over.c -- lays the options of a command line over a configuration file, as commands do that read both: a value of an
// option takes the place of the file's. See dialect_read_over in dialect.h.
#include "config/dialect/private.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

static void mark_option(yaml_node *n)
{
    n->line = DIALECT_OPTION_LINE;
    for (yaml_node *c = n->first; c; c = c->next) mark_option(c);
}

// The section called `key`, of `bytes`, in a map; a new one where there is none.
static status section_of(yaml_node *map, const char *key, size_t bytes, yaml_node **out, err *e)
{
    status result = OK;
    yaml_node *n = NULL;
    text name = {0};
    *out = NULL;
    for (yaml_node *c = map->first; c && !*out; c = c->next)
        if (strlen(c->key) == bytes && strncmp(c->key, key, bytes) == 0) *out = c;
    if (*out && (*out)->kind == NODE_MAP) return OK;
    text_add_bytes(&name, key, bytes);
    TRY(text_check(&name, e));
    TRY(yaml_node_list(DIALECT_OPTION_LINE, &n, e));
    n->kind = NODE_MAP;
    TRY(text_take(&name, &n->key, e));
    dialect_put(map, n);
    *out = n;
    n = NULL;
done:
    yaml_node_free(n);
    text_clear(&name);
    return result;
}

// Refuses an option that no row has.
static status unknown_option(const dialect *d, const yaml_node *n, err *e)
{
    status result = OK;
    const char **options = NULL;
    size_t count = 0;
    text what = {0};
    TRY(alloc_array(&options, (size_t)d->row_count, sizeof *options, "a dialect", e));
    for (int i = 0; i < d->row_count; i++)
        if (d->rows[i].option) options[count++] = d->rows[i].option;
    const char *near = text_nearest(n->key, options, count);
    dialect_add_option(n->key, &what);
    text_addf(&what, ": unknown option of %s", d->system);
    if (near) text_add(&what, "; did you mean ");
    if (near) dialect_add_option(near, &what);
    TRY(text_check(&what, e));
    result = err_set(e, E_USAGE, "%.*s%s", TEXT_CUT(what.chars, 300), near ? "?" : "");
done:
    free(options);
    text_clear(&what);
    return result;
}

// Puts a copy of an option's value at the path of its row.
static status lay(const dialect *d, yaml_node *root, const yaml_node *option, err *e)
{
    status result = OK;
    const dialect_row *row = dialect_row_of_option(d, option->key);
    yaml_node *n = NULL, *map = root;
    if (!row) return unknown_option(d, option, e);
    const char *word = row->theirs;
    for (const char *dot = strchr(word, '.'); dot; dot = strchr(word, '.')) {
        TRY(section_of(map, word, (size_t)(dot - word), &map, e));
        word = dot + 1;
    }
    TRY(yaml_node_copy(option, &n, e));
    free(n->key);
    n->key = NULL;
    TRY(text_copy(word, &n->key, e));
    mark_option(n);
    dialect_put(map, n);
    n = NULL;
done:
    yaml_node_free(n);
    return result;
}

status dialect_read_over(const dialect *d, const char *path, int argc, char *const *argv,
                         translation *out, err *e)
{
    status result = OK;
    yaml_node *root = NULL, *options = NULL;
    if (path)
        TRY(dialect_parse_file(d, path, &root, e));
    else
        TRY(yaml_node_parse(d->system, "", 0, &root, e));
    TRY(dialect_parse_arguments(d, argc, argv, NULL, &options, e));
    for (const yaml_node *n = root->kind == NODE_MAP ? options->first : NULL; n; n = n->next)
        TRY(lay(d, root, n, e));
    TRY(dialect_take_tree(
        &(dialect_reader){.of = d, .file = path, .runs = true, .root = root, .out = out}, root, e));
done:
    yaml_node_free(root);
    yaml_node_free(options);
    return result;
}
