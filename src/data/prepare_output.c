// prepare_output.c -- writes shards, sidecars and the tokenizer under temporary names. When the last
// byte of all files is durable, it renames them. prepare.c calls it. It deliberately does not know
// texts, nor how documents are encoded.
#include "data/prepare_output.h"

#include "base/alloc.h"
#include "base/file.h"
#include "data/paths.h"
#include "data/samples/labelled.h"
#include "data/sidecar.h"
#include "data/tokens.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TRAIN, VALID, SPLITS };

typedef struct prepare_shard {
    char *prefix, *json, *json_temporary; // json: the sidecar
    tokens_writer *w;                     // NULL while no document was added
    char *labels_path, *labels_temporary; // of samples
    samples_labels *labels;               // NULL: none
    sidecar facts;
} prepare_shard;

// One file of the tokenizer. All shards share these files.
typedef struct prepare_tokenizer_file {
    char *path, *temporary; // NULL when the file is not written
    bool written;           // under the temporary name
} prepare_tokenizer_file;

struct prepare_output {
    const prepare_options *o;
    int32_t vocab;
    // The tokenizer's files beside the shards. The last entry is the path of --save-tokenizer.
    prepare_tokenizer_file file[TOKENIZER_FILES + 1];
    char *folder;      // of the shards; NULL for the current folder
    char *folder_made; // the outermost folder that was made; NULL when none was
    bool published;
    size_t keys;
    prepare_shard shard[SPLITS][PREPARE_KEYS_MAX]; // [SPLITS, keys]
};

static status path_make(const char *prefix, const char *suffix, char **out, err *e)
{
    text t = {0};
    text_addf(&t, "%s%s", prefix, suffix);
    return text_take(&t, out, e);
}

static status temporary_make(const char *path, char **out, err *e)
{
    text t = {0};
    text_addf(&t, "%s.%ld.tmp", path, (long)getpid());
    return text_take(&t, out, e);
}

static status names_make(prepare_output *w, err *e)
{
    status result = OK;
    const prepare_options *o = w->o;
    for (int i = 0; i <= TOKENIZER_FILES; i++) {
        text path = {0};
        if (i < TOKENIZER_FILES)
            text_addf(&path, "%s.%s", o->output_prefix, tokenizer_file_name(i));
        else if (o->save_tokenizer && strcmp(o->save_tokenizer, w->file[0].path) != 0)
            text_add(&path, o->save_tokenizer);
        if (!path.chars) continue;
        TRY(text_take(&path, &w->file[i].path, e));
        TRY(temporary_make(w->file[i].path, &w->file[i].temporary, e));
    }
    for (int split = 0; split < SPLITS; split++)
        for (size_t k = 0; k < w->keys; k++) {
            prepare_shard *s = &w->shard[split][k];
            text prefix = {0};
            text_addf(&prefix, "%s%s", o->output_prefix, split == VALID ? "_valid" : "");
            if (w->keys > 1 || o->megatron_names)
                text_addf(&prefix, "_%s_document", o->json_keys[k]);
            TRY(text_take(&prefix, &s->prefix, e));
            TRY(path_make(s->prefix, ".json", &s->json, e));
            TRY(temporary_make(s->json, &s->json_temporary, e));
            TRY(path_make(s->prefix, ".labels", &s->labels_path, e));
            TRY(temporary_make(s->labels_path, &s->labels_temporary, e));
            s->facts =
                (sidecar){.append_eod = o->append_eod, .add_special_tokens = o->add_special_tokens};
            TRY(text_copy(w->file[0].path, &s->facts.tokenizer, e));
        }
done:
    return result;
}

// Checks that an output replaces no input, as P.json would with `--input P.json --output-prefix P`.
static status output_path_check(const char *path, const prepare_source *inputs, err *e)
{
    if (file_is_directory(path))
        return err_set(e, E_USAGE, "%s: is a folder, an output cannot replace it", path);
    for (size_t i = 0; i < prepare_source_files(inputs); i++)
        if (data_path_is_same_file(path, prepare_source_file(inputs, i)))
            return err_set(e, E_USAGE,
                           "%s: is an input and would be replaced by an output; give another "
                           "--output-prefix",
                           path);
    return OK;
}

// Checks that a file can be made in the folder of `path`, or in the nearest existing folder above it.
static status folder_check(const char *path, bool may_make, err *e)
{
    status result = OK;
    char *folder = NULL;
    TRY(text_copy(path, &folder, e));
    char *slash = strrchr(folder, '/');
    for (bool first = true; slash && slash != folder; first = false, slash = strrchr(folder, '/')) {
        *slash = 0;
        if (file_is_directory(folder)) break;
        if (file_exists(folder)) FAIL(E_USAGE, "%s: %s is not a folder", path, folder);
        if (first && !may_make) FAIL(E_USAGE, "%s: its folder %s does not exist", path, folder);
    }
    const char *nearest = !slash ? "." : slash == folder ? "/" : folder;
    if (access(nearest, W_OK | X_OK) != 0)
        FAIL(E_USAGE, "%s: cannot be written: %s: %s", path, nearest, strerror(errno));
done:
    free(folder);
    return result;
}

