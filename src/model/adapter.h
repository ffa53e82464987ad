// adapter.h -- an adapter in a folder, as PEFT writes it: its settings, its weights, and the base that it was trained on.
// session/ opens one for a command, infer/ and train/ read its weights (adapter.c), and an export merges them into the
// weights of the base (adapter_merge.c), as they are stored or as the adapter met them (adapter_base.c). It knows neither a device nor ranks.
#ifndef TRIREME_MODEL_ADAPTER_H
#define TRIREME_MODEL_ADAPTER_H

#include "base/json.h"
#include "model/lora.h"
#include "model/model.h"

typedef struct model_adapter {
    model_lora lora;
    safetensors *weights;
    char *base; // the base that it names; NULL: none
    storage_type
        storage; // of the base's linear layers while it was trained, as far as its folder says
    dtype type;  // in which these computed; DTYPES: several
} model_adapter;

// Opens the folder of an adapter. The owner calls model_adapter_close. E_USAGE names the file and what it lacks.
status model_adapter_open(const char *folder, model_adapter **out, err *e);
void model_adapter_close(model_adapter *a); // NULL allowed
// Checks that its files hold the tensors of model m that training changes, in the right shapes, and no other tensor. m was
// traced with the adapters.
status model_adapter_check(const model_lora *l, const safetensors *weights, const model *m, err *e);
// A number that changes with the names, shapes, types and contents of the tensors of a folder. It reads some bytes of each.
status model_folder_mark(const safetensors *from, uint64_t *out, err *e);

// Reads trireme/state.json of an adapter's folder. The caller releases *out; NULL: no run of Trireme saved the folder.
status model_adapter_state(const char *folder, json_t **out, err *e);

// ---- A base in NF4 (adapter_base.c)

// x: the elements of tensor t, the weight of a linear layer, which `transposed` has as [in, out]. They become those of its
// NF4 form in the type in which the adapter's base computed, or in the type of t where the folder says nothing.
status model_adapter_base_values(const model_adapter *a, const safetensors_tensor *t,
                                 bool transposed, float *x, err *e);
// The same of a full parameter of a model, where the adapter was trained on NF4 and p is of a linear layer.
status model_adapter_base_param(const model_adapter *a, const model *m, int p,
                                const safetensors *from, float *full, err *e);

// ---- Merging (adapter_merge.c)

// The tensors of a base with their adapters.
typedef struct model_merge model_merge;

// All are borrowed until model_merge_close. With onto_nf4, the weights of linear layers are those of their NF4 form. E_USAGE
// names a tensor of the adapter that no tensor of the base takes.
status model_merge_open(const safetensors *base, const model_adapter *a, const model *m,
                        bool onto_nf4, model_merge **out, err *e);
void model_merge_close(model_merge *x); // NULL allowed
// Reads tensor i of the base with its adapter, W + scale * B A summed in F32, or the module that the adapter's files hold
// in its place, into out, host memory of its elements, F32. *changed: it is not the base's.
status model_merge_read(model_merge *x, size_t i, float *out, bool *changed, err *e);
// The largest difference, so far, of an element of the stored base and of its NF4 form; 0 where neither the adapter nor
// onto_nf4 asks for that.
double model_merge_apart(const model_merge *x);

#endif
