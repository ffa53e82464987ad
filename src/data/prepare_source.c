// prepare_source.c -- splits files into records (documents of plain text, or lines of JSONL) on one
// thread, and parses records on any thread. prepare.c and prepare_encode.c call it. It deliberately
// does not know tokens, nor training and validation.
//
// Only the current record and one chunk of the file are in memory.
#define _GNU_SOURCE // memmem
#include "data/prepare_source.h"

#include "base/alloc.h"
#include "base/json.h"
#include "base/size.h"
#include "data/paths.h"
#include "data/prepare_files.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 1 << 18 };

struct prepare_source {
    prepare_file_list files;
    const char *separator; // of plain text; NULL: a file is one document

    size_t file;              // the current file
    prepare_input *input;     // of it; NULL while it is not open
    bool json;                // it is JSONL
    bool at_end;              // the rest of it is in `buffer`
    uint64_t line, offset;    // of the next record in it
    uint64_t records_in_file; // so far
    uint64_t number;          // of the next record over all files
    uint64_t done_bytes;      // of the files before it

    prepare_buffer buffer; // a piece of the file
    size_t first;          // offset in `buffer` of the next record
    size_t scanned;        // offset in `buffer` at which the search for a delimiter continues
};

status prepare_buffer_reserve(prepare_buffer *b, size_t more, err *e)
{
    enum { FIRST_ROOM = 4096 };
    const size_t need = size_add(b->bytes, more);
    return alloc_grow(&b->data, &b->room, need < FIRST_ROOM ? FIRST_ROOM : need, 1, "a text", e);
}

status prepare_buffer_add(prepare_buffer *b, const void *from, size_t bytes, err *e)
{
    status s = prepare_buffer_reserve(b, bytes, e);
    if (s != OK) return s;
    if (bytes) memcpy(b->data + b->bytes, from, bytes);
    b->bytes += bytes;
    return OK;
}

status prepare_source_open(const char *const *inputs, size_t count, const prepare_filter *filter,
                           const char *separator, prepare_source **out, err *e)
{
    status result = OK;
    prepare_source *s = NULL;
    TRY(alloc_zeroed(&s, 1, sizeof *s, "the input", e));
    s->separator = separator;
    for (size_t i = 0; i < count; i++) TRY(prepare_file_list_add(&s->files, inputs[i], filter, e));
    *out = s;
    s = NULL;
done:
    prepare_source_close(s);
    return result;
}

void prepare_source_close(prepare_source *s)
{
    if (!s) return;
    prepare_input_close(s->input);
    prepare_file_list_clear(&s->files);
    free(s->buffer.data);
    free(s);
}

size_t prepare_source_files(const prepare_source *s)
{
    return s->files.count;
}

const char *prepare_source_file(const prepare_source *s, size_t i)
{
    return s->files.path[i];
}

static void input_close(prepare_source *s)
{
    prepare_input_close(s->input);
    s->input = NULL;
    s->buffer.bytes = s->first = s->scanned = 0;
    s->line = s->offset = s->records_in_file = 0;
    s->at_end = false;
}

void prepare_source_rewind(prepare_source *s)
{
    input_close(s);
    s->file = 0;
    s->number = s->done_bytes = 0;
}

double prepare_source_done(const prepare_source *s)
{
    if (s->files.bytes == 0) return s->file == s->files.count ? 1 : 0;
    uint64_t bytes = s->done_bytes + (s->input ? prepare_input_position(s->input) : 0);
    double done = (double)bytes / (double)s->files.bytes;
    return done > 1 ? 1 : done;
}

static status input_open(prepare_source *s, err *e)
{
    const char *path = s->files.path[s->file];
    s->json = data_path_has_suffix(path, ".jsonl") || data_path_has_suffix(path, ".json") ||
              data_path_has_suffix(path, ".jsonl.gz") || data_path_has_suffix(path, ".json.gz");
    return prepare_input_open(path, &s->input, e);
}

// Drops the bytes that records have used, and reads one more chunk.
static status buffer_fill(prepare_source *s, err *e)
{
    status result = OK;
    prepare_buffer *w = &s->buffer;
    if (s->first > 0) {
        memmove(w->data, w->data + s->first, w->bytes - s->first);
        w->bytes -= s->first;
        s->scanned -= s->first;
        s->first = 0;
    }
    size_t got = 0;
    TRY(prepare_buffer_reserve(w, CHUNK, e));
    TRY(prepare_input_read(s->input, w->data + w->bytes, CHUNK, &got, e));
    w->bytes += got;
    s->at_end = got < CHUNK;
done:
    return result;
}

