// Prepare: text to token shards, from the options to the renames. Called by `trireme data prepare`.
// It deliberately does not know the command line; reading, encoding and writing each have their own
// file (prepare_source.c, prepare_encode.c, prepare_output.c).
#include "data/prepare.h"

#include "base/file.h"
#include "data/prepare_encode.h"
#include "data/prepare_files.h"
#include "data/prepare_output.h"
#include "data/prepare_source.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { VOCAB_LEAST = 257, WORKERS_MAX = 256 }; // 256 bytes and the end of text

static const char *const end_of_text[] = {"<|endoftext|>"};

static status options_check(const prepare_options *o, err *e)
{
    if (o->input_count == 0) return err_set(e, E_USAGE, "--input: missing, valid are files");
    if (!o->output_prefix || !*o->output_prefix)
        return err_set(e, E_USAGE, "--output-prefix: missing, valid is the path of the shards");
    if (path_has_suffix(o->output_prefix, "/") || file_is_directory(o->output_prefix))
        return err_set(e, E_USAGE,
                       "--output-prefix: %s is a folder, valid is a name in it, such as %s/corpus",
                       o->output_prefix, o->output_prefix);
    if (!o->tokenizer == !o->train_bpe)
        return err_set(e, E_USAGE,
                       "found %s, valid is one of --tokenizer FILE and --train-bpe "
                       "VOCAB",
                       o->tokenizer ? "both" : "no tokenizer");
    if (!o->tokenizer && o->train_bpe < VOCAB_LEAST)
        return err_set(e, E_USAGE,
                       "--train-bpe: found %" PRId32
                       ", valid is %d or more (256 bytes and <|endoftext|>)",
                       o->train_bpe, VOCAB_LEAST);
    if (o->tokenizer && o->save_tokenizer)
        return err_set(e, E_USAGE, "--save-tokenizer: goes with --train-bpe only");
    if (!(o->valid_fraction >= 0 && o->valid_fraction < 1))
        return err_set(e, E_USAGE, "--valid-fraction: found %g, valid is 0 or more and below 1",
                       o->valid_fraction);
    if (o->workers < 0 || o->workers > WORKERS_MAX)
        return err_set(e, E_USAGE, "--workers: found %d, valid is 0 (all) to %d", o->workers,
                       WORKERS_MAX);
    if (o->document_separator && !*o->document_separator)
        return err_set(e, E_USAGE, "--document-separator: found nothing, valid is some text");
    if (o->json_key_count > PREPARE_KEYS_MAX)
        return err_set(e, E_USAGE, "--json-keys: found %zu, valid is at most %d", o->json_key_count,
                       PREPARE_KEYS_MAX);
    for (size_t i = 0; i < o->json_key_count; i++)
        for (size_t k = 0; k < i; k++)
            if (strcmp(o->json_keys[i], o->json_keys[k]) == 0)
                return err_set(e, E_USAGE, "--json-keys: found %s twice", o->json_keys[i]);
    return OK;
}

// Training reads the inputs once more, which a pipe does not allow.
static status inputs_check(const source *from, err *e)
{
    struct stat s;
    for (size_t i = 0; i < source_files(from); i++)
        if (stat(source_file(from, i), &s) == 0 && !S_ISREG(s.st_mode))
            return err_set(e, E_USAGE,
                           "%s: is not a regular file; --train-bpe reads its input twice",
                           source_file(from, i));
    return OK;
}

// The texts to learn from, kept in one buffer: lengths first, addresses when it no longer moves.
typedef struct corpus {
    byte_buffer bytes;
    document *docs;
    size_t count, room;
} corpus;

static status corpus_add(corpus *c, const document *d, err *e)
{
    if (d->bytes == 0) return OK;
    if (c->count == c->room) {
        size_t room = c->room ? 2 * c->room : 1024;
        document *grown = realloc(c->docs, room * sizeof *grown);
        if (!grown) return err_set(e, E_MEMORY, "out of memory for %zu documents", room);
        c->docs = grown;
        c->room = room;
    }
    c->docs[c->count++].bytes = d->bytes;
    return byte_buffer_add(&c->bytes, d->at, d->bytes, e);
}

