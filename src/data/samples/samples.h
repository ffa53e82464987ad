// samples.h -- samples for fine-tuning, read from JSONL as it is: conversations, prompts with completions, Alpaca,
// ShareGPT, preferences, InstructLab's forms, and plain text. Each becomes ids and labels; samples are packed into rows of
// seq_len tokens as documents that do not see each other. dataset_open calls it. It knows no sampler and no batch.
//
//   format.c   a line of JSON to a list of messages, or to a prompt and a completion
//   encode.c   messages to ids and labels (data/chat), truncated by the job's word
//   packing.c  which samples share a row: best fit decreasing (bfd), in order (next_fit), or one a row (none)
//   dataset.c  the dataset of rows (data/dataset.h, with shape.documents)
#ifndef TRIREME_DATA_SAMPLES_SAMPLES_H
#define TRIREME_DATA_SAMPLES_SAMPLES_H

#include "data/chat/chat.h"
#include "data/dataset.h"

// The words of data.format, data.packing and data.truncate, by enumerator; ended by NULL.
typedef enum samples_format {
    FORMAT_AUTO,
    FORMAT_TEXT,
    FORMAT_MESSAGES,
    FORMAT_PROMPT_COMPLETION,
    FORMAT_ALPACA,
    FORMAT_SHAREGPT,
    FORMAT_PREFERENCE,
    FORMAT_INSTRUCTLAB,
    SAMPLES_FORMATS
} samples_format;
typedef enum samples_packing {
    PACKING_BFD,
    PACKING_NEXT_FIT,
    PACKING_NONE,
    SAMPLES_PACKINGS
} samples_packing;
typedef enum samples_truncate {
    TRUNCATE_ERROR,
    TRUNCATE_DROP,
    TRUNCATE_KEEP_START,
    TRUNCATE_KEEP_END,
    TRUNCATE_SPLIT,
    SAMPLES_TRUNCATES
} samples_truncate;
extern const char *const SAMPLES_FORMAT_NAMES[SAMPLES_FORMATS + 1];
extern const char *const SAMPLES_PACKING_NAMES[SAMPLES_PACKINGS + 1];
extern const char *const SAMPLES_TRUNCATE_NAMES[SAMPLES_TRUNCATES + 1];

typedef struct samples_options {
    const tokenizer *tokenizer; // borrowed, like the next one
    const chat_template *chat;  // NULL: the tokenizer has none; conversations are refused
    samples_format format;
    samples_packing packing;
    samples_truncate truncate;
    chat_train_on train_on;
    int64_t seq_len;
    int threads; // that encode; 0: one for each processor
    // Of preferences: a pair is two documents, chosen and rejected, next to each other in one row.
    bool pairs;
} samples_options;

// What became of the lines of a file.
typedef struct samples_counts {
    uint64_t lines, samples, rows, tokens, labels;
    uint64_t dropped, truncated, split;
} samples_counts;

// Reads and encodes every line of the sources, *.jsonl files. Weights of a mixture repeat or thin the samples of a file:
// data/dataset.h says how a blend counts. E_USAGE names the file and the line. The owner calls dataset_close.
status samples_open(const dataset_source *sources, size_t count, const samples_options *o,
                    samples_counts *counts, dataset **out, err *e);

#endif
