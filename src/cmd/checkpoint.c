// checkpoint.c -- `trireme checkpoint show | verify`: what is in a checkpoint, and is all of it
// there.
#include "cmd/cmd.h"
#include "cmd/console.h"

#include "ckpt/ckpt.h"
#include "cmd/flags.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char usage[] = "usage: trireme checkpoint show DIR [--json]\n"
                            "       trireme checkpoint verify DIR\n"
                            "\n"
                            "show lists the tensors of a checkpoint and the state that it resumes "
                            "from; verify reads every file and compares\n"
                            "size and checksum with the manifest.\n";

static void show_tensors(const char *what, const safetensors *s)
{
    for (size_t i = 0; s && i < safetensors_count(s); i++) {
        const tensor_info *t = safetensors_at(s, i);
        text shape = {0};
        for (int k = 0; k < t->dims; k++) text_addf(&shape, "%s%" PRId64, k ? ", " : "", t->dim[k]);
        console_line("%-8s %-56s %-5s [%s]", what, t->name,
                     t->known_type ? dtype_name(t->type) : "?", shape.at ? shape.at : "");
        text_clear(&shape);
    }
}

static status show(const char *folder, bool json, err *e)
{
    status result = OK;
    ckpt *c = NULL;
    TRY(ckpt_open(folder, &c, e));
    json_dumpf(c->values, stdout, json ? JSON_COMPACT : JSON_INDENT(2));
    putchar('\n');
    if (json) goto done;
    show_tensors("weight", c->weights);
    show_tensors("state", c->state);
done:
    ckpt_close(c);
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
        TRY(ckpt_verify(words.at[1], e));
        console_line("%s: every file is there and has its checksum", words.at[1]);
    } else {
        FAIL(E_USAGE, "checkpoint: found '%s'; valid: show, verify", words.at[0]);
    }
done:
    flag_texts_clear(&words);
    return result == OK ? 0 : cmd_fail(e);
}
