// The input is a file for `data prepare`: a name that says how it is read (t.jsonl, t.json, t.txt, or
// one with .gz), a line break, the content. The shard of an accepted file holds every token.
#include "fuzz.h"

#include "data/prepare.h"
#include "data/tokens.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void check_shard(const char *prefix, uint64_t count, uint64_t documents)
{
    tokens *t = NULL;
    err e = {.code = OK};
    const status s = tokens_open(prefix, &t, &e);
    FUZZ_CLAIM(s == OK, "the shards are refused: %s", e.text);
    FUZZ_CLAIM(tokens_count(t) == count && tokens_documents(t) == documents,
               "%llu tokens, reported %llu", (unsigned long long)tokens_count(t),
               (unsigned long long)count);
    tokens_close(t);
}

static bool run(const uint8_t *input, size_t bytes)
{
    char name[16] = "";
    const uint8_t *end = memchr(input, '\n', bytes < sizeof name ? bytes : sizeof name - 1);
    if (!end || end == input) return false;
    memcpy(name, input, (size_t)(end - input));
    if (name[0] != 't' || strspn(name, "abcdefghijklmnopqrstuvwxyz.") != (size_t)(end - input))
        return false;
    fuzz_put(name, end + 1, bytes - (size_t)(end + 1 - input));
    const char *path = fuzz_path(name);
    const prepare_options o = {.inputs = &path,
                               .input_count = 1,
                               .output_prefix = fuzz_path("out"),
                               .document_separator = "\n\n",
                               .train_bpe = 270,
                               .append_eod = true,
                               .workers = 1};
    prepare_result r;
    err e = {.code = OK};
    const status s = prepare_run(&o, &r, &e);
    if (s == OK)
        check_shard(o.output_prefix, r.tokens, r.documents);
    else
        fuzz_refused(s, &e);
    unlink(path);
    return s == OK;
}

const fuzz_target fuzz_this = {.run = run};
