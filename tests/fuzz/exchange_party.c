/* SPDX-License-Identifier: MIT */
#include "exchange_party.h"
#include <math.h>
#include <xxhash.h>

/* ---- the plan ---------------------------------------------------------------------------------------------------- */

static const uint16_t sizes[] = {0, 1, 2, 3, 5, 15, 16, 17, 40, 64, 100, 255, 256, 300, 700, 1300};
static const uint16_t split_sizes[] = {16, 64, 1000, 1}, min_sizes[] = {256, 0, 17, 1000};
/* The last one is cut in sentences, and has characters that they cannot show. */
const char *const party_names[MOST_TENSORS] =
    {"w", "bias", "bn.mean", "a \"name\"\n\x7f\xc3\xa4 that is much longer than what a sentence has room for, really"};

static const codec_case *take_codec(fuzz_input *in)
{
    return &codecs[take_byte(in) % codec_count];
}

/* reserved: a reserved codec has error feedback. */
static void read_tensor(exchange_plan *plan, size_t t, fuzz_input *in, const codec_case *common, int reserved)
{
    const unsigned traits = take_byte(in);
    tlc_tensor *tensor = &plan->tensor[t];
    const codec_case *push = traits >> 4 & 2 ? take_codec(in) : NULL;

    *tensor = (tlc_tensor){.struct_size = sizeof *tensor, .name = party_names[t], .n = sizes[traits & 15]};
    tensor->push = push ? push->text : NULL;
    tensor->pull = traits >> 4 & 1 ? take_codec(in)->text : NULL;
    tensor->only = traits >> 7 ? (uint32_t)(t + 1) % plan->cfg.workers : TLC_NOBODY;
    const int feedback = push ? push->feedback : tensor->n < plan->cfg.min_n || common->feedback;
    plan->has_residual[t] = (traits >> 6 & 1) && (feedback || reserved);
}

void plan_read(exchange_plan *plan, fuzz_input *in)
{
    const unsigned kind = take_byte(in) % 3, ranks = take_byte(in), flags = take_byte(in), limits = take_byte(in);
    tlc_exchange_config *c = &plan->cfg;
    const codec_case *push = take_codec(in), *pull = flags >> 6 & 1 ? take_codec(in) : NULL;
    const codec_case *reserve = flags >> 5 & 1 ? take_codec(in) : NULL;

    memset(plan, 0, sizeof *plan);
    require_status(tlc_exchange_config_init(c, sizeof *c), TLC_OK);
    c->workers = (ranks & 3) % MOST_RANKS + 1;
    c->servers = kind == 2 ? (ranks >> 2 & 1) + 1 : 0;
    c->gather = kind == 1;
    c->owners = kind == 0 ? ranks >> 3 & 3 : 0;
    c->keep = (ranks >> 5 & 3) + 1;
    c->backup = kind == 2 && c->workers > 1 ? ranks >> 7 : 0;
    c->sum = flags & 1;
    c->assume_finite = flags >> 1 & 1;
    c->dtype = (tlc_dtype)((flags >> 2 & 3) % 3);
    plan->mixed = flags >> 4 & 1;
    c->split_n = split_sizes[limits & 3];
    c->min_n = min_sizes[limits >> 2 & 3];
    c->push = push->text;
    c->pull = pull ? pull->text : NULL;
    c->reserve = reserve ? reserve->text : NULL;
    c->seed = take_byte(in);
    plan->count = (limits >> 4 & 7) % (MOST_TENSORS + 1);
    for (size_t t = 0; t < plan->count; t++)
        read_tensor(plan, t, in, push, reserve && reserve->feedback);
}

/* ---- objects ----------------------------------------------------------------------------------------------------- */

static int making; /* an object is being made: only then it may allocate */

static void *allocate(void *opaque, size_t size)
{
    (void)opaque;
    require(making);
    return malloc(size ? size : 1);
}

static void release(void *opaque, void *block)
{
    (void)opaque;
    free(block);
}

