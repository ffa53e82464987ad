// Source: cuts files into records (a document of plain text, or a line of JSONL) and parses them.
// Called by prepare: cutting on one thread, parsing on all. It deliberately does not know tokens or
// the split into training and validation.
//
// Only the record at hand and one chunk of the file are in memory.
#define _GNU_SOURCE // memmem
#include "data/prepare_source.h"

#include "base/json.h"
#include "data/prepare_files.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 1 << 18 };

struct source {
    file_list files;
    const char *separator; // of plain text, NULL: none
    size_t file;           // the one being read
    input_file *input;     // NULL: not opened yet
    bool json, at_end;     // of that file: is JSONL; all of it is in the window
    uint64_t line, offset, records_in_file, number, done_bytes;
    byte_buffer window; // bytes read; those from `first` on belong to no record yet
    size_t first, scanned;
};

status byte_buffer_reserve(byte_buffer *b, size_t more, err *e)
{
    size_t room = b->room ? b->room : 4096;
    while (room - b->bytes < more) {
        if (room > SIZE_MAX / 2) return err_set(e, E_MEMORY, "out of memory");
        room *= 2;
    }
    if (room == b->room) return OK;
    char *grown = realloc(b->at, room);
    if (!grown)
        return err_set(e, E_MEMORY, "out of memory for a text of %zu bytes", b->bytes + more);
    b->at = grown;
    b->room = room;
    return OK;
}

status byte_buffer_add(byte_buffer *b, const void *from, size_t bytes, err *e)
{
    status s = byte_buffer_reserve(b, bytes, e);
    if (s != OK) return s;
    if (bytes) memcpy(b->at + b->bytes, from, bytes);
    b->bytes += bytes;
    return OK;
}

status source_open(const char *const *inputs, size_t count, const prepare_filter *filter,
                   const char *separator, source **out, err *e)
{
    status result = OK;
    source *s = calloc(1, sizeof *s);
    if (!s) return err_set(e, E_MEMORY, "out of memory");
    s->separator = separator;
    for (size_t i = 0; i < count; i++) TRY(file_list_add(&s->files, inputs[i], filter, e));
    *out = s;
    s = NULL;
done:
    source_close(s);
    return result;
}

void source_close(source *s)
{
    if (!s) return;
    input_file_close(s->input);
    file_list_clear(&s->files);
    free(s->window.at);
    free(s);
}

size_t source_files(const source *s)
{
    return s->files.count;
}

const char *source_file(const source *s, size_t i)
{
    return s->files.path[i];
}

static void file_leave(source *s)
{
    input_file_close(s->input);
    s->input = NULL;
    s->window.bytes = s->first = s->scanned = 0;
    s->line = s->offset = s->records_in_file = 0;
    s->at_end = false;
}

void source_rewind(source *s)
{
    file_leave(s);
    s->file = 0;
    s->number = s->done_bytes = 0;
}

double source_done(const source *s)
{
    if (s->files.bytes == 0) return s->file == s->files.count ? 1 : 0;
    uint64_t bytes = s->done_bytes + (s->input ? input_file_position(s->input) : 0);
    double done = (double)bytes / (double)s->files.bytes;
    return done > 1 ? 1 : done;
}

static status file_enter(source *s, err *e)
{
    const char *path = s->files.path[s->file];
    s->json = path_has_suffix(path, ".jsonl") || path_has_suffix(path, ".json") ||
              path_has_suffix(path, ".jsonl.gz") || path_has_suffix(path, ".json.gz");
    return input_file_open(path, &s->input, e);
}

// Reads one chunk more; what no record took yet moves to the front.
static status window_fill(source *s, err *e)
{
    status result = OK;
    byte_buffer *w = &s->window;
    if (s->first > 0) {
        memmove(w->at, w->at + s->first, w->bytes - s->first);
        w->bytes -= s->first;
        s->scanned -= s->first;
        s->first = 0;
    }
    size_t got = 0;
    TRY(byte_buffer_reserve(w, CHUNK, e));
    TRY(input_file_read(s->input, w->at + w->bytes, CHUNK, &got, e));
    w->bytes += got;
    s->at_end = got < CHUNK;
done:
    return result;
}

