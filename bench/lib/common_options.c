/* SPDX-License-Identifier: MIT */
#include "common_options.h"
#include "explain.h"
#include "parse.h"

bool common_options_take(const common_options *to, int key, const char *value, char *why)
{
    switch (key) {
    case KEY_TRACES:
        *to->traces = (char *)(uintptr_t)value;
        return *value || explain(why, "it is the name of a folder or a file");
    case KEY_COLD: to->source->cold = true; return true;
    case KEY_STEPS: return parse_size(value, 1, SOURCE_MAX_STEPS, &to->source->steps, why);
    case KEY_SEED: return parse_number(value, 0, UINT64_MAX, &to->source->seed, why);
    case KEY_WARMUP: return parse_size(value, 0, SOURCE_MAX_STEPS, to->warmup, why);
    case KEY_ROUNDS: return parse_size(value, 1, SOURCE_MAX_STEPS, to->rounds, why);
    case KEY_ISA: return parse_isa(value, to->isa, why);
    case KEY_WIDE: *to->wide = true; return true;
    case KEY_FORMAT: return grid_parse_format(value, to->format, why);
    case KEY_LIST: *to->command = COMMAND_LIST; return true;
    case KEY_VERSION: *to->command = COMMAND_VERSION; return true;
    case 'q': *to->quiet = true; return true;
    case 'h': *to->command = COMMAND_HELP; return true;
    default: return false;
    }
}
