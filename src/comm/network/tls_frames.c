// tls_frames.c -- the frames of a connection (tls_private.h): queued, sent as records, received, and matched with receives
// by their tags. It does not know what the bytes mean.
#include "comm/network/tls_private.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

// A call of tls_move sends and receives TURN bytes at most, so that neither waits for the other. A failure's line has at
// most LINE bytes. A part of more than HELD_BYTES waits for its receive in the socket.
enum { TURN = 512 << 10, LINE = 1024, DROPPED = 4096, HELD_BYTES = 16 << 10 };

// ---- Lists

static void append(tls_list *l, tls_request *r)
{
    r->next = NULL;
    if (l->last)
        l->last->next = r;
    else
        l->first = r;
    l->last = r;
}

static void unlink_from(tls_list *l, const tls_request *r)
{
    tls_request *before = NULL;
    for (tls_request *i = l->first; i; before = i, i = i->next) {
        if (i != r) continue;
        if (before)
            before->next = i->next;
        else
            l->first = i->next;
        if (l->last == i) l->last = before;
        return;
    }
}

// Takes the first request with that tag, which nothing else waits for, out of the list.
static tls_request *take_tag(tls_list *l, uint64_t tag)
{
    tls_request *r = l->first;
    while (r && (r->header.tag != tag || r->heir)) r = r->next;
    if (r) unlink_from(l, r);
    return r;
}

static tls_request *take_number(tls_list *l, uint64_t number)
{
    tls_request *r = l->first;
    while (r && r->header.number != number) r = r->next;
    if (r) unlink_from(l, r);
    return r;
}

// ---- Requests

tls_request *tls_request_take(tls_state *s, tls_header header, void *data, size_t bytes)
{
    tls_request *r = s->unused;
    err e;
    if (r)
        s->unused = r->next;
    else if (alloc_zeroed(&r, 1, sizeof *r, "a message", &e) != OK)
        return NULL;
    *r = (tls_request){.header = header, .data = data, .bytes = bytes};
    return r;
}

void tls_request_give(tls_state *s, tls_request *r)
{
    if (r->is_own) free(r->data);
    r->next = s->unused;
    s->unused = r;
}

static void finish(tls_state *s, tls_request *r)
{
    r->is_done = true;
    if (r->is_own) tls_request_give(s, r);
}

// A frame of the transport's own, without bytes.
static bool send_own(tls_state *s, tls_peer *p, tls_header header)
{
    tls_request *r = tls_request_take(s, header, NULL, 0);
    if (!r) return false;
    r->is_own = true;
    append(&p->queue, r);
    return true;
}

static const char NO_MEMORY[] = "no memory for a message is left";

static void give_all(tls_state *s, tls_list *l)
{
    for (tls_request *r = l->first, *next; r; r = next) {
        next = r->next;
        if (r->is_own) tls_request_give(s, r);
    }
    *l = (tls_list){.first = NULL};
}

// A part that has come whole stays for its receive, also when its sender has left.
static void drop_halves(tls_state *s, tls_list *l)
{
    for (tls_request *r = l->first, *next; r; r = next) {
        next = r->next;
        if (r->is_done) continue;
        unlink_from(l, r);
        tls_request_give(s, r);
    }
}

void tls_peer_close(tls_state *s, tls_peer *p, const char *why)
{
    if (why && !*p->lost) *p->lost = why;
    net_tls_close(p->link);
    p->link = NULL;
    if (p->into && p->header.frame == TLS_FAILURE) tls_request_give(s, p->into); // in no list
    p->into = NULL;
    p->is_held = false;
    give_all(s, &p->queue);
    drop_halves(s, &p->early);
    p->asked = p->posted = p->granted = (tls_list){.first = NULL};
    p->staged = 0;
}

void tls_drop_early(tls_state *s, tls_peer *p)
{
    give_all(s, &p->early);
}

// ---- Parts

void tls_send(tls_state *s, tls_peer *p, tls_request *r, bool asks)
{
    if (!asks) {
        append(&p->queue, r);
    } else {
        r->header.number = ++p->numbers;
        tls_header ask = r->header;
        ask.frame = TLS_ASK;
        r->header.frame = TLS_GRANTED;
        append(&p->asked, r);
        if (!send_own(s, p, ask)) tls_peer_close(s, p, NO_MEMORY);
    }
}

void tls_send_failure(tls_state *s, tls_peer *p, int rank, const char *line)
{
    const size_t bytes = strlen(line);
    const tls_header header = {.frame = TLS_FAILURE, .rank = rank, .bytes = bytes};
    char *data;
    err e;
    if (alloc_array(&data, bytes + 1, 1, "a message", &e) != OK) return;
    memcpy(data, line, bytes + 1);
    tls_request *r = tls_request_take(s, header, data, bytes);
    if (!r) {
        free(data);
        return;
    }
    r->is_own = true;
    tls_send(s, p, r, false);
}

