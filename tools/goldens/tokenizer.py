#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the golden data of the Qwen 3.5 tokenizer.

    tokenizer.py --tokenizer DIR [--out DIR]

DIR contains tokenizer.json. The output directory is DIR/golden unless --out is
given:

    cases.jsonl              text -> ids, one JSON object per line
    decode.jsonl             ids -> bytes
    all_tokens_digest.json   one hash over the bytes of every id
    unicode_differences.txt  where Unicode tables of other libraries differ
                             from the tables the reference uses

The ids come from the Hugging Face `tokenizers` library. Needs python3 (made
with 3.11) and `tokenizers` (made with 0.23.3: Oniguruma classes of Unicode
16.0, NFC of Unicode 9.0). libutf8proc.so.2 (Debian: libutf8proc2) is used for
one section of unicode_differences.txt if installed.

The random seed is fixed, so the same versions write the same files. Another
`tokenizers` version may have other Unicode tables and differ in cases with code
points newer than Unicode 9.0.

Fields of cases.jsonl: name; text (JSON string, ASCII only, never a lone
surrogate); special: true = the 33 added tokens are matched in the text,
false = the whole text is plain text; ids.
Fields of decode.jsonl: name; ids; hex = concatenated bytes of all tokens, added
tokens as text; hex_skip = the same without tokens with "special": true (tool
and think tags, fim and repo tokens stay). Bytes can end inside a UTF-8
character.
"""
import argparse
import ctypes
import hashlib
import json
import os
import random
import sys
import unicodedata

from tokenizers import Regex, Tokenizer, normalizers, pre_tokenizers

SEED = 20260214

# First and last code point of every Unicode block.
BLOCKS = """
0-7F 80-FF 100-17F 180-24F 250-2AF 2B0-2FF 300-36F 370-3FF 400-4FF 500-52F 530-58F 590-5FF
600-6FF 700-74F 750-77F 780-7BF 7C0-7FF 800-83F 840-85F 860-86F 870-89F 8A0-8FF 900-97F 980-9FF
A00-A7F A80-AFF B00-B7F B80-BFF C00-C7F C80-CFF D00-D7F D80-DFF E00-E7F E80-EFF F00-FFF
1000-109F 10A0-10FF 1100-11FF 1200-137F 1380-139F 13A0-13FF 1400-167F 1680-169F 16A0-16FF
1700-171F 1720-173F 1740-175F 1760-177F 1780-17FF 1800-18AF 18B0-18FF 1900-194F 1950-197F
1980-19DF 19E0-19FF 1A00-1A1F 1A20-1AAF 1AB0-1AFF 1B00-1B7F 1B80-1BBF 1BC0-1BFF 1C00-1C4F
1C50-1C7F 1C80-1C8F 1C90-1CBF 1CC0-1CCF 1CD0-1CFF 1D00-1D7F 1D80-1DBF 1DC0-1DFF 1E00-1EFF
1F00-1FFF 2000-206F 2070-209F 20A0-20CF 20D0-20FF 2100-214F 2150-218F 2190-21FF 2200-22FF
2300-23FF 2400-243F 2440-245F 2460-24FF 2500-257F 2580-259F 25A0-25FF 2600-26FF 2700-27BF
27C0-27EF 27F0-27FF 2800-28FF 2900-297F 2980-29FF 2A00-2AFF 2B00-2BFF 2C00-2C5F 2C60-2C7F
2C80-2CFF 2D00-2D2F 2D30-2D7F 2D80-2DDF 2DE0-2DFF 2E00-2E7F 2E80-2EFF 2F00-2FDF 2FF0-2FFF
3000-303F 3040-309F 30A0-30FF 3100-312F 3130-318F 3190-319F 31A0-31BF 31C0-31EF 31F0-31FF
3200-32FF 3300-33FF 3400-4DBF 4DC0-4DFF 4E00-9FFF A000-A48F A490-A4CF A4D0-A4FF A500-A63F
A640-A69F A6A0-A6FF A700-A71F A720-A7FF A800-A82F A830-A83F A840-A87F A880-A8DF A8E0-A8FF
A900-A92F A930-A95F A960-A97F A980-A9DF A9E0-A9FF AA00-AA5F AA60-AA7F AA80-AADF AAE0-AAFF
AB00-AB2F AB30-AB6F AB70-ABBF ABC0-ABFF AC00-D7AF D7B0-D7FF E000-F8FF F900-FAFF FB00-FB4F
FB50-FDFF FE00-FE0F FE10-FE1F FE20-FE2F FE30-FE4F FE50-FE6F FE70-FEFF FF00-FFEF FFF0-FFFF
10000-1007F 10080-100FF 10100-1013F 10140-1018F 10190-101CF 101D0-101FF 10280-1029F 102A0-102DF
102E0-102FF 10300-1032F 10330-1034F 10350-1037F 10380-1039F 103A0-103DF 10400-1044F 10450-1047F
10480-104AF 104B0-104FF 10500-1052F 10530-1056F 10570-105BF 105C0-105FF 10600-1077F 10780-107BF
10800-1083F 10840-1085F 10860-1087F 10880-108AF 108E0-108FF 10900-1091F 10920-1093F 10940-1095F
10980-1099F 109A0-109FF 10A00-10A5F 10A60-10A7F 10A80-10A9F 10AC0-10AFF 10B00-10B3F 10B40-10B5F
10B60-10B7F 10B80-10BAF 10C00-10C4F 10C80-10CFF 10D00-10D3F 10D40-10D8F 10E60-10E7F 10E80-10EBF
10EC0-10EFF 10F00-10F2F 10F30-10F6F 10F70-10FAF 10FB0-10FDF 10FE0-10FFF 11000-1107F 11080-110CF
110D0-110FF 11100-1114F 11150-1117F 11180-111DF 111E0-111FF 11200-1124F 11280-112AF 112B0-112FF
11300-1137F 11380-113FF 11400-1147F 11480-114DF 11580-115FF 11600-1165F 11660-1167F 11680-116CF
116D0-116FF 11700-1174F 11800-1184F 118A0-118FF 11900-1195F 119A0-119FF 11A00-11A4F 11A50-11AAF
11AB0-11ABF 11AC0-11AFF 11B00-11B5F 11B60-11B7F 11BC0-11BFF 11C00-11C6F 11C70-11CBF 11D00-11D5F
11D60-11DAF 11DB0-11DEF 11DF0-11DFF 11EE0-11EFF 11F00-11F5F 11FB0-11FBF 11FC0-11FFF 12000-123FF
12400-1247F 12480-1254F 12550-1268F 12F90-12FFF 13000-1342F 13430-1345F 13460-143FF 14400-1467F
16100-1613F 16800-16A3F 16A40-16A6F 16A70-16ACF 16AD0-16AFF 16B00-16B8F 16D40-16D7F 16E40-16E9F
16EA0-16EDF 16F00-16F9F 16FE0-16FFF 17000-187FF 18800-18AFF 18B00-18CFF 18D00-18D7F 18D80-18DFF
18E00-1919F 191A0-191DF 1AFF0-1AFFF 1B000-1B0FF 1B100-1B12F 1B130-1B16F 1B170-1B2FF 1BC00-1BC9F
1BCA0-1BCAF 1CC00-1CEBF 1CEC0-1CEFF 1CF00-1CFCF 1D000-1D0FF 1D100-1D1FF 1D200-1D24F 1D250-1D28F
1D2C0-1D2DF 1D2E0-1D2FF 1D300-1D35F 1D360-1D37F 1D400-1D7FF 1D800-1DAAF 1DB00-1DBFF 1DF00-1DFFF
1E000-1E02F 1E030-1E08F 1E100-1E14F 1E290-1E2BF 1E2C0-1E2FF 1E4D0-1E4FF 1E5D0-1E5FF 1E6C0-1E6FF
1E7E0-1E7FF 1E800-1E8DF 1E900-1E95F 1EC70-1ECBF 1ED00-1ED4F 1EE00-1EEFF 1F000-1F02F 1F030-1F09F
1F0A0-1F0FF 1F100-1F1FF 1F200-1F2FF 1F300-1F5FF 1F600-1F64F 1F650-1F67F 1F680-1F6FF 1F700-1F77F
1F780-1F7FF 1F800-1F8FF 1F900-1F9FF 1FA00-1FA6F 1FA70-1FAFF 1FB00-1FBFF 20000-2A6DF 2A700-2B73F
2B740-2B81F 2B820-2CEAF 2CEB0-2EBEF 2EBF0-2EE5F 2F800-2FA1F 30000-3134F 31350-323AF 323B0-3347F
3D000-3FC3F E0000-E007F E0100-E01EF F0000-FFFFF 100000-10FFFF
"""

# Code points of every general category (names of Unicode 14.0).
CATEGORIES = {
    "Cc": "9 C D E 11 17 19 1A 7F 80 86 87 8B 9B",
    "Cf": "602 605 61C 200C 202C 13434 E0020 E0027 E003C E0047 E0050 E0063 E006A E007C",
    "Cn": "3777F 3AD2A 6332F 699EA 87298 89E0E 91D2B 948BF A19F6 ABAB5 AF573 C46C8 D3933 EB39E",
    "Co": "E207 F04D2 F1AE0 F1B6A F2536 F2C4F F5C2E F7AAC 1041C1 106AEC 108253 10E65E 10EAD5 10F6DB",
    "Ll": "71 15B 3B3 567 574 1F32 2CC7 A79D AB94 10CE2 1D65C 1D699 1E926 1E93E",
    "Lm": "2BE 2E2 6E5 1C79 1D30 1D36 1D6A 1D9F 1DB1 2090 A4FA A69C 1078E 16F93",
    "Lo": "1BBB 59EC 864C CD08 D61B FF86 176BE 188C7 211F6 24177 290DA 2AEE7 2B046 2E336",
    "Lt": "1C5 1F2 1F89 1F8E 1F99 1F9B 1F9D 1F9E 1F9F 1FA9 1FAC 1FAD 1FAE 1FCC",
    "Lu": "244 376 3AB 4D2 510 1F5F 2C2F A660 A7C2 1D46B 1D475 1D63D 1D6F1 1D792",
    "Mc": "D48 DD1 1056 17C5 1B35 A8BD AA30 111BF 11631 1163C 11D93 11EF6 16F5E 16F7D",
    "Me": "488 489 1ABE 20DD 20DE 20DF 20E0 20E2 20E3 20E4 A670 A671 A672",
    "Mn": "328 35C 593 7AF 93C 952 AC4 1B3C 1DDD 1DFB 1103D 1CF32 1D167 1DA5C",
    "Nd": "663 7C9 A6B AEC E56 1043 1096 19D8 FF10 11137 111D8 11735 1D7DF 1E2F5",
    "Nl": "16F0 2167 2171 10145 1014B 10167 1240F 12411 12419 1241A 1241F 12438 1243E 12466",
    "No": "2087 324B 1010B 10118 1011F 10917 109CE 109FA 10CFC 10E63 1173A 1D378 1ECAF 1F103",
    "Pc": "5F 203F 2040 2054 FE33 FE34 FE4D FE4E FE4F FF3F",
    "Pd": "58A 5BE 1400 1806 2010 2E1A 2E3A 2E3B 301C FE31 FE32 FE63 FF0D 10EAD",
    "Pe": "7D 207E 230B 232A 2771 27EB 2986 2994 2E23 3009 301B FD3E FE42 FE5A",
    "Pf": "BB 2019 201D 203A 2E03 2E05 2E0A 2E0D 2E1D 2E21",
    "Pi": "AB 2018 201B 201C 201F 2039 2E02 2E04 2E09 2E0C 2E1C 2E20",
    "Po": "21 2A 701 1BFC 1CC2 2058 2E14 A874 AA5C 10101 10B3B 11175 11666 16B44",
    "Ps": "7B 2768 276E 2774 27EA 2E26 2E28 2E42 2E55 3018 301D FD3F FE37 FF08",
    "Sc": "A2 A3 A4 AF1 17DB 20B6 20BB 20BE 20C0 A838 FE69 FF04 FFE1 1E2FF",
    "Sk": "2C5 2D8 2DB 2DC 2DF 2F1 2F2 2F4 2F9 1FBF 1FC0 A70D FBB2 FBBE",
    "Sm": "2140 2206 2221 2272 2275 22C9 22F8 27D9 29AF 29E7 29F9 2A32 2A95 2AC8",
    "So": "2388 2895 32A1 33E8 10184 1CF51 1F085 1F217 1F5DD 1F6BD 1F719 1F7AF 1F830 1FB62",
    "Zl": "2028",
    "Zp": "2029",
    "Zs": "A0 1680 2000 2002 2004 2005 2006 2007 2008 2009 200A 202F 205F 3000",
}

LANGUAGES = {
    "af": "Die ou boot lê stil in die hawe; môre gaan ons weer see toe.",
    "am": "ዛሬ ጠዋት ዝናብ ዘነበ፣ ከሰዓት በኋላ ግን ፀሐይ ወጣች።",
    "ar": "وصل القطار متأخرًا عشر دقائق، لكنّ القهوة كانت لا تزال ساخنة.",
    "as": "আজি ৰাতিপুৱা নৈৰ পানী বৰ শান্ত আছিল।",
    "az": "Köhnə şəhərdə hər küçənin öz hekayəsi var.",
    "be": "Учора мы доўга гулялі ля возера і елі яблыкі.",
    "bg": "Котката спи върху книгата, която още не съм прочел.",
    "bn": "নদীর ধারে বসে আমরা চা খেলাম আর গল্প করলাম।",
    "bo": "དེ་རིང་གནམ་གཤིས་ཡག་པོ་འདུག",
    "br": "Brav eo an amzer hiziv, deomp da bourmen.",
    "bs": "Juče je padala kiša, a danas sija sunce iznad grada.",
    "ca": "L'àvia guarda les fotografies velles en una capsa de llauna.",
    "ceb": "Nindot ang adlaw karon, mamasol ta sa dagat.",
    "chr": "ᎣᏏᏲ, ᏙᎯᏧ? ᏩᏙ.",
    "cs": "Příliš tichý vlak přijel přesně v 7:45 na třetí kolej.",
    "cy": "Mae'r gath wedi dringo i ben y wal unwaith eto.",
    "da": "Ærøs færge sejler klokken otte, hvis blæsten lægger sig.",
    "de": "Die Straßenbahn fährt heute nur bis zum Großmarkt; für den Rest läuft man.",
    "dv": "މިއަދު ރާޅުގަދަ ނުވޭ.",
    "el": "Το καράβι φεύγει στις έξι, ας μη χάσουμε την ώρα μας.",
    "en": "The quick repair took longer than we'd planned, but it'll hold; they've promised.",
    "eo": "Ĉiu ĵaŭde ni manĝas freŝan panon kun ŝafa fromaĝo.",
    "es": "¿Dónde dejaste las llaves? El niño las escondió detrás del pingüino.",
    "et": "Õhtul istusime järve ääres ja kuulasime öö hääli.",
    "eu": "Gaur goizean euria hasi du eta etxera itzuli gara.",
    "fa": "دیروز در باغ زیر درخت انار نشستیم و چای نوشیدیم؛ می\u200cخواهیم فردا هم برویم.",
    "fi": "Yöllä satoi lunta, ja aamulla pihalla oli hiljaista.",
    "fo": "Í dag er veðrið gott, og bátarnir sigla út.",
    "fr": "L'été dernier, nous avons bu un café à côté de la forêt : c'était génial !",
    "fy": "De âlde mûne draait noch altyd as de wyn út it westen komt.",
    "ga": "Tá an bháisteach ag titim arís, mar is gnách.",
    "gd": "Tha an taigh beag ri taobh na h-aibhne.",
    "gl": "A choiva cae amodo sobre o tellado de lousa.",
    "gu": "આજે સવારે બજારમાં તાજી કેરી મળી.",
    "ha": "Yau da safe na ga tsuntsu mai launi uku a kan bishiya.",
    "haw": "ʻO ka lā ʻekolu o ka pule, hele mākou i kahakai.",
    "he": "הרכבת מאחרת שוב, אבל הספר טוב והקפה חם.",
    "hi": "आज सुबह बाज़ार में आम सस्ते थे, इसलिए हमने दो किलो ख़रीदे।",
    "hr": "Žurno smo prešli most jer je počela oluja s grmljavinom.",
    "ht": "Jodi a lapli tonbe, men timoun yo ap jwe kanmenm.",
    "hu": "Az őszi erdőben árvíztűrő tükörfúrógépről álmodtam.",
    "hy": "Այսօր եղանակը լավ է, եկեք գնանք լեռները։",
    "id": "Kereta terlambat sepuluh menit, tetapi kopinya masih hangat.",
    "ig": "Taa ụtụtụ, anyị gara ahịa zụta ji na akwụkwọ nri.",
    "is": "Það rigndi í gær en þó fórum við upp á fjallið.",
    "it": "Perché il gatto è salito sul tetto? Chissà, forse cercava un po' di sole.",
    "iu": "ᐅᓪᓗᒥ ᓯᓚ ᐱᐅᔪᖅ.",
    "ja": "今朝は電車が十分遅れたが、コーヒーはまだ温かかった。ｶﾀｶﾅも試す。",
    "jv": "Dina iki udan deres, nanging pasar tetep rame.",
    "ka": "დღეს ბაზარში ახალი ხილი იყო და ბევრი ხალხი.",
    "kk": "Бүгін таңертең тауға қар жауды, бірақ күн жылы.",
    "km": "ថ្ងៃនេះអាកាសធាតុល្អណាស់ យើងទៅដើរលេង។",
    "kn": "ಇಂದು ಬೆಳಿಗ್ಗೆ ಮಳೆ ಬಂತು, ಆದರೆ ಸಂಜೆ ಬಿಸಿಲು.",
    "ko": "오늘 아침에는 기차가 십 분 늦었지만 커피는 아직 따뜻했다.",
    "ku": "Îro baran bariya, lê êvarê roj derket.",
    "ky": "Бүгүн эртең менен тоого кар жаады.",
    "la": "Heri in horto sub arbore sedebamus et de amicis narrabamus.",
    "lb": "Haut de Moien huet et gereent, awer elo ass d'Sonn do.",
    "lo": "ມື້ນີ້ອາກາດດີ ພວກເຮົາໄປຕະຫຼາດ.",
    "lt": "Šįryt ežeras buvo ramus, o žuvys šokinėjo į orą.",
    "lv": "Šorīt ezerā peldēja gulbji, un gaiss bija ļoti dzidrs.",
    "mg": "Avy ny orana androany, fa mafana ihany ny andro.",
    "mi": "He rā pai tēnei mō te haere ki te tāhuna.",
    "mk": "Вчера ѓаконот и ќерка му појдоа на пазар.",
    "ml": "ഇന്ന് രാവിലെ മഴ പെയ്തു, വൈകുന്നേരം വെയിൽ വന്നു.",
    "mn": "Өнөөдөр өглөө уулан дээр цас орлоо.",
    "mr": "आज सकाळी बाजारात ताजी फळे मिळाली.",
    "ms": "Hujan turun lebat pagi tadi, jadi kami minum teh di rumah.",
    "mt": "Illum ħarġet ix-xemx u l-baħar kien kalm ħafna.",
    "my": "ဒီနေ့ ရာသီဥတု ကောင်းတယ်၊ ဈေးသွားကြမယ်။",
    "nb": "Båten går klokka åtte hvis ikke vinden øker på.",
    "ne": "आज बिहान हिमाल प्रस्टै देखियो।",
    "nl": "De fiets staat 's avonds altijd naast het café van mijn zus.",
    "nqo": "ߌ ߣߌ߫ ߛߐ߰ߡߊ߫ ߸ ߌ ߞߊ߬ ߞߍߣߍ߫؟",
    "or": "ଆଜି ସକାଳେ ବଜାରରେ ନୂଆ ଫଳ ମିଳିଲା।",
    "pa": "ਅੱਜ ਸਵੇਰੇ ਮੀਂਹ ਪਿਆ, ਪਰ ਸ਼ਾਮ ਨੂੰ ਧੁੱਪ ਨਿਕਲੀ।",
    "pl": "Wczoraj wieczorem żółw wyszedł z ogródka i źdźbło trawy go zatrzymało.",
    "ps": "نن سهار باران وشو، خو ماسپښین لمر راووت.",
    "pt": "Amanhã não vou à praia; a maré está alta e o avô quer pão.",
    "qu": "Kunan p'unchaw intiqa sumaqta k'ancharimun.",
    "ro": "Îl așteptăm pe frate în gară, fiindcă țăranul n-a mai găsit loc.",
    "ru": "Вчера вечером поезд опоздал на десять минут, но чай ещё был горячий.",
    "sa": "अद्य प्रभाते नद्याः तीरे शान्तिः आसीत्।",
    "sd": "اڄ صبح جو مينهن پيو، پر شام جو سج نڪتو.",
    "si": "අද උදේ වැස්ස වැස්සා, නමුත් හවස අව්ව පෑව්වා.",
    "sk": "Včera večer kôň prišiel až k dverám a ticho čakal.",
    "sl": "Zjutraj je padal dež, zvečer pa je šumela reka.",
    "sm": "O le aso lelei lenei e alu ai i le sami.",
    "sn": "Nhasi mangwanani kwanaya mvura, asi manheru kwakachena.",
    "so": "Saaka roob ayaa da'ay, laakiin galabtii cadceeddu way soo baxday.",
    "sq": "Sot në mëngjes ra shi, por pasdite doli dielli.",
    "sr": "Јуче је падала киша, а данас ђак учи поред прозора.",
    "st": "Kajeno hoseng pula e nele, empa mantsiboea ho chesa.",
    "su": "Isuk-isuk hujan, tapi pasar tetep rame ku jalma.",
    "sv": "Båten går klockan åtta om inte vinden ökar; ta med smörgås.",
    "sw": "Leo asubuhi mvua ilinyesha, lakini jioni jua lilitoka.",
    "syr": "ܝܘܡܢܐ ܫܦܝܪ ܗܘ.",
    "ta": "இன்று காலை மழை பெய்தது, ஆனால் மாலையில் வெயில் வந்தது.",
    "te": "ఈ ఉదయం వాన కురిసింది, సాయంత్రం ఎండ వచ్చింది.",
    "tg": "Имрӯз субҳ борон борид, аммо бегоҳ офтоб баромад.",
    "th": "เช้านี้ฝนตก แต่ตอนเย็นแดดออก เราจึงไปเดินเล่นริมแม่น้ำ",
    "ti": "ሎሚ ንግሆ ዝናብ ዘኒቡ፡ ድሕሪ ቀትሪ ግን ጸሓይ በሪቓ።",
    "tk": "Şu gün irden ýagyş ýagdy, ýöne agşam gün çykdy.",
    "tl": "Umulan kaninang umaga, pero maaliwalas na ngayong hapon.",
    "tr": "Bugün hava çok güzeldi; İstanbul'da ığdır ağacının altında çay içtik.",
    "tt": "Бүген иртә белән яңгыр яуды, ә кич кояш чыкты.",
    "ug": "بۈگۈن ئەتىگەن يامغۇر ياغدى، لېكىن كەچتە كۈن چىقتى.",
    "uk": "Учора ввечері потяг спізнився, але ґречна їжа ще була гаряча; п'ять яблук.",
    "ur": "آج صبح بارش ہوئی، مگر شام کو دھوپ نکل آئی۔",
    "uz": "Bugun ertalab yomg'ir yog'di, lekin kechqurun quyosh chiqdi.",
    "vi": "Sáng nay trời mưa to, nhưng buổi chiều nắng đẹp nên chúng tôi đi dạo ở phố cổ.",
    "wo": "Tey taw na ci suba, waaye jant bi génn na ngoon.",
    "xh": "Namhlanje kusasa kunethile, kodwa ngokuhlwa ilanga liphumile.",
    "yi": "הײַנט אין דער פֿרי האָט גערעגנט, אָבער איצט שײַנט די זון.",
    "yo": "Òjò rọ̀ ní òwúrọ̀ yìí, ṣùgbọ́n oòrùn ràn ní ìrọ̀lẹ́.",
    "yue": "今朝落雨，不過下晝出返太陽，我哋去咗飲茶。",
    "zh-hans": "今天早上火车晚点了十分钟，不过咖啡还是热的；俱乐部的门没开。",
    "zh-hant": "今天早上火車誤點了十分鐘，不過咖啡還是熱的；我們在俱樂部門口等。",
    "zu": "Namuhla ekuseni linile, kodwa kusihlwa ilanga liphumile.",
}

CODE = {
    "c": "#include <stdio.h>\n\nint main(int argc, char **argv)\n{\n\tfor (size_t i = 0; i < 10u; ++i) {\n\t\tif (!(i & 1))\n\t\t\tprintf(\"%zu\\n\", i); /* even */\n\t}\n\treturn 0;\n}\n",
    "cpp": "template <typename T>\nauto sum(const std::vector<T> &v) -> decltype(v[0] + v[0]) {\n    T acc{};\n    for (auto &&x : v) acc += x;   // fold\n    return acc;\n}\n",
    "python": "class Heap:\n    def __init__(self, items=()):\n        self._h = []\n        for x in items:\n            self.push(x)\n\n    @property\n    def empty(self) -> bool:\n        return not self._h  # f\"{len(self._h):>8,d}\"\n",
    "javascript": "const wait = ms => new Promise(r => setTimeout(r, ms));\nasync function go() {\n  for await (const x of gen()) console.log(`${x?.id ?? 'none'}`);\n}\n",
    "typescript": "type Maybe<T> = T | null | undefined;\nexport interface Row { readonly id: number; name?: string }\n",
    "rust": "impl<'a, T: Ord> Iterator for Merge<'a, T> {\n    type Item = &'a T;\n    fn next(&mut self) -> Option<Self::Item> {\n        match (self.a.peek(), self.b.peek()) { _ => None }\n    }\n}\n",
    "go": "func (s *Server) Serve(ctx context.Context) error {\n\tselect {\n\tcase <-ctx.Done():\n\t\treturn ctx.Err()\n\tcase err := <-s.errs:\n\t\treturn fmt.Errorf(\"serve: %w\", err)\n\t}\n}\n",
    "java": "public final class Point implements Comparable<Point> {\r\n    private final double x, y;\r\n    @Override public int compareTo(Point o) { return Double.compare(x, o.x); }\r\n}\r\n",
    "haskell": "quicksort :: Ord a => [a] -> [a]\nquicksort []     = []\nquicksort (p:xs) = quicksort [x | x <- xs, x < p] ++ [p] ++ quicksort [x | x <- xs, x >= p]\n",
    "lisp": "(defun fact (n)\n  \"Factorial of N.\"\n  (if (<= n 1) 1 (* n (fact (1- n)))))\n",
    "sql": "SELECT u.name, COUNT(*) AS n\n  FROM users u LEFT JOIN orders o ON o.user_id = u.id\n WHERE o.total >= 19.99 AND u.name LIKE 'O''Brien%'\n GROUP BY 1 HAVING COUNT(*) > 3;\n",
    "bash": "#!/bin/sh\nset -eu\nfor f in \"$@\"; do\n  case ${f##*.} in (gz|xz) : ;; (*) echo \"skip ${f}\" >&2; continue;; esac\ndone\n",
    "html": "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Hi &amp; bye</title></head>\n<body class='a b'><p id=x>1 &lt; 2</p></body></html>\n",
    "css": "@media (min-width: 40em) {\n  .grid > li:nth-child(2n+1)::before { content: \"\\201C\"; margin: 0 -.5rem; color: #0af; }\n}\n",
    "json": "{\n    \"name\": \"mote\",\n    \"list\": [1, 2.5e-3, null, true, \"\\u00e9\\n\"],\n    \"nested\": {\"a\": {\"b\": []}}\n}\n",
    "yaml": "services:\n  web:\n    image: \"nginx:1.25\"\n    ports: [\"8080:80\"]\n    env: &e {A: '1'}\n",
    "latex": "\\begin{equation}\\label{eq:x}\n  \\int_0^\\infty e^{-x^2}\\,dx = \\frac{\\sqrt{\\pi}}{2} % Gauss\n\\end{equation}\n",
    "make": "all: $(OBJ)\n\t$(CC) $(CFLAGS) -o $@ $^ # link\n%.o: %.c ; $(CC) -c $<\n",
    "asm": "loop:\n\tvfmadd231ps\tymm0, ymm1, [rsi+rax*4]\n\tadd\trax, 8\n\tcmp\trax, rcx\n\tjl\tloop\t; next\n",
    "diff": "--- a/x.c\n+++ b/x.c\n@@ -1,3 +1,4 @@\n int x;\n-int y = 0;\n+int y = 1;\n+int z;\n",
    "regex": "^(?:[A-Za-z0-9_.+-]+)@([\\w-]+\\.)+[a-z]{2,}$|(?i:'s|'t)\\p{L}",
    "perl": "my %h = map { $_ => 1 } grep { !/^\\s*#/ } <STDIN>; print \"$_\\n\" for sort keys %h;\n",
    "cobol": "       IDENTIFICATION DIVISION.\n       PROGRAM-ID. HELLO.\n       PROCEDURE DIVISION.\n           DISPLAY 'HELLO'.\n",
    "apl": "avg←{(+⌿⍵)÷≢⍵} ⋄ life←{⊃1 ⍵∨.∧3 4=+/,¯1 0 1∘.⊖¯1 0 1∘.⌽⊂⍵}",
}

TEXTS = [
    "", "a", " ", "\n", "0", "Hello", " Hello", "Hello ", "Hello, world!", "hello\nworld\n",
    "https:" "//example.org/a/b?c=d&e=%20f#frag", "user.name+tag@sub.example.co.uk",
    "/usr/local/lib/libfoo.so.1.2.3", "C:\\Users\\me\\Documents\\file (1).txt",
    "snake_case camelCase PascalCase SCREAMING_CASE kebab-case", "getHTTPResponseCode2XX",
    "3.14159 2,718 1e-9 0xDEADBEEF 0b1010 1_000_000 ½ ¾ ² ³ ① ⅷ ٣٤ ४५ 一二三",
    "2026-02-14T09:30:00.123+01:00", "14/02/26 9:30pm", "+49 (0)30 1234-5678", "$1,234.56 €7,89 £3 ¥100 ₹5 ₿0.1",
    "5×3=15 ≠ 16 ≤ 17; ∑∫∂√∞ α≈β ∀x∈ℝ", "H₂O, CO₂, E=mc², x⁻¹", "A→B ⇒ C ↔ D ⟶ E",
    "| a | b |\n|---|:-:|\n| 1 | 2 |\n", "# Title\n\n* item\n  * sub\n\n```py\nx = 1\n```\n", "> quote\n>> deeper\n\n---\n***\n___\n",
    "\u201cquoted\u201d \u2018single\u2019 \u00abguillemets\u00bb \u201elow\u201c \u2039x\u203a", "dash - \u2013 \u2014 \u2015 \u2212 \u00ad \u2010 \u2011",
    "...!!!???\u2026\u203d\u00bf\u00a1", "#hashtag @mention ~tilde `tick` ^caret & % $ * + = | \\ / < > { } [ ] ( )",
    "aGVsbG8gd29ybGQ=", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", "550e8400-e29b-41d4-a716-446655440000",
    "\x1b[31mred\x1b[0m \x07 \x00 \x7f", "a\u0000b", "\ufeffBOM first", "zero\u200bwidth\u200cjoin\u200der\u2060x", "soft\u00adhyphen",
    "\u202eright to left\u202c \u2066isolate\u2069", "don\u2019t can\u2019t it\u2019s", "O'Neil's dog's bone; they'd've y'all'd",
    "x = y if z else w;  // two  spaces   three", "tabs\t\tand\tspaces  \t mixed \t\n", "line1\r\nline2\r\rline3\n\r\n",
    "  leading", "trailing  ", "\n\n\nleading newlines", "trailing newlines\n\n\n", " \n \n ", "\t\n\t\n", "a \n b", "a\n b", "a \nb", "a  \n\n  b",
    "word" * 50, "The  double  space", "I'LL I'Ll I'lL I'll WE'RE We'Re 'RE 'S 's'S", "1'd 2'm ''s '''t", "'", "''", "'''", "\u017f '\u017f it'\u017f",
    "\u4e2d\u6587English\u6df7\u54082026\u5e74", "\u30c6\u30b9\u30c8123\u30c6\u30b9\u30c8", "\ud55c\uad6d\uc5b4English123", "\u0e44\u0e17\u0e22English",
    "naïve café résumé Zürich Ångström fiancée coöperate", "ﬁ ﬂ ﬀ ﬃ ﬄ ﬅ ﬆ", "Ｆｕｌｌ　ｗｉｄｔｈ　１２３！", "ǅ ǈ ǋ ǲ", "İ ı ẞ ß ſ K Å Ω",
    "\U0001d400\U0001d401 \U0001d7ce\U0001d7cf \U0001f100\U0001f130 \U00020000\U0002a6d6", "\U0001f600\U0001f601 ok \U0001f44d\U0001f3fd!",
    "<think>", "a<b>c</b>", "<|not a token|>", "<|im_start", "|im_start|>", "< |im_start|>", "<tool_call", "<|endoftext|", "<|fim_prefix|>x",
]

EMOJI = [
    "\U0001f600", "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466", "\U0001f469\U0001f3fd\u200d\U0001f4bb", "\U0001f3f3\ufe0f\u200d\U0001f308",
    "\U0001f3f4\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f", "\U0001f1e9\U0001f1ea\U0001f1eb\U0001f1f7", "\U0001f1e9\U0001f1ea\U0001f1eb",
    "1\ufe0f\u20e3", "#\ufe0f\u20e3*\ufe0f\u20e3", "\u2764\ufe0f", "\u2764", "\u263a\ufe0e", "\U0001f44b\U0001f3fb\U0001f44b\U0001f3ff", "\U0001f937\u200d\u2642\ufe0f",
    "\U0001f9d1\u200d\U0001f91d\u200d\U0001f9d1", "\U0001f441\ufe0f\u200d\U0001f5e8\ufe0f", "\u00a9\ufe0f\u00ae\u2122\ufe0f", "\U0001f004\U0001f0cf", "\U0001fae8\U0001fac3",
    "\U0001f469\u200d\u2764\ufe0f\u200d\U0001f48b\u200d\U0001f468", "\U0001f680\U0001f680\U0001f680", "\u231a\u23f0\u2600\ufe0f\u26a1", "\U0001f6d1\U0001f6b8", "\U0001f1fa",
]

WHITE = [" ", "\t", "\n", "\r", "\r\n", "\v", "\f", "\x85", "\xa0", "\u1680", "\u2000", "\u2003", "\u2007", "\u2009", "\u200a",
         "\u2028", "\u2029", "\u202f", "\u205f", "\u3000", "\u180e", "\u200b", "\ufeff", "\x1c", "\x1f"]


def byte_of_char():
    """Maps the byte alphabet of the vocabulary to bytes."""
    same = [*range(33, 127), *range(161, 173), *range(174, 256)]
    table = {chr(b): b for b in same}
    rest = [b for b in range(256) if b not in set(same)]
    table.update({chr(256 + i): b for i, b in enumerate(rest)})
    return table


class Cases:
    """Collects cases; each pair of text and special is stored once."""

    def __init__(self, with_added, plain):
        self.enc = {True: with_added, False: plain}
        self.rows, self.seen, self.count = [], set(), {}

    def add(self, group, text, special=False):
        if (text, special) in self.seen:
            return
        self.seen.add((text, special))
        n = self.count[group] = self.count.get(group, 0) + 1
        ids = self.enc[special].encode(text, add_special_tokens=False).ids
        self.rows.append({"name": "%s-%03d" % (group, n), "text": text, "special": special, "ids": ids})


def code_points(first, last):
    return [c for c in range(first, last + 1) if not 0xD800 <= c <= 0xDFFF]


def make_cases(cases, rng, added, token_bytes):
    blocks = [tuple(int(x, 16) for x in b.split("-")) for b in BLOCKS.split()]
    categories = {k: [chr(int(x, 16)) for x in v.split()] for k, v in CATEGORIES.items()}
    letters = categories["Ll"] + categories["Lu"] + categories["Lo"]
    marks = categories["Mn"] + categories["Mc"] + categories["Me"]

    for text in TEXTS:
        cases.add("text", text)
    for c in range(0x80):
        cases.add("ascii", chr(c))
    for name, text in LANGUAGES.items():
        cases.add("language-" + name, text)
        cases.add("language-" + name, text.upper())
        cases.add("language-" + name, unicodedata.normalize("NFD", text))
    for name, text in CODE.items():
        cases.add("code-" + name, text)
        cases.add("code-" + name, "    " + text.replace("\n", "\n    "))

    # Numbers.
    for text in ["0", "00", "007", "12", "123", "1234", "1234567890", "-5", "+5.0", "1.5.2", "1,2;3", "x1", "1x", "1 2  3", "v2.0b1",
                 "٠١٢٣٤", "०१२", "１２３", "²³¹", "Ⅷ ⅷ ↈ", "㉈㊿", "𝟎𝟏", "᭐᭑", "1\u03012", "1\u20e32", "½x¼", "3\u2044" + "4", "1e+10", "0o17", "10^9", "5%"]:
        cases.add("number", text)
    for n in range(1, 21):
        cases.add("number", "".join(rng.choice("0123456789") for _ in range(n)))
        cases.add("number", " " + "".join(rng.choice("0123456789٣४၅७") for _ in range(n)) + "a")

    # White space.
    for w in WHITE:
        for form in ("%s", "a%sb", "%sa", "a%s", "a%s1", "1%s!", "!%sa", "a%s\u0301"):
            cases.add("white", form % w)
        for n in (2, 3, 7):
            cases.add("white", "a" + w * n + "b")
            cases.add("white", w * n)
    pairs = [(v, w) for v in WHITE for w in WHITE if v != w]
    for v, w in rng.sample(pairs, 260):
        cases.add("white", "a" + v + w + "b")
    for n in range(1, 41):
        cases.add("spaces", "x" + " " * n + "y")
        cases.add("spaces", " " * n)
        cases.add("spaces", "x" + " " * n + "\n" + " " * (n // 2) + "y")
    for _ in range(120):
        cases.add("white-mix", "".join(rng.choice(WHITE + ["a", "B", "1", "!", "'s"]) for _ in range(rng.randint(2, 24))))

    # Contractions.
    for word in ("s", "t", "m", "d", "re", "ve", "ll"):
        forms = {word, word.upper(), word.capitalize(), word[0] + word[1:].upper()}
        for f in sorted(forms):
            for form in ("'%s", "x'%s", "x'%sy", "X'%s ", " '%s", "1'%s", "!'%s", "''%s", "x\u2019%s", "\n'%s", "'%s'%s", "x'%s1", "\u00e9'%s", "\u4e2d'%s"):
                cases.add("contraction", form.replace("%s", f))
    for text in ("'\u017f", "x'\u017fy", "'\u017f'\u017f", "'r\u0435", "'\u1e9e", "'\ufb06", "'L\u217c", "'s\u0301", "'\u0301s", "' s", "'ss", "'sT", "'lll", "'rev", "'vere"):
        cases.add("contraction", text)

    # Three or more code points of every block, in several contexts.
    for first, last in blocks:
        pool = code_points(first, last)
        pick = [chr(c) for c in sorted(rng.sample(pool, min(4, len(pool))))]
        name = "block-%04X" % first
        cases.add(name, "".join(pick))
        cases.add(name, " ".join(pick) + " a" + pick[0] + "b " + pick[1] + "1" + pick[2])
        cases.add(name, "!" + "!".join(pick) + "\n" + pick[-1] + " " + pick[-1] * 3)

    # General categories.
    for name, chars in categories.items():
        for _ in range(5):
            cases.add("category-" + name, "".join(rng.choice(chars) for _ in range(rng.randint(1, 12))))
        cases.add("category-" + name, " " + " ".join(chars))
        cases.add("category-" + name, "a" + "a".join(chars) + "1" + "1".join(chars[:4]))

    # Combining marks.
    for _ in range(90):
        base = rng.choice(letters + [" ", "\n", "1", "!", "", "\u4e2d", "\U0001f600"])
        cases.add("marks", base + "".join(rng.choice(marks) for _ in range(rng.randint(1, 6))) + rng.choice(["", "x", " ", "1", "\n"]))
    common = ["\u0300", "\u0301", "\u0302", "\u0303", "\u0308", "\u030a", "\u0323", "\u0327", "\u0328", "\u0334", "\u0345", "\u05b0", "\u05bc", "\u0651", "\u064b", "\u3099"]
    for _ in range(90):
        cases.add("marks-order", "".join(rng.choice("aeouAEszqg\u03b1\u0915\u304b") + "".join(rng.choice(common) for _ in range(rng.randint(1, 5)))
                                         for _ in range(rng.randint(1, 4))))

    # Text that NFC changes, and text that it must not change.
    changing = [c for c in code_points(0, 0x10FFFF) if unicodedata.normalize("NFC", chr(c)) != chr(c)]
    for c in (0x212A, 0x212B, 0x2126, 0x0340, 0x0341, 0x0343, 0x0344, 0x0374, 0x037E, 0x0387, 0x0958, 0x0F43, 0x1F71, 0x2000, 0x2001,
              0x2329, 0x232A, 0x2ADC, 0xF900, 0xFA10, 0xFB1D, 0xFB4E, 0x1D15E, 0x1D1BB, 0x2F800, 0x2FA1D):
        cases.add("nfc", chr(c))
        cases.add("nfc", "a" + chr(c) + " " + chr(c) + "1")
    for c in sorted(rng.sample(changing, 60)):
        cases.add("nfc", "x" + chr(c) + "y " + chr(c))
    decomposed = [c for c in code_points(0xC0, 0x1FFF) if len(unicodedata.normalize("NFD", chr(c))) > 1]
    for _ in range(60):
        cases.add("nfc-letters", "".join(unicodedata.normalize("NFD", chr(rng.choice(decomposed))) for _ in range(rng.randint(1, 8))))
    for _ in range(50):
        syllables = "".join(chr(rng.randint(0xAC00, 0xD7A3)) for _ in range(rng.randint(1, 6)))
        cases.add("nfc-hangul", unicodedata.normalize("NFD", syllables) + rng.choice(["", " x", "\u11a8", "\u1161"]))
    for text in ("\u1100", "\u1161", "\u11a8", "\u1100\u1161\u1161", "\uac00\u11a7", "\uac00\u11a8", "\uac01\u11a8", "\u1100\u11a8", "\ua960\u1161", "\uac00\u0301\u11a8"):
        cases.add("nfc-hangul", text)
    # Marks and compositions newer than the NFC tables of the reference (Unicode 9.0).
    for c in (0x07FD, 0x0898, 0x08CA, 0x09FE, 0x0C3C, 0x0D3B, 0x1ABF, 0x1AC5, 0x1DF6, 0x1DFA, 0xA82C, 0x10D24, 0x10EAB, 0x10F46, 0x1133B,
              0x1145E, 0x11D42, 0x1E130, 0x1E2EC, 0x1E08F, 0x10EFD, 0x0897, 0x10D69):
        cases.add("nfc-new", "q\u0345" + chr(c))
        cases.add("nfc-new", "e" + chr(c) + "\u0316\u0301")
    for text in ("\U00011935\U00011930", "\U00011938", "\U000105D2\u0307", "\U000105C9", "\U00011382\U000113C9", "\U0001611E\U0001611E", "\U00016D67\U00016D67",
                 "\U00011099\U000110BA", "\U00011131\U00011127", "\U00011347\U0001133E", "\U000114B9\U000114BA", "\U000115B8\U000115AF"):
        cases.add("nfc-new", text)

    for text in EMOJI:
        cases.add("emoji", text)
        cases.add("emoji", "a" + text + " " + text + text + "1")
    for text in ("\ud7ff", "\ue000", "\ud7a3\ud7a4", "\ud7fb\ud7fc", "\ue000\ue001x", "\uf8ff", "\ufffd", "\ufffe", "\uffff", "\ufdd0\ufdef", "\U0001fffe\U0001ffff",
                 "\U00010000", "\U0010fffe", "\U0010ffff", "\U000f0000a\U00100000", "\x80\x81\x9f", "\x7f\x80"):
        cases.add("edge", text)
        cases.add("edge", "a " + text + " b" + text)
    unassigned = [c for c in code_points(0x370, 0x3FFFF) if unicodedata.category(chr(c)) == "Cn"]
    for _ in range(50):
        cases.add("unassigned", "".join(rng.choice(["", " ", "a", "1"]) + chr(rng.choice(unassigned)) for _ in range(rng.randint(1, 5))))

    # Random mixtures.
    words = [w for t in [*LANGUAGES.values(), *TEXTS, *CODE.values()] for w in t.split(" ") if w and "<" not in w]
    alphabets = [
        [chr(c) for c in range(0x20, 0x7F)],
        [chr(c) for c in range(0x00, 0x100)],
        list("abc ABC 123 .,;:!?'\"\n\t-_"),
        [chr(c) for c in range(0x400, 0x460)] + [" ", ",", "\n", "a"],
        [chr(c) for c in range(0x4E00, 0x5200)] + list("，。 a1"),
        [chr(c) for c in range(0x3040, 0x3100)] + list("。 a1"),
        [chr(c) for c in range(0xAC00, 0xAE00)] + list(" .a1"),
        [chr(c) for c in range(0x900, 0x980)] + list(" \u0964a1"),
        [chr(c) for c in range(0xE01, 0xE3B)] + [chr(c) for c in range(0xE3F, 0xE5C)] + [" "],
        [chr(c) for c in range(0x5D0, 0x5EB)] + [chr(c) for c in range(0x620, 0x653)] + list(" ,1"),
        [chr(c) for c in range(0x300, 0x370)] + list("aeiou AEIOU1!"),
        [c for v in categories.values() for c in v],
        WHITE + list("aA1!'"),
    ]
    for i in range(420):
        alphabet = alphabets[i % len(alphabets)]
        cases.add("random", "".join(rng.choice(alphabet) for _ in range(rng.randint(1, 90))))
    for _ in range(120):
        cases.add("random-any", "".join(chr(rng.choice(code_points(*rng.choice(blocks)))) for _ in range(rng.randint(1, 20))))
    for _ in range(200):
        cases.add("random-words", "".join(rng.choice(words) + rng.choice([" ", " ", " ", "", "\n", "  ", ", ", ". "]) for _ in range(rng.randint(2, 25))))
    # Text made of vocabulary tokens.
    base = [i for i in range(len(token_bytes)) if i not in added]
    made = 0
    while made < 480:
        raw = b"".join(token_bytes[rng.choice(base)] for _ in range(rng.randint(1, 12)))
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError:
            continue
        cases.add("pieces", text)
        made += 1

    # Long input.
    for c in ["a", "A", "e", "z", " ", "\n", "\t", "\r", "0", "7", "-", "=", "*", ".", "'", "/", "_", "#", "\x00", "\xa0", "\u3000", "\u2028", "\u00e9", "\u0301", "\u4e2d",
              "\u3042", "\uac00", "\u0430", "\u0627", "\u0e01", "\u0915", "\u200b", "\u2014", "\ufffd", "\U0001f600", "\U00020000", "ab", "\r\n", " \n", "a ", "e\u0301"]:
        cases.add("long", c * 1000)
    cases.add("long", "x" + " " * 1000 + "y")
    cases.add("long", "".join(rng.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(20000)))
    cases.add("long", "".join(rng.choice("etaoin shrdlu") for _ in range(20000)))
    cases.add("long", "".join(chr(rng.randint(0x4E00, 0x9FA5)) for _ in range(5000)))
    cases.add("long", " ".join(LANGUAGES.values()))

    # Added tokens, matched and as plain text.
    names = list(added.values())
    texts = list(names)
    texts += ["a" + n + "b" for n in names] + [" " + n + " " for n in names[:8]] + [n + n for n in names[:8]]
    texts += [
        "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\nHello.<|im_end|>\n",
        "<|im_start|>system\nYou are helpful.<|im_end|>\n<|im_start|>user\n1+1?<|im_end|>\n<|im_start|>assistant\n<think>\n",
        "<tool_call>\n<function=f>\n<parameter=x>\n1\n</parameter>\n</function>\n</tool_call>", "<tool_response>\n{\"a\": 1}\n</tool_response>",
        "<|vision_start|><|image_pad|><|image_pad|><|vision_end|>What is it?", "<|fim_prefix|>def f():\n<|fim_suffix|>\n    return x<|fim_middle|>",
        "<|repo_name|>r<|file_sep|>a.py\nx", "e<|im_end|>\u0301", "<think>\u0301</think>", "<|im_start|><|im_start|", "<<|im_end|>>", "<|im_start|>\n<|im_end|>",
        "<|IM_START|>", "<tts_text_bos_single>", "<tts_text_bos><tts_text_bos_single>", "<|endoftext|><|endoftext|>", "</think></tool_call>", "\u00e9<|endoftext|>e\u0301",
        "'<|im_end|>s", " <think> ", "\n<think>\n", "12<|box_start|>(3,4)<|box_end|>", "<|object_ref_start|>x<|object_ref_end|>", "<|quad_start|><|quad_end|>", "<think><think></think>",
    ]
    for text in texts:
        cases.add("added", text, True)
        cases.add("added", text, False)


def make_decode(rng, cases, token_bytes, added, special, gaps):
    rows = []

    def add(name, ids):
        rows.append({"name": name, "ids": ids, "hex": b"".join(token_bytes[i] for i in ids).hex(),
                     "hex_skip": b"".join(token_bytes[i] for i in ids if i not in special).hex()})

    add("empty", [])
    for i in sorted(added):
        add("added-%d" % i, [i])
    for b in range(256):
        add("byte-%d" % b, [b])
    for i in gaps:
        add("gap-%d" % i, [i])
    for i in (256, 1000, 10000, 65535, 65536, 100000, 131072, 151642, 151643, 200000, 248042, 248043):
        add("id-%d" % i, [i])
    partial = []
    for i, raw in enumerate(token_bytes):
        if i >= 256:
            try:
                raw.decode("utf-8")
            except UnicodeDecodeError:
                partial.append(i)
    for i in rng.sample(partial, min(150, len(partial))):
        add("partial-%d" % i, [i])
        add("partial-%d-between" % i, [64, i, 64])
    made = 0
    for row in rng.sample(cases.rows, len(cases.rows)):
        if made == 250:
            break
        ids = row["ids"]
        if not 2 <= len(ids) <= 40:
            continue
        cut = rng.randint(1, len(ids) - 1)
        add(row["name"] + "-head", ids[:cut])
        add(row["name"] + "-tail", ids[cut:])
        made += 1
    everything = list(range(len(token_bytes)))
    for n in range(200):
        ids = [rng.choice(everything) for _ in range(rng.randint(1, 24))]
        if n % 2:
            ids = [rng.choice(sorted(added)) if rng.random() < 0.3 else i for i in ids]
        add("random-%03d" % n, ids)
    for n in range(60):
        add("random-bytes-%02d" % n, [rng.randrange(256) for _ in range(rng.randint(1, 16))])
    return rows


def ranges(pairs):
    """Joins (code point, value) pairs into (first, last, value)."""
    out = []
    for c, v in sorted(pairs):
        if out and out[-1][2] == v and (out[-1][1] == c - 1 or (out[-1][1] == 0xD7FF and c == 0xE000)):
            out[-1][1] = c
        else:
            out.append([c, c, v])
    return out


def load_utf8proc():
    try:
        lib = ctypes.CDLL("libutf8proc.so.2")
    except OSError:
        return None
    lib.utf8proc_category_string.restype = ctypes.c_char_p
    lib.utf8proc_category_string.argtypes = [ctypes.c_int32]
    lib.utf8proc_NFC.restype = ctypes.c_void_p
    lib.utf8proc_NFC.argtypes = [ctypes.c_char_p]
    lib.utf8proc_version.restype = ctypes.c_char_p
    lib.utf8proc_unicode_version.restype = ctypes.c_char_p
    libc = ctypes.CDLL(None)
    libc.free.argtypes = [ctypes.c_void_p]

    def nfc(s):
        p = lib.utf8proc_NFC(s.encode("utf-8"))
        out = ctypes.string_at(p).decode("utf-8")
        libc.free(p)
        return out

    return lib, nfc


def unicode_differences(path):
    everything = code_points(0, 0x10FFFF)

    def matched(pattern):
        split = pre_tokenizers.Split(Regex(pattern), "removed")
        rest = set()
        for i in range(0, len(everything), 20000):
            for piece, _ in split.pre_tokenize_str("".join(map(chr, everything[i:i + 20000]))):
                rest.update(map(ord, piece))
        return set(everything) - rest

    letter, mark, number, space = (matched(p) for p in (r"\p{L}", r"\p{M}", r"\p{N}", r"\s"))

    def reference(c):
        return "L" if c in letter else "M" if c in mark else "N" if c in number else "S" if c in space else "-"

    def simple(cat, white):
        return cat[0] if cat[0] in "LMN" else "S" if white else "-"

    ref_nfc = normalizers.NFC().normalize_str
    # Marks of known combining classes that do not compose with q or with each other.
    probes = [chr(c) for c in (0x0334, 0x094D, 0x05B0, 0x064B, 0x0316, 0x0301, 0x0345)]

    def nfc_forms(c, nfc):
        ch = chr(c)
        out = [nfc(ch)]
        for p in probes:
            out += [nfc("q" + p + ch), nfc("q" + ch + p)]
        return out

    lines = [
        "# Where other Unicode tables differ from those of the reference tokenizer.",
        "# Reference: `tokenizers` with the regex classes of Unicode 16.0 and the NFC of Unicode 9.0.",
        "# Classes: L letter, M mark, N number, S white space (\\s), - none of them.",
        "#",
        "# white space of the reference, all of it:",
        "# " + " ".join("%04X" % c for c in sorted(space)),
        "",
    ]

    def section(title, cat, nfc):
        pairs = [(c, (reference(c), cat(c))) for c in everything if reference(c) != cat(c)]
        lines.append("# class: %s" % title)
        lines.append("# first..last reference other")
        for a, b, (r, o) in ranges(pairs):
            lines.append("class %04X..%04X %s %s" % (a, b, r, o))
        lines.append("# %d code points" % len(pairs))
        lines.append("")
        candidates = [c for c in everything if c and (nfc(chr(c)) != ref_nfc(chr(c)) or unicodedata.category(chr(c))[0] in "MC" and cat(c) == "M"
                                                or c in mark or unicodedata.combining(chr(c)))]
        order, single = [], []
        for c in candidates:
            if nfc(chr(c)) != ref_nfc(chr(c)):
                single.append(c)
            elif nfc_forms(c, nfc) != nfc_forms(c, ref_nfc):
                order.append(c)
        lines.append("# NFC: %s" % title)
        lines.append("# order first..last: the reference gives these marks combining class 0 and never moves them; the other one moves them")
        for a, b, _ in ranges([(c, 0) for c in order]):
            lines.append("order %04X..%04X" % (a, b))
        lines.append("# %d code points" % len(order))
        lines.append("# single: NFC of this code point alone differs; compose: reference leaves the two apart, the other one makes one of them")
        for c in single:
            lines.append("single %04X" % c)
        for c in everything:
            d = unicodedata.decomposition(chr(c))
            if d and not d.startswith("<") and len(d.split()) == 2:
                pair = "".join(chr(int(x, 16)) for x in d.split())
                if nfc(pair) != ref_nfc(pair):
                    lines.append("compose %s -> %04X" % (d, c))
        lines.append("")

    section("python unicodedata %s" % unicodedata.unidata_version,
            lambda c: simple(unicodedata.category(chr(c)), chr(c).isspace()), lambda s: unicodedata.normalize("NFC", s))
    utf8proc = load_utf8proc()
    if utf8proc:
        lib, nfc = utf8proc
        section("utf8proc %s (Unicode %s); it has no white-space property, so S is taken from the reference" %
                (lib.utf8proc_version().decode(), lib.utf8proc_unicode_version().decode()),
                lambda c: simple(lib.utf8proc_category_string(c).decode(), c in space), nfc)
    with open(path, "w", encoding="ascii") as f:
        f.write("\n".join(lines).rstrip("\n") + "\n")
    return len(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--out")
    args = parser.parse_args()
    out = args.out or os.path.join(args.tokenizer, "golden")
    os.makedirs(out, exist_ok=True)

    with open(os.path.join(args.tokenizer, "tokenizer.json"), encoding="utf-8") as f:
        description = json.load(f)
    with_added = Tokenizer.from_str(json.dumps(description))
    added = {t["id"]: t["content"] for t in description["added_tokens"]}
    special = {t["id"] for t in description["added_tokens"] if t["special"]}
    vocab = description["model"]["vocab"]
    merges = description["model"]["merges"]
    description["added_tokens"] = []
    plain = Tokenizer.from_str(json.dumps(description))

    to_byte = byte_of_char()
    token_bytes = [b""] * (len(vocab) + len(added))
    for token, i in vocab.items():
        token_bytes[i] = bytes(to_byte[c] for c in token)
    for i, text in added.items():
        token_bytes[i] = text.encode("utf-8")
    reachable = {a + b for a, b in merges}
    gaps = sorted(i for t, i in vocab.items() if len(t) > 1 and t not in reachable)

    rng = random.Random(SEED)
    cases = Cases(with_added, plain)
    make_cases(cases, rng, added, token_bytes)
    nfc = normalizers.NFC().normalize_str
    bad = set(gaps)
    for row in cases.rows:
        raw = b"".join(token_bytes[i] for i in row["ids"])
        if not (row["special"] and set(row["ids"]) & set(added)):
            assert raw == nfc(row["text"]).encode("utf-8"), row["name"]
        assert not bad & set(row["ids"]), row["name"]
    with open(os.path.join(out, "cases.jsonl"), "w", encoding="ascii") as f:
        for row in cases.rows:
            f.write(json.dumps(row, separators=(",", ":")) + "\n")

    decode = make_decode(rng, cases, token_bytes, added, special, gaps)
    for row in decode:
        # The library replaces invalid UTF-8, so only valid text is compared.
        try:
            text = bytes.fromhex(row["hex"]).decode("utf-8")
        except UnicodeDecodeError:
            continue
        if not set(row["ids"]) & set(added):
            assert with_added.decode(row["ids"], skip_special_tokens=False) == text, row["name"]
    with open(os.path.join(out, "decode.jsonl"), "w", encoding="ascii") as f:
        for row in decode:
            f.write(json.dumps(row, separators=(",", ":")) + "\n")

    digest = hashlib.sha256()
    for raw in token_bytes:
        digest.update(len(raw).to_bytes(4, "little") + raw)
    with open(os.path.join(out, "all_tokens_digest.json"), "w", encoding="ascii") as f:
        json.dump({"first": 0, "last": len(token_bytes) - 1, "sha256": digest.hexdigest(),
                   "of": "for each id in order: length of its bytes as 32-bit little endian, then the bytes; added tokens as their text"}, f, indent=1)
        f.write("\n")

    n = unicode_differences(os.path.join(out, "unicode_differences.txt"))
    print("%d cases, %d decode cases, %d gaps, %d lines of differences" % (len(cases.rows), len(decode), len(gaps), n), file=sys.stderr)


if __name__ == "__main__":
    main()
