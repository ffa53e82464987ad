// parse.c -- reads the statements of a template into the tree. parse_expression.c reads what they compute. An unknown
// statement, filter or test is an error here, so a template that opens has none.
#include "jinja/parse.h"

#include "base/text.h"

#include <string.h>

// ---- Tokens and nodes

bool parse_is_op(const jinja_parser *p, int op)
{
    return p->token->kind == TOKEN_OPERATOR && p->token->op == op;
}

bool parse_is_name(const jinja_parser *p, const char *name)
{
    return p->token->kind == TOKEN_NAME && strcmp(p->token->chars, name) == 0;
}

bool parse_skip_op(jinja_parser *p, int op)
{
    const bool is = parse_is_op(p, op);
    p->token += is;
    return is;
}

bool parse_skip_name(jinja_parser *p, const char *name)
{
    const bool is = parse_is_name(p, name);
    p->token += is;
    return is;
}

status parse_unexpected(jinja_parser *p, const char *expected, err *e)
{
    char found[200];
    jinja_describe_token(p->token, found, sizeof found);
    p->line = p->token->line;
    return err_set(e, E_USAGE, "%s stands where %s is expected", found, expected);
}

status parse_expect(jinja_parser *p, jinja_token_kind kind, const char *what, err *e)
{
    if (p->token->kind != kind) return parse_unexpected(p, what, e);
    p->token++;
    return OK;
}

status parse_expect_op(jinja_parser *p, int op, err *e)
{
    const char what[] = {'\'', (char)op, '\'', 0};
    if (!parse_is_op(p, op)) return parse_unexpected(p, what, e);
    p->token++;
    return OK;
}

status parse_node(jinja_parser *p, jinja_node_kind kind, jinja_node **out, err *e)
{
    status result = OK;
    TRY(jinja_take(&p->t->memory, out, sizeof **out, e));
    (*out)->kind = kind;
    (*out)->line = p->token->line;
done:
    return result;
}

status parse_node_of(jinja_parser *p, jinja_node_kind kind, jinja_node *a, jinja_node **out, err *e)
{
    status result = OK;
    TRY(parse_node(p, kind, out, e));
    (*out)->a = a;
done:
    return result;
}

void parse_append(jinja_node ***end, jinja_node *n)
{
    **end = n;
    *end = &n->next;
}

typedef struct parse_given {
    const struct jinja *t;
    const char *name;
} parse_given;

static bool is_this(const void *given, int number)
{
    const parse_given *g = given;
    return strcmp(g->t->names[number], g->name) == 0;
}

status parse_name(jinja_parser *p, const char *name, int *out, err *e)
{
    status result = OK;
    struct jinja *t = p->t;
    const uint64_t hash = lookup_hash(name, strlen(name));
    *out = lookup_find(&p->names, hash, is_this, &(parse_given){t, name});
    if (*out >= 0) goto done;
    if (t->name_count == t->name_room) {
        const char **more = NULL;
        const size_t room = t->name_room ? 2 * t->name_room : 32;
        TRY(jinja_take(&t->memory, &more, room * sizeof *more, e));
        if (t->name_count) memcpy(more, t->names, t->name_count * sizeof *more);
        t->names = more;
        t->name_room = room;
    }
    *out = (int)t->name_count;
    TRY(lookup_add(&p->names, hash, *out, e));
    t->names[t->name_count++] = name;
done:
    return result;
}

status parse_take_name(jinja_parser *p, jinja_node *n, err *e)
{
    status result = OK;
    n->text = p->token->chars;
    n->bytes = p->token->bytes;
    TRY(parse_expect(p, TOKEN_NAME, "a name", e));
    TRY(parse_name(p, n->text, &n->name, e));
done:
    return result;
}

// ---- Targets

static status parse_one_target(jinja_parser *p, bool fields, jinja_node **out, err *e)
{
    static const char *const WORDS[] = {"true", "false", "none", "True", "False", "None"};
    status result = OK;
    jinja_node *n = NULL;
    if (parse_skip_op(p, '(')) {
        TRY(parse_target(p, fields, out, e));
        TRY(parse_expect_op(p, ')', e));
        goto done;
    }
    for (size_t i = 0; i < sizeof WORDS / sizeof *WORDS; i++)
        if (parse_is_name(p, WORDS[i])) FAIL(E_USAGE, "'%s' cannot be set", WORDS[i]);
    TRY(parse_node(p, JINJA_NODE_NAME, &n, e));
    TRY(parse_take_name(p, n, e));
    *out = n;
    if (!fields || !parse_skip_op(p, '.')) goto done;
    TRY(parse_node(p, JINJA_NODE_ATTRIBUTE, out, e));
    (*out)->a = n;
    (*out)->text = p->token->chars;
    (*out)->bytes = p->token->bytes;
    TRY(parse_expect(p, TOKEN_NAME, "a name", e));
done:
    return result;
}

