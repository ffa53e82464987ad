// tokenizer_golden.h -- what the tokenizer tests share: the golden files of tests/golden/tokenizer.
#ifndef TRIREME_TESTS_DATA_TOKENIZER_GOLDEN_H
#define TRIREME_TESTS_DATA_TOKENIZER_GOLDEN_H

#include "scratch.h"

#include "data/tokenizer/tokenizer_private.h"

#define GOLDEN_FOLDER TESTS_DIR "/golden/tokenizer/"

static inline json_t *golden_json(const char *name)
{
    char path[512];
    json_error_t broken;
    snprintf(path, sizeof path, GOLDEN_FOLDER "%s", name);
    json_t *root = json_load_file(path, JSON_ALLOW_NUL, &broken);
    if (!root) fail_msg("%s: %s", path, broken.text);
    return root;
}

static inline tokenizer *golden_tokenizer(const char *name)
{
    char path[512];
    err e = {0};
    tokenizer *t = NULL;
    snprintf(path, sizeof path, GOLDEN_FOLDER "%s", name);
    if (tokenizer_load(path, &t, &e) != OK) fail_msg("%s", e.text);
    return t;
}

static inline tokenizer *tokenizer_of_json(const json_t *root)
{
    err e = {0};
    tokenizer *t = NULL;
    char *json = json_dumps(root, 0);
    if (tokenizer_parse(json, strlen(json), &t, &e) != OK) fail_msg("%s", e.text);
    free(json);
    return t;
}

#endif
