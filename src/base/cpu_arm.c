/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cpu_arm.c - the name of an ARM CPU from the files of Linux.
 *
 * /proc/cpuinfo has two numbers for each CPU: the maker of the core, and which one it is. A system with
 * fast and slow cores has several types; they are listed once each, in the order of the first CPU.
 * /proc/device-tree/model is the name of the board.
 */
#include "base/cpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TYPES = 4, BOARD_BYTES = 64 };
enum {
    MADE_BY_ARM = 0x41,
    FUJITSU = 0x46,
    HISILICON = 0x48,
    QUALCOMM = 0x51,
    APPLE = 0x61,
    AMPERE = 0xc0
};

static const struct {
    uint16_t maker, part;
    const char *name;
} core_types[] = {
    {MADE_BY_ARM, 0xd03, "Cortex-A53"},
    {MADE_BY_ARM, 0xd04, "Cortex-A35"},
    {MADE_BY_ARM, 0xd05, "Cortex-A55"},
    {MADE_BY_ARM, 0xd07, "Cortex-A57"},
    {MADE_BY_ARM, 0xd08, "Cortex-A72"},
    {MADE_BY_ARM, 0xd09, "Cortex-A73"},
    {MADE_BY_ARM, 0xd0a, "Cortex-A75"},
    {MADE_BY_ARM, 0xd0b, "Cortex-A76"},
    {MADE_BY_ARM, 0xd0c, "Neoverse-N1"},
    {MADE_BY_ARM, 0xd0d, "Cortex-A77"},
    {MADE_BY_ARM, 0xd0e, "Cortex-A76AE"},
    {MADE_BY_ARM, 0xd40, "Neoverse-V1"},
    {MADE_BY_ARM, 0xd41, "Cortex-A78"},
    {MADE_BY_ARM, 0xd42, "Cortex-A78AE"},
    {MADE_BY_ARM, 0xd44, "Cortex-X1"},
    {MADE_BY_ARM, 0xd46, "Cortex-A510"},
    {MADE_BY_ARM, 0xd47, "Cortex-A710"},
    {MADE_BY_ARM, 0xd48, "Cortex-X2"},
    {MADE_BY_ARM, 0xd49, "Neoverse-N2"},
    {MADE_BY_ARM, 0xd4b, "Cortex-A78C"},
    {MADE_BY_ARM, 0xd4d, "Cortex-A715"},
    {MADE_BY_ARM, 0xd4e, "Cortex-X3"},
    {MADE_BY_ARM, 0xd4f, "Neoverse-V2"},
    {MADE_BY_ARM, 0xd80, "Cortex-A520"},
    {MADE_BY_ARM, 0xd81, "Cortex-A720"},
    {MADE_BY_ARM, 0xd82, "Cortex-X4"},
    {MADE_BY_ARM, 0xd84, "Neoverse-V3"},
    {MADE_BY_ARM, 0xd85, "Cortex-X925"},
    {MADE_BY_ARM, 0xd87, "Cortex-A725"},
    {MADE_BY_ARM, 0xd8e, "Neoverse-N3"},
    {FUJITSU, 0x001, "A64FX"},
    {HISILICON, 0xd01, "Kunpeng-920"},
    {QUALCOMM, 0x001, "Oryon"},
    {QUALCOMM, 0x804, "Kryo 4xx Gold"},
    {QUALCOMM, 0x805, "Kryo 4xx Silver"},
    {APPLE, 0x022, "Apple M1 Icestorm"},
    {APPLE, 0x023, "Apple M1 Firestorm"},
    {APPLE, 0x032, "Apple M2 Blizzard"},
    {APPLE, 0x033, "Apple M2 Avalanche"},
    {AMPERE, 0xac3, "Ampere-1"},
    {AMPERE, 0xac4, "Ampere-1A"},
};
enum { N_CORE_TYPES = sizeof core_types / sizeof *core_types };

/* The types of cores found so far, each once. */
typedef struct type_list {
    uint16_t maker[MAX_TYPES], part[MAX_TYPES];
    size_t n;
} type_list;

static void type_add(type_list *list, unsigned long maker, unsigned long part)
{
    for (size_t i = 0; i < list->n; i++)
        if (list->maker[i] == maker && list->part[i] == part)
            return;
    if (list->n == MAX_TYPES || maker > 0xff || part > 0xfff)
        return;
    list->maker[list->n] = (uint16_t)maker;
    list->part[list->n++] = (uint16_t)part;
}

/* The value of a line "NAME\t: 0x41". */
static bool line_number(const char *line, const char *name, unsigned long *out)
{
    const size_t n = strlen(name);
    const char *colon = strncmp(line, name, n) == 0 ? strchr(line, ':') : NULL;
    if (colon == NULL || strspn(line + n, " \t") != (size_t)(colon - line) - n)
        return false;
    *out = strtoul(colon + 1, NULL, 0);
    return true;
}

static void types_read(type_list *out, const char *root)
{
    char path[512], line[256];
    unsigned long maker = 0, part;
    snprintf(path, sizeof path, "%s/proc/cpuinfo", root);
    FILE *f = fopen(path, "re");
    if (f == NULL)
        return;
    while (fgets(line, sizeof line, f) != NULL)
        if (!line_number(line, "CPU implementer", &maker) && line_number(line, "CPU part", &part))
            type_add(out, maker, part);
    fclose(f);
}

/* The file ends with a zero byte. */
static void board_read(char out[BOARD_BYTES], const char *root)
{
    char path[512];
    snprintf(path, sizeof path, "%s/proc/device-tree/model", root);
    FILE *f = fopen(path, "re");
    const size_t n = f != NULL ? fread(out, 1, BOARD_BYTES - 1, f) : 0;
    if (f != NULL)
        fclose(f);
    out[n] = '\0';
    out[strcspn(out, "\n")] = '\0';
    for (char *c = out; *c != '\0'; c++)
        if (*c < ' ' || *c > '~')
            *c = '?';
}

static void name_add(char out[CPU_NAME_BYTES], const char *between, const char *text)
{
    const size_t n = strlen(out);
    snprintf(out + n, CPU_NAME_BYTES - n, "%s%s", n > 0 ? between : "", text);
}

static void name_add_type(char out[CPU_NAME_BYTES], uint16_t maker, uint16_t part)
{
    char number[32];
    for (size_t i = 0; i < N_CORE_TYPES; i++)
        if (core_types[i].maker == maker && core_types[i].part == part) {
            name_add(out, " + ", core_types[i].name);
            return;
        }
    snprintf(number, sizeof number, "ARM 0x%02x/0x%03x", maker, part);
    name_add(out, " + ", number);
}

void cpu_arm_name_in(char out[CPU_NAME_BYTES], const char *root)
{
    type_list types = {.n = 0};
    char board[BOARD_BYTES] = "";
    out[0] = '\0';
    types_read(&types, root);
    for (size_t i = 0; i < types.n; i++)
        name_add_type(out, types.maker[i], types.part[i]);
    board_read(board, root);
    if (board[0] == '\0')
        return;
    char enclosed[BOARD_BYTES + 2];
    snprintf(enclosed, sizeof enclosed, "(%s)", board);
    name_add(out, " ", out[0] != '\0' ? enclosed : board);
}
