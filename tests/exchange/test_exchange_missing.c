/* SPDX-License-Identifier: MIT
 *
 * States that are missing: `_state_load` fails and names their ranks, `_state_salvage` goes on without them.
 */
#include "../support/gossip_run.h"

enum { OLD = 4, MOST = 12 };

typedef tlc_status loader(member m, const tlc_message *states, size_t count);

static tlc_status load(member m, const tlc_message *states, size_t count)
{
    return MEMBER(m, state_load, states, count);
}

static tlc_status salvage(member m, const tlc_message *states, size_t count)
{
    return MEMBER(m, state_salvage, states, count);
}

/* Loads the states of these ranks, ended by -1. */
static tlc_status take(member m, loader *how, const tlc_message *saved, const int *ranks)
{
    tlc_message states[MOST];
    size_t count = 0;

    for (; ranks[count] >= 0; count++)
        states[count] = saved[ranks[count]];
    return how(m, states, count);
}

static void says(member m, const char *text)
{
    require_words(member_outcome(m, 0).sentence, text, "load");
}

/* Refused, with this sentence, and nothing changes. */
static void refused(member m, const tlc_message *saved, const int *ranks, const char *text)
{
    tlc_message before = member_save(m);

    require_status(take(m, load, saved, ranks), TLC_ERR_PARAM);
    says(m, text);
    require_state(m, before);
    blob_free(&before);
}

/* States of `old` workers and of `servers` servers after some steps. */
static void save(fleet *f, fleet_kind kind, uint32_t old, tlc_message *workers, tlc_message *servers)
{
    const tlc_exchange_config cfg = fleet_config(kind, old, small_tensors);

    fleet_open(f, &cfg, small_tensors, 1);
    for (uint64_t step = 1; step <= 3; step++)
        fleet_step(f, step);
    for (uint32_t i = 0; i < old; i++)
        workers[i] = member_save(f->worker[i]);
    for (uint32_t i = 0; i < cfg.servers; i++)
        servers[i] = member_save(f->owner[i]);
}

static void give_back(fleet *f, tlc_message *workers, tlc_message *servers)
{
    for (uint32_t i = 0; i < f->workers; i++)
        blob_free(&workers[i]);
    for (uint32_t i = 0; i < f->cfg.servers; i++)
        blob_free(&servers[i]);
    fleet_close(f);
}

#define RANKS(...) ((const int[]){__VA_ARGS__, -1})

TEST(other_numbers)
{
    static const uint32_t numbers[] = {1, 3, 5};

    FOR_EACH_KIND(kind)
        for (size_t k = 0; k < COUNT(numbers); k++) {
            const int ps = kind >= ONE_SERVER;
            tlc_message workers[MOST], servers[MOST];
            fleet old, new;
            save(&old, kind, OLD, workers, servers);
            const tlc_exchange_config cfg = fleet_config(kind, numbers[k], small_tensors);
            fleet_open(&new, &cfg, small_tensors, 1);
            for (uint32_t i = 0; i < numbers[k]; i++) {
                const member m = new.worker[i];
                refused(m, workers, RANKS(0, 1, 3),
                        ps ? "the state of worker 2 is missing of a run of 4" : "the state of rank 2 is missing");
                refused(m, workers, RANKS(3, 1),
                        ps ? "the states of workers 0 and 2 are" : "the states of ranks 0 and 2 are");
                refused(m, workers, RANKS(1), ps ? "workers 0, 2 and 3" : "ranks 0, 2 and 3");
                refused(m, workers, RANKS(0, 1, 2, 3, 1), ps ? "worker 1 has two states" : "rank 1 has two states");
                require_status(take(m, load, workers, RANKS(2, 1, 3, 0)), TLC_OK);
                require_status(take(m, salvage, workers, RANKS(3, 1)), TLC_OK);
                says(m, ps ? "the states of workers 0 and 2 are lost; " : "the states of ranks 0 and 2 are lost; ");
                require_status(take(m, salvage, workers, RANKS(1, 1)), TLC_ERR_PARAM);
                require_status(take(m, salvage, workers, RANKS(0, 1, 2, 3)), TLC_OK);
                says(m, "entries of the states without a place here: 0");
            }
            give_back(&old, workers, servers);
            fleet_close(&new);
        }
}

