// tokens.c -- reads Megatron token shards through read-only maps. Datasets and `data inspect` call
// it. It deliberately does not know how samples are made of tokens. All numbers are little-endian.
//
// PREFIX.bin holds the ids, one after the other, without a header. PREFIX.idx:
//
//   OFFSET     SIZE  TYPE  FIELD              CHECKED
//   0          9     char  "MMIDIDX\0\0"      equal
//   9          8     u64   version            1
//   17         1     u8    type of an id      1 (u8), 4 (i32), 5 (i64) or 8 (u16)
//   18         8     u64   S, sequences       fits the file
//   26         8     u64   D, documents + 1   at least 1; the file ends after the arrays
//   34         4 S   i32   lengths            >= 0; in tokens
//   34 + 4 S   8 S   i64   offsets in .bin    prefix sums of the lengths; in bytes
//   34 + 12 S  8 D   i64   document borders   sequence numbers from 0 to S, never decreasing
//
// The size of PREFIX.bin must equal the sum of the lengths times the size of an id.
#include "data/tokens.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/proc.h"
#include "base/text.h"
#include "data/paths.h"
#include "data/sidecar.h"
#include "data/tokens_raw.h"
#include "data/workers.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the files are little-endian");

enum { HEADER_BYTES = 34, CHECK_BLOCK = 1 << 16 };

struct tokens {
    char *prefix, *bin_path, *idx_path;
    file_map bin, idx;
    dtype type;
    size_t id_bytes;
    uint64_t sequences, documents;
    uint64_t count;         // tokens
    const uint8_t *lengths; // [sequences] i32; the arrays lie unaligned in idx
    const uint8_t *offsets; // [sequences] i64
    const uint8_t *borders; // [documents + 1] i64
};

static uint64_t get_u64(const uint8_t *ptr)
{
    uint64_t v;
    memcpy(&v, ptr, 8);
    return v;
}

static int32_t get_i32(const uint8_t *ptr)
{
    int32_t v;
    memcpy(&v, ptr, 4);
    return v;
}

static status paths_make(tokens *t, const char *given, err *e)
{
    status result = OK;
    text prefix = {0}, bin = {0}, idx = {0};
    text_add_bytes(&prefix, given, data_path_prefix_bytes(given));
    text_addf(&bin, "%s.bin", prefix.chars);
    text_addf(&idx, "%s.idx", prefix.chars);
    TRY(text_take(&prefix, &t->prefix, e));
    TRY(text_take(&bin, &t->bin_path, e));
    TRY(text_take(&idx, &t->idx_path, e));
done:
    text_clear(&bin);
    text_clear(&idx);
    return result;
}

static status type_from_code(tokens *t, uint8_t code, err *e)
{
    switch (code) {
    case 1:
        t->type = U8;
        break;
    case 4:
        t->type = I32;
        break;
    case 5:
        t->type = I64;
        break;
    case 8:
        t->type = U16;
        break;
    default:
        return err_set(e, E_USAGE,
                       "%s: dtype code: found %u, valid are 1 (uint8), 4 (int32), 5 (int64) and 8 "
                       "(uint16)",
                       t->idx_path, code);
    }
    t->id_bytes = dtype_bytes(t->type);
    return OK;
}

// Checks magic, version and type, and the two counts against the size of the file.
static status header_check(tokens *t, err *e)
{
    const uint8_t *h = t->idx.ptr;
    uint64_t bytes = t->idx.bytes;
    if (bytes < HEADER_BYTES)
        return err_set(e, E_USAGE, "%s: size: found %" PRIu64 " bytes, the header alone has %d",
                       t->idx_path, bytes, HEADER_BYTES);
    if (memcmp(h, "MMIDIDX\0\0", 9) != 0)
        return err_set(e, E_USAGE,
                       "%s: magic: found other bytes, valid is MMIDIDX (a Megatron index file)",
                       t->idx_path);
    if (get_u64(h + 9) != 1)
        return err_set(e, E_USAGE, "%s: version: found %" PRIu64 ", valid is 1", t->idx_path,
                       get_u64(h + 9));
    status code = type_from_code(t, h[17], e);
    if (code != OK) return code;

    uint64_t sequences = get_u64(h + 18), borders = get_u64(h + 26), room = bytes - HEADER_BYTES;
    if (sequences > room / 12)
        return err_set(e, E_USAGE,
                       "%s: sequence count: found %" PRIu64 ", valid is at most %" PRIu64
                       " in a file of %" PRIu64 " bytes",
                       t->idx_path, sequences, room / 12, bytes);
    room -= sequences * 12;
    if (borders < 1 || borders > room / 8)
        return err_set(e, E_USAGE,
                       "%s: document count: found %" PRIu64 ", valid is 1 to %" PRIu64
                       " in a file of %" PRIu64 " bytes with %" PRIu64 " sequences",
                       t->idx_path, borders, room / 8, bytes, sequences);
    room -= borders * 8;
    if (room != 0)
        return err_set(e, E_USAGE,
                       "%s: size: found %" PRIu64 " bytes after the document borders%s, valid is 0",
                       t->idx_path, room,
                       room == sequences ? " (modes of a multimodal shard?)" : "");
    t->sequences = sequences;
    t->documents = borders - 1;
    t->lengths = h + HEADER_BYTES;
    t->offsets = t->lengths + 4 * sequences;
    t->borders = t->offsets + 8 * sequences;
    return OK;
}

