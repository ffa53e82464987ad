// checkpoint.c -- `trireme checkpoint show | verify`: what is in a checkpoint, and is all of it
// there.
#include "cmd/cmd.h"

#include "ckpt/ckpt.h"

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
        printf("%-8s %-56s %-5s [", what, t->name, t->known_type ? dtype_name(t->type) : "?");
        for (int k = 0; k < t->dims; k++) printf("%s%" PRId64, k ? ", " : "", t->dim[k]);
        printf("]\n");
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

int cmd_checkpoint(int argc, char **argv)
{
    status result = OK;
    err error = {0}, *e = &error;
    const char *rest[2], *json = NULL, *help = NULL;
    int count;
    const cmd_flag flags[] = {{"json", &json, true}, {"help", &help, true}};
    TRY(cmd_flags(argc, argv, flags, 2, rest, 2, &count, e));
    if (help) {
        fputs(usage, stdout);
        return 0;
    }
    if (count != 2)
        FAIL(E_USAGE, "checkpoint: give show or verify, and a folder; `trireme checkpoint --help`");
    if (strcmp(rest[0], "show") == 0) {
        TRY(show(rest[1], json != NULL, e));
    } else if (strcmp(rest[0], "verify") == 0) {
        TRY(ckpt_verify(rest[1], e));
        printf("%s: every file is there and has its checksum\n", rest[1]);
    } else {
        FAIL(E_USAGE, "checkpoint: found '%s'; valid: show, verify", rest[0]);
    }
done:
    return result == OK ? 0 : cmd_fail(e);
}
