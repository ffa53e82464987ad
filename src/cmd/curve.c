// curve.c -- `trireme curve`: draws the loss curve of a run as a picture and as a line of block
// characters.
#include "cmd/cmd.h"
#include "cmd/console.h"

#include "base/file.h"
#include "cmd/command.h"
#include "monitor/curve.h"

#include <stdio.h>
#include <stdlib.h>

static json_t *json_of_line(const curve_line *l)
{
    json_t *steps = json_array(), *losses = json_array();
    for (size_t i = 0; i < l->count; i++) {
        json_array_append_new(steps, json_integer((json_int_t)l->step[i]));
        json_array_append_new(losses, json_real(l->loss[i]));
    }
    return json_pack("{s:o, s:o}", "step", steps, "loss", losses);
}

static void print_json(const curve *c, const char *log, const char *png)
{
    json_t *j =
        json_pack("{s:o, s:o, s:o, s:o}", "log", json_of_text(log), "picture", json_of_text(png),
                  "train", json_of_line(&c->train), "valid", json_of_line(&c->valid));
    json_dumpf(j, stdout, JSON_COMPACT);
    putchar('\n');
    json_decref(j);
}

static void print_text(const curve *c, const char *log, const char *png)
{
    text line = {0};
    curve_sparkline(&c->train, 60, &line);
    printf("%s  loss %.4f to %.4f\n", line.chars ? line.chars : "", c->train.loss[0],
           c->train.loss[c->train.count - 1]);
    console_line("read %s, drew %s", log, png);
    text_clear(&line);
}

static status draw(const char *folder, const char *output, bool json, err *e)
{
    status result = OK;
    curve c = {0};
    char *log = NULL, *own = NULL;
    TRY(file_join(folder, "log.jsonl", &log, e));
    TRY(file_join(folder, "loss.png", &own, e));
    const char *png = output ? output : own;
    TRY(curve_read(log, &c, e));
    if (c.train.count == 0)
        FAIL(E_USAGE, "%s: no losses to draw; valid: the log of a run with a finished step", log);
    TRY(curve_draw_png(&c, png, 0, 0, e));
    if (json)
        print_json(&c, log, png);
    else
        print_text(&c, log, png);
done:
    curve_clear(&c);
    free(log);
    free(own);
    return result;
}

typedef struct curve_request {
    const char *output;
    bool json;
} curve_request;

static const flag flags[] = {
    {"--output", FLAG_TEXT, offsetof(curve_request, output), "FILE.png",
     "Writes the picture to this file (default: RUN/loss.png)."},
    {"--json", FLAG_SWITCH, offsetof(curve_request, json), NULL,
     "Prints one JSON object with every step and loss."},
};
enum { FLAGS = sizeof flags / sizeof *flags };

static int cmd_curve(int argc, char **argv)
{
    status result = OK;
    err error = {0}, *e = &error;
    curve_request r = {0};
    flag_texts words = {0};
    TRY(flags_parse(flags, FLAGS, argc, argv, &r, &words, e));
    if (words.count != 1) FAIL(E_USAGE, "curve: give the folder of a run");
    TRY(draw(words.items[0], r.output, r.json, e));
done:
    flag_texts_clear(&words);
    return result == OK ? 0 : cmd_fail(e);
}

const command command_curve = {
    .name = "curve",
    .run = cmd_curve,
    .usage = "RUN [--output FILE.png] [--json]",
    .help = "Draws the loss curve of a run.",
    .about = "Reads RUN/log.jsonl, writes RUN/loss.png, and prints the curve as a line of block "
             "characters.",
    .flags = flags,
    .flag_count = FLAGS,
};
