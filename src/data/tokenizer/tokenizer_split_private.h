// tokenizer_split_private.h -- the stages of a pre-tokenizer, for the files that read them and run them.
#ifndef TRIREME_DATA_TOKENIZER_SPLIT_PRIVATE_H
#define TRIREME_DATA_TOKENIZER_SPLIT_PRIVATE_H

#include "data/tokenizer/tokenizer_pattern.h"
#include "data/tokenizer/tokenizer_split.h"

enum { STAGES = 24 };

// What becomes of the matches of a stage, as HuggingFace's SplitDelimiterBehavior.
typedef enum tokenizer_behavior {
    BEHAVIOR_ISOLATED,
    BEHAVIOR_REMOVED,
    BEHAVIOR_CONTIGUOUS,
    BEHAVIOR_MERGED_PREVIOUS,
    BEHAVIOR_MERGED_NEXT,
    BEHAVIORS
} tokenizer_behavior;

// Whether Metaspace puts its replacement before a piece.
typedef enum tokenizer_prepend { PREPEND_ALWAYS, PREPEND_FIRST, PREPEND_NEVER } tokenizer_prepend;

typedef enum tokenizer_stage_kind {
    STAGE_SPACE,      // puts a space before a piece that does not begin with one
    STAGE_METASPACE,  // puts `replacement` in place of spaces
    STAGE_BYTES,      // spells bytes as characters
    STAGE_PATTERN,    // splits at the matches of `pattern`
    STAGE_CHARACTERS, // splits at the characters of `is_match`
    STAGE_DELIMITER   // splits at `delimiter`
} tokenizer_stage_kind;

typedef struct tokenizer_stage {
    tokenizer_stage_kind kind;
    tokenizer_pattern *pattern;
    bool (*is_match)(uint32_t character);
    uint32_t delimiter;
    tokenizer_behavior behavior;
    bool invert; // the text between matches counts as matches
    char *replacement;
    tokenizer_prepend prepend;
} tokenizer_stage;

struct tokenizer_splitter {
    tokenizer_stage stages[STAGES];
    size_t count;
    bool has_byte_level; // as the last step
    uint64_t hash;       // of the stages so far
};

#endif