static status outputs_check(const prepare_output *w, const prepare_source *inputs, err *e)
{
    static const char *const suffixes[] = {".bin", ".idx", ".json", ".labels"};
    status result = OK;
    for (size_t i = 0; i < SPLITS * w->keys; i++) {
        const char *prefix = w->shard[i / w->keys][i % w->keys].prefix;
        for (size_t k = 0; k < i; k++)
            if (strcmp(w->shard[k / w->keys][k % w->keys].prefix, prefix) == 0)
                FAIL(E_USAGE, "--json-keys: two outputs would both be %s", prefix);
        for (int suffix = 0; suffix < 4; suffix++) {
            char *path = NULL;
            TRY(path_make(prefix, suffixes[suffix], &path, e));
            result = output_path_check(path, inputs, e);
            free(path);
            if (result != OK) return result;
        }
    }
    TRY(folder_check(w->o->output_prefix, true, e));
    for (int i = 0; i <= TOKENIZER_FILES; i++)
        if (w->file[i].path) TRY(output_path_check(w->file[i].path, inputs, e));
    if (w->file[TOKENIZER_FILES].path) TRY(folder_check(w->file[TOKENIZER_FILES].path, false, e));
done:
    return result;
}

// Makes the folder of the prefix. Remembers the outermost folder that did not exist.
static status folder_make(prepare_output *w, err *e)
{
    status result = OK;
    const char *slash = strrchr(w->o->output_prefix, '/');
    if (!slash || slash == w->o->output_prefix) goto done;
    TRY(text_copy(w->o->output_prefix, &w->folder, e));
    w->folder[slash - w->o->output_prefix] = 0;
    if (file_is_directory(w->folder)) goto done;
    char *missing = NULL;
    TRY(text_copy(w->folder, &missing, e));
    for (char *slash_above = missing;
         (slash_above = strrchr(missing, '/')) && slash_above != missing;) {
        *slash_above = 0;
        if (!file_is_directory(missing)) continue;
        *slash_above = '/';
        break;
    }
    w->folder_made = missing;
    TRY(file_make_directories(w->folder, e));
done:
    return result;
}

status prepare_output_open(const prepare_options *o, const prepare_source *inputs,
                           prepare_output **out, err *e)
{
    status result = OK;
    prepare_output *w = NULL;
    TRY(alloc_zeroed(&w, 1, sizeof *w, "the outputs", e));
    w->o = o;
    w->keys = o->json_key_count;
    TRY(names_make(w, e));
    TRY(outputs_check(w, inputs, e));
    *out = w;
    w = NULL;
done:
    prepare_output_close(w);
    return result;
}

status prepare_output_begin(prepare_output *w, const tokenizer *t, int32_t eod, err *e)
{
    status result = OK;
    w->vocab = tokenizer_vocab(t);
    TRY(folder_make(w, e));
    for (size_t i = 0; i < SPLITS * w->keys; i++) {
        sidecar *facts = &w->shard[i / w->keys][i % w->keys].facts;
        facts->vocab = w->vocab;
        facts->eod = eod;
        facts->tokenizer_hash = tokenizer_hash(t);
    }
    for (size_t k = 0; k < w->keys; k++) {
        prepare_shard *s = &w->shard[TRAIN][k];
        TRY(tokens_writer_open(s->prefix, w->vocab, &s->w, e));
    }
done:
    return result;
}

status prepare_output_add(prepare_output *w, bool valid, size_t key, const int32_t *ids,
                          size_t count, size_t bytes, err *e)
{
    status result = OK;
    prepare_shard *s = &w->shard[valid ? VALID : TRAIN][key];
    if (!s->w) TRY(tokens_writer_open(s->prefix, w->vocab, &s->w, e));
    TRY(tokens_writer_document(s->w, ids, count, e));
    s->facts.text_bytes += bytes;
done:
    return result;
}

status prepare_output_add_sample(prepare_output *w, bool valid, const int32_t *ids,
                                 const bool *trained, size_t count, double weight, bool of_pair,
                                 err *e)
{
    status result = OK;
    prepare_shard *s = &w->shard[valid ? VALID : TRAIN][0];
    TRY(prepare_output_add(w, valid, 0, ids, count, 0, e));
    if (!s->labels) TRY(samples_labels_open(&s->labels, e));
    TRY(samples_labels_add(s->labels, trained, count, weight, of_pair, e));
done:
    return result;
}

// Checks that every key has a document to train on.
static status shards_check(const prepare_output *w, err *e)
{
    for (size_t k = 0; k < w->keys; k++) {
        const tokens_writer *train = w->shard[TRAIN][k].w, *valid = w->shard[VALID][k].w;
        if (tokens_writer_documents(train) > 0) continue;
        if (valid)
            return err_set(e, E_USAGE,
                           "--valid-fraction %g sends all %" PRIu64
                           " documents to validation, none is left to train on",
                           w->o->valid_fraction, tokens_writer_documents(valid));
        return err_set(e, E_USAGE, "%s%s: no text: %s", w->o->inputs[0],
                       w->o->input_count > 1 ? " and the other inputs" : "",
                       w->keys > 1 ? "the texts of one key are all empty"
                                   : "all documents are empty");
    }
    return OK;
}

