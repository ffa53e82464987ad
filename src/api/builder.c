// builder.c -- the functions with which a program writes its model family. Each checks its
// arguments, so that a program's mistake becomes an error and not a crash, and calls the function
// of graph.h. A trm_value is a graph_value under another name.
#include "api/api.h"

#include <math.h>
#include <string.h>

static graph_value *inner(trm_value *x)
{
    return (graph_value *)x;
}

static trm_value *outer(graph_value *x)
{
    return (trm_value *)x;
}

static bool is_broken(const trm_builder *b)
{
    return b->g->first_error.code != OK;
}

// Returns whether x is a computed value: the input of the block, features of the data, or the result of an op.
static bool is_computed(trm_builder *b, trm_value *x, const char *call)
{
    const graph_value *v = inner(x);
    if (!v)
        graph_misuse(b->g, "%s: an argument is NULL", call);
    else if (v->param >= 0)
        graph_misuse(b->g, "%s: a parameter was given; valid: a computed value", call);
    else if (v->type == I32)
        graph_misuse(b->g, "%s: token ids were given; valid: only in trm_embedding", call);
    return !is_broken(b);
}

// Returns whether w is a parameter of `dims` dimensions.
static bool is_weight(trm_builder *b, trm_value *w, int dims, const char *call, const char *name)
{
    const graph_value *v = inner(w);
    if (!v || v->param < 0)
        graph_misuse(b->g, "%s: %s must be a parameter", call, name);
    else if (dims && v->dims != dims)
        graph_misuse(b->g, "%s: %s must be a %s", call, name,
                     dims == 1 ? "vector" : "matrix [rows, cols]");
    return !is_broken(b);
}

static bool is_positive(trm_builder *b, int64_t number, const char *call, const char *name)
{
    if (number <= 0) graph_misuse(b->g, "%s: %s is %lld", call, name, (long long)number);
    return !is_broken(b);
}

static bool is_finite(trm_builder *b, double number, const char *call, const char *name)
{
    if (!isfinite(number)) graph_misuse(b->g, "%s: %s is %g", call, name, number);
    return !is_broken(b);
}

static bool is_first(trm_builder *b, const void *earlier, const char *call)
{
    if (earlier) graph_misuse(b->g, "%s: called twice in a block", call);
    return !is_broken(b);
}

trm_value *trm_ids(trm_builder *b)
{
    return is_first(b, b->g->ids, "trm_ids") ? outer(build_ids(b->g)) : NULL;
}

trm_value *trm_features(trm_builder *b, int64_t cols)
{
    const char *call = "trm_features";
    bool fine = is_first(b, b->g->ids, call) && is_positive(b, cols, call, "cols");
    return fine ? outer(build_features(b->g, cols)) : NULL;
}

// Blocks pass fp32 values to each other, whatever they compute in, so that any block may follow
// any.
trm_value *trm_input(trm_builder *b, int64_t cols)
{
    const char *call = "trm_input";
    bool fine = is_first(b, b->g->input, call) && is_positive(b, cols, call, "cols");
    return fine ? outer(build_residual(b->g, cols)) : NULL;
}

void trm_output(trm_builder *b, trm_value *x)
{
    const char *call = "trm_output";
    if (is_first(b, b->g->output, call) && is_computed(b, x, call))
        build_output(b->g, build_as_residual(b->g, inner(x)));
}

trm_value *trm_weight(trm_builder *b, const char *name, int64_t rows, int64_t cols, trm_init init,
                      double std)
{
    static const graph_init kinds[] = {
        [TRM_NORMAL] = INIT_NORMAL, [TRM_ONES] = INIT_ONES, [TRM_ZEROS] = INIT_ZEROS};
    enum { LONGEST = PARAM_NAME_BYTES - 1 };
    if (!name || !name[0] || strlen(name) > LONGEST)
        graph_misuse(b->g, "trm_weight: a name must have 1 to %d bytes", LONGEST);
    else if (rows <= 0 || cols < 0)
        graph_misuse(b->g, "%s: found [%lld, %lld]; valid: rows of at least 1, cols 0 for a vector",
                     name, (long long)rows, (long long)cols);
    else if ((unsigned)init > TRM_ZEROS || !isfinite(std) || std < 0)
        graph_misuse(b->g, "%s: valid are TRM_NORMAL with a deviation, TRM_ONES and TRM_ZEROS",
                     name);
    if (is_broken(b)) return NULL;
    return outer(build_weight(b->g, name, rows, cols, kinds[init], std));
}

