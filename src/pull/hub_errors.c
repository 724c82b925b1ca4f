/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hub_errors.c - what a status of the hub means for the user.
 *
 * X-Error-Code decides, then X-Error-Message, then the status alone. A HEAD has no body, so the
 * hub puts both into headers.
 */
#include "pull/pull_int.h"

#include <stdio.h>
#include <strings.h>

/* The text after which a 401 is about the token and not about the repository. */
static const char bad_token[] = "Invalid credentials in Authorization header";
static const char disabled[] = "Access to this resource is disabled";

static bool has_token(const pull *p)
{
    return p->request.token != NULL && *p->request.token != '\0';
}

/* Copies X-Error-Message, or "error" of a JSON body, without control characters. */
static void error_text(const http_reply *reply, char *out, size_t room)
{
    const char *header = hub_headers_get(&reply->headers, HUB_ERROR_MESSAGE);
    json_doc *doc = NULL;
    snprintf(out, room, "%s", header);
    if (*header == '\0' && reply->body.n > 0 &&
        json_doc_read(&doc, strbuf_view(&reply->body), NULL) == MOTE_OK) {
        const str text = json_node_text(json_node_get(json_doc_root(doc), "error"));
        snprintf(out, room, "%.*s", STR_ARG(text));
    }
    json_doc_free(doc);
    for (char *c = out; *c != '\0'; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7F)
            *c = ' ';
}

static mote_status failed_repository(pull *p, mote_error *err)
{
    if (has_token(p))
        return pull_fail(p, PULL_NOT_FOUND, err,
                         "the repository %s does not exist, or the token does not give access to "
                         "it",
                         p->request.repo);
    return pull_fail(p, PULL_NOT_FOUND, err,
                     "the repository %s does not exist, or it is private: then set HF_TOKEN",
                     p->request.repo);
}

static mote_status failed_gated(pull *p, mote_error *err)
{
    const char *endpoint = p->endpoint.text, *repo = p->request.repo;
    if (has_token(p))
        return pull_fail(p, PULL_GATED, err,
                         "the repository %s is gated and the account of this token has no access: "
                         "request it at %s/%s",
                         repo, endpoint, repo);
    return pull_fail(p, PULL_GATED, err,
                     "the repository %s is gated: request access at %s/%s, then set HF_TOKEN or "
                     "run hf auth login",
                     repo, endpoint, repo);
}

static mote_status failed_token(pull *p, const hub_url *url, mote_error *err)
{
    return pull_fail(p, PULL_TOKEN, err,
                     "%s refused the token: it is wrong or expired; run hf auth login, or try "
                     "without it (HF_HUB_DISABLE_IMPLICIT_TOKEN=1)",
                     url->host);
}

mote_status hub_status_failed(pull *p, const http_reply *reply, const hub_url *url,
                              const char *path, mote_error *err)
{
    const char *code = hub_headers_get(&reply->headers, HUB_ERROR_CODE);
    const long status = reply->status;
    char text[200];
    error_text(reply, text, sizeof text);
    if (strcmp(code, "GatedRepo") == 0)
        return failed_gated(p, err);
    if (strcmp(code, "RepoNotFound") == 0)
        return failed_repository(p, err);
    if (strcmp(code, "RevisionNotFound") == 0)
        return pull_fail(p, PULL_NOT_FOUND, err, "the repository %s has no revision %s",
                         p->request.repo, p->request.revision);
    if (strcmp(code, "EntryNotFound") == 0)
        return pull_fail(p, PULL_NOT_FOUND, err, "the repository %s has no file %s",
                         p->request.repo, path != NULL ? path : "list");
    if (status == 401 && strncmp(text, bad_token, strlen(bad_token)) == 0)
        return failed_token(p, url, err);
    if (status == 403 && strncmp(text, disabled, strlen(disabled)) == 0)
        return pull_fail(p, PULL_FORBIDDEN, err, "the hub has disabled access to %s",
                         p->request.repo);
    if (status == 401)
        return failed_repository(p, err);
    if (status == 403)
        return pull_fail(p, PULL_FORBIDDEN, err, "%s forbids access to %s%s%s", url->host,
                         p->request.repo, text[0] != '\0' ? ": " : "", text);
    if (status == 404 || status == 410)
        return pull_fail(p, PULL_NOT_FOUND, err, "%s has no %s%s%s", url->host, p->request.repo,
                         path != NULL ? ", file " : "", path != NULL ? path : "");
    return pull_fail(p, PULL_NETWORK, err, "%s answers with status %ld%s%s", url->host, status,
                     text[0] != '\0' ? ": " : "", text);
}
