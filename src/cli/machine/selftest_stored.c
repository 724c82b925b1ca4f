/* SPDX-License-Identifier: Apache-2.0 */
/*
 * selftest_stored.c - the results of the reference kernels for the built-in models, in the order of
 * selftest_cases. Printed by tests/cli/selftest_test.c with --print.
 */
#include "cli/machine/selftest.h"

_Static_assert(MOTE_NUMERICS == 2, "new numerics: print the results again");

const selftest_result selftest_stored[] = {
    /* F32 */
    {0x23dd203ff5abd0e5,
     0xae73f846b3c497b3,
     {0x1.bed92ap+0f, 0x1.d25f9p-4f, -0x1.8fc6cp-5f, 0x1.35898p-4f}},
    /* Q8_0 */
    {0x25d5315280d69caa,
     0x44fa89725c346e2a,
     {0x1.c03174p-2f, -0x1.bbecaep-1f, 0x1.05ce62p-2f, -0x1.c8ca84p-2f}},
    /* attention f32 */
    {0x41e9db09e1090948,
     0x5aeade43a2c887e7,
     {-0x1.b3219p+0f, -0x1.58750ap-3f, -0x1.b92084p+0f, 0x1.df1f66p-1f}},
    /* attention f16 */
    {0x99999b44af45ec55,
     0x4e9a193380b4ce1a,
     {-0x1.b25104p+0f, -0x1.517f5ap-3f, -0x1.b9b88p+0f, 0x1.dfb3dap-1f}},
    /* attention q8_0 */
    {0xb1b077d6d44b439d,
     0x62384f64ce21a4bf,
     {-0x1.b148cp+0f, -0x1.40d082p-3f, -0x1.bbb2b8p+0f, 0x1.e003eap-1f}},
    /* attention q4_0 */
    {0x98e09a1352ed3255,
     0xeb38e66125046051,
     {-0x1.9f399ep+0f, -0x1.4b61e6p-3f, -0x1.cac8aap+0f, 0x1.d9b5p-1f}},
    /* DeltaNet */
    {0x3c15114e91249110,
     0x374b8f9943522ca9,
     {-0x1.5567ccp-1f, 0x1.005fp-1f, 0x1.ee19b2p-3f, -0x1.fe3b9cp-1f}},
    /* F16 */
    {0x6a916654a85d1a45,
     0x16d7836d6c4bbada,
     {0x1.533ffap-1f, -0x1.8c661p-4f, -0x1.1d39acp+1f, -0x1.7cd38p+0f}},
    /* BF16 */
    {0xe90303dffb1393c4,
     0x5c707780c41bab4a,
     {-0x1.f43a3cp-5f, 0x1.f42bc4p-3f, -0x1.0a8e1p-2f, -0x1.4e0b8p-5f}},
    /* Q4_0 */
    {0xd284c4655b38791a,
     0x559d745bffb37b79,
     {-0x1.b39cecp-5f, 0x1.4a8904p+0f, 0x1.1bad84p-2f, 0x1.2038d4p-5f}},
    /* Q4_1 */
    {0x83b01c0768ecf21b,
     0x51332321c87e7a18,
     {-0x1.5305e4p+0f, 0x1.914e84p-5f, 0x1.5cc8d4p-2f, -0x1.2ab5ecp+0f}},
    /* Q5_0 */
    {0x8b5c28c334e70164,
     0xca26f0a3aff8ff67,
     {-0x1.e297f4p+0f, 0x1.463ec4p+1f, -0x1.f43fb8p-1f, 0x1.fe835ep-2f}},
    /* Q5_1 */
    {0x779ac0dd8cde4024,
     0x9d559d5afea2e0c7,
     {-0x1.629096p-3f, 0x1.2b1de6p+0f, -0x1.f1775cp-1f, -0x1.f37318p-1f}},
    /* IQ4_NL */
    {0xb555b6720dec236b,
     0x6c0e79b92ce1ff2c,
     {-0x1.fd5ep-1f, 0x1.e742dep-1f, 0x1.08232p-1f, -0x1.da37b8p-3f}},
    /* Q6_K */
    {0x7c824eafcc94fb89,
     0x692aacc8038a8f4d,
     {-0x1.4ecd84p+0f, 0x1.31b19ap-1f, -0x1.afc07cp-2f, 0x1.6b1e4cp-3f}},
    /* Q2_K */
    {0x0c1a2e7dae82b7cd,
     0x4e035a88afe8e496,
     {0x1.d148a4p+0f, 0x1.b37552p-3f, -0x1.81b39p+0f, 0x1.cc14c4p+1f}},
    /* Q3_K */
    {0x42c49a0fc745fa08,
     0x3d875248042bda40,
     {0x1.0d806ep-1f, 0x1.c3c0fcp-1f, 0x1.3f1504p-1f, -0x1.9d814ap+0f}},
    /* Q4_K */
    {0x513258feba2fe649,
     0xb2d7c35170ffbebc,
     {-0x1.a9ca44p-2f, -0x1.56ef9ep+1f, -0x1.e4628ep+0f, -0x1.675fbp-3f}},
    /* Q5_K */
    {0x2fff5e1621c11847,
     0x7e48a5c88fd3b90a,
     {-0x1.4eb488p-2f, -0x1.c5969p+1f, -0x1.3f6ba2p+1f, -0x1.19785cp+0f}},
    /* IQ4_XS */
    {0x2d21824b6a8e776b,
     0xae7488d607c3118e,
     {-0x1.a4ad8cp-1f, -0x1.0271d2p+0f, -0x1.89c49cp-1f, 0x1.ae8ae4p-1f}},
    /* IQ1_S */
    {0x44a03a7ff66c3525,
     0x4d077ffab032a84f,
     {0x1.caff44p-1f, -0x1.96ce68p-3f, -0x1.2cd09p-1f, -0x1.1c48cp+1f}},
    /* IQ1_M */
    {0x55f8285fe1f16c92,
     0xaec1456a639058dd,
     {-0x1.878156p-2f, -0x1.c2c8dp-3f, 0x1.1da13ep-1f, 0x1.582d28p-3f}},
    /* IQ2_XXS */
    {0xb2dfbcd351d0a71a,
     0x79cc2541c6bdf16c,
     {-0x1.d69008p-4f, -0x1.6999b2p-2f, 0x1.ed208p-2f, 0x1.6bf3d6p-1f}},
    /* IQ2_XS */
    {0x87242b5e6025f539,
     0x70ccce14eaeb1571,
     {-0x1.7e0a58p-2f, 0x1.b60b7cp+0f, -0x1.7c35fep-1f, -0x1.d4405ep-1f}},
    /* IQ2_S */
    {0x8920db5f23a8ec87,
     0xb23ef31c71f9e0c0,
     {-0x1.303bc6p-1f, 0x1.7c02a2p-4f, -0x1.fc416p-1f, -0x1.88abacp-3f}},
    /* IQ3_XXS */
    {0xeba6625b04a8e173,
     0x1d5cc3d666483022,
     {-0x1.03e1p+0f, -0x1.598c44p-1f, -0x1.0b023ap-1f, -0x1.c9264ap-3f}},
    /* IQ3_S */
    {0x9279677a77a20f22,
     0x604eaaeaa3a84249,
     {0x1.bb4538p-2f, -0x1.a68344p-3f, -0x1.5fd4f6p-3f, -0x1.3592aap-1f}},
    /* TQ1_0 */
    {0xd81aa2d5ac6606d6,
     0x2742c44c2b66310c,
     {0x1.409ea8p+0f, 0x1.66f17cp-3f, -0x1.129cf6p+0f, -0x1.54aaf8p+0f}},
    /* TQ2_0 */
    {0x8fe2d60382f8873b,
     0x3996e883eea6f953,
     {0x1.245e2ap+2f, 0x1.3a968cp+2f, 0x1.9005d6p+2f, 0x1.5f7992p+2f}},
    /* MXFP4 */
    {0xb1f4e059e2b63af5,
     0x33106697ab631dc5,
     {-0x1.71e602p+0f, -0x1.a04bfcp-3f, -0x1.5e72b6p-1f, 0x1.f8b72p-1f}},
    /* NVFP4 */
    {0x1d1a91c9729ea5ed,
     0x1f49a41ed2025767,
     {0x1.3d8a74p-1f, -0x1.5b1c7cp-1f, 0x1.73fdbp+0f, 0x1.01a124p-1f}},
    /* Q1_0 */
    {0x024e63b8dd5bc809,
     0xb31d05dbef7988d7,
     {-0x1.f64f32p-1f, -0x1.439c1cp-2f, -0x1.100b22p-1f, -0x1.15f18ep+0f}},
    /* Q2_0 */
    {0x6563e4a8bbb4c1e8,
     0x49f3bf1fc239f9fb,
     {0x1.829064p+2f, 0x1.1ffd38p+2f, 0x1.44b952p+2f, 0x1.3f6ed8p+2f}},
    /* mixed */
    {0xd4674a3d7b775779,
     0x673eb595117f8e97,
     {-0x1.7888bp-1f, 0x1.a56ddcp-1f, -0x1.24b1aap+1f, -0x1.9c9b32p-2f}},
    /* long attention */
    {0x1d5b520e3174f382,
     0x0705e96f240006c6,
     {-0x1.251fd6p+0f, -0x1.0e14e6p-1f, -0x1.2e1edcp+0f, 0x1.e7cb7ap-2f}},
};
