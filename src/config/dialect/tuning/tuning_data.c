// tuning_data.c -- the model and the data that a fine-tuning system's file names: folders, snapshots in the hub's cache,
// JSONL files, chat templates. The dialects of these systems call it. See tuning.h. It knows no system's keys.
#include "config/dialect/tuning/tuning.h"

#include "base/alloc.h"
#include "base/file.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- model

// Appends the folder of the hub's cache.
static void add_cache(text *out)
{
    const char *cache = getenv("HF_HUB_CACHE"), *home = getenv("HF_HOME"),
               *xdg = getenv("XDG_CACHE_HOME"), *user = getenv("HOME");
    if (cache && *cache)
        text_add(out, cache);
    else if (home && *home)
        text_addf(out, "%s/hub", home);
    else if (xdg && *xdg)
        text_addf(out, "%s/huggingface/hub", xdg);
    else
        text_addf(out, "%s/.cache/huggingface/hub", user ? user : "");
}

// Appends the snapshot of a model "owner/name"; nothing where the cache has none.
static status add_snapshot(const char *name, const char *revision, text *out, err *e)
{
    status result = OK;
    text path = {0}, folder = {0};
    char *commit = NULL;
    size_t bytes = 0;
    add_cache(&folder);
    text_add(&folder, "/models--");
    for (const char *s = name; *s; s++) text_add(&folder, *s == '/' ? "--" : (char[]){*s, 0});
    TRY(text_check(&folder, e));
    text_addf(&path, "%s/refs/%s", folder.chars, revision);
    TRY(text_check(&path, e));
    if (strstr(path.chars, "/../") || !file_exists(path.chars)) goto done;
    TRY(file_read_small(path.chars, 4096, &commit, &bytes, e));
    commit[strcspn(commit, " \r\n")] = 0;
    text_clear(&path);
    text_addf(&path, "%s/snapshots/%s/config.json", folder.chars, commit);
    TRY(text_check(&path, e));
    if (file_exists(path.chars)) text_addf(out, "%s/snapshots/%s", folder.chars, commit);
    TRY(text_check(out, e));
done:
    free(commit);
    text_clear(&path);
    text_clear(&folder);
    return result;
}

// The folder of a model; an empty text where it is not here.
static status find_model(const dialect_reader *r, const char *name, const char *revision, text *out,
                         err *e)
{
    status result = OK;
    TRY(tuning_find_file(r, name, NULL, out, e));
    if (!out->bytes && !strpbrk(name, "\n~") && name[0] != '/' && name[0] != '.')
        TRY(add_snapshot(name, revision, out, e));
done:
    return result;
}

status tuning_model(const dialect_reader *r, const char *theirs, const char *revision, err *e)
{
    status result = OK;
    const char *name = dialect_text(r, theirs);
    const char *version = revision ? dialect_text(r, revision) : NULL;
    text path = {0};
    if (!name) return OK;
    TRY(find_model(r, name, version ? version : "main", &path, e));
    if (path.bytes)
        TRY(tuning_set_text(r, "model.path", path.chars, theirs, NULL, e));
    else if (strchr("/.~", *name))
        TRY(dialect_remark_on(r, theirs, true, e,
                              "found %.*s, which is no folder here; valid: model.path",
                              TEXT_CUT(name, 200)));
    else
        TRY(dialect_remark_on(r, theirs, true, e,
                              "found %.*s, which is no folder here and not in the hub's cache; "
                              "valid: hf download %.*s, or model.path",
                              TEXT_CUT(name, 200), TEXT_CUT(name, 200)));
done:
    text_clear(&path);
    return result;
}

// Returns whether a folder has a chat template.
static bool has_template(const char *folder)
{
    text path = {0};
    char *content = NULL;
    size_t bytes = 0;
    err ignored = {.code = OK};
    text_addf(&path, "%s/chat_template.jinja", folder);
    bool has = path.chars && file_exists(path.chars);
    text_clear(&path);
    text_addf(&path, "%s/tokenizer_config.json", folder);
    if (!has && path.chars &&
        file_read_small(path.chars, FILE_MOST_CONFIG, &content, &bytes, &ignored) == OK)
        has = strstr(content, "\"chat_template\"") != NULL;
    free(content);
    text_clear(&path);
    return has;
}

status tuning_template(const dialect_reader *r, const char *theirs, const char *model, err *e)
{
    status result = OK;
    const char *name = dialect_text(r, theirs), *base = dialect_text(r, model);
    text path = {0};
    if (!name) return OK;
    if (base) TRY(find_model(r, base, "main", &path, e));
    if (path.bytes && !has_template(path.chars))
        result = dialect_refuse(r, theirs, e,
                                "found %.*s, and %.*s has no chat template; valid: "
                                "chat_template.jinja in the model's folder",
                                TEXT_CUT(name, 100), TEXT_CUT(path.chars, 200));
    else
        result = dialect_remark_on(r, theirs, true, e,
                                   "found %.*s; the template of the model's own folder is used",
                                   TEXT_CUT(name, 100));
done:
    text_clear(&path);
    return result;
}

