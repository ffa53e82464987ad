// curve.c -- reads the losses of a run back from its log.jsonl. Called for the picture and the
// sparkline at the end of a run, and by whoever wants them later. Deliberately knows nothing of the
// run itself: the file is all there is.
#include "monitor/curve.h"
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

static bool add_point(curve_line *l, double step, double loss)
{
    if (l->count == l->room) {
        size_t room = l->room ? 2 * l->room : 256;
        double *steps = realloc(l->step, room * sizeof *steps);
        if (steps) l->step = steps;
        double *losses = realloc(l->loss, room * sizeof *losses);
        if (losses) l->loss = losses;
        if (!steps || !losses) return false;
        l->room = room;
    }
    l->step[l->count] = step;
    l->loss[l->count++] = loss;
    return true;
}

static void drop_from(curve_line *l, double step)
{
    while (l->count > 0 && l->step[l->count - 1] >= step) l->count--;
}

// A step that comes again was done again by a resumed run, and what followed it was not kept.
static bool add_event(curve *c, json_t *line)
{
    const char *event = json_string_value(json_object_get(line, "event"));
    json_t *loss = json_object_get(line, "loss");
    double step = json_number_value(json_object_get(line, "step"));
    bool is_step = event && strcmp(event, "step") == 0;
    bool is_eval = event && strcmp(event, "eval") == 0;

    if (is_step) drop_from(&c->train, step);
    if (is_step || is_eval) drop_from(&c->valid, step);
    if ((!is_step && !is_eval) || !json_is_number(loss)) return true;
    return add_point(is_step ? &c->train : &c->valid, step, json_number_value(loss));
}

static status read_line(const char *path, long number, const char *at, size_t bytes, curve *out,
                        err *e)
{
    status result = OK;
    json_error_t why;
    json_t *line = json_loadb(at, bytes, JSON_REJECT_DUPLICATES, &why);

    if (!line) FAIL(E_USAGE, "%s:%ld: not JSON: %s", path, number, why.text);
    if (!json_is_object(line)) FAIL(E_USAGE, "%s:%ld: not a JSON object", path, number);
    if (!add_event(out, line)) FAIL(E_MEMORY, "%s: out of memory", path);
done:
    json_decref(line);
    return result;
}

status curve_read(const char *log_path, curve *out, err *e)
{
    status result = OK;
    char *whole = NULL;
    size_t bytes;
    long number = 1;

    *out = (curve){0};
    TRY(file_read(log_path, &whole, &bytes, e));
    for (const char *at = whole, *end = whole + bytes, *next; at < end; at = next, number++) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        if (!newline) break;
        next = newline + 1;
        if (newline > at) TRY(read_line(log_path, number, at, (size_t)(newline - at), out, e));
    }
done:
    free(whole);
    return result;
}
