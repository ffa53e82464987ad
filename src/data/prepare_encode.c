// prepare_encode.c -- encodes records in rounds: one thread reads the records of a round, all threads
// encode them, one thread writes them in order. So the output does not depend on the number of
// threads, and a round and the largest document bound the memory. prepare.c calls it. It deliberately
// does not know the files that are read or written.
#include "data/prepare_encode.h"

#include "base/alloc.h"
#include "base/proc.h"
#include "base/rng.h"
#include "data/workers.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { ROUND_RECORDS = 8192, ROUND_BYTES_EACH = 2 << 20, ROUND_BYTES_MAX = 64 << 20 };

// One record of a round, and its ids for each key.
typedef struct prepare_slot {
    prepare_record r;
    int32_t *ids[PREPARE_KEYS_MAX]; // owned, [count] with the final `eod`
    size_t count[PREPARE_KEYS_MAX];
    size_t bytes[PREPARE_KEYS_MAX]; // of the text
    err *failure;                   // owned; NULL when the record was encoded
} prepare_slot;

typedef struct prepare_round {
    const prepare_options *o;
    int32_t eod;
    tokenizer_workspace **workspaces; // [workers]
    prepare_buffer bytes;             // of all records of the round
    prepare_slot *slots;              // [count]
    size_t count;
    _Atomic size_t next; // the next slot to encode
} prepare_round;

bool prepare_is_validation(const prepare_options *o, uint64_t number)
{
    if (o->valid_fraction <= 0) return false;
    // The sampler uses the same stream with 0 as the last argument.
    rng_key key = rng_key_make(o->seed, RNG_SHUFFLE, 0, 1);
    return (double)rng_uniform(rng_word(key, number)) < o->valid_fraction;
}

static status text_encode(const prepare_round *round, tokenizer_workspace *workspace,
                          prepare_slot *s, size_t key, const tokenizer_document *from, err *e)
{
    const int32_t *ids = NULL;
    size_t count = 0, extra = round->eod >= 0;
    s->bytes[key] = from->bytes;
    if (from->bytes == 0) return OK;
    status result = round->o->add_special_tokens
                        ? tokenizer_encode_with_special_tokens(workspace, from->chars, from->bytes,
                                                               &ids, &count, e)
                        : tokenizer_encode(workspace, from->chars, from->bytes, &ids, &count, e);
    if (result != OK) {
        if (s->r.json)
            err_prefix(e, "%s:%llu: ", s->r.path, (unsigned long long)s->r.line);
        else
            err_prefix(e, "%s: ", s->r.path);
        return result;
    }
    result = alloc_array(&s->ids[key], count + extra, sizeof *ids, "the tokens of a document", e);
    if (result != OK) return result;
    if (count) memcpy(s->ids[key], ids, count * sizeof *ids);
    if (extra) s->ids[key][count] = round->eod;
    s->count[key] = count + extra;
    return OK;
}

static status slot_encode(const prepare_round *round, tokenizer_workspace *workspace,
                          prepare_slot *s, err *e)
{
    status result = OK;
    prepare_texts texts;
    size_t keys = round->o->json_key_count;
    TRY(prepare_parse(&s->r, round->bytes.data, round->o->json_keys, keys, &texts, e));
    for (size_t k = 0; k < keys; k++) TRY(text_encode(round, workspace, s, k, &texts.text[k], e));
done:
    prepare_texts_release(&texts);
    return result;
}

static bool may_skip(const prepare_options *o, const err *failure)
{
    return o->skip_invalid && failure->code == E_USAGE;
}

static void encode_slots(void *arg, int worker)
{
    prepare_round *round = arg;
    for (;;) {
        size_t i = atomic_fetch_add(&round->next, 1);
        if (i >= round->count) return;
        err failure = {0};
        prepare_slot *s = &round->slots[i];
        if (slot_encode(round, round->workspaces[worker], s, &failure) == OK) continue;
        if (alloc_array(&s->failure, 1, sizeof failure, "an error", NULL) == OK)
            *s->failure = failure;
        else
            s->bytes[0] = 1; // round_write reports bytes without ids as out of memory
        if (may_skip(round->o, &failure)) continue;
        // The run fails, so no worker has to claim a later record; all earlier ones are claimed.
        atomic_store(&round->next, round->count);
        return;
    }
}