static void grant(tls_state *s, tls_peer *p, tls_request *r, uint64_t number)
{
    r->header.number = number;
    append(&p->granted, r);
    if (!send_own(s, p, (tls_header){.frame = TLS_GRANT, .number = number}))
        tls_peer_close(s, p, NO_MEMORY);
}

static void copy(tls_request *to, const tls_request *from)
{
    const size_t bytes = from->bytes < to->bytes ? from->bytes : to->bytes;
    if (bytes) memcpy(to->data, from->data, bytes);
}

void tls_receive(tls_state *s, tls_peer *p, tls_request *r)
{
    tls_request *early = take_tag(&p->early, r->header.tag);
    if (!early && p->is_held && p->header.tag == r->header.tag) {
        p->into = r;
        p->is_held = false;
    } else if (!early) {
        append(&p->posted, r);
    } else if (early->header.frame == TLS_ASK) {
        const uint64_t number = early->header.number;
        tls_request_give(s, early);
        grant(s, p, r, number);
    } else if (early->is_done) {
        copy(r, early);
        tls_request_give(s, early);
        finish(s, r);
    } else { // it is coming in
        early->heir = r;
    }
}

void tls_drop(tls_state *s, tls_peer *p, tls_request *r)
{
    unlink_from(&p->asked, r);
    unlink_from(&p->posted, r);
    unlink_from(&p->granted, r);
    if (p->into == r) p->into = NULL;
    if (p->into && p->into->heir == r) p->into->heir = NULL;
    for (const tls_request *i = p->queue.first; i; i = i->next)
        if (i == r)
            tls_peer_close(s, p, "a message to it was cancelled"); // half of it may have left
}

// ---- Sending

bool tls_has_queue(const tls_peer *p)
{
    return p->link && (p->staged || p->queue.first);
}

static void leave_queue(tls_state *s, tls_peer *p)
{
    tls_request *r = p->queue.first;
    unlink_from(&p->queue, r);
    finish(s, r);
}

// Puts headers and few bytes into one record. Many bytes go from where they are.
static void fill_stage(tls_state *s, tls_peer *p)
{
    for (tls_request *r; (r = p->queue.first) && p->staged < NET_TLS_RECORD;) {
        const bool in_header = r->header_done < sizeof r->header;
        const size_t room = NET_TLS_RECORD - p->staged,
                     left = in_header ? sizeof r->header - r->header_done : r->bytes - r->done,
                     bytes = left < room ? left : room;
        if (!in_header && p->staged == 0 && left >= NET_TLS_RECORD) return;
        if (in_header)
            memcpy(p->stage + p->staged, (const char *)&r->header + r->header_done, bytes);
        else if (bytes)
            memcpy(p->stage + p->staged, r->data + r->done, bytes);
        p->staged += bytes;
        *(in_header ? &r->header_done : &r->done) += bytes;
        if (r->header_done == sizeof r->header && r->done == r->bytes) leave_queue(s, p);
    }
}

// Sends one record. *bytes is its length.
static net_tls_wants send_record(tls_state *s, tls_peer *p, size_t *bytes)
{
    if (!p->staged) fill_stage(s, p);
    tls_request *r = p->queue.first;
    net_tls_wants wants;
    if (p->staged) {
        *bytes = p->staged;
        wants = net_tls_write(p->link, p->stage, p->staged);
        if (wants == NET_TLS_READY) p->staged = 0;
        return wants;
    }
    const size_t left = r->bytes - r->done;
    *bytes = left < NET_TLS_RECORD ? left : NET_TLS_RECORD;
    wants = net_tls_write(p->link, r->data + r->done, *bytes);
    if (wants != NET_TLS_READY) return wants;
    r->done += *bytes;
    if (r->done == r->bytes) leave_queue(s, p);
    return wants;
}

// ---- Receiving

// Room for a part that came before its receive, for the request of a long one, or for the line of a failure.
static tls_request *take_room(tls_state *s, tls_peer *p, size_t bytes)
{
    char *data = NULL;
    err e;
    tls_request *r = NULL;
    if (alloc_array(&data, bytes + 1, 1, "a message", &e) == OK) {
        data[bytes] = 0;
        r = tls_request_take(s, p->header, data, bytes);
    }
    if (r)
        r->is_own = true;
    else {
        free(data);
        tls_peer_close(s, p, NO_MEMORY);
    }
    return r;
}

bool tls_keep(tls_state *s, tls_peer *p)
{
    if (!p->is_held) return false;
    p->is_held = false;
    p->into = take_room(s, p, p->header.frame == TLS_ASK ? 0 : p->header.bytes);
    if (p->into) append(&p->early, p->into);
    return true;
}

