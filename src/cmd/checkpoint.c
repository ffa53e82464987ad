// checkpoint.c -- `trireme checkpoint show | verify`: what is in a checkpoint, and is all of it
// there.
#include "cmd/cmd.h"

#include "ckpt/ckpt.h"
#include "cmd/flags.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] = "usage: trireme checkpoint show DIR [--json]\n"
                            "       trireme checkpoint verify DIR\n"
                            "\n"
                            "show lists the tensors of a checkpoint and the state that it resumes "
                            "from; verify reads every file and compares\n"
                            "size and checksum with the manifest. DIR is a checkpoint, or the "
                            "folder of a run, of which it is the "
                            "newest.\n";

static void show_tensors(const char *what, const safetensors *s)
{
    for (size_t i = 0; s && i < safetensors_count(s); i++) {
        const tensor_info *t = safetensors_at(s, i);
        printf("%-8s %-56s %-5s [", what, t->name, t->known_type ? dtype_name(t->type) : "?");
        for (int k = 0; k < t->dims; k++) printf("%s%" PRId64, k ? ", " : "", t->dim[k]);
        printf("]\n");
    }
}

static status show(const char *folder, bool json, err *e)
{
    status result = OK;
    ckpt *c = NULL;
    char *found = NULL;
    TRY(ckpt_locate(folder, &found, NULL, e));
    TRY(ckpt_open(found, &c, e));
    json_dumpf(c->values, stdout, json ? JSON_COMPACT : JSON_INDENT(2));
    putchar('\n');
    if (json) goto done;
    show_tensors("weight", c->weights);
    show_tensors("state", c->state);
done:
    ckpt_close(c);
    free(found);
    return result;
}

// Of a run, its newest checkpoint must be whole: to pass over a broken one would hide it.
static status verify(const char *folder, err *e)
{
    status result = OK;
    text warnings = {0};
    char *found = NULL;
    TRY(ckpt_locate(folder, &found, &warnings, e));
    if (warnings.bytes)
        FAIL(E_USAGE, "%s: %.*s", folder, (int)strcspn(warnings.at, "\n"), warnings.at);
    TRY(ckpt_verify(found, e));
    printf("%s: every file is there and has its checksum\n", found);
done:
    text_clear(&warnings);
    free(found);
    return result;
}

typedef struct request {
    bool json, help;
} request;

static const flag flags[] = {
    {"--json", FLAG_SWITCH, offsetof(request, json), NULL, "show: only the state, as JSON"},
    {"--help", FLAG_SWITCH, offsetof(request, help), NULL, "this text"},
};

int cmd_checkpoint(int argc, char **argv)
{
    status result = OK;
    err error = {0}, *e = &error;
    request r = {0};
    flag_texts words = {0};
    TRY(flags_parse(flags, 2, argc, argv, &r, &words, e));
    if (r.help) {
        puts(usage);
        flags_help(flags, 2, stdout);
        goto done;
    }
    if (words.count != 2)
        FAIL(E_USAGE, "checkpoint: give show or verify, and a folder; `trireme checkpoint --help`");
    if (strcmp(words.at[0], "show") == 0) {
        TRY(show(words.at[1], r.json, e));
    } else if (strcmp(words.at[0], "verify") == 0) {
        TRY(verify(words.at[1], e));
    } else {
        FAIL(E_USAGE, "checkpoint: found '%s'; valid: show, verify", words.at[0]);
    }
done:
    flag_texts_clear(&words);
    return result == OK ? 0 : cmd_fail(e);
}
