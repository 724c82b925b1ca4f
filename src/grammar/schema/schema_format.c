/* SPDX-License-Identifier: Apache-2.0 */
/*
 * schema_format.c - formats as patterns.
 *
 * Each describes texts that satisfy the format, though not always all of them:
 * no leap seconds, no quoted local parts, no internationalised names. The length of
 * a host's parts, at most 63, is left to the model: nobody writes longer ones, and
 * counting them would make every mask a new one.
 */
#include "grammar/schema/schema_int.h"

#define YEAR "(?:[1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])"
#define LEAP_YEAR                                                                                  \
    "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)"
#define DATE                                                                                       \
    "(?:" YEAR "-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])"                                 \
    "|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))|" LEAP_YEAR "-02-29)"
#define TIME                                                                                       \
    "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,9})?"                                 \
    "(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
#define LABEL       "[A-Za-z0-9]+(?:-+[A-Za-z0-9]+)*"
#define HOST        LABEL "(?:\\." LABEL ")*"
#define LOCAL       "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]"
#define BYTE_NUMBER "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
#define IPV4        "(?:" BYTE_NUMBER "\\.){3}" BYTE_NUMBER
#define HEX4        "[0-9A-Fa-f]{1,4}"
#define IPV6                                                                                       \
    "(?:(?:" HEX4 ":){7}" HEX4 "|(?:" HEX4 ":){1,7}:|(?:" HEX4 ":){1,6}:" HEX4 "|(?:" HEX4         \
    ":){1,5}(?::" HEX4 "){1,2}|(?:" HEX4 ":){1,4}(?::" HEX4 "){1,3}|(?:" HEX4 ":){1,3}(?::" HEX4   \
    "){1,4}|(?:" HEX4 ":){1,2}(?::" HEX4 "){1,5}|" HEX4 ":(?::" HEX4 "){1,6}|:(?::" HEX4           \
    "){1,7}|::)"
#define PCHAR     "(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})"
#define AUTHORITY "(?:[A-Za-z0-9._~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})+(?::[0-9]{1,5})?"
#define URI                                                                                        \
    "[A-Za-z][A-Za-z0-9+.-]{0,30}:(?://" AUTHORITY "(?:/" PCHAR "*)*|/?" PCHAR "+(?:/" PCHAR       \
    "*)*)"                                                                                         \
    "(?:\\?(?:" PCHAR "|[/?])*)?(?:#(?:" PCHAR "|[/?])*)?"
#define DURATION_TIME "T(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S)"
#define DURATION_DATE "(?:[0-9]+Y(?:[0-9]+M(?:[0-9]+D)?)?|[0-9]+M(?:[0-9]+D)?|[0-9]+D)"

static const struct {
    const char *name, *pattern;
} formats[] = {
    {"date", "^" DATE "$"},
    {"time", "^" TIME "$"},
    {"date-time", "^" DATE "T" TIME "$"},
    {"duration", "^P(?:" DURATION_DATE "(?:" DURATION_TIME ")?|" DURATION_TIME "|[0-9]+W)$"},
    {"email", "^" LOCAL "+(?:\\." LOCAL "+)*@" LABEL "(?:\\." LABEL ")+$"},
    {"hostname", "^" HOST "$"},
    {"ipv4", "^" IPV4 "$"},
    {"ipv6", "^" IPV6 "$"},
    {"uri", "^" URI "$"},
    {"uuid", "^[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}$"},
    {"json-pointer", "^(?:/(?:[^~/]|~[01])*)*$"},
    {"relative-json-pointer", "^(?:0|[1-9][0-9]{0,9})(?:#|(?:/(?:[^~/]|~[01])*)*)$"},
};

const char *schema_format_pattern(str format)
{
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (str_is(format, formats[i].name))
            return formats[i].pattern;
    return NULL;
}
