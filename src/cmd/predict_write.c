// predict_write.c -- writes predictions: one JSON object a sample, or one array. Where labels are
// classes it counts the correct predictions. Called by predict.c on rank 0. See predict.h.
#include "cmd/predict.h"

#include "base/alloc.h"
#include "base/text.h"
#include "cmd/console.h"
#include "store/npy.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

status predict_write_open(predict_writer *w, err *e)
{
    text temporary_path = {0};
    if (!w->path) return OK;
    text_addf(&temporary_path, "%s.tmp-%ld", w->path, (long)getpid());
    const status taken = text_take(&temporary_path, &w->temporary_path, e);
    if (taken != OK) return taken;
    if (file_create(w->temporary_path, &w->file, e) == OK) return OK;
    err_prefix(e, "predict: --output: ");
    return e->code = E_USAGE;
}

void predict_write_close(predict_writer *w, bool complete)
{
    file_abandon(w->file);
    if (w->temporary_path && !complete) unlink(w->temporary_path);
    free(w->temporary_path);
}

static status put(predict_writer *w, const void *bytes, size_t count, err *e)
{
    if (w->file) return file_write(w->file, bytes, count, e);
    return fwrite(bytes, 1, count, stdout) == count ? OK : console_flush(e);
}

status predict_write_header(predict_writer *w, const infer_predict_options *o,
                            const infer_prediction_shape *shape, int64_t samples, err *e)
{
    status result = OK;
    text header = {0};
    int64_t dim[3] = {samples};
    int dims = 1;
    w->options = *o;
    w->shape = *shape;
    w->samples = samples;
    if (!w->npy) return OK;
    if (shape->positions > 1) dim[dims++] = shape->positions;
    if (o->what != PREDICT_CLASSES) dim[dims++] = shape->cols;
    TRY(npy_header(shape->type, dims, dim, &header, e));
    TRY(put(w, header.chars, header.bytes, e));
done:
    text_clear(&header);
    return result;
}

// ---- Classes

// The index of the largest value, the first of equal ones; -1 if all are NaN.
static int32_t class_of(const float *logits, int64_t count)
{
    int32_t best = -1;
    for (int64_t i = 0; i < count; i++)
        if (!isnan(logits[i]) && (best < 0 || logits[i] > logits[best])) best = (int32_t)i;
    return best;
}

static int32_t predicted(const predict_writer *w, const void *outputs, int64_t row)
{
    if (w->options.what == PREDICT_CLASSES) return ((const int32_t *)outputs)[row];
    return class_of((const float *)outputs + row * w->shape.cols, w->shape.cols);
}

// The label of the position of an output row; -100: the position is not counted.
static int32_t label_of(const predict_writer *w, const dataset_shape *sample, const int32_t *labels,
                        int64_t position)
{
    return labels[w->options.last ? sample->labels - 1 : position];
}

static bool has_classes(const predict_writer *w, const dataset_shape *sample)
{
    return w->options.what != PREDICT_VECTORS && sample->label_type == I32;
}

static void count_right(predict_writer *w, const dataset_shape *sample, const int32_t *labels,
                        const void *outputs, int64_t first_row)
{
    for (int64_t i = 0; i < w->shape.positions; i++) {
        const int32_t label = label_of(w, sample, labels, i);
        if (label < 0) continue;
        w->labels++;
        w->correct += label == predicted(w, outputs, first_row + i);
    }
}

// ---- JSON lines

static void add_real(text *t, double v)
{
    if (isfinite(v))
        text_addf(t, "%.9g", v);
    else
        text_add(t, "null");
}

static void add_row(text *t, const float *row, int64_t cols)
{
    text_add(t, "[");
    for (int64_t k = 0; k < cols; k++) {
        if (k) text_add(t, ",");
        add_real(t, (double)row[k]);
    }
    text_add(t, "]");
}

// Appends ,"name":value, or a list where a sample has several positions.
static void add_ids(text *t, const predict_writer *w, const char *one, const char *many,
                    const int32_t *ids)
{
    const bool list = w->shape.positions > 1;
    text_addf(t, ",\"%s\":%s", list ? many : one, list ? "[" : "");
    for (int64_t i = 0; i < w->shape.positions; i++) {
        text_addf(t, "%s%d", i ? "," : "", ids[i]);
    }
    if (list) text_add(t, "]");
}

