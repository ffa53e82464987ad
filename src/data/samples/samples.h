// samples.h -- samples for fine-tuning, read from JSONL as it is: conversations, prompts with completions, Alpaca,
// ShareGPT, preferences, InstructLab's forms, and plain text. Each becomes ids and labels; samples are packed into rows of
// seq_len tokens as documents that do not see each other. dataset_open calls it. It knows no sampler and no batch.
//
//   format.c   a line of JSON to a list of messages, to a prompt with completions, or to a text
//   encode.c   these to ids and labels (data/chat)
//   read.c     the lines of a file, encoded on several threads
//   set.c      all documents in their order, truncated by the job's word
//   packing.c  which samples share a row: best fit decreasing (bfd), in order (next_fit), or one a row (none)
//   rows.c     the dataset of rows (data/dataset.h, with shape.documents)
//   labelled.c shards that keep labels beside their ids: `data prepare --sft` writes them
#ifndef TRIREME_DATA_SAMPLES_SAMPLES_H
#define TRIREME_DATA_SAMPLES_SAMPLES_H

#include "base/text.h"
#include "data/chat/chat.h"
#include "data/dataset.h"

// The time that templates with a date see: noon of 1 January 2025, UTC, so that the tokens of a run do not depend on the
// day on which it starts or resumes.
#define SAMPLES_NOW ((int64_t)1735732800)

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
    int32_t vocab; // of the model: ids are below it
    int threads;   // that encode; 0: one for each processor
    // Of preferences: a pair is two documents, chosen and rejected, next to each other in one row. A completion with a
    // label (KTO) is one of the two; in place of the other stands a document of one token, without a label.
    bool pairs;
    bool any; // samples_show: preferences and others
} samples_options;

// Conversations that became several samples, because the chat template writes earlier messages in another way when more
// follow, and these samples.
typedef struct samples_splits {
    uint64_t conversations, samples;
} samples_splits;
// Appends a sentence that says so; nothing where there are none.
void samples_describe_splits(const samples_splits *s, text *out);

// What became of the lines of the files.
typedef struct samples_counts {
    uint64_t lines;   // of JSONL, and documents of shards
    uint64_t samples; // in the rows of an epoch; a pair of preferences is one
    uint64_t rows;
    uint64_t most_documents; // of a row, without padding
    uint64_t tokens, labels; // in these rows, without padding
    uint64_t too_long;       // lines that do not fit into a row: cut, split or left out
    uint64_t unlabelled;     // parts of them that have no label, and are left out
    uint64_t labels_lost;    // in cutting and leaving out
    samples_splits splits;
    bool weighted; // some weight is not 1: the rows have extras 1
    bool has_chat; // some line is a conversation
} samples_counts;

bool samples_is_jsonl(const char *path); // *.jsonl and *.jsonl.gz
// Returns whether a path names samples: JSONL, or a shard with labels.
bool samples_is_source(const char *path);

// Reads and encodes every line of the sources: *.jsonl files, shards with labels, and token shards, whose rows are as
// without samples. A source of weight w stands w times in an epoch: whole copies, and of the rest every
// 1 / (w - floor(w))-th sample. E_USAGE names the file and the line. The owner calls dataset_close.
status samples_open(const dataset_source *sources, size_t count, const samples_options *o,
                    samples_counts *counts, dataset **out, err *e);

// One line as the documents that rows hold: `data inspect` shows them.
typedef struct samples_view {
    samples_format format; // FORMAT_AUTO: a document of a shard
    bool pair;             // the documents are chosen and rejected; else each is a sample
    size_t documents;
    const size_t *end;   // [documents] of each, in tokens
    const int32_t *ids;  // [end[documents - 1]]
    const bool *trained; // the token is predicted
    double weight;
} samples_view;

typedef status samples_view_fn(const samples_view *s, void *arg, err *e);

// Encodes line `number` (from 1, lines of white space do not count) of a *.jsonl file, or reads document `number` of a
// token shard, and gives it to `show`. E_USAGE where there is none.
status samples_show(const char *path, samples_format format, uint64_t number,
                    const samples_options *o, samples_view_fn *show, void *arg, err *e);

#endif
