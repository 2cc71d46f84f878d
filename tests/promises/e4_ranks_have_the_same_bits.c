/* SPDX-License-Identifier: MIT
 *
 * E4: all ranks have bit-identical results: for all codecs, dtypes and numbers of ranks, at any address, with weights,
 * absent ranks, owners that are not all ranks, and frames with checksums.
 */
#include "../support/gossip_run.h"

static const uint32_t numbers[] = {1, 2, 3, 5, 8, 11};
static const char *const others[] = {"3lc", "raw", "natural", "sbc:p=0.1", "onebit"};

/* Some steps, in which each worker has another weight, and now and then is not in the round. */
static void run_steps(const tlc_exchange_config *cfg, const tlc_tensor *tensors, size_t turn)
{
    fleet f;
    int any = 0;

    at.codec = cfg->push;
    at.dtype = cfg->dtype;
    at.n = cfg->workers;
    fleet_open(&f, cfg, tensors, 0);
    for (uint64_t step = 1; step <= 3; step++) {
        for (uint32_t w = 0; w < f.workers; w++) {
            f.weight[w] = step == 1 ? 1 : (double)(w + turn % 3 + 1) / 4;
            f.absent[w] = step == 3 && (w + turn) % 3 == 0;
        }
        fleet_step(&f, turn * 10 + step);
        require_pulled(&f, TLC_OK);
        for (uint32_t o = 0; o < f.owners; o++) { /* who owns nothing needs no messages */
            require((f.push[o].len == 0) == (member_parts(f.owner[o]) == 0 && !cfg->servers));
            require((f.answer[o].len == 0) == (member_parts(f.owner[o]) == 0 && !cfg->servers));
        }
        for (size_t t = 0; t < TENSORS; t++)
            any |= !all_bytes(f.out[t], fleet_bytes(&f, t), 0);
    }
    require(any);
    fleet_close(&f);
}

static tlc_exchange_config configuration(fleet_kind kind, size_t turn)
{
    tlc_exchange_config cfg = fleet_config(kind, numbers[turn % COUNT(numbers)], large_tensors);

    cfg.dtype = dtypes[turn % 3];
    cfg.sum = turn / 3 % 2;
    cfg.seed = turn;
    if (kind == SHARDED && turn / 2 % 3 == 0)
        cfg.owners = 1 + (uint32_t)(turn % 3);
    return cfg;
}

TEST(e4_codecs)
{
    size_t turn = 0, step = quick() ? 7 : 1;

    for (const codec_case *c = codecs; c < codecs + codec_count; c += step)
        FOR_EACH_KIND(kind)
            for (int as_pull = 0; as_pull < (kind == GATHERED ? 1 : 2); as_pull++, turn++) {
                tlc_exchange_config cfg = configuration(kind, turn);
                const char *other = others[turn / 4 % COUNT(others)];
                cfg.push = as_pull ? other : c->text;
                cfg.pull = as_pull ? c->text : other;
                run_steps(&cfg, large_tensors, turn);
            }
}

/* Every number of ranks with every dtype, and as many owners as there can be. */
TEST(e4_ranks)
{
    size_t turn = 0;

    FOR_EACH_KIND(kind)
        FOR_EACH_DTYPE(dtype)
            for (size_t i = 0; i < COUNT(numbers); i++)
                for (uint32_t owners = 0; owners <= (kind == SHARDED ? numbers[i] : 0); owners++, turn++) {
                    tlc_exchange_config cfg = fleet_config(kind, numbers[i], large_tensors);
                    cfg.dtype = dtype;
                    cfg.owners = owners;
                    cfg.sum = (int)(turn % 2);
                    if (!quick() || turn % 3 == 0)
                        run_steps(&cfg, large_tensors, turn);
                }
}

/* Frames of pushes and of answers that have other parts: what is small in one direction is not in the other. */
TEST(e4_other_frames)
{
    tlc_tensor tensors[TENSORS];

    memcpy(tensors, large_tensors, sizeof tensors);
    tensors[0].pull = "3lc";
    tensors[1].push = "raw";
    tensors[4].push = "onebit";
    tensors[6].pull = "sbc:p=0.2";
    FOR_EACH_KIND(kind)
        for (size_t turn = 0; turn < 6; turn++) {
            tlc_exchange_config cfg = configuration(kind, turn);
            cfg.push = others[turn % COUNT(others)];
            run_steps(&cfg, tensors, turn);
        }
}