// A sample of many positions makes a long line, so it is written row by row.
static status add_rows(predict_writer *w, const char *name, const float *rows, text *t, err *e)
{
    status result = OK;
    const bool list = w->shape.positions > 1;
    text_addf(t, ",\"%s\":%s", name, list ? "[" : "");
    for (int64_t i = 0; i < w->shape.positions; i++) {
        if (i) text_add(t, ",");
        add_row(t, rows + i * w->shape.cols, w->shape.cols);
        TRY(text_check(t, e));
        TRY(put(w, t->chars, t->bytes, e));
        text_clear(t);
    }
    if (list) text_add(t, "]");
done:
    return result;
}

static status add_classes(const predict_writer *w, const dataset_shape *sample,
                          const int32_t *labels, const void *outputs, int64_t first_row, text *t,
                          err *e)
{
    int32_t *ids;
    const status result =
        alloc_array(&ids, (size_t)w->shape.positions, sizeof *ids, "the predictions", e);
    if (result != OK) return result;
    for (int64_t i = 0; i < w->shape.positions; i++) ids[i] = predicted(w, outputs, first_row + i);
    add_ids(t, w, "class", "classes", ids);
    for (int64_t i = 0; i < w->shape.positions; i++) ids[i] = label_of(w, sample, labels, i);
    add_ids(t, w, "label", "labels", ids);
    free(ids);
    return OK;
}

static status write_line(predict_writer *w, const dataset_shape *sample, const void *labels,
                         const void *outputs, int64_t first_row, err *e)
{
    status result = OK;
    text t = {0};
    const float *rows = (const float *)outputs + first_row * w->shape.cols;
    text_addf(&t, "{\"sample\":%lld", (long long)w->written);
    if (has_classes(w, sample)) TRY(add_classes(w, sample, labels, outputs, first_row, &t, e));
    if (w->options.what == PREDICT_LOGITS) TRY(add_rows(w, "logits", rows, &t, e));
    if (w->options.what == PREDICT_VECTORS)
        TRY(add_rows(w, w->shape.positions > 1 ? "vectors" : "vector", rows, &t, e));
    text_add(&t, "}\n");
    TRY(text_check(&t, e));
    TRY(put(w, t.chars, t.bytes, e));
done:
    text_clear(&t);
    return result;
}

// ---- All samples

status predict_write(predict_writer *w, const dataset_shape *sample, const void *labels,
                     const void *outputs, int64_t samples, err *e)
{
    status result = OK;
    const size_t each = (size_t)(w->shape.positions * w->shape.cols) * 4;
    for (int64_t i = 0; i < samples; i++) {
        const int32_t *sample_labels = (const int32_t *)labels + i * sample->labels;
        if (has_classes(w, sample))
            count_right(w, sample, sample_labels, outputs, i * w->shape.positions);
        if (!w->npy) TRY(write_line(w, sample, sample_labels, outputs, i * w->shape.positions, e));
        w->written++;
    }
    if (w->npy) TRY(put(w, outputs, (size_t)samples * each, e));
done:
    return result;
}

static status print_summary(const predict_writer *w, err *e)
{
    static const char *const names[] = {"logits", "classes", "vectors"};
    const double share = (double)w->correct / (double)(w->labels ? w->labels : 1);
    text line = {0};
    if (w->json) {
        text_addf(&line, "{\"samples\":%lld,\"positions\":%lld,\"what\":\"%s\"",
                  (long long)w->written, (long long)w->shape.positions, names[w->options.what]);
        if (w->labels)
            text_addf(&line, ",\"accuracy\":%.17g,\"right\":%llu,\"labels\":%llu", share,
                      (unsigned long long)w->correct, (unsigned long long)w->labels);
        text_add(&line, "}");
    } else {
        text_addf(&line, "%lld samples", (long long)w->written);
        if (w->labels)
            text_addf(&line, ", accuracy %.4f (%llu of %llu)", share,
                      (unsigned long long)w->correct, (unsigned long long)w->labels);
    }
    const status made = text_check(&line, e);
    if (made != OK) return made;
    // Predictions on stdout must not be mixed with the summary.
    if (w->path)
        console_line("%s", line.chars);
    else
        console_say("%s", line.chars);
    text_clear(&line);
    return console_flush(e);
}

status predict_write_end(predict_writer *w, err *e)
{
    status result = OK;
    if (w->file) {
        file_writer *file = w->file;
        w->file = NULL;
        TRY(file_finish(file, e));
        TRY(file_rename(w->temporary_path, w->path, e));
    } else {
        TRY(console_flush(e));
    }
    TRY(print_summary(w, e));
done:
    return result;
}