// Is there a whole record in the window? Its length, and that of the delimiter after it.
static bool window_cut(source *s, size_t *length, size_t *delimiter)
{
    const byte_buffer *w = &s->window;
    const char *mark = s->json ? "\n" : s->separator;
    if (mark) {
        size_t n = strlen(mark);
        const char *hit = w->bytes - s->scanned >= n
                              ? memmem(w->at + s->scanned, w->bytes - s->scanned, mark, n)
                              : NULL;
        if (hit) {
            *length = (size_t)(hit - w->at) - s->first;
            *delimiter = n;
            return true;
        }
        // A delimiter may lie across the end of what was read.
        size_t next = w->bytes > n - 1 ? w->bytes - (n - 1) : 0;
        if (next > s->scanned) s->scanned = next;
    }
    if (!s->at_end) return false;
    *length = w->bytes - s->first;
    *delimiter = 0;
    return true;
}

static bool is_blank(const char *at, size_t bytes)
{
    while (bytes > 0 && strchr(" \t\r", at[bytes - 1]) && at[bytes - 1]) bytes--;
    return bytes == 0;
}

// Takes the next record of the file at hand; *got is false when the file has no more.
static status file_next(source *s, byte_buffer *into, record *out, bool *got, err *e)
{
    status result = OK;
    size_t length = 0, delimiter = 0;
    *got = false;
    for (;;) {
        while (!window_cut(s, &length, &delimiter)) TRY(window_fill(s, e));
        bool last = delimiter == 0;
        const char *at = s->window.at + s->first;
        s->line++;
        *out = (record){.path = s->files.path[s->file],
                        .json = s->json,
                        .line = s->line,
                        .offset = s->offset,
                        .number = s->number,
                        .first = into->bytes,
                        .bytes = length};
        // Blank lines of JSONL and the nothing after a last delimiter are not records.
        bool skip = s->json ? is_blank(at, length) : last && length == 0 && s->records_in_file > 0;
        if (!skip) TRY(byte_buffer_add(into, at, length, e));
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

status source_next(source *s, byte_buffer *into, record *out, bool *more, err *e)
{
    status result = OK;
    *more = false;
    while (!*more && s->file < s->files.count) {
        if (!s->input) TRY(file_enter(s, e));
        bool used_up = s->at_end && s->first == s->window.bytes && s->records_in_file > 0;
        if (!used_up) TRY(file_next(s, into, out, more, e));
        if (*more) break;
        s->done_bytes += s->files.size[s->file];
        file_leave(s);
        s->file++;
    }
done:
    return result;
}

static status line_parse(const record *r, const char *bytes, const char *const *keys, size_t count,
                         record_texts *out, err *e)
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
        out->text[k] = (document){json_string_value(v), json_string_length(v)};
    }
    return OK;
}

status record_parse(const record *r, const char *bytes, const char *const *keys, size_t count,
                    record_texts *out, err *e)
{
    out->json = NULL;
    if (r->json) return line_parse(r, bytes, keys, count, out, e);
    if (count > 1)
        return err_set(e, E_USAGE, "%s: is plain text, which has no keys, but %zu are wanted",
                       r->path, count);
    size_t bad = 0;
    out->text[0] = (document){bytes + r->first, r->bytes};
    if (text_is_utf8(bytes + r->first, r->bytes, &bad)) return OK;
    return err_set(e, E_USAGE, "%s: byte %" PRIu64 ": found 0x%02x, which is not UTF-8 there",
                   r->path, r->offset + bad, (unsigned char)bytes[r->first + bad]);
}

void record_release(record_texts *t)
{
    json_decref(t->json);
    t->json = NULL;
}
