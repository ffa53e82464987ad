// keys.c -- finds rows and sections of the table of keys, and the key that a wrong one is near. See
// keys.h. It does not know values.
#include "config/keys.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

// Names of PEFT for keys of ours.
static const char *const ALSO[][2] = {{"lora.r", "lora.rank"},
                                      {"lora.lora_alpha", "lora.alpha"},
                                      {"lora.lora_dropout", "lora.dropout"},
                                      {"lora.use_rslora", "lora.rslora"}};

int key_index(const char *path)
{
    for (size_t i = 0; i < sizeof ALSO / sizeof *ALSO; i++)
        if (strcmp(path, ALSO[i][0]) == 0) path = ALSO[i][1];
    for (int i = 0; i < JOB_KEY_COUNT; i++)
        if (strcmp(JOB_KEYS[i].path, path) == 0) return i;
    return -1;
}

const job_key *key_find(const char *path)
{
    int i = key_index(path);
    return i < 0 ? NULL : &JOB_KEYS[i];
}

const job_key *key_find_of_group(const char *path)
{
    for (int i = 0; i < GROUP_KEY_COUNT; i++)
        if (strcmp(GROUP_KEYS[i].path, path) == 0) return &GROUP_KEYS[i];
    return NULL;
}

const char *key_in_entry(const job_key *k)
{
    return k->path + strlen("groups.");
}

static bool is_below(const char *path, const char *section)
{
    size_t n = strlen(section);
    return strncmp(path, section, n) == 0 && path[n] == '.';
}

bool key_is_section(const char *path)
{
    for (int i = 0; i < JOB_KEY_COUNT; i++)
        if (is_below(JOB_KEYS[i].path, path)) return true;
    return false;
}

bool key_is_model_field(const char *path)
{
    return is_below(path, "model") && !key_find(path);
}

const job_key *key_of_section(const char *path)
{
    for (int i = 0; i < JOB_KEY_COUNT; i++)
        if (JOB_KEYS[i].flags & KEY_OF_SECTION && is_below(JOB_KEYS[i].path, path))
            return &JOB_KEYS[i];
    return NULL;
}

// Rows without a bound of their own are bounded so that products of counts and nanoseconds of
// durations fit in 64 bits; no machine has so many bytes.
double key_most(const job_key *k)
{
    if (k->high < 1e308) return k->high;
    switch (k->type) {
    case KEY_NUMBER:
        return k->high;
    case KEY_BYTES:
        return 0x1p60;
    case KEY_DURATION:
        return 1e12;
    default:
        return 1e15;
    }
}

bool key_is_flag(const job_key *k)
{
    return k->words && strcmp(k->words[0], "false") == 0;
}

bool key_applies(const job_key *k, const job *j)
{
    if (k->schedules && !(k->schedules >> j->lr.name & 1u)) return false;
    if (k->rules && !(k->rules >> j->optimizer.rule & 1u)) return false;
    if (k->hooks && !(k->hooks >> j->strategy.hook.kind & 1u)) return false;
    if (k->precisions && !(k->precisions >> j->train.precision & 1u)) return false;
    if (k->losses && !(k->losses >> j->train.loss & 1u)) return false;
    if (strncmp(k->path, "model.", 6) == 0 && j->own.model) return false;
    if (is_below(k->path, "lora") && j->lora.how.rank == 0)
        return strcmp(k->path, "lora.rank") == 0;
    if (strcmp(k->path, "model.family") == 0) return !j->model.path;
    if (strcmp(k->path, "train.steps") == 0) return j->train.epochs == 0 && j->train.tokens == 0;
    return true;
}

static const char *last_word(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot ? dot + 1 : path;
}

// The section of a path, "" at the top.
static void add_section(const char *path, text *out)
{
    const char *dot = strrchr(path, '.');
    text_add_bytes(out, path, dot ? (size_t)(dot - path) : 0);
}

// The row that is meant by `path`: by its last word among the section's keys, then among all keys,
// then by the whole path. NULL when none is near. Without memory the text *fails does.
static const char *nearest_path(const char *path, const char *section, text *fails)
{
    const char **words = NULL, *found = NULL;
    if (alloc_zeroed(&words, 3 * (size_t)JOB_KEY_COUNT, sizeof *words, "", NULL) != OK) {
        text_fail(fails);
        return NULL;
    }
    const char **paths = words + JOB_KEY_COUNT, **all = paths + JOB_KEY_COUNT;
    for (int inside = 1; inside >= 0 && !found; inside--) {
        size_t n = 0;
        for (int i = 0; i < JOB_KEY_COUNT; i++) {
            if (inside && !is_below(JOB_KEYS[i].path, section)) continue;
            paths[n] = JOB_KEYS[i].path;
            words[n++] = last_word(JOB_KEYS[i].path);
        }
        const char *word = text_nearest(last_word(path), words, n);
        for (size_t i = 0; word && i < n && !found; i++)
            if (words[i] == word) found = paths[i];
    }
    for (int i = 0; i < JOB_KEY_COUNT; i++) all[i] = JOB_KEYS[i].path;
    if (!found) found = text_nearest(path, all, (size_t)JOB_KEY_COUNT);
    free(words);
    return found;
}

void key_list(const char *section, text *out)
{
    size_t skip = *section ? strlen(section) + 1 : 0;
    const char *before = "";
    size_t before_bytes = 0;
    bool first = true;
    for (int i = 0; i < JOB_KEY_COUNT; i++) {
        if (*section && !is_below(JOB_KEYS[i].path, section)) continue;
        const char *word = JOB_KEYS[i].path + skip;
        size_t bytes = strcspn(word, ".");
        if (bytes == before_bytes && memcmp(word, before, bytes) == 0) continue;
        text_add(out, first ? "" : ", ");
        text_add_bytes(out, word, bytes);
        before = word, before_bytes = bytes, first = false;
    }
}

// Keys and sections that are known, but not written yet.
static const char *const PLANNED[] = {
    "train.sum_leaves",
    "parallel.ep",
};

static bool is_planned(const char *path)
{
    for (size_t i = 0; i < sizeof PLANNED / sizeof *PLANNED; i++)
        if (strcmp(path, PLANNED[i]) == 0 || is_below(path, PLANNED[i])) return true;
    return false;
}

void key_suggest(const char *path, text *out)
{
    if (is_planned(path)) {
        text_add(out, "; it is planned, not written yet");
        return;
    }
    if (is_below(path, "groups")) {
        text_add(out, "; valid: groups with a list, as [{match: \"*.bias\", weight_decay: 0}]");
        return;
    }
    text section = {0};
    add_section(path, &section);
    const char *top[] = {"model",    "lora",   "data",   "train",  "optimizer", "lr_schedule",
                         "parallel", "groups", "memory", "launch", "checks",    "observe"};
    const char *near = section.bytes ? NULL : text_nearest(path, top, sizeof top / sizeof top[0]);
    if (!near) near = nearest_path(path, section.chars, out);
    if (near) {
        text_addf(out, "; did you mean %s?", near);
    } else {
        text_add(out, "; valid: ");
        key_list(key_is_section(section.chars) ? section.chars : "", out);
    }
    if (section.failed) text_fail(out);
    text_clear(&section);
}