// Returns whether an op has used w already; then its shape is fixed.
static bool is_used(const trm_builder *b, const graph_value *w)
{
    for (int i = 0; i < b->g->forward.count; i++)
        for (int k = 0; k < NODE_INPUTS; k++)
            if (b->g->forward.node[i]->in[k] == w) return true;
    return false;
}

void trm_roles(trm_builder *b, trm_value *w, trm_role rows, trm_role cols)
{
    static const graph_role table[] = {[TRM_NO_ROLE] = ROLE_NONE,
                                       [TRM_VOCAB] = ROLE_VOCAB,
                                       [TRM_EMBED] = ROLE_EMBED,
                                       [TRM_HEADS] = ROLE_HEADS,
                                       [TRM_MLP] = ROLE_MLP};
    const char *call = "trm_roles";
    if ((unsigned)rows > TRM_MLP || (unsigned)cols > TRM_MLP)
        graph_misuse(b->g, "%s: %d, %d are no trm_role", call, (int)rows, (int)cols);
    if (is_broken(b) || !is_weight(b, w, 0, call, "w")) return;
    if (inner(w)->dims == 1 && cols != TRM_NO_ROLE)
        graph_misuse(b->g, "%s: a vector has no cols; valid: TRM_NO_ROLE", call);
    else if (is_used(b, inner(w)))
        graph_misuse(b->g, "%s: the parameter is in use; valid: right after trm_weight", call);
    else
        build_roles(b->g, inner(w), table[rows], table[cols]);
}

void trm_stored_transposed(trm_builder *b, trm_value *w)
{
    if (is_weight(b, w, 2, "trm_stored_transposed", "w")) build_transposed(b->g, inner(w));
}

void trm_stored_rows(trm_builder *b, trm_value *w, const char *name, int64_t rows)
{
    const char *call = "trm_stored_rows";
    if (!name || !name[0] || strlen(name) >= PARAM_NAME_BYTES)
        graph_misuse(b->g, "%s: a name must have 1 to %d bytes", call, PARAM_NAME_BYTES - 1);
    if (is_weight(b, w, 0, call, "w") && is_positive(b, rows, call, "rows"))
        build_piece(b->g, inner(w), name, rows);
}

trm_value *trm_embedding(trm_builder *b, trm_value *ids, trm_value *tokens, trm_value *positions)
{
    const char *call = "trm_embedding";
    if (!ids || inner(ids)->type != I32)
        graph_misuse(b->g, "%s: ids must be those of trm_ids", call);
    bool fine = is_weight(b, tokens, 2, call, "tokens") &&
                (!positions || is_weight(b, positions, 2, call, "positions"));
    return fine ? outer(build_embedding(b->g, inner(ids), inner(tokens), inner(positions), 1))
                : NULL;
}

static bool is_layer(trm_builder *b, trm_value *x, trm_value *w, trm_value *bias, const char *call)
{
    return is_computed(b, x, call) && is_weight(b, w, 2, call, "w") &&
           (!bias || is_weight(b, bias, 1, call, "bias"));
}

trm_value *trm_linear(trm_builder *b, trm_value *x, trm_value *w, trm_value *bias)
{
    bool fine = is_layer(b, x, w, bias, "trm_linear");
    return fine ? outer(build_linear(b->g, inner(x), inner(w), inner(bias))) : NULL;
}

static bool is_norm(trm_builder *b, trm_value *x, trm_value *gain, double eps, const char *call)
{
    return is_computed(b, x, call) && is_weight(b, gain, 1, call, "gain") &&
           is_finite(b, eps, call, "eps");
}

trm_value *trm_layer_norm(trm_builder *b, trm_value *x, trm_value *gain, trm_value *bias,
                          double eps)
{
    const char *call = "trm_layer_norm";
    bool fine = is_norm(b, x, gain, eps, call) && (!bias || is_weight(b, bias, 1, call, "bias"));
    if (fine && bias && inner(bias)->dim[0] != inner(gain)->dim[0])
        graph_misuse(b->g, "%s: gain and bias differ in length", call);
    if (!fine || is_broken(b)) return NULL;
    return outer(build_norm(b->g, inner(x), inner(gain), inner(bias), &(graph_norm){.eps = eps}));
}

trm_value *trm_rms_norm(trm_builder *b, trm_value *x, trm_value *gain, double eps)
{
    bool fine = is_norm(b, x, gain, eps, "trm_rms_norm");
    const graph_norm form = {.eps = eps, .is_rms = true};
    return fine ? outer(build_norm(b->g, inner(x), inner(gain), NULL, &form)) : NULL;
}

