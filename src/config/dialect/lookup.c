// lookup.c -- finds the row of a key, and the value that a file gives it. The files of this folder call it. See dialect.h.
#include "config/dialect/private.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

// Returns whether `path` is a row's, in which * stands for one word.
static bool matches(const char *row, const char *path)
{
    while (*row && *path) {
        if (*row == '*') {
            row++;
            path += strcspn(path, ".");
        } else if (*row++ != *path++) {
            return false;
        }
    }
    return *row == *path;
}

const dialect_row *dialect_row_of_key(const dialect *d, const char *path)
{
    for (; d; d = d->base) {
        for (const dialect_row *x = d->rows; x < d->rows + d->row_count; x++)
            if (matches(x->theirs, path)) return x;
        for (const dialect_names *list = d->names; list && list->names; list++)
            for (const char *const *name = list->names; *name; name++)
                if (strcmp(*name, path) == 0) return &list->row;
    }
    return NULL;
}

const dialect_row *dialect_next_row(const dialect *d, const dialect_row *row)
{
    const dialect *of = d;
    while (row && !(row >= of->rows && row < of->rows + of->row_count)) of = of->base;
    row = row ? row + 1 : of->rows;
    for (;; row++) {
        while (row == of->rows + of->row_count) {
            of = of->base;
            if (!of) return NULL;
            row = of->rows;
        }
        if (of == d || dialect_row_of_key(d, row->theirs) == row) return row;
    }
}

// Returns whether a row stands directly below a section, which is "" at the top. *word is its last word.
static bool is_below(const dialect_row *x, const char *section, const char **word)
{
    const char *dot = strrchr(x->theirs, '.');
    const size_t bytes = dot ? (size_t)(dot - x->theirs) : 0;
    *word = dot ? dot + 1 : x->theirs;
    if (strlen(section) != bytes) return false;
    return strncmp(x->theirs, section, bytes) == 0;
}

// The number of all names and rows.
static size_t count_all(const dialect *d)
{
    size_t count = 0;
    for (; d; d = d->base) {
        count += (size_t)d->row_count;
        for (const dialect_names *list = d->names; list && list->names; list++)
            for (const char *const *name = list->names; *name; name++) count++;
    }
    return count;
}

// Appends "; did you mean stage?", or the section's keys where none is near.
status dialect_suggest(const dialect *d, const char *section, const char *word, text *out, err *e)
{
    status result = OK;
    const char **words = NULL, *one;
    size_t count = 0;
    TRY(alloc_array(&words, count_all(d), sizeof *words, "a dialect", e));
    for (const dialect_row *x = dialect_next_row(d, NULL); x; x = dialect_next_row(d, x))
        if (is_below(x, section, &one) && !strchr(one, '*')) words[count++] = one;
    for (const dialect *of = *section ? NULL : d; of; of = of->base)
        for (const dialect_names *list = of->names; list && list->names; list++)
            for (const char *const *name = list->names; *name; name++) words[count++] = *name;
    const char *near = text_nearest(word, words, count);
    if (near) text_add(out, "; did you mean ");
    if (near) dialect_add_key(d, near, out);
    if (near) text_add(out, "?");
    if (!near && *section) text_addf(out, "; valid:");
    for (size_t i = 0; !near && *section && i < count; i++)
        text_addf(out, "%s %s", i ? "," : "", words[i]);
done:
    free(words);
    return result;
}

// ---- values ----

const yaml_node *dialect_node(const yaml_node *map, const char *path)
{
    for (const yaml_node *n = map->kind == NODE_MAP ? map->first : NULL; n; n = n->next) {
        const size_t bytes = strlen(n->key);
        if (strncmp(n->key, path, bytes) != 0) continue;
        if (!path[bytes]) return n;
        if (path[bytes] == '.' && n->kind == NODE_MAP) return dialect_node(n, path + bytes + 1);
    }
    return NULL;
}

bool dialect_node_is_auto(const yaml_node *n)
{
    return n->kind == NODE_SCALAR && strcasecmp(n->scalar, "auto") == 0;
}

const yaml_node *dialect_value(const dialect_reader *r, const char *theirs)
{
    const yaml_node *n = dialect_node(r->root, theirs);
    return n && !yaml_node_is_null(n) && !dialect_node_is_auto(n) ? n : NULL;
}

bool dialect_is_auto(const dialect_reader *r, const char *theirs)
{
    const yaml_node *n = dialect_node(r->root, theirs);
    return n && dialect_node_is_auto(n);
}

const char *dialect_text(const dialect_reader *r, const char *theirs)
{
    const yaml_node *n = dialect_value(r, theirs);
    const dialect_row *row = dialect_row_of_key(r->of, theirs);
    if (n && n->kind == NODE_SCALAR) return n->scalar;
    return n || !row ? NULL : row->fallback;
}

const char *dialect_our_word(const dialect_reader *r, const char *theirs)
{
    const dialect_row *row = dialect_row_of_key(r->of, theirs);
    const char *value = dialect_text(r, theirs);
    for (int i = 0; value && row->words[i][0]; i++)
        if (strcasecmp(row->words[i][0], value) == 0) return row->words[i][1];
    return NULL;
}

bool dialect_is_on(const dialect_reader *r, const char *theirs)
{
    const char *s = dialect_text(r, theirs);
    bool on = false;
    return s && text_to_bool(s, &on) && on;
}

bool dialect_count(const dialect_reader *r, const char *theirs, int64_t *out)
{
    const char *s = dialect_text(r, theirs);
    return s && text_to_count(s, out);
}

bool dialect_to_number(const char *s, double *out)
{
    int64_t whole;
    if (text_to_double(s, out)) return true;
    if (strspn(s, "0123456789_") != strlen(s) || !text_to_count(s, &whole)) return false;
    *out = (double)whole;
    return true;
}

bool dialect_number(const dialect_reader *r, const char *theirs, double *out)
{
    const char *s = dialect_text(r, theirs);
    return s && dialect_to_number(s, out);
}

const dialect_row *dialect_row_of_option(const dialect *d, const char *option)
{
    for (const dialect_row *x = dialect_next_row(d, NULL); x; x = dialect_next_row(d, x))
        if (x->option && strcmp(x->option, option) == 0) return x;
    return d->is_arguments || d->has_options ? dialect_row_of_key(d, option) : NULL;
}
