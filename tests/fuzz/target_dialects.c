// The input is a configuration of another system: its first line names the system, or else chooses one by its first
// byte. With the variable FUZZ_DIALECT=NAME all inputs are of one system, and a first line that names it may be left out.
// A configuration that is accepted is printed as a job file that reads as YAML. The line that refuses one names the file,
// and the key, where the file can be parsed.
#include "fuzz.h"

#include "base/text.h"
#include "config/dialect/private.h"
#include "config/job.h"
#include "config/yaml_node.h"

#include <stdlib.h>
#include <string.h>

static const char NAME[] = "theirs"; // of the file, without a folder

// The system of an input, whose configuration begins at *bytes.
static const dialect *choose(const uint8_t *input, size_t all, size_t *bytes)
{
    char name[32] = "";
    const char *fixed = getenv("FUZZ_DIALECT");
    size_t count = 0, line = 0;
    while (DIALECTS[count]) count++;
    while (line < all && input[line] != '\n') line++;
    if (line < sizeof name) memcpy(name, input, line);
    const dialect *d = dialect_find(name), *only = fixed ? dialect_find(fixed) : NULL;
    FUZZ_CLAIM(!fixed || only, "FUZZ_DIALECT=%s is no system", fixed);
    *bytes = d && line < all ? line + 1 : d ? line : all && !only ? 1 : 0;
    if (only) return only;
    return d ? d : DIALECTS[all ? input[0] % count : 0];
}

// The tree of a configuration that its system's parser accepts; NULL: none, or no map.
static yaml_node *parse(const dialect *d, const char *s, size_t bytes)
{
    yaml_node *root = NULL;
    err e = {.code = OK};
    text content = {0}; // ends with a zero byte, as a file that is read does
    text_add_bytes(&content, s, bytes);
    FUZZ_CLAIM(!content.failed, "no memory");
    const status result =
        dialect_parse(d, NAME, content.chars ? content.chars : "", content.bytes, &root, &e);
    text_clear(&content);
    if (result == OK && root->kind == NODE_MAP) return root;
    yaml_node_free(root);
    return NULL;
}

// Returns whether text [bytes] is a key of the system or of its file. An option is spelled with dashes, and may be one of
// the launcher. A long key is cut, and control characters in it are escaped.
static bool is_key(const dialect *d, const yaml_node *root, const char *word, size_t bytes)
{
    static const char LAUNCHER[] = "launcher.";
    text path = {0};
    const size_t dashes = d->is_arguments ? strspn(word, "-") : 0;
    text_add(&path, LAUNCHER);
    for (size_t i = dashes; i < bytes; i++)
        text_add_bytes(&path, d->is_arguments && word[i] == '-' ? "_" : word + i, 1);
    FUZZ_CLAIM(path.chars, "no memory");
    const char *key = path.chars + strlen(LAUNCHER);
    const bool known = dialect_row_of_key(d, key) || dialect_node(root, key) ||
                       dialect_node(root, path.chars) || strstr(key, "…") || strchr(key, '\\');
    text_clear(&path);
    return known;
}

// Claims that a line has the form "FILE:LINE: KEY: …" or "FILE: KEY: …". A key may hold ": " itself.
static void check_line(const dialect *d, const char *line, const char *s, size_t bytes)
{
    const char *rest = strstr(line, NAME);
    FUZZ_CLAIM(rest, "the error of %s names no file: %s", d->name, line);
    yaml_node *root = parse(d, s, bytes);
    if (!root) return;
    rest += strlen(NAME);
    if (*rest == ':') rest += 1 + strspn(rest + 1, "0123456789");
    if (*rest == ':') rest++;
    if (*rest == ' ') rest++;
    bool names = strstr(rest, "unknown key") || strstr(rest, "unknown option");
    for (const char *end = strstr(rest, ": "); end && !names; end = strstr(end + 1, ": "))
        names = is_key(d, root, rest, (size_t)(end - rest));
    FUZZ_CLAIM(names, "the error of %s names no key: %s", d->name, line);
    yaml_node_free(root);
}

static bool run(const uint8_t *input, size_t bytes)
{
    size_t from = 0;
    err e = {.code = OK};
    text out = {0};
    const dialect *d = choose(input, bytes, &from);
    fuzz_put(NAME, input + from, bytes - from);
    char *file = strdup(fuzz_path(NAME));
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
        check_line(d, e.text, (const char *)input + from, bytes - from);
    }
    text_clear(&out);
    free(file);
    return s == OK;
}

const fuzz_target fuzz_this = {.run = run};
