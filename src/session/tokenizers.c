// tokenizers.c -- see tokenizers.h. A sidecar file beside each shard names the shard's tokenizer,
// its hash and the id that ends a document. Shards without a sidecar (Megatron's) are not checked.
// session_inputs_open calls it.
#include "session/tokenizers.h"

#include "base/file.h"
#include "data/sidecar.h"
#include "data/tokenizer/tokenizer.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

// All shards are compared with this tokenizer: the model's, or else the first shard's.
typedef struct tokenizers_reference {
    bool known;    // false: no hash has been seen yet
    text label;    // names its owner in messages
    uint64_t hash; // 0: Trireme cannot read the model's tokenizer, so it is not that of the shards
    char *why;     // why Trireme cannot read it; owned
} tokenizers_reference;

// mock and vectors have no sidecar.
static bool has_sidecar(const dataset *d, const dataset_source *part)
{
    return d->shape.input_type == I32 && strcmp(part->path, "mock") != 0;
}

// Takes the tokenizer of the model's folder as the reference, where it has one.
static status read_model(const job *j, tokenizers_reference *r, err *e)
{
    status result = OK;
    tokenizer *t = NULL;
    err why = {.code = OK};
    char *path = NULL;
    if (j->model.path) TRY(tokenizer_folder_file(j->model.path, &path, e));
    if (!path || !file_exists(path)) goto done;
    r->known = true;
    text_addf(&r->label, "the model's, %s", path);
    status s = tokenizer_load(path, &t, &why);
    if (s == E_USAGE)
        TRY(text_copy(why.text, &r->why, e));
    else if (s != OK)
        FAIL(s, "%s", why.text);
    r->hash = t ? tokenizer_hash(t) : 0;
done:
    tokenizer_close(t);
    free(path);
    return result;
}

static status compare(const job *j, session_inputs *in, const char *key, const dataset_source *part,
                      const sidecar *s, tokenizers_reference *r, err *e)
{
    text found = {0};
    status result = OK;
    if (!r->known) {
        r->known = true;
        r->hash = s->tokenizer_hash;
        text_addf(&r->label, "that of %s", part->path);
    }
    if (r->hash == s->tokenizer_hash) return OK;
    text_addf(&found, "%s: %s was made with another tokenizer (hash %016" PRIx64 ") than %s", key,
              part->path, s->tokenizer_hash, r->label.chars);
    if (r->why)
        text_addf(&found, ", which Trireme cannot read (%s)", r->why);
    else
        text_addf(&found, " (hash %016" PRIx64 ")", r->hash);
    if (j->data.allow_tokenizer_mismatch)
        text_addf(&in->warnings, "%s\n", found.chars);
    else
        result = err_set(e, E_USAGE,
                         "%s; valid: shards of one tokenizer, the model's where it has one, or "
                         "data.tokenizer_mismatch: allow",
                         found.chars);
    text_clear(&found);
    return result;
}

// Takes the end token and the tokenizer file of a shard for the model's checkpoints.
static status take_from(job *j, session_inputs *in, const dataset_source *part, const sidecar *s,
                        text *missing, err *e)
{
    if (s->append_eod && s->eod >= 0) job_set_end_token(j, s->eod);
    if (!s->tokenizer || in->data_tokenizer) return OK;
    if (file_exists(s->tokenizer)) return text_copy(s->tokenizer, &in->data_tokenizer, e);
    if (!missing->bytes)
        text_addf(missing,
                  "data.train: the tokenizer of %s, %s, is missing; checkpoints will have no "
                  "tokenizer\n",
                  part->path, s->tokenizer);
    return text_check(missing, e);
}

status session_inputs_check_tokenizers(job *j, session_inputs *in, err *e)
{
    status result = OK;
    sidecar s = {.eod = -1};
    tokenizers_reference r = {.known = false};
    text missing = {0};
    size_t trains = j->own.train ? 0 : j->data.trains;
    size_t valids = j->own.valid || !in->valid ? 0 : j->data.valids;
    char *own = NULL;
    bool asked = false; // the model's tokenizer has been read; only a shard's hash needs it
    for (size_t i = 0; i < trains + valids; i++) {
        bool train = i < trains, found = false;
        const dataset_source *part = train ? &j->data.train[i] : &j->data.valid[i - trains];
        if (!has_sidecar(train ? in->train : in->valid, part)) continue;
        TRY(sidecar_read(part->path, &s, &found, e));
        if (!found) continue;
        if (s.tokenizer_hash && !asked) TRY(read_model(j, &r, e));
        asked = asked || s.tokenizer_hash;
        if (s.tokenizer_hash)
            TRY(compare(j, in, train ? "data.train" : "data.valid", part, &s, &r, e));
        if (train) TRY(take_from(j, in, part, &s, &missing, e));
        sidecar_clear(&s);
    }
    if (j->model.path) TRY(tokenizer_folder_file(j->model.path, &own, e));
    if (own && file_exists(own)) {
        TRY(text_copy(j->model.path, &in->tokenizer_folder, e));
        free(in->data_tokenizer);
        in->data_tokenizer = NULL;
    } else if (in->data_tokenizer) {
        TRY(file_join(j->train.out, "tokenizer", &in->tokenizer_folder, e));
    } else if (missing.bytes) {
        text_add(&in->warnings, missing.chars);
    }
    TRY(text_check(&in->warnings, e));
done:
    free(own);
    sidecar_clear(&s);
    text_clear(&missing);
    text_clear(&r.label);
    free(r.why);
    return result;
}
