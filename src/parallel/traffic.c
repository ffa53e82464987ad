// traffic.c -- adds the bytes that a rank sends in a step. See traffic.h. Called by the trainer when it makes a
// plan.
#include "parallel/traffic.h"

#include "parallel/calls.h"

void traffic_count(plan *p, const schedule *s)
{
    for (int k = 0; k < PROCESS_GROUPS; k++) p->sent_bytes[k] = 0;
    for (int i = 0; i < s->count; i++) {
        const schedule_call *c = s->call + s->instr[i].first_call, *end = c + s->instr[i].calls;
        for (; c < end; c++)
            if (c->steps != STEPS_BEFORE_POWERSGD) p->sent_bytes[c->group] += c->sent;
    }
}

int traffic_groups(const double sent[PROCESS_GROUPS], int out[PROCESS_GROUPS])
{
    int count = 0;
    for (int a = 0; a < AXES; a++) out[count++] = MESH_AXIS(a);
    out[count++] = GROUP_POST_FORWARD;
    if (sent[GROUP_SHARED] > 0) out[count++] = GROUP_SHARED;
    out[count++] = GROUP_TIED;
    for (int k = 1; k <= AXES_ALL; k++) {
        const bool one_axis = (k & (k - 1)) == 0;
        if (!one_axis && (k == AXES_DATA || sent[k] > 0)) out[count++] = k;
    }
    out[count++] = GROUP_WORLD;
    return count;
}

const char *process_group_name(const mesh *m, int group, char out[MESH_NAME_BYTES])
{
    if (group == GROUP_POST_FORWARD) return "post_forward";
    if (group == GROUP_SHARED) return "kv_heads";
    if (group == GROUP_TIED) return "tied";
    if (group == GROUP_WORLD) return "world";
    if (group == AXES_DATA) return "dp";
    for (int a = 0; a < AXES; a++)
        if (group == (int)MESH_AXIS(a)) return axis_name((axis)a);
    return mesh_group_name(m, (mesh_axes)group, out);
}

double traffic_total(const plan *p)
{
    double sum = 0;
    for (int k = 0; k < PROCESS_GROUPS; k++) sum += p->sent_bytes[k];
    return sum;
}
