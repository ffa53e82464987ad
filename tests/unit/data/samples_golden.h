// samples_golden.h -- what the tests of samples share: the files of tests/golden/sft (make_sft_golden.py), and the rows of
// a dataset as lists.
#ifndef TRIREME_TESTS_DATA_SAMPLES_GOLDEN_H
#define TRIREME_TESTS_DATA_SAMPLES_GOLDEN_H

#include "unit/data/scratch.h"

#include "data/samples/samples_private.h"

#define SFT_FOLDER TESTS_DIR "/golden/sft/"

static inline json_t *sft_json(const char *name)
{
    char path[512];
    json_error_t broken;
    snprintf(path, sizeof path, SFT_FOLDER "%s", name);
    json_t *root = json_load_file(path, 0, &broken);
    if (!root) fail_msg("%s: %s", path, broken.text);
    return root;
}

static inline tokenizer *sft_tokenizer(void)
{
    err e = {0};
    tokenizer *t = NULL;
    if (tokenizer_load(SFT_FOLDER "tokenizer.json", &t, &e) != OK) fail_msg("%s", e.text);
    return t;
}

static inline chat_template *sft_chat(const tokenizer *t)
{
    err e = {0};
    chat_template *c = NULL;
    if (chat_template_open(t, "golden", &c, &e) != OK) fail_msg("%s", e.text);
    return c;
}

static inline int64_t whole(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

static inline int64_t item(const json_t *list, size_t i)
{
    return json_integer_value(json_array_get(list, i));
}

#endif
