// The input is a log. Whatever it holds, it is read in memory and as a file, both give the same answer, and the answer is
// text in valid JSON, whose place is one of the log.
#include "fuzz.h"

#include "diagnose/diagnose.h"

#include <stdlib.h>
#include <string.h>

static char *answer_of(const diagnosis *d)
{
    json_t *o = NULL;
    err e = {.code = OK};
    text said = {0};
    FUZZ_CLAIM(diagnose_to_json(d, &o, &e) == OK, "%s", e.text);
    char *chars = json_dumps(o, JSON_COMPACT);
    FUZZ_CLAIM(chars, "the answer is no JSON");
    const diagnose_answer a = diagnose_answer_of(d);
    FUZZ_CLAIM(!a.code || a.sentence, "cause %s has no sentence", a.code);
    FUZZ_CLAIM(!a.code || a.has_failure, "cause %s in a log without a failure", a.code);
    diagnose_add_text(&said, d);
    FUZZ_CLAIM(said.bytes > 0 && said.chars[said.bytes - 1] == '\n', "the answer is no line");
    text_clear(&said);
    json_decref(o);
    return chars;
}

static bool run(const uint8_t *input, size_t bytes)
{
    diagnosis *d = NULL, *of_file = NULL;
    err e = {.code = OK};
    // A file that begins as one of gzip is read as one. No log does, because a byte of it is no text.
    const bool is_gzip = bytes > 1 && input[0] == 0x1f && input[1] == 0x8b;
    fuzz_put("log", input, bytes);
    FUZZ_CLAIM(diagnose_open(&d, &e) == OK, "%s", e.text);
    FUZZ_CLAIM(diagnose_open(&of_file, &e) == OK, "%s", e.text);
    const char *path = fuzz_path("log");
    FUZZ_CLAIM(diagnose_read_bytes(d, path, (const char *)input, bytes, &e) == OK, "%s", e.text);
    const status s = diagnose_read(of_file, path, &e);
    FUZZ_CLAIM(s == OK || is_gzip, "a log of %zu bytes is refused: %s", bytes, e.text);
    char *answer = answer_of(d), *again = answer_of(of_file);
    FUZZ_CLAIM(is_gzip || strcmp(answer, again) == 0, "two answers: %s and %s", answer, again);
    free(answer);
    free(again);
    diagnose_close(d);
    diagnose_close(of_file);
    return true;
}

const fuzz_target fuzz_this = {.run = run};
