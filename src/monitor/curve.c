// curve.c -- reads the losses of a run from its log.jsonl. The end of a run calls it for the picture
// and the sparkline, and so does `trireme curve`. It deliberately knows only the file, not the run.
#include "monitor/curve.h"
#include "base/alloc.h"
#include "base/file.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

void curve_clear(curve *c)
{
    free(c->train.step);
    free(c->train.loss);
    free(c->valid.step);
    free(c->valid.loss);
    *c = (curve){0};
}

static status add_point(curve_line *l, double step, double loss, err *e)
{
    status result = OK;
    size_t steps = l->room, losses = l->room;
    TRY(alloc_grow(&l->step, &steps, l->count + 1, sizeof *l->step, "a curve", e));
    TRY(alloc_grow(&l->loss, &losses, l->count + 1, sizeof *l->loss, "a curve", e));
    l->room = losses;
    l->step[l->count] = step;
    l->loss[l->count++] = loss;
done:
    return result;
}

static void drop_from(curve_line *l, double step)
{
    while (l->count > 0 && l->step[l->count - 1] >= step) l->count--;
}

// A step that comes again belongs to a resumed run. The later steps of the earlier run are dropped,
// because the resumed run does not continue them.
static status add_event(curve *c, json_t *line, err *e)
{
    const char *event = json_string_value(json_object_get(line, "event"));
    json_t *loss = json_object_get(line, "loss");
    double step = json_number_value(json_object_get(line, "step"));
    bool is_step = event && strcmp(event, "step") == 0;
    bool is_eval = event && strcmp(event, "eval") == 0;

    if (is_step) drop_from(&c->train, step);
    if (is_step || is_eval) drop_from(&c->valid, step);
    if ((!is_step && !is_eval) || !json_is_number(loss)) return OK;
    return add_point(is_step ? &c->train : &c->valid, step, json_number_value(loss), e);
}

static status read_line(const char *path, long number, const char *string, size_t bytes, curve *out,
                        err *e)
{
    status result = OK;
    json_error_t why;
    json_t *line = json_loadb(string, bytes, JSON_REJECT_DUPLICATES, &why);

    if (!line) FAIL(E_USAGE, "%s:%ld: not JSON: %s", path, number, why.text);
    if (!json_is_object(line)) FAIL(E_USAGE, "%s:%ld: not a JSON object", path, number);
    TRY(add_event(out, line, e));
done:
    json_decref(line);
    return result;
}

status curve_read(const char *log_path, curve *out, err *e)
{
    status result = OK;
    char *content = NULL;
    size_t bytes;
    long number = 1;

    *out = (curve){0};
    TRY(file_read(log_path, &content, &bytes, e));
    for (const char *line = content, *end = content + bytes, *next; line < end; line = next) {
        const char *newline = memchr(line, '\n', (size_t)(end - line));
        if (!newline) break;
        if (newline > line)
            TRY(read_line(log_path, number, line, (size_t)(newline - line), out, e));
        next = newline + 1;
        number++;
    }
done:
    free(content);
    return result;
}
