// comm_rates_json.c -- rates of calls as a section of a machine file: one object for each communicator, call and group,
// with its points as [bytes, seconds, cores]. See comm_rates.h.
#include "base/alloc.h"
#include "planner/comm_rates.h"

#include <stdlib.h>
#include <string.h>

// ---- Reading

// Where the reader is, for messages: "calls.rows[3]".
typedef struct rates_row {
    const json_t *row;
    size_t number;
} rates_row;

static status read_count(const rates_row *x, const char *key, int *out, err *e)
{
    const json_t *v = json_object_get(x->row, key);
    if (!json_is_integer(v) || json_integer_value(v) < 1 || json_integer_value(v) > INT32_MAX)
        return err_set(e, E_USAGE, "calls.rows[%zu].%s: valid is a number of 1 or more", x->number,
                       key);
    *out = (int)json_integer_value(v);
    return OK;
}

static status read_kind(const rates_row *x, comm_call_kind *out, err *e)
{
    const char *name = json_string_value(json_object_get(x->row, "call"));
    for (int k = CALL_BARRIER; name && k < CALL_KINDS; k++)
        if (strcmp(comm_call_row_of((comm_call_kind)k)->name, name) == 0) {
            *out = (comm_call_kind)k;
            return OK;
        }
    return err_set(
        e, E_USAGE,
        "calls.rows[%zu].call: found %s; valid is the name of a call, such as all_reduce",
        x->number, name ? name : "no text");
}

static status read_head(const rates_row *x, comm_point *out, err *e)
{
    status result = OK;
    const char *name = json_string_value(json_object_get(x->row, "communicator"));
    if (!name || strlen(name) >= sizeof out->communicator)
        FAIL(E_USAGE, "calls.rows[%zu].communicator: valid is a name of less than %zu letters",
             x->number, sizeof out->communicator);
    memcpy(out->communicator, name, strlen(name) + 1);
    TRY(read_kind(x, &out->kind, e));
    out->segments = json_is_true(json_object_get(x->row, "segments"));
    TRY(read_count(x, "ranks", &out->group.ranks, e));
    TRY(read_count(x, "per_host", &out->group.per_host, e));
    TRY(read_count(x, "hosts", &out->group.hosts, e));
    TRY(read_count(x, "neighbours", &out->group.neighbours, e));
done:
    return result;
}

static bool read_numbers(const json_t *from, double out[3])
{
    if (json_array_size(from) != 3) return false;
    for (size_t i = 0; i < 3; i++) {
        const json_t *v = json_array_get(from, i);
        out[i] = json_number_value(v);
        if (!json_is_number(v) || out[i] < 0) return false;
    }
    return true;
}

static status read_points(const rates_row *x, comm_point head, comm_rates *out, size_t *room,
                          err *e)
{
    status result = OK;
    const json_t *points = json_object_get(x->row, "points");
    if (json_array_size(points) == 0)
        FAIL(E_USAGE, "calls.rows[%zu].points: valid is a list of points", x->number);
    for (size_t i = 0; i < json_array_size(points); i++) {
        double v[3];
        if (!read_numbers(json_array_get(points, i), v))
            FAIL(E_USAGE,
                 "calls.rows[%zu].points[%zu]: valid is [bytes, seconds, cores], none below 0",
                 x->number, i);
        head.bytes = v[0];
        head.seconds = v[1];
        head.cores = v[2];
        TRY(alloc_grow(&out->point, room, out->points + 1, sizeof *out->point, "rates of calls",
                       e));
        out->point[out->points++] = head;
    }
done:
    return result;
}

status comm_rates_read(const json_t *section, comm_rates *out, err *e)
{
    status result = OK;
    size_t room = 0;
    const json_t *rows = json_object_get(section, "rows"),
                 *threads = json_object_get(section, "threads");
    *out = (comm_rates){.point = NULL};
    if (!json_is_array(rows)) FAIL(E_USAGE, "calls.rows: valid is a list");
    if (!json_is_integer(threads) || json_integer_value(threads) < 0 ||
        json_integer_value(threads) > INT32_MAX)
        FAIL(E_USAGE, "calls.threads: valid is a number of 0 or more");
    out->threads = (int)json_integer_value(threads);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const rates_row x = {json_array_get(rows, i), i};
        comm_point head = {.bytes = 0};
        TRY(read_head(&x, &head, e));
        TRY(read_points(&x, head, out, &room, e));
    }
    TRY(comm_rates_fit(out, e));
done:
    if (result != OK) comm_rates_clear(out);
    return result;
}

// ---- Writing

static bool same_row(const comm_point *a, const comm_point *b)
{
    return a->kind == b->kind && a->segments == b->segments &&
           memcmp(&a->group, &b->group, sizeof a->group) == 0 &&
           strcmp(a->communicator, b->communicator) == 0;
}

static json_t *new_row(const comm_point *p)
{
    return json_pack("{s:s, s:s, s:b, s:i, s:i, s:i, s:i, s:[]}", "communicator", p->communicator,
                     "call", comm_call_row_of(p->kind)->name, "segments", (int)p->segments, "ranks",
                     p->group.ranks, "per_host", p->group.per_host, "hosts", p->group.hosts,
                     "neighbours", p->group.neighbours, "points");
}

// Points of one row follow each other.
static bool write_rows(const comm_rates *r, json_t *rows)
{
    json_t *row = NULL;
    bool is_good = rows != NULL;
    for (size_t i = 0; i < r->points && is_good; i++) {
        const comm_point *p = &r->point[i];
        if (i == 0 || !same_row(p, p - 1)) {
            row = new_row(p);
            is_good = json_array_append_new(rows, row) == 0;
        }
        is_good = is_good && json_array_append_new(
                                 json_object_get(row, "points"),
                                 json_pack("[f, f, f]", p->bytes, p->seconds, p->cores)) == 0;
    }
    return is_good;
}

json_t *comm_rates_write(const comm_rates *r)
{
    json_t *rows = json_array();
    if (write_rows(r, rows)) return json_pack("{s:i, s:o}", "threads", r->threads, "rows", rows);
    json_decref(rows);
    return NULL;
}

void comm_rates_clear(comm_rates *r)
{
    free(r->point);
    free(r->fit);
    *r = (comm_rates){.point = NULL};
}
