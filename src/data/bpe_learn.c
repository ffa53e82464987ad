// bpe_learn.c -- learns merges: the most frequent pair of neighbours becomes a token, again and
// again. Called by tokenizer_train.c. Equal counts go to the lowest pair of ids, and all details
// are those of HuggingFace's BpeTrainer, so that the merges equal its: above all, the count of a
// pair that was merged is kept, and a token that two pairs spell is one token, whose later
// occurrences queue up beside the earlier ones. Knows nothing of threads, patterns and files.
#include "data/bpe_learn.h"

#include "data/bpe_bytes.h"

#include <stdlib.h>
#include <string.h>

typedef struct word_list {
    uint32_t *at;
    size_t count, room;
} word_list;

typedef struct pair_record {
    uint64_t key;
    int64_t count;
    word_list fresh;   // words in which the last merge made this pair
    bool grad_written; // is in learner.grad_written
} pair_record;

// A pair and words that have it; count is what it was when the entry was queued.
typedef struct queue_entry {
    int64_t count;
    uint64_t key;
    uint64_t age; // decides nothing but makes the order total
    uint32_t record;
    word_list words;
} queue_entry;

typedef struct learner {
    int32_t *symbols;     // of all words, one after the other
    size_t *starts;       // [words]
    uint32_t *lengths;    // [words]
    const int64_t *times; // [words] how often each occurs
    pair_record *records;
    size_t record_count, record_room;
    bpe_pairs index; // pair to record
    uint32_t *grad_written;
    size_t touched_count, touched_room;
    queue_entry *queue;
    size_t queue_count, queue_room;
    uint64_t age;
    text name;
} learner;

void bpe_learned_close(bpe_learned *l)
{
    bpe_strings_close(&l->names);
    free(l->merges);
    *l = (bpe_learned){0};
}

static void learner_close(learner *l)
{
    for (size_t i = 0; i < l->record_count; i++) free(l->records[i].fresh.at);
    for (size_t i = 0; i < l->queue_count; i++) free(l->queue[i].words.at);
    free(l->symbols);
    free(l->starts);
    free(l->lengths);
    free(l->records);
    bpe_pairs_close(&l->index);
    free(l->grad_written);
    free(l->queue);
    text_clear(&l->name);
}

static bool comes_first(const queue_entry *a, const queue_entry *b)
{
    if (a->count != b->count) return a->count > b->count;
    if (a->key != b->key) return a->key < b->key;
    return a->age < b->age;
}

static status queue_push(learner *l, queue_entry entry, err *e)
{
    status result = OK;
    TRY(bpe_grow(&l->queue, &l->queue_room, l->queue_count + 1, sizeof *l->queue, e));
    size_t i = l->queue_count++;
    for (; i > 0 && comes_first(&entry, &l->queue[(i - 1) / 2]); i = (i - 1) / 2)
        l->queue[i] = l->queue[(i - 1) / 2];
    l->queue[i] = entry;
done:
    return result;
}

