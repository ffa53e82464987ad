// schema.h -- the schema of a family: a table with a row for each field of its config.json and of the
// job's section `model`. Reading, writing, help, explain, the comparison at resume and refusals walk the
// table. Called by config/. The families write the tables, with the rows of fields.h.
#ifndef TRIREME_MODEL_SCHEMA_H
#define TRIREME_MODEL_SCHEMA_H

#include "model/config.h"

typedef enum model_field_type {
    FIELD_INTEGER, // int64_t from low to high; null is 0
    FIELD_REAL,    // double from low to high; null is 0
    FIELD_BOOL,    // bool
    FIELD_TOKEN,   // int64_t from -1; null is -1
    FIELD_TOKENS,  // eos and more_eos: a token or a list
    FIELD_WORD,    // int or an enum: a value of `words`
    FIELD_LAYERS, // model_layer_set: a list with a word of `words` for each layer; value 1 is in the set
    FIELD_LAYER_NUMBERS, // model_layer_set: the numbers of its layers
    FIELD_NUMBERS,       // model_numbers
    FIELD_WIDE,          // the layers of `wide` and their numbers of heads: an object by layer
    FIELD_ROPE,          // all members of rope: the object of the rows with FIELD_OF_ROPE
    // In config.json only:
    FIELD_FIXED,  // it is `value` (NAN: 0), null, false, or an empty list or object
    FIELD_EACH,   // each item of a list is a word of `words`
    FIELD_IGNORED // it is anything
} model_field_type;

typedef enum model_field_flag {
    FIELD_NULLABLE = 1,      // null stands for "not given"
    FIELD_OF_WIDTH = 2,      // in a job that does not give the field, it follows from the width
    FIELD_WRITTEN = 4,       // config.json gets it, and nobody reads it
    FIELD_OF_ROPE = 8,       // config.json has it in an object of rotary positions
    FIELD_MAY_CHANGE = 16,   // a resumed run may have another value
    FIELD_ZERO_IS_NULL = 32, // null is printed where the number is 0, or the list empty
    FIELD_BESIDE = 64        // of FIELD_OF_ROPE: transformers 4 has the field beside the object
} model_field_flag;

// Words of config.json and their values. The first word of a value is the one that is written.
typedef struct model_words {
    const char *valid; // the words that help lists, worded to follow "valid are"
    struct {
        const char *word; // NULL after the last
        int value;
    } word[16];
} model_words;
extern const model_words MODEL_ACTIVATION_WORDS, MODEL_ROPE_WORDS, MODEL_FULL_ATTENTION;
extern const model_words MODEL_WINDOW_WORDS, MODEL_ROTATION_WORDS, MODEL_CONV_WORDS,
    MODEL_LINEAR_WORDS; // of FIELD_LAYERS

typedef struct model_field {
    const char *name;    // Trireme's; NULL: a job has no such key
    const char *key;     // of the job: "model." and the name
    const char *help;    // a sentence that says what the field does
    const char *file[2]; // HuggingFace's names; the first is written
    model_field_type type;
    unsigned flags;
    size_t member; // offset in model_config
    size_t after; // of a row with a member of `own`: the offset after which help lists it; 0: first
    double low, high;
    const model_words *words;
    double value;     // the default of HuggingFace's configuration class
    unsigned kinds;   // bits of the model_rope with which the field is read; 0: all
    unsigned needed;  // bits of those whose object must have it
    const char *json; // FIELD_FIXED: the value that is written; NULL: none
} model_field;

// The sizes that follow from the width where a job does not give them.
typedef struct model_sizes {
    int64_t published[8][2]; // {hidden, layers} of the family's models by width; ended by zeros
    int64_t wide_heads;      // from this width on heads have 128 columns, else 64; 0: never
    bool gated;              // the MLP has three matrices of 8/3 hidden, not two of 4 hidden
    bool rotary;             // rotary positions, which need even heads
} model_sizes;

typedef struct model_schema {
    const char *model_type, *architectures[2]; // of config.json; the first is written
    const model_field *fields;                 // [count] in the order of config.json
    int count;
    const model_sizes *sizes; // of attention; NULL: the family has none
    status (*finish)(model_config *c,
                     err *e); // checks how fields depend on each other; NULL allowed
} model_schema;

