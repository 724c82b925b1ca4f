/* SPDX-License-Identifier: Apache-2.0 */
/*
 * schema_test.c - each keyword of JSON Schema: texts it accepts and texts it rejects.
 *
 * The masks along every accepted text are compared with grammar_allows of every token.
 */
#include "grammar/grammar.h"
#include "grammar/grammar_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { TEXTS = 14 };

typedef struct keyword_case {
    const char *schema;
    const char *taken[TEXTS];
    const char *refused[TEXTS];
} keyword_case;

static const keyword_case cases[] = {
    /* type */
    {"{\"type\":\"null\"}", {"null"}, {"0", "nul", "\"null\""}},
    {"{\"type\":\"boolean\"}", {"true", "false"}, {"True", "1"}},
    {"{\"type\":\"integer\"}", {"0", "-7", "123456789012345678901234567890"}, {"1.0", "1e3", "01"}},
    {"{\"type\":\"number\"}", {"0", "-7.25", "1e3", "1.5E-8"}, {"1.", "\"1\""}},
    {"{\"type\":\"string\"}", {"\"\"", "\"a\\u00e9\xC3\xA9\""}, {"a", "\"\n\""}},
    {"{\"type\":[\"string\",\"null\"]}", {"null", "\"x\""}, {"1", "[]"}},
    {"{\"type\":[\"integer\",\"number\"]}", {"1", "1.5"}, {"null"}},
    {"{}", {"1", "{\"a\":[null]}", "\"\""}, {"", "{"}},
    {"true", {"1", "[]"}, {""}},
    /* enum, const */
    {"{\"enum\":[\"red\",\"green\",3,null,true]}",
     {"\"red\"", "3", "null", "true"},
     {"\"blue\"", "\"re\"", "30", "false"}},
    {"{\"enum\":[1e2,0.50,-0]}", {"100", "0.5", "0"}, {"1e2", "0.50"}},
    {"{\"const\":{\"a\":[1,{\"b\":null}]}}",
     {"{\"a\":[1,{\"b\":null}]}", "{\"a\": [1, {\"b\": null}]}"},
     {"{\"a\":[1]}", "{}", "{\"a\":[1,{\"b\":null}],\"c\":1}"}},
    {"{\"const\":\"a\\\"\\n\\u0001\"}", {"\"a\\\"\\n\\u0001\""}, {"\"a\""}},
    {"{\"type\":\"integer\",\"enum\":[1,\"1\",2.5,3]}", {"1", "3"}, {"\"1\"", "2.5"}},
    {"{\"enum\":[[],[1],{}]}", {"[]", "[1]", "{}"}, {"[2]", "[1,1]"}},
    /* numbers */
    {"{\"type\":\"integer\",\"minimum\":-3,\"maximum\":12}",
     {"-3", "-1", "-0", "0", "9", "10", "12"},
     {"-4", "13", "100", "1.5", "-30"}},
    {"{\"type\":\"integer\",\"exclusiveMinimum\":9,\"exclusiveMaximum\":101}",
     {"10", "99", "100"},
     {"9", "101", "1", "1000"}},
    {"{\"type\":\"number\",\"minimum\":0.5}",
     {"0.5", "0.50", "0.51", "1", "10", "99.25"},
     {"0.49", "0", "-1", "0.4999"}},
    {"{\"type\":\"number\",\"exclusiveMaximum\":-2.25}",
     {"-2.26", "-3", "-2.2500001", "-100"},
     {"-2.25", "-2.250", "-2", "0", "5"}},
    {"{\"type\":\"number\",\"minimum\":1,\"exclusiveMinimum\":true}",
     {"1.1", "2"},
     {"1", "1.0", "0"}},
    {"{\"minimum\":5}", {"5", "\"a\"", "null"}, {"4"}},
    {"{\"type\":\"number\",\"maximum\":1e3,\"minimum\":1e-3}",
     {"1000", "0.001", "1000.000"},
     {"1000.1", "0.0009"}},
    {"{\"type\":\"integer\",\"multipleOf\":7}", {"0", "7", "-14", "700"}, {"8", "1"}},
    {"{\"type\":\"number\",\"multipleOf\":0.25}",
     {"0.25", "1", "-1.75", "2.500"},
     {"0.3", "0.251"}},
    {"{\"type\":\"integer\",\"multipleOf\":1.5}", {"3", "0", "-6"}, {"1", "2"}},
    {"{\"type\":\"integer\",\"multipleOf\":1000}", {"1000", "0", "-23000"}, {"100", "1001"}},
    /* strings */
    {"{\"type\":\"string\",\"minLength\":2,\"maxLength\":3}",
     {"\"ab\"", "\"a\\n\\u00e9\"", "\"\xE4\xB8\x96\xE7\x95\x8C\"", "\"\\ud83d\\ude00a\""},
     {"\"a\"", "\"abcd\"", "\"\\ud83d\\ude00\""}},
    {"{\"type\":\"string\",\"maxLength\":0}", {"\"\""}, {"\"a\""}},
    {"{\"type\":\"string\",\"pattern\":\"^[a-c]+$\"}", {"\"abc\""}, {"\"abd\"", "\"\""}},
    {"{\"type\":\"string\",\"pattern\":\"b\"}", {"\"abc\"", "\"b\\n\""}, {"\"ac\"", "\"\""}},
    {"{\"type\":\"string\",\"pattern\":\"^[a-c]+$\",\"minLength\":2,\"maxLength\":3}",
     {"\"ab\"", "\"abc\""},
     {"\"a\"", "\"abca\""}},
    {"{\"pattern\":\"^a\",\"type\":[\"string\",\"integer\"]}", {"\"ab\"", "5"}, {"\"b\""}},
    {"{\"type\":\"string\",\"format\":\"date\"}",
     {"\"2024-02-29\"", "\"1999-12-31\""},
     {"\"2023-02-29\"", "\"1999-13-01\"", "\"0000-01-01\""}},
    {"{\"type\":\"string\",\"format\":\"time\"}",
     {"\"23:59:59Z\"", "\"12:00:00.5+01:00\""},
     {"\"24:00:00Z\"", "\"12:00\""}},
    {"{\"type\":\"string\",\"format\":\"date-time\"}",
     {"\"2024-01-01T12:00:00Z\""},
     {"\"2024-01-01\""}},
    {"{\"type\":\"string\",\"format\":\"duration\"}",
     {"\"P1Y2M3DT4H5M6S\"", "\"PT5M\"", "\"P2W\""},
     {"\"P\"", "\"PT\"", "\"1Y\""}},
    {"{\"type\":\"string\",\"format\":\"email\"}",
     {"\"a.b@c.com\""},
     {"\"a\"", "\"a@b\"", "\"@b.c\""}},
    {"{\"type\":\"string\",\"format\":\"hostname\"}", {"\"a-b.com\""}, {"\"-a\"", "\"a..b\""}},
    {"{\"type\":\"string\",\"format\":\"ipv4\"}",
     {"\"255.0.10.99\""},
     {"\"256.1.1.1\"", "\"1.2.3\"", "\"01.2.3.4\""}},
    {"{\"type\":\"string\",\"format\":\"ipv6\"}",
     {"\"::\"", "\"::1\"", "\"1:2:3:4:5:6:7:8\"", "\"a::b\""},
     {"\":\"", "\"1:2:3\"", "\"::1::\"", "\"12345::\""}},
    {"{\"type\":\"string\",\"format\":\"uuid\"}",
     {"\"01234567-89ab-CDEF-0123-456789abcdef\""},
     {"\"0123\""}},
    {"{\"type\":\"string\",\"format\":\"uri\"}",
     {"\"http://example.com/c?d=e#f\"", "\"mailto:x\""},
     {"\"a b\"", "\"://\""}},
    /* arrays */
    {"{\"type\":\"array\",\"items\":{\"type\":\"integer\"}}",
     {"[]", "[1]", "[1,2]", "[\n  1,\n  2\n]"},
     {"[\"a\"]", "[1,]", "[1.5]"}},
    {"{\"type\":\"array\",\"minItems\":2,\"maxItems\":3}",
     {"[1,2]", "[1,2,{}]"},
     {"[]", "[1]", "[1,2,3,4]"}},
    {"{\"type\":\"array\",\"maxItems\":0}", {"[]"}, {"[1]"}},
    {"{\"type\":\"array\",\"prefixItems\":[{\"type\":\"null\"},{\"const\":1}],\"items\":{\"type\":"
     "\"boolean\"}}",
     {"[]", "[null]", "[null,1]", "[null,1,true,false]"},
     {"[1]", "[null,1,1]", "[null,true]"}},
    {"{\"type\":\"array\",\"prefixItems\":[{\"type\":\"null\"},{\"const\":1}],\"items\":false,"
     "\"minItems\":1}",
     {"[null]", "[null,1]"},
     {"[]", "[null,1,1]"}},
    {"{\"type\":\"array\",\"items\":[{\"const\":1}],\"additionalItems\":{\"const\":2}}",
     {"[1,2,2]", "[]"},
     {"[2]", "[1,1]"}},
    {"{\"type\":\"array\",\"items\":{\"enum\":[\"a\",\"b\",1]},\"uniqueItems\":true,\"minItems\":"
     "1}",
     {"[\"a\"]", "[1, \"a\"]", "[\"b\",\"a\",1]"},
     {"[]", "[\"a\",\"a\"]", "[1,\"b\",1]"}},
    {"{\"type\":\"array\",\"items\":{\"type\":\"boolean\"},\"uniqueItems\":true,\"minItems\":2}",
     {"[true,false]", "[false,true]"},
     {"[true]", "[true,true]"}},
    {"{\"type\":\"array\",\"maxItems\":1,\"uniqueItems\":true}", {"[]", "[{}]"}, {"[1,2]"}},
    {"{\"type\":\"array\",\"items\":false}", {"[]"}, {"[1]"}},
    /* objects */
    {"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{\"type\":\"null\"}},"
     "\"required\":[\"a\"],"
     "\"additionalProperties\":false}",
     {"{\"a\":1}", "{\"a\": 1, \"b\": null}", "{\n  \"a\": 1\n}"},
     {"{}", "{\"b\":null}", "{\"a\":1,\"c\":1}", "{\"b\":null,\"a\":1}"}},
    {"{\"type\":\"object\",\"properties\":{\"a\":{},\"b\":{}}}",
     {"{}", "{\"a\":1}", "{\"b\":1}", "{\"a\":1,\"b\":2}", "{\"a\":1,\"x\":{}}",
      "{\"ab\":1,\"\":2}"},
     {"{\"x\":1,\"a\":1}", "{\"a\":1,}", "{,}"}},
    {"{\"type\":\"object\",\"additionalProperties\":{\"type\":\"integer\"}}",
     {"{}", "{\"x\":1,\"y\":2}"},
     {"{\"x\":\"1\"}"}},
    {"{\"type\":\"object\",\"required\":[\"z\",\"y\"]}",
     {"{\"z\":1,\"y\":2}", "{\"z\":1,\"y\":2,\"a\":3}"},
     {"{\"z\":1}", "{}"}},
    {"{\"type\":\"object\",\"properties\":{\"a\":false}}", {"{}", "{\"b\":1}"}, {"{\"a\":1}"}},
    {"{\"type\":\"object\",\"patternProperties\":{\"^a\":{\"type\":\"integer\"},\"b$\":{"
     "\"minimum\":5}},\"additionalProperties\":false}",
     {"{}", "{\"a\":1}", "{\"xb\":\"s\"}", "{\"ab\":7}"},
     {"{\"ab\":4}", "{\"a\":\"s\"}", "{\"x\":1}"}},
    {"{\"type\":\"object\",\"properties\":{\"ab\":{\"maximum\":9}},\"patternProperties\":{\"^a\":{"
     "\"type\":\"integer\"}}}",
     {"{\"ab\":9}", "{\"ab\":1,\"a\":10}"},
     {"{\"ab\":10}", "{\"ab\":1.5}"}},
    {"{\"type\":\"object\",\"propertyNames\":{\"pattern\":\"^[a-c]+$\"}}",
     {"{}", "{\"abc\":1}"},
     {"{\"x\":1}"}},
    {"{\"type\":\"object\",\"propertyNames\":{\"enum\":[\"a\"]},\"properties\":{\"b\":{}}}",
     {"{}", "{\"a\":1}"},
     {"{\"b\":1}"}},
    {"{\"type\":\"object\",\"minProperties\":1,\"maxProperties\":2}",
     {"{\"a\":1}", "{\"a\":1,\"b\":2}"},
     {"{}", "{\"a\":1,\"b\":2,\"c\":3}"}},
    {"{\"type\":\"object\",\"properties\":{\"a\":{},\"b\":{},\"c\":{}},\"additionalProperties\":"
     "false,\"minProperties\":2,\"maxProperties\":2}",
     {"{\"a\":1,\"b\":2}", "{\"a\":1,\"c\":2}", "{\"b\":1,\"c\":2}"},
     {"{\"a\":1}", "{\"a\":1,\"b\":2,\"c\":3}"}},
    {"{\"type\":\"object\",\"properties\":{\"q\\\"\\n\":{}},\"required\":[\"q\\\"\\n\"]}",
     {"{\"q\\\"\\n\":1}"},
     {"{}"}},
    /* combinations */
    {"{\"anyOf\":[{\"type\":\"integer\"},{\"type\":\"string\",\"maxLength\":1}]}",
     {"5", "\"a\""},
     {"\"ab\"", "null"}},
    {"{\"allOf\":[{\"type\":\"integer\"},{\"minimum\":3},{\"maximum\":5}]}",
     {"3", "5"},
     {"2", "6", "3.5"}},
    {"{\"allOf\":[{\"properties\":{\"a\":{\"minimum\":3}}},{\"properties\":{\"a\":{\"maximum\":5},"
     "\"b\":{\"const\":1}},\"required\":[\"a\"]}],\"type\":\"object\"}",
     {"{\"a\":4}", "{\"a\":3,\"b\":1}", "{\"a\":\"x\"}"},
     {"{\"a\":6}", "{\"b\":1}", "{\"a\":2}"}},
    {"{\"allOf\":[{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"integer\"}]},{\"anyOf\":[{\"type\":"
     "\"integer\"},{\"type\":\"null\"}]}]}",
     {"1"},
     {"\"a\"", "null"}},
    {"{\"allOf\":[{\"type\":\"array\",\"prefixItems\":[{\"type\":\"integer\"}]},{\"items\":{"
     "\"minimum\":2}}]}",
     {"[2]", "[3,\"x\"]"},
     {"[1]", "[\"x\"]", "[2,1]"}},
    {"{\"oneOf\":[{\"type\":\"number\"},{\"type\":\"integer\"}]}",
     {"1.5", "-0.25"},
     {"1", "1.0", "2.00"}},
    {"{\"oneOf\":[{\"pattern\":\"^a\"},{\"pattern\":\"b$\"}],\"type\":\"string\"}",
     {"\"a\"", "\"b\""},
     {"\"ab\"", "\"c\""}},
    {"{\"oneOf\":[{\"properties\":{\"k\":{\"const\":\"x\"}},\"required\":[\"k\"]},{\"properties\":{"
     "\"k\":{\"const\":\"y\"},\"n\":{\"type\":\"null\"}},"
     "\"required\":[\"k\",\"n\"]}],\"type\":\"object\"}",
     {"{\"k\":\"x\"}", "{\"k\":\"y\",\"n\":null}"},
     {"{\"k\":\"y\"}", "{\"k\":\"z\"}"}},
    {"{\"oneOf\":[{\"required\":[\"a\"]},{\"required\":[\"b\"]}],\"type\":\"object\"}",
     {"{\"a\":1}", "{\"b\":1}", "{\"a\":1,\"c\":1}"},
     {"{}", "{\"a\":1,\"b\":1}"}},
    {"{\"oneOf\":[{\"minItems\":3},{\"maxItems\":3}],\"type\":\"array\"}",
     {"[]", "[1,2]", "[1,2,3,4]"},
     {"[1,2,3]"}},
    {"{\"not\":{\"type\":[\"string\",\"object\",\"array\"]}}",
     {"1", "null", "true"},
     {"\"a\"", "{}", "[]"}},
    {"{\"type\":\"string\",\"not\":{\"enum\":[\"a\",\"b\"]}}",
     {"\"c\"", "\"\"", "\"ab\""},
     {"\"a\"", "\"b\""}},
    {"{\"type\":\"integer\",\"not\":{\"const\":5}}", {"4", "50", "-5"}, {"5"}},
    {"{\"type\":\"number\",\"not\":{\"const\":5}}", {"5.5", "4"}, {"5", "5.0", "5.00"}},
    {"{\"type\":\"object\",\"not\":{\"required\":[\"a\"]}}", {"{}", "{\"b\":1}"}, {"{\"a\":1}"}},
    {"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"}},\"not\":{\"properties\":{"
     "\"a\":{\"minimum\":5}},\"required\":[\"a\"]}}",
     {"{}", "{\"a\":4}"},
     {"{\"a\":5}"}},
    {"{\"type\":\"boolean\",\"not\":{\"const\":true}}", {"false"}, {"true"}},
    /* conditions */
    {"{\"type\":\"object\",\"dependentRequired\":{\"a\":[\"b\"]},\"properties\":{\"a\":{},\"b\":{}}"
     "}",
     {"{}", "{\"b\":1}", "{\"a\":1,\"b\":2}", "{\"c\":1}"},
     {"{\"a\":1}", "{\"a\":1,\"c\":1}"}},
    {"{\"dependentSchemas\":{\"a\":{\"properties\":{\"b\":{\"type\":\"null\"}}}},\"properties\":{"
     "\"a\":{},\"b\":{}}}",
     {"1", "{\"b\":1}", "{\"a\":1,\"b\":null}"},
     {"{\"a\":1,\"b\":1}"}},
    {"{\"type\":\"object\",\"dependencies\":{\"a\":[\"b\"],\"b\":{\"required\":[\"c\"]}},"
     "\"properties\":{\"a\":{},\"b\":{},\"c\":{}}}",
     {"{}", "{\"b\":1,\"c\":1}", "{\"a\":1,\"b\":1,\"c\":1}"},
     {"{\"a\":1}", "{\"b\":1}", "{\"a\":1,\"b\":1}"}},
    {"{\"type\":\"object\",\"properties\":{\"k\":{\"enum\":[\"x\",\"y\"]},\"n\":{\"type\":"
     "\"integer\"}},\"required\":[\"k\"],"
     "\"if\":{\"properties\":{\"k\":{\"const\":\"x\"}}},\"then\":{\"required\":[\"n\"]},\"else\":{"
     "\"properties\":{\"n\":false}}}",
     {"{\"k\":\"x\",\"n\":1}", "{\"k\":\"y\"}"},
     {"{\"k\":\"x\"}", "{\"k\":\"y\",\"n\":1}"}},
    {"{\"if\":{\"type\":\"string\"},\"then\":{\"maxLength\":2},\"else\":{\"minimum\":5}}",
     {"\"ab\"", "5", "null"},
     {"\"abc\"", "4"}},
    {"{\"then\":{\"type\":\"null\"},\"type\":\"integer\"}", {"1"}, {"null"}},
    /* references */
    {"{\"$ref\":\"#/$defs/a\",\"$defs\":{\"a\":{\"type\":\"integer\"}},\"minimum\":3}",
     {"3"},
     {"2"}},
    {"{\"$schema\":\"http://json-schema.org/draft-07/schema#\",\"$ref\":\"#/definitions/"
     "a\",\"definitions\":{\"a\":{\"type\":\"integer\"}},\"minimum\":3}",
     {"2"},
     {"\"a\""}},
    {"{\"$ref\":\"#/$defs/a~1b%25c~0\",\"$defs\":{\"a/b%c~\":{\"const\":1}}}", {"1"}, {"2"}},
    {"{\"$ref\":\"#x\",\"$defs\":{\"q\":{\"$anchor\":\"x\",\"const\":1}}}", {"1"}, {"2"}},
    {"{\"$id\":\"http://example.com/d/"
     "root\",\"$ref\":\"item\",\"$defs\":{\"q\":{\"$id\":\"item\",\"const\":1}}}",
     {"1"},
     {"2"}},
    {"{\"$id\":\"http://example.com/d/root\",\"items\":{\"$ref\":\"/o#/$defs/"
     "s\"},\"type\":\"array\",\"$defs\":{\"q\":{\"$id\":\"../"
     "o\",\"$defs\":{\"s\":{\"const\":1}}}}}",
     {"[1,1]"},
     {"[2]"}},
    {"{\"type\":\"object\",\"properties\":{\"next\":{\"$ref\":\"#\"}},\"additionalProperties\":"
     "false}",
     {"{}", "{\"next\":{\"next\":{}}}"},
     {"{\"next\":1}"}},
    {"{\"anyOf\":[{\"type\":\"null\"},{\"type\":\"array\",\"items\":{\"$ref\":\"#\"}}]}",
     {"null", "[[],[null,[]]]"},
     {"[1]"}},
    {"{\"anyOf\":[{\"$ref\":\"#\"},{\"type\":\"string\"}]}", {"\"a\""}, {"1"}},
    /* annotations and unknown keywords */
    {"{\"title\":\"t\",\"description\":\"d\",\"default\":1,\"examples\":[1],\"x-foo\":{},"
     "\"format\":\"zzz\",\"type\":\"string\"}",
     {"\"a\""},
     {"1"}},
};