// Checks that no length is negative, that the offsets are the prefix sums of the lengths, and that
// the .bin has the size of all sequences.
static status sequences_check(tokens *t, err *e)
{
    uint64_t count = 0;
    for (uint64_t s = 0; s < t->sequences; s++) {
        int32_t length = get_i32(t->lengths + 4 * s);
        uint64_t offset = get_u64(t->offsets + 8 * s);
        if (length < 0)
            return err_set(e, E_USAGE,
                           "%s: length of sequence %" PRIu64 ": found %" PRId32
                           ", valid is 0 or more",
                           t->idx_path, s, length);
        if (offset != count * t->id_bytes)
            return err_set(e, E_USAGE,
                           "%s: offset of sequence %" PRIu64 ": found %" PRId64
                           ", valid is %" PRIu64 " (the sequences before it)",
                           t->idx_path, s, (int64_t)offset, count * t->id_bytes);
        if (__builtin_add_overflow(count, (uint64_t)length, &count) || count > UINT64_MAX / 16)
            return err_set(e, E_USAGE, "%s: length of sequence %" PRIu64 ": the sum overflows",
                           t->idx_path, s);
    }
    if (t->bin.bytes != count * t->id_bytes)
        return err_set(e, E_USAGE,
                       "%s: size: found %zu bytes, valid is %" PRIu64 " (%" PRIu64
                       " %s tokens in %s)",
                       t->bin_path, t->bin.bytes, count * t->id_bytes, count, dtype_name(t->type),
                       t->idx_path);
    t->count = count;
    return OK;
}

static status borders_check(const tokens *t, err *e)
{
    uint64_t last = 0;
    for (uint64_t d = 0; d <= t->documents; d++) {
        uint64_t border = get_u64(t->borders + 8 * d);
        bool bad = border < last || border > t->sequences || (d == 0 && border != 0);
        if (bad)
            return err_set(e, E_USAGE,
                           "%s: border of document %" PRIu64 ": found %" PRId64
                           ", valid is %" PRIu64 " to %" PRIu64,
                           t->idx_path, d, (int64_t)border, last, d ? t->sequences : 0);
        last = border;
    }
    if (last != t->sequences)
        return err_set(e, E_USAGE,
                       "%s: last document border: found %" PRIu64 ", valid is %" PRIu64
                       " (the sequence count)",
                       t->idx_path, last, t->sequences);
    return OK;
}

status tokens_open(const char *prefix, tokens **out, err *e)
{
    status result = OK;
    tokens *t = NULL;
    TRY(alloc_zeroed(&t, 1, sizeof *t, prefix, e));
    TRY(paths_make(t, prefix, e));
    result = file_map_open(t->idx_path, &t->idx, e);
    if (result != OK) {
        if (!file_exists(t->idx_path)) tokens_raw_hint(t->bin_path, e);
        goto done;
    }
    TRY(file_map_open(t->bin_path, &t->bin, e));
    TRY(header_check(t, e));
    TRY(sequences_check(t, e));
    TRY(borders_check(t, e));
    *out = t;
    t = NULL;
done:
    tokens_close(t);
    return result;
}

void tokens_close(tokens *t)
{
    if (!t) return;
    file_unmap(&t->bin);
    file_unmap(&t->idx);
    free(t->prefix);
    free(t->bin_path);
    free(t->idx_path);
    free(t);
}

const char *tokens_prefix(const tokens *t)
{
    return t->prefix;
}

uint64_t tokens_count(const tokens *t)
{
    return t->count;
}

uint64_t tokens_documents(const tokens *t)
{
    return t->documents;
}

uint64_t tokens_sequences(const tokens *t)
{
    return t->sequences;
}

dtype tokens_dtype(const tokens *t)
{
    return t->type;
}

// The first token of a sequence; the end of the tokens for sequence S.
static uint64_t sequence_first(const tokens *t, uint64_t sequence)
{
    return sequence == t->sequences ? t->count : get_u64(t->offsets + 8 * sequence) / t->id_bytes;
}

void tokens_sequence(const tokens *t, uint64_t s, uint64_t *first, uint64_t *length)
{
    *first = sequence_first(t, s);
    *length = (uint64_t)get_i32(t->lengths + 4 * s);
}

