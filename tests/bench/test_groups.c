/* SPDX-License-Identifier: MIT
 *
 * Groups of groups (bench/sim/groups.h): results, agreement of all ranks of all sites, failures. test_groups_messages.c
 * has books over many steps, and messages that are lost or altered.
 */
#include "groups_world.h"
#include <math.h>

static world w;

static void spoil(uint32_t rank, size_t value, float x)
{
    w.grad[rank][value] = x;
}

static void spoil_site(uint32_t site)
{
    for (uint32_t r = w.f.first[site]; r < w.f.first[site + 1]; r++)
        spoil(r, r, r % 2 ? NAN : INFINITY);
}

/* ---- results ----------------------------------------------------------------------------------------------------- */

/* out[0] is the mean of those who are in the round. In the site and between sites a factor, the products and the sums
 * are rounded, so a value is off by less than RANKS + 5 times 2^-24 of the mean magnitude. */
static void require_mean(const int *out_of_round)
{
    for (size_t k = 0; k < VALUES; k++) {
        double sum = 0, magnitudes = 0;
        size_t count = 0;
        at.i = k;
        for (uint32_t r = 0; r < RANKS; r++)
            if (!out_of_round[r]) {
                sum += w.grad[r][k];
                magnitudes += fabs((double)w.grad[r][k]);
                count++;
            }
        count = count ? count : 1;
        require(fabs(w.out[0][k] - sum / (double)count) <= 0x1p-24 * (RANKS + 5) * magnitudes / (double)count);
    }
}

/* Each row: who is not in the round. Of the first rows also: ranks 0 and 1 are, with a gradient that is not finite. The
 * sites are ranks 0 to 2, 3 and 4, 5 to 7. */
TEST(raw_is_the_mean)
{
    static const int out_of_round[][RANKS] = {{0},
                                              {0, 1},
                                              {1, 0, 0, 1, 0, 0, 0, 0},
                                              {0, 0, 0, 1, 1, 0, 0, 0},
                                              {1, 1, 1, 0, 1, 1, 1, 1},
                                              {1, 1, 1, 1, 1, 1, 1, 1}};
    static const char *const codecs_of_sites[] = {"raw", "3lc"};

    for (int nan = 0; nan < 2; nan++)
        for (size_t row = 0; row < (nan ? 3 : COUNT(out_of_round)); row++) {
            world_init(&w, "raw", "raw");
            w.between.reserve = codecs_of_sites[row % 2]; /* with residuals between the sites, and without */
            world_open(&w);
            for (uint64_t step = 1; step <= 3; step++) {
                world_draw(&w, step);
                for (uint32_t r = 0; r < RANKS; r++) {
                    w.absent[r] = out_of_round[row][r] && !(nan && r < 2);
                    if (out_of_round[row][r] && !w.absent[r])
                        spoil(r, 5, NAN);
                }
                world_step(&w);
                require_status(world_agree(&w), TLC_OK);
                require_mean(out_of_round[row]);
            }
            world_close(&w);
        }
}

TEST(ranks_agree)
{
    static const char *const list[][2] = {{"3lc", "3lc"},         {"natural", "3lc:s=1.75"}, {"raw", "sbc:p=0.1"},
                                          {"3lc-golomb", "qsgd"}, {"onebit", "natural"},     {"topk", "3lc-golomb"}};

    for (size_t i = 0; i < COUNT(list); i++) {
        world_init(&w, list[i][0], list[i][1]);
        at.codec = list[i][1];
        w.between.reserve = NULL;                /* codecs without a residual stay so between the sites */
        w.between.split_n = i % 2 ? 100 : 65536; /* parts are cut again */
        world_open(&w);
        for (uint64_t step = 1; step <= 20; step++) {
            world_draw(&w, 100 * i + step);
            w.absent[step % RANKS] = 1;
            world_step(&w);
            require_status(world_agree(&w), TLC_OK);
            require(!all_bytes(w.out[0], sizeof w.out[0], BEFORE));
        }
        world_close(&w);
    }
}

