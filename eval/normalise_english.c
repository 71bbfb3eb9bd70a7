/* The stages that Whisper's English normaliser and those derived from it share. Each follows re.sub: from left to
 * right, and what a match used up is not looked at again. */
#include "eval/normalise.h"

#include <stdlib.h>
#include <string.h>

#define COUNT(table) (sizeof (table) / sizeof (table)[0])

/* ---- replacing ------------------------------------------------------------------------------------------------- */

/* Behind `find` at i, or i if it is not there. */
static size_t match_at(struct runes s, size_t i, const struct replacement *r)
{
    size_t at = i;
    if (r->whole && !uni_boundary(s, i))
        return i;
    for (const char *f = r->find; *f; f++) {
        if (at == s.n || (*f == '~' ? !uni_space(s.at[at]) : s.at[at] != (uint8_t)*f))
            return i;
        at++;
        while (*f == '~' && at < s.n && uni_space(s.at[at]))
            at++;
    }
    return uni_boundary(s, at) ? at : i;
}

static struct runes replace_one(struct arena *a, struct runes s, const struct replacement *r)
{
    struct runes out = {0};
    size_t copied = 0;
    for (size_t i = 0; i < s.n;) {
        size_t end = s.at[i] == (uint8_t)r->find[0] ? match_at(s, i, r) : i;
        if (end == i) {
            i++;
            continue;
        }
        runes_add(a, &out, runes_part(s, copied, i));
        runes_puts(a, &out, r->with);
        copied = i = end;
    }
    if (copied == 0)
        return s;
    runes_add(a, &out, runes_part(s, copied, s.n));
    return out;
}

struct runes replace_all(struct arena *a, struct runes s, const struct replacement *table, size_t n)
{
    for (size_t k = 0; k < n; k++)
        s = replace_one(a, s, &table[k]);
    return s;
}

static int compare_pair(const void *key, const void *entry)
{
    const struct runes *w = key;
    const char *s = ((const struct word_pair *)entry)->from;
    size_t i = 0;
    for (; i < w->n && s[i]; i++)
        if (w->at[i] != (uint8_t)s[i])
            return w->at[i] < (uint8_t)s[i] ? -1 : 1;
    return i < w->n ? 1 : s[i] ? -1 : 0;
}

struct runes replace_words(struct arena *a, struct runes s, const struct word_table *tables, int n)
{
    struct runes out = {0}, word;
    for (size_t at = 0; runes_word(s, &at, &word);) {
        const struct word_pair *pair = NULL;
        for (int k = 0; k < n && !pair; k++)
            pair = bsearch(&word, tables[k].pairs, tables[k].n, sizeof *pair, compare_pair);
        if (out.n)
            runes_put(a, &out, ' ');
        if (pair)
            runes_puts(a, &out, pair->to);
        else
            runes_add(a, &out, word);
    }
    return out;
}

/* ---- brackets and fillers -------------------------------------------------------------------------------------- */

/* Takes out <...> and [...] (either closes the other). */
static struct runes without_brackets(struct arena *a, struct runes s)
{
    struct runes out = {0};
    size_t last_close = s.n;
    while (last_close > 0 && s.at[last_close - 1] != '>' && s.at[last_close - 1] != ']')
        last_close--;
    for (size_t i = 0; i < s.n; i++) {
        bool opens = (s.at[i] == '<' || s.at[i] == '[') && i + 1 < last_close;
        if (!opens) {
            runes_put(a, &out, s.at[i]);
            continue;
        }
        while (s.at[i] != '>' && s.at[i] != ']')
            i++;
    }
    return out;
}

/* Takes out (...) that is not empty. */
static struct runes without_parentheses(struct arena *a, struct runes s)
{
    struct runes out = {0};
    size_t last_close = s.n;
    while (last_close > 0 && s.at[last_close - 1] != ')')
        last_close--;
    for (size_t i = 0; i < s.n; i++) {
        if (s.at[i] != '(' || i + 2 >= last_close || s.at[i + 1] == ')') {
            runes_put(a, &out, s.at[i]);
            continue;
        }
        while (s.at[i] != ')')
            i++;
    }
    return out;
}

/* Length of a filler at i that is a whole word, 0 if there is none. */
static size_t filler_at(struct runes s, size_t i, const char *const *fillers)
{
    if (!uni_boundary(s, i))
        return 0;
    for (; *fillers; fillers++) {
        size_t k = 0;
        while ((*fillers)[k] && i + k < s.n && s.at[i + k] == (uint8_t)(*fillers)[k])
            k++;
        if (!(*fillers)[k] && uni_boundary(s, i + k))
            return k;
    }
    return 0;
}

/* White space in front of an apostrophe goes: "it 's". */
static struct runes close_apostrophes(struct arena *a, struct runes s)
{
    struct runes out = {0};
    for (size_t i = 0; i < s.n; i++) {
        if (s.at[i] == '\'')
            while (out.n && uni_space(out.at[out.n - 1]))
                out.n--;
        runes_put(a, &out, s.at[i]);
    }
    return out;
}

struct runes english_strip(struct arena *a, struct runes s, const char *const *fillers)
{
    struct runes out = {0};
    s = without_parentheses(a, without_brackets(a, runes_lower(a, s)));
    for (size_t i = 0; i < s.n;) {
        size_t n = filler_at(s, i, fillers);
        if (!n)
            runes_put(a, &out, s.at[i]);
        i += n ? n : 1;
    }
    return close_apostrophes(a, out);
}

/* ---- contractions and titles ----------------------------------------------------------------------------------- */

