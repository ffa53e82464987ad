// diagnose.c -- `trireme diagnose`: names the cause in the logs of a failed run. diagnose/ reads them.
#include "cmd/cmd.h"
#include "cmd/command.h"
#include "cmd/console.h"

#include "diagnose/diagnose.h"

#include <stdio.h>

typedef struct diagnose_request {
    bool json;
} diagnose_request;

static const flag flags[] = {
    {"--json", FLAG_SWITCH, offsetof(diagnose_request, json), NULL,
     "Prints one JSON object: the cause, its place, evidence, remedies, and what else was found."},
};
enum { FLAGS = sizeof flags / sizeof *flags };

// The exit code where no cause is known. Errors of the command have 2.
enum { NO_CAUSE = 1 };

static status print(const diagnosis *d, bool as_json, err *e)
{
    status result = OK;
    text out = {0};
    json_t *o = NULL;
    if (as_json) {
        TRY(diagnose_to_json(d, &o, e));
        json_dumpf(o, stdout, JSON_COMPACT);
        putchar('\n');
    } else {
        diagnose_add_text(&out, d);
        TRY(text_check(&out, e));
        console_print(out.chars, out.bytes);
    }
done:
    json_decref(o);
    text_clear(&out);
    return result;
}

static int cmd_diagnose(int argc, char **argv)
{
    status result = OK;
    err error = {0}, *e = &error;
    diagnose_request q = {0};
    flag_texts paths = {0};
    diagnosis *d = NULL;
    bool has_cause = false;
    TRY(flags_parse(flags, FLAGS, argc, argv, &q, &paths, e));
    if (paths.count == 0)
        FAIL(E_USAGE, "diagnose: give a log, a folder of logs, or - for standard input");
    TRY(diagnose_open(&d, e));
    for (size_t i = 0; i < paths.count; i++) TRY(diagnose_read(d, paths.items[i], e));
    TRY(print(d, q.json, e));
    has_cause = diagnose_answer_of(d).code;
done:
    diagnose_close(d);
    flag_texts_clear(&paths);
    if (result != OK) return cmd_fail(e);
    return has_cause ? 0 : NO_CAUSE;
}

const command command_diagnose = {
    .name = "diagnose",
    .run = cmd_diagnose,
    .usage = "LOG... [--json]",
    .help = "Names the cause of a failed run in its logs, and what helps.",
    .about =
        "Reads logs of Trireme, torchrun, NCCL, DeepSpeed, Accelerate, Megatron-LM, TensorFlow, "
        "Slurm, mpirun, ssh, Kubernetes and the kernel. LOG is a file, also one of gzip, a folder "
        "with a log of each rank or host, or - for standard input. Prints the cause, its rank and "
        "host where the log tells them, the line that shows it, and what to try. Lines that only "
        "follow from another failure, such as time-outs of ranks that waited, are not taken for "
        "the cause. The exit code is 0 where a cause was found, and 1 where none is known: either "
        "the first line of an error is printed, or that there is no failure.",
    .flags = flags,
    .flag_count = FLAGS,
};