/* Workers of different sites draw different numbers, so errors are independent. Site 0 and site 2 are of one size. */
TEST(sites_draw_their_own)
{
    for (int random = 0; random < 2; random++) {
        world_init(&w, random ? "natural" : "3lc", "3lc");
        world_open(&w);
        world_draw(&w, 1);
        memcpy(w.grad[w.f.first[2]], w.grad[0], sizeof w.grad[0]);
        world_push(&w);
        for (uint32_t i = 0; i < SERVERS; i++) {
            const tlc_message a = w.f.push[i], b = w.f.push[w.f.first[2] * SERVERS + i];
            require((a.len == b.len && same(a.data, b.data, a.len)) == !random);
        }
        world_close(&w);
    }
}

/* With 3lc the fourth compression loses nothing, if a part has one owner between the sites. */
TEST(the_last_compression_is_exact)
{
    for (int cut = 0; cut < 2; cut++) {
        int lost = 0;
        world_init(&w, "3lc", "3lc");
        w.between.split_n = cut ? 100 : 65536;
        world_open(&w);
        for (uint64_t step = 1; step <= 10; step++) {
            world_draw(&w, step);
            world_step(&w);
            require_status(world_agree(&w), TLC_OK);
            for (uint32_t i = 0; i < SERVERS; i++)
                for (size_t p = 0; p < groups_fleet_server(&w.f, 0, i)->parts; p++) {
                    const world_part part = world_inside(&w, 0, i, p);
                    lost |= !all_bytes(part.residual, part.n * sizeof *part.residual, 0);
                }
        }
        require(lost == cut);
        world_close(&w);
    }
}

/* A tensor that is not small is compressed between the sites, though each of its parts would be small. */
TEST(small_parts_are_compressed)
{
    world_init(&w, "3lc", "3lc");
    w.inside.min_n = 1000;
    w.count = 2; /* 1000 values, and 40, which are raw */
    world_open(&w);
    world_draw(&w, 1);
    world_step(&w);
    for (uint32_t i = 0; i < SERVERS; i++) {
        require(groups_fleet_server(&w.f, 0, i)->values < 1000);
        require(groups_fleet_sent_between(&w.f, i) < 2 * (SITES - 1) * 500);
    }
    world_close(&w);
}

/* ---- failures ---------------------------------------------------------------------------------------------------- */

/* What waits in residuals, by value. */
static void add_waiting(void *sums, size_t value, float waiting)
{
    ((double *)sums)[value] += waiting;
}

/* All gradients of a site are not finite: the step fails everywhere. Pushes go back, and nothing else has changed. */
TEST(a_site_fails)
{
    static double before[VALUES], after[VALUES];

    world_init(&w, "3lc", "3lc");
    world_open(&w);
    for (uint64_t step = 1; step <= 12; step++) {
        const uint32_t site = (uint32_t)(step % SITES);
        world_draw(&w, step);
        memset(before, 0, sizeof before);
        memset(after, 0, sizeof after);
        world_waiting(&w, add_waiting, before);
        if (step % 2) {
            spoil_site(site);
            world_step(&w);
            require_status(world_agree(&w), TLC_ERR_STEP);
            require(all_bytes(w.out, sizeof w.out, BEFORE));
            world_waiting(&w, add_waiting, after);
            for (size_t k = 0; k < VALUES; k++) {
                double given = 0, magnitudes = fabs(before[k]);
                for (uint32_t r = 0; r < RANKS; r++) {
                    if (r >= w.f.first[site] && r < w.f.first[site + 1])
                        continue;
                    given += w.grad[r][k];
                    magnitudes += fabs((double)w.grad[r][k]);
                }
                at.i = k;
                require(fabs(after[k] - before[k] - given) <= 1e-5 * magnitudes);
            }
        } else {
            world_step(&w);
            require_status(world_agree(&w), TLC_OK);
        }
    }
    world_close(&w);
}

static int is_in(const world_part *p, size_t value)
{
    return value >= p->first && value < p->first + p->n;
}

