// predict.h -- writes predictions as JSON lines or as a NumPy array, and counts the accuracy. Used
// by predict.c only.
#ifndef TRIREME_CMD_PREDICT_H
#define TRIREME_CMD_PREDICT_H

#include "base/file.h"
#include "infer/predict.h"
#include "session/session.h"

typedef struct predict_writer {
    const char *path; // NULL: stdout
    bool npy, json;
    char *temporary_path; // the file that is written, until it is complete and gets the name `path`
    file_writer *file;    // NULL: stdout, or finished
    infer_predict_options options;
    infer_prediction_shape shape;
    int64_t samples, written; // samples to predict, and samples written so far
    uint64_t labels;          // labels that are counted
    uint64_t correct;         // labels that the model predicted
} predict_writer;

// Creates a temporary file next to `path`; E_USAGE when that fails. The starting process calls it.
status predict_write_open(predict_writer *w, err *e);
// Rank 0 calls these: the head, then the samples in order, then the end, which renames the file and
// prints the summary.
status predict_write_header(predict_writer *w, const infer_predict_options *o,
                            const infer_prediction_shape *shape, int64_t samples, err *e);
status predict_write(predict_writer *w, const dataset_shape *sample, const void *labels,
                     const void *outputs, int64_t samples, err *e);
status predict_write_end(predict_writer *w, err *e);
// The starting process calls it. Removes the file if it is not complete.
void predict_write_close(predict_writer *w, bool complete);

#endif
