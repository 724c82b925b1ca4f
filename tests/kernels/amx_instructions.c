/* SPDX-License-Identifier: Apache-2.0 */
/*
 * amx_instructions.c - SIGILL handler that emulates AMX tile instructions.
 *
 * On a CPU without AMX a tile instruction raises SIGILL. The handler decodes the instruction,
 * executes it with tile_model.h, and continues after it. Encodings, from Intel's manual (all
 * VEX.128, map 0F38, W0; pp is the legacy prefix):
 *
 *     49 /0, memory       pp -     LDTILECFG
 *     49 C0               pp -     TILERELEASE
 *     49 11:rrr:000       pp F2    TILEZERO     tile r
 *     4B /r, SIB          pp F2    TILELOADD    tile r; base is the first row, index the stride
 *     4B /r, SIB          pp F3    TILESTORED   tile r
 *     5E 11:rrr:bbb       pp F2    TDPBSSD      tile r += tile b * tile vvvv
 *     5E 11:rrr:bbb       pp F3    TDPBSUD      the same, vvvv unsigned
 *     5C 11:rrr:bbb       pp F3    TDPBF16PS    the same, pairs of bf16
 *
 * All other instructions go to the previous handler. An invalid memory access of a tile row raises
 * SIGSEGV inside this handler; the checker reports it as an error of the kernel.
 */
#define _GNU_SOURCE
#include "kernels/amx_emulated.h"

#include "kernels/tile_model.h"

#include <signal.h>
#include <string.h>
#include <ucontext.h>

enum { VEX = 0xC4, MAP_0F38 = 2, PP_NONE = 0, PP_F3 = 2, PP_F2 = 3, NO_INDEX = 4, IN_SIB = 4 };

static tile_model model;
static unsigned long n_caught;
static struct sigaction previous;

unsigned long amx_caught_instructions(void)
{
    return n_caught;
}

typedef struct instruction {
    unsigned opcode, pp;
    unsigned mod, reg, rm, vvvv; /* register numbers, with their extension bits */
    bool has_sib;
    const uint8_t *address; /* of a memory operand */
    size_t stride;          /* its index, scaled */
    size_t length;
} instruction;

/* Value of a general register, by its number in an instruction. */
static uintptr_t register_value(const ucontext_t *u, unsigned number)
{
    static const int names[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
                                  REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
                                  REG_R12, REG_R13, REG_R14, REG_R15};
    return (uintptr_t)u->uc_mcontext.gregs[names[number]];
}

/* The displacement at p; n_bytes is 0, 1 or 4. */
static intptr_t displacement(const uint8_t *p, size_t n_bytes)
{
    int32_t four = 0;
    if (n_bytes == 1)
        return (int8_t)*p;
    memcpy(&four, p, n_bytes);
    return four;
}

/* Decodes the memory operand after the ModRM byte. False for forms that tile kernels do not use. */
static bool decode_address(const ucontext_t *u, const uint8_t *modrm, unsigned x_bit,
                           unsigned b_bit, instruction *i)
{
    const size_t n_displacement = i->mod == 0 ? 0 : i->mod == 1 ? 1 : 4;
    unsigned base = i->rm & 7;
    i->has_sib = base == IN_SIB;
    if (i->has_sib) {
        const unsigned sib = modrm[1], index = (sib >> 3 & 7) | x_bit << 3;
        base = sib & 7;
        i->stride = index == NO_INDEX ? 0 : register_value(u, index) << (sib >> 6);
    }
    if (i->mod == 0 && base == 5)
        return false; /* RIP-relative, or no base register */
    const uint8_t *after = modrm + 1 + i->has_sib;
    i->address = (const uint8_t *)(register_value(u, base | b_bit << 3) +
                                   (uintptr_t)displacement(after, n_displacement));
    i->length += (size_t)i->has_sib + n_displacement;
    return true;
}

static bool decode(const ucontext_t *u, instruction *i)
{
    const uint8_t *p = (const uint8_t *)u->uc_mcontext.gregs[REG_RIP];
    if (p[0] != VEX || (p[1] & 31) != MAP_0F38 || (p[2] & 0x84) != 0) /* W and L are 0 */
        return false;
    const unsigned r = !(p[1] & 0x80), x = !(p[1] & 0x40), b = !(p[1] & 0x20), modrm = p[4];
    *i = (instruction){.opcode = p[3],
                       .pp = p[2] & 3,
                       .mod = modrm >> 6,
                       .reg = (modrm >> 3 & 7) | r << 3,
                       .rm = modrm & 7,
                       .vvvv = ~(unsigned)p[2] >> 3 & 15,
                       .length = 5};
    if (i->mod != 3)
        return decode_address(u, p + 4, x, b, i);
    i->rm |= b << 3;
    return true;
}

static bool execute(const instruction *i)
{
    const bool memory = i->mod != 3;
    if (i->opcode == 0x5E)
        return (i->pp == PP_F2 || i->pp == PP_F3) && !memory &&
               tile_model_dp(&model, i->reg, i->rm, i->vvvv, i->pp == PP_F2);
    if (i->opcode == 0x5C)
        return i->pp == PP_F3 && !memory && tile_model_dp_bf16(&model, i->reg, i->rm, i->vvvv);
    if (i->vvvv != 0)
        return false;
    if (i->opcode == 0x4B && i->has_sib && i->pp == PP_F2)
        return tile_model_load(&model, i->reg, i->address, i->stride);
    if (i->opcode == 0x4B && i->has_sib && i->pp == PP_F3)
        return tile_model_store(&model, i->reg, (void *)(uintptr_t)i->address, i->stride);
    if (i->opcode != 0x49)
        return false;
    if (i->pp == PP_F2)
        return !memory && i->rm == 0 && tile_model_zero(&model, i->reg);
    if (i->pp != PP_NONE || i->reg != 0)
        return false;
    if (memory)
        return tile_model_configure(&model, i->address);
    tile_model_release(&model);
    return i->rm == 0;
}

static void on_illegal(int number, siginfo_t *info, void *context)
{
    ucontext_t *u = context;
    instruction i;
    (void)info;
    if (!decode(u, &i) || !execute(&i)) {
        previous.sa_handler(number);
        return;
    }
    n_caught++;
    u->uc_mcontext.gregs[REG_RIP] += (greg_t)i.length;
}

void amx_catch_instructions(void)
{
    struct sigaction action = {.sa_sigaction = on_illegal,
                               .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
    sigaction(SIGILL, &action, &previous);
}
