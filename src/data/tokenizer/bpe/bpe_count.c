// bpe_count.c -- counts words on several threads. tokenizer_train.c calls it. It divides documents
// into pieces of some hundred kilobytes, so that several threads can work on one long document. A
// piece ends between a letter and the space after it, where both built-in patterns end a word
// whatever the other characters are. It does not know pairs.
#include "data/tokenizer/bpe/bpe_count.h"

#include "base/alloc.h"
#include "base/proc.h"
#include "data/workers.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE_BYTES = 256 * 1024, THREADS_MAX = 256 };

// The counts of one worker.
typedef struct bpe_counter {
    bpe_words found;
    err error;
    status result;
} bpe_counter;

typedef struct bpe_count_job {
    const tokenizer_splitter *split;
    tokenizer_document *pieces; // [count]
    size_t count, room, total_bytes;
    atomic_size_t next, bytes_done;
    atomic_bool failed;
    tokenizer_progress progress;
    void *progress_arg;
    bpe_counter *counters; // [workers]
} bpe_count_job;

void bpe_words_close(bpe_words *w)
{
    bpe_strings_close(&w->words);
    free(w->counts);
    *w = (bpe_words){0};
}

static status add_word(bpe_words *w, const char *word, size_t bytes, int64_t times, err *e)
{
    status result = OK;
    uint32_t number;
    size_t before = w->words.count;
    TRY(alloc_grow(&w->counts, &w->count_room, before + 1, sizeof *w->counts, "a tokenizer", e));
    TRY(bpe_strings_add(&w->words, word, bytes, &number, e));
    if (number == before) w->counts[number] = 0;
    w->counts[number] += times;
done:
    return result;
}

static status count_word(void *arg, const tokenizer_span *word, err *e)
{
    return add_word(arg, word->ptr, word->bytes, 1, e);
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// The end of the piece that starts at byte `from`.
static size_t piece_end(const tokenizer_document *d, size_t from)
{
    for (size_t i = from + PIECE_BYTES; i < d->bytes; i++) {
        if (d->chars[i] == ' ' && is_letter(d->chars[i - 1])) return i;
    }
    return d->bytes;
}

static status divide_documents(bpe_count_job *job, const tokenizer_document *docs, size_t count,
                               err *e)
{
    status result = OK;
    for (size_t d = 0; d < count; d++) {
        size_t bad;
        if (!text_is_utf8(docs[d].chars, docs[d].bytes, &bad))
            FAIL(E_USAGE, "document %zu is not valid UTF-8 at byte %zu", d, bad);
        for (size_t from = 0; from < docs[d].bytes;) {
            size_t end = piece_end(&docs[d], from);
            TRY(alloc_grow(&job->pieces, &job->room, job->count + 1, sizeof *job->pieces,
                           "a tokenizer", e));
            job->pieces[job->count++] = (tokenizer_document){docs[d].chars + from, end - from};
            from = end;
        }
        job->total_bytes += docs[d].bytes;
    }
done:
    return result;
}

static status count_pieces(bpe_count_job *job, int worker, err *e)
{
    status result = OK;
    bpe_words *found = &job->counters[worker].found;
    tokenizer_splitter_workspace *workspace = NULL;
    TRY(tokenizer_splitter_workspace_open(job->split, &workspace, e));
    for (;;) {
        size_t next = atomic_fetch_add(&job->next, 1);
        if (next >= job->count || atomic_load(&job->failed)) break;
        const tokenizer_document *piece = &job->pieces[next];
        const tokenizer_span whole = {.ptr = piece->chars, .bytes = piece->bytes};
        TRY(tokenizer_splitter_run(workspace, &whole, true, count_word, found, e));
        size_t done_bytes = atomic_fetch_add(&job->bytes_done, piece->bytes) + piece->bytes;
        if (worker == 0 && job->progress)
            job->progress(job->progress_arg, "counting words",
                          (double)done_bytes / (double)job->total_bytes);
    }
done:
    if (result != OK) atomic_store(&job->failed, true);
    tokenizer_splitter_workspace_close(workspace);
    return result;
}

static void count_on_worker(void *arg, int worker)
{
    bpe_count_job *job = arg;
    bpe_counter *c = &job->counters[worker];
    c->result = count_pieces(job, worker, &c->error);
}

static int threads_for(int threads, size_t pieces)
{
    if (threads <= 0) threads = proc_usable_cores();
    if (threads > THREADS_MAX) threads = THREADS_MAX;
    if ((size_t)threads > pieces) threads = pieces > 0 ? (int)pieces : 1;
    return threads;
}

static status add_words(bpe_words *into, const bpe_words *from, err *e)
{
    status result = OK;
    for (size_t i = 0; i < from->words.count; i++) {
        bpe_span span = from->words.spans[i];
        TRY(add_word(into, from->words.bytes + span.offset, span.bytes, from->counts[i], e));
    }
done:
    return result;
}

status bpe_count(const tokenizer_splitter *split, const tokenizer_document *docs, size_t count,
                 int threads, tokenizer_progress progress, void *progress_arg, bpe_words *out,
                 err *e)
{
    status result = OK;
    bpe_count_job job = {.split = split, .progress = progress, .progress_arg = progress_arg};
    TRY(divide_documents(&job, docs, count, e));
    threads = threads_for(threads, job.count);
    TRY(alloc_zeroed(&job.counters, (size_t)threads, sizeof *job.counters, "counts of words", e));
    bpe_counter *c = job.counters;
    data_workers_run(threads, count_on_worker, &job);
    for (int i = 0; i < threads; i++) {
        if (c[i].result == OK) continue;
        if (e) *e = c[i].error;
        result = c[i].result;
        goto done;
    }
    for (int i = 1; i < threads; i++) TRY(add_words(&c[0].found, &c[i].found, e));
    *out = c[0].found;
    c[0].found = (bpe_words){0};
done:
    for (int i = 0; job.counters && i < threads; i++) bpe_words_close(&job.counters[i].found);
    free(job.counters);
    free(job.pieces);
    return result;
}
