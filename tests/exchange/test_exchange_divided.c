/* SPDX-License-Identifier: MIT
 *
 * A run whose ranks had several objects, each with other tensors, goes on with one object for all of them.
 */
#include "../support/exchange_run.h"

enum { OLD = 4, HALVES = 2, CUT = 3 };

/* What ranks have saved: of workers, or ranks, and of servers, one half after the other. */
typedef struct divided {
    fleet half[HALVES];
    tlc_message workers[HALVES * OLD], servers[HALVES * OLD];
} divided;

static uint32_t half_of(size_t tensor)
{
    return tensor >= CUT;
}

/* Two fleets of the same tensors after some steps. In each the tensors of the other one have other names. */
static void run_halves(divided *d, fleet_kind kind)
{
    static const char *const elsewhere[TENSORS] = {"0", "1", "2", "3", "4", "5", "6"};
    const tlc_exchange_config cfg = fleet_config(kind, OLD, small_tensors);

    for (uint32_t h = 0; h < HALVES; h++) {
        tlc_tensor tensors[TENSORS];
        memcpy(tensors, small_tensors, sizeof tensors);
        for (size_t t = 0; t < TENSORS; t++)
            if (half_of(t) != h)
                tensors[t].name = elsewhere[t];
        fleet_open(&d->half[h], &cfg, tensors, 1);
        for (uint64_t step = 1; step <= 3; step++)
            fleet_step(&d->half[h], 10 * h + step);
        for (uint32_t i = 0; i < OLD; i++)
            d->workers[h * OLD + i] = member_save(d->half[h].worker[i]);
        for (uint32_t i = 0; i < cfg.servers; i++)
            d->servers[h * OLD + i] = member_save(d->half[h].owner[i]);
    }
}

static void give_back(divided *d)
{
    for (uint32_t h = 0; h < HALVES; h++) {
        for (uint32_t i = 0; i < OLD; i++)
            blob_free(&d->workers[h * OLD + i]);
        for (uint32_t i = 0; i < d->half[h].cfg.servers; i++)
            blob_free(&d->servers[h * OLD + i]);
        fleet_close(&d->half[h]);
    }
}

/* The residuals of answers are those of the halves. */
static void check_answers(const divided *d, const fleet *f, uint32_t owner)
{
    for (size_t p = 0; p < member_parts(f->owner[owner]); p++) {
        const tlc_part part = member_part(f->owner[owner], p);
        const tlc_part old = member_part(d->half[half_of(part.tensor)].owner[owner], p);
        require(part.first == old.first && part.n == old.n && !part.residual == !old.residual);
        for (size_t k = 0; part.residual && k < part.n; k++)
            require(part.residual[k] == old.residual[k]);
    }
}

TEST(own_states)
{
    FOR_EACH_KIND(kind) {
        divided d;
        fleet new;
        run_halves(&d, kind);
        fleet_open(&new, &d.half[0].cfg, small_tensors, 1);
        for (uint32_t i = 0; i < OLD; i++) {
            const tlc_message both[] = {d.workers[i], d.workers[OLD + i]};
            require_status(MEMBER(new.worker[i], state_load, both, 2), TLC_OK);
            require(member_step(new.worker[i]) == member_step(d.half[0].worker[i]));
            for (size_t t = 0; t < TENSORS; t++)
                for (size_t k = 0; k < small_tensors[t].n && small_tensors[t].only == TLC_NOBODY; k++)
                    require(new.residual[i * TENSORS + t][k] == d.half[half_of(t)].residual[i * TENSORS + t][k]);
        }
        for (uint32_t i = 0; i < new.cfg.servers; i++) {
            const tlc_message both[] = {d.servers[i], d.servers[OLD + i]};
            require_status(MEMBER(new.owner[i], state_load, both, 2), TLC_OK);
        }
        for (uint32_t i = 0; i < new.owners; i++)
            check_answers(&d, &new, i);
        fleet_close(&new);
        give_back(&d);
    }
}

TEST(other_ranks)
{
    FOR_EACH_KIND(kind) {
        divided d;
        fleet new;
        run_halves(&d, kind);
        const tlc_exchange_config cfg = fleet_config(kind, 2, small_tensors);
        fleet_open(&new, &cfg, small_tensors, 1);
        for (uint32_t i = 0; i < 2; i++) {
            require_status(MEMBER(new.worker[i], state_load, d.workers, 2 * OLD), TLC_OK);
            for (size_t t = 0; t < TENSORS; t++)
                for (size_t k = 0; k < small_tensors[t].n && small_tensors[t].only == TLC_NOBODY; k++) {
                    float *const *old = d.half[half_of(t)].residual;
                    const float sum = old[i * TENSORS + t][k] + old[(i + 2) * TENSORS + t][k];
                    require(new.residual[i * TENSORS + t][k] == sum * 0.5f);
                }
        }
        fleet_close(&new);
        give_back(&d);
    }
}

static void refused(member m, const tlc_message *states, size_t count, const char *text)
{
    require_status(MEMBER(m, state_load, states, count), TLC_ERR_PARAM);
    require_words(member_outcome(m, 0).sentence, text, "state_load");
}

/* A tensor twice; a rank of which there is nothing; another step. */
TEST(misfits)
{
    FOR_EACH_KIND(kind) {
        const int ps = kind >= ONE_SERVER;
        divided d;
        fleet new;
        run_halves(&d, kind);
        const tlc_exchange_config cfg = fleet_config(kind, 2, small_tensors);
        fleet_open(&new, &cfg, small_tensors, 1);
        const tlc_message twice[] = {d.workers[1], d.workers[OLD + 1], d.workers[1]};
        refused(new.worker[0], twice, 3, ps ? "worker 1 has two states" : "rank 1 has two states");
        const tlc_message one[] = {d.workers[0], d.workers[OLD], d.workers[1], d.workers[OLD + 1], d.workers[2]};
        refused(new.worker[0], one, 5, ps ? "the state of worker 3 is missing" : "the state of rank 3 is missing");
        fleet_step(&d.half[1], 4);
        tlc_message later = member_save(d.half[1].worker[1]);
        const tlc_message apart[] = {d.workers[1], later};
        refused(new.worker[0], apart, 2, ps ? "worker 1 has two states" : "rank 1 has two states");
        blob_free(&later);
        fleet_close(&new);
        give_back(&d);
    }
}
