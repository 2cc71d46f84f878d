/* SPDX-License-Identifier: MIT
 *
 * IntML (Horvath et al., 2019): with `sum`, and natural both ways, an owner answers each part with what
 * tlc_natural_aggregate makes of the frames, whatever the other tensors are.
 */
#include "../support/support.h"
#include <threelc/exchange.h>
#include <threelc/frames.h>

enum { WORKERS = 3, TENSORS = 6, N = 700, ROOM = 1 << 12 };

/* Tensors that are natural in one direction alone stand between the others. */
typedef struct way {
    size_t n;
    const char *push, *pull; /* NULL: raw in a shared frame if the tensor is small, else natural */
    int is_sum;              /* its answer is the sum of the frames */
} way;
static const way ways[TENSORS] = {
    {100, NULL, "natural", 0}, {N, NULL, NULL, 1},   {N, "natural", "int8", 0},
    {90, NULL, NULL, 0},       {N, "int8", NULL, 0}, {80, "natural", "natural", 1},
};

static float values[WORKERS][N];

static void push(tlc_server *s, tlc_worker *w, uint32_t i)
{
    const void *grads[TENSORS];
    tlc_message message;

    fill(DATA_LAPLACE, i + 1, values[i], N);
    for (size_t t = 0; t < TENSORS; t++)
        grads[t] = values[i];
    require_status(tlc_worker_push(w, grads, 1, &message), TLC_OK);
    require_status(tlc_server_push(s, message, NULL), TLC_OK);
}

/* Compares the answer of part p with the sum of the frames that came for it. */
static void compare(const tlc_server *s, size_t p, const tlc_message *came, const tlc_message *answers)
{
    tlc_part part = {.struct_size = sizeof part};
    tlc_natural_aggregate_params params;
    uint8_t sum[ROOM];
    size_t len;

    require_status(tlc_server_part(s, p, &part), TLC_OK);
    const tlc_message answer = answers[part.tensor];
    const way *w = &ways[part.tensor];
    require_status(tlc_natural_aggregate_params_init(&params, sizeof params), TLC_OK);
    params.seed = part.seed;
    params.step = tlc_server_step(s) - 1;
    if (!answer.len || (w->push && strcmp(w->push, "natural") != 0) || !came[p * WORKERS].len) {
        require(!w->is_sum);
        return;
    }
    require_status(tlc_natural_aggregate(came + p * WORKERS, WORKERS, &params, sum, sizeof sum, &len), TLC_OK);
    require((answer.len == len && same(answer.data, sum, len)) == w->is_sum);
}

static void describe(tlc_exchange_config *cfg, tlc_tensor *tensors)
{
    static const char *const names[TENSORS] = {"a", "b", "c", "d", "e", "f"};

    require_status(tlc_exchange_config_init(cfg, sizeof *cfg), TLC_OK);
    cfg->workers = WORKERS;
    cfg->servers = 1;
    cfg->sum = 1;
    cfg->push = cfg->pull = "natural";
    for (size_t t = 0; t < TENSORS; t++) {
        require_status(tlc_tensor_init(&tensors[t], sizeof tensors[t]), TLC_OK);
        tensors[t].name = names[t];
        tensors[t].n = ways[t].n;
        tensors[t].push = ways[t].push;
        tensors[t].pull = ways[t].pull;
    }
}

/* Compares all answers. One server owns all parts, which are whole tensors. */
static void compare_all(const tlc_server *s, tlc_worker *w, tlc_message answer, const tlc_message *came)
{
    static float small[N]; /* of the tensor whose answer shares a frame */
    void *const outs[TENSORS] = {NULL, NULL, NULL, small, NULL, NULL};
    tlc_message frames[TENSORS], by_tensor[TENSORS] = {{NULL, 0}};

    require(tlc_server_parts(s) == TENSORS);
    require_status(tlc_worker_pull_frames(w, &answer, outs, frames), TLC_OK);
    for (size_t i = 0; i < tlc_worker_pulled_parts(w); i++) {
        tlc_part part = {.struct_size = sizeof part};
        require_status(tlc_worker_pulled_part(w, i, &part), TLC_OK);
        by_tensor[part.tensor] = frames[i];
    }
    for (size_t p = 0; p < TENSORS; p++)
        compare(s, p, came, by_tensor);
}

TEST(sums_of_frames)
{
    tlc_message came[TENSORS * WORKERS], answer;
    float factors[TENSORS * WORKERS];
    tlc_tensor tensors[TENSORS];
    tlc_worker *worker[WORKERS];
    tlc_exchange_config cfg;
    tlc_server *s;

    describe(&cfg, tensors);
    require_status(tlc_server_create(&s, &cfg, 0, tensors, TENSORS), TLC_OK);
    for (uint32_t i = 0; i < WORKERS; i++) {
        require_status(tlc_worker_create(&worker[i], &cfg, i, tensors, TENSORS), TLC_OK);
        push(s, worker[i], i);
    }
    require_status(tlc_server_owned_frames(s, came, factors), TLC_OK);
    require_status(tlc_server_reduce(s), TLC_OK);
    require_status(tlc_server_answer(s, NULL, &answer), TLC_OK);
    compare_all(s, worker[0], answer, came);
    for (uint32_t i = 0; i < WORKERS; i++)
        tlc_worker_destroy(worker[i]);
    tlc_server_destroy(s);
}
