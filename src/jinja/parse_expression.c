// parse_expression.c -- reads expressions into the tree, from what binds least (a if b else c) to what binds most. It
// knows no statements; parse_value.c reads single values. Source: the grammar of Jinja 3.1.
#include "jinja/parse.h"

#include <string.h>

static status parse_or(jinja_parser *p, jinja_node **out, err *e);

status parse_expression(jinja_parser *p, jinja_node **out, err *e)
{
    status result = OK;
    jinja_node *n = NULL;
    if (++p->depth > PARSE_DEPTH_MOST) FAIL(E_USAGE, "expressions are nested too deeply");
    TRY(parse_or(p, out, e));
    while (parse_skip_name(p, "if")) {
        TRY(parse_node(p, JINJA_NODE_CHOICE, &n, e));
        n->b = *out;
        TRY(parse_or(p, &n->a, e));
        if (parse_skip_name(p, "else")) TRY(parse_expression(p, &n->c, e));
        *out = n;
    }
done:
    p->depth--;
    return result;
}

// ---- Logic and comparisons

static int compare_op(jinja_parser *p)
{
    const jinja_token *t = p->token;
    if (t->kind == TOKEN_OPERATOR) {
        const int op = t->op;
        if (op != '<' && op != '>' && op != OPERATOR('=', '=') && op != OPERATOR('!', '=') &&
            op != OPERATOR('<', '=') && op != OPERATOR('>', '='))
            return 0;
        p->token++;
        return op;
    }
    if (parse_skip_name(p, "in")) return OPERATOR_IN;
    if (parse_is_name(p, "not") && t[1].kind == TOKEN_NAME && strcmp(t[1].chars, "in") == 0) {
        p->token += 2;
        return OPERATOR_NOT_IN;
    }
    return 0;
}

static status parse_power(jinja_parser *p, jinja_node **out, err *e)
{
    status result = OK;
    TRY(parse_unary(p, true, out, e));
    while (parse_skip_op(p, OPERATOR('*', '*'))) {
        jinja_node *n = NULL;
        TRY(parse_node_of(p, JINJA_NODE_BINARY, *out, &n, e));
        n->op = OPERATOR('*', '*');
        TRY(parse_unary(p, true, &n->b, e));
        *out = n;
    }
done:
    return result;
}

static status parse_product(jinja_parser *p, jinja_node **out, err *e)
{
    status result = OK;
    TRY(parse_power(p, out, e));
    while (parse_is_op(p, '*') || parse_is_op(p, '/') || parse_is_op(p, OPERATOR('/', '/')) ||
           parse_is_op(p, '%')) {
        jinja_node *n = NULL;
        TRY(parse_node_of(p, JINJA_NODE_BINARY, *out, &n, e));
        n->op = p->token++->op;
        TRY(parse_power(p, &n->b, e));
        *out = n;
    }
done:
    return result;
}

static status parse_concat(jinja_parser *p, jinja_node **out, err *e)
{
    status result = OK;
    jinja_node *n = NULL, **end;
    TRY(parse_product(p, out, e));
    if (!parse_is_op(p, '~')) goto done;
    TRY(parse_node(p, JINJA_NODE_CONCAT, &n, e));
    end = &n->first;
    parse_append(&end, *out);
    while (parse_skip_op(p, '~')) {
        jinja_node *next = NULL;
        TRY(parse_product(p, &next, e));
        parse_append(&end, next);
    }
    *out = n;
done:
    return result;
}

static status parse_sum(jinja_parser *p, jinja_node **out, err *e)
{
    status result = OK;
    TRY(parse_concat(p, out, e));
    while (parse_is_op(p, '+') || parse_is_op(p, '-')) {
        jinja_node *n = NULL;
        TRY(parse_node_of(p, JINJA_NODE_BINARY, *out, &n, e));
        n->op = p->token++->op;
        TRY(parse_concat(p, &n->b, e));
        *out = n;
    }
done:
    return result;
}

static status parse_compare(jinja_parser *p, jinja_node **out, err *e)
{
    status result = OK;
    jinja_node *n = NULL, **end = NULL;
    TRY(parse_sum(p, out, e));
    for (int op = compare_op(p); op; op = compare_op(p)) {
        jinja_node *operand = NULL;
        if (!n) {
            TRY(parse_node_of(p, JINJA_NODE_COMPARE, *out, &n, e));
            end = &n->first;
        }
        TRY(parse_node(p, JINJA_NODE_OPERAND, &operand, e));
        operand->op = op;
        TRY(parse_sum(p, &operand->a, e));
        parse_append(&end, operand);
    }
    if (n) *out = n;
done:
    return result;
}

static status parse_not(jinja_parser *p, jinja_node **out, err *e)
{
    status result = OK;
    if (++p->depth > PARSE_DEPTH_MOST) FAIL(E_USAGE, "expressions are nested too deeply");
    if (!parse_is_name(p, "not")) {
        TRY(parse_compare(p, out, e));
        goto done;
    }
    TRY(parse_node(p, JINJA_NODE_NOT, out, e));
    p->token++;
    TRY(parse_not(p, &(*out)->a, e));
done:
    p->depth--;
    return result;
}

static status parse_and(jinja_parser *p, jinja_node **out, err *e)
{
    status result = OK;
    TRY(parse_not(p, out, e));
    while (parse_skip_name(p, "and")) {
        jinja_node *n = NULL;
        TRY(parse_node_of(p, JINJA_NODE_AND, *out, &n, e));
        TRY(parse_not(p, &n->b, e));
        *out = n;
    }
done:
    return result;
}

static status parse_or(jinja_parser *p, jinja_node **out, err *e)
{
    status result = OK;
    TRY(parse_and(p, out, e));
    while (parse_skip_name(p, "or")) {
        jinja_node *n = NULL;
        TRY(parse_node_of(p, JINJA_NODE_OR, *out, &n, e));
        TRY(parse_and(p, &n->b, e));
        *out = n;
    }
done:
    return result;
}

// ---- Tuples

static bool ends_tuple(const jinja_parser *p)
{
    return p->token->kind == TOKEN_OUTPUT_END || p->token->kind == TOKEN_BLOCK_END ||
           p->token->kind == TOKEN_END || parse_is_op(p, ')');
}

status parse_tuple(jinja_parser *p, bool choices, jinja_node **out, err *e)
{
    status result = OK;
    jinja_node *n = NULL, **end, *first = NULL;
    TRY(choices ? parse_expression(p, &first, e) : parse_or(p, &first, e));
    *out = first;
    if (!parse_is_op(p, ',')) goto done;
    TRY(parse_node(p, JINJA_NODE_TUPLE, &n, e));
    end = &n->first;
    parse_append(&end, first);
    while (parse_skip_op(p, ',') && !ends_tuple(p) && !parse_is_name(p, "recursive")) {
        jinja_node *item = NULL;
        TRY(choices ? parse_expression(p, &item, e) : parse_or(p, &item, e));
        parse_append(&end, item);
    }
    *out = n;
done:
    return result;
}
