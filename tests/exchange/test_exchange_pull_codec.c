/* SPDX-License-Identifier: MIT
 *
 * The codec of answers where none is given, and what create says of one that starves.
 */
#include "../support/exchange_run.h"

static const struct {
    const char *push, *pull;
} choices[] = {
    {"3lc", "3lc"},
    {"3lc:s=1", "3lc:s=1"},
    {"3lc-golomb", "3lc-golomb"},
    {"3lc:s=1.0001", "3lc-golomb"},
    {"3lc:s=1.75", "3lc-golomb"},
    {"3lc-golomb:s=1.9", "3lc-golomb"},
    {"ternary:s=1.5,block=4096+quartic", "3lc-golomb"},
    {"sbc", "3lc-golomb"},
    {"topk:p=0.01+golomb", "3lc-golomb"},
    {"topk:p=0.2499+golomb", "3lc-golomb"},
    {"topk:p=0.25+golomb", "topk:p=0.25+golomb"},
    {"onebit", "3lc-golomb"},
    {"raw", "raw"},
    {"int8", "int8"},
    {"stochastic-ternary+golomb", "stochastic-ternary+golomb"},
    {"qsgd:bits=4", "qsgd:bits=4"},
    {"natural", "natural"},
    {"no codec", "no codec"},
};

enum { CHOICES = sizeof choices / sizeof choices[0], N = 2000 };

TEST(choice)
{
    require(strcmp(tlc_pull_codec(NULL), TLC_EXCHANGE_CODEC) == 0);
    for (size_t i = 0; i < CHOICES; i++) {
        at.codec = choices[i].push;
        require(strcmp(tlc_pull_codec(choices[i].push), choices[i].pull) == 0);
        require(strcmp(tlc_pull_codec(choices[i].pull), choices[i].pull) == 0); /* it keeps up */
    }
}

/* An all-reduce of one rank and one tensor. */
static tlc_allreduce *make(const char *push, const char *pull, int gather, tlc_outcome *outcome)
{
    tlc_exchange_config cfg;
    tlc_tensor tensor;
    tlc_allreduce *rank;

    (void)tlc_exchange_config_init(&cfg, sizeof cfg);
    (void)tlc_tensor_init(&tensor, sizeof tensor);
    cfg.push = push;
    cfg.pull = pull;
    cfg.gather = gather;
    cfg.outcome = outcome;
    tensor.name = "weights";
    tensor.n = N;
    require_status(tlc_allreduce_create(&rank, &cfg, 0, &tensor, 1), TLC_OK);
    return rank;
}

/* The message with the mean. It has a fingerprint of the codecs, too. */
static tlc_message answer_of(tlc_allreduce *rank)
{
    float grads[N];
    tlc_message push, answer;

    for (size_t i = 0; i < N; i++)
        grads[i] = (float)(i % 37) - 18;
    require_status(tlc_allreduce_push(rank, (const void *const[]){grads}, 1, &push), TLC_OK);
    require_status(tlc_allreduce_reduce(rank, &push, &answer), TLC_OK);
    require(answer.len > 0);
    return answer;
}

TEST(answers)
{
    for (size_t i = 0; i < CHOICES - 1; i++) {
        at.codec = choices[i].push;
        tlc_allreduce *chosen = make(choices[i].push, NULL, 0, NULL);
        tlc_allreduce *named = make(choices[i].push, choices[i].pull, 0, NULL);
        require(blob_same(answer_of(chosen), answer_of(named)));
        tlc_allreduce_destroy(chosen);
        tlc_allreduce_destroy(named);
    }
}

/* Does create say that the pull starves, and that `instead` does not? NULL: does it say nothing? */
static void advises(const char *push, const char *pull, int gather, const char *instead)
{
    const tlc_outcome before = {.struct_size = sizeof before, .status = TLC_ERR_ORDER};
    tlc_outcome outcome = before;

    at.codec = push;
    tlc_allreduce_destroy(make(push, pull, gather, &outcome));
    if (!instead) {
        require(same(&outcome, &before, sizeof before));
        return;
    }
    require(outcome.status == TLC_OK && outcome.cause == TLC_OK && outcome.rank == TLC_NOBODY);
    require(outcome.tensor == TLC_ALL && strlen(outcome.sentence) < sizeof outcome.sentence - 1);
    require(strstr(outcome.sentence, pull) && strstr(outcome.sentence, instead));
}

TEST(advice)
{
    advises("3lc:s=1.75", NULL, 0, NULL);
    advises("3lc:s=1.75", "raw", 0, NULL);
    advises("3lc:s=1.75", "3lc:s=1.75", 1, NULL); /* there are no answers */
    advises("3lc:s=1.75", "3lc:s=1.75", 0, "3lc-golomb");
    advises("3lc", "sbc", 0, "3lc-golomb");
    advises("raw", "topk:p=0.001,bits=1,block=4096+golomb", 0, "3lc-golomb");
    advises("onebit", "onebit", 0, "3lc-golomb");
}
