// main.c -- the program: finds the command and runs it. One row per command.
#include "cmd/cmd.h"
#include "cmd/console.h"

#include "base/text.h"

#include <stdio.h>
#include <string.h>

typedef struct command {
    const char *name;
    int (*run)(int argc, char **argv); // argv[0] is the command's name
    const char *help;
} command;

static const command commands[] = {
    {"train", cmd_train, "train a model: trireme train JOB.yaml [--key value ...]"},
    {"explain", cmd_explain,
     "every effective value of a job and its origin, the plan, the schedule"},
    {"plan", cmd_plan, "memory and traffic of a job under every strategy, and what fits"},
    {"data", cmd_data, "text to token shards: trireme data prepare | inspect"},
    {"generate", cmd_generate, "sample text from a model folder"},
    {"eval", cmd_eval, "loss and perplexity of a model folder on a job's validation set"},
    {"checkpoint", cmd_checkpoint, "look at or verify a checkpoint: show | verify"},
    {"curve", cmd_curve, "draw the loss curve of a run"},
    {"bench", cmd_bench,
     "measure: bench train | kernels | all_reduce | reduce_scatter | all_gather | broadcast | "
     "sendrecv"},
};

enum { COMMANDS = sizeof commands / sizeof *commands };

static int help(FILE *out)
{
    fprintf(out, "trireme %s -- trains neural networks on many devices\n\n", TRIREME_VERSION);
    for (int i = 0; i < COMMANDS; i++)
        fprintf(out, "  %-12s%s\n", commands[i].name, commands[i].help);
    fprintf(out, "\ntrireme COMMAND --help tells the rest. Exit codes: 0 done, 1 the run failed, 2 "
                 "bad usage or input,\n"
                 "3 does not fit in memory, 130 interrupted and saved.\n");
    return out == stdout ? 0 : 2;
}

static int call(int argc, char **argv)
{
    if (argc < 2) return help(stderr);
    const char *word = argv[1];
    if (strcmp(word, "help") == 0 || strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)
        return help(stdout);
    if (strcmp(word, "--version") == 0) {
        printf("trireme %s\n", TRIREME_VERSION);
        return 0;
    }
    const char *names[COMMANDS];
    for (int i = 0; i < COMMANDS; i++) {
        names[i] = commands[i].name;
        if (strcmp(word, names[i]) == 0) return commands[i].run(argc - 1, argv + 1);
    }
    const char *near = text_nearest(word, names, COMMANDS);
    console_say("there is no command '%s'%s%s%s; `trireme help` lists them", word,
                near ? ", did you mean '" : "", near ? near : "", near ? "'" : "");
    return 2;
}

int main(int argc, char **argv)
{
    console_open();
    return console_close(call(argc, argv));
}
