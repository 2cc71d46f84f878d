/* SPDX-License-Identifier: MIT
 *
 * An experiment: what do optimisers make of compressed gradients, and of compressed changes of the model?
 */
#include "../../lib/explain.h"
#include "../../lib/program.h"
#include "options.h"

enum { DRAWN_IMAGES = 4000, DRAWN_TESTS = 1000 };

static bool open_images(const options *o, image_set *images, image_set *test, char *why)
{
    uint64_t seed = o->training.seed;

    if (o->data)
        return images_read(images, o->data, "train", why) && images_read(test, o->data, "t10k", why);
    return images_draw(images, DRAWN_IMAGES, seed, seed + 1, why) &&
           images_draw(test, DRAWN_TESTS, seed, seed + 2, why);
}

static void print_result(const training_result *r)
{
    if (r->diverged)
        printf("diverged %zu\n", r->diverged);
    else
        printf("loss %.9g\naccuracy %.2f\n", r->loss, r->accuracy);
    printf("ratio %.2f\nseconds %.2f\nexchange-seconds %.3f\n", r->ratio, r->seconds, r->exchange_seconds);
}

static bool run(const options *o, char *why)
{
    image_set images = {.count = 0}, test = {.count = 0};
    size_t batch = o->training.workers * o->training.batch;
    training_result result;
    bool ok = open_images(o, &images, &test, why);

    if (ok && batch > images.count)
        ok = explain(why, "--batch: %zu images a step, but there are only %lu", batch, (unsigned long)images.count);
    ok = ok && train(&o->training, &images, &test, &result, why);
    if (ok)
        print_result(&result);
    images_free(&images);
    images_free(&test);
    return ok;
}

int main(int argc, char **argv)
{
    char why[WHY_SIZE];
    options o;
    bool ok = options_parse(&o, argc, argv, why);

    if (ok && o.command == COMMAND_HELP)
        option_table_print(stdout, &options_table);
    else if (ok)
        ok = run(&o, why);
    return ok ? program_close_output("optimisers") : program_fail("optimisers", EXIT_USAGE, why);
}
