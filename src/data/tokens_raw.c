// tokens_raw.c -- reads the .bin files of llm.c and nanoGPT. Called by the prepare command, and by
// tokens.c for a hint. It deliberately does not know tokenizers: the file does not say which it
// was.
#include "data/tokens_raw.h"

#include "base/file.h"
#include "base/text.h"
#include "data/tokens.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HEADER_BYTES = 1024, MAGIC_U16 = 20240520, MAGIC_U32 = 20240801, PIECE = 1 << 20 };

typedef struct raw {
    file_map map;
    const uint8_t *at; // of the first id
    uint64_t count;
    int id_bytes;
    bool llm_c;
} raw;

static int32_t id_at(const raw *r, uint64_t i)
{
    uint16_t narrow;
    int32_t wide;
    const uint8_t *at = r->at + i * (uint64_t)r->id_bytes;
    if (r->id_bytes == 2) {
        memcpy(&narrow, at, 2);
        return narrow;
    }
    memcpy(&wide, at, 4);
    return wide;
}

// The bytes of an id by the header of llm.c; 0 without one.
static int header_id_bytes(const file_map *map)
{
    int32_t magic = 0;
    if (map->bytes >= HEADER_BYTES) memcpy(&magic, map->at, sizeof magic);
    return magic == MAGIC_U16 ? 2 : magic == MAGIC_U32 ? 4 : 0;
}

static status layout_read(const raw_options *o, raw *r, err *e)
{
    int by_header = header_id_bytes(&r->map);
    uint64_t header = by_header ? HEADER_BYTES : 0, bytes = r->map.bytes - header;
    r->llm_c = by_header != 0;
    r->id_bytes = by_header ? by_header : o->id_bytes ? o->id_bytes : 2;
    if (by_header && o->id_bytes && o->id_bytes != by_header)
        return err_set(e, E_USAGE, "%s: llm.c's header says ids of %d bytes, --dtype says %d",
                       o->path, by_header, o->id_bytes);
    r->at = r->map.at + header;
    r->count = bytes / (uint64_t)r->id_bytes;
    if (bytes == 0 || bytes % (uint64_t)r->id_bytes)
        return err_set(e, E_USAGE,
                       "%s: %" PRIu64 " bytes of ids, valid is a multiple of %d, and not 0",
                       o->path, bytes, r->id_bytes);
    int32_t told = 0;
    if (by_header) memcpy(&told, r->map.at + 8, sizeof told);
    if (by_header && (uint64_t)(uint32_t)told != r->count)
        return err_set(e, E_USAGE,
                       "%s: llm.c's header says %" PRIu32 " ids, the file has %" PRIu64
                       " (cut off?)",
                       o->path, (uint32_t)told, r->count);
    return OK;
}

static status highest_find(const raw_options *o, const raw *r, int32_t *highest, err *e)
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

static status documents_write(const raw_options *o, const raw *r, tokens_writer *w, err *e)
{
    status result = OK;
    size_t filled = 0;
    int32_t *ids = NULL;
    // A document has to be in memory as a whole; without documents pieces do.
    size_t room = PIECE;
    ids = malloc(room * sizeof *ids);
    if (!ids) FAIL(E_MEMORY, "out of memory");
    for (uint64_t i = 0; i < r->count; i++) {
        if (filled == room) {
            int32_t *grown = realloc(ids, 2 * room * sizeof *ids);
            if (!grown)
                FAIL(E_MEMORY, "%s: out of memory for a document of %zu tokens", o->path, room);
            ids = grown;
            room *= 2;
        }
        ids[filled++] = id_at(r, i);
        bool ends = o->eod >= 0 ? ids[filled - 1] == o->eod : filled == PIECE;
        if (ends || i + 1 == r->count) {
            TRY(tokens_writer_document(w, ids, filled, e));
            filled = 0;
        }
        if (i % PIECE == 0 && o->stopped && o->stopped(o->stopped_arg))
            FAIL(E_INTERRUPTED, "interrupted, nothing was written");
    }
done:
    free(ids);
    return result;
}

// The shard must not take the place of its own source.
static status output_check(const raw_options *o, const char *path, err *e)
{
    struct stat in, out;
    if (stat(o->path, &in) == 0 && stat(path, &out) == 0 && in.st_ino == out.st_ino &&
        in.st_dev == out.st_dev)
        return err_set(e, E_USAGE,
                       "%s: is the input and would be replaced by an output; give another "
                       "--output-prefix",
                       path);
    return OK;
}

status raw_tokens_convert(const raw_options *o, raw_result *out, err *e)
{
    status result = OK;
    raw r = {.at = NULL};
    tokens_writer *w = NULL;
    text bin = {0}, old = {0};
    text_addf(&bin, "%s.bin", o->output_prefix);
    text_addf(&old, "%s.json", o->output_prefix);
    TRY(output_check(o, bin.chars, e));
    TRY(file_map_open(o->path, &r.map, e));
    TRY(layout_read(o, &r, e));
    *out = (raw_result){.llm_c = r.llm_c};
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

void raw_tokens_hint(const char *bin_path, err *e)
{
    file_map map;
    if (!e || file_map_open(bin_path, &map, NULL) != OK) return;
    char why[ERR_TEXT_BYTES];
    const char *what = header_id_bytes(&map) ? "holds tokens of llm.c"
                                             : "may hold plain ids as nanoGPT writes them (uint16)";
    memcpy(why, e->text, sizeof why);
    err_set(e, e->code,
            "%.*s; %.*s %s: trireme data prepare --from-tokens FILE --output-prefix P makes a "
            "shard of it",
            TEXT_CUT(why, 400), TEXT_CUT(bin_path, 250), what);
    file_unmap(&map);
}