enum { MODEL_FIELDS = 256 }; // of all families together

// Lists the fields of a family that a job can set, or of all families (NULL), each name once, in the
// order of model_config. Returns their number.
int model_fields_list(const model_family *of, const model_field *out[MODEL_FIELDS]);
// Returns the family's row with this name of Trireme; NULL: none.
const model_field *model_field_named(const model_family *of, const char *name);
// Returns the row that a job's key of this name sets, by Trireme's name or HuggingFace's; NULL: none.
const model_field *model_field_find(const model_family *of, const char *name);
// Lists the other names of a field in all families, each once. Returns their number.
int model_field_synonyms(const char *name, const char *out[MODEL_FIELDS]);
// Returns whether the job's key `name` with this value sets the field of c->family.
bool model_field_is_set_by(const model_config *c, const model_field *f, const char *name,
                           const json_t *value);
// Returns whether the model has a use for the field: some belong to one kind of rotary positions.
bool model_field_is_read(const model_config *c, const model_field *f);
// Returns whether the field changes the model that the same weights make.
bool model_field_is_compared(const model_config *c, const model_field *f);
// Appends the values that a field may have, worded to follow "valid are".
void model_field_describe(const model_field *f, text *out);
// Appends the field's value as JSON, or as flow YAML.
void model_field_add(const model_config *c, const model_field *f, bool json, text *out);

// ---- For the files that read and write config.json

// Returns the first row that config.json sets by this name; NULL: none.
const model_field *model_field_in_file(const model_family *of, const char *name);
// Sets the row's member; messages begin with `name`.
status model_field_set(model_config *c, const model_field *f, const char *name, const json_t *value,
                       err *e);
// Sets the row's member to its default.
void model_field_set_default(model_config *c, const model_field *f);
// Finds the value of a word, which may be null or a whole number that is spelled like one. Returns false for all else.
bool model_word_find(const model_words *words, const json_t *value, int *out);
// Appends a word; in JSON without quotes where it spells null or a number.
void model_word_add(const char *word, bool json, text *out);
// Returns whether the value says nothing: null, false, empty, or the number `neutral`; NAN: 0.
bool model_value_is_neutral(const json_t *value, double neutral);
// Writes a value for a message: on one line, shortened to the buffer. Returns out.
enum { SHOWN_BYTES = 80 };
const char *model_show_value(const json_t *value, char out[SHOWN_BYTES]);

// ---- Sets of layers (layers.c)

bool model_layer_has(const model_layer_set *s, int64_t layer);
status model_layers_set(const model_field *f, const char *name, model_layer_set *s,
                        const json_t *value, err *e);
status model_layers_set_numbers(const model_field *f, const char *name, model_layer_set *s,
                                const json_t *value, err *e);
// Appends the list, with a word for each layer, or the numbers of the layers.
void model_layers_add(const model_field *f, const model_layer_set *s, bool json, text *out);
// Reads and writes per_layer_config: the layers whose heads are not those of the others.
status model_wide_set(model_config *c, const char *name, const json_t *value, err *e);
void model_wide_add(const model_config *c, text *out);
// The numbers of a layer.
int64_t model_head_dim(const model_config *c, int64_t layer);
int64_t model_kv_heads(const model_config *c, int64_t layer);
// Fills the sets that are not given, and checks the length of those that are.
status model_layers_finish(model_config *c, err *e);

// ---- Rotary positions (rope.c): rope_scaling of transformers 4 with rope_theta beside it, rope_parameters of 5

// Sets all fields from such an object. `field` names it in messages.
status model_rope_set(model_config *c, const char *field, const json_t *value, err *e);
// Reads the objects of a config.json. `f` is the family's row of type FIELD_ROPE.
status model_rope_read(model_config *c, const model_field *f, const json_t *root, err *e);
void model_rope_write(const model_config *c, const model_field *f, text *out);
status model_rope_finish(model_config *c, err *e);

#endif
