/* SPDX-License-Identifier: MIT
 *
 * What all ranks must have in common when they make a handle: a rank that has something else is told to all.
 */
#include "mpi_scene.h"

/* The last rank has something else. What it has is changed by `change`. name: of tensor 1; NULL: "fc". */
static void differs_named(const char *name, void (*change)(scene *s), size_t tensor, const char *theirs,
                          const char *first)
{
    char sentence[200];
    tlc_mpi *h = NULL;
    scene s;

    scene_set(&s);
    if (name)
        s.tensors[1].name = name;
    if (rank == ranks - 1)
        change(&s);
    snprintf(sentence, sizeof sentence, "on rank %d %s; on rank 0 %s", ranks - 1, theirs, first);
    tlc_status status = tlc_mpi_allreduce_create(&h, &s.cfg);
    require_all_told(&s, status, TLC_ERR_PARAM, (uint32_t)ranks - 1, tensor, sentence);
    require(!h);
}

static void differs(void (*change)(scene *s), size_t tensor, const char *theirs, const char *first)
{
    differs_named(NULL, change, tensor, theirs, first);
}

static void other_codec(scene *s)
{
    s->exchange.push = "sbc";
}
static void other_answers(scene *s)
{
    s->exchange.pull = "natural";
}
static void other_reserve(scene *s)
{
    s->exchange.reserve = "natural";
}
static void other_codec_of_tensor(scene *s)
{
    s->tensors[1].push = "natural";
}
static void other_size(scene *s)
{
    s->tensors[1].n = 401;
}
static void other_name(scene *s)
{
    s->tensors[0].name = "conv\n1";
}
static void one_tensor(scene *s)
{
    s->cfg.count = 1;
}
static void other_chunk(scene *s)
{
    s->cfg.chunk = 5;
}
static void gathers(scene *s)
{
    s->exchange.gather = 1;
}
static void one_owner(scene *s)
{
    s->exchange.owners = 1;
}
static void sums(scene *s)
{
    s->exchange.sum = 1;
}
static void other_min(scene *s)
{
    s->exchange.min_n = 257;
}
static void other_split(scene *s)
{
    s->exchange.split_n = 1 << 20;
}
static void other_answers_of_tensor(scene *s)
{
    s->tensors[0].pull = "natural";
}
static void only_one(scene *s)
{
    s->tensors[0].only = 0;
}
static void only_one_of_the_last(scene *s)
{
    s->tensors[1].only = 0;
}
static void others_name(scene *s)
{
    s->tensors[1].name = "f~\x7f\xc3";
}

/* Names as long as those of adapters: what differs is shown, wherever it is. */
static const char layer[] = "base_model.model.model.layers.31.mlp.experts.7.down_proj.lora_A.default.weight";
static void long_and_other_end(scene *s)
{
    s->tensors[1].name = "base_model.model.model.layers.31.mlp.experts.7.down_proj.lora_A.default.weight.2";
}
static void long_and_other_middle(scene *s)
{
    s->tensors[1].name = "base_model.model.model.layers.30.mlp.experts.7.down_proj.lora_A.default.weight";
}

