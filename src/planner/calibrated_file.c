// calibrated_file.c -- reads and writes machine files. See calibrated_file.h.
#include "planner/calibrated_file.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FORMAT = 1 };

// ---- Reading

static status read_count(const json_t *root, const char *key, int *out, err *e)
{
    const json_t *v = json_object_get(root, key);
    if (!json_is_integer(v) || json_integer_value(v) < 1 || json_integer_value(v) > INT32_MAX)
        return err_set(e, E_USAGE, "%s: valid is a whole number from 1 on", key);
    *out = (int)json_integer_value(v);
    return OK;
}

static status read_name(const json_t *root, const char *key, char out[CALIBRATED_NAME], err *e)
{
    const char *s = json_string_value(json_object_get(root, key));
    if (!s) return err_set(e, E_USAGE, "%s: valid is a text", key);
    snprintf(out, CALIBRATED_NAME, "%.*s", TEXT_CUT(s, CALIBRATED_NAME - 1));
    return OK;
}

static status read_number(const json_t *section, const char *where, const char *key, double least,
                          double *out, err *e)
{
    const json_t *v = json_object_get(section, key);
    *out = json_number_value(v);
    if (json_is_number(v) && *out >= least) return OK;
    return err_set(e, E_USAGE, "%s.%s: valid is a number from %g on", where, key, least);
}

static status read_does(const json_t *root, calibrated_host *out, err *e)
{
    status result = OK;
    const json_t *const host = json_object_get(root, "host"), *const files =
                                                                  json_object_get(root, "files");
    TRY(read_number(host, "host", "step_s", 0, &out->step_s, e));
    TRY(read_number(host, "host", "factor", 0.01, &out->factor, e));
    TRY(read_number(host, "host", "copy_bytes_per_s", 1, &out->copy_bytes_per_s, e));
    TRY(read_number(files, "files", "read_bytes_per_s", 0, &out->read_bytes_per_s, e));
    TRY(read_number(files, "files", "write_bytes_per_s", 0, &out->write_bytes_per_s, e));
done:
    return result;
}

static status read_root(const json_t *root, calibrated_file *out, err *e)
{
    status result = OK;
    const json_t *const format = json_object_get(root, "format");
    if (!json_is_object(root)) FAIL(E_USAGE, "valid is one object, as `bench calibrate` writes it");
    if (json_integer_value(format) != FORMAT)
        FAIL(E_USAGE, "format: found %lld; valid is %d, of a file that `bench calibrate` wrote",
             (long long)json_integer_value(format), FORMAT);
    TRY(read_name(root, "measured_on", out->host, e));
    TRY(read_name(root, "cpu", out->cpu, e));
    TRY(read_name(root, "version", out->version, e));
    TRY(read_name(root, "date", out->date, e));
    TRY(read_count(root, "ranks", &out->ranks, e));
    TRY(read_count(root, "threads", &out->threads, e));
    TRY(read_count(root, "cores", &out->cores, e));
    TRY(kernel_rates_read(json_object_get(root, "kernels"), &out->kernels, e));
    TRY(comm_rates_read(json_object_get(root, "calls"), &out->calls, e));
    TRY(read_does(root, &out->does, e));
done:
    return result;
}

status calibrated_file_read(const char *path, calibrated_file *out, err *e)
{
    status result = OK;
    char *chars = NULL;
    size_t bytes = 0;
    json_error_t problem;
    json_t *root = NULL;
    *out = (calibrated_file){.ranks = 0};
    TRY(file_read_small(path, FILE_MOST_CONFIG, &chars, &bytes, e));
    root = json_loadb(chars, bytes, JSON_REJECT_DUPLICATES, &problem);
    if (!root) FAIL(E_USAGE, "%s:%d: no JSON: %s", path, problem.line, problem.text);
    result = read_root(root, out, e);
    if (result != OK) err_prefix(e, "%s: ", path);
done:
    json_decref(root);
    free(chars);
    return result;
}

// ---- Writing

static json_t *write_root(const calibrated_file *f)
{
    const calibrated_host *d = &f->does;
    return json_pack("{s:i,s:s,s:s,s:s,s:s,s:i,s:i,s:i,s:{s:f,s:f,s:f},s:{s:f,s:f},s:o,s:o}",
                     "format", FORMAT, "measured_on", f->host, "cpu", f->cpu, "version", f->version,
                     "date", f->date, "ranks", f->ranks, "threads", f->threads, "cores", f->cores,
                     "host", "step_s", d->step_s, "factor", d->factor, "copy_bytes_per_s",
                     d->copy_bytes_per_s, "files", "read_bytes_per_s", d->read_bytes_per_s,
                     "write_bytes_per_s", d->write_bytes_per_s, "kernels",
                     kernel_rates_write(&f->kernels), "calls", comm_rates_write(&f->calls));
}

status calibrated_file_write(const calibrated_file *f, const char *path, err *e)
{
    status result = OK;
    json_t *root = write_root(f);
    char *chars = root ? json_dumps(root, JSON_INDENT(1)) : NULL;
    if (!chars) {
        result = alloc_failed(0, "the machine file", e);
        goto done;
    }
    TRY(file_replace(path, chars, strlen(chars), e));
done:
    free(chars);
    json_decref(root);
    return result;
}

void calibrated_file_clear(calibrated_file *f)
{
    kernel_rates_clear(&f->kernels);
    comm_rates_clear(&f->calls);
    *f = (calibrated_file){.ranks = 0};
}