void party_begin(party *p, const exchange_plan *plan, party_role role, uint32_t index, tlc_exchange_config *cfg,
                 tlc_tensor *tensor)
{
    *p = (party){.plan = plan, .role = role, .index = index};
    *cfg = plan->cfg;
    p->dtype = cfg->dtype = plan->mixed ? (tlc_dtype)((cfg->dtype + index) % 3) : cfg->dtype;
    cfg->isa = index % 2 ? TLC_ISA_AUTO : TLC_ISA_SCALAR;
    cfg->parallel = runners[index % 2].parallel;
    cfg->alloc = (tlc_allocator){allocate, release, NULL};
    memcpy(tensor, plan->tensor, sizeof plan->tensor);
    for (size_t t = 0; t < plan->count; t++) {
        const size_t n = tensor[t].n;
        p->grad[t] = bytes(n * dtype_size[p->dtype]);
        p->out[t] = bytes(n * dtype_size[p->dtype]);
        p->residual[t] = plan->has_residual[t] ? memset(floats(n), 0, 4 * n) : NULL;
        tensor[t].residual = p->residual[t];
    }
    making = 1;
}

void party_made(party *p, tlc_status status, void *it)
{
    making = 0;
    require_status(status, TLC_OK);
    p->it = it;
}

void party_open(party *p, const exchange_plan *plan, party_role role, uint32_t index)
{
    tlc_exchange_config cfg;
    tlc_tensor tensor[MOST_TENSORS];
    tlc_allreduce *rank = NULL;
    tlc_worker *worker = NULL;
    tlc_server *server = NULL;
    tlc_status status;

    party_begin(p, plan, role, index, &cfg, tensor);
    switch (role) {
    case RANK: status = tlc_allreduce_create(&rank, &cfg, index, tensor, plan->count); break;
    case WORKER: status = tlc_worker_create(&worker, &cfg, index, tensor, plan->count); break;
    default: status = tlc_server_create(&server, &cfg, index, tensor, plan->count); break;
    }
    party_made(p, status, role == RANK ? (void *)rank : role == WORKER ? (void *)worker : (void *)server);
}

void party_forget_deltas(party *p)
{
    for (size_t i = 0; i < p->deltas; i++)
        free(p->delta[i]);
    free(p->delta);
    p->delta = NULL;
    p->deltas = 0;
}