static status tokenizer_write(prepare_output *w, const tokenizer *t, err *e)
{
    status result = OK;
    for (int i = 0; i <= TOKENIZER_FILES; i++) {
        prepare_tokenizer_file *f = &w->file[i];
        size_t bytes;
        const char *content = tokenizer_file(t, i % TOKENIZER_FILES, &bytes);
        if (!f->path || !content) continue;
        TRY(file_replace(f->temporary, content, bytes, e));
        f->written = true;
    }
done:
    return result;
}

static status seal_all(prepare_output *w, const tokenizer *t, prepare_result *out, err *e)
{
    status result = OK;
    for (int split = 0; split < SPLITS; split++)
        for (size_t k = 0; k < w->keys; k++) {
            prepare_shard *s = &w->shard[split][k];
            if (!s->w) continue;
            TRY(tokens_writer_seal(s->w, e));
            s->facts.tokens = tokens_writer_count(s->w);
            s->facts.documents = tokens_writer_documents(s->w);
            TRY(sidecar_write(s->json_temporary, &s->facts, e));
            if (s->labels) TRY(samples_labels_write(s->labels, s->labels_temporary, e));
            *(split == VALID ? &out->valid_documents : &out->documents) += s->facts.documents;
            *(split == VALID ? &out->valid_tokens : &out->tokens) += s->facts.tokens;
            *(split == VALID ? &out->valid_bytes : &out->bytes) += s->facts.text_bytes;
        }
    TRY(tokenizer_write(w, t, e));
done:
    return result;
}

// Makes the shards of an earlier run unreadable before the renames replace them, so that a kill
// between two renames leaves shards that are refused, and never a mix of two runs.
static status remove_old_shards(const prepare_output *w, err *e)
{
    status result = OK;
    static const char *const suffixes[] = {".idx", ".labels", ".bin", ".json"};
    for (int split = 0; split < SPLITS; split++)
        for (size_t k = 0; k < w->keys; k++) {
            const prepare_shard *s = &w->shard[split][k];
            bool stale = !s->w && w->o->valid_fraction > 0;
            for (int i = 0; i < (stale ? 4 : s->w ? 2 : 0); i++) {
                char *path = NULL;
                TRY(path_make(s->prefix, suffixes[i], &path, e));
                unlink(path);
                free(path);
            }
        }
    for (int i = 0; i < TOKENIZER_FILES; i++) // settings of another tokenizer
        if (!w->file[i].written) unlink(w->file[i].path);
done:
    return result;
}

status prepare_output_publish(prepare_output *w, const tokenizer *t, prepare_result *result_out,
                              err *e)
{
    status result = OK;
    TRY(shards_check(w, e));
    TRY(seal_all(w, t, result_out, e));
    TRY(remove_old_shards(w, e));
    for (int i = 0; i <= TOKENIZER_FILES; i++)
        if (w->file[i].written) TRY(file_rename(w->file[i].temporary, w->file[i].path, e));
    for (int split = SPLITS - 1; split >= 0; split--)
        for (size_t k = 0; k < w->keys; k++) {
            prepare_shard *s = &w->shard[split][k];
            tokens_writer *closing = s->w;
            if (!closing) continue;
            s->w = NULL;
            if (s->labels) result = file_rename(s->labels_temporary, s->labels_path, e);
            if (result == OK) result = file_rename(s->json_temporary, s->json, e);
            if (result != OK) tokens_writer_abandon(closing);
            if (result != OK) goto done;
            TRY(tokens_writer_finish(closing, e));
        }
    w->published = true;
done:
    return result;
}

// Removes the folders that were made. rmdir removes only empty folders, so no other file is lost.
static void folders_unmake(prepare_output *w)
{
    while (w->folder_made && strlen(w->folder) >= strlen(w->folder_made)) {
        char *slash = strrchr(w->folder, '/');
        if (rmdir(w->folder) != 0 || !slash) break;
        *slash = 0;
    }
}

void prepare_output_close(prepare_output *w)
{
    if (!w) return;
    for (int split = 0; split < SPLITS; split++)
        for (size_t k = 0; k < w->keys; k++) {
            prepare_shard *s = &w->shard[split][k];
            tokens_writer_abandon(s->w);
            if (s->json_temporary) unlink(s->json_temporary);
            if (s->labels_temporary) unlink(s->labels_temporary);
            samples_labels_close(s->labels);
            free(s->labels_path);
            free(s->labels_temporary);
            free(s->prefix);
            free(s->json);
            free(s->json_temporary);
            sidecar_clear(&s->facts);
        }
    for (int i = 0; i <= TOKENIZER_FILES; i++) {
        if (w->file[i].temporary) unlink(w->file[i].temporary);
        free(w->file[i].path);
        free(w->file[i].temporary);
    }
    if (!w->published) folders_unmake(w);
    free(w->folder);
    free(w->folder_made);
    free(w);
}
