// ckpt_fixture.h -- a folder of its own for each test, and checkpoints whose every byte is known.
#ifndef TRIREME_TESTS_CKPT_FIXTURE_H
#define TRIREME_TESTS_CKPT_FIXTURE_H

#include "base/file.h"
#include "ckpt/ckpt.h"
#include "own_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char out_folder[64];

static int make_out(void **state)
{
    (void)state;
    strcpy(out_folder, "/tmp/trireme-ckpt-XXXXXX");
    return mkdtemp(out_folder) ? 0 : -1;
}

static int remove_out(void **state)
{
    (void)state;
    return file_remove_tree(out_folder, NULL) == OK ? 0 : -1;
}

// Byte k of tensor i of the checkpoint with this mark.
static uint8_t fixture_byte(int64_t mark, size_t i, uint64_t k)
{
    return (uint8_t)(mark * 101 + (int64_t)i * 31 + (int64_t)(k % 253) * 7);
}

static status fixture_read(void *arg, size_t i, uint64_t offset, void *out, size_t bytes, err *e)
{
    (void)e;
    for (size_t k = 0; k < bytes; k++)
        ((uint8_t *)out)[k] = fixture_byte(*(int64_t *)arg, i, offset + k);
    return OK;
}

static const safetensors_tensor FIXTURE_WEIGHTS[] = {
    {.name = "w.0", .type = BF16, .dims = 2, .dim = {10, 20}, .bytes = 400},
    {.name = "w.1", .type = BF16, .dims = 1, .dim = {100}, .bytes = 200},
    {.name = "w.2", .type = BF16, .dims = 1, .dim = {150}, .bytes = 300},
};
static const safetensors_tensor FIXTURE_STATE[] = {
    {.name = "m.w.0", .type = F32, .dims = 2, .dim = {10, 20}, .bytes = 800},
    {.name = "master.w.0", .type = F32, .dims = 1, .dim = {300000}, .bytes = 1200000},
};

// Saves step `step` whose bytes follow from `mark`.
static status fixture_save(int64_t step, int64_t mark, int64_t keep, uint64_t shard_bytes,
                           const char *tokenizer_folder, char **folder, err *e)
{
    ckpt_save_options o = {.out = out_folder,
                           .step = step,
                           .keep = keep,
                           .shard_bytes = shard_bytes,
                           .weights = {FIXTURE_WEIGHTS, 3, fixture_read, &mark},
                           .state = {FIXTURE_STATE, 2, fixture_read, &mark},
                           .config_json = "{\"model_type\": \"gpt2\"}\n",
                           .state_json = "{\"tokens\": 12345678901, \"lr\": 0.1, \"job\": \"x\"}",
                           .tokenizer_folder = tokenizer_folder};
    return ckpt_save(&o, folder, e);
}

static void check_tensors(const safetensors *s, const safetensors_tensor *t, size_t count,
                          int64_t mark)
{
    assert_int_equal(safetensors_count(s), count);
    for (size_t i = 0; i < count; i++) {
        const safetensors_tensor *r = safetensors_find(s, t[i].name);
        assert_non_null(r);
        assert_int_equal(r->bytes, t[i].bytes);
        for (uint64_t k = 0; k < r->bytes; k++)
            if (((const uint8_t *)r->data)[k] != fixture_byte(mark, i, k))
                fail_msg("a byte of %s", t[i].name);
    }
}

// The folder is a checkpoint of this step and mark, byte for byte.
static void check_checkpoint(const char *folder, int64_t step, int64_t mark)
{
    err e = {0};
    ckpt *c = NULL;
    int64_t value;
    double real;
    if (ckpt_verify(folder, &e) != OK || ckpt_open(folder, &c, &e) != OK) fail_msg("%s", e.text);
    assert_int_equal(ckpt_int(c, "step", &value, NULL), OK);
    assert_int_equal(value, step);
    assert_int_equal(ckpt_int(c, "tokens", &value, NULL), OK);
    assert_int_equal(value, 12345678901);
    assert_int_equal(ckpt_real(c, "lr", &real, NULL), OK);
    assert_true(real == 0.1);
    check_tensors(c->weights, FIXTURE_WEIGHTS, 3, mark);
    check_tensors(c->state, FIXTURE_STATE, 2, mark);
    ckpt_close(c);
}

static inline char *inside(const char *name)
{
    return own_path(out_folder, name);
}

static inline void save_good(int64_t step, int64_t mark, int64_t keep)
{
    err e = {0};
    if (fixture_save(step, mark, keep, 0, NULL, NULL, &e) != OK) fail_msg("%s", e.text);
}

static inline bool present(const char *name)
{
    char *path = inside(name);
    bool is_there = file_exists(path);
    free(path);
    return is_there;
}

static inline void put(const char *name, const char *content)
{
    char *path = inside(name);
    assert_int_equal(file_replace(path, content, strlen(content), NULL), OK);
    free(path);
}

// Entries of checkpoints/ beside "." and "..".
static inline int count_entries(void)
{
    char *path = inside("checkpoints");
    DIR *dir = opendir(path);
    int n = -2;
    while (readdir(dir)) n++;
    closedir(dir);
    free(path);
    return n;
}

static inline void expect_newest(const char *name, const char *warning)
{
    err e = {0};
    text warnings = {0};
    char *folder = NULL;
    if (ckpt_newest(out_folder, &folder, &warnings, &e) != OK) fail_msg("%s", e.text);
    assert_non_null(folder);
    assert_string_equal(strrchr(folder, '/') + 1, name);
    if (warning)
        assert_non_null(strstr(warnings.chars, warning));
    else
        assert_null(warnings.chars);
    text_clear(&warnings);
    free(folder);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_out, remove_out)

#endif
