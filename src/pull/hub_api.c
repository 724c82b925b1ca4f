/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hub_api.c - requests to the hub: the commit of a revision, the list of files, and where the
 * content of a file is.
 *
 * The list and all files are requested by commit, so a branch that moves has no effect.
 */
#include "pull/pull_int.h"

#include "base/mem.h"
#include "pull/hub_choice.h"
#include "pull/hub_listing.h"
#include "store/known_models.h"

#include <stdio.h>
#include <strings.h>

enum { INFO_BYTES_MAX = 8 << 20 };

/* ---- URLs ---- */

/* "<endpoint><middle>": checked like any other URL. */
static mote_status endpoint_url(pull *p, hub_url *out, strbuf *text, mote_error *err)
{
    mote_error why = {0};
    strbuf_byte(text, '\0');
    mote_status status = strbuf_check(text, err);
    if (status == MOTE_OK && (text->n >= HUB_URL_BYTES || hub_url_parse(out, text->p, &why)))
        status = pull_fail(p, PULL_BAD_REQUEST, err, "cannot make a URL for %s: %s",
                           p->request.repo, why.text);
    strbuf_fini(text);
    return status;
}

static mote_status api_url(pull *p, hub_url *out, const char *what, const char *revision,
                           const char *query, mote_error *err)
{
    strbuf text = {0};
    strbuf_text(&text, p->endpoint.text);
    strbuf_text(&text, "/api/models/");
    hub_put_encoded(&text, p->request.repo, true);
    strbuf_text(&text, what);
    hub_put_encoded(&text, revision, false);
    strbuf_text(&text, query);
    return endpoint_url(p, out, &text, err);
}

static mote_status file_url(pull *p, hub_url *out, const char *path, mote_error *err)
{
    strbuf text = {0};
    strbuf_text(&text, p->endpoint.text);
    strbuf_byte(&text, '/');
    hub_put_encoded(&text, p->request.repo, true);
    strbuf_text(&text, "/resolve/");
    strbuf_text(&text, p->commit);
    strbuf_byte(&text, '/');
    hub_put_encoded(&text, path, true);
    return endpoint_url(p, out, &text, err);
}

/* ---- redirects ---- */

mote_status hub_redirect(pull *p, const hub_headers *headers, hub_url *url, bool *token,
                         unsigned *redirects, mote_error *err)
{
    hub_url target;
    mote_error why;
    if (++*redirects > HUB_REDIRECTS_MAX)
        return pull_fail(p, PULL_REDIRECT, err, "%s redirects more than %d times", url->host,
                         HUB_REDIRECTS_MAX);
    if (headers->too_long ||
        hub_url_follow(&target, url, hub_headers_get(headers, HUB_LOCATION), &why) != MOTE_OK)
        return pull_fail(p, PULL_REDIRECT, err, "a redirect of %s is not followed: %s", url->host,
                         headers->too_long ? "the URL is too long" : why.text);
    if (hub_url_private(&target) && !p->endpoint_private && !hub_url_private(&p->endpoint))
        return pull_fail(p, PULL_REDIRECT, err,
                         "a redirect of %s is not followed: %s is a private address", url->host,
                         target.host);
    /* Once a chain has left the hub, it never gets the token again. */
    *token = *token && hub_url_is_hub(&target, &p->endpoint);
    *url = target;
    return MOTE_OK;
}

