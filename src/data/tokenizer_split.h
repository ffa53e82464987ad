// tokenizer_split.h -- the pre-tokenizer: cuts text into the words inside which byte pairs merge.
#ifndef TRIREME_DATA_TOKENIZER_SPLIT_H
#define TRIREME_DATA_TOKENIZER_SPLIT_H

#include "base/err.h"

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

typedef struct splitter splitter;           // immutable: shared by threads
typedef struct splitter_work splitter_work; // one per thread

// Reads the field pre_tokenizer of a tokenizer.json. E_USAGE names the field that is broken or not
// supported.
status splitter_open(const json_t *pre_tokenizer, splitter **out, err *e);
void splitter_close(splitter *s);          // NULL allowed
uint64_t splitter_hash(const splitter *s); // equal for equal steps, however the field spells them
status splitter_work_open(const splitter *s, splitter_work **out, err *e);
void splitter_work_close(splitter_work *w); // NULL allowed

// Gives every word of valid UTF-8 to `take`, in order. The bytes are borrowed for that call; with
// add_prefix_space they are not always those of the text.
typedef status (*splitter_take)(void *arg, const char *at, size_t bytes, err *e);
status splitter_run(splitter_work *w, const char *at, size_t bytes, splitter_take take, void *arg,
                    err *e);

#endif