// ---- data

status tuning_find_file(const dialect_reader *r, const char *name, const char *folder, text *out,
                        err *e)
{
    const char *slash = r->file ? strrchr(r->file, '/') : NULL;
    const bool is_whole = *name == '/' || !folder || !*folder;
    text path = {0};
    text_addf(&path, "%s%s%s", is_whole ? "" : folder, is_whole ? "" : "/", name);
    status result = text_check(&path, e);
    if (result == OK && *name && !strpbrk(path.chars, "\n\r")) {
        if (file_exists(path.chars)) {
            text_add(out, path.chars);
        } else if (slash && path.chars[0] != '/') {
            text_add_bytes(out, r->file, (size_t)(slash - r->file) + 1);
            text_add(out, path.chars);
            if (!out->chars || !file_exists(out->chars)) text_clear(out);
        }
        result = text_check(out, e);
    }
    text_clear(&path);
    return result;
}

void tuning_sources_clear(tuning_sources *s)
{
    for (size_t i = 0; i < s->count; i++) free(s->item[i].path);
    free(s->item);
    *s = (tuning_sources){.item = NULL};
}

status tuning_sources_add(tuning_sources *s, const char *path, const char *format, double share,
                          err *e)
{
    status result = OK;
    TRY(alloc_grow(&s->item, &s->room, s->count + 1, sizeof *s->item, "a dialect", e));
    s->item[s->count] = (tuning_source){.format = format, .share = share};
    TRY(text_copy(path, &s->item[s->count].path, e));
    s->count++;
done:
    return result;
}

// The lines of a file that hold anything; 0 where it cannot be read.
static double count_lines(const char *path)
{
    double lines = 0;
    bool empty = true;
    FILE *f = fopen(path, "r");
    for (int c = f ? getc(f) : EOF; c != EOF; c = getc(f)) {
        if (c == '\n') {
            lines += !empty;
            empty = true;
        } else if (c != ' ' && c != '\r' && c != '\t') {
            empty = false;
        }
    }
    if (f) fclose(f);
    return lines + !empty;
}

// The samples of the mixture: those with which the first source runs out, or the last one where sources are repeated. 0:
// no shares.
static double mixture_of(const tuning_sources *s)
{
    double all = 0;
    for (size_t i = 0; i < s->count; i++) {
        if (s->item[i].share <= 0) continue;
        const double n = count_lines(s->item[i].path) / s->item[i].share;
        if (n > 0 && (all == 0 || (s->repeats ? n > all : n < all))) all = n;
    }
    return all;
}

status tuning_sources_set(const dialect_reader *r, const tuning_sources *s, const char *key,
                          const char *theirs, err *e)
{
    status result = OK;
    text list = {0};
    const double all = mixture_of(s);
    if (!s->count) return OK;
    for (size_t i = 0; i < s->count; i++) {
        const tuning_source *one = &s->item[i];
        const double lines = all > 0 && one->share > 0 ? count_lines(one->path) : 0;
        text_add(&list, i ? ", {path: " : "[{path: ");
        yaml_node_quote(one->path, &list);
        if (one->format) text_addf(&list, ", format: %s", one->format);
        if (lines > 0) text_add(&list, ", weight: ");
        if (lines > 0) text_add_number(&list, one->share * all / lines);
        text_add(&list, "}");
    }
    text_add(&list, "]");
    TRY(text_check(&list, e));
    TRY(dialect_set(r, key, list.chars, theirs,
                    all > 0 ? "weights make the shares that are asked for" : NULL, e));
done:
    text_clear(&list);
    return result;
}

status tuning_no_data(const dialect_reader *r, const char *theirs, const char *name, err *e)
{
    return dialect_remark_on(
        r, theirs, true, e,
        "found %.*s, which is no *.jsonl file here: data sets of a hub are not "
        "downloaded; valid: data.train: FILE.jsonl",
        TEXT_CUT(name, 200));
}

status tuning_pair_length(const dialect_reader *r, const char *theirs, err *e)
{
    const double length = tuning_number(r, theirs, 0);
    if (length < 1 || length > 1 << 24) return OK; // the key's own check refuses it
    return dialect_set_count(r, "data.seq_len", (int64_t)length * 2, theirs,
                             "for each of the two answers of a row", e);
}

bool tuning_first_line_has(const char *path, const char *a, const char *b)
{
    FILE *f = fopen(path, "r");
    json_error_t why;
    json_t *first = f ? json_loadf(f, JSON_DISABLE_EOF_CHECK, &why) : NULL;
    const bool has = json_object_get(first, a) && json_object_get(first, b);
    json_decref(first);
    if (f) fclose(f);
    return has;
}
