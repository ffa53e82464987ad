// predict.h -- predictions as JSON lines or a NumPy array, and the accuracy. Used by predict.c
// alone.
#ifndef TRIREME_CMD_PREDICT_H
#define TRIREME_CMD_PREDICT_H

#include "base/file.h"
#include "session/session.h"

typedef struct predict_writer {
    const char *path; // NULL: standard output
    bool npy, json;
    char *beside;      // what is written until it is complete
    file_writer *file; // NULL: standard output, or finished
    trainer_predict_options o;
    trainer_prediction_shape shape;
    int64_t samples, written;
    uint64_t labels, right; // classes that count, and those that were predicted
} predict_writer;

// Creates the file under another name beside `path`; E_USAGE when that cannot be. In the starting
// process.
status predict_write_open(predict_writer *w, err *e);
// On rank 0: what will come, samples in their order, and the end: the file gets its name, and the
// summary is printed.
status predict_write_head(predict_writer *w, const trainer_predict_options *o,
                          const trainer_prediction_shape *shape, int64_t samples, err *e);
status predict_write(predict_writer *w, const dataset_shape *of, const void *labels,
                     const void *outputs, int64_t samples, err *e);
status predict_write_end(predict_writer *w, err *e);
// In the starting process. A file that is not complete is removed.
void predict_write_close(predict_writer *w, bool complete);

#endif
