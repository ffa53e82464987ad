// bench_plan_rows.c -- reads the files of published rows. See bench_plan.h.
#include "cmd/bench/bench_plan.h"

#include "base/alloc.h"
#include "base/file.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

static const char *const COLUMN_NAMES[ROW_COLUMNS] = {"source",
                                                      "group",
                                                      "model",
                                                      "cluster",
                                                      "gpus",
                                                      "precision",
                                                      "attention",
                                                      "fused",
                                                      "policy",
                                                      "tp",
                                                      "sequence_parallel",
                                                      "tp_overlap",
                                                      "pp",
                                                      "cp",
                                                      "virtual_stages",
                                                      "micro_batch",
                                                      "global_batch",
                                                      "seq",
                                                      "recompute",
                                                      "tokens_per_s_per_gpu",
                                                      "memory_gib",
                                                      "counted",
                                                      "note"};

enum { CSV_MOST = 4 << 20 };

// Cuts the next field off *rest, which becomes NULL behind the last one.
static const char *next_field(char **rest)
{
    char *field = *rest, *comma = field + strcspn(field, ",");
    *rest = *comma ? comma + 1 : NULL;
    *comma = '\0';
    return field;
}

static status take_head(char *line, const char *file, published_column order[ROW_COLUMNS], err *e)
{
    status result = OK;
    int count = 0;
    for (char *rest = line; rest; count++) {
        const char *field = next_field(&rest);
        int c = 0;
        while (c < ROW_COLUMNS && strcmp(COLUMN_NAMES[c], field) != 0) c++;
        if (c == ROW_COLUMNS || count == ROW_COLUMNS)
            FAIL(E_USAGE, "%s: column %.*s; valid are those of examples/clusters/rows", file,
                 TEXT_CUT(field, 40));
        order[count] = (published_column)c;
    }
    if (count < ROW_COLUMNS) FAIL(E_USAGE, "%s: %d columns of %d", file, count, ROW_COLUMNS);
done:
    return result;
}

static status take_row(published_rows *r, char *line, const published_column order[ROW_COLUMNS],
                       const char *file, int number, err *e)
{
    status result = OK;
    int count = 0;
    TRY(alloc_grow(&r->row, &r->room, r->count + 1, sizeof *r->row, "published rows", e));
    published_row *row = &r->row[r->count];
    *row = (published_row){.file = file, .line = number};
    for (char *rest = line; rest && count < ROW_COLUMNS; count++)
        row->text[order[count]] = next_field(&rest);
    if (count < ROW_COLUMNS)
        FAIL(E_USAGE, "%s:%d: %d fields of %d", file, number, count, ROW_COLUMNS);
    if (!text_to_double(row->text[ROW_TOKENS], &row->measured) || row->measured <= 0)
        FAIL(E_USAGE, "%s:%d: tokens_per_s_per_gpu: found %.*s; valid: a number above 0", file,
             number, TEXT_CUT(row->text[ROW_TOKENS], 40));
    row->counted = strcmp(row->text[ROW_COUNTED], "yes") == 0;
    r->count++;
done:
    return result;
}

static status read_file(published_rows *r, const char *path, err *e)
{
    status result = OK;
    published_column order[ROW_COLUMNS];
    bool has_head = false;
    size_t bytes;
    char *content = NULL;
    int number = 0;
    TRY(file_read_small(path, CSV_MOST, &content, &bytes, e));
    TRY(alloc_grow(&r->content, &r->file_room, r->files + 1, sizeof *r->content, "published rows",
                   e));
    r->content[r->files++] = content;
    char *rest = content;
    content = NULL;
    for (char *line = strsep(&rest, "\n"); line; line = strsep(&rest, "\n")) {
        number++;
        if (*line == '#' || *line == '\0') continue;
        if (has_head)
            TRY(take_row(r, line, order, path, number, e));
        else
            TRY(take_head(line, path, order, e));
        has_head = true;
    }
done:
    free(content);
    return result;
}

static int is_rows_file(const struct dirent *f)
{
    const size_t n = strlen(f->d_name);
    return n > 4 && strcmp(f->d_name + n - 4, ".csv") == 0 && strcmp(f->d_name, "models.csv") != 0;
}

static status read_all(published_rows *r, const char *rows, err *e)
{
    status result = OK;
    struct dirent **list = NULL;
    char *path = NULL;
    const int files = scandir(rows, &list, is_rows_file, alphasort);
    if (files < 0) FAIL(E_USAGE, "bench plan: %s: no such folder", rows);
    for (int i = 0; i < files; i++) {
        free(path);
        path = NULL;
        TRY(file_join(rows, list[i]->d_name, &path, e));
        TRY(read_file(r, path, e));
        // Messages about its rows outlive the path.
        for (size_t k = 0; k < r->count; k++)
            if (r->row[k].file == path) r->row[k].file = r->row[k].text[ROW_SOURCE];
    }
done:
    for (int i = 0; i < files; i++) free(list[i]);
    free(list);
    free(path);
    return result;
}

status published_rows_read(const char *folder, const char *file, published_rows *out, err *e)
{
    status result = OK;
    char *rows = NULL, *models = NULL;
    size_t bytes;
    *out = (published_rows){.row = NULL};
    TRY(file_join(folder, "rows", &rows, e));
    TRY(file_join(rows, "models.csv", &models, e));
    TRY(file_read_small(models, CSV_MOST, &out->models, &bytes, e));
    TRY(file ? read_file(out, file, e) : read_all(out, rows, e));
    if (out->count == 0) FAIL(E_USAGE, "bench plan: %s has no rows", file ? file : rows);
done:
    free(rows);
    free(models);
    return result;
}

void published_rows_clear(published_rows *r)
{
    for (size_t i = 0; i < r->files; i++) free(r->content[i]);
    free(r->content);
    free(r->models);
    free(r->row);
    *r = (published_rows){.row = NULL};
}