/* What is lost is 0, and what is not, is there. */
TEST(lost_residuals)
{
    FOR_EACH_KIND(kind) {
        tlc_message workers[MOST], servers[MOST];
        fleet old, new;
        save(&old, kind, OLD, workers, servers);
        const tlc_exchange_config cfg = fleet_config(kind, 2, small_tensors);
        fleet_open(&new, &cfg, small_tensors, 1);
        for (uint32_t i = 0; i < 2; i++)
            require_status(take(new.worker[i], salvage, workers, RANKS(0, 1, 2)), TLC_OK);
        for (size_t t = 0; t < TENSORS; t++)
            for (size_t k = 0; k < small_tensors[t].n && small_tensors[t].only == TLC_NOBODY; k++) {
                const float one = old.residual[1 * TENSORS + t][k] * 0.5f; /* of 0 and 2, and of 1 alone */
                const float two = (old.residual[t][k] + old.residual[2 * TENSORS + t][k]) * 0.5f;
                require(new.residual[TENSORS + t][k] == one);
                require(new.residual[t][k] == two);
            }
        give_back(&old, workers, servers);
        fleet_close(&new);
    }
}

/* With as many ranks, each needs its own state, and no other. */
TEST(same_numbers)
{
    FOR_EACH_KIND(kind) {
        const int ps = kind >= ONE_SERVER;
        tlc_message workers[MOST], servers[MOST];
        fleet old, new;
        save(&old, kind, OLD, workers, servers);
        fleet_open(&new, &old.cfg, small_tensors, 1);
        for (uint32_t i = 0; i < OLD; i++) {
            require_status(load(new.worker[i], &workers[i], 1), TLC_OK);
            require_state(new.worker[i], workers[i]);
        }
        refused(new.worker[2], workers, RANKS(0),
                ps ? "the state of worker 2 is missing" : "the state of rank 2 is missing");
        refused(new.worker[2], workers, RANKS(0, 1, 3), ps ? "the state of worker 2 is" : "the state of rank 2 is");
        for (uint32_t i = 0; i < old.cfg.servers; i++)
            require_status(load(new.owner[i], &servers[i], 1), TLC_OK);
        if (old.cfg.servers == 3)
            refused(new.owner[2], servers, RANKS(0, 1), "the state of server 2 is missing of a run of 3");
        give_back(&old, workers, servers);
        fleet_close(&new);
    }
}

/* As many ranks, but fewer owners: what the others owned is in their states. */
TEST(other_owners)
{
    tlc_message workers[MOST], servers[MOST];
    fleet old, new;

    save(&old, SHARDED, OLD, workers, servers);
    tlc_exchange_config cfg = old.cfg;
    cfg.owners = 2;
    fleet_open(&new, &cfg, small_tensors, 1);
    refused(new.worker[0], workers, RANKS(0), "the states of ranks 1, 2 and 3 are missing");
    require_status(load(new.worker[0], workers, OLD), TLC_OK);
    give_back(&old, workers, servers);
    fleet_close(&new);

    save(&old, THREE_SERVERS, OLD, workers, servers);
    cfg = old.cfg;
    cfg.servers = 2;
    fleet_open(&new, &cfg, small_tensors, 1);
    require_status(load(new.worker[0], workers, 1), TLC_OK); /* as many workers */
    refused(new.owner[1], servers, RANKS(0, 2), "the state of server 1 is missing of a run of 3");
    require_status(load(new.owner[1], servers, 3), TLC_OK);
    give_back(&old, workers, servers);
    fleet_close(&new);
}

/* Of a large run, some are named. A sentence that is too long for all names ends with "...". */
TEST(many)
{
    static const char name[] = "a.name.that.is.as.long.as.those.of.large.models.sometimes.are.weight";
    tlc_message workers[MOST], servers[MOST];
    tlc_tensor tensors[TENSORS];
    fleet old, new, other;

    save(&old, GATHERED, MOST, workers, servers);
    const tlc_exchange_config cfg = fleet_config(GATHERED, 2, small_tensors);
    fleet_open(&new, &cfg, small_tensors, 1);
    refused(new.worker[0], workers, RANKS(3), "the states of ranks 0, 1, 2, 4, 5, 6, 7, 8 and 3 more are missing");
    memcpy(tensors, small_tensors, sizeof tensors);
    tensors[3].name = name;
    fleet_open(&other, &cfg, tensors, 1);
    require_status(take(other.worker[0], salvage, workers, RANKS(3)), TLC_OK);
    const tlc_outcome o = member_outcome(other.worker[0], 0);
    require(o.unknown > 0 && o.missing > 0 && strlen(o.sentence) == sizeof o.sentence - 1);
    require(!strcmp(o.sentence + sizeof o.sentence - 4, "..."));
    fleet_close(&other);
    give_back(&old, workers, servers);
    fleet_close(&new);
}