status parse_target(jinja_parser *p, bool fields, jinja_node **out, err *e)
{
    status result = OK;
    jinja_node *n = NULL, **end;
    if (++p->depth > PARSE_DEPTH_MOST) FAIL(E_USAGE, "targets are nested too deeply");
    TRY(parse_one_target(p, fields, out, e));
    if (!parse_is_op(p, ',')) goto done;
    TRY(parse_node(p, JINJA_NODE_TUPLE, &n, e));
    n->first = *out;
    end = &n->first->next;
    while (parse_skip_op(p, ',')) {
        if (parse_is_name(p, "in") || parse_is_op(p, '=') || parse_is_op(p, ')') ||
            p->token->kind == TOKEN_BLOCK_END)
            break;
        TRY(parse_one_target(p, fields, end, e));
        end = &(*end)->next;
    }
    *out = n;
done:
    p->depth--;
    return result;
}

// ---- Statements

static status parse_body(jinja_parser *p, const char *const *ends, jinja_node **first, err *e);

// The end of a statement and its body, up to the name of the statement that ends it.
static status parse_block(jinja_parser *p, const char *const *ends, jinja_node **first, err *e)
{
    status result = OK;
    (void)parse_skip_op(p, ':');
    TRY(parse_expect(p, TOKEN_BLOCK_END, "'%}'", e));
    TRY(parse_body(p, ends, first, e));
done:
    return result;
}

// The same for a body whose text is taken, so it has no jumps out of it, through the name of its end.
static status parse_taken(jinja_parser *p, const char *const *ends, jinja_node **first, err *e)
{
    status result = OK;
    const int loops = p->loops;
    p->loops = 0;
    TRY(parse_block(p, ends, first, e));
    p->loops = loops;
    p->token++;
done:
    return result;
}

static status parse_if(jinja_parser *p, jinja_node *n, err *e)
{
    static const char *const ENDS[] = {"elif", "else", "endif", NULL};
    status result = OK;
    p->conditions++;
    for (;;) {
        TRY(parse_tuple(p, false, &n->a, e));
        TRY(parse_block(p, ENDS, &n->body, e));
        if (!parse_skip_name(p, "elif")) break;
        TRY(parse_node(p, JINJA_NODE_IF, &n->other, e));
        n = n->other;
    }
    if (parse_skip_name(p, "else")) TRY(parse_block(p, ENDS + 2, &n->other, e));
    p->conditions--;
    TRY(parse_is_name(p, "endif") ? OK : parse_unexpected(p, "'endif'", e));
    p->token++;
done:
    return result;
}

static status parse_for(jinja_parser *p, jinja_node *n, err *e)
{
    static const char *const ENDS[] = {"else", "endfor", NULL};
    status result = OK;
    n->kind = JINJA_NODE_FOR;
    TRY(parse_target(p, false, &n->a, e));
    if (!parse_skip_name(p, "in")) TRY(parse_unexpected(p, "'in'", e));
    TRY(parse_tuple(p, false, &n->b, e));
    if (parse_skip_name(p, "if")) TRY(parse_expression(p, &n->c, e));
    TRY(parse_name(p, "loop", &n->name, e));
    if (parse_is_name(p, "recursive")) FAIL(E_USAGE, "recursive loops are not supported");
    p->loops++;
    TRY(parse_block(p, ENDS, &n->body, e));
    p->loops--;
    if (parse_skip_name(p, "else")) TRY(parse_block(p, ENDS + 1, &n->other, e));
    TRY(parse_is_name(p, "endfor") ? OK : parse_unexpected(p, "'endfor'", e));
    p->token++;
done:
    return result;
}

static status parse_set(jinja_parser *p, jinja_node *n, err *e)
{
    static const char *const ENDS[] = {"endset", NULL};
    status result = OK;
    n->kind = JINJA_NODE_SET;
    TRY(parse_target(p, true, &n->a, e));
    if (parse_skip_op(p, '=')) {
        TRY(parse_tuple(p, true, &n->b, e));
        goto done;
    }
    n->kind = JINJA_NODE_SET_BLOCK;
    if (parse_is_op(p, '|')) {
        TRY(parse_node(p, JINJA_NODE_BLOCK, &n->b, e));
        TRY(parse_filters(p, false, &n->b, e));
    }
    TRY(parse_taken(p, ENDS, &n->body, e));
done:
    return result;
}

