// tokenizer_pattern.c -- compiles and runs patterns with PCRE2. tokenizer_split.c calls it to split
// text into words, tokenizer_added.c for tokens that are whole words. tokenizer_regex.c rewrites the
// syntax. It does not know tokens.
#include "data/tokenizer/tokenizer_pattern.h"

#include "base/alloc.h"

#include <stdlib.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

const char tokenizer_pattern_gpt2[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|"
    "\\s+(?!\\S)|\\s+";
const char tokenizer_pattern_llama3[] =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+"
    "[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

enum { JIT_STACK_FIRST = 32 * 1024, JIT_STACK_MOST = 16 * 1024 * 1024 }; // bytes

struct tokenizer_pattern {
    pcre2_code *code;
    bool jit; // false where PCRE2 has no JIT compiler; matching is slower then
};

struct tokenizer_pattern_workspace {
    pcre2_match_data *match;
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
};

void tokenizer_pattern_close(tokenizer_pattern *p)
{
    if (!p) return;
    pcre2_code_free(p->code);
    free(p);
}

status tokenizer_pattern_open(const char *source, tokenizer_pattern **out, err *e)
{
    status result = OK;
    text rewritten = {0};
    pcre2_compile_context *context = NULL;
    tokenizer_pattern *p = NULL;
    TRY(alloc_zeroed(&p, 1, sizeof *p, "a pattern", e));
    TRY(tokenizer_pattern_translate(source, &rewritten, e));
    context = pcre2_compile_context_create(NULL);
    if (!context) FAIL(E_MEMORY, "out of memory");
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    int code;
    PCRE2_SIZE offset;
    p->code = pcre2_compile((PCRE2_SPTR)rewritten.chars, rewritten.bytes,
                            PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NO_UTF_CHECK, &code,
                            &offset, context);
    if (!p->code) {
        PCRE2_UCHAR why[160];
        pcre2_get_error_message(code, why, sizeof why);
        FAIL(E_USAGE, "the pattern \"%s\" does not compile: %s", source, (const char *)why);
    }
    p->jit = pcre2_jit_compile(p->code, PCRE2_JIT_COMPLETE) == 0;
    *out = p;
    p = NULL;
done:
    tokenizer_pattern_close(p);
    pcre2_compile_context_free(context);
    text_clear(&rewritten);
    return result;
}

void tokenizer_pattern_workspace_close(tokenizer_pattern_workspace *w)
{
    if (!w) return;
    pcre2_match_data_free(w->match);
    pcre2_match_context_free(w->context);
    pcre2_jit_stack_free(w->stack);
    free(w);
}

status tokenizer_pattern_workspace_open(tokenizer_pattern_workspace **out, err *e)
{
    status result = OK;
    tokenizer_pattern_workspace *w = NULL;
    TRY(alloc_zeroed(&w, 1, sizeof *w, "a pattern", e));
    w->match = pcre2_match_data_create(1, NULL);
    w->context = pcre2_match_context_create(NULL);
    w->stack = pcre2_jit_stack_create(JIT_STACK_FIRST, JIT_STACK_MOST, NULL);
    if (!w->match || !w->context || !w->stack) FAIL(E_MEMORY, "out of memory");
    pcre2_jit_stack_assign(w->context, NULL, w->stack);
    *out = w;
    w = NULL;
done:
    tokenizer_pattern_workspace_close(w);
    return result;
}

status tokenizer_pattern_find(const tokenizer_pattern *p, tokenizer_pattern_workspace *w,
                              const char *string, size_t bytes, size_t from, bool *found,
                              size_t *start, size_t *end, err *e)
{
    int code =
        p->jit ? pcre2_jit_match(p->code, (PCRE2_SPTR)string, bytes, from, 0, w->match, w->context)
               : pcre2_match(p->code, (PCRE2_SPTR)string, bytes, from, PCRE2_NO_UTF_CHECK, w->match,
                             w->context);
    *found = code >= 0;
    if (code < 0 && code != PCRE2_ERROR_NOMATCH) {
        PCRE2_UCHAR why[160];
        pcre2_get_error_message(code, why, sizeof why);
        return err_set(e, E_USAGE, "the tokenizer's pattern fails on this text: %s",
                       (const char *)why);
    }
    if (*found) {
        const PCRE2_SIZE *span = pcre2_get_ovector_pointer(w->match);
        *start = span[0];
        *end = span[1];
    }
    return OK;
}
