/* SPDX-License-Identifier: Apache-2.0 */
/* peers.c - see peers.h. A hash table with chains; a random salt prevents chosen collisions. */
#include "server/http/peers.h"

#include "base/mem.h"
#include "base/os.h"
#include "store/digest.h"

#include <string.h>

enum { CHAINS = 4096, MAX_PEERS = 65536 };
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
        for (peer *found = p->chains[i], *next; found != NULL; found = next) {
            next = found->next;
            mem_free(found);
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
    for (peer *found = *chain; found != NULL; found = found->next)
        if (memcmp(found->address, salted, 16) == 0) {
            found->connections++;
            return found;
        }
    peer *found = p->n < MAX_PEERS ? mem_new(1, sizeof *found) : NULL;
    if (found == NULL)
        return NULL;
    memcpy(found->address, salted, 16);
    found->id = id;
    found->connections = 1;
    found->next = *chain;
    *chain = found;
    p->n++;
    return found;
}

void peers_left(peer *p)
{
    p->connections--;
}

bool peer_is_local(const peer *p)
{
    static const unsigned char none[16];
    return memcmp(p->address, none, sizeof none) == 0 || is_loopback6(p->address) ||
           (is_v4(p->address) && p->address[12] == 127);
}

uint32_t peer_failed(peer *p, double now)
{
    if (p->failures == 0 || now - p->since > MINUTE) {
        p->since = now;
        p->failures = 0;
    }
    return ++p->failures;
}

void peers_sweep(peers *p, double now)
{
    for (size_t i = 0; i < CHAINS; i++)
        for (peer **at = &p->chains[i]; *at != NULL;) {
            peer *found = *at;
            bool expired = found->failures == 0 || now - found->since > MINUTE;
            if (found->connections > 0 || !expired) {
                at = &found->next;
                continue;
            }
            *at = found->next;
            mem_free(found);
            p->n--;
        }
}