static status parse_signature(jinja_parser *p, jinja_node *n, err *e)
{
    status result = OK;
    jinja_node **end = &n->first;
    bool defaults = false;
    TRY(parse_expect_op(p, '(', e));
    while (!parse_is_op(p, ')')) {
        if (n->first) TRY(parse_expect_op(p, ',', e));
        TRY(parse_node(p, JINJA_NODE_PARAMETER, end, e));
        TRY(parse_take_name(p, *end, e));
        if (parse_skip_op(p, '=')) {
            defaults = true;
            TRY(parse_expression(p, &(*end)->a, e));
        } else if (defaults) {
            FAIL(E_USAGE, "parameter '%.*s' needs a default, like those before it",
                 TEXT_CUT((*end)->text, 60));
        }
        end = &(*end)->next;
    }
    TRY(parse_expect_op(p, ')', e));
done:
    return result;
}

// The body of a macro, and which of varargs, kwargs and caller stand in it.
static status parse_macro_body(jinja_parser *p, const char *const *ends, jinja_node *n, err *e)
{
    status result = OK;
    const int lists = p->lists, pairs = p->pairs, callers = p->callers;
    TRY(parse_taken(p, ends, &n->body, e));
    n->takes_list = p->lists > lists;
    n->takes_pairs = p->pairs > pairs;
    n->takes_caller = p->callers > callers;
done:
    return result;
}

static status parse_macro(jinja_parser *p, jinja_node *n, err *e)
{
    static const char *const ENDS[] = {"endmacro", NULL};
    status result = OK;
    n->kind = JINJA_NODE_MACRO;
    TRY(parse_take_name(p, n, e));
    TRY(parse_signature(p, n, e));
    TRY(parse_macro_body(p, ENDS, n, e));
done:
    return result;
}

static status parse_call(jinja_parser *p, jinja_node *n, err *e)
{
    static const char *const ENDS[] = {"endcall", NULL};
    status result = OK;
    n->kind = JINJA_NODE_CALL_BLOCK;
    TRY(parse_node(p, JINJA_NODE_MACRO, &n->b, e));
    n->b->text = "caller";
    TRY(parse_name(p, "caller", &n->b->name, e));
    if (parse_is_op(p, '(')) TRY(parse_signature(p, n->b, e));
    TRY(parse_expression(p, &n->a, e));
    if (n->a->kind != JINJA_NODE_CALL) FAIL(E_USAGE, "{%% call %%} needs a call");
    TRY(parse_macro_body(p, ENDS, n->b, e));
done:
    return result;
}

static status parse_filter_block(jinja_parser *p, jinja_node *n, err *e)
{
    static const char *const ENDS[] = {"endfilter", NULL};
    status result = OK;
    n->kind = JINJA_NODE_FILTER_BLOCK;
    TRY(parse_node(p, JINJA_NODE_BLOCK, &n->a, e));
    TRY(parse_filters(p, true, &n->a, e));
    TRY(parse_taken(p, ENDS, &n->body, e));
done:
    return result;
}

static status parse_with(jinja_parser *p, jinja_node *n, err *e)
{
    static const char *const ENDS[] = {"endwith", NULL};
    status result = OK;
    jinja_node **end = &n->first;
    n->kind = JINJA_NODE_WITH;
    while (p->token->kind != TOKEN_BLOCK_END) {
        if (n->first) TRY(parse_expect_op(p, ',', e));
        TRY(parse_one_target(p, false, end, e));
        end = &(*end)->next;
        TRY(parse_expect_op(p, '=', e));
        TRY(parse_expression(p, end, e));
        end = &(*end)->next;
    }
    TRY(parse_block(p, ENDS, &n->body, e));
    p->token++;
done:
    return result;
}

static status parse_generation(jinja_parser *p, jinja_node *n, err *e)
{
    static const char *const ENDS[] = {"endgeneration", NULL};
    status result = OK;
    n->kind = JINJA_NODE_GENERATION;
    p->t->generation = true;
    TRY(parse_taken(p, ENDS, &n->body, e));
done:
    return result;
}

