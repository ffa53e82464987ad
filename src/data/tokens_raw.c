// tokens_raw.c -- reads the .bin files of llm.c and nanoGPT; tokens_raw.h describes them. `data
// prepare` calls it, and tokens.c for a hint. It deliberately does not know tokenizers, because the
// file does not name one.
#include "data/tokens_raw.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/text.h"
#include "data/paths.h"
#include "data/tokens.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HEADER_BYTES = 1024, MAGIC_U16 = 20240520, MAGIC_U32 = 20240801, PIECE = 1 << 20 };

typedef struct tokens_raw {
    file_map map;
    const uint8_t *ids; // [count] of id_bytes each, in `map`
    uint64_t count;
    int id_bytes;
    bool llm_c;
} tokens_raw;

static int32_t id_at(const tokens_raw *r, uint64_t i)
{
    uint16_t id16;
    int32_t id32;
    const uint8_t *ptr = r->ids + i * (uint64_t)r->id_bytes;
    if (r->id_bytes == 2) {
        memcpy(&id16, ptr, 2);
        return id16;
    }
    memcpy(&id32, ptr, 4);
    return id32;
}

// The size of an id according to llm.c's header; 0 when the file has no such header.
static int header_id_bytes(const file_map *map)
{
    int32_t magic = 0;
    if (map->bytes >= HEADER_BYTES) memcpy(&magic, map->at, sizeof magic);
    return magic == MAGIC_U16 ? 2 : magic == MAGIC_U32 ? 4 : 0;
}

static status layout_read(const tokens_raw_options *o, tokens_raw *r, err *e)
{
    int by_header = header_id_bytes(&r->map);
    uint64_t header = by_header ? HEADER_BYTES : 0, bytes = r->map.bytes - header;
    r->llm_c = by_header != 0;
    r->id_bytes = by_header ? by_header : o->id_bytes ? o->id_bytes : 2;
    if (by_header && o->id_bytes && o->id_bytes != by_header)
        return err_set(e, E_USAGE, "%s: llm.c's header says ids of %d bytes, --dtype says %d",
                       o->path, by_header, o->id_bytes);
    r->ids = r->map.at + header;
    r->count = bytes / (uint64_t)r->id_bytes;
    if (bytes == 0 || bytes % (uint64_t)r->id_bytes)
        return err_set(e, E_USAGE,
                       "%s: %" PRIu64 " bytes of ids, valid is a multiple of %d other than 0",
                       o->path, bytes, r->id_bytes);
    uint32_t announced = 0;
    if (by_header) memcpy(&announced, r->map.at + 8, sizeof announced);
    if (by_header && announced != r->count)
        return err_set(e, E_USAGE,
                       "%s: llm.c's header says %" PRIu32 " ids, the file has %" PRIu64
                       " (truncated?)",
                       o->path, announced, r->count);
    return OK;
}

static status highest_find(const tokens_raw_options *o, const tokens_raw *r, int32_t *highest,
                           err *e)
{
    *highest = 0;
    for (uint64_t i = 0; i < r->count; i++) {
        int32_t id = id_at(r, i);
        if (id < 0 || id == INT32_MAX)
            return err_set(e, E_USAGE,
                           "%s: token %" PRIu64 ": found id %" PRIu32
                           ", valid is below 2^31 - 1 (--dtype uint16?)",
                           o->path, i, (uint32_t)id);
        if (id > *highest) *highest = id;
    }
    return OK;
}

static status documents_write(const tokens_raw_options *o, const tokens_raw *r, tokens_writer *w,
                              err *e)
{
    status result = OK;
    size_t filled = 0;
    int32_t *ids = NULL;
    // A document must be in memory as a whole. Without documents a piece is enough.
    size_t room = 0;
    TRY(alloc_grow(&ids, &room, PIECE, sizeof *ids, "a document", e));
    for (uint64_t i = 0; i < r->count; i++) {
        TRY(alloc_grow(&ids, &room, filled + 1, sizeof *ids, "a document", e));
        ids[filled++] = id_at(r, i);
        bool ends = o->eod >= 0 ? ids[filled - 1] == o->eod : filled == PIECE;
        if (ends || i + 1 == r->count) {
            TRY(tokens_writer_document(w, ids, filled, e));
            filled = 0;
        }
        if (i % PIECE == 0 && o->stopped && o->stopped(o->stopped_arg))
            FAIL(E_INTERRUPTED, "interrupted, no file was written");
    }
done:
    free(ids);
    return result;
}

// Checks that the shard does not replace its own input.
static status output_check(const tokens_raw_options *o, const char *path, err *e)
{
    if (data_path_is_same_file(o->path, path))
        return err_set(e, E_USAGE,
                       "%s: is the input and would be replaced by an output; give another "
                       "--output-prefix",
                       path);
    return OK;
}

status tokens_raw_convert(const tokens_raw_options *o, tokens_raw_result *out, err *e)
{
    status result = OK;
    tokens_raw r = {.ids = NULL};
    tokens_writer *w = NULL;
    text bin = {0}, old = {0};
    text_addf(&bin, "%s.bin", o->output_prefix);
    text_addf(&old, "%s.json", o->output_prefix);
    TRY(output_check(o, bin.chars, e));
    TRY(file_map_open(o->path, &r.map, e));
    TRY(layout_read(o, &r, e));
    *out = (tokens_raw_result){.llm_c = r.llm_c};
    TRY(highest_find(o, &r, &out->highest, e));
    TRY(tokens_writer_open(o->output_prefix, out->highest + 1, &w, e));
    TRY(documents_write(o, &r, w, e));
    out->tokens = tokens_writer_count(w);
    out->documents = tokens_writer_documents(w);
    TRY(tokens_writer_seal(w, e));
    unlink(old.chars);
    tokens_writer *closing = w;
    w = NULL;
    TRY(tokens_writer_finish(closing, e));
done:
    tokens_writer_abandon(w);
    file_unmap(&r.map);
    text_clear(&bin);
    text_clear(&old);
    return result;
}

void tokens_raw_hint(const char *bin_path, err *e)
{
    file_map map;
    if (!e || file_map_open(bin_path, &map, NULL) != OK) return;
    char why[ERR_TEXT_BYTES];
    const char *what = header_id_bytes(&map) ? "holds tokens of llm.c"
                                             : "may hold plain ids as nanoGPT writes them (uint16)";
    memcpy(why, e->text, sizeof why);
    err_set(e, e->code,
            "%.*s; %.*s %s: trireme data prepare --from-tokens FILE --output-prefix P converts it "
            "to a shard",
            TEXT_CUT(why, 400), TEXT_CUT(bin_path, 250), what);
    file_unmap(&map);
}
