/* SPDX-License-Identifier: Apache-2.0 */
/*
 * web_page.h - the chat page for browsers: the files of web/, compiled into the program.
 *
 * cmake/web.cmake writes the table from web/ and from the libraries in third_party/ that the page
 * uses. The contents are compressed when the program is built: the server has no code for that.
 */
#ifndef MOTE_SERVER_API_NATIVE_WEB_PAGE_H
#define MOTE_SERVER_API_NATIVE_WEB_PAGE_H

#include "server/http/exchange.h"

typedef struct web_file {
    const char *path; /* below /web/ */
    const char *type; /* for Content-Type */
    const char *etag; /* with its quotes: hash of the content */
    const unsigned char *gzip;
    size_t n; /* bytes of `gzip` */
} web_file;

extern const web_file web_files[];
extern const size_t web_n_files;

/* Replies with a file of the page, with 304 if the client has it, or with 404. */
void web_page_reply(exchange *x, str path);
/* Does the value of an Accept or Accept-Encoding header name `wanted`? A wildcard does not count, a
 * weight of 0 excludes. */
bool accept_lists(str header, const char *wanted);

#endif
