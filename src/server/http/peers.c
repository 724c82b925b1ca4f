/* SPDX-License-Identifier: Apache-2.0 */
/* peers.c - see peers.h: a table of chains, with a random salt so that nobody can aim at one. */
#include "server/http/peers.h"

#include "base/mem.h"
#include "base/os.h"
#include "server/core/digest.h"

#include <string.h>

enum { CHAINS = 4096, MOST = 65536 };
static const double MINUTE = 60;

struct peers {
    unsigned char salt[16];
    uint32_t n;
    peer *chains[CHAINS];
};

peers *peers_new(void)
{
    peers *p = mem_new(1, sizeof *p);
    if (p != NULL && !os_random(p->salt, sizeof p->salt)) {
        mem_free(p);
        return NULL;
    }
    return p;
}

void peers_free(peers *p)
{
    if (p == NULL)
        return;
    for (size_t i = 0; i < CHAINS; i++)
        for (peer *who = p->chains[i], *next; who != NULL; who = next) {
            next = who->next;
            mem_free(who);
        }
    mem_free(p);
}

static bool is_v4(const unsigned char address[16])
{
    static const unsigned char mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF};
    return memcmp(address, mapped, sizeof mapped) == 0;
}

static bool is_loopback6(const unsigned char address[16])
{
    static const unsigned char one[16] = {[15] = 1};
    return memcmp(address, one, sizeof one) == 0;
}

peer *peers_came(peers *p, const unsigned char address[16])
{
    unsigned char salted[32] = {0};
    memcpy(salted, address, is_v4(address) || is_loopback6(address) ? 16 : 8);
    memcpy(salted + 16, p->salt, 16);
    digest d;
    if (!digest_of(&d, (str){(const char *)salted, sizeof salted}))
        return NULL;
    uint64_t id = digest_number(&d);
    peer **chain = &p->chains[id % CHAINS];
    for (peer *who = *chain; who != NULL; who = who->next)
        if (memcmp(who->address, salted, 16) == 0) {
            who->connections++;
            return who;
        }
    peer *who = p->n < MOST ? mem_new(1, sizeof *who) : NULL;
    if (who == NULL)
        return NULL;
    memcpy(who->address, salted, 16);
    who->id = id;
    who->connections = 1;
    who->next = *chain;
    *chain = who;
    p->n++;
    return who;
}

void peers_left(peer *who)
{
    who->connections--;
}

bool peer_is_local(const peer *who)
{
    static const unsigned char none[16];
    return memcmp(who->address, none, sizeof none) == 0;
}

uint32_t peer_failed(peer *who, double now)
{
    if (who->failures == 0 || now - who->since > MINUTE) {
        who->since = now;
        who->failures = 0;
    }
    return ++who->failures;
}

void peers_sweep(peers *p, double now)
{
    for (size_t i = 0; i < CHAINS; i++)
        for (peer **at = &p->chains[i]; *at != NULL;) {
            peer *who = *at;
            bool forgotten = who->failures == 0 || now - who->since > MINUTE;
            if (who->connections > 0 || !forgotten) {
                at = &who->next;
                continue;
            }
            *at = who->next;
            mem_free(who);
            p->n--;
        }
}
