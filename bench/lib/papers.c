/* SPDX-License-Identifier: MIT
 *
 * 3LC, tables 1 and 2 (Lim, Andersen, Kaminsky, 2018); SBC, table 2 (Sattler et al., Sparse Binary Compression, 2018);
 * C_nat (Horvath et al., Natural compression, 2019); DGC (Lin et al., Deep gradient compression, 2017); STC (Sattler
 * et al., Robust and communication-efficient federated learning, 2019).
 */
#include "papers.h"

/* Local steps need a residual to collect in. raw has none by default. */
static const design designs[] = {
    {"raw", "32-bit float", -1, 1},
    {"int8", "8-bit int", -1, 1},
    {"stochastic-ternary+quartic", "Stoch 3-value + QE", -1, 1},
    {"onebit", "MQE 1-bit int", -1, 1},
    {"topk:p=0.25", "25% sparsification", -1, 1},
    {"topk:p=0.05", "5% sparsification", -1, 1},
    {"raw", "2 local steps", 1, 2},
    {"3lc", "3LC (s=1.00)", -1, 1},
    {"3lc:s=1.5", "3LC (s=1.50)", -1, 1},
    {"3lc:s=1.75", "3LC (s=1.75)", -1, 1},
    {"3lc:s=1.9", "3LC (s=1.90)", -1, 1},
    {"sbc:p=0.001", "SBC (1)", -1, 1},
    {"sbc:p=0.01", "SBC (2)", -1, 10},
    {"sbc:p=0.01", "SBC (3)", -1, 100},
    {"natural", "C_nat", -1, 1},
    {"topk:p=0.001,select=exact+golomb", "DGC", -1, 1},
    {"topk:p=0.01,bits=1+golomb", "STC", -1, 1},
};

const design *papers(size_t *count)
{
    *count = sizeof designs / sizeof designs[0];
    return designs;
}

void papers_print(FILE *f)
{
    for (const design *d = designs; d < designs + sizeof designs / sizeof designs[0]; d++) {
        fprintf(f, "  %-18s  %s", d->paper, d->codec);
        if (d->feedback > 0)
            fputs(", --feedback on", f);
        if (d->delay > 1)
            fprintf(f, ", --delay %zu", d->delay);
        fputc('\n', f);
    }
}
