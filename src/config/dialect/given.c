// given.c -- changes a tree before its rows are read: puts values into it that do not stand in the file, and completes
// names of keys. dialect.c calls it. See private.h. It knows no system's keys.
#include "config/dialect/private.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

// The entry of a map of that name [bytes]; NULL: none.
static yaml_node *find_entry(const yaml_node *map, const char *name, size_t bytes)
{
    for (yaml_node *n = map->first; n; n = n->next)
        if (strlen(n->key) == bytes && strncmp(n->key, name, bytes) == 0) return n;
    return NULL;
}

static void remove_entry(yaml_node *map, yaml_node *n)
{
    yaml_node *before = NULL;
    for (yaml_node *c = map->first; c != n; c = c->next) before = c;
    *(before ? &before->next : &map->first) = n->next;
    if (map->last == n) map->last = before;
    n->next = NULL;
    yaml_node_free(n);
}

static bool is_repeated(const yaml_node *n)
{
    for (const yaml_node *later = n->next; later; later = later->next)
        if (strcmp(later->key, n->key) == 0) return true;
    return false;
}

static status keep_last(const dialect_reader *r, yaml_node *map, const char *section, err *e)
{
    status result = OK;
    text path = {0};
    for (yaml_node *n = map->first, *next; n; n = next) {
        next = n->next;
        text_clear(&path);
        text_addf(&path, "%s%s%s", section, *section ? "." : "", n->key);
        TRY(text_check(&path, e));
        if (is_repeated(n)) {
            TRY(dialect_remark_on(r, path.chars, true, e, "given twice; %s takes the last value",
                                  r->of->system));
            remove_entry(map, n);
        } else if (n->kind == NODE_MAP) {
            TRY(keep_last(r, n, path.chars, e));
        }
    }
done:
    text_clear(&path);
    return result;
}

status dialect_keep_last(const dialect_reader *r, yaml_node *root, err *e)
{
    return keep_last(r, root, "", e);
}

static status add_entry(yaml_node *map, const char *name, size_t bytes, int line, yaml_node **out,
                        err *e)
{
    status result = OK;
    yaml_node *n = NULL;
    text key = {0};
    text_add_bytes(&key, name, bytes);
    TRY(text_check(&key, e));
    TRY(yaml_node_scalar("null", line, &n, e));
    TRY(text_take(&key, &n->key, e));
    yaml_node_append(map, n);
    *out = n;
    n = NULL;
done:
    yaml_node_free(n);
    text_clear(&key);
    return result;
}

// Makes a node a scalar, or the list that flow YAML means, and keeps its key.
static status become(yaml_node *n, const char *value, err *e)
{
    status result = OK;
    yaml_node *now = NULL;
    if (*value == '[')
        TRY(yaml_node_parse("option", value, strlen(value), &now, e));
    else
        TRY(yaml_node_scalar(value, 0, &now, e));
    yaml_node_free(n->first);
    free(n->scalar);
    n->kind = now->kind;
    n->scalar = now->scalar;
    n->quoted = false;
    n->first = now->first;
    n->last = now->last;
    now->scalar = NULL;
    now->first = NULL;
done:
    yaml_node_free(now);
    return result;
}

static status put(yaml_node *map, const char *path, const dialect_given *g, err *e)
{
    status result = OK;
    const size_t bytes = strcspn(path, ".");
    const bool wins = g->kind == GIVEN_WINS;
    yaml_node *n = find_entry(map, path, bytes);
    if (!n && g->kind == GIVEN_FILLS_AUTO) return OK;
    if (!n) TRY(add_entry(map, path, bytes, wins ? LINE_OPTION : 0, &n, e));
    const bool is_null = yaml_node_is_null(n);
    if (path[bytes] == '.') {
        if (n->kind != NODE_MAP && !is_null) return OK; // the row of the section refuses it
        n->kind = NODE_MAP;
        return put(n, path + bytes + 1, g, e);
    }
    const bool is_auto = n->kind == NODE_SCALAR && strcasecmp(n->scalar, "auto") == 0;
    if (!wins && !is_auto && !(is_null && g->kind == GIVEN_FILLS)) return OK;
    if (wins) n->line = LINE_OPTION;
    TRY(become(n, g->value, e));
done:
    return result;
}

status dialect_put_given(yaml_node *root, const dialect_given *given, size_t count, err *e)
{
    status result = OK;
    for (size_t i = 0; i < count; i++) TRY(put(root, given[i].theirs, &given[i], e));
done:
    return result;
}

status dialect_replace(yaml_node *root, const char *theirs, const char *value, err *e)
{
    const size_t bytes = strcspn(theirs, ".");
    yaml_node *n = find_entry(root, theirs, bytes);
    if (!n || (theirs[bytes] && n->kind != NODE_MAP)) return OK;
    return theirs[bytes] ? dialect_replace(n, theirs + bytes + 1, value, e) : become(n, value, e);
}

static status begin_key(yaml_node *n, const char *begin, err *e)
{
    text name = {0};
    if (strncmp(n->key, begin, strcspn(begin, "_")) == 0) return OK;
    text_addf(&name, "%s%s", begin, n->key);
    status result = text_check(&name, e);
    if (result == OK) {
        free(n->key);
        n->key = NULL;
        result = text_take(&name, &n->key, e);
    }
    text_clear(&name);
    return result;
}

status dialect_add_begun(const dialect *d, yaml_node *root, err *e)
{
    status result = OK;
    if (d->base) TRY(dialect_add_begun(d->base, root, e));
    for (int i = 0; d->begun && d->begun[i][0]; i++) {
        yaml_node *section = find_entry(root, d->begun[i][0], strlen(d->begun[i][0]));
        if (!section || section->kind != NODE_MAP) continue;
        for (yaml_node *n = section->first; n; n = n->next) TRY(begin_key(n, d->begun[i][1], e));
    }
done:
    return result;
}
