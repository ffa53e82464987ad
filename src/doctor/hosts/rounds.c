// rounds.c -- see rounds.h.
#include "doctor/hosts/rounds.h"

int hosts_rounds(int hosts)
{
    return hosts < 2 ? 0 : hosts % 2 ? hosts : hosts - 1;
}

// Of an even number of places the last one stays; host i meets j where i + j = round, modulo the others. With an odd number of
// hosts nobody is at the place that stays, and its partner rests.
int hosts_partner(int hosts, int round, int host)
{
    const int others = hosts_rounds(hosts);
    if (others == 0) return -1;
    if (host == others) return round % 2 ? (round + others) / 2 : round / 2;
    const int partner = ((round - host) % others + others) % others;
    if (partner != host) return partner;
    return others < hosts ? others : -1;
}
