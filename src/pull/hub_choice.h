/* SPDX-License-Identifier: Apache-2.0 */
/* hub_choice.h - which files of a repository belong to the model that is pulled. */
#ifndef MOTE_PULL_HUB_CHOICE_H
#define MOTE_PULL_HUB_CHOICE_H

#include "pull/hub_listing.h"
#include "pull/pull_int.h"

/* Sets p->files: the weights, with all parts of a split file, the vision encoder and the MTP
 * file; of a checkpoint all files that a conversion needs. */
mote_status hub_choose(pull *p, const listing *l, mote_error *err);

#endif
