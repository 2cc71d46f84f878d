/* SPDX-License-Identifier: MIT
 *
 * threelc/delta.h: weights that a call of tlc_delta_apply has left half changed, as a process that is killed leaves
 * them in a mapped file.
 *
 * test_delta_repair KILLS kills as many processes.
 */
#include "../support/exchange_member.h"
#include "sample.h"
#if !defined(_WIN32)
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#endif

static const tlc_delta_options block_digests = {.struct_size = sizeof block_digests, .block_digests = 1};

static sample with_digests(tlc_dtype dtype, size_t n, int rarely, int has_base)
{
    sample s = sample_made(dtype, n, rarely, 1);

    free(s.frame);
    s.frame = sample_frame(dtype, has_base ? s.base : NULL, s.next, n, &s.len, &block_digests);
    return s;
}

/* ---- frames with digests of blocks ------------------------------------------------------------------------------- */

TEST(frames)
{
    static const size_t sizes[] = {2, 300, BLOCK + 100, SAMPLE_MOST};

    FOR_EACH_WEIGHT_DTYPE(dtype)
        for (size_t i = 0; i < COUNT(sizes); i++)
            for (int kind = 0; kind < 4; kind++) {
                sample s = with_digests(dtype, sizes[i], kind & 1, kind >> 1);
                const size_t size = weights_size(dtype, s.n);
                tlc_delta_info info = {.struct_size = sizeof info};
                uint8_t *weights = bytes(size);
                FOR_EACH_ISA(isa)
                    for (size_t k = 0; k < runner_count; k++) {
                        const tlc_delta_options opt = {.struct_size = sizeof opt,
                                                       .isa = isa,
                                                       .block_digests = 1,
                                                       .parallel = runners[k].parallel};
                        size_t len;
                        at = (place){.dtype = dtype, .n = s.n, .i = (size_t)kind, .isa = isa, .note = runners[k].name};
                        uint8_t *frame = sample_frame(dtype, kind >> 1 ? s.base : NULL, s.next, s.n, &len, &opt);
                        require(len == s.len && same(frame, s.frame, len));
                        memcpy(weights, s.base, size);
                        require_status(tlc_delta_apply(frame, len, dtype, weights, s.n, &opt), TLC_OK);
                        require(same(weights, s.next, size));
                        free(frame);
                    }
                require_status(tlc_delta_inspect(s.frame, s.len, &info), TLC_OK);
                require(info.dtype == dtype && info.has_digests);
                require(info.version == 3 ||
                        info.blocks[0] == (weight_bits(dtype) == 64 ? 2 : 1)); /* nothing differs */
                free(weights);
                sample_discard(&s);
            }
}

/* Where nothing differs there are no blocks to have digests of. */
TEST(nothing_differs)
{
    sample s = sample_made(TLC_BF16, 1000, 1, 1);
    size_t len, plain;
    uint8_t *frame = sample_frame(TLC_BF16, s.base, s.base, s.n, &len, &block_digests);
    uint8_t *other = sample_frame(TLC_BF16, s.base, s.base, s.n, &plain, NULL);

    require(len == plain && same(frame, other, len));
    require_status(tlc_delta_repair(frame, len, TLC_BF16, s.base, s.n, NULL, NULL), TLC_OK);
    require_status(tlc_delta_repair(frame, len, TLC_BF16, s.next, s.n, NULL, NULL), TLC_ERR_BASE);
    free(frame);
    free(other);
    sample_discard(&s);
}

/* Digests of blocks whose sum is not that of all weights are refused, also where the checksum fits. */
TEST(wrong_digests)
{
    sample s = with_digests(TLC_U8, BLOCK + 100, 1, 1);
    tlc_delta_info info = {.struct_size = sizeof info};
    char why[200];

    for (size_t i = 0; i < 32; i++) {
        const size_t byte = 7 + 16 + 2 * 4 + i;
        s.frame[byte] ^= 1;
        blob_seal(s.frame, s.len);
        at.i = i;
        require_status(tlc_delta_inspect(s.frame, s.len, &info), TLC_ERR_CORRUPT);
        require_status(tlc_explain(s.frame, s.len, TLC_FORMAT_DELTA, why, sizeof why), TLC_ERR_CORRUPT);
        require_says(why, "the digests of its blocks are not those of its weights");
        s.frame[byte] ^= 1;
    }
    sample_discard(&s);
}

/* ---- torn weights ------------------------------------------------------------------------------------------------ */

