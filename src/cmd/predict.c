// predict.c -- `trireme predict`: predicts logits, classes or vectors for each sample of a data set
// with a model folder. The job's ranks compute, rank 0 writes (predict_write.c).
#include "cmd/predict.h"
#include "base/alloc.h"
#include "cmd/cmd.h"
#include "cmd/command.h"
#include "session/run.h"

#include "base/file.h"
#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct predict_request {
    session_run run;
    session_model_names model;
    const char *data, *what, *positions, *output, *format;
    bool json;
    infer_predict_options o;
    bool what_given; // --what was given
    predict_writer writer;
} predict_request;

static const flag flags[] = {
    {"--model", FLAG_TEXT, offsetof(predict_request, model.folder), "DIR",
     "Names the HuggingFace folder of the model, such as a checkpoint, or an adapter, which names "
     "its base."},
    {"--adapter", FLAG_TEXT, offsetof(predict_request, model.adapter), "DIR",
     "Names the folder of an adapter that is added to the model."},
    {"--data", FLAG_TEXT, offsetof(predict_request, data), "PREFIX",
     "Predicts for this data set instead of data.valid."},
    {"--what", FLAG_TEXT, offsetof(predict_request, what), "logits|classes|vectors",
     "Chooses what is written (default: classes; vectors for models with squared error)."},
    {"--positions", FLAG_TEXT, offsetof(predict_request, positions), "all|last",
     "Chooses all positions of a sequence or its last one (default: all)."},
    {"--output", FLAG_TEXT, offsetof(predict_request, output), "FILE",
     "Writes to this file, which appears when it is complete (default: stdout)."},
    {"--format", FLAG_TEXT, offsetof(predict_request, format), "jsonl|npy",
     "Chooses JSON lines or a NumPy array (default: npy for a file that ends in .npy, else "
     "jsonl)."},
    {"--json", FLAG_SWITCH, offsetof(predict_request, json), NULL,
     "Prints the summary as one JSON object; needs --output."},
};
enum { FLAGS = sizeof flags / sizeof *flags };

// ---- The command line

static bool ends_in(const char *s, const char *end)
{
    const size_t n = strlen(s), k = strlen(end);
    return n >= k && strcmp(s + n - k, end) == 0;
}

// The index of a flag's value among `words`, or 0 where the flag was not given.
static status choose(const char *name, const char *given, const char *const *words, int count,
                     int *out, err *e)
{
    text valid = {0};
    status result = OK;
    *out = 0;
    for (int i = 0; given && i < count; i++) {
        text_addf(&valid, "%s%s", i ? ", " : "", words[i]);
        if (strcmp(given, words[i]) != 0) continue;
        *out = i;
        goto done;
    }
    if (given)
        FAIL(E_USAGE, "predict: %s: found '%.*s'; valid: %s", name, TEXT_CUT(given, 200),
             valid.chars);
done:
    text_clear(&valid);
    return result;
}

static status check_request(predict_request *q, err *e)
{
    status result = OK;
    static const char *const what[] = {"logits", "classes", "vectors"},
                             *const positions[] = {"all", "last"},
                             *const formats[] = {"jsonl", "npy"};
    int kind, last, npy;
    if (!q->model.folder) FAIL(E_USAGE, "predict: --model DIR is missing");
    TRY(choose("--what", q->what, what, 3, &kind, e));
    TRY(choose("--positions", q->positions, positions, 2, &last, e));
    TRY(choose("--format", q->format, formats, 2, &npy, e));
    q->what_given = q->what != NULL;
    q->o = (infer_predict_options){.what = (infer_prediction)kind, .last = last == 1};
    q->writer.npy = q->format ? npy == 1 : q->output && ends_in(q->output, ".npy");
    q->writer.path = q->output;
    q->writer.json = q->json;
    if (!q->output && q->writer.npy) FAIL(E_USAGE, "predict: --format npy needs --output FILE");
    if (!q->output && q->json) FAIL(E_USAGE, "predict: --json needs --output FILE");
    if (q->output && file_is_directory(q->output))
        FAIL(E_USAGE, "predict: --output: %s is a folder", q->output);
done:
    return result;
}

// Opens the job of the arguments, with --data as data.valid.
static status open_job(predict_request *q, int argc, char **argv, err *e)
{
    status result = OK;
    text data = {0};
    char **all = NULL;
    TRY(alloc_zeroed(&all, (size_t)argc + 2, sizeof *all, "the arguments", e));
    memcpy(all, argv, (size_t)argc * sizeof *all);
    if (q->data) {
        text_addf(&data, "--data.valid=%s", q->data);
        TRY(text_check(&data, e));
        all[argc++] = data.chars;
    }
    TRY(cmd_open_model(&q->run, argc, all, &q->model, e));
done:
    text_clear(&data);
    free(all);
    return result;
}

