/* SPDX-License-Identifier: MIT */
#include "device.h"
#include "../lib/explain.h"
#include "../lib/parse.h"
#include <stdio.h>
#include <string.h>

/* Memory as their makers state it; what PCIe 4 with 16 lanes carries. */
static const struct {
    const char *name;
    model_device device;
} devices[] = {{"h100", {3350e9, 25e9}}, {"rtx4090", {1008e9, 25e9}}};
enum { DEVICES = sizeof devices / sizeof devices[0], ITEM_TEXT = 64 };

static bool say_devices(const char *text, const char *const *names, char *why)
{
    (void)explain(why, "it is h100 or rtx4090, or the rates of its memory and of the bus to its host, as "
                       "3350GB/s:25GB/s");
    (void)parse_suggest(text, "", names, why);
    return false;
}

bool device_parse(const char *text, model_device *device, char *why)
{
    const size_t len = strcspn(text, ":");
    const char *names[DEVICES + 1] = {NULL};
    char memory[ITEM_TEXT], reason[WHY_SIZE];
    int choice;

    for (size_t i = 0; i < DEVICES; i++)
        names[i] = devices[i].name;
    snprintf(memory, sizeof memory, "%.*s", (int)(len < ITEM_TEXT ? len : ITEM_TEXT), text);
    if (parse_choice(memory, names, &choice, reason))
        *device = devices[choice].device;
    else if (!text[len] || !parse_rate(memory, &device->memory, reason))
        return say_devices(memory, names, why);
    return !text[len] || parse_rate(text + len + 1, &device->bus, reason) ||
           explain(why, "after the colon, %.4000s", reason);
}
