/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox_absent.c - decoders on systems without Landlock and seccomp: only the resource limits of
 * sandbox.c hold. */
#include "media/sandbox/decoder_int.h"

sandbox_state sandbox_restrict(void)
{
    return SANDBOX_OFF;
}