static void differences(void)
{
    if (ranks < 2)
        return;
    differs(other_codec, TLC_ALL, "pushes have the codec sbc", "pushes have the codec 3lc");
    differs(other_answers, TLC_ALL, "answers have the codec natural", "answers have the codec 3lc");
    differs(other_reserve, TLC_ALL, "the codecs in reserve are natural", "the codecs in reserve are none");
    differs(other_codec_of_tensor, 1, "pushes of fc have the codec natural",
            "pushes of fc have the codec of the configuration");
    differs(other_size, 1, "fc has 401 values", "fc has 400 values");
    differs(other_name, 0, "tensor 0 is conv?1", "tensor 0 is conv");
    differs(one_tensor, TLC_ALL, "there are 1 tensors", "there are 2 tensors");
    differs(other_chunk, TLC_ALL, "chunk is 5", "chunk is 1073741824");
    differs(one_owner, TLC_ALL, "there are at most 1 owners", "there are at most 0 owners");
    differs(sums, TLC_ALL, "sum is 1", "sum is 0");
    differs(other_min, TLC_ALL, "min_n is 257", "min_n is 256");
    differs(other_split, TLC_ALL, "split_n is 1048576", "split_n is 65536");
    differs(other_answers_of_tensor, 0, "answers of conv have the codec natural",
            "answers of conv have the codec of the configuration");
    differs(only_one, 0, "conv is pushed by worker 0", "conv is pushed by all workers");
    differs(only_one_of_the_last, 1, "fc is pushed by worker 0", "fc is pushed by all workers");
    differs(others_name, 1, "tensor 1 is f~??", "tensor 1 is fc");
    differs(gathers, TLC_ALL, "gather is 1", "gather is 0");
    differs_named(layer, other_size, 1,
                  "base_model.model.model.layers.....down_proj.lora_A.default.weight has 401 values",
                  "base_model.model.model.layers.....down_proj.lora_A.default.weight has 400 values");
    differs_named(layer, other_codec_of_tensor, 1,
                  "pushes of base_model.model.mod...oj.lora_A.default.weight have the codec natural",
                  "pushes of base_model.model.mod...ault.weight have the codec of the configuration");
    differs_named(layer, long_and_other_end, 1,
                  "tensor 1 is base_model.model.m...mlp.experts.7.down_proj.lora_A.default.weight.2",
                  "tensor 1 is base_model.model.m...1.mlp.experts.7.down_proj.lora_A.default.weight");
    differs_named(layer, long_and_other_middle, 1,
                  "tensor 1 is base_model.model.model.layers.30.mlp.experts.7.down_proj.lora_A.d...",
                  "tensor 1 is base_model.model.model.layers.31.mlp.experts.7.down_proj.lora_A.d...");
}

/* ---- long lines -------------------------------------------------------------------------------------------------- */

enum { LINE = 80, HEAD = 30, TAIL = 47, BEFORE = 12, LONGEST = 160, MOST_RANKS = 3 /* more add nothing but time */ };

/* A line of `len` characters. The one at `odd`, if there is one, is another one. */
static void make_line(char line[LONGEST], size_t len, size_t odd)
{
    const size_t start = strlen(strcpy(line, "tensor 1 is "));

    for (size_t i = start; i < len; i++)
        line[i] = (char)(i == odd ? 'X' : 'a' + i % 26);
    line[len] = 0;
}

/* What is shown of it: its head, and what is around the character that differs, or all of the first part up to it. */
static void make_short(char text[LONGEST], const char *line, size_t odd)
{
    const size_t len = strlen(line), last = len - TAIL;
    const size_t from = odd - BEFORE < last ? odd - BEFORE : last;

    if (len <= LINE)
        strcpy(text, line);
    else if (from <= HEAD + 3)
        snprintf(text, LONGEST, "%.77s...", line);
    else if (from == last)
        snprintf(text, LONGEST, "%.30s...%s", line, line + from);
    else
        snprintf(text, LONGEST, "%.30s...%.44s...", line, line + from);
}

static char long_name[LONGEST], other_long_name[LONGEST];

static void long_and_other(scene *s)
{
    s->tensors[1].name = other_long_name;
}

/* Wherever a long line differs. */
static void long_lines(void)
{
    static const size_t lens[] = {80, 81, 93, 130};
    const size_t start = strlen("tensor 1 is ");

    for (size_t i = 0; i < COUNT(lens) && ranks > 1 && ranks <= MOST_RANKS; i++) {
        const size_t len = lens[i], odd[] = {start, 44, 45, 46, 47, len - 48, len - 36, len - 35, len - 34, len - 1};
        for (size_t k = 0; k < COUNT(odd); k++) {
            char mine[LONGEST], first[LONGEST], short_mine[LONGEST], short_first[LONGEST];
            make_line(mine, len, odd[k]);
            make_line(first, len, len);
            make_short(short_mine, mine, odd[k]);
            make_short(short_first, first, odd[k]);
            strcpy(long_name, first + start);
            strcpy(other_long_name, mine + start);
            differs_named(long_name, long_and_other, 1, short_mine, short_first);
        }
    }
}

/* ---- servers ----------------------------------------------------------------------------------------------------- */

