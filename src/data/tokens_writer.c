// Tokens, the writer: a shard that appears by rename, both files or none. Called by prepare, which
// seals all its shards before the first of them becomes visible. The layout is in tokens.c's head.
// It deliberately does not know texts or tokenizers.
#include "data/tokens.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NAMES = 2, BIN = 0, IDX = 1, PIECE = 4096 };

struct tokens_writer {
    char *final_path[NAMES], *temporary[NAMES];
    file_writer *bin;
    int32_t vocab;
    dtype type;
    int32_t *lengths; // one a document
    uint64_t documents, room, count;
    bool sealed;
};

static void writer_free(tokens_writer *w)
{
    for (int i = 0; i < NAMES; i++) {
        free(w->final_path[i]);
        free(w->temporary[i]);
    }
    free(w->lengths);
    free(w);
}

status tokens_writer_open(const char *prefix, int32_t vocab, tokens_writer **out, err *e)
{
    static const char *const suffix[NAMES] = {"bin", "idx"};
    status result = OK;
    tokens_writer *w = NULL;
    TRY(alloc_zeroed(&w, 1, sizeof *w, prefix, e));
    w->vocab = vocab;
    w->type = vocab < 65500 ? U16 : I32;
    for (int i = 0; i < NAMES; i++) {
        text final_path = {0}, temporary = {0};
        text_addf(&final_path, "%s.%s", prefix, suffix[i]);
        text_addf(&temporary, "%s.%s.%ld.tmp", prefix, suffix[i], (long)getpid());
        const status taken = text_take(&final_path, &w->final_path[i], e);
        TRY(text_take(&temporary, &w->temporary[i], e));
        TRY(taken);
        if (file_is_directory(w->final_path[i]))
            FAIL(E_USAGE, "%s: is a folder, a token shard cannot take its place", w->final_path[i]);
    }
    TRY(file_create(w->temporary[BIN], &w->bin, e));
    *out = w;
    w = NULL;
done:
    if (w) writer_free(w);
    return result;
}

static status length_add(tokens_writer *w, size_t count, err *e)
{
    if (count > INT32_MAX)
        return err_set(e, E_USAGE,
                       "%s: document %" PRIu64 ": found %zu tokens, valid is at most %d",
                       w->final_path[IDX], w->documents, count, INT32_MAX);
    const status result = alloc_grow(&w->lengths, &w->room, w->documents + 1, sizeof *w->lengths,
                                     w->final_path[IDX], e);
    if (result != OK) return result;
    w->lengths[w->documents] = (int32_t)count;
    w->documents++;
    w->count += count;
    return OK;
}

status tokens_writer_document(tokens_writer *w, const int32_t *ids, size_t count, err *e)
{
    status result = OK;
    uint16_t narrow[PIECE];
    for (size_t i = 0; i < count; i++)
        if (ids[i] < 0 || ids[i] >= w->vocab)
            FAIL(E_USAGE, "%s: token %zu of document %" PRIu64 ": id %" PRId32 " is not in 0 to %d",
                 w->final_path[BIN], i, w->documents, ids[i], (int)w->vocab - 1);
    TRY(length_add(w, count, e));
    if (w->type == I32) {
        TRY(file_write(w->bin, ids, count * sizeof *ids, e));
        goto done;
    }
    for (size_t at = 0; at < count; at += PIECE) {
        size_t n = count - at < PIECE ? count - at : PIECE;
        for (size_t i = 0; i < n; i++) narrow[i] = (uint16_t)ids[at + i];
        TRY(file_write(w->bin, narrow, n * sizeof *narrow, e));
    }
done:
    return result;
}

uint64_t tokens_writer_count(const tokens_writer *w)
{
    return w->count;
}

uint64_t tokens_writer_documents(const tokens_writer *w)
{
    return w->documents;
}

// One sequence a document, as Megatron's preprocess_data writes without --split-sentences.
static status index_write(const tokens_writer *w, file_writer *f, err *e)
{
    status result = OK;
    const uint64_t version = 1, borders = w->documents + 1;
    const uint8_t code = w->type == U16 ? 8 : 4;
    TRY(file_write(f, "MMIDIDX\0\0", 9, e));
    TRY(file_write(f, &version, 8, e));
    TRY(file_write(f, &code, 1, e));
    TRY(file_write(f, &w->documents, 8, e));
    TRY(file_write(f, &borders, 8, e));
    TRY(file_write(f, w->lengths, w->documents * sizeof *w->lengths, e));
    uint64_t offset = 0;
    for (uint64_t d = 0; d < w->documents; d++) {
        TRY(file_write(f, &offset, 8, e));
        offset += (uint64_t)w->lengths[d] * dtype_bytes(w->type);
    }
    for (uint64_t d = 0; d < borders; d++) TRY(file_write(f, &d, 8, e));
done:
    return result;
}

status tokens_writer_seal(tokens_writer *w, err *e)
{
    status result = OK;
    file_writer *index = NULL, *closing = w->bin;
    if (w->sealed) goto done;
    w->bin = NULL;
    TRY(file_finish(closing, e));
    TRY(file_create(w->temporary[IDX], &index, e));
    TRY(index_write(w, index, e));
    closing = index;
    index = NULL;
    TRY(file_finish(closing, e));
    w->sealed = true;
done:
    file_abandon(index);
    return result;
}

status tokens_writer_finish(tokens_writer *w, err *e)
{
    status result = OK;
    TRY(tokens_writer_seal(w, e));
    // Without the old index a kill between the renames leaves a shard that is refused, never a new
    // .bin under an old .idx.
    if (unlink(w->final_path[IDX]) != 0 && errno != ENOENT) {
        result = err_errno(e, "%s: cannot be replaced", w->final_path[IDX]);
        goto done;
    }
    TRY(file_rename(w->temporary[BIN], w->final_path[BIN], e));
    result = file_rename(w->temporary[IDX], w->final_path[IDX], e);
    if (result != OK) unlink(w->final_path[BIN]);
done:
    if (result != OK)
        tokens_writer_abandon(w);
    else
        writer_free(w);
    return result;
}

void tokens_writer_abandon(tokens_writer *w)
{
    if (!w) return;
    file_abandon(w->bin);
    for (int i = 0; i < NAMES; i++) unlink(w->temporary[i]);
    writer_free(w);
}
