// check.c -- `trireme translate --check`: the temporary folder, and the order of the two runs. See check.h.
#include "cmd/check/check.h"

#include "base/alloc.h"
#include "base/file.h"
#include "cmd/cmd.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static status open_folder(check *c, err *e)
{
    status result = OK;
    const char *given = getenv("TMPDIR");
    text name = {0};
    text_addf(&name, "%s/trireme-check.XXXXXX", given && *given ? given : "/tmp");
    TRY(text_take(&name, &c->folder, e));
    if (mkdtemp(c->folder)) goto done;
    result = err_errno(e, "cannot make a folder in %s", given && *given ? given : "/tmp");
    free(c->folder);
    c->folder = NULL;
done:
    text_clear(&name);
    return result;
}

static status open_check(check *c, err *e)
{
    status result = OK;
    void *shared =
        mmap(NULL, sizeof *c->own, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) return alloc_failed(sizeof *c->own, "the steps of a check", e);
    c->own = shared;
    TRY(alloc_zeroed(&c->original, 1, sizeof *c->original, "the steps of a check", e));
    TRY(open_folder(c, e));
done:
    return result;
}

// The first failure counts.
static status close_check(check *c, status result, err *e)
{
    err late = {.code = OK};
    if (c->folder && file_remove_tree(c->folder, &late) != OK && result == OK)
        result = late.code, *e = late;
    if (c->own) munmap(c->own, sizeof *c->own);
    json_decref(c->request);
    free(c->original);
    free(c->folder);
    text_clear(&c->versions);
    text_clear(&c->notes);
    text_clear(&c->cannot);
    return result;
}

// Asks first whether the packages are there, which takes no time.
static status probe(check *c, err *e)
{
    status result = OK;
    c->request = json_pack("{s:s}", "system", c->q->from);
    if (!c->request) FAIL(E_MEMORY, "no memory for the request of the original");
    TRY(check_run_original(c, 1, "probe", e));
    json_decref(c->request);
    c->request = NULL;
done:
    return result;
}

static status compare(check *c, int *code, err *e)
{
    status result = OK;
    bool same = false;
    TRY(open_check(c, e));
    TRY(probe(c, e));
    if (!c->cannot.bytes) {
        TRY(check_run_own(c, e));
        TRY(check_run_original(c, c->ranks, NULL, e));
    }
    if (c->cannot.bytes)
        TRY(check_report_cannot(c, e));
    else
        TRY(check_report(c, &same, e));
    *code = c->cannot.bytes ? 2 : same ? 0 : 1;
done:
    return result;
}

int check_run(const check_request *q)
{
    err error = {0}, *e = &error;
    int code = 0;
    check c = {.q = q, .of = dialect_find(q->from)};
    const status result = close_check(&c, compare(&c, &code, e), e);
    return result == OK ? code : cmd_fail(e);
}