trm_value *trm_rope(trm_builder *b, trm_value *x, int64_t heads, int64_t head_dim,
                    int64_t positions, const double *frequency, int64_t half)
{
    const char *call = "trm_rope";
    if (!frequency) graph_misuse(b->g, "%s: frequency is NULL", call);
    bool fine = is_computed(b, x, call) && is_positive(b, heads, call, "heads") &&
                is_positive(b, head_dim, call, "head_dim") && is_positive(b, half, call, "half") &&
                is_positive(b, positions, call, "positions");
    if (!fine) return NULL;
    const graph_rope table = {.rows = positions, .pairs = half, .frequency = frequency, .scale = 1};
    return outer(build_rope(b->g, inner(x), heads, head_dim, &table, false));
}

trm_value *trm_attention(trm_builder *b, trm_value *qkv, int64_t heads, int64_t kv_heads,
                         int64_t head_dim, double scale, double dropout)
{
    const char *call = "trm_attention";
    if (!(dropout >= 0 && dropout < 1))
        graph_misuse(b->g, "%s: dropout is %g; valid: 0 to less than 1", call, dropout);
    bool fine = is_computed(b, qkv, call) && is_positive(b, heads, call, "heads") &&
                is_positive(b, kv_heads, call, "kv_heads") &&
                is_positive(b, head_dim, call, "head_dim") && is_finite(b, scale, call, "scale");
    if (!fine) return NULL;
    return outer(build_attention(b->g, inner(qkv),
                                 &(graph_attention){.heads = heads,
                                                    .kv_heads = kv_heads,
                                                    .head_dim = head_dim,
                                                    .scale = scale,
                                                    .dropout = dropout}));
}

// The kernels' enumerator of an activation; ACTIVATIONS after a misuse.
static kernel_activation act_of(trm_builder *b, trm_act act, const char *call)
{
    static const kernel_activation table[] = {
        [TRM_GELU] = ACT_GELU, [TRM_GELU_TANH] = ACT_GELU_TANH, [TRM_RELU] = ACT_RELU,
        [TRM_SILU] = ACT_SILU, [TRM_TANH] = ACT_TANH,           [TRM_RELU2] = ACT_RELU2};
    if ((unsigned)act <= TRM_RELU2) return table[act];
    graph_misuse(b->g, "%s: %d is no trm_act", call, (int)act);
    return ACTIVATIONS;
}

trm_value *trm_activation(trm_builder *b, trm_value *x, trm_act act)
{
    const kernel_activation a = act_of(b, act, "trm_activation");
    return is_computed(b, x, "trm_activation") ? outer(build_activation(b->g, inner(x), a)) : NULL;
}

trm_value *trm_glu(trm_builder *b, trm_value *x, trm_act act)
{
    const kernel_activation a = act_of(b, act, "trm_glu");
    return is_computed(b, x, "trm_glu") ? outer(build_glu(b->g, inner(x), a)) : NULL;
}

// graph.h wants the fp32 residual as the first operand. A program may give the operands in any
// order.
trm_value *trm_add(trm_builder *b, trm_value *x, trm_value *y)
{
    if (!is_computed(b, x, "trm_add") || !is_computed(b, y, "trm_add")) return NULL;
    graph_value *residual = inner(x), *other = inner(y);
    if (residual->type != F32 && other->type == F32) residual = inner(y), other = inner(x);
    return outer(build_add(b->g, residual, other, 1, 1));
}

trm_value *trm_dropout(trm_builder *b, trm_value *x, double p)
{
    if (!(p >= 0 && p < 1)) graph_misuse(b->g, "trm_dropout: p is %g; valid: 0 to less than 1", p);
    return is_computed(b, x, "trm_dropout") ? outer(build_dropout(b->g, inner(x), p)) : NULL;
}

static bool is_loss(trm_builder *b, trm_value *x, trm_value *w, trm_value *bias, const char *call)
{
    const void *earlier = b->has_loss ? b : NULL;
    if (!is_first(b, earlier, call) || !is_layer(b, x, w, bias, call)) return false;
    if (bias && inner(bias)->dim[0] != inner(w)->dim[0])
        graph_misuse(b->g, "%s: w has %lld rows, the bias %lld", call, (long long)inner(w)->dim[0],
                     (long long)inner(bias)->dim[0]);
    b->has_loss = true;
    return !is_broken(b);
}

void trm_cross_entropy(trm_builder *b, trm_value *x, trm_value *w, trm_value *bias)
{
    if (is_loss(b, x, w, bias, "trm_cross_entropy"))
        build_linear_cross_entropy(b->g, inner(x), inner(w), inner(bias), 1, 0);
}

void trm_square_error(trm_builder *b, trm_value *x, trm_value *w, trm_value *bias)
{
    if (is_loss(b, x, w, bias, "trm_square_error"))
        build_linear_square_error(b->g, inner(x), inner(w), inner(bias));
}
