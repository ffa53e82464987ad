// ckpt_manifest.c -- writes and checks trireme/manifest.json, which lists the files of a checkpoint
// with their sizes and checksums. A save writes it last; ckpt_verify checks it before anything is
// loaded. It does not know what is in the files.
//
//   KEY                TYPE     VALUE
//   format             string   "trireme checkpoint"
//   version            integer  2; version 1 has no manifest_xxh3_64
//   step               integer  the checkpoint's step
//   files              list     an object for each file:
//     path             string   relative to the checkpoint's folder, without ".."
//     bytes            integer  size of the file
//     xxh3_64          string   XXH3-64 of the file, 16 hexadecimal digits
//   manifest_xxh3_64   string   XXH3-64 of the manifest, 16 hexadecimal digits
//
// The manifest's own checksum covers all bytes of manifest.json with 16 zeros in place of that
// checksum. Checked: the version, this checksum, that the files without which a run cannot resume are
// listed, and the size and checksum of every listed file.
#include "base/file.h"
#include "ckpt/ckpt_files.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <xxhash.h>

status ckpt_json_open(const char *path, json_t **out, err *e)
{
    status result = OK;
    char *content = NULL;
    size_t bytes;
    json_error_t problem;
    TRY(file_read_small(path, FILE_MOST_TABLE, &content, &bytes, e));
    json_t *root = json_loadb(content, bytes, JSON_REJECT_DUPLICATES, &problem);
    if (!root) FAIL(E_USAGE, "%s:%d:%d: not valid JSON", path, problem.line, problem.column);
    if (!json_is_object(root)) {
        json_decref(root);
        FAIL(E_USAGE, "%s: not a JSON object", path);
    }
    *out = root;
done:
    free(content);
    return result;
}

status ckpt_manifest_add(json_t *files, const char *folder, const char *path, uint64_t hash, err *e)
{
    status result = OK;
    char hex[24], *full = NULL;
    struct stat info;
    TRY(file_join(folder, path, &full, e));
    if (stat(full, &info) != 0) {
        result = err_errno(e, "cannot read the size of %s", full);
        goto done;
    }
    snprintf(hex, sizeof hex, "%016" PRIx64, hash);
    json_array_append_new(files, json_pack("{s:s, s:I, s:s}", "path", path, "bytes",
                                           (json_int_t)info.st_size, "xxh3_64", hex));
done:
    free(full);
    return result;
}

#define OWN_HASH "manifest_xxh3_64"
enum { VERSION = 2, DIGITS = 16 };

// Finds the digits of the manifest's own checksum. NULL when there are none.
static char *own_digits(char *json)
{
    static const char before[] = "\"" OWN_HASH "\": \"";
    char *key = strstr(json, before);
    char *digits = key ? key + sizeof before - 1 : NULL;
    return digits && strspn(digits, "0123456789abcdef") == DIGITS ? digits : NULL;
}

// Sets the digits in `json` to zeros and computes its checksum.
static void own_hash(char *json, size_t bytes, char *digits, char hex[DIGITS + 1])
{
    memset(digits, '0', DIGITS);
    snprintf(hex, DIGITS + 1, "%016" PRIx64, (uint64_t)XXH3_64bits(json, bytes));
}

status ckpt_manifest_write(const json_t *files, const char *folder, int64_t step, err *e)
{
    status result = OK;
    char hex[DIGITS + 1], *path = NULL, *json = NULL;
    json_t *root = NULL;
    TRY(file_join(folder, CKPT_MANIFEST, &path, e));
    root =
        json_pack("{s:s, s:i, s:I, s:O, s:s}", "format", "trireme checkpoint", "version", VERSION,
                  "step", (json_int_t)step, "files", files, OWN_HASH, "0000000000000000");
    json = json_dumps(root, JSON_INDENT(1));
    char *digits = json ? own_digits(json) : NULL;
    if (!digits) FAIL(E_MEMORY, "%s: out of memory", path);
    own_hash(json, strlen(json), digits, hex);
    memcpy(digits, hex, DIGITS);
    TRY(file_replace(path, json, strlen(json), e));
done:
    free(json);
    json_decref(root);
    free(path);
    return result;
}

// Returns whether a path of the manifest stays inside the folder.
static bool is_inside(const char *path)
{
    return path[0] && path[0] != '/' && !strstr(path, "..");
}