/* The last rank counts one worker or one server more. */
static void other_counts(int more_workers, int more_servers)
{
    char sentence[200];
    tlc_mpi *h = NULL;
    scene s;

    scene_set(&s);
    s.exchange.workers = (uint32_t)ranks - 1;
    s.exchange.servers = 1;
    if (rank == ranks - 1) {
        s.exchange.workers += (uint32_t)more_workers;
        s.exchange.servers += (uint32_t)more_servers;
    }
    tlc_status status = rank == ranks - 1 && !more_workers ? tlc_mpi_server_create(&h, &s.cfg, NULL)
                                                           : tlc_mpi_worker_create(&h, &s.cfg);
    if (more_workers)
        snprintf(sentence, sizeof sentence, "on rank %d there are %d workers; on rank 0 there are %d workers",
                 ranks - 1, ranks, ranks - 1);
    else
        snprintf(sentence, sizeof sentence, "on rank %d there are 2 servers; on rank 0 there are 1 servers", ranks - 1);
    require_all_told(&s, status, TLC_ERR_PARAM, (uint32_t)ranks - 1, TLC_ALL, sentence);
    require(!h && !s.memory.used);
}

static void counts(void)
{
    if (ranks > 1) {
        other_counts(1, 0);
        other_counts(0, 1);
    }
}

/* ---- what is the same -------------------------------------------------------------------------------------------- */

static void usual_codec(scene *s)
{
    s->exchange.push = TLC_EXCHANGE_CODEC;
}
static void usual_answers(scene *s)
{
    s->exchange.pull = tlc_pull_codec(s->exchange.push);
}
static void gathered_answers(scene *s)
{
    s->exchange.pull = s->exchange.push;
}
static void sparse_pushes(scene *s)
{
    s->exchange.push = s->exchange.pull = "topk:p=0.01";
}

/* Fields that may differ, and tensors in structs of another release. */
static void other_machine(scene *s)
{
    static struct {
        tlc_tensor ours;
        char newer[24]; /* cppcheck-suppress unusedStructMember ; only its size counts */
    } tensors[2];

    for (int i = 0; i < 2; i++) {
        memset(&tensors[i], 0, sizeof tensors[i]);
        tensors[i].ours = s->tensors[i];
        tensors[i].ours.struct_size = sizeof tensors[i];
    }
    s->cfg.tensors = &tensors[0].ours;
    s->exchange.seed = 7;
    s->exchange.keep = 2;
    s->exchange.isa = TLC_ISA_SCALAR;
    s->exchange.workers = 99; /* is not read */
}

/* The last rank makes a handle of other words for what all have. */
static void is_same(void (*change)(scene *s), const char *push)
{
    tlc_mpi *h = NULL;
    scene s;

    scene_set(&s);
    s.exchange.push = push;
    s.exchange.gather = change == gathered_answers;
    if (rank == ranks - 1)
        change(&s);
    require_status(tlc_mpi_allreduce_create(&h, &s.cfg), TLC_OK);
    require_status(tlc_mpi_allreduce(h, s.grads, s.out), TLC_OK);
    tlc_mpi_destroy(h);
    require(!s.memory.used);
}

static void same_things(void)
{
    is_same(usual_codec, NULL);
    is_same(usual_answers, "3lc");
    is_same(usual_answers, "topk:p=0.01");
    is_same(gathered_answers, "topk:p=0.01");
    is_same(other_machine, NULL);
    if (ranks < 2)
        return;
    differs(sparse_pushes, TLC_ALL, "pushes have the codec topk:p=0.01", "pushes have the codec 3lc");
    tlc_mpi *h = NULL;
    char sentence[200];
    scene s;
    scene_set(&s); /* the usual codec of answers is not that of these pushes */
    s.exchange.push = "topk:p=0.01";
    if (rank == ranks - 1)
        s.exchange.pull = s.exchange.push;
    tlc_status status = tlc_mpi_allreduce_create(&h, &s.cfg);
    snprintf(sentence, sizeof sentence,
             "on rank %d answers have the codec topk:p=0.01; on rank 0 answers have the codec 3lc-golomb", ranks - 1);
    require_all_told(&s, status, TLC_ERR_PARAM, (uint32_t)ranks - 1, TLC_ALL, sentence);
    require(!h && !s.memory.used);
}

const mpi_test compare_tests[] = {
    {"a rank that differs", differences},
    {"a rank that differs in a long line", long_lines},
    {"a rank that counts other workers or servers", counts},
    {"ranks that do not differ", same_things},
    {NULL, NULL},
};
