// curve.c -- `trireme curve`: the loss curve of a run as a picture and as a line of block
// characters.
#include "cmd/cmd.h"

#include "base/file.h"
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
    printf("%s  loss %.4f to %.4f\n%s\n", line.at ? line.at : "", c.train.loss[0],
           c.train.loss[c.train.count - 1], png);
done:
    curve_clear(&c);
    text_clear(&line);
    free(log);
    free(own);
    return result;
}

int cmd_curve(int argc, char **argv)
{
    status result = OK;
    err error = {0}, *e = &error;
    const char *rest[1], *output = NULL, *help = NULL;
    int count;
    const cmd_flag flags[] = {{"output", &output, false}, {"help", &help, true}};
    TRY(cmd_flags(argc, argv, flags, 2, rest, 1, &count, e));
    if (help) {
        fputs(usage, stdout);
        return 0;
    }
    if (count != 1) FAIL(E_USAGE, "curve: give the folder of a run; `trireme curve --help`");
    TRY(draw(rest[0], output, e));
done:
    return result == OK ? 0 : cmd_fail(e);
}
