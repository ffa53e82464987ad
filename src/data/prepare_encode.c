// Encoding: rounds of records, read by one thread, encoded by all, written by one in order. So the
// bytes do not depend on the number of threads, and memory is bounded by a round and the largest
// document. Called by prepare. It deliberately does not know files, neither those read nor those
// written.
#include "data/prepare_encode.h"

#include "base/rng.h"
#include "data/workers.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { ROUND_RECORDS = 8192, ROUND_BYTES_EACH = 2 << 20, ROUND_BYTES_MAX = 64 << 20 };

// One record of a round and what became of it.
typedef struct slot {
    record r;
    int32_t *ids[PREPARE_KEYS_MAX]; // owned, the ending token included
    size_t count[PREPARE_KEYS_MAX], bytes[PREPARE_KEYS_MAX];
    err *failure; // owned; NULL when all went well
} slot;

typedef struct encode_round {
    const prepare_options *o;
    int32_t eod;
    tokenizer_work **work; // one a member
    byte_buffer bytes;
    slot *slots;
    size_t count;
    _Atomic size_t next;
} encode_round;

bool prepare_is_valid(const prepare_options *o, uint64_t number)
{
    if (o->valid_fraction <= 0) return false;
    // The sampler's keys have 0 as their last word.
    rng_key key = rng_key_make(o->seed, RNG_SHUFFLE, 0, 1);
    return (double)rng_uniform(rng_word(key, number)) < o->valid_fraction;
}

static status text_encode(const encode_round *round, tokenizer_work *work, slot *s, size_t key,
                          const document *from, err *e)
{
    const int32_t *ids = NULL;
    size_t count = 0, extra = round->eod >= 0;
    s->bytes[key] = from->bytes;
    if (from->bytes == 0) return OK;
    status result =
        round->o->add_special_tokens
            ? tokenizer_encode_with_special_tokens(work, from->at, from->bytes, &ids, &count, e)
            : tokenizer_encode(work, from->at, from->bytes, &ids, &count, e);
    if (result != OK) {
        if (s->r.json)
            err_prefix(e, "%s:%llu: ", s->r.path, (unsigned long long)s->r.line);
        else
            err_prefix(e, "%s: ", s->r.path);
        return result;
    }
    s->ids[key] = malloc((count + extra) * sizeof *ids + 1);
    if (!s->ids[key]) return err_set(e, E_MEMORY, "out of memory for %zu tokens", count);
    if (count) memcpy(s->ids[key], ids, count * sizeof *ids);
    if (extra) s->ids[key][count] = round->eod;
    s->count[key] = count + extra;
    return OK;
}

static status slot_encode(const encode_round *round, tokenizer_work *work, slot *s, err *e)
{
    status result = OK;
    record_texts texts;
    size_t keys = round->o->json_key_count;
    TRY(record_parse(&s->r, round->bytes.at, round->o->json_keys, keys, &texts, e));
    for (size_t k = 0; k < keys; k++) TRY(text_encode(round, work, s, k, &texts.text[k], e));
done:
    record_release(&texts);
    return result;
}

static bool may_skip(const prepare_options *o, const err *failure)
{
    return o->skip_invalid && failure->code == E_USAGE;
}

static void round_work(void *arg, int member)
{
    encode_round *round = arg;
    for (;;) {
        size_t i = atomic_fetch_add(&round->next, 1);
        if (i >= round->count) return;
        err failure = {0};
        slot *s = &round->slots[i];
        if (slot_encode(round, round->work[member], s, &failure) == OK) continue;
        s->failure = malloc(sizeof failure);
        if (s->failure)
            *s->failure = failure;
        else
            s->bytes[0] = 1; // without ids: round_write takes it for what it is
        if (may_skip(round->o, &failure)) continue;
        // Records after a failed one are not needed; those before it are already claimed.
        atomic_store(&round->next, round->count);
        return;
    }
}

static status round_read(encode_round *round, source *from, size_t bytes_max, bool *more, err *e)
{
    status result = OK;
    round->bytes.bytes = round->count = 0;
    *more = true;
    while (*more && round->count < ROUND_RECORDS && round->bytes.bytes < bytes_max) {
        slot *s = &round->slots[round->count];
        *s = (slot){0};
        TRY(source_next(from, &round->bytes, &s->r, more, e));
        round->count += *more;
    }
done:
    return result;
}

static status round_write(encode_round *round, output *to, prepare_result *out, err *e)
{
    status result = OK;
    for (size_t i = 0; i < round->count; i++) {
        slot *s = &round->slots[i];
        if (s->failure && may_skip(round->o, s->failure)) {
            if (out->invalid_records++ == 0) out->first_invalid = *s->failure;
            continue;
        }
        if (s->failure) {
            if (e) *e = *s->failure;
            result = s->failure->code;
            goto done;
        }
        bool valid = prepare_is_valid(round->o, s->r.number);
        for (size_t k = 0; k < round->o->json_key_count; k++) {
            out->empty_documents += s->bytes[k] == 0;
            if (s->bytes[k] == 0) continue;
            if (!s->ids[k]) FAIL(E_MEMORY, "%s: out of memory while encoding", s->r.path);
            TRY(output_add(to, valid, k, s->ids[k], s->count[k], s->bytes[k], e));
        }
    }
done:
    return result;
}

static void round_clear(encode_round *round)
{
    for (size_t i = 0; i < round->count; i++) {
        slot *s = &round->slots[i];
        for (size_t k = 0; k < PREPARE_KEYS_MAX; k++) free(s->ids[k]);
        free(s->failure);
    }
    round->count = 0;
}

static status rounds_run(encode_round *round, int members, source *from, output *to,
                         prepare_result *out, err *e)
{
    status result = OK;
    const prepare_options *o = round->o;
    size_t bytes_max = (size_t)members * ROUND_BYTES_EACH;
    if (bytes_max > ROUND_BYTES_MAX) bytes_max = ROUND_BYTES_MAX;
    uint64_t documents = 0, bytes = 0, logged = 0;
    for (bool more = true; more;) {
        if (o->stopped && o->stopped(o->log_arg))
            FAIL(E_INTERRUPTED, "interrupted, nothing was written");
        TRY(round_read(round, from, bytes_max, &more, e));
        atomic_store(&round->next, 0);
        team_run((size_t)members < round->count ? members : (int)round->count, round_work, round);
        TRY(round_write(round, to, out, e));
        documents += round->count;
        bytes += round->bytes.bytes;
        round_clear(round);
        if (o->progress) o->progress(o->progress_arg, "encoding", source_done(from));
        if (o->log && o->log_interval && documents / o->log_interval > logged) {
            logged = documents / o->log_interval;
            o->log(o->log_arg, documents, bytes);
        }
    }
done:
    return result;
}

status encode_all(const prepare_options *o, source *from, const tokenizer *t, int32_t eod,
                  output *to, prepare_result *out, err *e)
{
    status result = OK;
    int members = o->workers > 0 ? o->workers : team_default_size();
    encode_round round = {.o = o, .eod = eod};
    round.slots = malloc(ROUND_RECORDS * sizeof *round.slots);
    round.work = calloc((size_t)members, sizeof *round.work);
    if (!round.slots || !round.work) FAIL(E_MEMORY, "out of memory");
    for (int i = 0; i < members; i++) TRY(tokenizer_work_open(t, &round.work[i], e));
    TRY(rounds_run(&round, members, from, to, out, e));
done:
    round_clear(&round);
    for (int i = 0; round.work && i < members; i++) tokenizer_work_close(round.work[i]);
    free(round.work);
    free(round.slots);
    free(round.bytes.at);
    return result;
}
