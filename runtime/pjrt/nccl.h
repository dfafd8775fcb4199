/* NVIDIA's library of collectives between GPUs, loaded when it is first needed, and who speaks by it.
 *
 * GPUs of this process speak in groups, each with a communicator for every member. One thread gives
 * all members of a collective their part at once, so that no GPU waits for one that was not asked.
 */
#ifndef EDGEC_PJRT_NCCL_H
#define EDGEC_PJRT_NCCL_H

#include "route.h"

/* Whether the devices can all speak by it: different GPUs of CUDA's, and the library is there. What
 * keeps them from it is said on stderr, once. */
bool pjrt_nccl_is_for(pjrt_client *client, pjrt_device *const *devices, size_t count);

/* Whether it carries out a step; `*out_why` says why not, in words behind "NCCL". */
bool pjrt_nccl_takes(const pjrt_step *step, const char **out_why);

/* Let the groups of a step find each other: from then on it can be carried out. */
pjrt_error *pjrt_nccl_join(pjrt_client *client, pjrt_device *const *devices, size_t count,
                           pjrt_step *step);

/* As `pjrt_collect`; the tensors that are made are filled in behind what their devices have yet to
 * do. */
pjrt_error *pjrt_nccl_collect(pjrt_client *client, const pjrt_step *step,
                              pjrt_device *const *devices, size_t count,
                              edgert_tensor *const *given, edgert_tensor **made);

/* Have those who wait for a GPU that failed wait no more; nobody speaks from then on. */
void pjrt_nccl_abort(pjrt_client *client);

void pjrt_nccl_stop(pjrt_client *client);

#endif
