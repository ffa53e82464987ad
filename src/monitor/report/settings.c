// settings.c -- see settings.h.
#include "monitor/report/settings.h"

#include "base/file.h"
#include "base/json.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_DEPTH = 8 };

// Adds one line as "section.key": value. `parents` are the sections that it lies in.
static void add_line(json_t *values, const char **parents, char *line)
{
    const size_t depth = strspn(line, " ") / 2;
    char *word = line + 2 * depth, *colon = strchr(word, ':');
    text path = {0};
    if (depth >= MOST_DEPTH || !colon || *word == '#' || *word == '-') return;
    *colon = 0;
    const char *value = colon[1] == ' ' ? colon + 2 : "";
    parents[depth] = word;
    for (size_t i = 0; i < depth; i++) text_addf(&path, "%s.", parents[i] ? parents[i] : "");
    text_add(&path, word);
    if (*value && path.chars && strcmp(path.chars, "train.out") != 0)
        json_object_set_new(values, path.chars, json_of_text(value));
    text_clear(&path);
}

static status read_values(const char *folder, json_t **out, err *e)
{
    status result = OK;
    char *path = NULL, *chars = NULL, *rest = NULL;
    const char *parents[MOST_DEPTH] = {NULL};
    *out = json_object();
    TRY(file_join(folder, "job.yaml", &path, e));
    if (!file_exists(path)) goto done;
    TRY(file_read_small(path, FILE_MOST_CONFIG, &chars, NULL, e));
    for (char *line = strtok_r(chars, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        add_line(*out, parents, line);
done:
    free(path);
    free(chars);
    return result;
}

static void add_difference(json_t *all, const char *key, json_t *a, json_t *b)
{
    json_t *pair = json_array();
    json_array_append(pair, a ? a : json_null());
    json_array_append(pair, b ? b : json_null());
    json_object_set_new(all, key, pair);
}

status report_settings_compare(const char *folder_a, const char *folder_b, json_t **out, err *e)
{
    status result = OK;
    json_t *a = NULL, *b = NULL, *value;
    const char *key;
    *out = json_object();
    TRY(read_values(folder_a, &a, e));
    TRY(read_values(folder_b, &b, e));
    if (!json_object_size(a) || !json_object_size(b)) goto done;
    json_object_foreach(a, key, value) if (!json_equal(value, json_object_get(b, key)))
        add_difference(*out, key, value, json_object_get(b, key));
    json_object_foreach(b, key, value) if (!json_object_get(a, key))
        add_difference(*out, key, NULL, value);
done:
    json_decref(a);
    json_decref(b);
    return result;
}
