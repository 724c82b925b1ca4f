/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pull_request.h - what the helper program mote-pull is asked to do, and how it fails.
 *
 * The parent (`mote pull`, `mote run`, `mote serve`) writes one JSON object to its standard input
 * and reads events, one JSON object per line, from its standard output. README.md lists both. The
 * helper reads no environment variables: everything is in the request, the token too, so neither a
 * command line nor a file holds it.
 */
#ifndef MOTE_PULL_PULL_REQUEST_H
#define MOTE_PULL_PULL_REQUEST_H

#include "json/json.h"

enum {
    PULL_FILES_MAX = 64,
    PULL_JOBS_MAX = 16,
    PULL_JOBS = 4,              /* connections, unless the request says otherwise */
    PULL_REQUEST_BYTES = 65536, /* of the JSON text */
    PULL_PATH_BYTES = 4096
};

#define PULL_ENDPOINT "https://huggingface.co"

/* All texts may be NULL or empty unless a comment says otherwise. */
typedef struct pull_request {
    const char *repo;                  /* "owner/name"; required */
    const char *revision;              /* branch, tag or commit; default "main" */
    const char *files[PULL_FILES_MAX]; /* paths in the repository */
    size_t n_files;                    /* 0: chosen by `quant` */
    const char *quant;                 /* a quantisation or file name, as in hf:owner/repo:quant */
    const char *weights;               /* of a known model: its file with {quant}, */
    const char *mmproj, *mtp;          /* its vision encoder and its MTP file */
    const char *cache;                 /* the Hugging Face cache, absolute; required */
    const char *state;                 /* the directory of the record of hashes */
    const char *from;                  /* directory with the files, instead of the network */
    const char *endpoint;              /* URL of the hub; default PULL_ENDPOINT */
    const char *token;
    const char *token_endpoint;   /* the hub that the token is for; default: `endpoint` */
    const char *proxy, *no_proxy; /* as in HTTPS_PROXY and NO_PROXY */
    const char *ca_file, *ca_dir; /* as in SSL_CERT_FILE and SSL_CERT_DIR */
    uint64_t jobs;                /* parallel connections, 1 to PULL_JOBS_MAX; 0: PULL_JOBS */
    uint64_t limit_rate;          /* bytes per second, 0: no limit */
    double etag_timeout;          /* the same for the metadata of a file; 0: 10 */
    double timeout;               /* seconds without data that end a connection; 0: 10 */
    double give_up;               /* seconds for all requests together; 0: no limit */
    double retry_wait;            /* seconds before the first retry; it doubles. 0: 1 */
    bool dry_run;                 /* only the plan */
    bool checkpoint;              /* Safetensors and their files, not GGUF files */
    bool no_symlinks;             /* files are stored in snapshots/, not linked */
} pull_request;

/* Appends the request as JSON. */
void pull_request_put(strbuf *out, const pull_request *r);
/* Reads and checks a request. The texts belong to the document. */
mote_status pull_request_read(pull_request *r, const json_node *root, mote_error *err);

/*
 * A spawner (pull_client.h) has the settings of all its requests, so these say only what to pull:
 * repo, revision, quant, weights, mmproj, mtp and files. All other fields are settings.
 */
void pull_request_put_model(strbuf *out, const pull_request *r);
/* Reads the settings; a model is ignored. */
mote_status pull_request_read_settings(pull_request *r, const json_node *root, mote_error *err);
/* Reads what to pull, and keeps the settings of *r. A setting in the request is MOTE_E_ARG. */
mote_status pull_request_read_model(pull_request *r, const json_node *root, mote_error *err);

/* ---- failures ---- */

typedef enum pull_code {
    PULL_FAILED,       /* other */
    PULL_BAD_REQUEST,  /* the request itself is wrong */
    PULL_NOT_FOUND,    /* repository, revision or file */
    PULL_NO_MEMORY,    /* */
    PULL_NETWORK,      /* no connection, or it failed too often */
    PULL_TLS,          /* the certificate or the TLS version */
    PULL_PROXY,        /* */
    PULL_NOT_A_HUB,    /* a login page, or another kind of server */
    PULL_BAD_REPLY,    /* the hub sent something that is not valid */
    PULL_REDIRECT,     /* a redirect that is not followed */
    PULL_RATE_LIMIT,   /* 429 for too long */
    PULL_OFFLINE,      /* the user switched the network off */
    PULL_HASH,         /* the content does not match its hash */
    PULL_NOT_GGUF,     /* right hash, but not a model file */
    PULL_GATED,        /* access must be requested */
    PULL_TOKEN,        /* the token was refused or is malformed */
    PULL_FORBIDDEN,    /* */
    PULL_DISK_FULL,    /* */
    PULL_NOT_WRITABLE, /* */
    PULL_INTERRUPTED,  /* SIGINT */
    PULL_TERMINATED,   /* SIGTERM, SIGHUP, or the reader of the events has gone */
    PULL_CODES
} pull_code;

/* "gated", for the "code" of the error event. */
const char *pull_code_name(pull_code code);
/* The exit code of the program, as `mote` uses them. */
int pull_code_exit(pull_code code);

#endif
