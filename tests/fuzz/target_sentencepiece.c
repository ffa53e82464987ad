// The input is a tokenizer.model of SentencePiece. What is converted is a tokenizer.json that is read, or refused with a reason.
#include "fuzz.h"

#include "data/tokenizer/tokenizer.h"

#include <string.h>

static bool run(const uint8_t *input, size_t bytes)
{
    static const char sentence[] = "The ship's  mast, 1825!\n\xc3\xa9<turn>\xe4\xb8\xad";
    tokenizer *t = NULL;
    tokenizer_workspace *w = NULL;
    const int32_t *ids = NULL;
    size_t count = 0;
    err e = {.code = OK};
    fuzz_put("tokenizer.model", input, bytes);
    status s = tokenizer_load(fuzz_path("tokenizer.model"), &t, &e);
    if (s != OK) {
        fuzz_refused(s, &e);
        return false;
    }
    FUZZ_CLAIM(tokenizer_workspace_open(t, &w, &e) == OK, "%s", e.text);
    s = tokenizer_encode(w, sentence, strlen(sentence), &ids, &count, &e);
    if (s != OK) fuzz_refused(s, &e);
    for (size_t i = 0; s == OK && i < count; i++)
        FUZZ_CLAIM(ids[i] >= 0 && ids[i] < tokenizer_vocab(t), "id %d", ids[i]);
    tokenizer_workspace_close(w);
    tokenizer_close(t);
    return true;
}

const fuzz_target fuzz_this = {.run = run};