static status round_read(prepare_round *round, prepare_source *from, size_t bytes_max, bool *more,
                         err *e)
{
    status result = OK;
    round->bytes.bytes = round->count = 0;
    *more = true;
    while (*more && round->count < ROUND_RECORDS && round->bytes.bytes < bytes_max) {
        prepare_slot *s = &round->slots[round->count];
        *s = (prepare_slot){0};
        TRY(prepare_source_next(from, &round->bytes, &s->r, more, e));
        round->count += *more;
    }
done:
    return result;
}

static status round_write(prepare_round *round, prepare_output *to, prepare_result *out, err *e)
{
    status result = OK;
    for (size_t i = 0; i < round->count; i++) {
        prepare_slot *s = &round->slots[i];
        if (s->failure && may_skip(round->o, s->failure)) {
            if (out->invalid_records++ == 0) out->first_invalid = *s->failure;
            continue;
        }
        if (s->failure) {
            if (e) *e = *s->failure;
            result = s->failure->code;
            goto done;
        }
        bool valid = prepare_is_validation(round->o, s->r.number);
        for (size_t k = 0; k < round->o->json_key_count; k++) {
            out->empty_documents += s->bytes[k] == 0;
            if (s->bytes[k] == 0) continue;
            if (!s->ids[k]) FAIL(E_MEMORY, "%s: out of memory while encoding", s->r.path);
            TRY(prepare_output_add(to, valid, k, s->ids[k], s->count[k], s->bytes[k], e));
        }
    }
done:
    return result;
}

static void round_clear(prepare_round *round)
{
    for (size_t i = 0; i < round->count; i++) {
        prepare_slot *s = &round->slots[i];
        for (size_t k = 0; k < PREPARE_KEYS_MAX; k++) free(s->ids[k]);
        free(s->failure);
    }
    round->count = 0;
}

static status rounds_run(prepare_round *round, int workers, prepare_source *from,
                         prepare_output *to, prepare_result *out, err *e)
{
    status result = OK;
    const prepare_options *o = round->o;
    size_t bytes_max = (size_t)workers * ROUND_BYTES_EACH;
    if (bytes_max > ROUND_BYTES_MAX) bytes_max = ROUND_BYTES_MAX;
    uint64_t documents = 0, bytes = 0, logged = 0;
    for (bool more = true; more;) {
        if (o->stopped && o->stopped(o->log_arg))
            FAIL(E_INTERRUPTED, "interrupted, no file was written");
        TRY(round_read(round, from, bytes_max, &more, e));
        atomic_store(&round->next, 0);
        const int busy = (size_t)workers < round->count ? workers : (int)round->count;
        data_workers_run(busy, encode_slots, round);
        TRY(round_write(round, to, out, e));
        documents += round->count;
        bytes += round->bytes.bytes;
        round_clear(round);
        if (o->progress) o->progress(o->progress_arg, "encoding", prepare_source_done(from));
        if (o->log && o->log_interval && documents / o->log_interval > logged) {
            logged = documents / o->log_interval;
            o->log(o->log_arg, documents, bytes);
        }
    }
done:
    return result;
}

status prepare_encode(const prepare_options *o, prepare_source *from, const tokenizer *t,
                      int32_t eod, prepare_output *to, prepare_result *out, err *e)
{
    status result = OK;
    int workers = o->workers > 0 ? o->workers : proc_usable_cores();
    prepare_round round = {.o = o, .eod = eod};
    TRY(alloc_array(&round.slots, ROUND_RECORDS, sizeof *round.slots, "documents", e));
    TRY(alloc_zeroed(&round.workspaces, (size_t)workers, sizeof *round.workspaces, "documents", e));
    for (int i = 0; i < workers; i++) TRY(tokenizer_workspace_open(t, &round.workspaces[i], e));
    TRY(rounds_run(&round, workers, from, to, out, e));
done:
    round_clear(&round);
    for (int i = 0; round.workspaces && i < workers; i++)
        tokenizer_workspace_close(round.workspaces[i]);
    free(round.workspaces);
    free(round.slots);
    free(round.bytes.data);
    return result;
}
