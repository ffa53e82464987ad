// The input is a configuration of another system: its first line names the system, or else chooses one by its first
// byte. A configuration that is accepted is printed as a job file that reads as YAML.
#include "fuzz.h"

#include "base/text.h"
#include "config/dialect/dialect.h"
#include "config/job.h"
#include "config/yaml_node.h"

#include <stdlib.h>
#include <string.h>

// The system of an input, whose configuration begins at *bytes.
static const dialect *choose(const uint8_t *input, size_t all, size_t *bytes)
{
    char name[32] = "";
    size_t count = 0, line = 0;
    while (DIALECTS[count]) count++;
    while (line < all && input[line] != '\n') line++;
    if (line < sizeof name) memcpy(name, input, line);
    const dialect *d = dialect_find(name);
    *bytes = d && line < all ? line + 1 : d ? line : all ? 1 : 0;
    return d ? d : DIALECTS[all ? input[0] % count : 0];
}

static bool run(const uint8_t *input, size_t bytes)
{
    size_t from = 0;
    err e = {.code = OK};
    text out = {0};
    const dialect *d = choose(input, bytes, &from);
    fuzz_put("theirs", input + from, bytes - from);
    char *file = strdup(fuzz_path("theirs"));
    FUZZ_CLAIM(file, "no memory");
    const status s = job_translate(d->name, 1, &file, 0, NULL, false, &out, &e);
    if (s == OK) {
        yaml_node *root = NULL;
        const status again = yaml_node_parse("job.yaml", out.chars, out.bytes, &root, &e);
        FUZZ_CLAIM(again == OK, "the job of %s is no YAML: %s", d->name, e.text);
        yaml_node_free(root);
    } else {
        fuzz_refused(s, &e);
        FUZZ_CLAIM(s == E_USAGE, "%s ends with status %d: %s", d->name, (int)s, e.text);
        FUZZ_CLAIM(!strchr(e.text, '\n'), "the error of %s has two lines: %s", d->name, e.text);
        FUZZ_CLAIM(strstr(e.text, "theirs"), "the error of %s names no file: %s", d->name, e.text);
    }
    text_clear(&out);
    free(file);
    return s == OK;
}

const fuzz_target fuzz_this = {.run = run};
