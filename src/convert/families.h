// families.h -- private to convert/: which families GGUF files can hold, and how: the name of the architecture, the names
// and the order of rows of each tensor, and the keys that hold the numbers of a config.json. One table of keys is written
// and read. Facts of llama.cpp's converter (conversion/*.py) and loader.
#ifndef TRIREME_CONVERT_FAMILIES_H
#define TRIREME_CONVERT_FAMILIES_H

#include "model/model.h"
#include "store/gguf.h"

typedef enum convert_flag {
    PERMUTES = 1,   // rows of queries and keys are in the order of neighbours that rotate together
    PLUS_ONE = 2,   // norms hold 1 + weight
    KEY_LENGTH = 4, // the width of a head is always a key
    VOCAB_SIZE = 8, // the size of the vocabulary is a key
    ROPE_DIMS = 16, // the rotated columns of a head are a key
    ROPE_FACTORS = 32, // llama3's frequencies are a tensor of divisors
    NO_KV_HEADS = 64,
    NO_ROPE = 128, // the base of rotary frequencies is no key
    SCALES = 256,  // Granite's factors
    LOGIT_FACTOR = 512,
    WINDOW_KEY = 1024, // a window is a key
    PATTERN = 2048,    // and so is the list of layers that have it
    TEMPERATURE = 4096,
    SOFTCAPS = 8192,
    POST_ATTENTION = 1 << 14, // the norm before the MLP is called post_attention_norm
    PARTIAL_ROPE = 1 << 15,   // rope may rotate a part of a head
    QUERY_RULE = 1 << 16,     // llama.cpp takes the divisor of scores from the size of the model
    SCALING_NONE = 1 << 17,   // rope.scaling.type is "none"
    LONG_FACTORS = 1 << 18,   // longrope's divisors are two tensors
    USUAL_HEADS =
        1 << 19, // the width of a head is a key only where heads do not divide the model's width
    PARALLEL = 1 << 20,   // whether attention and MLP read the same norm is a key
    SHORT_CONV = 1 << 21, // layers without attention have short convolutions, and no heads of keys
    ROPE_PATTERN = 1 << 22, // the layers that rotate are a list
    ALPHA_BASE = 1 << 23,   // alpha of dynamic is part of the base of rotary frequencies
    NO_MLP_BIAS = 1 << 24,  // llama.cpp reads no biases of the MLP
    NO_BEGIN = 1 << 25,     // texts do not begin with a token unless the folder says so
    GLM_TOKENS = 1 << 26,   // special tokens have GLM's names
    DELTA_RULE = 1 << 27    // layers without attention have gated delta rules
} convert_flag;

typedef struct convert_family {
    const char *family, *arch;
    unsigned flags;
    int big_layers; // QUERY_RULE: a model of so many layers divides by hidden / heads
} convert_family;

// The row of the model in a folder. E_USAGE: it cannot be exported.
status convert_family_require(const char *folder, const model_config *c, const convert_family **out,
                              err *e);
// The row of a file's architecture; NULL: it cannot be imported. `window`: the file has one.
const convert_family *convert_family_of_arch(const char *arch, bool window);
void convert_families_describe(text *out); // "llama, mistral, ..."

// ---- Tensors (tensors.c)

// Another order of rows or columns: behind `first`, each `period` of them is [outer][inner][width] in the folder and
// [inner][outer][width] in the file. outer 0: the same order.
typedef struct convert_order {
    int64_t first, period, outer, inner, width;
} convert_order;

// A tensor of a HuggingFace folder and what it is in a GGUF file: a tensor, a row of one, or an item of a key.
typedef struct convert_tensor {
    char hf[PARAM_NAME_BYTES], name[GGUF_NAME_MAX + 1];
    const char *key;    // a list with a number for each layer, in place of a tensor; NULL: none
    int layer;          // of the list
    int64_t rows, cols; // of the GGUF tensor; a vector has one row
    int64_t row;        // of a vector among the `rows` of a matrix
    bool is_vector;
    bool transposed; // the folder has it as [cols, rows]
    convert_order order;
    bool of_cols;  // the order is that of columns
    float shift;   // added to the folder's values
    bool is_decay; // the file has -exp of them
    bool is_norm, keeps_f32;
} convert_tensor;

typedef struct convert_tensors {
    convert_tensor *item; // [count] in the order of model_param_files
    int count;
} convert_tensors;

// Lists the tensors of a model. E_USAGE names one that GGUF has no name for. The owner calls convert_tensors_clear.
status convert_tensors_make(const convert_family *f, const model_config *c, const model *m,
                            convert_tensors *out, err *e);
void convert_tensors_clear(convert_tensors *t);
// Returns whether the tensor begins one of the file: it is in no key, and is no later row.
bool convert_tensor_begins(const convert_tensor *t);
// Copies row `row` of the GGUF tensor out of the folder's.
void convert_row_from_folder(const convert_tensor *t, const safetensors_tensor *from, int64_t row,
                             float *out);
// Copies elements first … first + count - 1 of row `row` of the folder's tensor, which is not transposed, out of the file's.
// `line` is room for a row.
void convert_row_from_file(const convert_tensor *t, const gguf_tensor *from, int64_t row,
                           float *line, float *out);

// ---- Keys (general.c, keys_out.c, keys_in.c)

enum { CONVERT_QUANTIZATION_VERSION = 2 };
// Adds the keys that say what the file of a folder is. `type` is "model" or "adapter".
status convert_general_write(const char *arch, const char *type, const char *folder, gguf_keys *out,
                             err *e);
// The kind of elements of rows of `cols` elements where the user chose a type, an index of CONVERT_GGUF_TYPES. As the
// converter, F16 where a row is no whole number of blocks.
const gguf_kind *convert_kind(int type, int64_t cols);
uint32_t convert_kind_file_type(int type); // its number in general.file_type

typedef struct convert_key {
    const char *name; // behind "ARCH."
    enum { CONVERT_INT, CONVERT_REAL } type;
    size_t member;             // of model_config: int64_t or double
    unsigned needs;            // of the family's flags: one of them; 0: none
    unsigned unless;           // flags of families without the key
    bool optional;             // left out where the member is 0
    bool layer_norm, rms_norm; // of families with such norms only
} convert_key;
extern const convert_key CONVERT_KEYS[];
extern const int CONVERT_KEY_COUNT;
// Returns whether the family has the key.
bool convert_key_applies(const convert_family *f, const model_config *c, const convert_key *k);

// Adds the keys of the numbers. `root` is config.json: some keys are only there where it gives a value. Warnings are
// lines: what llama.cpp would compute otherwise. E_USAGE names what GGUF cannot say.
status convert_keys_write(const convert_family *f, const model_config *c, const json_t *root,
                          gguf_keys *out, text *warnings, err *e);
// The divisors of llama3's rotary frequencies, [pairs] floats; 0 pairs: the model has none. At most MODEL_ROPE_FACTORS.
int convert_rope_factors(const convert_family *f, const model_config *c, float *out);

// Reads the numbers of a file into *c, and finishes it.
status convert_keys_read(const convert_family *f, const gguf *from, model_config *c, err *e);

#endif
