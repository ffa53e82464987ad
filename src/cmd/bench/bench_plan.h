// bench_plan.h -- what the files of `trireme bench plan` share: published rows, their prediction, and the errors of it.
#ifndef TRIREME_CMD_BENCH_BENCH_PLAN_H
#define TRIREME_CMD_BENCH_BENCH_PLAN_H

#include "base/err.h"
#include "base/text.h"
#include "planner/cluster.h"

// The columns of a file of rows; its first line that is no comment names them.
typedef enum published_column {
    ROW_SOURCE,  // who published it
    ROW_GROUP,   // rows of one group differ in what they measure only
    ROW_MODEL,   // a row of models.csv
    ROW_CLUSTER, // a file of the folder of clusters, without .yaml
    ROW_GPUS,
    ROW_PRECISION, // bf16, fp16; fp8, mxfp8: of linear layers
    ROW_ATTENTION, // a row of ATTENTION_KINDS
    ROW_FUSED,     // no: a framework launches a kernel for each operation
    ROW_POLICY,
    ROW_TP,
    ROW_SEQUENCE_PARALLEL,
    ROW_TP_OVERLAP, // no, user_buffers, async_tp: collectives of tensor parallelism run beside products
    ROW_PP,
    ROW_CP,
    ROW_VIRTUAL_STAGES,
    ROW_MICRO_BATCH,
    ROW_GLOBAL_BATCH,
    ROW_SEQ,
    ROW_RECOMPUTE, // none, selective, full; a number: that share of the work of full
    ROW_TOKENS,    // a second and GPU
    ROW_MEMORY,    // GiB of a GPU, where it is published
    ROW_COUNTED,   // no: the lists lack something that the run had, which the note names
    ROW_NOTE,
    ROW_COLUMNS
} published_column;

typedef struct published_row {
    const char *text[ROW_COLUMNS]; // in the content of its file
    const char *file;
    int line;
    bool counted;
    double measured, predicted; // tokens a second and GPU
    err refused;                // code OK: it was predicted
} published_row;

typedef struct published_rows {
    published_row *row; // [count]
    size_t count, room;
    char **content; // [files] of CSV, cut into fields
    size_t files, file_room;
    char *models; // likewise, of models.csv
} published_rows;

// Reads FOLDER/rows/*.csv in the order of their names, or `file` alone (NULL: all). E_USAGE names file, line and column.
status published_rows_read(const char *folder, const char *file, published_rows *out, err *e);
void published_rows_clear(published_rows *r);

// Constants that the software of a row has beside those of the machine.
typedef struct published_software {
    double eager;    // bytes of kernels that are not fused, as a factor
    double mxfp8;    // rate of mxfp8, as a share of that of fp8
    double async_tp; // cluster_constants.overlapped of async TP
} published_software;
extern const published_software PUBLISHED_SOFTWARE;

typedef struct published_predictor {
    const char *folder; // of cluster files
    const published_rows *rows;
    cluster_constants constants;
    published_software software;
} published_predictor;

// Fills row->predicted, or row->refused where the row is not possible. E_MEMORY and broken cluster files fail.
status published_row_predict(const published_predictor *p, published_row *row, err *e);

// ---- Errors (bench_plan_errors.c)

typedef struct published_errors {
    int rows;
    double mean, median, most; // of |predicted / measured - 1|
    double bias;               // median of predicted / measured - 1
} published_errors;

// Of the counted rows of a source; NULL: of all. Predictions are multiplied by `factor`.
status published_errors_of(const published_rows *r, const char *source, double factor,
                           published_errors *out, err *e);
// The factor that makes the first counted row of a source right.
double published_calibration(const published_rows *r, const char *source);
// Kendall's tau over pairs of rows of one group that differ by more than `least` (0.05); NAN: there are none.
double published_tau(const published_rows *r, const char *source, double least, int *pairs);

// Of a group of at least PUBLISHED_GROUP_LEAST counted rows: how much slower the row with the best prediction is than the best.
enum { PUBLISHED_GROUP_LEAST = 5, PUBLISHED_GROUPS_MOST = 256 };
typedef struct published_pick {
    const published_row *picked, *best;
    int rows;
    double loss;
} published_pick;
int published_picks(const published_rows *r, published_pick out[PUBLISHED_GROUPS_MOST]);

// ---- Fit (bench_plan_fit.c)

// Changes p's constants so that the mean error of the source's rows is smallest, each within a range that it may have.
status published_fit(published_predictor *p, published_rows *r, const char *source, err *e);
void published_fit_print(const published_predictor *p, text *out);

#endif
