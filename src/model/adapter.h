// adapter.h -- an adapter in a folder, as PEFT writes it: its settings, its weights, and the base that it was trained on.
// session/ opens one for a command, infer/ and train/ read its weights (adapter.c), and an export merges them into the
// weights of the base (adapter_merge.c). It knows neither a device nor ranks.
#ifndef TRIREME_MODEL_ADAPTER_H
#define TRIREME_MODEL_ADAPTER_H

#include "model/lora.h"
#include "model/model.h"

typedef struct model_adapter {
    model_lora lora;
    safetensors *weights;
    char *base; // the base that it names; NULL: none
} model_adapter;

// Opens the folder of an adapter. The owner calls model_adapter_close. E_USAGE names the file and what it lacks.
status model_adapter_open(const char *folder, model_adapter **out, err *e);
void model_adapter_close(model_adapter *a); // NULL allowed
// Checks that its files hold the tensors of model m that training changes, in the right shapes, and no other tensor. m was
// traced with the adapters.
status model_adapter_check(const model_lora *l, const safetensors *weights, const model *m, err *e);
// A number that changes with the names, shapes, types and contents of the tensors of a folder. It reads some bytes of each.
status model_folder_mark(const safetensors *from, uint64_t *out, err *e);

// ---- Merging (adapter_merge.c)

// The tensors of a base with their adapters.
typedef struct model_merge model_merge;

// Both are borrowed until model_merge_close. E_USAGE names a tensor of the adapter that no tensor of the base takes.
status model_merge_open(const safetensors *base, const model_adapter *a, model_merge **out, err *e);
void model_merge_close(model_merge *x); // NULL allowed
// Reads tensor i of the base with its adapter, W + scale * B A summed in F32, or the module that the adapter's files hold
// in its place, into out, host memory of its elements, F32. *changed: it is not the base's.
status model_merge_read(const model_merge *x, size_t i, float *out, bool *changed, err *e);

#endif
