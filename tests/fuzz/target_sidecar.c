// The input is the sidecar of a token shard. The target reads it, and the shard's number of text bytes
// from it.
#include "fuzz.h"

#include "data/sidecar.h"
#include "data/tokens.h"

static const int32_t IDS[] = {1, 2, 3, 4, 5};

static void open_target(void)
{
    tokens_writer *w = NULL;
    err e = {.code = OK};
    FUZZ_CLAIM(tokens_writer_open(fuzz_path("t"), 10, &w, &e) == OK, "%s", e.text);
    FUZZ_CLAIM(tokens_writer_document(w, IDS, 5, &e) == OK, "%s", e.text);
    FUZZ_CLAIM(tokens_writer_finish(w, &e) == OK, "%s", e.text);
}

static bool run(const uint8_t *input, size_t bytes)
{
    sidecar side = {0};
    bool found = false;
    tokens *t = NULL;
    uint64_t count;
    err e = {.code = OK};
    fuzz_put("t.json", input, bytes);
    const status s = sidecar_read(fuzz_path("t"), &side, &found, &e);
    if (s != OK) fuzz_refused(s, &e);
    sidecar_clear(&side);
    FUZZ_CLAIM(tokens_open(fuzz_path("t"), &t, &e) == OK, "%s", e.text);
    const status counted = tokens_text_bytes(t, &count, &e);
    if (counted != OK) fuzz_refused(counted, &e);
    tokens_close(t);
    return s == OK && counted == OK;
}

const fuzz_target fuzz_this = {.open = open_target, .run = run};
