// event.c -- see event.h.
#include "base/event.h"

void event_sinks_add(event_sinks *s, event_sink one)
{
    s->items[s->count++] = one;
}

status event_emit(const event_sinks *s, const event *ev, err *e)
{
    status result = OK;
    for (int i = 0; i < s->count; i++) TRY(s->items[i].take(s->items[i].arg, ev, e));
done:
    return result;
}

void event_sinks_close(event_sinks *s)
{
    for (int i = 0; i < s->count; i++) s->items[i].close(s->items[i].arg);
    s->count = 0;
}