// ---- A rank

typedef struct predict_buffers {
    char *inputs, *labels; // [samples of a round][inputs], [labels], 4 bytes each
    char *outputs;         // [samples of a round][positions][cols], 4 bytes each; rank 0 only
} predict_buffers;

static status open_buffers(const trainer *t, const dataset *d, const infer_prediction_shape *shape,
                           bool writes, predict_buffers *b, err *e)
{
    status result = OK;
    const size_t samples = (size_t)infer_predict_batch(t),
                 output = samples * (size_t)(shape->positions * shape->cols) * 4;
    TRY(alloc_array(&b->inputs, samples, (size_t)d->shape.inputs * 4, "a batch", e));
    TRY(alloc_array(&b->labels, samples, (size_t)dataset_label_elements(&d->shape) * 4, "a batch",
                    e));
    if (writes) {
        result = alloc_array(&b->outputs, output, 1, "the outputs of a batch", e);
        if (result != OK)
            FAIL(result, "%s; a smaller train.micro_batch or --positions last takes less",
                 e ? e->text : "");
    }
done:
    return result;
}

static void close_buffers(predict_buffers *b)
{
    free(b->inputs);
    free(b->labels);
    free(b->outputs);
}

static status rank_predict(session_rank *r, void *arg, err *e)
{
    status result = OK;
    predict_request *q = arg;
    predict_writer *out = &q->writer;
    trainer *t = r->session.trainer;
    const bool writes = r->rank == 0;
    predict_buffers b = {0};
    infer_predict_options o = q->o;
    infer_prediction_shape shape;
    dataset *d = q->run.inputs.valid;
    const int64_t batch = infer_predict_batch(t), samples = (int64_t)d->samples;
    if (!q->what_given) o.what = d->shape.label_type == I32 ? PREDICT_CLASSES : PREDICT_VECTORS;
    TRY(infer_predict_shape(t, &o, &shape, e));
    TRY(open_buffers(t, d, &shape, writes, &b, e));
    if (writes) TRY(predict_write_header(out, &o, &shape, samples, e));
    for (int64_t first = 0; first < samples; first += batch) {
        const int64_t count = batch < samples - first ? batch : samples - first;
        bool stop;
        TRY(trainer_agree(t, comm_stop_requested(r->world->stop), &stop, e));
        if (stop) FAIL(E_INTERRUPTED, "interrupted after %lld samples", (long long)first);
        for (int64_t i = 0; i < count; i++)
            TRY(d->read(d, (uint64_t)(first + i), b.inputs + i * d->shape.inputs * 4,
                        b.labels + i * dataset_label_elements(&d->shape) * 4, e));
        TRY(infer_predict(t, &o, b.inputs, count, b.outputs, e));
        if (writes) TRY(predict_write(out, &d->shape, b.labels, b.outputs, count, e));
    }
    if (writes) TRY(predict_write_end(out, e));
done:
    close_buffers(&b);
    return result;
}

static int cmd_predict(int argc, char **argv)
{
    status result = OK;
    err error = {0}, *e = &error;
    predict_request q = {.run = {.main = rank_predict, .arg = &q, .own_terminal = true}};
    TRY(join_open(&q.run.join, argc, argv, e));
    TRY(flags_take(flags, FLAGS, &argc, argv, &q, e));
    TRY(check_request(&q, e));
    TRY(join_attach(&q.run.join, e));
    TRY(open_job(&q, argc, argv, e));
    if (join_follows(&q.run.join)) q.writer.path = NULL; // rank 0 writes
    TRY(predict_write_open(&q.writer, e));
    TRY(session_run_ranks(&q.run, e));
done:
    predict_write_close(&q.writer, result == OK);
    return cmd_end_run(&q.run, result, e);
}

const command command_predict = {
    .name = "predict",
    .run = cmd_predict,
    .usage = "JOB.yaml --model DIR [--data PREFIX] [--what logits|classes|vectors] [--output FILE] "
             "[--key value ...]",
    .help = "Prints logits, classes or vectors for a data set.",
    .about =
        "Predicts once for every sample of the job's data.valid (data.train where it has none), in "
        "the order of the data set, on the job's ranks, or on those that another launcher has "
        "started, as "
        "for train. A class is the one with the largest logit: "
        "for a language model the most likely next token of each position. Vectors are the "
        "predicted targets of a model with squared error, else the input of the last linear layer. "
        "Where labels are classes, the accuracy is printed. A rank has memory for one micro-batch, "
        "rank 0 for the outputs of one micro-batch of all ranks.",
    .flags = flags,
    .flag_count = FLAGS,
    .takes_job = true,
};