static bool is_redirect(long status)
{
    return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

/* A GET of the API, with redirects inside the hub. *url: the last one. */
static mote_status api_get(pull *p, hub_url *url, size_t most, http_reply *reply, mote_error *err)
{
    bool token = true;
    for (unsigned redirects = 0;;) {
        TRY(http_request(p, url, token, most, reply, err));
        if (is_redirect(reply->status)) {
            TRY(hub_redirect(p, &reply->headers, url, &token, &redirects, err));
            if (!token)
                return pull_fail(p, PULL_NOT_A_HUB, err,
                                 "%s redirects a request of the hub API to %s: not a hub, or a "
                                 "network that requires a login in the browser",
                                 p->endpoint.host, url->host);
            continue;
        }
        if (reply->status != 200)
            return hub_status_failed(p, reply, url, NULL, err);
        return MOTE_OK;
    }
}

/* ---- commit and files ---- */

static mote_status not_a_hub(pull *p, const hub_url *url, const char *why, mote_error *err)
{
    return pull_fail(p, PULL_NOT_A_HUB, err,
                     "%s does not answer like a hub (%s): is it a login page of the network?",
                     url->host, why);
}

static mote_status commit_read(pull *p, const hub_url *url, str json, mote_error *err)
{
    json_doc *doc = NULL;
    mote_error why;
    if (json_doc_read(&doc, json, &why) != MOTE_OK)
        return not_a_hub(p, url, why.text, err);
    const str sha = json_node_text(json_node_get(json_doc_root(doc), "sha"));
    const bool valid = hub_hash_valid(sha, 40);
    if (valid)
        memcpy(p->commit, sha.p, sha.n);
    json_doc_free(doc);
    if (!valid)
        return not_a_hub(p, url, "its reply has no valid commit", err);
    return MOTE_OK;
}

static mote_status find_commit(pull *p, mote_error *err)
{
    const str revision = str_of(p->request.revision);
    http_reply reply = {0};
    hub_url url;
    if (hub_hash_valid(revision, 40)) {
        memcpy(p->commit, revision.p, revision.n);
        return MOTE_OK;
    }
    TRY(api_url(p, &url, "/revision/", revision.p, "", err));
    mote_status status = api_get(p, &url, INFO_BYTES_MAX, &reply, err);
    if (status == MOTE_OK)
        status = commit_read(p, &url, strbuf_view(&reply.body), err);
    strbuf_fini(&reply.body);
    return status;
}

/* Sets *url to the next page; false: this was the last. */
static mote_status next_page(pull *p, const http_reply *reply, hub_url *url, bool *more,
                             mote_error *err)
{
    char link[HUB_URL_BYTES];
    hub_url next;
    mote_error why = {0};
    *more = hub_next_link(hub_headers_get(&reply->headers, HUB_LINK), link, sizeof link);
    if (!*more)
        return MOTE_OK;
    if (hub_url_follow(&next, url, link, &why) != MOTE_OK ||
        !hub_url_same_origin(&next, &p->endpoint))
        return pull_fail(p, PULL_BAD_REPLY, err,
                         "the next page of the file list is on another server than %s",
                         p->endpoint.host);
    if (strcmp(next.text, url->text) == 0)
        return pull_fail(p, PULL_BAD_REPLY, err, "the file list of %s does not end",
                         p->request.repo);
    *url = next;
    return MOTE_OK;
}

static mote_status read_pages(pull *p, listing *l, http_reply *reply, mote_error *err)
{
    hub_url url;
    mote_error why;
    bool more = true;
    TRY(api_url(p, &url, "/tree/", p->commit, "?recursive=true&expand=false", err));
    for (int page = 0; more; page++) {
        if (page == LISTING_PAGES_MAX)
            return pull_fail(p, PULL_BAD_REPLY, err, "the file list of %s does not end",
                             p->request.repo);
        TRY(api_get(p, &url, LISTING_PAGE_BYTES, reply, err));
        if (listing_add_page(l, strbuf_view(&reply->body), &why) != MOTE_OK)
            return pull_fail(p, PULL_BAD_REPLY, err, "cannot read the file list of %s: %s",
                             p->request.repo, why.text);
        TRY(next_page(p, reply, &url, &more, err));
    }
    if (l->invalid > 0)
        event_warning("the repository has files with invalid names or sizes; they are ignored");
    return MOTE_OK;
}

/* Adds the chosen files to the pull. */
static mote_status take_files(pull *p, const listing *l, mote_error *err)
{
    TRY(hub_choose(p, l, err));
    for (size_t i = 0; i < p->n_files; i++) {
        p->total += p->files[i].size;
        for (size_t j = 0; j < i; j++)
            if (strcasecmp(p->files[i].path, p->files[j].path) == 0)
                return pull_fail(p, PULL_BAD_REPLY, err,
                                 "two files differ only in the case of their name: %s",
                                 p->files[i].path);
    }
    return MOTE_OK;
}

mote_status hub_list(pull *p, mote_error *err)
{
    http_reply reply = {0};
    listing files = {.checkpoint = p->request.checkpoint};
    mote_status status = find_commit(p, err);
    if (status == MOTE_OK)
        status = read_pages(p, &files, &reply, err);
    if (status == MOTE_OK)
        status = take_files(p, &files, err);
    strbuf_fini(&reply.body);
    listing_fini(&files);
    return status;
}

/* ---- one file ---- */

/* X-Linked-Size, else the length of a reply that is no redirect. */
static bool meta_size(const http_reply *reply, uint64_t *size)
{
    const bool linked = reply->headers.count[HUB_LINKED_SIZE] > 0;
    const hub_header which = linked ? HUB_LINKED_SIZE : HUB_CONTENT_LENGTH;
    return (linked || !is_redirect(reply->status)) &&
           hub_number(hub_headers_get(&reply->headers, which), size) && *size > 0 &&
           *size <= HUB_FILE_MAX;
}

static mote_status meta_read(pull *p, const pull_file *f, const http_reply *reply,
                             const char *commit, hub_meta *meta, mote_error *err)
{
    const hub_header etag = reply->headers.count[HUB_LINKED_ETAG] > 0 ? HUB_LINKED_ETAG : HUB_ETAG;
    if (commit[0] == '\0' || reply->headers.count[etag] == 0)
        return not_a_hub(p, &meta->url, "no X-Repo-Commit or ETag header", err);
    if (strcmp(commit, p->commit) != 0)
        return pull_fail(p, PULL_BAD_REPLY, err, "the hub sends %s of another commit than %s",
                         f->path, p->commit);
    if (!hub_etag_hash(hub_headers_get(&reply->headers, etag), meta->hash))
        return pull_fail(p, PULL_BAD_REPLY, err, "the hub sends no valid hash for %s", f->path);
    if (!meta_size(reply, &meta->size))
        return pull_fail(p, PULL_BAD_REPLY, err, "the hub sends no valid size for %s", f->path);
    return MOTE_OK;
}

static mote_status resolve_with(pull *p, const pull_file *f, hub_meta *meta, http_reply *reply,
                                mote_error *err)
{
    char commit[HUB_HEADER_BYTES] = "";
    meta->token = true;
    meta->redirects = 0;
    TRY(file_url(p, &meta->url, f->path, err));
    for (;;) {
        TRY(http_request(p, &meta->url, meta->token, 0, reply, err));
        const char *sent = hub_headers_get(&reply->headers, HUB_REPO_COMMIT);
        if (*sent != '\0')
            snprintf(commit, sizeof commit, "%s", sent);
        if (reply->status == 200)
            return meta_read(p, f, reply, commit, meta, err);
        if (!is_redirect(reply->status))
            return hub_status_failed(p, reply, &meta->url, f->path, err);
        hub_url from = meta->url;
        TRY(hub_redirect(p, &reply->headers, &meta->url, &meta->token, &meta->redirects, err));
        if (meta->token)
            continue;
        /* The first redirect that leaves the hub has the metadata. */
        hub_url content = meta->url;
        meta->url = from;
        TRY(meta_read(p, f, reply, commit, meta, err));
        meta->url = content;
        return MOTE_OK;
    }
}

mote_status hub_resolve(pull *p, const pull_file *f, hub_meta *meta, mote_error *err)
{
    http_reply reply = {0};
    *meta = (hub_meta){0};
    const mote_status status = resolve_with(p, f, meta, &reply, err);
    strbuf_fini(&reply.body);
    return status;
}
