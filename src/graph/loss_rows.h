// loss_rows.h -- which rows of a cross-entropy count, and the arrays beside their labels. graph.h includes it. It knows no
// graph.
#ifndef TRIREME_GRAPH_LOSS_ROWS_H
#define TRIREME_GRAPH_LOSS_ROWS_H

#include "device/kernel_preference.h"

// How the rows of a cross-entropy count.
typedef struct graph_loss_options {
    // Rows without a label are left out: a run says which rows have one (graph_run.labelled). The two below need it.
    bool packs;
    bool weighted; // each row has a weight
    double
        labelled; // share of rows with a label, as the data have it; 0: not known. It changes predictions only
    // The loss of pairs of documents, chosen and rejected, of which each sequence has up to graph_loss_arrays.each
    // documents. PREFERENCE_NONE: the loss is that of the rows.
    kernel_preference preference;
} graph_loss_options;

// The arrays behind g->labels, which has `elements` elements of 4 bytes. Each number is the element at which an array
// begins; 0: there is none, but for the labels, which come first. Without `packs` there are labels only.
typedef struct graph_loss_arrays {
    int64_t elements;
    // The rows with a label come first, in their order; the others hold row 0 with the label IGNORED_LABEL. `packed` is
    // the number of rows rounded up, so that the rows of every product are a multiple of LOSS_ROWS_ALIGN.
    int64_t packed;  // the length of the arrays [packed] below
    int64_t index;   // [packed] I32: the row that stands here
    int64_t inverse; // [rows] I32: the place of a row among the packed ones; -1: it has no label
    int64_t weights; // [packed] F32
    int64_t
        parts; // of a document (kernel_preference_parts); where one is meant below, it is a part
    int64_t documents; // of the micro-batch: sequences * each
    int64_t each;      // documents of a sequence, an even number of whole ones
    int64_t
        first; // [documents + 1] I32: rows first[d] … first[d + 1] - 1 of the packed ones are document d's
    int64_t reference; // [documents, 2] F32: the two numbers of kernel_preference_args.reference
} graph_loss_arrays;
enum { LOSS_ROWS_ALIGN = 16 };

#endif
