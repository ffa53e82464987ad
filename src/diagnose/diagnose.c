// diagnose.c -- takes the lines of logs and keeps the first one of each cause. See diagnose.h. Bounded memory: a row keeps
// one line, and lines beyond LINE_BYTES are looked at in parts.
#include "diagnose/diagnosis.h"
#include "diagnose/input.h"
#include "diagnose/sentence.h"

#include "base/alloc.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

enum {
    LINE_BYTES = 8 << 10,
    SHOWN_BYTES = 180,
    MOST_SEEN = 2000, // lines of one cause in one log
    NEAR_LINES = 10,  // a later line of a cause may tell its rank
    TIME_LINES = 40,  // lines before a line, the last of which with a time counts
    BLOCK_LINES = 8,  // of torchrun's block, before its last line
};

// A line in its piece.
typedef struct log_line {
    const char *chars;
    size_t bytes;
    const char *context; // what was read before begins here
    int64_t number;
} log_line;

void diagnose_close(diagnosis *d)
{
    if (!d) return;
    for (int i = 0; d->finding && i < diagnose_cause_count(); i++) {
        free(d->finding[i].shown);
        free(d->finding[i].sentence);
    }
    for (size_t i = 0; i < d->files; i++) free(d->path[i]);
    free(d->path);
    free(d->finding);
    free(d->error_shown);
    free(d->passed);
    free(d->seen);
    rows_close(d->rows);
    place_reader_close(d->places);
    late_close(d->late);
    free(d);
}

status diagnose_open(diagnosis **out, err *e)
{
    status result = OK;
    diagnosis *d = NULL;
    const size_t causes = (size_t)diagnose_cause_count();
    TRY(alloc_zeroed(&d, 1, sizeof *d, "a diagnosis", e));
    TRY(alloc_zeroed(&d->finding, causes, sizeof *d->finding, "a diagnosis", e));
    TRY(alloc_zeroed(&d->passed, causes, sizeof *d->passed, "a diagnosis", e));
    TRY(alloc_zeroed(&d->seen, causes, sizeof *d->seen, "a diagnosis", e));
    for (size_t i = 0; i < causes; i++) d->finding[i].cause = diagnose_cause_at((int)i);
    TRY(rows_open(&d->rows, e));
    TRY(place_reader_open(&d->places, e));
    TRY(late_open(&d->late, e));
    *out = d;
    d = NULL;
done:
    diagnose_close(d);
    return result;
}

// ---- A line that shows something

// The line before `from`, within the context. Returns false at its beginning.
static bool line_before(const log_line *l, const char **from, size_t *bytes)
{
    const char *end = *from;
    if (end == l->context) return false;
    end--; // the line break
    const char *begin = end;
    while (begin > l->context && begin[-1] != '\n' && begin[-1] != '\r') begin--;
    *from = begin;
    *bytes = (size_t)(end - begin);
    return true;
}

static place find_place(const diagnosis *d, const log_line *l, const expression_match *m)
{
    place p = {.rank = -1, .local = -1, .when = -1};
    const char *from = l->chars;
    size_t bytes;
    for (int i = 0; i < m->count; i++)
        place_set(&p, m->group[i].name, l->chars + m->group[i].begin,
                  m->group[i].end - m->group[i].begin);
    place_read(d->places, l->chars, l->bytes, &p);
    const bool in_block = l->bytes > 2 && memcmp(l->chars, "  ", 2) == 0;
    for (int i = 0; i < TIME_LINES && line_before(l, &from, &bytes); i++) {
        if (in_block && i < BLOCK_LINES) place_read_block(d->places, from, bytes, &p);
        place_read_time(d->places, from, bytes, &p);
    }
    place_read_path(d->places, d->path[d->files - 1], &p);
    return p;
}

// What a later line of the same cause adds to the first.
static void complete_place(diagnose_finding *f, const place *p, int64_t distance)
{
    const bool is_local = f->place.local >= 0 && f->place.local == p->local;
    if (distance > NEAR_LINES && !is_local) return;
    if (f->place.rank < 0) f->place.rank = p->rank;
    if (f->place.local < 0) f->place.local = p->local;
    if (!f->place.host[0]) memcpy(f->place.host, p->host, sizeof p->host);
}