void tokens_document(const tokens *t, uint64_t d, uint64_t *first, uint64_t *length)
{
    *first = sequence_first(t, get_u64(t->borders + 8 * d));
    *length = sequence_first(t, get_u64(t->borders + 8 * (d + 1))) - *first;
}

void tokens_read(const tokens *t, uint64_t first, size_t count, int32_t *out)
{
    if (count == 0) return;
    const uint8_t *ptr = t->bin.ptr + first * t->id_bytes;
    switch (t->id_bytes) {
    case 1:
        for (size_t i = 0; i < count; i++) out[i] = ptr[i];
        break;
    case 2: {
        const uint16_t *ids = (const uint16_t *)(const void *)ptr;
        for (size_t i = 0; i < count; i++) out[i] = ids[i];
        break;
    }
    case 4:
        memcpy(out, ptr, count * 4);
        break;
    default: {
        const int64_t *ids = (const int64_t *)(const void *)ptr;
        for (size_t i = 0; i < count; i++)
            out[i] = ids[i] < 0 || ids[i] > INT32_MAX ? -1 : (int32_t)ids[i];
    }
    }
}

status tokens_check_whole(const tokens *t, err *e)
{
    return file_map_check(&t->bin, t->bin_path, e);
}

typedef struct tokens_id_check {
    const tokens *t;
    int32_t vocab;
    _Atomic uint64_t next_block;
    _Atomic uint64_t first_bad; // lowest position of a bad id so far; `count` when there is none
} tokens_id_check;

// Workers claim the blocks in order, so after a bad id no worker has to read a later block.
static void check_blocks(void *arg, int worker)
{
    (void)worker;
    tokens_id_check *c = arg;
    int32_t ids[4096];
    for (;;) {
        uint64_t first = atomic_fetch_add(&c->next_block, 1) * CHECK_BLOCK;
        if (first >= atomic_load(&c->first_bad)) return;
        uint64_t end = first + CHECK_BLOCK < c->t->count ? first + CHECK_BLOCK : c->t->count;
        for (uint64_t position = first; position < end; position += 4096) {
            size_t n = end - position < 4096 ? (size_t)(end - position) : 4096;
            tokens_read(c->t, position, n, ids);
            uint32_t highest = 0; // as unsigned numbers, negative ids exceed any vocabulary
            for (size_t i = 0; i < n; i++)
                highest = (uint32_t)ids[i] > highest ? (uint32_t)ids[i] : highest;
            if (highest < (uint32_t)c->vocab) continue;
            uint64_t bad = position;
            while ((uint32_t)ids[bad - position] < (uint32_t)c->vocab) bad++;
            uint64_t known = atomic_load(&c->first_bad);
            while (bad < known && !atomic_compare_exchange_weak(&c->first_bad, &known, bad)) {
            }
            break;
        }
    }
}

status tokens_check(const tokens *t, int32_t vocab, err *e)
{
    if (vocab < 1)
        return err_set(e, E_USAGE, "%s: vocabulary: found %" PRId32 ", valid is 1 or more",
                       t->bin_path, vocab);
    if (t->type == U16 && vocab > UINT16_MAX) return OK;
    tokens_id_check c = {.t = t, .vocab = vocab, .first_bad = t->count};
    data_workers_run(t->count < 16 * CHECK_BLOCK ? 1 : proc_usable_cores(), check_blocks, &c);
    uint64_t bad = atomic_load(&c.first_bad);
    if (bad == t->count) return OK;
    int64_t id;
    if (t->type == I64) {
        id = (int64_t)get_u64(t->bin.ptr + 8 * bad);
    } else {
        int32_t narrow;
        tokens_read(t, bad, 1, &narrow);
        id = narrow;
    }
    return err_set(e, E_USAGE,
                   "%s: token %" PRIu64 " (byte %" PRIu64 "): found id %" PRId64
                   ", valid is 0 to %" PRId32 " (the model's vocabulary is %" PRId32 ")",
                   t->bin_path, bad, bad * t->id_bytes, id, vocab - 1, vocab);
}

status tokens_text_bytes(const tokens *t, uint64_t *bytes, err *e)
{
    status result = OK;
    sidecar s = {0};
    bool found = false;
    *bytes = 0;
    TRY(sidecar_read(t->prefix, &s, &found, e));
    if (!found) goto done;
    if (s.tokens != t->count || s.documents != t->documents)
        FAIL(E_USAGE,
             "%s.json: tokens and documents: found %" PRIu64 " and %" PRIu64
             ", but the shard beside it has %" PRIu64 " and %" PRIu64,
             t->prefix, s.tokens, s.documents, t->count, t->documents);
    *bytes = s.text_bytes;
done:
    sidecar_clear(&s);
    return result;
}
