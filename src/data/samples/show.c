// show.c -- one line of a file as its documents, for `data inspect --sample`. It encodes this line alone.
#include "data/samples/samples_private.h"

#include "base/alloc.h"
#include "data/prepare_source.h"

#include <inttypes.h>
#include <stdlib.h>

static status find_line(const char *path, uint64_t number, prepare_buffer *line,
                        prepare_record *out, err *e)
{
    status result = OK;
    prepare_source *from = NULL;
    bool more = true;
    uint64_t lines = 0;
    TRY(prepare_source_open(&path, 1, &(prepare_filter){0}, NULL, &from, e));
    while (lines < number) {
        line->bytes = 0;
        TRY(prepare_source_next(from, line, out, &more, e));
        if (!more)
            FAIL(E_USAGE, "%s: has %" PRIu64 " samples; found --sample %" PRIu64, path, lines,
                 number);
        lines++;
    }
    out->path = path; // that of the source ends with it
done:
    prepare_source_close(from);
    return result;
}

static status show_line(const samples_line *line, samples_show_fn *show, void *arg, err *e)
{
    status result = OK;
    int32_t *ids = NULL;
    bool *trained = NULL;
    TRY(alloc_array(&ids, line->count, sizeof *ids, "a sample", e));
    TRY(alloc_array(&trained, line->count, sizeof *trained, "a sample", e));
    for (size_t i = 0; i < line->count; i++) {
        ids[i] = line->token[i] & ~SAMPLE_TRAINED;
        trained[i] = line->token[i] & SAMPLE_TRAINED;
    }
    const samples_shown shown = {.documents = line->documents,
                                 .end = {line->end[0], line->end[1]},
                                 .ids = ids,
                                 .trained = trained,
                                 .weight = line->weight,
                                 .format = line->format};
    TRY(show(&shown, arg, e));
done:
    free(ids);
    free(trained);
    return result;
}

status samples_show(const char *path, samples_format format, uint64_t number,
                    const samples_options *o, samples_show_fn *show, void *arg, err *e)
{
    status result = OK;
    prepare_buffer bytes = {0};
    prepare_record record;
    samples_encoder *x = NULL;
    samples_line line = {.token = NULL};
    TRY(find_line(path, number, &bytes, &record, e));
    TRY(samples_encoder_open(o, &x, e));
    result = samples_encode(x, bytes.data, bytes.bytes, format, &line, e);
    if (result != OK)
        samples_place_prefix(&(samples_place){.path = path, .number = record.line}, e);
    else
        result = show_line(&line, show, arg, e);
done:
    samples_encoder_close(x);
    free(line.token);
    free(bytes.data);
    return result;
}
