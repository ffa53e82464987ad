// rope_tables.c -- the rotary tables of a model. Blocks whose tables hold the same numbers share one. All tables
// lie in one array, in the order of their first use. Called by model_open, and by the trainer and the decoder,
// which own the array. Does not know how a table is computed (graph/execute.h).
#include "base/alloc.h"
#include "base/size.h"
#include "graph/execute.h"
#include "model/model.h"

// So that each table is as aligned as the array.
static size_t table_bytes(const model_rope_table *r)
{
    return size_align(graph_rope_bytes(r->g), DEVICE_ALIGN);
}

static int find_rope(const model *m, const graph *g)
{
    int i = 0;
    while (i < m->ropes && !graph_rope_equal(&m->rope[i].g->rope, &g->rope)) i++;
    return i;
}

status model_note_ropes(model *m, err *e)
{
    status result = OK;
    TRY(alloc_zeroed(&m->rope, (size_t)m->graphs, sizeof *m->rope, "a model", e));
    for (int b = 0; b < m->blocks; b++) {
        const graph *g = m->block[b].g;
        const int i = g->rope.frequency ? find_rope(m, g) : -1;
        m->block[b].rope = i;
        if (i < m->ropes) continue;
        m->rope[i].g = g;
        m->rope[i].offset = i > 0 ? m->rope[i - 1].offset + table_bytes(&m->rope[i - 1]) : 0;
        m->ropes++;
    }
done:
    return result;
}

size_t model_rope_bytes(const model *m)
{
    const model_rope_table *last = m->ropes ? &m->rope[m->ropes - 1] : NULL;
    return last ? last->offset + graph_rope_bytes(last->g) : 0;
}

status model_upload_rope(const model *m, device_stream *stream, float *tables, err *e)
{
    status result = OK;
    for (int i = 0; i < m->ropes; i++)
        TRY(graph_upload_rope(m->rope[i].g, stream, tables + m->rope[i].offset / sizeof *tables,
                              e));
done:
    return result;
}

const float *model_block_rope(const model *m, int block, const float *tables)
{
    const int i = m->block[block].rope;
    return i < 0 ? NULL : tables + m->rope[i].offset / sizeof *tables;
}
