// Output of prepare: shards, sidecars and the tokenizer, all under temporary names until the last
// byte of all of them is durable; only then renames follow. Called by prepare. It deliberately does
// not know texts, nor how documents were encoded.
#include "data/prepare_output.h"

#include "base/alloc.h"
#include "base/file.h"
#include "data/sidecar.h"
#include "data/tokens.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TRAIN, VALID, SPLITS };

typedef struct shard {
    char *prefix, *json, *json_temporary;
    tokens_writer *w;
    sidecar facts;
} shard;

// A file of the tokenizer, which all shards share.
typedef struct loose_file {
    char *path, *temporary;
    bool written; // under the temporary name
} loose_file;

struct output {
    const prepare_options *o;
    int32_t vocab;
    loose_file file[TOKENIZER_FILES + 1]; // beside the shards; the last: --save-tokenizer, or none
    char *folder, *folder_made;           // of the outputs; the first that had to be made, or NULL
    bool published;
    size_t keys;
    shard shard[SPLITS][PREPARE_KEYS_MAX];
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

static status names_make(output *w, err *e)
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
            shard *s = &w->shard[split][k];
            text prefix = {0};
            text_addf(&prefix, "%s%s", o->output_prefix, split == VALID ? "_valid" : "");
            if (w->keys > 1 || o->megatron_names)
                text_addf(&prefix, "_%s_document", o->json_keys[k]);
            TRY(text_take(&prefix, &s->prefix, e));
            TRY(path_make(s->prefix, ".json", &s->json, e));
            TRY(temporary_make(s->json, &s->json_temporary, e));
            s->facts =
                (sidecar){.append_eod = o->append_eod, .add_special_tokens = o->add_special_tokens};
            TRY(text_copy(w->file[0].path, &s->facts.tokenizer, e));
        }
done:
    return result;
}

// An output must not be one of the inputs: P.json of `--input P.json --output-prefix P`.
static status output_path_check(const char *path, const source *inputs, err *e)
{
    struct stat out, in;
    if (stat(path, &out) != 0) return OK;
    if (S_ISDIR(out.st_mode))
        return err_set(e, E_USAGE, "%s: is a folder, an output cannot take its place", path);
    for (size_t i = 0; i < source_files(inputs); i++)
        if (stat(source_file(inputs, i), &in) == 0 && in.st_ino == out.st_ino &&
            in.st_dev == out.st_dev)
            return err_set(e, E_USAGE,
                           "%s: is an input and would be replaced by an output; give another "
                           "--output-prefix",
                           path);
    return OK;
}

// Can a file be made in the folder of `path`, or in the nearest one above it that exists?
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

