// render.c -- renders templates from the command line, for comparisons with other interpreters: each line of the input is
// {"template": NUMBER of an argument, "variables": {…}, "now": seconds}. For each it prints one line of JSON: {"text": …,
// "generation": [[first, end], …]} in characters, or {"error": …}. tests/golden/compare_templates.py runs it.
//
//   jinja_render TEMPLATE-FILE… <INPUT
#include "base/file.h"
#include "jinja/jinja.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static size_t count_points(const char *s, size_t bytes)
{
    size_t n = 0;
    for (size_t i = 0; i < bytes; i++) n += ((unsigned char)s[i] & 0xc0) != 0x80;
    return n;
}

static json_t *spans_of(const jinja_output *o)
{
    json_t *spans = json_array(), *open = NULL;
    size_t byte = 0, point = 0;
    for (size_t i = 0; i < o->runs; i++) {
        const size_t end = point + count_points(o->chars.chars + byte, o->run[i].bytes);
        byte += o->run[i].bytes;
        if (o->run[i].generation && open) {
            json_array_set_new(open, 1, json_integer((json_int_t)end));
        } else if (o->run[i].generation) {
            open = json_pack("[i, i]", (int)point, (int)end);
            json_array_append_new(spans, open);
        } else {
            open = NULL;
        }
        point = end;
    }
    return spans;
}

static void render(jinja *const *templates, const json_t *input, jinja_output *o)
{
    err e = {.code = OK};
    const jinja *t = templates[json_integer_value(json_object_get(input, "template"))];
    const json_int_t now = json_integer_value(json_object_get(input, "now"));
    json_t *line;
    if (!t)
        line = json_pack("{s:s}", "error", "the template does not open");
    else if (jinja_render(t, json_object_get(input, "variables"), now, NULL, o, &e) != OK)
        line = json_pack("{s:s}", "error", e.text);
    else
        line = json_pack("{s:s%, s:o}", "text", o->chars.chars, o->chars.bytes, "generation",
                         spans_of(o));
    json_dumpf(line, stdout, JSON_COMPACT);
    putchar('\n');
    json_decref(line);
}

int main(int argc, char **argv)
{
    jinja **templates = calloc((size_t)argc, sizeof *templates);
    jinja_output o = {0};
    char *line = NULL;
    size_t room = 0;
    for (int i = 1; i < argc && templates; i++) {
        char *source = NULL;
        size_t bytes = 0;
        err e = {.code = OK};
        if (file_read(argv[i], &source, &bytes, &e) != OK ||
            jinja_open(argv[i], source, bytes, &templates[i - 1], &e) != OK)
            fprintf(stderr, "%s\n", e.text);
        free(source);
    }
    for (ssize_t n; (n = getline(&line, &room, stdin)) > 0;) {
        json_error_t problem;
        json_t *input = json_load_python(line, (size_t)n, 0, &problem);
        if (!input) {
            fprintf(stderr, "the input is no JSON: %s\n", problem.text);
            return 2;
        }
        render(templates, input, &o);
        json_decref(input);
    }
    for (int i = 1; i < argc; i++) jinja_close(templates[i - 1]);
    jinja_output_clear(&o);
    free(templates);
    free(line);
    return 0;
}
