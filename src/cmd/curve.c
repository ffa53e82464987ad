// curve.c -- `trireme curve`: the loss curve of a run as a picture and as a line of block
// characters.
#include "cmd/cmd.h"
#include "cmd/console.h"

#include "base/file.h"
#include "cmd/flags.h"
#include "monitor/curve.h"

#include <stdio.h>
#include <stdlib.h>

static const char usage[] = "usage: trireme curve RUN [--output FILE.png]\n"
                            "\n"
                            "Reads RUN/log.jsonl, draws RUN/loss.png (or FILE.png) and prints a "
                            "sparkline of the training loss.\n";

static status draw(const char *folder, const char *output, err *e)
{
    status result = OK;
    curve c = {0};
    text line = {0};
    char *log = file_join(folder, "log.jsonl"), *own = file_join(folder, "loss.png");
    const char *png = output ? output : own;
    TRY(curve_read(log, &c, e));
    TRY(curve_draw_png(&c, png, 0, 0, e));
    curve_sparkline(&c.train, 60, &line);
    printf("%s  loss %.4f to %.4f\n", line.at ? line.at : "", c.train.loss[0],
           c.train.loss[c.train.count - 1]);
    console_line("%s", png);
done:
    curve_clear(&c);
    text_clear(&line);
    free(log);
    free(own);
    return result;
}

typedef struct request {
    const char *output;
    bool help;
} request;

static const flag flags[] = {
    {"--output", FLAG_TEXT, offsetof(request, output), "FILE.png", "default: RUN/loss.png"},
    {"--help", FLAG_SWITCH, offsetof(request, help), NULL, "this text"},
};

int cmd_curve(int argc, char **argv)
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
    if (words.count != 1) FAIL(E_USAGE, "curve: give the folder of a run; `trireme curve --help`");
    TRY(draw(words.at[0], r.output, e));
done:
    flag_texts_clear(&words);
    return result == OK ? 0 : cmd_fail(e);
}
