// bpe_learn.c -- learns merges: the most frequent pair of adjacent symbols becomes a token, again
// and again. tokenizer_train.c calls it. The merges equal those of HuggingFace's BpeTrainer, because
// three details do: among pairs of equal count the lowest pair of ids comes first; the count of a
// pair stays after its merge; and when two pairs spell the same token, both make that one token, and
// its new occurrences form a queue entry of their own. It does not know threads, patterns or files.
#include "data/tokenizer/bpe/bpe_learn.h"

#include "base/alloc.h"
#include "data/tokenizer/bpe/bpe_bytes.h"

#include <stdlib.h>
#include <string.h>

// Numbers of words.
typedef struct bpe_word_list {
    uint32_t *items; // [count]
    size_t count, room;
} bpe_word_list;

typedef struct bpe_pair_record {
    uint64_t key;
    int64_t count;
    bpe_word_list fresh; // words in which the last merge made this pair
    bool is_changed;     // the record is in bpe_learner.changed
} bpe_pair_record;

// A pair and words that have it.
typedef struct bpe_queue_entry {
    int64_t count; // of the pair when the entry was pushed
    uint64_t key;
    uint64_t age;    // makes the order total; it never decides between different pairs
    uint32_t record; // of the pair
    bpe_word_list words;
} bpe_queue_entry;

typedef struct bpe_learner {
    int32_t *symbols;     // ids of all words, one word after the other
    size_t *starts;       // [words] first symbol of each word
    uint32_t *lengths;    // [words] in symbols
    const int64_t *times; // [words] how often each word occurs
    bpe_pair_record *records;
    size_t record_count, record_room;
    bpe_pairs index;   // from a pair to its record
    uint32_t *changed; // [changed_count] records with fresh words
    size_t changed_count, changed_room;
    bpe_queue_entry *queue; // [queue_count] a binary heap
    size_t queue_count, queue_room;
    uint64_t age;
    text name; // of the token being made
} bpe_learner;

void bpe_learned_close(bpe_learned *l)
{
    bpe_strings_close(&l->names);
    free(l->merges);
    *l = (bpe_learned){0};
}

static void learner_close(bpe_learner *l)
{
    for (size_t i = 0; i < l->record_count; i++) free(l->records[i].fresh.items);
    for (size_t i = 0; i < l->queue_count; i++) free(l->queue[i].words.items);
    free(l->symbols);
    free(l->starts);
    free(l->lengths);
    free(l->records);
    bpe_pairs_close(&l->index);
    free(l->changed);
    free(l->queue);
    text_clear(&l->name);
}

static bool comes_first(const bpe_queue_entry *a, const bpe_queue_entry *b)
{
    if (a->count != b->count) return a->count > b->count;
    if (a->key != b->key) return a->key < b->key;
    return a->age < b->age;
}

static status queue_push(bpe_learner *l, bpe_queue_entry entry, err *e)
{
    status result = OK;
    TRY(alloc_grow(&l->queue, &l->queue_room, l->queue_count + 1, sizeof *l->queue, "a tokenizer",
                   e));
    size_t i = l->queue_count++;
    for (; i > 0 && comes_first(&entry, &l->queue[(i - 1) / 2]); i = (i - 1) / 2)
        l->queue[i] = l->queue[(i - 1) / 2];
    l->queue[i] = entry;
done:
    return result;
}

static bpe_queue_entry queue_pop(bpe_learner *l)
{
    bpe_queue_entry top = l->queue[0], last = l->queue[--l->queue_count];
    size_t i = 0;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= l->queue_count) break;
        if (child + 1 < l->queue_count && comes_first(&l->queue[child + 1], &l->queue[child]))
            child++;
        if (!comes_first(&l->queue[child], &last)) break;
        l->queue[i] = l->queue[child];
        i = child;
    }
    l->queue[i] = last;
    return top;
}

