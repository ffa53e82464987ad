// ckpt_fixture.h -- a new folder for each test, and checkpoints of which every byte is known.
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
#include <fcntl.h>
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

// Byte k of tensor i of a checkpoint. The mark tells the checkpoints of a test apart.
static uint8_t fixture_byte(int64_t mark, size_t i, uint64_t k)
{
    return (uint8_t)(mark * 101 + (int64_t)i * 31 + (int64_t)(k % 253) * 7);
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

// What fixture_fill writes.
typedef struct fixture {
    int64_t mark;
    bool loses; // somebody removes the first file when all are written
    ckpt_tensors weights, state;
    ckpt_files files;
} fixture;

// Writes every tensor in two halves, the later one first, as ranks that share it may.
static status fixture_tensor(int fd, const char *path, uint64_t begin, int64_t mark, size_t i,
                             uint64_t bytes, err *e)
{
    status result = OK;
    const uint64_t half = bytes / 2;
    uint8_t *data = malloc(bytes);
    for (uint64_t k = 0; k < bytes; k++) data[k] = fixture_byte(mark, i, k);
    TRY(file_write_at(fd, path, data + half, bytes - half, begin + half, e));
    TRY(file_write_at(fd, path, data, half, begin, e));
done:
    free(data);
    return result;
}

static status fixture_fill(void *arg, const char *folder, err *e)
{
    status result = OK;
    const fixture *x = arg;
    char *path = NULL;
    for (size_t i = 0; i < x->files.count; i++) {
        const ckpt_file *f = &x->files.file[i];
        const ckpt_tensors *t = f->is_state ? &x->state : &x->weights;
        TRY(file_join(folder, f->name, &path, e));
        const int fd = open(path, O_WRONLY | O_CLOEXEC);
        if (fd < 0) FAIL(E_INTERNAL, "%s is not there", path);
        for (size_t k = 0; result == OK && k < f->count; k++)
            result = fixture_tensor(fd, path, f->layout.begin[k], x->mark, f->first + k,
                                    t->info[f->first + k].bytes, e);
        const status closed = file_close_durable(fd, path, result == OK ? e : NULL);
        if (result == OK) result = closed;
        free(path);
        path = NULL;
        if (result != OK) break;
    }
    if (x->loses) {
        TRY(file_join(folder, x->files.file[0].name, &path, e));
        if (unlink(path) != 0) FAIL(E_INTERNAL, "%s was not there", path);
    }
done:
    free(path);
    return result;
}

// Saves the first tensors of the fixture as *o says. A negative mark: that of a fixture that loses a file.
static status fixture_save_as(ckpt_save_options *o, int64_t mark, size_t weights, size_t states,
                              uint64_t shard_bytes, char **folder, err *e)
{
    status result = OK;
    fixture x = {.mark = mark,
                 .loses = mark < 0,
                 .weights = {FIXTURE_WEIGHTS, weights},
                 .state = {FIXTURE_STATE, states}};
    TRY(ckpt_files_make(&x.weights, &x.state, shard_bytes, &x.files, e));
    o->out = out_folder, o->weights = x.weights, o->files = &x.files;
    o->fill = fixture_fill, o->arg = &x;
    TRY(ckpt_save(o, folder, e));
done:
    ckpt_files_clear(&x.files);
    return result;
}

// Saves a checkpoint of step `step` with the bytes of `mark`.
static status fixture_save(int64_t step, int64_t mark, int64_t keep, uint64_t shard_bytes,
                           const char *tokenizer_folder, char **folder, err *e)
{
    ckpt_save_options o = {.step = step,
                           .keep = keep,
                           .config_json = "{\"model_type\": \"gpt2\"}\n",
                           .state_json = "{\"tokens\": 12345678901, \"lr\": 0.1, \"job\": \"x\"}",
                           .tokenizer_folder = tokenizer_folder};
    return fixture_save_as(&o, mark, 3, 2, shard_bytes, folder, e);
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

// Checks that the folder is a checkpoint with this step and the bytes of this mark.
static inline void check_checkpoint(const char *folder, int64_t step, int64_t mark)
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

// Counts the entries of checkpoints/ without "." and "..".
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