static const struct replacement before_possessive[] = {
    {"won't", "will not", true},         {"can't", "can not", true},        {"let's", "let us", true},
    {"ain't", "aint", true},             {"y'all", "you all", true},        {"wanna", "want to", true},
    {"gotta", "got to", true},           {"gonna", "going to", true},       {"i'ma", "i am going to", true},
    {"imma", "i am going to", true},     {"woulda", "would have", true},    {"coulda", "could have", true},
    {"shoulda", "should have", true},    {"ma'am", "madam", true},          {"mr", "mister ", true},
    {"mrs", "missus ", true},            {"st", "saint ", true},            {"dr", "doctor ", true},
    {"prof", "professor ", true},        {"capt", "captain ", true},        {"gov", "governor ", true},
    {"ald", "alderman ", true},          {"gen", "general ", true},         {"sen", "senator ", true},
    {"rep", "representative ", true},    {"pres", "president ", true},      {"rev", "reverend ", true},
    {"hon", "honorable ", true},         {"asst", "assistant ", true},      {"assoc", "associate ", true},
    {"lt", "lieutenant ", true},         {"col", "colonel ", true},         {"jr", "junior ", true},
    {"sr", "senior ", true},             {"esq", "esquire ", true},         {"'d been", " had been", false},
    {"'s been", " has been", false},     {"'d gone", " had gone", false},   {"'s gone", " has gone", false},
    {"'d done", " had done", false},     {"'s got", " has got", false},     {"n't", " not", false},
    {"'re", " are", false}};

static const struct replacement behind_possessive[] = {
    {"'d", " would", false}, {"'ll", " will", false}, {"'t", " not", false}, {"'ve", " have", false},
    {"'m", " am", false}};

struct runes english_expand(struct arena *a, struct runes s, const struct replacement *possessive, size_t n)
{
    s = replace_all(a, s, before_possessive, COUNT(before_possessive));
    s = replace_all(a, s, possessive, n);
    return replace_all(a, s, behind_possessive, COUNT(behind_possessive));
}

/* ---- symbols --------------------------------------------------------------------------------------------------- */

static bool ascii_digit(uint32_t c) { return c >= '0' && c <= '9'; }

/* "1,234": the comma between two digits goes; a digit serves one comma only. */
static struct runes without_commas(struct arena *a, struct runes s)
{
    struct runes out = {0};
    for (size_t i = 0; i < s.n; i++) {
        runes_put(a, &out, s.at[i]);
        if (uni_digit(s.at[i]) >= 0 && i + 2 < s.n && s.at[i + 1] == ',' && uni_digit(s.at[i + 2]) >= 0) {
            runes_put(a, &out, s.at[i + 2]);
            i += 2;
        }
    }
    return out;
}

/* A full stop that no digit follows becomes a blank; what follows is used up with it. */
static struct runes without_stops(struct arena *a, struct runes s)
{
    struct runes out = {0};
    for (size_t i = 0; i < s.n; i++) {
        if (s.at[i] != '.' || (i + 1 < s.n && ascii_digit(s.at[i + 1]))) {
            runes_put(a, &out, s.at[i]);
            continue;
        }
        runes_put(a, &out, ' ');
        if (++i < s.n)
            runes_put(a, &out, s.at[i]);
    }
    return out;
}

/* Letters that decomposition leaves as they are; the text is in lower case, but decomposition can bring capitals. */
static const char *plain_letter(uint32_t c)
{
    switch (c) {
    case 0x153: return "oe";
    case 0x152: return "OE";
    case 0xF8: return "o";
    case 0xD8: return "O";
    case 0xE6: return "ae";
    case 0xC6: return "AE";
    case 0xDF: return "ss";
    case 0x1E9E: return "SS";
    case 0x111: case 0xF0: return "d";
    case 0x110: case 0xD0: return "D";
    case 0xFE: case 0xDE: return "th";
    case 0x142: return "l";
    case 0x141: return "L";
    default: return NULL;
    }
}

static bool number_symbol(uint32_t c)
{
    return c == '.' || c == '%' || c == '$' || c == 0xA2 || c == 0xA3 || c == 0x20AC;
}

struct runes english_symbols(struct arena *a, struct runes s)
{
    struct runes out = {0};
    s = runes_nfkd(a, without_stops(a, without_commas(a, s)));
    for (size_t i = 0; i < s.n; i++) {
        uint32_t c = s.at[i];
        const char *plain = c > 127 ? plain_letter(c) : NULL;
        if (plain)
            runes_puts(a, &out, plain);
        else if (number_symbol(c))
            runes_put(a, &out, c);
        else if (!uni_mark(c))
            runes_put(a, &out, uni_symbol(c) ? ' ' : c);
    }
    return out;
}

struct runes english_finish(struct arena *a, struct runes s)
{
    struct runes first = {0}, second = {0};
    for (size_t i = 0; i < s.n; i++) {              /* a sign that no digit follows */
        if (!number_symbol(s.at[i]) || s.at[i] == '%' || i + 1 == s.n || ascii_digit(s.at[i + 1])) {
            runes_put(a, &first, s.at[i]);
            continue;
        }
        runes_put(a, &first, ' ');
        runes_put(a, &first, s.at[++i]);
    }
    for (size_t i = 0; i < first.n; i++) {          /* a percent sign that no digit precedes */
        runes_put(a, &second, first.at[i]);
        if (!ascii_digit(first.at[i]) && i + 1 < first.n && first.at[i + 1] == '%') {
            runes_put(a, &second, ' ');
            i++;
        }
    }
    return runes_collapse(a, second);
}