// Counts one occurrence of a pair in a word more (sign 1) or fewer (sign -1).
static status pair_change(bpe_learner *l, int32_t left, int32_t right, uint32_t word, int sign,
                          err *e)
{
    status result = OK;
    uint64_t key = bpe_pair_key(left, right), index = bpe_pairs_find(&l->index, key);
    if (index == BPE_NO_PAIR) {
        index = l->record_count;
        TRY(alloc_grow(&l->records, &l->record_room, index + 1, sizeof *l->records, "a tokenizer",
                       e));
        l->records[l->record_count++] = (bpe_pair_record){.key = key};
        TRY(bpe_pairs_set(&l->index, key, index, e));
    }
    bpe_pair_record *r = &l->records[index];
    r->count += sign * l->times[word];
    if (sign < 0 || (r->fresh.count > 0 && r->fresh.items[r->fresh.count - 1] == word)) goto done;
    TRY(alloc_grow(&r->fresh.items, &r->fresh.room, r->fresh.count + 1, sizeof *r->fresh.items,
                   "a tokenizer", e));
    r->fresh.items[r->fresh.count++] = word;
    if (r->is_changed) goto done;
    r->is_changed = true;
    TRY(alloc_grow(&l->changed, &l->changed_room, l->changed_count + 1, sizeof *l->changed,
                   "a tokenizer", e));
    l->changed[l->changed_count++] = (uint32_t)index;
done:
    return result;
}

// Pushes the pairs that were made since the last call, with the words that have them.
static status queue_changed(bpe_learner *l, err *e)
{
    status result = OK;
    for (size_t i = 0; i < l->changed_count; i++) {
        bpe_pair_record *r = &l->records[l->changed[i]];
        bpe_queue_entry entry = {.count = r->count,
                                 .key = r->key,
                                 .age = l->age++,
                                 .record = l->changed[i],
                                 .words = r->fresh};
        r->is_changed = false;
        if (r->count > 0) {
            TRY(queue_push(l, entry, e));
            r->fresh = (bpe_word_list){0};
        } else {
            r->fresh.count = 0;
        }
    }
    l->changed_count = 0;
done:
    return result;
}

// Replaces the pair (left, right) by `merged` in one word, and counts the pairs next to it.
static status merge_in_word(bpe_learner *l, uint32_t word, int32_t left, int32_t right,
                            int32_t merged, err *e)
{
    status result = OK;
    int32_t *s = l->symbols + l->starts[word];
    uint32_t n = l->lengths[word], kept = 0;
    for (uint32_t i = 0; i < n; i++, kept++) {
        bool here = s[i] == left && i + 1 < n && s[i + 1] == right;
        if (!here) {
            s[kept] = s[i];
            continue;
        }
        if (kept > 0) {
            TRY(pair_change(l, s[kept - 1], left, word, -1, e));
            TRY(pair_change(l, s[kept - 1], merged, word, 1, e));
        }
        i++;
        if (i + 1 < n) {
            TRY(pair_change(l, right, s[i + 1], word, -1, e));
            TRY(pair_change(l, merged, s[i + 1], word, 1, e));
        }
        s[kept] = merged;
    }
    l->lengths[word] = kept;
done:
    return result;
}

