/* SPDX-License-Identifier: MIT
 *
 * P7: frames, decoded values, sums, residuals and states are bit-identical on every ISA and for every tlc_parallel.
 * (Float modes: p7_same_bits_in_float_modes.c. Other compilers and byte orders: the golden vectors.)
 */
#include "p7_run.h"

/* ---- ISAs -------------------------------------------------------------------------------------------------------- */

TEST(p7_isas)
{
    size_t most = quick() ? 200 : 2600, step = quick() ? 11 : 1;
    bench b = bench_open(4096, 3);

    FOR_EACH_CODEC(c)
        for (size_t n = 0, turn = 0; n < most; n += n < 330 ? step : 179, turn++) {
            input in = {c->text,
                        dtypes[turn % 3],
                        n,
                        2,
                        (c->feedback + (int)turn / 3) % 2,
                        turn / 2 % 2,
                        (data_kind)((turn + turn / DATA_COUNT) % DATA_COUNT),
                        NULL,
                        NULL};
            input_open(&in);
            run(&in, &plain, &b.want, b.frame);
            FOR_EACH_ISA(isa) {
                way w = {isa, &runners[0], MODE_DEFAULT};
                if (isa == plain.isa)
                    continue;
                run(&in, &w, &b.got, b.frame);
                require_same_journal(&b.got, &b.want);
            }
            input_close(&in);
        }
    bench_close(&b);
}

/* ---- tlc_parallel ------------------------------------------------------------------------------------------------ */

/* Every ISA has its turn. */
static tlc_isa pick_isa(size_t turn)
{
    tlc_isa isas[8] = {TLC_ISA_SCALAR};
    size_t count = 0;

    FOR_EACH_ISA(isa)
        isas[count++] = isa;
    require(count > 0);
    return isas[turn % count];
}

TEST(p7_parallel)
{
    /* How many ranges: of 16,384 quartic bytes, or of other units that are coded as one. Of four ranges some have
     * neighbours on both sides. (Masks: p7_borders.) */
    static const data_kind kinds[] = {DATA_LAPLACE, DATA_SPARSE, DATA_WIDE, DATA_DENSE, DATA_ZERO, DATA_TIES};
    size_t ranges = quick() ? 2 : 4, turn = 0;
    bench b = bench_open(16384 * 8 * ranges + 13, 1);

    FOR_EACH_CODEC(c)
        for (size_t round = 0; round < (quick() ? 1 : COUNT(kinds) / 2); round++, turn++) {
            size_t n = (size_t)16384 * (c->together == 8 ? 8 : 5) * ranges + 13;
            input in = {c->text,
                        dtypes[turn % 3],
                        n,
                        1,
                        (c->feedback + (int)turn / 3) % 2,
                        turn / 2 % 2,
                        kinds[(2 * round + turn / 3) % COUNT(kinds)],
                        NULL,
                        NULL};
            input_open(&in);
            run(&in, &plain, &b.want, b.frame);
            size_t last = quick() ? 1 : runner_count - 1;
            for (size_t r = 1; r <= last; r++) {
                /* NOLINTNEXTLINE(clang-analyzer-core.DivideZero): there are several runners */
                way w = {pick_isa(turn + r), &runners[quick() ? 1 + turn % (runner_count - 1) : r], MODE_DEFAULT};
                most_tasks = 0;
                run(&in, &w, &b.got, b.frame);
                require(most_tasks >= ranges);
                require_same_journal(&b.got, &b.want);
            }
            input_close(&in);
        }
    bench_close(&b);
}

SETUP(print_isas)
