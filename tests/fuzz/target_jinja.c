// The input is a chat template. One that opens is rendered with a conversation, within limits of steps and memory: it ends
// with a text whose origins cover it, or with one line that names the file and a line.
#include "fuzz.h"

#include "base/text.h"
#include "jinja/jinja.h"

#include <string.h>

static const char NAME[] = "theirs";

static const char VARIABLES[] =
    "{\"messages\": [{\"role\": \"system\", \"content\": \"Be \\\"brief\\\".\"},"
    " {\"role\": \"user\", \"content\": \"na\\u00efve \\ud83d\\ude00 <|end|>\\nline\"},"
    " {\"role\": \"assistant\", \"content\": \" <think>\\nhm\\n</think>\\n\\nyes \", "
    "\"reasoning_content\": \"hm\","
    "  \"tool_calls\": [{\"id\": \"1\", \"type\": \"function\", \"function\":"
    "  {\"name\": \"f\", \"arguments\": {\"x\": 1, \"y\": [1.5, true, null], \"z\": {\"deep\": "
    "\"\"}}}}]},"
    " {\"role\": \"tool\", \"name\": \"f\", \"content\": [{\"type\": \"text\", \"text\": \"42\"}]},"
    " {\"role\": \"user\", \"content\": \"\"}],"
    " \"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"f\", \"description\": "
    "\"adds\","
    "  \"parameters\": {\"type\": \"object\", \"properties\": {\"x\": {\"type\": \"integer\"}},"
    "  \"required\": [\"x\"]}}}],"
    " \"documents\": null, \"add_generation_prompt\": true, \"bos_token\": \"<s>\", \"eos_token\": "
    "\"</s>\"}";

static json_t *variables(void)
{
    json_error_t problem;
    json_t *j = json_loads(VARIABLES, 0, &problem);
    FUZZ_CLAIM(j, "the variables are no JSON: %s", problem.text);
    return j;
}

static void check_refused(status s, const err *e)
{
    fuzz_refused(s, e);
    FUZZ_CLAIM(s == E_USAGE, "the template ends with status %d: %s", (int)s, e->text);
    FUZZ_CLAIM(strncmp(e->text, NAME, strlen(NAME)) == 0, "the error names no file: %s", e->text);
}

static void check_output(const jinja_output *o, const json_t *j)
{
    const int32_t strings = jinja_count_strings(j);
    size_t bytes = 0;
    for (size_t i = 0; i < o->runs; i++) {
        FUZZ_CLAIM(o->run[i].string >= -1 && o->run[i].string < strings, "a run of string %d",
                   (int)o->run[i].string);
        bytes += o->run[i].bytes;
    }
    FUZZ_CLAIM(bytes == o->chars.bytes, "runs cover %zu of %zu bytes", bytes, o->chars.bytes);
    FUZZ_CLAIM(text_is_utf8(o->chars.chars, o->chars.bytes, NULL), "the text is not UTF-8");
}

static bool run(const uint8_t *input, size_t bytes)
{
    const jinja_limits limits = {.steps = 300000, .bytes = (size_t)16 << 20};
    err e = {.code = OK};
    jinja *t = NULL;
    jinja_output o = {0};
    status s = jinja_open(NAME, (const char *)input, bytes, &t, &e);
    if (s == OK) {
        json_t *j = variables();
        s = jinja_render(t, j, 1764350000, &limits, &o, &e);
        if (s == OK) check_output(&o, j);
        json_decref(j);
    }
    if (s != OK) check_refused(s, &e);
    jinja_output_clear(&o);
    jinja_close(t);
    return s == OK;
}

const fuzz_target fuzz_this = {.run = run};
