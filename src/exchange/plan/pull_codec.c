/* SPDX-License-Identifier: MIT
 *
 * Which codec answers have, where none is given, and which would starve. A mean of sparse pushes is sparse and uneven:
 * few of its values are large. A codec that sends few of them again, or that spends its bits on zeros, lets the
 * residual of the owner grow to many times the mean. 3-value symbols with s = 1 keep up, in few bits, as most are 0.
 */
#include "pull_codec.h"
#include "../../codec/codec.h"
#include "../../common/float_rules.h"

#define KEEPS_UP "3lc-golomb"

enum { S, P = 0 };          /* parameters of ternary, of sparse-binary and topk */
#define LEAST_FRACTION 0.25 /* of the values of a mean: with 0.05 trainings diverge (bench/results) */

const char *tlc_pull_instead(const char *pull)
{
    tlc_codec codec;
    tlc_float_mode mode = tlc_float_enter(); /* parameters are doubles */
    const char *found = NULL;

    if (!tlc_codec_parse(&codec, pull, strlen(pull), NULL)) {
        const tlc_stage *q = codec.quantizer;
        if (q == &tlc_stage_onebit || q == &tlc_stage_sparse_binary ||
            (q == &tlc_stage_ternary && codec.params[S] > 1) ||
            (q == &tlc_stage_topk && codec.params[P] < LEAST_FRACTION))
            found = KEEPS_UP;
    }
    tlc_float_leave(mode);
    return found;
}

const char *tlc_pull_codec(const char *push)
{
    const char *text = push ? push : TLC_EXCHANGE_CODEC, *instead = tlc_pull_instead(text);

    return instead ? instead : text;
}