void party_close(party *p)
{
    ON(p, destroy, p->it);
    party_forget_deltas(p);
    for (size_t t = 0; t < p->plan->count; t++) {
        free(p->grad[t]);
        free(p->out[t]);
        free(p->residual[t]);
    }
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

static float value(value_way way, uint64_t draw)
{
    const float x = (float)(int8_t)(draw & 255) / 128.0f;
    const int exponent = (int)(draw >> 8 & 31);

    switch (way) {
    case ZEROS: return 0.0f;
    case SPARSE: return exponent ? 0.0f : x;
    case TIES: return (float)((int)(draw % 3) - 1) * 0.5f;
    case SCALED: return ldexpf(x, exponent - 24);
    case HUGE_VALUES: return exponent & 3 ? 0.0f : ldexpf(x, 127);
    default: return x;
    }
}

void fill_floats(float *x, size_t n, value_way way, uint64_t seed)
{
    rng r = {seed};

    for (size_t i = 0; i < n; i++)
        x[i] = value(way, rng_next(&r));
    if (way == ONE_NAN && n)
        x[seed % n] = NAN;
}

void party_fill(party *p, value_way way, uint64_t seed)
{
    for (size_t t = 0; t < p->plan->count; t++) {
        const size_t n = p->plan->tensor[t].n;
        float *x = floats(n);
        fill_floats(x, n, way, seed + 1000 * t + p->index);
        require_status(tlc_convert(TLC_F32, x, p->dtype, p->grad[t], n), TLC_OK);
        free(x);
    }
}

uint64_t party_gradients(const party *p)
{
    uint64_t digest = 0;

    for (size_t t = 0; t < p->plan->count; t++)
        digest = XXH3_64bits_withSeed(p->grad[t], p->plan->tensor[t].n * dtype_size[p->dtype], digest);
    return digest;
}

/* ---- checks ------------------------------------------------------------------------------------------------------ */

static void mix(uint64_t *digest, const void *data, size_t len)
{
    if (len)
        *digest = XXH3_64bits_withSeed(data, len, *digest);
}

static void mix_number(uint64_t *digest, uint64_t number)
{
    mix(digest, &number, sizeof number);
}

size_t party_parts(const party *p)
{
    return p->role == RANK ? tlc_allreduce_parts(p->it) : p->role == SERVER ? tlc_server_parts(p->it) : 0;
}

tlc_part party_part(const party *p, size_t i)
{
    tlc_part part = {.struct_size = sizeof part};

    require_status(p->role == RANK ? tlc_allreduce_part(p->it, i, &part) : tlc_server_part(p->it, i, &part), TLC_OK);
    return part;
}

static void mix_parts(uint64_t *digest, const party *p)
{
    for (size_t i = 0; i < party_parts(p); i++) {
        const tlc_part part = party_part(p, i);
        mix(digest, part.mean, 4 * part.n);
        if (part.residual)
            mix(digest, part.residual, 4 * part.n);
    }
}

/* The messages that others may fetch again, and who was taken. */
static void mix_kept(uint64_t *digest, const party *p)
{
    const uint64_t now = party_step(p);

    for (uint64_t back = 0; p->role != WORKER && back <= p->plan->cfg.keep; back++) {
        tlc_message m = {NULL, 0};
        mix_number(digest, p->role == RANK   ? tlc_allreduce_again(p->it, now - back, &m)
                           : p->role == NODE ? tlc_gossip_again(p->it, now - back, &m)
                                             : tlc_server_again(p->it, now - back, &m));
        mix(digest, m.data, m.len);
    }
    for (uint32_t w = 0; p->role == SERVER && w < p->plan->cfg.workers; w++) {
        uint64_t taken = 0;
        require_status(tlc_server_taken(p->it, w, &taken), TLC_OK);
        mix_number(digest, taken);
    }
}

/* Models, and what neighbours weigh in the means. */
static void mix_models(uint64_t *digest, const party *p)
{
    for (size_t t = 0; p->role == NODE && t < p->plan->count; t++) {
        const size_t n = p->plan->tensor[t].n;
        mix(digest, tlc_gossip_model(p->it, t), 4 * n);
        if (tlc_gossip_mean(p->it, t))
            mix(digest, tlc_gossip_mean(p->it, t), 4 * n);
    }
    for (size_t i = 0; p->role == NODE && i < p->plan->cfg.workers; i++)
        mix_number(digest, (uint64_t)tlc_gossip_lost(p->it, i));
}

uint64_t party_digest(const party *p)
{
    tlc_exchange_stats stats = {.struct_size = sizeof stats};
    tlc_message state = party_save(p);
    uint64_t digest = 0;

    require_status(ON(p, stats, p->it, &stats), TLC_OK);
    mix(&digest, &stats, sizeof stats);
    mix_number(&digest, party_step(p));
    mix_number(&digest, p->role == SERVER ? (uint64_t)tlc_server_ready(p->it) : 0);
    mix(&digest, state.data, state.len);
    for (size_t t = 0; t < p->plan->count; t++)
        if (p->residual[t])
            mix(&digest, p->residual[t], 4 * p->plan->tensor[t].n);
    mix_parts(&digest, p);
    mix_models(&digest, p);
    mix_kept(&digest, p);
    free((void *)(uintptr_t)state.data);
    return digest;
}

static tlc_outcome outcome_of(const party *p, uint32_t server)
{
    tlc_outcome o = {.struct_size = sizeof o};
    tlc_status status = p->role == RANK     ? tlc_allreduce_outcome(p->it, &o)
                        : p->role == WORKER ? tlc_worker_outcome(p->it, server, &o)
                        : p->role == NODE   ? tlc_gossip_outcome(p->it, &o)
                                            : tlc_server_outcome(p->it, &o);

    require(status == TLC_OK);
    require(o.tensor == TLC_ALL || o.tensor < p->plan->count);
    require(o.status == TLC_OK || o.cause != TLC_OK);
    require(*o.sentence && memchr(o.sentence, 0, sizeof o.sentence));
    for (const char *c = o.sentence; *c; c++)
        require(*c >= ' ' && *c <= '~');
    if (o.taken)
        require(o.workers == p->plan->cfg.workers &&
                (o.workers % 8 == 0 || !(o.taken[o.workers / 8] >> o.workers % 8)));
    return o;
}

tlc_outcome party_told;

void party_check(const party *p, tlc_status status, uint64_t before)
{
    tlc_status told = TLC_OK;

    for (uint32_t i = 0; i < (p->role == WORKER ? p->plan->cfg.servers : 1); i++) {
        const tlc_outcome o = outcome_of(p, i);
        party_told = told ? party_told : o;
        told = told ? told : o.status;
    }
    require_status(told, status);
    fuzz_fold_number(status);
    if (status != TLC_OK && status != TLC_ERR_STEP)
        require(party_digest(p) == before);
}

tlc_status party_scale(const party *p, float factor)
{
    return p->role == RANK     ? tlc_allreduce_residual_scale(p->it, factor)
           : p->role == WORKER ? tlc_worker_residual_scale(p->it, factor)
                               : tlc_server_residual_scale(p->it, factor);
}

/* ---- results ----------------------------------------------------------------------------------------------------- */

static uint8_t pattern(const party *p)
{
    return (uint8_t)(FILL + p->index);
}

void party_clear(party *p)
{
    for (size_t t = 0; t < p->plan->count; t++)
        memset(p->out[t], pattern(p), p->plan->tensor[t].n * dtype_size[p->dtype]);
}

void party_require_clear(const party *p)
{
    for (size_t t = 0; t < p->plan->count; t++)
        require(all_bytes(p->out[t], p->plan->tensor[t].n * dtype_size[p->dtype], pattern(p)));
}

void party_require_part_clear(const party *p, const tlc_part *part)
{
    const size_t size = dtype_size[p->dtype];

    require(all_bytes(p->out[part->tensor] + part->first * size, part->n * size, pattern(p)));
}

void party_require_finite(const party *p)
{
    for (size_t t = 0; t < p->plan->count && p->dtype == TLC_F32; t++)
        for (size_t i = 0; i < p->plan->tensor[t].n; i++)
            require((widened(TLC_F32, p->out[t], i) & 0x7fffffff) < 0x7f800000);
}

uint64_t party_results(const party *p)
{
    uint64_t results = 0;

    for (size_t t = 0; t < p->plan->count; t++)
        for (size_t i = 0; i < p->plan->tensor[t].n; i++) {
            uint32_t bits = widened(p->dtype, p->out[t], i);
            if ((bits & 0x7fffffff) > 0x7f800000) /* machines make different NaN */
                bits = 0x7fc00000;
            results = (results ^ bits) * UINT64_C(0x9e3779b97f4a7c15);
            results ^= results >> 32;
        }
    return results;
}

tlc_message party_save(const party *p)
{
    const size_t size = ON(p, state_size, p->it);
    uint8_t *state = memset(bytes(size), FILL, size);
    size_t written = 77;
    const tlc_status tight = ON(p, state_save, p->it, state, size - 1, &written);

    require(tight == TLC_ERR_CAPACITY || tight == TLC_ERR_ORDER);
    require(written == 77 && all_bytes(state, size, FILL));
    const tlc_status status = ON(p, state_save, p->it, state, size, &written);
    require_status(status, tight == TLC_ERR_ORDER ? TLC_ERR_ORDER : TLC_OK);
    if (status) {
        require(written == 77 && all_bytes(state, size, FILL));
        free(state);
        return (tlc_message){NULL, 0};
    }
    require(written == size);
    return (tlc_message){state, size};
}

void party_require_state(const party *p, tlc_message state)
{
    const tlc_message now = party_save(p);

    require(now.len == state.len && same(now.data, state.data, state.len));
    free((void *)(uintptr_t)now.data);
}