#if !defined(_WIN32) /* no fork */
/* A mapped file, which a child shares. */
static uint8_t *shared(size_t size)
{
    FILE *file = tmpfile();

    require(file && ftruncate(fileno(file), (off_t)size) == 0);
    uint8_t *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
    require(p != MAP_FAILED);
    fclose(file);
    return p;
}

/* A child applies the frame to the weights. page: it ends when it writes to this page of them; SIZE_MAX: it does not.
 * */
static pid_t applying(const sample *s, uint8_t *weights, const tlc_delta_options *opt, size_t page)
{
    const pid_t child = fork();

    require(child >= 0);
    if (child)
        return child;
    (void)signal(SIGSEGV, SIG_DFL);
    (void)signal(SIGBUS, SIG_DFL);
    if (page != SIZE_MAX)
        (void)mprotect(weights + page * (size_t)sysconf(_SC_PAGESIZE), 1, PROT_READ);
    _exit(tlc_delta_apply(s->frame, s->len, s->dtype, weights, s->n, opt) ? 1 : 0);
}

/* What the call left is said, and completed, or refused and left as it is: of 64 bits a block that has begun is lost.
 * */
static int require_repaired(const sample *s, uint8_t *weights, const tlc_delta_options *opt)
{
    const size_t size = weights_size(s->dtype, s->n);
    uint8_t *before = bytes(size);
    uint64_t found[3];
    char message[200] = "";
    tlc_delta_options says = *opt;

    says.message = message;
    says.message_cap = sizeof message;
    memcpy(before, weights, size);
    const int is_base = same(weights, s->base, size), is_next = same(weights, s->next, size);
    const tlc_status checked = tlc_delta_check(s->frame, s->len, s->dtype, weights, s->n, &says);
    const tlc_status status = tlc_delta_repair(s->frame, s->len, s->dtype, weights, s->n, found, opt);
    if (is_next && !is_base)
        require_says(message, "the weights are the result of the delta already");
    else if (!is_base && !status) {
        require(checked == TLC_ERR_BASE);
        require_says(message, "a call ended before all weights were changed ... tlc_delta_repair completes it");
    }
    if (status) {
        require(status == TLC_ERR_BASE && weight_bits(s->dtype) == 64 && same(weights, before, size));
        free(before);
        return 0;
    }
    require(same(weights, s->next, size));
    require(found[0] + found[1] + found[2] == (s->n + BLOCK - 1) / BLOCK);
    require(!is_next || found[0] == (s->n + BLOCK - 1) / BLOCK);
    free(before);
    return 1;
}

/* At each of some pages, on every ISA, and repaired on another one. */
TEST(torn_at_a_page)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t torn = 0;

    FOR_EACH_WEIGHT_DTYPE(dtype)
        for (int kind = 0; kind < 3; kind++) {
            sample s = with_digests(dtype, SAMPLE_MOST, kind & 1, 1);
            const size_t size = weights_size(dtype, s.n), pages = (size + page - 1) / page;
            /* quick: at the second page of each block, where little is to be taken back */
            const size_t first = quick() ? 1 : 0, each = quick() ? weights_size(dtype, BLOCK) / page : 29;
            if (kind == 2) { /* swept, where a block has no digest */
                sample_move(dtype, s.base, s.next, s.n, 0, 5);
                for (size_t i = 0; i < s.n; i += 90)
                    put_weight(dtype, s.next, i, weight_at(dtype, s.base, i) + 3);
                free(s.frame);
                s.frame = sample_frame(dtype, s.base, s.next, s.n, &s.len, &block_digests);
            }
            uint8_t *weights = shared(size);
            FOR_EACH_ISA(isa)
                for (size_t i = first; i < pages; i += each) {
                    tlc_delta_options opt = {.struct_size = sizeof opt, .isa = isa};
                    int how;
                    at = (place){.dtype = dtype, .n = s.n, .i = i, .isa = isa};
                    memcpy(weights, s.base, size);
                    require(waitpid(applying(&s, weights, &opt, i), &how, 0) > 0);
                    require(WIFSIGNALED(how) || same(weights, s.next, size));
                    opt.isa = i % 2 ? TLC_ISA_AUTO : TLC_ISA_SCALAR;
                    opt.parallel = runners[i % runner_count].parallel;
                    torn += WIFSIGNALED(how) && require_repaired(&s, weights, &opt);
                }
            (void)munmap(weights, size);
            sample_discard(&s);
        }
    require(torn > 100 || quick());
}

