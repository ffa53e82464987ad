// prepare.c -- text to token shards: checks the options, trains a tokenizer if asked to, encodes and
// publishes. `trireme data prepare` calls it. It deliberately does not know the command line, nor how
// records are read (prepare_source.c), encoded (prepare_encode.c) and written (prepare_output.c).
#include "data/prepare.h"

#include "base/alloc.h"
#include "base/file.h"
#include "data/paths.h"
#include "data/prepare_encode.h"
#include "data/prepare_files.h"
#include "data/prepare_output.h"
#include "data/prepare_samples.h"
#include "data/prepare_source.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { VOCAB_LEAST = 257, WORKERS_MAX = 256 }; // 256 bytes and <|endoftext|>

static const char *const end_of_text[] = {"<|endoftext|>"};

static status options_check(const prepare_options *o, err *e)
{
    if (o->input_count == 0) return err_set(e, E_USAGE, "--input: missing, valid are files");
    if (!o->output_prefix || !*o->output_prefix)
        return err_set(e, E_USAGE, "--output-prefix: missing, valid is the path of the shards");
    if (data_path_has_suffix(o->output_prefix, "/") || file_is_directory(o->output_prefix))
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
        return err_set(e, E_USAGE, "--save-tokenizer: needs --train-bpe");
    if (!(o->valid_fraction >= 0 && o->valid_fraction < 1))
        return err_set(e, E_USAGE, "--valid-fraction: found %g, valid is 0 or more and below 1",
                       o->valid_fraction);
    if (o->workers < 0 || o->workers > WORKERS_MAX)
        return err_set(e, E_USAGE, "--workers: found %d, valid is 0 (all) to %d", o->workers,
                       WORKERS_MAX);
    if (o->document_separator && !*o->document_separator)
        return err_set(e, E_USAGE, "--document-separator: found no text, valid is any text");
    if (o->sft && (!o->tokenizer || o->append_eod || o->add_special_tokens || o->skip_invalid))
        return err_set(e, E_USAGE,
                       "--sft: found %s; valid: --tokenizer, whose template ends each sample",
                       !o->tokenizer     ? "--train-bpe"
                       : o->append_eod   ? "--append-eod"
                       : o->skip_invalid ? "--skip-invalid"
                                         : "--add-special-tokens");
    if (o->json_key_count > PREPARE_KEYS_MAX)
        return err_set(e, E_USAGE, "--json-keys: found %zu, valid is at most %d", o->json_key_count,
                       PREPARE_KEYS_MAX);
    for (size_t i = 0; i < o->json_key_count; i++)
        for (size_t k = 0; k < i; k++)
            if (strcmp(o->json_keys[i], o->json_keys[k]) == 0)
                return err_set(e, E_USAGE, "--json-keys: found %s twice", o->json_keys[i]);
    return OK;
}

// Training reads the inputs once more, and a pipe can be read only once.
static status inputs_check(const prepare_source *from, err *e)
{
    struct stat s;
    for (size_t i = 0; i < prepare_source_files(from); i++)
        if (stat(prepare_source_file(from, i), &s) == 0 && !S_ISREG(s.st_mode))
            return err_set(e, E_USAGE,
                           "%s: is not a regular file; --train-bpe reads its input twice",
                           prepare_source_file(from, i));
    return OK;
}

// The texts to train on, in one buffer. Adding a text may move the buffer, so `chars` of the
// documents is set at the end.
typedef struct prepare_corpus {
    prepare_buffer bytes;
    tokenizer_document *docs; // [count]
    size_t count, room;
} prepare_corpus;

static status corpus_add(prepare_corpus *c, const tokenizer_document *d, err *e)
{
    if (d->bytes == 0) return OK;
    status result = OK;
    TRY(alloc_grow(&c->docs, &c->room, c->count + 1, sizeof *c->docs, "a list of documents", e));
    TRY(prepare_buffer_add(&c->bytes, d->chars, d->bytes, e));
    c->docs[c->count++].bytes = d->bytes;
done:
    return result;
}

static status corpus_read(const prepare_options *o, prepare_source *from, prepare_corpus *c, err *e)
{
    status result = OK;
    prepare_buffer raw = {0};
    prepare_texts texts = {0};
    double reported = 0;
    for (;;) {
        prepare_record r;
        bool more = false;
        raw.bytes = 0;
        TRY(prepare_source_next(from, &raw, &r, &more, e));
        if (!more) break;
        if (prepare_is_validation(o, r.number)) continue;
        result = prepare_parse(&r, raw.data, o->json_keys, o->json_key_count, &texts, e);
        if (result == E_USAGE && o->skip_invalid) { // prepare_encode counts it
            prepare_texts_release(&texts);
            result = OK;
            continue;
        }
        if (result != OK) goto done;
        for (size_t k = 0; k < o->json_key_count; k++) TRY(corpus_add(c, &texts.text[k], e));
        prepare_texts_release(&texts);
        double done = prepare_source_done(from);
        if (o->progress && done >= reported + 0.01)
            o->progress(o->progress_arg, "reading", reported = done);
    }
    if (c->count == 0)
        FAIL(E_USAGE, "%s: no text to train a tokenizer on: all documents are empty%s",
             o->inputs[0], o->valid_fraction > 0 ? " or go to validation" : "");
    size_t offset = 0;
    for (size_t i = 0; i < c->count; i++) {
        c->docs[i].chars = c->bytes.data + offset;
        offset += c->docs[i].bytes;
    }
    prepare_source_rewind(from);
done:
    prepare_texts_release(&texts);
    free(raw.data);
    return result;
}

static status train(const prepare_options *o, prepare_source *from, tokenizer **out, err *e)
{
    status result = OK;
    prepare_corpus c = {0};
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
    free(c.bytes.data);
    free(c.docs);
    return result;
}

// The id that follows each document, or -1.
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
    prepare_source *from = NULL;
    tokenizer *t = NULL;
    prepare_output *to = NULL;
    int32_t eod = -1;
    *out = (prepare_result){0};
    if (o.json_key_count == 0) o.json_keys = text_key, o.json_key_count = 1;
    TRY(options_check(&o, e));
    TRY(prepare_source_open(o.inputs, o.input_count, &o.filter, o.document_separator, &from, e));
    TRY(prepare_output_open(&o, from, &to, e));
    if (o.tokenizer)
        TRY(tokenizer_load(o.tokenizer, &t, e));
    else
        TRY(train(&o, from, &t, e));
    TRY(end_find(&o, t, &eod, e));
    if (o.progress) o.progress(o.progress_arg, "encoding", 0);
    out->vocab = tokenizer_vocab(t);
    out->has_special_tokens = tokenizer_adds_special_tokens(t);
    TRY(prepare_output_begin(to, t, eod, e));
    if (o.sft)
        TRY(prepare_samples(&o, from, t, to, out, e));
    else
        TRY(prepare_encode(&o, from, t, eod, to, out, e));
    TRY(prepare_output_publish(to, t, out, e));
done:
    prepare_output_close(to);
    tokenizer_close(t);
    prepare_source_close(from);
    return result;
}
