/* SPDX-License-Identifier: MIT */
#include "groups_fleet.h"
#include <stdlib.h>

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static int allocate(groups_fleet *f, const uint32_t *ranks)
{
    f->first = calloc((size_t)f->sites + 1, sizeof *f->first);
    if (!f->first)
        return 0;
    for (uint32_t s = 0; s < f->sites; s++)
        f->first[s + 1] = f->first[s] + ranks[s];
    const size_t sites = f->sites, servers = f->servers, all = groups_fleet_ranks(f);
    f->rank = calloc(all, sizeof *f->rank);
    f->push = calloc(all * servers, sizeof *f->push);
    f->across = calloc(sites * servers * sites, sizeof *f->across);
    f->reduced = calloc(servers * sites, sizeof *f->reduced);
    f->answer = calloc(sites * servers, sizeof *f->answer);
    return f->rank && f->push && f->across && f->reduced && f->answer;
}

tlc_status groups_fleet_open(groups_fleet *f, const groups_fleet_options *o)
{
    tlc_status status = TLC_OK;

    *f = (groups_fleet){.sites = o->sites, .servers = o->servers};
    if (!allocate(f, o->ranks))
        return TLC_ERR_NOMEM;
    for (uint32_t s = 0; s < f->sites; s++)
        for (uint32_t i = 0; !status && i < o->ranks[s]; i++) {
            const uint32_t r = f->first[s] + i;
            const groups_place place = {f->sites, s, o->ranks[s], i, f->servers};
            status = groups_open(&f->rank[r], &place, o->inside, o->between, o->tensors(o->arg, r), o->count);
        }
    return status;
}

void groups_fleet_close(groups_fleet *f)
{
    for (uint32_t r = 0; f->rank && f->first && r < groups_fleet_ranks(f); r++)
        groups_close(&f->rank[r]);
    free(f->first);
    free(f->rank);
    free(f->push);
    free(f->across);
    free(f->reduced);
    free(f->answer);
    *f = (groups_fleet){.sites = 0};
}

uint32_t groups_fleet_site(const groups_fleet *f, uint32_t rank)
{
    uint32_t site = 0;

    while (f->first[site + 1] <= rank)
        site++;
    return site;
}

/* ---- a step ------------------------------------------------------------------------------------------------------ */

tlc_status groups_fleet_push(groups_fleet *f, uint32_t rank, const void *const *grads)
{
    return groups_push(&f->rank[rank], grads, f->push + (size_t)rank * f->servers);
}

tlc_status groups_fleet_take(groups_fleet *f, uint32_t site, uint32_t i)
{
    tlc_status status = TLC_OK;

    for (uint32_t r = f->first[site]; !status && r < f->first[site + 1]; r++)
        status = groups_take(groups_fleet_server(f, site, i), f->push[(size_t)r * f->servers + i], NULL);
    return status;
}

static tlc_message *across(const groups_fleet *f, uint32_t site, uint32_t i)
{
    return f->across + ((size_t)site * f->servers + i) * f->sites;
}

tlc_status groups_fleet_reduce(groups_fleet *f, uint32_t site, uint32_t i)
{
    return groups_reduce(groups_fleet_server(f, site, i), across(f, site, i));
}

tlc_status groups_fleet_take_sites(groups_fleet *f, uint32_t site, uint32_t i)
{
    groups *g = groups_fleet_server(f, site, i);
    tlc_status status = TLC_OK;

    for (uint32_t s = 0; g->parts && !status && s < f->sites; s++)
        status = groups_take_site(g, across(f, s, i)[site]);
    return status;
}

tlc_status groups_fleet_reduce_sites(groups_fleet *f, uint32_t site, uint32_t i)
{
    return groups_reduce_sites(groups_fleet_server(f, site, i), &f->reduced[(size_t)i * f->sites + site]);
}

tlc_status groups_fleet_answer(groups_fleet *f, uint32_t site, uint32_t i)
{
    return groups_answer(groups_fleet_server(f, site, i), f->reduced + (size_t)i * f->sites,
                         &f->answer[(size_t)site * f->servers + i]);
}

tlc_status groups_fleet_each(groups_fleet *f, groups_fleet_call *call)
{
    tlc_status status = TLC_OK;

    for (uint32_t s = 0; s < f->sites; s++)
        for (uint32_t i = 0; !status && i < f->servers; i++)
            status = call(f, s, i);
    return status;
}

tlc_status groups_fleet_exchange(groups_fleet *f)
{
    static groups_fleet_call *const calls[] = {groups_fleet_take, groups_fleet_reduce, groups_fleet_take_sites,
                                               groups_fleet_reduce_sites, groups_fleet_answer};
    tlc_status status = TLC_OK;

    for (size_t i = 0; !status && i < sizeof calls / sizeof calls[0]; i++)
        status = groups_fleet_each(f, calls[i]);
    return status;
}

tlc_status groups_fleet_pull(groups_fleet *f, uint32_t rank, void *const *out)
{
    return groups_pull(&f->rank[rank], f->answer + (size_t)groups_fleet_site(f, rank) * f->servers, out);
}

/* ---- bytes ------------------------------------------------------------------------------------------------------- */

uint64_t groups_fleet_sent_inside(const groups_fleet *f, uint32_t rank)
{
    const uint32_t site = groups_fleet_site(f, rank), own = rank - f->first[site];
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < f->servers; i++)
        bytes += i == own ? 0 : f->push[(size_t)rank * f->servers + i].len;
    if (own < f->servers)
        bytes += (uint64_t)f->answer[(size_t)site * f->servers + own].len * (f->first[site + 1] - f->first[site] - 1);
    return bytes;
}

uint64_t groups_fleet_sent_between(const groups_fleet *f, uint32_t rank)
{
    const uint32_t site = groups_fleet_site(f, rank), own = rank - f->first[site];
    uint64_t bytes = 0;

    for (uint32_t s = 0; own < f->servers && s < f->sites; s++)
        if (s != site)
            bytes += across(f, site, own)[s].len + f->reduced[(size_t)own * f->sites + site].len;
    return bytes;
}