static status parse_jump(jinja_parser *p, jinja_node *n, err *e)
{
    status result = OK;
    n->kind = strcmp(p->token[-1].chars, "break") == 0 ? JINJA_NODE_BREAK : JINJA_NODE_CONTINUE;
    if (!p->loops) FAIL(E_USAGE, "'%s' stands outside of a loop", p->token[-1].chars);
done:
    return result;
}

typedef struct parse_statement_row {
    const char *name;
    status (*read)(jinja_parser *p, jinja_node *n, err *e); // NULL: not supported
} parse_statement_row;

static const parse_statement_row STATEMENTS[] = {
    {"if", parse_if},      {"for", parse_for},
    {"set", parse_set},    {"macro", parse_macro},
    {"call", parse_call},  {"filter", parse_filter_block},
    {"with", parse_with},  {"generation", parse_generation},
    {"break", parse_jump}, {"continue", parse_jump},
    {"include", NULL},     {"import", NULL},
    {"from", NULL},        {"extends", NULL},
    {"block", NULL},       {"autoescape", NULL},
    {"print", NULL},
};
enum { STATEMENT_COUNT = sizeof STATEMENTS / sizeof *STATEMENTS };

static status refuse_statement(jinja_parser *p, const char *name, err *e)
{
    const char *names[STATEMENT_COUNT];
    for (int i = 0; i < STATEMENT_COUNT; i++) names[i] = STATEMENTS[i].name;
    const char *near = text_nearest(name, names, STATEMENT_COUNT);
    p->line = p->token->line;
    return err_set(e, E_USAGE, "unknown statement '%.*s'%s%s%s", TEXT_CUT(name, 60),
                   near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

static status parse_statement(jinja_parser *p, jinja_node **out, err *e)
{
    status result = OK;
    const char *name = p->token->chars;
    if (p->token->kind != TOKEN_NAME) TRY(parse_unexpected(p, "a statement", e));
    const parse_statement_row *row = NULL;
    for (int i = 0; i < STATEMENT_COUNT && !row; i++)
        if (strcmp(STATEMENTS[i].name, name) == 0) row = &STATEMENTS[i];
    if (!row) TRY(refuse_statement(p, name, e));
    if (!row->read) FAIL(E_USAGE, "the statement '%s' is not supported", name);
    if (++p->depth > PARSE_DEPTH_MOST) FAIL(E_USAGE, "statements are nested too deeply");
    TRY(parse_node(p, JINJA_NODE_IF, out, e));
    p->token++;
    TRY(row->read(p, *out, e));
    p->depth--;
    TRY(parse_expect(p, TOKEN_BLOCK_END, "'%}'", e));
done:
    return result;
}

static bool is_end(const jinja_parser *p, const char *const *ends)
{
    while (*ends)
        if (parse_is_name(p, *ends++)) return true;
    return false;
}

// Reads up to the name of a statement of `ends`, which is the next token then, or up to the end where ends[0] is NULL.
static status parse_body(jinja_parser *p, const char *const *ends, jinja_node **first, err *e)
{
    status result = OK;
    jinja_node **end = first;
    for (; p->token->kind != TOKEN_END; end = &(*end)->next) {
        const jinja_token *t = p->token;
        p->line = t->line;
        if (t->kind == TOKEN_DATA) {
            TRY(parse_node(p, JINJA_NODE_TEXT, end, e));
            (*end)->text = t->chars;
            (*end)->bytes = t->bytes;
            p->token++;
        } else if (t->kind == TOKEN_OUTPUT_BEGIN) {
            p->token++;
            TRY(parse_node(p, JINJA_NODE_OUTPUT, end, e));
            TRY(parse_tuple(p, true, &(*end)->a, e));
            TRY(parse_expect(p, TOKEN_OUTPUT_END, "'}}'", e));
        } else {
            p->token++;
            if (is_end(p, ends)) goto done;
            TRY(parse_statement(p, end, e));
        }
    }
    if (ends[0]) {
        while (ends[1]) ends++;
        p->line = p->token->line;
        FAIL(E_USAGE, "the template ends before {%% %s %%}", ends[0]);
    }
done:
    return result;
}

status jinja_parse(struct jinja *t, const char *source, size_t bytes, int *line, err *e)
{
    static const char *const NO_END[] = {NULL};
    status result = OK;
    jinja_parser p = {.t = t};
    jinja_tokens tokens;
    TRY(jinja_read_tokens(&t->memory, source, bytes, &tokens, &p.line, e));
    p.token = tokens.token;
    TRY(parse_body(&p, NO_END, &t->body, e));
done:
    lookup_clear(&p.names);
    *line = p.line;
    return result;
}