// Finds where the bytes of the frame go.
static void begin_frame(tls_state *s, tls_peer *p)
{
    const tls_header *h = &p->header;
    tls_request *r = NULL;
    p->into = NULL;
    p->body_have = 0;
    switch ((tls_frame)h->frame) {
    case TLS_DATA:
    case TLS_ASK:
        r = take_tag(&p->posted, h->tag);
        if (r && h->frame == TLS_ASK) {
            grant(s, p, r, h->number);
        } else if (r) {
            p->into = r;
        } else {
            p->is_held = true;
            if (h->frame == TLS_ASK || h->bytes <= HELD_BYTES) tls_keep(s, p);
        }
        break;
    case TLS_GRANT:
        r = take_number(&p->asked, h->number);
        if (r) append(&p->queue, r);
        break;
    case TLS_GRANTED:
        p->into = take_number(&p->granted, h->number);
        break;
    case TLS_FAILURE:
        p->into = take_room(s, p, h->bytes < LINE ? h->bytes : LINE);
        break;
    default:
        tls_peer_close(s, p, "it sent a frame of an unknown kind");
    }
}

static void take_failure(tls_state *s, tls_request *r)
{
    err why = {0};
    err_set(&why, E_PEER, "%.*s", (int)sizeof why.text - 1, r->data);
    comm_failure_set_described(s->own->world->failure, r->header.rank, &why);
    tls_request_give(s, r);
}

static void end_frame(tls_state *s, tls_peer *p)
{
    tls_request *r = p->into;
    p->into = NULL;
    p->header_have = 0;
    if (!r) return;
    if (p->header.frame == TLS_FAILURE) {
        take_failure(s, r);
    } else if (r->heir) {
        unlink_from(&p->early, r);
        copy(r->heir, r);
        r->heir->is_done = true;
        tls_request_give(s, r);
    } else {
        r->is_done = true;
    }
}

// The bytes behind the header.
static size_t body_bytes(const tls_header *h)
{
    return h->frame == TLS_ASK ? 0 : h->bytes;
}

// Receives what one record has for the frame.
static net_tls_wants receive_record(tls_state *s, tls_peer *p, size_t *got)
{
    char dropped[DROPPED];
    const bool in_header = p->header_have < sizeof p->header;
    if (in_header) {
        const net_tls_wants wants = net_tls_read(p->link, (char *)&p->header + p->header_have,
                                                 sizeof p->header - p->header_have, got);
        p->header_have += *got;
        if (p->header_have == sizeof p->header) begin_frame(s, p);
        return wants;
    }
    const size_t left = body_bytes(&p->header) - p->body_have,
                 room =
                     p->into && p->into->bytes > p->body_have ? p->into->bytes - p->body_have : 0;
    const net_tls_wants wants =
        room ? net_tls_read(p->link, p->into->data + p->body_have, room < left ? room : left, got)
             : net_tls_read(p->link, dropped, left < DROPPED ? left : DROPPED, got);
    p->body_have += *got;
    return wants;
}

static bool receive_some(tls_state *s, tls_peer *p)
{
    size_t received = 0;
    while (p->link && p->readable && !p->is_held && received < TURN) {
        size_t got = 0;
        switch (receive_record(s, p, &got)) {
        case NET_TLS_READY:
            received += got;
            break;
        case NET_TLS_ENDED:
            tls_peer_close(s, p, net_tls_why(p->link));
            return true;
        default:
            p->readable = false;
        }
        if (p->link && !p->is_held && p->header_have == sizeof p->header &&
            p->body_have == body_bytes(&p->header))
            end_frame(s, p);
    }
    return received > 0;
}

// ---- Both

// A peer that ends its connection has sent the line of the failure before, and it may not have been read yet.
static void end_sending(tls_state *s, tls_peer *p)
{
    const char *why = net_tls_why(p->link);
    p->readable = true;
    while (receive_some(s, p)) continue;
    if (p->link) tls_peer_close(s, p, why);
}

static bool send_some(tls_state *s, tls_peer *p)
{
    size_t sent = 0;
    while (p->writable && tls_has_queue(p) && sent < TURN) {
        size_t bytes = 0;
        switch (send_record(s, p, &bytes)) {
        case NET_TLS_READY:
            sent += bytes;
            break;
        case NET_TLS_ENDED:
            end_sending(s, p);
            return true;
        default:
            p->writable = false;
        }
    }
    return sent > 0;
}

bool tls_move(tls_state *s, tls_peer *p)
{
    const bool sent = send_some(s, p), received = receive_some(s, p);
    return sent || received;
}
