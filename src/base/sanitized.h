/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sanitized.h - defines MOTE_SANITIZED in builds with AddressSanitizer or ThreadSanitizer.
 *
 * Sanitizers reserve much address space and make system calls that a sandbox forbids.
 */
#ifndef MOTE_BASE_SANITIZED_H
#define MOTE_BASE_SANITIZED_H

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MOTE_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define MOTE_SANITIZED 1
#endif
#endif

#endif
