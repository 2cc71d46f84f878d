/* SPDX-License-Identifier: MIT */
#include "pieces.h"
#include <stdlib.h>

piece *pieces_cut(const shape_list *model, size_t count, size_t *made)
{
    size_t most = count && count < model->count ? count : model->count, seen = 0, next = 0;
    piece *pieces = calloc(most, sizeof *pieces);

    *made = 0;
    for (size_t i = 0; pieces && i < model->count; i++) {
        if (i == next)
            pieces[(*made)++].first = i;
        pieces[*made - 1].count++;
        seen += model->shapes[i].n;
        /* the next piece begins where its share does, or where each tensor that is left has one */
        if (*made < most && ((double)seen * (double)most >= (double)model->values * (double)*made ||
                             model->count - i - 1 == most - *made))
            next = i + 1;
    }
    return pieces;
}
