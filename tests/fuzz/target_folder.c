// model.safetensors.index.json of a model folder with two shards.
#include "fuzz.h"

#include "store/safetensors.h"

#include <string.h>

static status zeros(void *arg, size_t i, uint64_t offset, void *out, size_t bytes, err *e)
{
    (void)arg, (void)i, (void)offset, (void)e;
    memset(out, 0, bytes);
    return OK;
}

static void write_shard(const char *name, const char *a, const char *b)
{
    const safetensors_tensor t[] = {
        {.name = a, .type = F32, .dims = 1, .dim = {4}, .bytes = 16},
        {.name = b, .type = BF16, .dims = 2, .dim = {2, 3}, .bytes = 12}};
    err e = {.code = OK};
    FUZZ_CLAIM(safetensors_write(fuzz_path(name), t, 2, zeros, NULL, NULL, &e) == OK, "%s", e.text);
}

static void open_target(void)
{
    write_shard("model-00001-of-00002.safetensors", "a.weight", "a.bias");
    write_shard("model-00002-of-00002.safetensors", "b.weight", "b.bias");
}

static bool run(const uint8_t *input, size_t bytes)
{
    safetensors *t = NULL;
    err e = {.code = OK};
    fuzz_put("model.safetensors.index.json", input, bytes);
    const status s = safetensors_open_folder(fuzz_path(""), &t, &e);
    if (s == OK)
        FUZZ_CLAIM(safetensors_count(t) <= 4, "%zu tensors", safetensors_count(t));
    else
        fuzz_refused(s, &e);
    safetensors_close(t);
    return s == OK;
}

const fuzz_target fuzz_this = {.open = open_target, .run = run};
