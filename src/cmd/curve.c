// curve.c -- `trireme curve`: the loss curve of a run as a picture and as a line of block
// characters.
#include "cmd/cmd.h"

#include "base/file.h"
#include "cmd/command.h"
#include "monitor/curve.h"

#include <stdio.h>
#include <stdlib.h>

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
    printf("%s  loss %.4f to %.4f\n%s\n", line.at ? line.at : "", c.train.loss[0],
           c.train.loss[c.train.count - 1], png);
done:
    curve_clear(&c);
    text_clear(&line);
    free(log);
    free(own);
    return result;
}

typedef struct request {
    const char *output;
} request;

static const flag flags[] = {
    {"--output", FLAG_TEXT, offsetof(request, output), "FILE.png",
     "Writes the picture here (default: RUN/loss.png)."},
};
enum { FLAGS = sizeof flags / sizeof *flags };

static int cmd_curve(int argc, char **argv)
{
    status result = OK;
    err error = {0}, *e = &error;
    request r = {0};
    flag_texts words = {0};
    TRY(flags_parse(flags, FLAGS, argc, argv, &r, &words, e));
    if (words.count != 1) FAIL(E_USAGE, "curve: give the folder of a run; `trireme curve --help`");
    TRY(draw(words.at[0], r.output, e));
done:
    flag_texts_clear(&words);
    return result == OK ? 0 : cmd_fail(e);
}

const command command_curve = {
    .name = "curve",
    .run = cmd_curve,
    .usage = "RUN [--output FILE.png]",
    .help = "Draws the loss curve of a run.",
    .about = "Reads RUN/log.jsonl, draws RUN/loss.png and prints a line of block characters.",
    .flags = flags,
    .flag_count = FLAGS,
};