/* The default: an object with `properties` has no other members, unless the schema allows them.
 */
static const keyword_case closed_cases[] = {
    {"{\"type\":\"object\",\"properties\":{\"a\":{}}}",
     {"{}", "{\"a\":1}"},
     {"{\"b\":1}", "{\"a\":1,\"b\":1}"}},
    {"{\"type\":\"object\",\"properties\":{}}", {"{}"}, {"{\"a\":1}"}},
    {"{\"type\":\"object\",\"properties\":{\"o\":{\"type\":\"object\",\"properties\":{\"x\":{}}},"
     "\"l\":{\"items\":{\"properties\":{\"x\":{}}}}}}",
     {"{\"o\":{\"x\":1},\"l\":[{\"x\":1},2]}"},
     {"{\"o\":{\"y\":1}}", "{\"l\":[{\"y\":1}]}"}},
    {"{\"type\":\"object\",\"properties\":{\"next\":{\"$ref\":\"#\"}}}",
     {"{\"next\":{\"next\":{}}}"},
     {"{\"next\":{\"x\":1}}"}},
    /* additionalProperties allows others */
    {"{\"type\":\"object\",\"properties\":{\"a\":{}},\"additionalProperties\":true}",
     {"{\"a\":1,\"b\":1}"},
     {"{\"a\":}"}},
    {"{\"type\":\"object\",\"properties\":{\"a\":{}},\"additionalProperties\":{}}",
     {"{\"b\":1}"},
     {"1"}},
    {"{\"type\":\"object\",\"properties\":{\"a\":{}},\"additionalProperties\":{\"type\":"
     "\"integer\"}}",
     {"{\"b\":1}"},
     {"{\"b\":\"x\"}"}},
    /* without `properties` nothing changes */
    {"{\"type\":\"object\"}", {"{\"b\":1}"}, {"1"}},
    {"{\"type\":\"object\",\"required\":[\"a\"]}", {"{\"a\":1,\"b\":1}"}, {"{\"b\":1}"}},
    {"{\"patternProperties\":{\"^p_\":{\"type\":\"integer\"}}}",
     {"{\"b\":null,\"p_x\":1}"},
     {"{\"p_x\":null}"}},
    {"{\"type\":\"object\",\"propertyNames\":{\"maxLength\":1}}",
     {"{\"a\":1,\"b\":1}"},
     {"{\"ab\":1}"}},
    {"{\"enum\":[{\"k\":1}]}", {"{\"k\":1}"}, {"{}"}},
    /* names that a pattern or `required` declares */
    {"{\"properties\":{\"a\":{}},\"patternProperties\":{\"^p_\":{\"type\":\"integer\"}}}",
     {"{\"a\":1,\"p_x\":2}", "3"},
     {"{\"b\":1}", "{\"p_x\":\"s\"}"}},
    {"{\"type\":\"object\",\"properties\":{\"a\":{}},\"required\":[\"b\"]}",
     {"{\"b\":1}", "{\"a\":1,\"b\":1}"},
     {"{\"a\":1}", "{\"b\":1,\"c\":1}"}},
    /* more members than are listed */
    {"{\"type\":\"object\",\"properties\":{\"a\":{}},\"minProperties\":2}",
     {"{\"a\":1,\"b\":1}", "{\"a\":1,\"b\":1,\"c\":1}"},
     {"{\"a\":1}"}},
    {"{\"type\":\"object\",\"properties\":{\"a\":{},\"b\":false},\"minProperties\":2}",
     {"{\"a\":1,\"c\":1}"},
     {"{\"a\":1}", "{\"a\":1,\"b\":1}"}},
    /* all schemas of an object together */
    {"{\"allOf\":[{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"}}},{"
     "\"properties\":{\"b\":{\"type\":\"null\"}},\"required\":[\"b\"]}]}",
     {"{\"b\":null}", "{\"a\":1,\"b\":null}"},
     {"{\"a\":1}", "{\"a\":1,\"b\":null,\"c\":1}"}},
    {"{\"type\":\"object\",\"$ref\":\"#/$defs/"
     "base\",\"properties\":{\"b\":{}},\"$defs\":{\"base\":{\"properties\":{\"a\":{}},\"allOf\":[{"
     "\"properties\":{\"z\":{}}}]}}}",
     {"{\"a\":1,\"z\":2,\"b\":3}"},
     {"{\"c\":1}"}},
    {"{\"allOf\":[{\"type\":\"object\",\"properties\":{\"a\":{}},\"additionalProperties\":true},{"
     "\"properties\":{\"b\":{}}}]}",
     {"{\"a\":1,\"b\":1,\"c\":1}"},
     {"1"}},
    {"{\"allOf\":[{\"type\":\"object\",\"properties\":{\"a\":{}}},{\"patternProperties\":{\"^p_\":{"
     "\"type\":\"integer\"}}}]}",
     {"{\"a\":1,\"p_x\":1}"},
     {"{\"b\":1}", "{\"p_x\":null}"}},
    {"{\"type\":\"object\",\"properties\":{\"k\":{}},\"anyOf\":[{\"properties\":{\"a\":{}},"
     "\"required\":[\"a\"]},{\"properties\":{\"b\":{}},\"required\":[\"b\"]}]}",
     {"{\"k\":1,\"a\":1}", "{\"b\":1}"},
     {"{\"k\":1}", "{\"k\":1,\"a\":1,\"b\":1}", "{\"a\":1,\"c\":1}"}},
    {"{\"oneOf\":[{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"}},\"required\":["
     "\"a\"]},{\"type\":\"object\",\"properties\":{\"b\":{\"type\":\"integer\"}},\"required\":["
     "\"b\"]}]}",
     {"{\"a\":1}", "{\"b\":1}"},
     {"{\"a\":1,\"b\":1}", "{\"a\":1,\"b\":\"x\"}", "{}"}},
    {"{\"oneOf\":[{\"type\":\"object\",\"properties\":{\"a\":{}},\"required\":[\"a\"],"
     "\"maxProperties\":1},{\"type\":\"object\",\"properties\":{\"b\":{}},\"required\":[\"b\"],"
     "\"propertyNames\":{\"maxLength\":3}}]}",
     {"{\"a\":1}", "{\"b\":1}"},
     {"{\"a\":1,\"b\":1}"}},
    {"{\"type\":\"object\",\"properties\":{\"k\":{\"enum\":[\"x\",\"y\"]}},\"required\":[\"k\"],"
     "\"if\":{\"properties\":{\"k\":{\"const\":\"x\"}}},\"then\":{\"properties\":{\"n\":{\"type\":"
     "\"integer\"}},\"required\":[\"n\"]}}",
     {"{\"k\":\"x\",\"n\":1}", "{\"k\":\"y\"}"},
     {"{\"k\":\"x\"}", "{\"k\":\"y\",\"n\":1}", "{\"k\":\"x\",\"n\":1,\"z\":1}"}},
    {"{\"type\":\"object\",\"properties\":{\"a\":{}},\"dependentSchemas\":{\"a\":{\"properties\":{"
     "\"b\":{}}}}}",
     {"{}", "{\"a\":1}", "{\"a\":1,\"b\":1}"},
     {"{\"b\":1}"}},
    {"{\"type\":\"object\",\"properties\":{\"a\":{}},\"not\":{\"required\":[\"b\"]}}",
     {"{\"a\":1}"},
     {"{\"b\":1}", "{\"c\":1}"}},
    {"{\"type\":\"object\",\"properties\":{\"a\":{}},\"not\":{\"properties\":{\"b\":{\"type\":"
     "\"string\"}}}}",
     {"{\"a\":1,\"b\":2}"},
     {"{\"a\":1}", "{\"b\":\"s\"}", "{\"b\":1,\"c\":1}"}},
};