/* What differs between machines must not matter. */
TEST(e4_unlike_machines)
{
    FOR_EACH_KIND(kind)
        for (size_t turn = 0; turn < (quick() ? 4 : 20); turn++) {
            tlc_exchange_config cfg = fleet_config(kind, 3, large_tensors);
            tlc_isa isas[8] = {TLC_ISA_SCALAR};
            size_t count = 0;
            fleet f;
            FOR_EACH_ISA(isa)
                isas[count++] = isa;
            cfg.push = codecs[turn * 5 % codec_count].text;
            cfg.pull = codecs[turn * 7 % codec_count].text;
            at.codec = cfg.push;
            fleet_open(&f, &cfg, large_tensors, 0);
            for (uint32_t i = 0; i < 3; i++) {
                cfg.isa = isas[(i + turn) % count];
                cfg.seed = 77 * (i + 1);
                cfg.keep = 1 + i;
                cfg.parallel = runners[(i + turn) % runner_count].parallel;
                member_destroy(f.worker[i]);
                f.worker[i] = (member){.rank = NULL};
                require_status(fleet_make(&f, &cfg, i, 0, &f.worker[i]), TLC_OK);
            }
            for (uint64_t step = 0; step < 3; step++) {
                fleet_step(&f, turn * 10 + step);
                require_pulled(&f, TLC_OK);
            }
            fleet_close(&f);
        }
}

/* The frame of WIDE, the only one in a push. */
static tlc_message frame_with_checksum(const fleet *f, uint32_t w)
{
    const size_t n = f->tensors[WIDE].n;
    tlc_config cfg = config(f->cfg.push, f->cfg.dtype, TLC_ISA_AUTO);
    cfg.checksum = 1;
    tlc_ctx *ctx = create(&cfg, n);
    uint8_t *frame = bytes(tlc_bound(ctx));
    const tlc_message made = {frame, compress(ctx, f->grad[w * TENSORS + WIDE], frame)};

    tlc_destroy(ctx);
    return made;
}

/* A push as a library might make it whose frames have checksums. */
static tlc_message add_checksum(fleet *f, leg on, uint32_t from, uint32_t to, tlc_message message)
{
    static uint8_t b[4096];
    tlc_bundle_reader r;
    tlc_bundle_writer writer;
    tlc_message bundle;

    (void)to;
    if (on != TO_OWNER || from || !message.len)
        return message;
    const size_t head = open_bundle(message, &r);
    require(head > 0);
    memcpy(b, message.data, head);
    tlc_message frame = frame_with_checksum(f, from);
    require_status(tlc_bundle_init(&writer, b + 1024, sizeof b - 1024, 1), TLC_OK);
    require_status(tlc_bundle_add(&writer, frame.data, frame.len), TLC_OK);
    require_status(tlc_bundle_finish(&writer, &bundle), TLC_OK);
    memmove(b + head, bundle.data, bundle.len);
    blob_free(&frame);
    blob_seal(b, head + bundle.len + 4);
    return (tlc_message){b, head + bundle.len + 4};
}

/* The first frame has a checksum, so that the aggregation of all would not fit in what an owner has room for. It
 * compresses the sum, which makes the same frame if nothing is rounded at random. */
TEST(e4_checksums)
{
    tlc_tensor tensors[TENSORS];

    memcpy(tensors, large_tensors, sizeof tensors);
    for (size_t t = 0; t < TENSORS; t++)
        tensors[t].n = t == WIDE ? tensors[t].n : 0;
    for (int server = 0; server < 2; server++) {
        tlc_exchange_config cfg = fleet_config(server ? ONE_SERVER : SHARDED, 3, large_tensors);
        fleet f, twin;
        cfg.push = "natural:rounding=nearest";
        cfg.sum = 1;
        cfg.owners = !server;
        fleet_open(&f, &cfg, tensors, 0);
        fleet_open(&twin, &cfg, tensors, 0);
        f.via = add_checksum;
        fleet_step(&f, 1);
        fleet_step(&twin, 1);
        require_pulled(&f, TLC_OK);
        require(blob_same(f.answer[0], twin.answer[0]));
        fleet_close(&f);
        fleet_close(&twin);
    }
}

SETUP(print_isas)
