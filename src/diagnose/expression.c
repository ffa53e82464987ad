// expression.c -- see expression.h.
#include "diagnose/expression.h"

#include "base/alloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

// Calls of the matcher for one line. A line of a log needs some thousand.
enum { EFFORT = 200000 };

struct expression {
    pcre2_code *code;
    pcre2_match_data *match;
    pcre2_match_context *context;
};

void expression_close(expression *x)
{
    if (!x) return;
    pcre2_match_data_free(x->match);
    pcre2_match_context_free(x->context);
    pcre2_code_free(x->code);
    free(x);
}

status expression_open(const char *source, expression **out, err *e)
{
    status result = OK;
    expression *x = NULL;
    int code;
    PCRE2_SIZE offset;
    TRY(alloc_zeroed(&x, 1, sizeof *x, "a log's patterns", e));
    x->code = pcre2_compile((PCRE2_SPTR)source, PCRE2_ZERO_TERMINATED, PCRE2_DOLLAR_ENDONLY, &code,
                            &offset, NULL);
    if (!x->code) {
        PCRE2_UCHAR why[160];
        pcre2_get_error_message(code, why, sizeof why);
        FAIL(E_INTERNAL, "the pattern \"%s\" does not compile at %zu: %s", source, (size_t)offset,
             (const char *)why);
    }
    x->match = pcre2_match_data_create_from_pattern(x->code, NULL);
    x->context = pcre2_match_context_create(NULL);
    if (!x->match || !x->context) FAIL(E_MEMORY, "no memory for a log's patterns");
    pcre2_set_match_limit(x->context, EFFORT);
    pcre2_jit_compile(x->code, PCRE2_JIT_COMPLETE); // without it matching is slower
    *out = x;
    x = NULL;
done:
    expression_close(x);
    return result;
}

// The table of names: two bytes of the group's number, then the name.
static void take_groups(const expression *x, const PCRE2_SIZE *span, expression_match *out)
{
    uint32_t count = 0, bytes = 0;
    PCRE2_SPTR names = NULL;
    pcre2_pattern_info(x->code, PCRE2_INFO_NAMECOUNT, &count);
    pcre2_pattern_info(x->code, PCRE2_INFO_NAMEENTRYSIZE, &bytes);
    if (count) pcre2_pattern_info(x->code, PCRE2_INFO_NAMETABLE, &names);
    const uint32_t set = pcre2_get_ovector_count(x->match);
    for (uint32_t i = 0; i < count && out->count < EXPRESSION_GROUPS; i++, names += bytes) {
        const uint32_t number = (uint32_t)names[0] << 8 | names[1];
        if (number >= set || span[2 * number] == PCRE2_UNSET) continue;
        expression_group *g = &out->group[out->count++];
        snprintf(g->name, sizeof g->name, "%s", (const char *)names + 2);
        g->begin = span[2 * number];
        g->end = span[2 * number + 1];
    }
}

bool expression_find(const expression *x, const char *line, size_t bytes, expression_match *out)
{
    if (pcre2_match(x->code, (PCRE2_SPTR)line, bytes, 0, 0, x->match, x->context) < 0) return false;
    if (!out) return true;
    const PCRE2_SIZE *span = pcre2_get_ovector_pointer(x->match);
    *out = (expression_match){.begin = span[0], .end = span[1]};
    take_groups(x, span, out);
    return true;
}
