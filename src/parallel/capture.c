// capture.c -- see capture.h. Called by `trireme explain` and train/captures.c. It knows no device and no
// kind of instruction: the table of instructions says what the host does.
#include "parallel/capture.h"

#include "base/alloc.h"
#include "parallel/instructions.h"

#include <stdlib.h>

// Why an instruction can be in no segment; NULL: it can.
static const char *needs_host(const plan *p, const schedule_instr *x, bool comm_records)
{
    const char *why = instr_row_of(x->kind)->needs_host(p, x);
    if (!why && !comm_records && x->calls > 0)
        why = "no device can record the calls of the communicator";
    return why;
}

status capture_divide(const plan *p, const schedule *s, bool comm_records, capture_segments *out,
                      err *e)
{
    status result = OK;
    size_t room = 0;
    *out = (capture_segments){.count = 0};
    for (int i = 0, open = -1; i <= s->count; i++) {
        const bool ends = i == s->count;
        const char *why = ends ? NULL : needs_host(p, &s->instr[i], comm_records);
        if (!ends && !why) {
            if (open < 0) open = i;
            out->instructions++;
        } else if (open >= 0) {
            TRY(alloc_grow(&out->items, &room, (size_t)out->count + 1, sizeof *out->items,
                           "the segments of a schedule", e));
            out->items[out->count++] = (capture_segment){open, i - open, why};
            open = -1;
        }
    }
done:
    if (result != OK) capture_clear(out);
    return result;
}

void capture_clear(capture_segments *c)
{
    free(c->items);
    *c = (capture_segments){.count = 0};
}

// ---- As text and as JSON

static void print_line(const schedule *s, const capture_segment *x, text *out)
{
    const int after = x->first + x->count;
    text_addf(out, "  instructions %d to %d", x->first, after - 1);
    if (!x->why) {
        text_add(out, ", to the end\n");
        return;
    }
    text_add(out, ", until ");
    instr_print(&s->instr[after], out);
    text_addf(out, ": %s\n", x->why);
}

static void print_object(const capture_segment *x, text *out)
{
    text_addf(out, "{\"first\":%d,\"instructions\":%d,\"ends\":", x->first, x->count);
    if (x->why)
        text_addf(out, "\"%s\"}", x->why);
    else
        text_add(out, "null}");
}

status capture_print(const plan *p, const schedule *s, bool json, text *out, err *e)
{
    status result = OK;
    capture_segments all = {.count = 0}, few = {.count = 0};
    TRY(capture_divide(p, s, true, &all, e));
    TRY(capture_divide(p, s, false, &few, e));
    text_addf(out,
              json ? "{\"segments\":["
                   : "segments that a device could record and replay: %d, with %d of %d "
                     "instructions\n",
              all.count, all.instructions, s->count);
    for (int i = 0; i < all.count; i++) {
        if (json && i > 0) text_add(out, ",");
        if (json)
            print_object(&all.items[i], out);
        else
            print_line(s, &all.items[i], out);
    }
    if (json)
        text_addf(out, "],\"segments_without_communicator\":%d}", few.count);
    else if (few.count != all.count)
        text_addf(out, "  %d segments where the calls of the communicator cannot be recorded\n",
                  few.count);
done:
    capture_clear(&all);
    capture_clear(&few);
    return result;
}