static grammar *compiled(const char *schema, bool open)
{
    grammar *g;
    mote_error err;
    const schema_options options = {.open_objects = open};
    if (grammar_of_schema(&g, rig_vocab(), str_of(schema), &options, &err) != MOTE_OK)
        fail_msg("%s: %s", schema, err.text);
    return g;
}

static void check_case(const keyword_case *x, bool open)
{
    grammar *g = compiled(x->schema, open);
    for (size_t k = 0; k < TEXTS && x->taken[k] != NULL; k++) {
        if (!rig_fits(g, x->taken[k]))
            fail_msg("%s refuses %s", x->schema, x->taken[k]);
        rig_check_masks(g, str_of(x->taken[k]), k);
    }
    for (size_t k = 0; k < TEXTS && x->refused[k] != NULL; k++)
        if (rig_fits(g, x->refused[k]))
            fail_msg("%s takes %s", x->schema, x->refused[k]);
    grammar_free(g);
}

static void test_keywords(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_case(&cases[i], true);
}

static void test_closed_objects(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof closed_cases / sizeof *closed_cases; i++)
        check_case(&closed_cases[i], false);
}

/* A schema with alternatives that stay possible together for many characters. */
static void test_many_alternatives(void **state)
{
    (void)state;
    char *schema = malloc(200000), *at = schema;
    assert_non_null(schema);
    at += sprintf(at, "{\"anyOf\":[");
    for (int i = 0; i < 150; i++)
        at += sprintf(at,
                      "%s{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\"},\"n\":"
                      "{\"const\":%d}},"
                      "\"required\":[\"name\",\"n\"]}",
                      i > 0 ? "," : "", i);
    sprintf(at, "]}");
    grammar *g = compiled(schema, false);
    assert_true(rig_fits(g, "{\"name\":\"foobar\",\"n\":149}"));
    assert_false(rig_fits(g, "{\"name\":\"foobar\",\"n\":150}"));
    rig_check_masks(g, str_of("{\"name\": \"foo\", \"n\": 77}"), 5);
    grammar_free(g);
    free(schema);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keywords),
        cmocka_unit_test(test_closed_objects),
        cmocka_unit_test(test_many_alternatives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