// Finds a complete record in the buffer, and sets its length and that of the delimiter after it.
// False when more bytes are needed.
static bool record_find(prepare_source *s, size_t *length, size_t *delimiter)
{
    const prepare_buffer *w = &s->buffer;
    const char *separator = s->json ? "\n" : s->separator;
    if (separator) {
        size_t n = strlen(separator);
        const char *hit = w->bytes - s->scanned >= n
                              ? memmem(w->data + s->scanned, w->bytes - s->scanned, separator, n)
                              : NULL;
        if (hit) {
            *length = (size_t)(hit - w->data) - s->first;
            *delimiter = n;
            return true;
        }
        // The last n - 1 bytes may be the beginning of a delimiter.
        size_t next = w->bytes > n - 1 ? w->bytes - (n - 1) : 0;
        if (next > s->scanned) s->scanned = next;
    }
    if (!s->at_end) return false;
    *length = w->bytes - s->first;
    *delimiter = 0;
    return true;
}

static bool is_white_space(const char *line, size_t bytes)
{
    while (bytes > 0 && strchr(" \t\r", line[bytes - 1]) && line[bytes - 1]) bytes--;
    return bytes == 0;
}

// Reads the next record of the current file. *got is false when the file has no more.
static status file_next(prepare_source *s, prepare_buffer *into, prepare_record *out, bool *got,
                        err *e)
{
    status result = OK;
    size_t length = 0, delimiter = 0;
    *got = false;
    for (;;) {
        while (!record_find(s, &length, &delimiter)) TRY(buffer_fill(s, e));
        bool last = delimiter == 0;
        const char *start = s->buffer.data + s->first;
        s->line++;
        *out = (prepare_record){.path = s->files.path[s->file],
                                .json = s->json,
                                .line = s->line,
                                .offset = s->offset,
                                .number = s->number,
                                .first = into->bytes,
                                .bytes = length};
        // Lines of white space in JSONL are no records, nor is the empty rest after the last
        // delimiter of plain text.
        bool skip =
            s->json ? is_white_space(start, length) : last && length == 0 && s->records_in_file > 0;
        if (!skip) TRY(prepare_buffer_add(into, start, length, e));
        s->first += length + delimiter;
        s->scanned = s->first;
        s->offset += length + delimiter;
        if (skip && last) goto done;
        if (skip) continue;
        s->number++;
        s->records_in_file++;
        *got = true;
        goto done;
    }
done:
    return result;
}

status prepare_source_next(prepare_source *s, prepare_buffer *into, prepare_record *out, bool *more,
                           err *e)
{
    status result = OK;
    *more = false;
    while (!*more && s->file < s->files.count) {
        if (!s->input) TRY(input_open(s, e));
        bool used_up = s->at_end && s->first == s->buffer.bytes && s->records_in_file > 0;
        if (!used_up) TRY(file_next(s, into, out, more, e));
        if (*more) break;
        s->done_bytes += s->files.size[s->file];
        input_close(s);
        s->file++;
    }
done:
    return result;
}

static status line_parse(const prepare_record *r, const char *bytes, const char *const *keys,
                         size_t count, prepare_texts *out, err *e)
{
    json_error_t why;
    json_t *root = json_load_python(bytes + r->first, r->bytes, JSON_ALLOW_NUL, &why);
    out->json = root;
    if (!root)
        return err_set(e, E_USAGE, "%s:%" PRIu64 ": broken JSON at column %d: %s", r->path, r->line,
                       why.column, why.text);
    if (!json_is_object(root))
        return err_set(e, E_USAGE,
                       "%s:%" PRIu64 ": found JSON that is not an object, valid is "
                       "{\"%s\": \"...\"}",
                       r->path, r->line, keys[0]);
    for (size_t k = 0; k < count; k++) {
        const json_t *v = json_object_get(root, keys[k]);
        if (!json_is_string(v))
            return err_set(e, E_USAGE, "%s:%" PRIu64 ": key \"%s\" %s, valid is a string", r->path,
                           r->line, keys[k], v ? "is not a string" : "is missing");
        out->text[k] = (tokenizer_document){json_string_value(v), json_string_length(v)};
    }
    return OK;
}

status prepare_parse(const prepare_record *r, const char *bytes, const char *const *keys,
                     size_t count, prepare_texts *out, err *e)
{
    out->json = NULL;
    if (r->json) return line_parse(r, bytes, keys, count, out, e);
    if (count > 1)
        return err_set(e, E_USAGE,
                       "%s: is plain text, which has no keys, but --json-keys names %zu", r->path,
                       count);
    size_t bad = 0;
    out->text[0] = (tokenizer_document){bytes + r->first, r->bytes};
    if (text_is_utf8(bytes + r->first, r->bytes, &bad)) return OK;
    return err_set(e, E_USAGE, "%s: byte %" PRIu64 ": found 0x%02x, which is not UTF-8 there",
                   r->path, r->offset + bad, (unsigned char)bytes[r->first + bad]);
}

void prepare_texts_release(prepare_texts *t)
{
    json_decref(t->json);
    t->json = NULL;
}