/* The server of a value, and its part there. */
static uint32_t server_of(size_t value, size_t *part)
{
    for (uint32_t i = 0; i < SERVERS; i++)
        for (*part = 0; *part < groups_fleet_server(&w.f, 0, i)->parts; ++*part) {
            const world_part p = world_inside(&w, 0, i, *part);
            if (is_in(&p, value))
                return i;
        }
    require_failed("a value has no server", __FILE__, __LINE__);
}

/* A sum in a site is not finite: all that its server owns fails in all sites, and the rest does not. */
TEST(a_sum_of_a_site_overflows)
{
    world_init(&w, "raw", "raw");
    w.inside.sum = 1;
    world_open(&w);
    for (size_t value = 0; value < VALUES; value += 97) {
        size_t part;
        const uint32_t server = server_of(value, &part);
        world_draw(&w, value);
        spoil(w.f.first[1], value, 3e38f);
        spoil(w.f.first[1] + 1, value, 3e38f);
        world_step(&w);
        require_status(world_agree(&w), TLC_ERR_STEP);
        for (uint32_t i = 0; i < SERVERS; i++)
            for (size_t p = 0; p < groups_fleet_server(&w.f, 0, i)->parts; p++) {
                const world_part own = world_inside(&w, 0, i, p);
                if (own.n)
                    require(all_bytes(w.out[0] + own.first, own.n * sizeof **w.out, BEFORE) == (i == server));
            }
        for (uint32_t r = 0; r < RANKS; r++)
            memset(w.residual[r], 0, sizeof w.residual[r]);
    }
    world_close(&w);
}

/* A sum of sites is not finite: it waits, and the step goes on. */
TEST(a_sum_of_sites_overflows)
{
    const size_t value = 700;
    size_t part;

    world_init(&w, "raw", "raw");
    w.inside.sum = 1;
    world_open(&w);
    const uint32_t server = server_of(value, &part);
    world_draw(&w, 1);
    world_step(&w);
    require_status(world_agree(&w), TLC_OK);
    for (int again = 0; again < 2; again++) {
        memset(w.grad, 0, sizeof w.grad);
        for (uint32_t s = 0; s < SITES; s++)
            spoil(w.f.first[s], value, again ? -1e38f : 2e38f);
        world_step(&w);
        require_status(world_agree(&w), TLC_OK);
        if (again) /* 3 (2e38 - 1e38), but for rounding */
            require(fabs(w.out[0][value] / 3e38 - 1) < 1e-6);
        else
            require(w.out[0][value] == 0);
        for (uint32_t s = 0; s < SITES; s++) {
            const groups *g = groups_fleet_server(&w.f, s, server);
            const float *waiting = (const float *)g->pulled[part] - g->delta + g->waiting;
            const world_part p = world_inside(&w, s, server, part);
            require(waiting[value - p.first] == (again ? 0 : 2e38f));
        }
    }
    world_close(&w);
}

TEST(open_fails)
{
    static const groups_place places[] = {{2, 2, 2, 0, 1}, {0, 0, 2, 0, 1}, {2, 0, 2, 2, 1},
                                          {2, 0, 2, 0, 3}, {2, 0, 2, 0, 0}, {2, 0, 0, 0, 0}};
    const groups_place good = {2, 0, 2, 0, 1};
    groups g;

    world_init(&w, "3lc", "3lc");
    for (size_t i = 0; i < COUNT(places); i++) {
        at.i = i;
        require_status(groups_open(&g, &places[i], &w.inside, &w.between, w.tensors, w.count), TLC_ERR_PARAM);
        groups_close(&g);
    }
    require_status(groups_open(&g, &good, &w.inside, &w.between, w.tensors, w.count), TLC_OK);
    groups_close(&g);
    w.between.backup = 1;
    require_status(groups_open(&g, &good, &w.inside, &w.between, w.tensors, w.count), TLC_ERR_PARAM);
    groups_close(&g);
    w.between.backup = 0;
    w.between.push = "4lc";
    require_status(groups_open(&g, &good, &w.inside, &w.between, w.tensors, w.count), TLC_ERR_PARAM);
    groups_close(&g);
}