static status keep(diagnosis *d, diagnose_finding *f, const log_line *l, const expression_match *m,
                   const place *p, err *e)
{
    status result = OK;
    text shown = {0}, sentence = {0};
    free(f->shown);
    free(f->sentence);
    f->shown = f->sentence = NULL;
    f->file = (int)d->files - 1;
    f->line = l->number;
    f->order = d->lines + l->number;
    f->place = *p;
    sentence_add_line(&shown, l->chars, l->bytes, m->begin, m->end, SHOWN_BYTES);
    sentence_add(&sentence, f->cause->sentence, l->chars, m);
    TRY(text_take(&shown, &f->shown, e));
    TRY(text_take(&sentence, &f->sentence, e));
done:
    text_clear(&shown);
    text_clear(&sentence);
    return result;
}

static status add_hit(diagnosis *d, const log_line *l, const rows_hit *hit, err *e)
{
    status result = OK;
    diagnose_finding *f = &d->finding[hit->cause];
    const int file = (int)d->files - 1;
    if (++d->seen[hit->cause] >= MOST_SEEN) d->passed[hit->cause] = true;
    f->count++;
    if (strcmp(f->cause->code, DIAGNOSE_TIMEOUT) == 0) late_add(d->late, l->chars, l->bytes);
    if (f->count > 1 && !f->cause->last_counts && f->file == file &&
        l->number - f->line > NEAR_LINES && (f->place.rank >= 0 || f->place.local < 0))
        return OK;
    const place p = find_place(d, l, &hit->match);
    const bool is_earlier = f->count > 1 && f->file != file && p.when >= 0 && f->place.when >= 0 &&
                            p.when < f->place.when;
    if (f->count == 1 || is_earlier || f->cause->last_counts)
        TRY(keep(d, f, l, &hit->match, &p, e));
    else if (f->file == file)
        complete_place(f, &p, l->number - f->line);
done:
    return result;
}

static status see_line(diagnosis *d, const log_line *l, err *e)
{
    status result = OK;
    rows_hit hit[ROWS_HITS];
    bool is_error = !d->error_shown;
    text shown = {0};
    const int count = rows_find(d->rows, l->chars, l->bytes, d->passed, hit, &is_error);
    for (int i = 0; i < count; i++) TRY(add_hit(d, l, &hit[i], e));
    if ((is_error || count) && !d->error_shown) {
        sentence_add_line(&shown, l->chars, l->bytes, 0, 0, SHOWN_BYTES);
        TRY(text_take(&shown, &d->error_shown, e));
        d->error_file = (int)d->files - 1;
        d->error_line = l->number;
    }
done:
    text_clear(&shown);
    return result;
}

// ---- Pieces of a log

static int64_t count_lines(const char *from, const char *end)
{
    int64_t count = 0;
    for (; from < end; from++) count += *from == '\n';
    return count;
}

static status take_piece(void *arg, const input_piece *piece, err *e)
{
    status result = OK;
    diagnosis *d = arg;
    const char *begin = piece->chars, *end = begin + piece->bytes, *counted = begin, *hit;
    for (const char *from = begin; from < end && (hit = rows_first(d->rows, from, end));) {
        // A progress bar ends its lines with \r; what stands behind them is a line of its own.
        const char *line = hit - 1, *line_end = hit;
        while (line > from && line[-1] != '\n' && line[-1] != '\r') line--;
        while (line_end < end && *line_end != '\n' && *line_end != '\r') line_end++;
        if (hit - line > LINE_BYTES / 2) line = hit - LINE_BYTES / 2;
        if (line_end - line > LINE_BYTES) line_end = line + LINE_BYTES;
        d->line += count_lines(counted, line);
        counted = line;
        TRY(see_line(
            d, &(log_line){line, (size_t)(line_end - line), begin - piece->before, d->line}, e));
        from = line_end;
    }
    d->line += count_lines(counted, end);
done:
    return result;
}

static status begin_log(void *arg, const char *path, err *e)
{
    status result = OK;
    diagnosis *d = arg;
    char *copy = NULL;
    const size_t causes = (size_t)diagnose_cause_count();
    TRY(alloc_grow(&d->path, &d->file_room, d->files + 1, sizeof *d->path, "the list of logs", e));
    TRY(text_copy(path, &copy, e));
    d->path[d->files++] = copy;
    d->lines += d->line;
    d->line = 1;
    memset(d->passed, 0, causes * sizeof *d->passed);
    memset(d->seen, 0, causes * sizeof *d->seen);
done:
    return result;
}

status diagnose_read(diagnosis *d, const char *path, err *e)
{
    return input_read(path, &(input_taker){begin_log, take_piece, d}, e);
}

status diagnose_read_bytes(diagnosis *d, const char *name, const char *chars, size_t bytes, err *e)
{
    status result = OK;
    TRY(begin_log(d, name, e));
    TRY(take_piece(d, &(input_piece){chars, bytes, 0}, e));
done:
    return result;
}
