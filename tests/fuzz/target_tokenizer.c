// The input is a tokenizer.json. An accepted tokenizer encodes and decodes any text, and the file that
// it saves is accepted again.
#include "fuzz.h"

#include "base/text.h"
#include "data/tokenizer/tokenizer.h"

#include <stdlib.h>
#include <string.h>

static const char *const TEXTS[] = {"", "The ship's mast, 1825!\n\n  It was a truth",
                                    "\xc3\xa9\xe2\x80\x94\xf0\x9f\x9a\xa2 \t\r\n<|endoftext|>",
                                    "don't 'S I'LL aaaaaaaaaaaaaaaa"};

// A text whose origin is traced has the same ids, and ends in it that do not fall.
static void check_traced(tokenizer_workspace *w, const char *s, const int32_t *ids, size_t count)
{
    const int32_t *traced = NULL;
    const uint32_t *ends = NULL;
    size_t traced_count = 0;
    const tokenizer_range some = {strlen(s) / 2, strlen(s) / 4};
    err e = {.code = OK};
    int32_t *before = malloc((count + 1) * sizeof *before);
    FUZZ_CLAIM(before, "no memory");
    memcpy(before, ids, count * sizeof *ids);
    status result =
        tokenizer_encode_literal(w, s, strlen(s), NULL, 0, &traced, &ends, &traced_count, &e);
    FUZZ_CLAIM(result == OK && traced_count == count, "%s", e.text);
    for (size_t k = 0; k < count; k++) {
        FUZZ_CLAIM(traced[k] == before[k], "another id");
        FUZZ_CLAIM(ends[k] <= strlen(s) && (k == 0 || ends[k - 1] <= ends[k]), "end %u", ends[k]);
    }
    result = tokenizer_encode_literal(w, s, strlen(s), &some, 1, &traced, &ends, &traced_count, &e);
    if (result != OK) fuzz_refused(result, &e);
    free(before);
}

static void check_accepted(const tokenizer *t)
{
    tokenizer_workspace *w = NULL;
    err e = {.code = OK};
    FUZZ_CLAIM(tokenizer_workspace_open(t, &w, &e) == OK, "%s", e.text);
    for (size_t i = 0; i < sizeof TEXTS / sizeof *TEXTS; i++) {
        const int32_t *ids = NULL;
        size_t count = 0;
        text out = {0};
        const status s = tokenizer_encode(w, TEXTS[i], strlen(TEXTS[i]), &ids, &count, &e);
        if (s != OK) {
            fuzz_refused(s, &e);
            continue;
        }
        for (size_t k = 0; k < count; k++)
            FUZZ_CLAIM(ids[k] >= 0 && ids[k] < tokenizer_vocab(t), "id %d", ids[k]);
        check_traced(w, TEXTS[i], ids, count);
        tokenizer_decode(t, ids, count, true, &out);
        text_clear(&out);
    }
    tokenizer_workspace_close(w);
}

static bool run(const uint8_t *input, size_t bytes)
{
    tokenizer *t = NULL, *again = NULL;
    err e = {.code = OK};
    fuzz_put("tokenizer.json", input, bytes);
    status s = tokenizer_load(fuzz_path("tokenizer.json"), &t, &e);
    if (s != OK) {
        fuzz_refused(s, &e);
        return false;
    }
    check_accepted(t);
    s = tokenizer_save(t, fuzz_path("saved.json"), &e);
    FUZZ_CLAIM(s == OK, "%s", e.text);
    s = tokenizer_load(fuzz_path("saved.json"), &again, &e);
    FUZZ_CLAIM(s == OK, "a saved tokenizer is refused: %s", e.text);
    FUZZ_CLAIM(tokenizer_vocab(t) == tokenizer_vocab(again), "another vocabulary");
    tokenizer_close(t);
    tokenizer_close(again);
    return true;
}

const fuzz_target fuzz_this = {.run = run};
