// megatron_order.h -- the samples of a token shard in the order of Megatron-LM's GPTDataset, for a run of a known number
// of samples.
//
// A run of S samples of L tokens takes the E smallest epochs with S L + 1 tokens or more. Its stream is the documents
// of all epochs, joined in a shuffled order; sample j is the tokens j L … j L + L of the stream, and the samples are
// shuffled in turn. Where the run takes less than 80 % of the last epoch's samples, that epoch's documents and samples
// are shuffled by themselves, behind the others. A document is a sequence of the index.
#ifndef TRIREME_DATA_MEGATRON_ORDER_H
#define TRIREME_DATA_MEGATRON_ORDER_H

#include "data/tokens.h"

typedef struct megatron_order megatron_order;

// sequences: from `first` to before `end`, of the shard, which is borrowed. `seq_len` L, `samples` S > 0. The owner
// calls megatron_order_close. E_USAGE: the sequences have less than L + 1 tokens, or the numbers of the order do not fit
// Megatron-LM's.
status megatron_order_open(const tokens *t, uint64_t first, uint64_t end, int64_t seq_len,
                           uint32_t seed, uint64_t samples, megatron_order **out, err *e);
void megatron_order_close(megatron_order *o);             // NULL allowed
uint64_t megatron_order_samples(const megatron_order *o); // at least those of the run
// Copies sample k of the order: inputs [L], and labels [L], which are one token further. Thread-safe.
void megatron_order_read(const megatron_order *o, uint64_t k, int32_t *inputs, int32_t *labels);

#endif