static queue_entry queue_pop(learner *l)
{
    queue_entry top = l->queue[0], last = l->queue[--l->queue_count];
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

// A pair became more (sign 1) or less (-1) frequent by one place in a word.
static status pair_change(learner *l, int32_t left, int32_t right, uint32_t word, int sign, err *e)
{
    status result = OK;
    uint64_t key = bpe_pair_key(left, right), at = bpe_pairs_find(&l->index, key);
    if (at == BPE_NO_PAIR) {
        at = l->record_count;
        TRY(bpe_grow(&l->records, &l->record_room, at + 1, sizeof *l->records, e));
        l->records[l->record_count++] = (pair_record){.key = key};
        TRY(bpe_pairs_set(&l->index, key, at, e));
    }
    pair_record *r = &l->records[at];
    r->count += sign * l->times[word];
    if (sign < 0 || (r->fresh.count > 0 && r->fresh.at[r->fresh.count - 1] == word)) goto done;
    TRY(bpe_grow(&r->fresh.at, &r->fresh.room, r->fresh.count + 1, sizeof *r->fresh.at, e));
    r->fresh.at[r->fresh.count++] = word;
    if (r->grad_written) goto done;
    r->grad_written = true;
    TRY(bpe_grow(&l->grad_written, &l->touched_room, l->touched_count + 1, sizeof *l->grad_written,
                 e));
    l->grad_written[l->touched_count++] = (uint32_t)at;
done:
    return result;
}

// The pairs that were made since the last call are queued with the words they were made in.
static status queue_touched(learner *l, err *e)
{
    status result = OK;
    for (size_t i = 0; i < l->touched_count; i++) {
        pair_record *r = &l->records[l->grad_written[i]];
        queue_entry entry = {.count = r->count,
                             .key = r->key,
                             .age = l->age++,
                             .record = l->grad_written[i],
                             .words = r->fresh};
        r->grad_written = false;
        if (r->count > 0) {
            TRY(queue_push(l, entry, e));
            r->fresh = (word_list){0};
        } else {
            r->fresh.count = 0;
        }
    }
    l->touched_count = 0;
done:
    return result;
}

// Replaces left, right by `merged` in one word and counts the pairs around.
static status merge_in_word(learner *l, uint32_t word, int32_t left, int32_t right, int32_t merged,
                            err *e)
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

static status load_words(learner *l, const bpe_words *words, const bpe_strings *names, err *e)
{
    status result = OK;
    size_t count = words->words.count, total = 0;
    int32_t byte_id[256];
    for (int byte = 0; byte < 256; byte++) {
        char spelled[2], raw = (char)byte;
        byte_id[byte] = (int32_t)bpe_strings_find(names, spelled, bpe_spell(&raw, 1, spelled));
    }
    l->times = words->counts;
    l->symbols = malloc((words->words.used + 1) * sizeof *l->symbols);
    l->starts = malloc((count + 1) * sizeof *l->starts);
    l->lengths = malloc((count + 1) * sizeof *l->lengths);
    if (!l->symbols || !l->starts || !l->lengths)
        FAIL(E_MEMORY, "out of memory for %zu words", count);
    for (size_t w = 0; w < count; w++) {
        bpe_span span = words->words.spans[w];
        if (span.bytes > INT32_MAX)
            FAIL(E_USAGE, "a word of %zu bytes without a break; at most 2 GiB are possible",
                 span.bytes);
        l->starts[w] = total;
        l->lengths[w] = (uint32_t)span.bytes;
        for (size_t i = 0; i < span.bytes; i++)
            l->symbols[total++] = byte_id[(uint8_t)words->words.bytes[span.at + i]];
    }
    for (size_t w = 0; w < count; w++) {
        for (const int32_t *s = l->symbols + l->starts[w];
             s + 1 < l->symbols + l->starts[w] + l->lengths[w]; s++)
            TRY(pair_change(l, s[0], s[1], (uint32_t)w, 1, e));
    }
    TRY(queue_touched(l, e));
done:
    return result;
}

// The id of the token that a pair spells; a new one when nothing spells it yet.
static status merged_id(learner *l, bpe_strings *names, uint64_t key, int32_t *id, err *e)
{
    status result = OK;
    uint32_t number;
    bpe_span left = names->spans[key >> 32], right = names->spans[(uint32_t)key];
    l->name.bytes = 0;
    text_add_bytes(&l->name, names->bytes + left.at, left.bytes);
    text_add_bytes(&l->name, names->bytes + right.at, right.bytes);
    TRY(bpe_strings_add(names, l->name.chars, l->name.bytes, &number, e));
    *id = (int32_t)number;
done:
    return result;
}

static status apply_merge(learner *l, bpe_learned *out, const queue_entry *top, err *e)
{
    status result = OK;
    int32_t id;
    TRY(merged_id(l, &out->names, top->key, &id, e));
    TRY(bpe_grow(&out->merges, &out->merge_room, out->merge_count + 1, sizeof *out->merges, e));
    out->merges[out->merge_count++] = top->key;
    for (size_t i = 0; i < top->words.count; i++) {
        TRY(merge_in_word(l, top->words.at[i], (int32_t)(top->key >> 32),
                          (int32_t)(uint32_t)top->key, id, e));
    }
    TRY(queue_touched(l, e));
done:
    return result;
}

// A pair that was merged twice has the rank of the second time.
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
    learner l = {0};
    queue_entry top = {0};
    size_t first = out->names.count;
    TRY(load_words(&l, words, &out->names, e));
    while (out->names.count < vocab && l.queue_count > 0) {
        top = queue_pop(&l);
        int64_t count = l.records[top.record].count;
        if (top.count != count) {
            top.count = count;
            TRY(queue_push(&l, top, e));
            top.words.at = NULL;
            continue;
        }
        if (count < 1) break;
        TRY(apply_merge(&l, out, &top, e));
        free(top.words.at);
        top.words.at = NULL;
        if (progress && out->merge_count % 64 == 0)
            progress(progress_arg, "learning merges",
                     (double)(out->names.count - first) / (double)(vocab - first));
    }
    TRY(drop_repeated(out, e));
done:
    free(top.words.at);
    learner_close(&l);
    return result;
}