static status outputs_check(const output *w, const source *inputs, err *e)
{
    static const char *const suffixes[] = {".bin", ".idx", ".json"};
    status result = OK;
    for (size_t i = 0; i < SPLITS * w->keys; i++) {
        const char *prefix = w->shard[i / w->keys][i % w->keys].prefix;
        for (size_t k = 0; k < i; k++)
            if (strcmp(w->shard[k / w->keys][k % w->keys].prefix, prefix) == 0)
                FAIL(E_USAGE, "--json-keys: two outputs would both be %s", prefix);
        for (int suffix = 0; suffix < 3; suffix++) {
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

// The folder of the prefix, and the outermost part of it that does not exist yet.
static status folder_make(output *w, err *e)
{
    status result = OK;
    const char *slash = strrchr(w->o->output_prefix, '/');
    if (!slash || slash == w->o->output_prefix) goto done;
    TRY(text_copy(w->o->output_prefix, &w->folder, e));
    w->folder[slash - w->o->output_prefix] = 0;
    if (file_is_directory(w->folder)) goto done;
    char *missing = NULL;
    TRY(text_copy(w->folder, &missing, e));
    for (char *cut = missing; (cut = strrchr(missing, '/')) && cut != missing;) {
        *cut = 0;
        if (!file_is_directory(missing)) continue;
        *cut = '/';
        break;
    }
    w->folder_made = missing;
    TRY(file_make_directories(w->folder, e));
done:
    return result;
}

status output_open(const prepare_options *o, const source *inputs, output **out, err *e)
{
    status result = OK;
    output *w = NULL;
    TRY(alloc_zeroed(&w, 1, sizeof *w, "the outputs", e));
    w->o = o;
    w->keys = o->json_key_count;
    TRY(names_make(w, e));
    TRY(outputs_check(w, inputs, e));
    *out = w;
    w = NULL;
done:
    output_close(w);
    return result;
}

status output_begin(output *w, const tokenizer *t, int32_t eod, err *e)
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
        shard *s = &w->shard[TRAIN][k];
        TRY(tokens_writer_open(s->prefix, w->vocab, &s->w, e));
    }
done:
    return result;
}

status output_add(output *w, bool valid, size_t key, const int32_t *ids, size_t count, size_t bytes,
                  err *e)
{
    status result = OK;
    shard *s = &w->shard[valid ? VALID : TRAIN][key];
    if (!s->w) TRY(tokens_writer_open(s->prefix, w->vocab, &s->w, e));
    TRY(tokens_writer_document(s->w, ids, count, e));
    s->facts.text_bytes += bytes;
done:
    return result;
}

// Every key has something to train on, or the run was in vain.
static status shards_check(const output *w, err *e)
{
    for (size_t k = 0; k < w->keys; k++) {
        const tokens_writer *train = w->shard[TRAIN][k].w, *valid = w->shard[VALID][k].w;
        if (tokens_writer_documents(train) > 0) continue;
        if (valid)
            return err_set(e, E_USAGE,
                           "--valid-fraction %g took all %" PRIu64
                           " documents, none is left to train on",
                           w->o->valid_fraction, tokens_writer_documents(valid));
        return err_set(e, E_USAGE, "%s%s: no text: %s", w->o->inputs[0],
                       w->o->input_count > 1 ? " and the other inputs" : "",
                       w->keys > 1 ? "the texts of one key are all empty"
                                   : "there is no document that is not empty");
    }
    return OK;
}

static status tokenizer_write(output *w, const tokenizer *t, err *e)
{
    status result = OK;
    for (int i = 0; i <= TOKENIZER_FILES; i++) {
        loose_file *f = &w->file[i];
        size_t bytes;
        const char *content = tokenizer_file(t, i % TOKENIZER_FILES, &bytes);
        if (!f->path || !content) continue;
        TRY(file_replace(f->temporary, content, bytes, e));
        f->written = true;
    }
done:
    return result;
}

static status seal_all(output *w, const tokenizer *t, prepare_result *out, err *e)
{
    status result = OK;
    for (int split = 0; split < SPLITS; split++)
        for (size_t k = 0; k < w->keys; k++) {
            shard *s = &w->shard[split][k];
            if (!s->w) continue;
            TRY(tokens_writer_seal(s->w, e));
            s->facts.tokens = tokens_writer_count(s->w);
            s->facts.documents = tokens_writer_documents(s->w);
            TRY(sidecar_write(s->json_temporary, &s->facts, e));
            *(split == VALID ? &out->valid_documents : &out->documents) += s->facts.documents;
            *(split == VALID ? &out->valid_tokens : &out->tokens) += s->facts.tokens;
            *(split == VALID ? &out->valid_bytes : &out->bytes) += s->facts.text_bytes;
        }
    TRY(tokenizer_write(w, t, e));
done:
    return result;
}

// What an earlier run left and this one replaces stops being readable, so that a kill between the
// renames leaves shards that are refused, not shards of two runs.
static status old_remove(const output *w, err *e)
{
    status result = OK;
    static const char *const suffixes[] = {".idx", ".bin", ".json"};
    for (int split = 0; split < SPLITS; split++)
        for (size_t k = 0; k < w->keys; k++) {
            const shard *s = &w->shard[split][k];
            bool stale = !s->w && w->o->valid_fraction > 0;
            for (int i = 0; i < (stale ? 3 : s->w ? 1 : 0); i++) {
                char *path = NULL;
                TRY(path_make(s->prefix, suffixes[i], &path, e));
                unlink(path);
                free(path);
            }
        }
    for (int i = 0; i < TOKENIZER_FILES; i++) // settings that are not this tokenizer's
        if (!w->file[i].written) unlink(w->file[i].path);
done:
    return result;
}

status output_publish(output *w, const tokenizer *t, prepare_result *result_out, err *e)
{
    status result = OK;
    TRY(shards_check(w, e));
    TRY(seal_all(w, t, result_out, e));
    TRY(old_remove(w, e));
    for (int i = 0; i <= TOKENIZER_FILES; i++)
        if (w->file[i].written) TRY(file_rename(w->file[i].temporary, w->file[i].path, e));
    for (int split = SPLITS - 1; split >= 0; split--)
        for (size_t k = 0; k < w->keys; k++) {
            shard *s = &w->shard[split][k];
            tokens_writer *closing = s->w;
            if (!closing) continue;
            s->w = NULL;
            TRY(file_rename(s->json_temporary, s->json, e));
            TRY(tokens_writer_finish(closing, e));
        }
    w->published = true;
done:
    return result;
}

// rmdir takes only what is empty, so nothing of anybody else's is lost.
static void folders_unmake(output *w)
{
    while (w->folder_made && strlen(w->folder) >= strlen(w->folder_made)) {
        char *slash = strrchr(w->folder, '/');
        if (rmdir(w->folder) != 0 || !slash) break;
        *slash = 0;
    }
}

void output_close(output *w)
{
    if (!w) return;
    for (int split = 0; split < SPLITS; split++)
        for (size_t k = 0; k < w->keys; k++) {
            shard *s = &w->shard[split][k];
            tokens_writer_abandon(s->w);
            if (s->json_temporary) unlink(s->json_temporary);
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
