// bpe_count.c -- counts words on all threads. Called by tokenizer_train.c. Documents are cut into
// pieces of some hundred kilobytes between a letter and the blank after it, where both built-in
// patterns end a word whatever comes before or after, so that one long document is shared too.
// Knows nothing of pairs.
#define _GNU_SOURCE // sched_getaffinity
#include "data/bpe_count.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE_BYTES = 256 * 1024, MOST_THREADS = 256 };

typedef struct counter_job {
    const splitter *split;
    document *pieces;
    size_t count, room, total_bytes;
    atomic_size_t next, bytes_done;
    atomic_bool failed;
    tokenizer_progress progress;
    void *progress_arg;
} counter_job;

typedef struct counter {
    counter_job *job;
    bpe_words found;
    err error;
    status result;
    bool reports; // runs on the calling thread
} counter;

void bpe_words_close(bpe_words *w)
{
    bpe_strings_close(&w->words);
    free(w->counts);
    *w = (bpe_words){0};
}

static status add_word(bpe_words *w, const char *at, size_t bytes, int64_t times, err *e)
{
    status result = OK;
    uint32_t number;
    size_t before = w->words.count;
    TRY(bpe_grow(&w->counts, &w->count_room, before + 1, sizeof *w->counts, e));
    TRY(bpe_strings_add(&w->words, at, bytes, &number, e));
    if (number == before) w->counts[number] = 0;
    w->counts[number] += times;
done:
    return result;
}

static status take_word(void *arg, const char *at, size_t bytes, err *e)
{
    return add_word(arg, at, bytes, 1, e);
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// Where the piece that starts at `from` may end.
static size_t piece_end(const document *d, size_t from)
{
    for (size_t i = from + PIECE_BYTES; i < d->bytes; i++) {
        if (d->at[i] == ' ' && is_letter(d->at[i - 1])) return i;
    }
    return d->bytes;
}

static status cut_documents(counter_job *job, const document *docs, size_t count, err *e)
{
    status result = OK;
    for (size_t d = 0; d < count; d++) {
        size_t bad;
        if (!text_is_utf8(docs[d].at, docs[d].bytes, &bad))
            FAIL(E_USAGE, "document %zu is not valid UTF-8 at byte %zu", d, bad);
        for (size_t from = 0; from < docs[d].bytes;) {
            size_t end = piece_end(&docs[d], from);
            TRY(bpe_grow(&job->pieces, &job->room, job->count + 1, sizeof *job->pieces, e));
            job->pieces[job->count++] = (document){docs[d].at + from, end - from};
            from = end;
        }
        job->total_bytes += docs[d].bytes;
    }
done:
    return result;
}

static status count_pieces(counter *c, err *e)
{
    status result = OK;
    counter_job *job = c->job;
    splitter_work *work = NULL;
    TRY(splitter_work_open(job->split, &work, e));
    for (;;) {
        size_t next = atomic_fetch_add(&job->next, 1);
        if (next >= job->count || atomic_load(&job->failed)) break;
        const document *piece = &job->pieces[next];
        TRY(splitter_run(work, piece->at, piece->bytes, take_word, &c->found, e));
        size_t done_bytes = atomic_fetch_add(&job->bytes_done, piece->bytes) + piece->bytes;
        if (c->reports && job->progress)
            job->progress(job->progress_arg, "counting words",
                          (double)done_bytes / (double)job->total_bytes);
    }
done:
    if (result != OK) atomic_store(&job->failed, true);
    splitter_work_close(work);
    return result;
}

static void *count_on_thread(void *arg)
{
    counter *c = arg;
    c->result = count_pieces(c, &c->error);
    return NULL;
}

static int threads_for(int threads, size_t pieces)
{
    cpu_set_t own;
    if (threads <= 0) threads = sched_getaffinity(0, sizeof own, &own) == 0 ? CPU_COUNT(&own) : 1;
    if (threads > MOST_THREADS) threads = MOST_THREADS;
    if ((size_t)threads > pieces) threads = pieces > 0 ? (int)pieces : 1;
    return threads;
}

static status run_counters(counter *counters, int threads, err *e)
{
    status result = OK;
    pthread_t *handles = calloc((size_t)threads, sizeof *handles);
    int started = 1;
    if (!handles) return err_set(e, E_MEMORY, "out of memory");
    counters[0].reports = true;
    // A thread that cannot start leaves its share to the others.
    while (started < threads &&
           pthread_create(&handles[started], NULL, count_on_thread, &counters[started]) == 0)
        started++;
    count_on_thread(&counters[0]);
    for (int i = 1; i < started; i++) pthread_join(handles[i], NULL);
    for (int i = 0; i < started && result == OK; i++) {
        result = counters[i].result;
        if (result != OK && e) *e = counters[i].error;
    }
    free(handles);
    return result;
}

static status fold(bpe_words *into, const bpe_words *from, err *e)
{
    status result = OK;
    for (size_t i = 0; i < from->words.count; i++) {
        bpe_span span = from->words.spans[i];
        TRY(add_word(into, from->words.bytes + span.at, span.bytes, from->counts[i], e));
    }
done:
    return result;
}

status bpe_count(const splitter *split, const document *docs, size_t count, int threads,
                 tokenizer_progress progress, void *progress_arg, bpe_words *out, err *e)
{
    status result = OK;
    counter_job job = {.split = split, .progress = progress, .progress_arg = progress_arg};
    counter *counters = NULL;
    TRY(cut_documents(&job, docs, count, e));
    threads = threads_for(threads, job.count);
    counters = calloc((size_t)threads, sizeof *counters);
    if (!counters) FAIL(E_MEMORY, "out of memory");
    for (int i = 0; i < threads; i++) counters[i].job = &job;
    TRY(run_counters(counters, threads, e));
    for (int i = 1; i < threads; i++) TRY(fold(&counters[0].found, &counters[i].found, e));
    *out = counters[0].found;
    counters[0].found = (bpe_words){0};
done:
    for (int i = 0; counters && i < threads; i++) bpe_words_close(&counters[i].found);
    free(counters);
    free(job.pieces);
    return result;
}
