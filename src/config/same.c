// same.c -- compares the job with the job.yaml of an earlier run, before a run resumes. It compares
// text, because job_print.c wrote both. See job_compare_run in job.h.
#include "config/private.h"
#include "config/values.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

typedef struct leaf {
    char *path, *value;
} leaf;

typedef struct leaves {
    leaf *items;
    size_t count, room;
} leaves;

static status flatten(const yaml_node *map, const char *section, leaves *all, err *e)
{
    status result = OK;
    text path = {0}, value = {0};
    for (const yaml_node *c = map->first; c; c = c->next) {
        text_clear(&path);
        text_addf(&path, "%s%s%s", section, *section ? "." : "", c->key ? c->key : "");
        TRY(text_check(&path, e));
        if (key_is_section(path.chars) && c->kind == NODE_MAP) {
            TRY(flatten(c, path.chars, all, e));
            continue;
        }
        const job_key *bare = key_of_section(path.chars);
        if (bare) text_add(&path, bare->path + path.bytes);
        text_clear(&value);
        if (c->kind == NODE_LIST && strcmp(path.chars, "groups") == 0)
            groups_identity(c, &value);
        else
            yaml_node_text(c, &value);
        TRY(text_check(&value, e));
        if (!value.bytes && c->kind == NODE_LIST) continue;
        TRY(alloc_grow(&all->items, &all->room, all->count + 1, sizeof *all->items, "the keys", e));
        all->items[all->count++] = (leaf){NULL, NULL};
        TRY(text_take(&path, &all->items[all->count - 1].path, e));
        TRY(text_take(&value, &all->items[all->count - 1].value, e));
    }
done:
    text_clear(&path);
    text_clear(&value);
    return result;
}

static void leaves_free(leaves *all)
{
    for (size_t i = 0; i < all->count; i++) {
        free(all->items[i].path);
        free(all->items[i].value);
    }
    free(all->items);
}

// A key that is not in the job.yaml of an older version had the value of today's default.
static const char *value_in(const leaves *all, const char *path)
{
    for (size_t i = 0; i < all->count; i++)
        if (strcmp(all->items[i].path, path) == 0) return all->items[i].value;
    const job_key *k = key_find(path);
    return k && k->fallback ? k->fallback : "none";
}

static bool may_change(const char *path)
{
    const job_key *k = key_find(path);
    return k ? k->flags & KEY_MAY_CHANGE : !key_is_model_field(path);
}

// Two lists of groups, one entry a line: goes to the first entry in which they differ, and returns its
// index.
static int first_difference(const char **a, const char **b)
{
    for (int i = 0;; i++) {
        const size_t bytes = strcspn(*a, "\n");
        if (!(*a)[bytes] || strncmp(*a, *b, bytes + 1) != 0) return i;
        *a += bytes + 1, *b += bytes + 1;
    }
}

static void add_difference(const char *path, const char *a, const char *b, text *out)
{
    const bool entries = strcmp(path, "groups") == 0;
    const size_t most = entries ? 300 : 80;
    text_addf(out, "%s%s", out->bytes ? ", " : "", path);
    if (entries) text_addf(out, "[%d]", first_difference(&a, &b));
    if (!*a) a = "none";
    if (!*b) b = "none";
    const size_t a_bytes = strcspn(a, "\n"), b_bytes = strcspn(b, "\n");
    text_addf(out, " (%.*s there, %.*s here)", TEXT_CUT(a, a_bytes < most ? a_bytes : most),
              TEXT_CUT(b, b_bytes < most ? b_bytes : most));
}

static void list_differences(const leaves *there, const leaves *here, bool there_only, text *out)
{
    const leaves *walked = there_only ? there : here;
    for (size_t i = 0; i < walked->count; i++) {
        const char *path = walked->items[i].path;
        const char *a = value_in(there, path), *b = value_in(here, path);
        if (may_change(path) || strcmp(a, b) == 0) continue;
        // The walk over `here` has listed the keys that both sides have.
        bool both = false;
        for (size_t k = 0; there_only && k < here->count; k++)
            both = both || strcmp(here->items[k].path, path) == 0;
        if (!both) add_difference(path, a, b, out);
    }
}

// Sets the key as if the file gave this value.
static status set_value(job *j, const char *key, const char *value, const char *who, err *e)
{
    const status result = settings_change(j->values, key, value, who, e);
    return result == OK ? value_set(j, key_find(key), settings_of(j->values, key)->value, e)
                        : result;
}

status job_take_split(job *j, const char *old_yaml_path, err *e)
{
    status result = OK;
    static const char KEY[] = "parallel.batch_split";
    char *content = NULL;
    size_t bytes;
    yaml_node *tree = NULL;
    leaves there = {0};
    mesh m;
    TRY(file_read(old_yaml_path, &content, &bytes, e));
    TRY(yaml_node_parse(old_yaml_path, content, bytes, &tree, e));
    TRY(flatten(tree, "", &there, e));
    TRY(job_solve_mesh(j, j->launch.ranks, &m, e));
    const char *value = value_in(&there, KEY);
    if (value[0] != '[') goto done;
    TRY(set_value(j, KEY, value, "job.yaml of the run", e));
    if (j->parallel.batch_splits != (size_t)mesh_data_ranks(&m)) { // other ranks measure anew
        TRY(set_value(j, KEY, "measured", "the job", e));
        goto done;
    }
    j->train.micro_batch = 0;
    TRY(batch_take_split(j, &m, e));
done:
    leaves_free(&there);
    yaml_node_free(tree);
    free(content);
    return result;
}

status job_compare_run(const job *j, const char *old_yaml_path, text *different, err *e)
{
    status result = OK;
    char *content = NULL;
    size_t bytes;
    yaml_node *old_tree = NULL, *new_tree = NULL;
    leaves there = {0}, here = {0};
    text now = {0};
    TRY(file_read(old_yaml_path, &content, &bytes, e));
    TRY(yaml_node_parse(old_yaml_path, content, bytes, &old_tree, e));
    job_write_yaml(j, &now);
    TRY(text_check(&now, e));
    TRY(yaml_node_parse("job", now.chars, now.bytes, &new_tree, e));
    TRY(flatten(old_tree, "", &there, e));
    TRY(flatten(new_tree, "", &here, e));
    list_differences(&there, &here, false, different);
    list_differences(&there, &here, true, different);
    TRY(text_check(different, e));
done:
    leaves_free(&there);
    leaves_free(&here);
    yaml_node_free(old_tree);
    yaml_node_free(new_tree);
    text_clear(&now);
    free(content);
    return result;
}
