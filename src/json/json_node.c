/* SPDX-License-Identifier: Apache-2.0 */
/* json_node.c - access to the nodes of a parsed document. */
#include "json/json_int.h"

#include "base/mem.h"

void json_doc_free(json_doc *doc)
{
    if (doc == NULL)
        return;
    mem_free(doc->nodes);
    mem_free(doc->bytes);
    mem_free(doc);
}

const json_node *json_doc_root(const json_doc *doc)
{
    return doc->nodes;
}

uint32_t json_doc_nodes(const json_doc *doc)
{
    return doc->n_nodes;
}

bool json_doc_repeats(const json_doc *doc)
{
    return doc->repeats;
}

uint32_t json_node_number(const json_doc *doc, const json_node *node)
{
    return (uint32_t)(node - doc->nodes);
}

json_kind json_node_kind(const json_node *node)
{
    return node != NULL ? (json_kind)node->kind : JSON_IS_ABSENT;
}

bool json_node_is(const json_node *node, json_kind kind)
{
    return json_node_kind(node) == kind;
}

bool json_node_truth(const json_node *node)
{
    return node != NULL && node->truth;
}

str json_node_text(const json_node *node)
{
    return node != NULL && node->text.p != NULL ? node->text : str_of("");
}

str json_node_name(const json_node *node)
{
    return node != NULL && node->name.p != NULL ? node->name : str_of("");
}

uint32_t json_node_size(const json_node *node)
{
    return node != NULL ? node->n : 0;
}

const json_node *json_node_first(const json_node *container)
{
    return json_node_size(container) > 0 ? container + 1 : NULL;
}

const json_node *json_node_next(const json_node *child)
{
    return child->last ? NULL : child + child->whole;
}

const json_node *json_node_member(const json_node *object, str name)
{
    if (!json_node_is(object, JSON_IS_OBJECT))
        return NULL;
    const json_node *member = json_node_first(object);
    while (member != NULL && !str_eq(member->name, name))
        member = json_node_next(member);
    return member;
}

const json_node *json_node_get(const json_node *object, const char *name)
{
    return json_node_member(object, str_of(name));
}