static status verify_file(const char *folder, const json_t *entry, err *e)
{
    status result = OK;
    char *full = NULL, hex[24];
    file_map map = {0};
    const char *path = json_string_value(json_object_get(entry, "path"));
    const char *hash = json_string_value(json_object_get(entry, "xxh3_64"));
    const json_t *bytes = json_object_get(entry, "bytes");
    if (!path || !hash || !json_is_integer(bytes) || !is_inside(path))
        FAIL(E_USAGE, "%s/%s: an entry is not {path, bytes, xxh3_64}", folder, CKPT_MANIFEST);
    TRY(file_join(folder, path, &full, e));
    TRY(file_map_open(full, &map, e));
    if (map.bytes != (uint64_t)json_integer_value(bytes))
        FAIL(E_USAGE, "%s: %zu bytes long, but it was saved with %" JSON_INTEGER_FORMAT, full,
             map.bytes, json_integer_value(bytes));
    snprintf(hex, sizeof hex, "%016" PRIx64, (uint64_t)XXH3_64bits(map.ptr, map.bytes));
    if (strcmp(hex, hash))
        FAIL(E_USAGE, "%s: its checksum is %s, but it was saved with %s", full, hex, hash);
done:
    file_unmap(&map);
    free(full);
    return result;
}

static bool lists(const json_t *files, const char *path)
{
    for (size_t i = 0; i < json_array_size(files); i++) {
        const char *one = json_string_value(json_object_get(json_array_get(files, i), "path"));
        if (one && strcmp(one, path) == 0) return true;
    }
    return false;
}

// Checks that the list has the files without which a run cannot resume.
static status check_complete(const char *folder, const json_t *files, err *e)
{
    status result = OK;
    const bool adapter = lists(files, CKPT_ADAPTER_CONFIG);
    const char *const needed[] = {adapter ? CKPT_ADAPTER_CONFIG : "config.json", CKPT_STATE_JSON,
                                  CKPT_STATE_TENSORS};
    for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++)
        if (!lists(files, needed[i]))
            FAIL(E_USAGE, "%s/%s: does not list %s", folder, CKPT_MANIFEST, needed[i]);
    if (adapter && !lists(files, CKPT_ADAPTER_WEIGHTS))
        FAIL(E_USAGE, "%s/%s: does not list %s", folder, CKPT_MANIFEST, CKPT_ADAPTER_WEIGHTS);
    if (!adapter && !lists(files, "model.safetensors") &&
        !lists(files, "model.safetensors.index.json"))
        FAIL(E_USAGE, "%s/%s: does not list model.safetensors or its index", folder, CKPT_MANIFEST);
done:
    return result;
}

// Checks the manifest's own checksum.
static status check_own_hash(const char *path, int64_t version, err *e)
{
    status result = OK;
    char *json = NULL, saved[DIGITS + 1] = "", hex[DIGITS + 1];
    size_t bytes;
    TRY(file_read(path, &json, &bytes, e));
    char *digits = own_digits(json);
    if (!digits && version == 1) goto done;
    if (!digits) FAIL(E_USAGE, "%s: its own checksum, %s, is missing", path, OWN_HASH);
    memcpy(saved, digits, DIGITS);
    own_hash(json, bytes, digits, hex);
    if (strcmp(hex, saved))
        FAIL(E_USAGE, "%s: its checksum is %s, but it was saved with %s", path, hex, saved);
done:
    free(json);
    return result;
}

status ckpt_verify(const char *folder, err *e)
{
    status result = OK;
    json_t *root = NULL;
    char *path = NULL;
    TRY(file_join(folder, CKPT_MANIFEST, &path, e));
    if (file_is_directory(folder) && !file_exists(path))
        FAIL(E_USAGE, "%s: not a checkpoint of Trireme, it has no %s", folder, CKPT_MANIFEST);
    TRY(ckpt_json_open(path, &root, e));
    const int64_t version = json_integer_value(json_object_get(root, "version"));
    if (version < 1 || version > VERSION)
        FAIL(E_USAGE, "%s: version: valid are 1 and 2 (saved by another version of Trireme?)",
             path);
    TRY(check_own_hash(path, version, e));
    const json_t *files = json_object_get(root, "files");
    TRY(check_complete(folder, files, e));
    for (size_t i = 0; i < json_array_size(files); i++)
        TRY(verify_file(folder, json_array_get(files, i), e));
done:
    json_decref(root);
    free(path);
    return result;
}