/* Killed at random moments. Threads change several blocks at a time. */
TEST(killed)
{
    enum { BLOCKS = 40 };
    sample s = {.dtype = TLC_BF16, .n = BLOCKS * BLOCK};
    const size_t size = weights_size(s.dtype, s.n), turns = test_argument ? (size_t)strtoul(test_argument, NULL, 10) / 2
                                                            : quick()     ? 4
                                                                          : 60;
    uint8_t *weights = shared(size);
    size_t torn = 0;
    rng r = {7};

    s.base = bytes(size);
    s.next = bytes(size);
    fill_weights(3, s.dtype, s.base, s.n);
    for (size_t kind = 0; kind < (quick() ? 1 : 2); kind++) {
        sample_move(s.dtype, s.base, s.next, s.n, kind, 9);
        s.frame = sample_frame(s.dtype, s.base, s.next, s.n, &s.len, &block_digests);
        for (size_t i = 0; i < turns; i++) {
            const tlc_delta_options opt = {.struct_size = sizeof opt, .parallel = runners[i % runner_count].parallel};
            const size_t watched = rng_below(&r, size / 2) + size / 4;
            int how;
            at = (place){.dtype = s.dtype, .n = s.n, .i = i, .note = runners[i % runner_count].name};
            memcpy(weights, s.base, size);
            const pid_t child = applying(&s, weights, &opt, SIZE_MAX);
            /* when it writes: some weight from here on will have changed */
            while (waitpid(child, &how, WNOHANG) == 0)
                if (!same(weights + watched, s.base + watched, 4096))
                    (void)kill(child, SIGKILL);
            torn += !same(weights, s.next, size) && !same(weights, s.base, size);
            require(require_repaired(&s, weights, &opt));
        }
        free(s.frame);
    }
    s.frame = NULL;
    require(torn > 0 || quick());
    print_message("# %zu of %zu were torn, and completed\n", torn, quick() ? turns : 2 * turns);
    (void)munmap(weights, size);
    sample_discard(&s);
}
#endif

/* Weights that no call has left like that. */
TEST(refused)
{
    char message[200] = "";
    const tlc_delta_options opt = {.struct_size = sizeof opt, .message = message, .message_cap = sizeof message};

    FOR_EACH_WEIGHT_DTYPE(dtype) {
        sample s = with_digests(dtype, SAMPLE_MOST, 1, 1);
        const size_t size = weights_size(dtype, s.n);
        uint8_t *weights = bytes(size), *before = bytes(size);
        uint64_t found[3];

        at = (place){.dtype = dtype, .n = s.n};
        for (size_t i = 0; i < size; i += size / 5) {
            memcpy(weights, s.base, size);
            memcpy(weights, s.next, weights_size(dtype, BLOCK)); /* a block is at the result */
            weights[i] ^= 0x40;
            memcpy(before, weights, size);
            require_status(tlc_delta_repair(s.frame, s.len, dtype, weights, s.n, found, &opt), TLC_ERR_BASE);
            require_says(message, "a block of weights is neither at the base of the delta nor at its result");
            require(same(weights, before, size));
            require_status(tlc_delta_check(s.frame, s.len, dtype, weights, s.n, &opt), TLC_ERR_BASE);
            require_says(message, "the weights are not the base of the delta");
        }
        require_status(tlc_delta_repair(s.frame, s.len - 1, dtype, weights, s.n, found, &opt), TLC_ERR_CHECKSUM);
        require_status(tlc_delta_repair(s.frame, s.len, dtype, weights, s.n - 2, found, &opt), TLC_ERR_SIZE);
        require_status(tlc_delta_repair(s.frame, s.len, dtype, NULL, s.n, found, &opt), TLC_ERR_PARAM);
        free(s.frame);
        s.frame = sample_frame(dtype, s.base, s.next, s.n, &s.len, NULL);
        require_status(tlc_delta_repair(s.frame, s.len, dtype, weights, s.n, found, &opt), TLC_ERR_PARAM);
        require_says(message, "the delta has no digests of blocks");
        require(same(weights, before, size));
        free(weights);
        free(before);
        sample_discard(&s);
    }
}

/* Without a base any weights become the next ones; so do those of raw blocks. */
TEST(without_a_base)
{
    FOR_EACH_WEIGHT_DTYPE(dtype) {
        sample s = with_digests(dtype, SAMPLE_MOST, 0, 0);
        const size_t size = weights_size(dtype, s.n);
        uint64_t found[3];

        at = (place){.dtype = dtype, .n = s.n};
        memset(s.base, 0x5a, size / 2);
        require_status(tlc_delta_repair(s.frame, s.len, dtype, s.base, s.n, found, NULL), TLC_OK);
        require(same(s.base, s.next, size) && !found[0] && found[1] == 3 && !found[2]);
        sample_discard(&s);
    }
}
