// show.c -- one line of a file, or one document of a shard, for `data inspect --sample`. It encodes this line alone.
#include "data/samples/samples_private.h"

#include "base/alloc.h"
#include "data/prepare_source.h"

#include <inttypes.h>
#include <stdlib.h>

void samples_describe_splits(const samples_splits *s, text *out)
{
    if (s->conversations == 0) return;
    text_addf(out,
              "the chat template writes earlier messages in another way when more follow, so "
              "%" PRIu64 " conversation%s became %" PRIu64 " samples\n",
              s->conversations, s->conversations == 1 ? "" : "s", s->samples);
}

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

static status show_line(const samples_line *line, samples_view_fn *show, void *arg, err *e)
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
    const samples_view shown = {.pair = line->pair,
                                .documents = line->documents,
                                .end = line->end,
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

// Of a shard without labels, every token but the first is predicted.
static status read_document(const char *prefix, uint64_t number, samples_line *out, err *e)
{
    status result = OK;
    samples_shard s = {.t = NULL};
    uint64_t first, length;
    const bool labelled = samples_shard_exists(prefix);
    TRY(labelled ? samples_shard_open(prefix, &s, e) : tokens_open(prefix, &s.t, e));
    const uint64_t count = tokens_documents(s.t);
    if (number < 1 || number > count)
        FAIL(E_USAGE, "%s: has %" PRIu64 " documents; found --sample %" PRIu64, prefix, count,
             number);
    tokens_document(s.t, number - 1, &first, &length);
    TRY(alloc_array(&out->token, length, sizeof *out->token, "a document", e));
    TRY(alloc_array(&out->end, 1, sizeof *out->end, "a document", e));
    out->count = out->end[0] = length;
    out->documents = 1;
    out->weight = s.weight ? (double)s.weight[number - 1] : 1;
    if (labelled)
        samples_shard_read(&s, first, length, out->token);
    else
        tokens_read(s.t, first, length, out->token);
    for (uint64_t i = 1; !labelled && i < length; i++) out->token[i] |= SAMPLE_TRAINED;
    TRY(tokens_check_whole(s.t, e));
done:
    samples_shard_close(&s);
    return result;
}

static status read_line(const char *path, samples_format format, uint64_t number,
                        const samples_options *o, samples_line *out, err *e)
{
    status result = OK;
    prepare_buffer bytes = {0};
    prepare_record record = {.line = 0};
    samples_encoder *x = NULL;
    TRY(find_line(path, number, &bytes, &record, e));
    TRY(samples_encoder_open(o, &x, e));
    result = samples_encode(x, bytes.data, bytes.bytes, format, out, e);
    if (result != OK)
        samples_place_prefix(&(samples_place){.path = path, .number = record.line}, e);
done:
    samples_encoder_close(x);
    free(bytes.data);
    return result;
}

status samples_show(const char *path, samples_format format, uint64_t number,
                    const samples_options *o, samples_view_fn *show, void *arg, err *e)
{
    status result = OK;
    samples_line line = {.token = NULL};
    if (samples_is_jsonl(path))
        TRY(read_line(path, format, number, o, &line, e));
    else
        TRY(read_document(path, number, &line, e));
    TRY(show_line(&line, show, arg, e));
done:
    samples_line_clear(&line);
    return result;
}
