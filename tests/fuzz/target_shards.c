// The input is a token shard: the length of the .idx as u32, the .idx, the .bin.
#include "fuzz.h"

#include "data/dataset.h"
#include "data/tokens.h"

#include <stdlib.h>
#include <string.h>

enum { VOCAB = 1000, SEQ = 4 };

static void read_all(const tokens *t)
{
    const uint64_t all = tokens_count(t), documents = tokens_documents(t);
    uint64_t sum = 0;
    int32_t ids[64];
    for (uint64_t first = 0; first < all; first += 64) {
        const size_t count = all - first < 64 ? (size_t)(all - first) : 64;
        tokens_read(t, first, count, ids);
    }
    for (uint64_t d = 0; d < documents; d++) {
        uint64_t first, length;
        tokens_document(t, d, &first, &length);
        FUZZ_CLAIM(first <= all && length <= all - first, "document %llu", (unsigned long long)d);
        sum += length;
    }
    FUZZ_CLAIM(sum <= all, "documents of %llu tokens", (unsigned long long)sum);
}

static void read_samples(void)
{
    const dataset_source source = {.path = fuzz_path("t"), .weight = 1};
    dataset *d = NULL;
    err e = {.code = OK};
    const status s = dataset_open(&source, 1, SEQ, VOCAB, 1, 0, &d, &e);
    if (s != OK) {
        fuzz_refused(s, &e);
        return;
    }
    int32_t inputs[SEQ], labels[SEQ];
    for (uint64_t i = 0; i < d->samples; i++) {
        FUZZ_CLAIM(d->read(d, i, inputs, labels, &e) == OK, "%s", e.text);
        for (int k = 0; k < SEQ; k++)
            FUZZ_CLAIM(inputs[k] >= 0 && inputs[k] < VOCAB, "id %d", inputs[k]);
    }
    dataset_close(d);
}

static bool run(const uint8_t *input, size_t bytes)
{
    tokens *t = NULL;
    err e = {.code = OK};
    uint32_t index = 0;
    if (bytes < sizeof index) return false;
    memcpy(&index, input, sizeof index);
    bytes -= sizeof index;
    if (index > bytes) index = (uint32_t)bytes;
    fuzz_put("t.idx", input + sizeof index, index);
    fuzz_put("t.bin", input + sizeof index + index, bytes - index);
    const status s = tokens_open(fuzz_path("t"), &t, &e);
    if (s != OK) {
        fuzz_refused(s, &e);
        return false;
    }
    read_all(t);
    if (tokens_check(t, VOCAB, &e) != OK) fuzz_refused(e.code, &e);
    tokens_close(t);
    read_samples();
    return true;
}

const fuzz_target fuzz_this = {.binary = true, .run = run};
