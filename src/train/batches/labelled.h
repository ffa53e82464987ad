// labelled.h -- sorts the labels of a micro-batch into the arrays that a cross-entropy reads (graph_loss_arrays): the
// rows with a label first. On the host, before the copy to the device. batches.c calls it. It knows no device.
#ifndef TRIREME_TRAIN_LABELLED_H
#define TRIREME_TRAIN_LABELLED_H

#include "data/dataset.h"
#include "graph/execute.h"

// Full sequences of a micro-batch on the host, as dataset.h says.
typedef struct labelled_batch {
    dataset_shape shape;
    const int32_t
        *starts; // [batch, shape.inputs] ids and the starts of documents; NULL: no documents
    const int32_t *labels; // [batch, dataset_label_elements]
} labelled_batch;

// Fills out[graph_loss_arrays.elements] for this rank's tokens. The rows to compute lie in `out`. All rows have a label:
// their index is NULL.
graph_labelled_rows labelled_pack(const graph *g, const labelled_batch *from, int32_t *out);

#endif
