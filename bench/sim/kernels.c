/* SPDX-License-Identifier: MIT */
#include "kernels.h"
#include "../lib/codecs.h"
#include <stdlib.h>
#include <string.h>

static const struct sweeps {
    const char *quantizer;
    kernel_form form;
    double measure, encode, decode, exact;
} all[] = {
#define SWEEPS(quantizer, form, measure, encode, decode, exact) {quantizer, form, measure, encode, decode, exact},
#include "kernels.def"
};

static const struct lossless {
    const char *stages;
    stage_bytes push, answer;
} lossless[] = {
#define LOSSLESS(stages, quartic, nonzero, payload, answer_quartic, answer_nonzero, answer_payload)                    \
    {stages, {quartic, nonzero, payload}, {answer_quartic, answer_nonzero, answer_payload}},
#include "kernels.def"
};

static const struct sweeps *find(const char *quantizer)
{
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (!strcmp(all[i].quantizer, quantizer))
            return &all[i];
    }
    return NULL;
}

/* Scalars before an unblocked payload (src/docs/format.md), of forms QUARTIC and PAYLOAD. */
static size_t scalars_of(const char *quantizer)
{
    return !strcmp(quantizer, "natural") ? 0 : !strcmp(quantizer, "onebit") ? 2 : 1;
}

/* Of codecs of 3-value symbols without blocks. */
static void add_lossless(kernels *k, const struct lossless *l)
{
    if (k->push == QUARTIC) {
        k->push = PAYLOAD;
        k->push_stages = l->push;
    }
    k->answer = PAYLOAD;
    k->answer_stages = l->answer;
}

/* Whether a threshold of topk or sparse-binary is one of all values: it is exact, or a block has no more values than
 * samples. */
static bool takes_all(const char *quantizer, const char *codec, size_t block)
{
    const char *p = strstr(codec, "p=");
    const double enough = 200 / (p ? strtod(p + strlen("p="), NULL) : 0.05);

    if (strcmp(quantizer, "topk") != 0)
        return !strcmp(quantizer, "sparse-binary");
    return strstr(codec, "select=exact") || (block && (double)block <= (enough > 4096 ? enough : 4096));
}

kernels kernels_of(const char *codec)
{
    const char *block = strstr(codec, "block=");
    char quantizer[CODEC_SIZE], stages[CODEC_SIZE];
    const struct sweeps *s = codec_quantizer(codec, quantizer) ? find(quantizer) : NULL;
    bool binary = s && !strcmp(quantizer, "sparse-binary");
    kernels k = {.block = block ? strtoull(block + strlen("block="), NULL, 10) : 0};

    if (!s)
        return k;
    k.answer = s->form;
    k.answer_bytes = s->decode;
    if (s->encode > 0) {
        k.push = s->form;
        k.push_bytes = s->measure + s->encode + (takes_all(quantizer, codec, k.block) ? s->exact : 0);
    }
    k.scalars = scalars_of(quantizer);
    k.adds = k.push == QUARTIC;
    k.both_sides = binary;
    k.decoded = !strcmp(quantizer, "random-sparse");
    k.returns = binary || (strstr(codec, "bits=") && !strstr(codec, "bits=32"));
    for (size_t i = 0; s->form == QUARTIC && !block && i < sizeof lossless / sizeof lossless[0]; i++) {
        if (codec_stages(codec, stages) && !strcmp(lossless[i].stages, stages))
            add_lossless(&k, &lossless[i]);
    }
    return k;
}
