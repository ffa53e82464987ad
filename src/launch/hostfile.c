// hostfile.c -- see hostfile.h.
#include "launch/hostfile.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_BYTES = 1 << 20 };

static hostfile_host *find_host(const hostfile *f, const char *name)
{
    for (int i = 0; i < f->count; i++)
        if (strcmp(f->hosts[i].name, name) == 0) return &f->hosts[i];
    return NULL;
}

static status add_host(hostfile *f, const char *name, int slots, err *e)
{
    status result = OK;
    TRY(alloc_grow(&f->hosts, &f->room, (size_t)f->count + 1, sizeof *f->hosts, "a list of hosts",
                   e));
    hostfile_host *h = &f->hosts[f->count++];
    *h = (hostfile_host){.slots = slots};
    snprintf(h->name, sizeof h->name, "%s", name);
    memset(h->takes, true, (size_t)slots);
done:
    return result;
}

// "name slots=4", already without a comment.
static status read_line(hostfile *f, const char *path, int number, char *line, err *e)
{
    status result = OK;
    char *rest = NULL;
    int64_t slots = 0;
    const char *name = strtok_r(line, " \t\r", &rest), *word = strtok_r(NULL, " \t\r", &rest);
    if (!name) return OK;
    if (!word || strncmp(word, "slots=", 6) != 0 || !text_to_count(word + 6, &slots) || slots < 1 ||
        slots > HOSTFILE_SLOTS || strtok_r(NULL, " \t\r", &rest))
        FAIL(E_USAGE, "%s: line %d: valid is \"HOST slots=N\", N from 1 to %d", path, number,
             HOSTFILE_SLOTS);
    if (strlen(name) >= NET_HOST_BYTES || name[0] == '-')
        FAIL(E_USAGE, "%s: line %d: \"%.*s\" is no name of a host", path, number,
             TEXT_CUT(name, 32));
    if (find_host(f, name))
        FAIL(E_USAGE, "%s: line %d: host %s is there twice", path, number, name);
    if (f->count == HOSTFILE_HOSTS) FAIL(E_USAGE, "%s: more than %d hosts", path, HOSTFILE_HOSTS);
    TRY(add_host(f, name, (int)slots, e));
done:
    return result;
}

status hostfile_read(const char *path, hostfile *out, err *e)
{
    status result = OK;
    char *chars = NULL;
    size_t bytes = 0;
    *out = (hostfile){0};
    TRY(file_read_small(path, FILE_BYTES, &chars, &bytes, e));
    int number = 1;
    for (char *line = chars, *next; line; line = next, number++) {
        next = strchr(line, '\n');
        if (next) *next++ = 0;
        line[strcspn(line, "#")] = 0;
        TRY(read_line(out, path, number, line, e));
    }
    if (out->count == 0) FAIL(E_USAGE, "%s: no host; valid are lines \"HOST slots=N\"", path);
done:
    free(chars);
    return result;
}

status hostfile_make(const char *name, int slots, hostfile *out, err *e)
{
    *out = (hostfile){0};
    return add_host(out, name, slots, e);
}

// Marks the slots that one word of a filter, "host:0,2" or "host", names.
static status mark(const hostfile *f, char *word, bool (*marks)[HOSTFILE_SLOTS], err *e)
{
    status result = OK;
    char *rest = NULL, *colon = strchr(word, ':');
    if (colon) *colon++ = 0;
    const hostfile_host *h = find_host(f, word);
    if (!h) FAIL(E_USAGE, "host \"%s\" of the filter is not in the list of hosts", word);
    bool *marked = marks[h - f->hosts];
    if (!colon) memset(marked, true, (size_t)h->slots);
    for (char *part = colon ? strtok_r(colon, ",", &rest) : NULL; part;
         part = strtok_r(NULL, ",", &rest)) {
        int64_t slot = 0;
        if (!text_to_count(part, &slot) || slot >= h->slots)
            FAIL(E_USAGE, "host %s has no slot \"%s\"; valid are 0 to %d", word, part,
                 h->slots - 1);
        marked[slot] = true;
    }
done:
    return result;
}

// Hosts without a slot are left out.
static void drop_empty(hostfile *f)
{
    int kept = 0;
    for (int i = 0; i < f->count; i++)
        if (hostfile_taken(&f->hosts[i]) > 0) f->hosts[kept++] = f->hosts[i];
    f->count = kept;
}

static status filter(hostfile *f, const char *words, bool keeps, err *e)
{
    status result = OK;
    bool(*marks)[HOSTFILE_SLOTS] = NULL;
    char *copy = NULL, *rest = NULL;
    TRY(alloc_zeroed(&marks, (size_t)f->count, sizeof *marks, "a list of slots", e));
    TRY(text_copy(words, &copy, e));
    for (char *word = strtok_r(copy, "@", &rest); word; word = strtok_r(NULL, "@", &rest))
        TRY(mark(f, word, marks, e));
    for (int i = 0; i < f->count; i++)
        for (int s = 0; s < f->hosts[i].slots; s++)
            if (marks[i][s] != keeps) f->hosts[i].takes[s] = false;
    drop_empty(f);
    if (f->count == 0) FAIL(E_USAGE, "the filter \"%s\" leaves no slot", words);
done:
    free(marks);
    free(copy);
    return result;
}

status hostfile_include(hostfile *f, const char *words, err *e)
{
    return filter(f, words, true, e);
}

status hostfile_exclude(hostfile *f, const char *words, err *e)
{
    return filter(f, words, false, e);
}

status hostfile_keep_first(hostfile *f, int64_t hosts, int64_t slots, err *e)
{
    if (hosts > f->count || hosts == 0)
        return err_set(e, E_USAGE, "--num-nodes: found %lld; the list has %d hosts",
                       (long long)hosts, f->count);
    if (hosts > 0) f->count = (int)hosts;
    for (int i = 0; i < f->count && slots >= 0; i++) {
        hostfile_host *h = &f->hosts[i];
        int kept = 0;
        if (slots == 0 || slots > hostfile_taken(h))
            return err_set(e, E_USAGE, "--num-gpus: found %lld; host %s has %d slots",
                           (long long)slots, h->name, hostfile_taken(h));
        for (int s = 0; s < h->slots; s++)
            if (h->takes[s] && kept++ >= slots) h->takes[s] = false;
    }
    return OK;
}

int hostfile_taken(const hostfile_host *h)
{
    int taken = 0;
    for (int s = 0; s < h->slots; s++) taken += h->takes[s];
    return taken;
}

void hostfile_close(hostfile *f)
{
    free(f->hosts);
    *f = (hostfile){0};
}