static status load_words(bpe_learner *l, const bpe_words *words, const bpe_strings *names, err *e)
{
    status result = OK;
    size_t count = words->words.count, total = 0;
    int32_t byte_id[256];
    for (int byte = 0; byte < 256; byte++) {
        char spelled[2], raw = (char)byte;
        byte_id[byte] = (int32_t)bpe_strings_find(names, spelled, bpe_spell(&raw, 1, spelled));
    }
    l->times = words->counts;
    TRY(alloc_array(&l->symbols, words->words.used, sizeof *l->symbols, "the words", e));
    TRY(alloc_array(&l->starts, count, sizeof *l->starts, "the words", e));
    TRY(alloc_array(&l->lengths, count, sizeof *l->lengths, "the words", e));
    for (size_t w = 0; w < count; w++) {
        bpe_span span = words->words.spans[w];
        if (span.bytes > INT32_MAX)
            FAIL(E_USAGE, "a word of %zu bytes without a break; at most 2 GiB are possible",
                 span.bytes);
        l->starts[w] = total;
        l->lengths[w] = (uint32_t)span.bytes;
        for (size_t i = 0; i < span.bytes; i++)
            l->symbols[total++] = byte_id[(uint8_t)words->words.bytes[span.offset + i]];
    }
    for (size_t w = 0; w < count; w++) {
        for (const int32_t *s = l->symbols + l->starts[w];
             s + 1 < l->symbols + l->starts[w] + l->lengths[w]; s++)
            TRY(pair_change(l, s[0], s[1], (uint32_t)w, 1, e));
    }
    TRY(queue_changed(l, e));
done:
    return result;
}

// The id of the token that a pair spells. The token is new unless another pair has spelled it.
static status merged_id(bpe_learner *l, bpe_strings *names, uint64_t key, int32_t *id, err *e)
{
    status result = OK;
    uint32_t number;
    bpe_span left = names->spans[key >> 32], right = names->spans[(uint32_t)key];
    l->name.bytes = 0;
    text_add_bytes(&l->name, names->bytes + left.offset, left.bytes);
    text_add_bytes(&l->name, names->bytes + right.offset, right.bytes);
    TRY(bpe_strings_add(names, l->name.chars, l->name.bytes, &number, e));
    *id = (int32_t)number;
done:
    return result;
}

static status apply_merge(bpe_learner *l, bpe_learned *out, const bpe_queue_entry *top, err *e)
{
    status result = OK;
    int32_t id;
    TRY(merged_id(l, &out->names, top->key, &id, e));
    TRY(alloc_grow(&out->merges, &out->merge_room, out->merge_count + 1, sizeof *out->merges,
                   "a tokenizer", e));
    out->merges[out->merge_count++] = top->key;
    for (size_t i = 0; i < top->words.count; i++) {
        TRY(merge_in_word(l, top->words.items[i], (int32_t)(top->key >> 32),
                          (int32_t)(uint32_t)top->key, id, e));
    }
    TRY(queue_changed(l, e));
done:
    return result;
}

// A pair that was merged twice keeps the rank of its second merge.
static status drop_repeated(bpe_learned *out, err *e)
{
    status result = OK;
    bpe_pairs last = {0};
    size_t kept = 0;
    for (size_t i = 0; i < out->merge_count; i++) TRY(bpe_pairs_set(&last, out->merges[i], i, e));
    for (size_t i = 0; i < out->merge_count; i++) {
        if (bpe_pairs_find(&last, out->merges[i]) == i) out->merges[kept++] = out->merges[i];
    }
    out->merge_count = kept;
done:
    bpe_pairs_close(&last);
    return result;
}

status bpe_learn(const bpe_words *words, size_t vocab, tokenizer_progress progress,
                 void *progress_arg, bpe_learned *out, err *e)
{
    status result = OK;
    bpe_learner l = {0};
    bpe_queue_entry top = {0};
    size_t first = out->names.count;
    TRY(load_words(&l, words, &out->names, e));
    while (out->names.count < vocab && l.queue_count > 0) {
        top = queue_pop(&l);
        int64_t count = l.records[top.record].count;
        if (top.count != count) {
            top.count = count;
            TRY(queue_push(&l, top, e));
            top.words.items = NULL;
            continue;
        }
        if (count < 1) break;
        TRY(apply_merge(&l, out, &top, e));
        free(top.words.items);
        top.words.items = NULL;
        if (progress && out->merge_count % 64 == 0)
            progress(progress_arg, "learning merges",
                     (double)(out->names.count - first) / (double)(vocab - first));
    }
    TRY(drop_repeated(out, e));
done:
    free(top.words.items);
    learner_close(&l);
    return result;
}
