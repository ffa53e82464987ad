// average.h -- private to convert/: the moving averages of a checkpoint's weights (optimizer.ema) in the place of its
// weights. merge.c reads tensors through it.
#ifndef TRIREME_CONVERT_AVERAGE_H
#define TRIREME_CONVERT_AVERAGE_H

#include "model/model.h"

typedef struct convert_average convert_average;

// Opens the averages in trireme/ of a checkpoint of model m, whose weights are `base`; both are borrowed. E_USAGE where the
// checkpoint has none. The owner calls convert_average_close.
status convert_average_open(const char *folder, const model *m, const safetensors *base,
                            convert_average **out, err *e);
void convert_average_close(convert_average *x); // NULL allowed
// Reads the average of a tensor of the base into out, host memory of its elements, F32. *changed: it has one. A parameter
// that did not train has none.
status convert_average_read(convert_average *x, const safetensors_tensor *t, float *out,
                            bool *changed, err *e);

#endif