/* A tensor becomes that of one worker alone. Each goes on with its own state. What the others have not sent yet has no
 * place. */
TEST(one_worker_alone)
{
    FOR_EACH_KIND(kind) {
        tlc_message workers[MOST], servers[MOST];
        tlc_tensor tensors[TENSORS];
        fleet old, new;
        save(&old, kind, OLD, workers, servers);
        const tlc_exchange_config cfg = fleet_config(kind, OLD, small_tensors);
        memcpy(tensors, small_tensors, sizeof tensors);
        tensors[3].only = 1; /* wide */
        fleet_open(&new, &cfg, tensors, 1);
        for (uint32_t i = 0; i < OLD; i++) {
            const int own[] = {(int)i, -1};
            require_status(take(new.worker[i], load, workers, own), TLC_OK);
            says(new.worker[i], i == 1 ? "without a place here: 0" : ", first \"wide\"");
            require_status(take(new.worker[i], salvage, workers, own), TLC_OK);
            says(new.worker[i], i == 1 ? "without a place here: 0" : ", first \"wide\"");
            require_status(take(new.worker[i], load, workers, RANKS(0, 1, 2, 3)), TLC_OK);
            says(new.worker[i], "without a place here: 0"); /* worker 1 has them all */
        }
        give_back(&old, workers, servers);
        fleet_close(&new);
    }
}

/* ---- gossip ------------------------------------------------------------------------------------------------------ */

static void node_says(const network *net, const char *text)
{
    require_words(node_outcome(net, 0).sentence, text, "load");
}

TEST(gossip)
{
    FOR_EACH_GOSSIP(kind) {
        tlc_message states[OLD];
        network net, other;
        network_ring(&net, kind, OLD, "raw", 3);
        network_ring(&other, kind, 3, "raw", 0);
        for (uint32_t i = 0; i < OLD; i++)
            states[i] = node_save(&net, i);
        tlc_gossip *g = other.node[0].g, *same = net.node[0].g;
        require_status(tlc_gossip_state_load(g, states + 1, 3), TLC_ERR_PARAM);
        node_says(&other, "node 0: the state of node 0 is missing of a run of 4");
        require_status(tlc_gossip_state_load(g, states, 1), TLC_ERR_PARAM);
        node_says(&other, "the states of nodes 1, 2 and 3 are missing");
        require_status(tlc_gossip_state_load(same, states + 1, 2), TLC_ERR_PARAM);
        node_says(&net, "the states of nodes 0 and 3 are missing");
        require_status(tlc_gossip_state_load(same, states, 1), TLC_OK);
        require_status(tlc_gossip_state_load(g, states, OLD), TLC_OK);
        const tlc_message two[] = {states[3], states[1]}, twice[] = {states[3], states[3]};
        require_status(tlc_gossip_state_salvage(g, twice, 2), TLC_ERR_PARAM);
        node_says(&other, "node 3 has two states");
        require_status(tlc_gossip_state_salvage(g, two, 2), TLC_OK);
        node_says(&other, "the states of nodes 0 and 2 are lost; ");
        for (size_t k = 0; k < net_tensors[CONV].n; k++) {
            const float a = tlc_gossip_model(net.node[1].g, CONV)[k], b = tlc_gossip_model(net.node[3].g, CONV)[k];
            const float mean = tlc_gossip_model(g, CONV)[k];
            require(mean >= 0.5f * (a + b) - 1e-5f && mean <= 0.5f * (a + b) + 1e-5f);
        }
        for (uint32_t i = 0; i < OLD; i++)
            blob_free(&states[i]);
        network_close(&net);
        network_close(&other);
    }
}
