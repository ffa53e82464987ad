// prepare_samples.c -- see prepare_samples.h. prepare.c calls it for `--sft`. It deliberately does not know how lines are
// encoded (samples/) and written (prepare_output.c). Samples keep their full length: a job truncates them.
#include "data/prepare_samples.h"

#include "base/alloc.h"
#include "data/paths.h"
#include "data/prepare_encode.h"
#include "data/samples/samples_private.h"

#include <stdlib.h>

typedef struct sample_output {
    const prepare_options *o;
    prepare_output *to;
    prepare_result *result;
    uint64_t number; // of the line over all files, from 0
    int per;         // documents of each sample; 0: not known
    int32_t *ids;    // [room]
    bool *trained;   // [trained_room]
    size_t room, trained_room;
} sample_output;

static status check_documents(sample_output *p, const samples_place *at, const samples_line *line,
                              err *e)
{
    const int per = line->pair ? 2 : 1;
    if (p->per == 0) p->per = per;
    if (p->per == per) return OK;
    err_set(e, E_USAGE, "found %s; lines before it are not; valid: only pairs, or none",
            line->pair ? "a pair of preferences" : "a sample that is no pair");
    samples_place_prefix(at, e);
    return E_USAGE;
}

static status add_document(sample_output *p, const samples_line *line, size_t first, size_t end,
                           err *e)
{
    status result = OK;
    const size_t count = end - first;
    const bool valid = prepare_is_validation(p->o, p->number);
    TRY(alloc_grow(&p->ids, &p->room, count, sizeof *p->ids, "a sample", e));
    TRY(alloc_grow(&p->trained, &p->trained_room, count, sizeof *p->trained, "a sample", e));
    for (size_t i = 0; i < count; i++) {
        p->ids[i] = line->token[first + i] & ~SAMPLE_TRAINED;
        p->trained[i] = line->token[first + i] & SAMPLE_TRAINED;
        *(valid ? &p->result->valid_labels : &p->result->labels) += p->trained[i];
    }
    TRY(prepare_output_add_sample(p->to, valid, p->ids, p->trained, count, line->weight, line->pair,
                                  e));
done:
    return result;
}

static status take_line(void *arg, const samples_place *at, const samples_line *line, err *e)
{
    status result = OK;
    sample_output *p = arg;
    if (p->o->stopped && p->o->stopped(p->o->log_arg)) FAIL(E_INTERRUPTED, "interrupted");
    TRY(check_documents(p, at, line, e));
    samples_splits_add(&p->result->splits, line);
    for (size_t d = 0; d < line->documents; d++)
        TRY(add_document(p, line, d > 0 ? line->end[d - 1] : 0, line->end[d], e));
    p->number++;
done:
    return result;
}

status prepare_samples(const prepare_options *o, const prepare_source *from, const tokenizer *t,
                       prepare_output *to, prepare_result *result_out, err *e)
{
    status result = OK;
    chat_template *chat = NULL;
    sample_output p = {.o = o, .to = to, .result = result_out};
    TRY(chat_template_open(t, o->tokenizer, &chat, e));
    const samples_options options = {
        .tokenizer = t, .chat = chat, .train_on = o->train_on, .threads = o->workers, .any = true};
    const size_t files = prepare_source_files(from);
    for (size_t i = 0; i < files; i++) {
        const char *path = prepare_source_file(from, i);
        if (!samples_is_jsonl(path))
            FAIL(E_USAGE, "%s: --sft reads samples; valid: *.jsonl and *.jsonl.gz", path);
        TRY(samples_read(path, o->format, &options, take_line, &p, e));
        if (o->progress) o->progress(o->progress_arg, "encoding", (double)(i + 1) / (double)files);
    }
done:
    chat_template_close(chat);
    free(p.ids);
    free(p.trained);
    return result;
}