static status corpus_read(const prepare_options *o, source *from, corpus *c, err *e)
{
    status result = OK;
    byte_buffer raw = {0};
    record_texts texts = {0};
    double told = 0;
    for (;;) {
        record r;
        bool more = false;
        raw.bytes = 0;
        TRY(source_next(from, &raw, &r, &more, e));
        if (!more) break;
        if (prepare_is_valid(o, r.number)) continue;
        result = record_parse(&r, raw.at, o->json_keys, o->json_key_count, &texts, e);
        if (result == E_USAGE && o->skip_invalid) { // encoding counts it
            record_release(&texts);
            result = OK;
            continue;
        }
        if (result != OK) goto done;
        for (size_t k = 0; k < o->json_key_count; k++) TRY(corpus_add(c, &texts.text[k], e));
        record_release(&texts);
        double done = source_done(from);
        if (o->progress && done >= told + 0.01)
            o->progress(o->progress_arg, "reading", told = done);
    }
    if (c->count == 0)
        FAIL(E_USAGE,
             "%s: no text to train a tokenizer on: there is no document that is not empty%s",
             o->inputs[0], o->valid_fraction > 0 ? " and not for validation" : "");
    size_t at = 0;
    for (size_t i = 0; i < c->count; i++) {
        c->docs[i].at = c->bytes.at + at;
        at += c->docs[i].bytes;
    }
    source_rewind(from);
done:
    record_release(&texts);
    free(raw.at);
    return result;
}

static status train(const prepare_options *o, source *from, tokenizer **out, err *e)
{
    status result = OK;
    corpus c = {0};
    tokenizer_train_options options = {
        .vocab = o->train_bpe,
        .pattern = o->pattern,
        .special = end_of_text,
        .specials = 1,
        .threads = o->workers,
        .progress = o->progress,
        .progress_arg = o->progress_arg,
    };
    TRY(inputs_check(from, e));
    TRY(corpus_read(o, from, &c, e));
    TRY(tokenizer_train(&options, c.docs, c.count, out, e));
done:
    free(c.bytes.at);
    free(c.docs);
    return result;
}

// The id after each document, -1 for none.
static status end_find(const prepare_options *o, const tokenizer *t, int32_t *eod, err *e)
{
    *eod = o->append_eod ? tokenizer_end_of_text(t) : -1;
    if (o->append_eod && *eod < 0)
        return err_set(e, E_USAGE,
                       "%s: has no end-of-text token, which --append-eod needs (such as "
                       "<|endoftext|>, <|end_of_text|> or </s>)",
                       o->tokenizer);
    return OK;
}

status prepare_run(const prepare_options *given, prepare_result *out, err *e)
{
    static const char *const text_key[] = {"text"};
    status result = OK;
    prepare_options o = *given;
    source *from = NULL;
    tokenizer *t = NULL;
    output *to = NULL;
    int32_t eod = -1;
    *out = (prepare_result){0};
    if (o.json_key_count == 0) o.json_keys = text_key, o.json_key_count = 1;
    TRY(options_check(&o, e));
    TRY(source_open(o.inputs, o.input_count, &o.filter, o.document_separator, &from, e));
    TRY(output_open(&o, from, &to, e));
    if (o.tokenizer)
        TRY(tokenizer_load(o.tokenizer, &t, e));
    else
        TRY(train(&o, from, &t, e));
    TRY(end_find(&o, t, &eod, e));
    if (o.progress) o.progress(o.progress_arg, "encoding", 0);
    out->vocab = tokenizer_vocab(t);
    out->has_special_tokens = tokenizer_adds_special_tokens(t);
    TRY(output_begin(to, t, eod, e));
    TRY(encode_all(&o, from, t, eod, to, out, e));
    TRY(output_publish(to, t, out, e));
done:
    output_close(to);
    tokenizer_close(t);
    source_close(from);
    return result;
}
