// over.c -- lays the options of a command line over a configuration file, as commands do that read both: a value of an
// option takes the place of the file's. See dialect_read_over in dialect.h.
#include "config/dialect/private.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

// Refuses an option that no row has.
static status unknown_option(const dialect *d, const yaml_node *n, err *e)
{
    status result = OK;
    const char **options = NULL;
    size_t count = 0;
    text what = {0};
    for (const dialect_row *x = dialect_next_row(d, NULL); x; x = dialect_next_row(d, x)) count++;
    TRY(alloc_array(&options, count, sizeof *options, "a dialect", e));
    count = 0;
    for (const dialect_row *x = dialect_next_row(d, NULL); x; x = dialect_next_row(d, x))
        if (x->option || (d->has_options && !strpbrk(x->theirs, ".*")))
            options[count++] = x->option ? x->option : x->theirs;
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

// What an option gives. A list is flow YAML. The caller frees the value, also on failure.
static status take_option(const dialect *d, const yaml_node *n, dialect_given *out, err *e)
{
    status result = OK;
    const dialect_row *row = dialect_row_of_option(d, n->key);
    char *value = NULL;
    text s = {0};
    if (!row) return unknown_option(d, n, e);
    if (n->kind == NODE_SCALAR)
        text_add(&s, n->scalar);
    else
        yaml_node_text(n, &s);
    TRY(text_take(&s, &value, e));
    *out = (dialect_given){.theirs = row->theirs, .value = value, .kind = GIVEN_WINS};
done:
    text_clear(&s);
    return result;
}

status dialect_read_over(const dialect *d, const char *path, int argc, char *const *argv,
                         translation *out, err *e)
{
    status result = OK;
    yaml_node *options = NULL;
    dialect_given *given = NULL;
    size_t count = 0;
    TRY(alloc_zeroed(&given, (size_t)argc + 1, sizeof *given, "the options", e));
    TRY(dialect_parse_arguments(d, argc, argv, NULL, &options, e));
    for (const yaml_node *n = options->first; n; n = n->next)
        TRY(take_option(d, n, &given[count++], e));
    TRY(dialect_read_with((dialect_reader){.of = d, .file = path, .runs = true, .out = out}, given,
                          count, e));
done:
    for (size_t i = 0; i < count; i++) free((char *)given[i].value);
    free(given);
    yaml_node_free(options);
    return result;
}
