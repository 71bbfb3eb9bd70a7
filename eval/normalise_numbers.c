/* Spoken English numbers to digits: the number stage of Whisper's normaliser, word by word.
 *
 * The number that is being read is either an integer, to which "hundred" or "five" can be added ("one hundred and
 * five"), or a text of digits to which more digits are appended ("one oh one", "nineteen eighty four", "three point
 * one"). Integers have any length, so both are kept as decimal digits.
 */
#include "eval/normalise.h"

#include <stdlib.h>
#include <string.h>

enum kind {
    OTHER, ZERO, ONES, ONES_SUFFIXED, TENS, TENS_SUFFIXED, POWER, POWER_SUFFIXED, SIGN_BEFORE, SIGN_AFTER, PER, PERCENT,
    AND, DOUBLE, TRIPLE, POINT
};

/* value: the number, the exponent of ten of a POWER, or the code point of a sign. */
static const struct entry { const char *word; enum kind kind; unsigned value; const char *suffix; } entries[] = {
    {"and", AND, 0, ""},                      {"billion", POWER, 9, ""},
    {"billions", POWER_SUFFIXED, 9, "s"},     {"billionth", POWER_SUFFIXED, 9, "th"},
    {"cent", SIGN_AFTER, 0xA2, ""},           {"cents", SIGN_AFTER, 0xA2, ""},
    {"decillion", POWER, 33, ""},             {"decillions", POWER_SUFFIXED, 33, "s"},
    {"decillionth", POWER_SUFFIXED, 33, "th"}, {"dollar", SIGN_AFTER, '$', ""},
    {"dollars", SIGN_AFTER, '$', ""},         {"double", DOUBLE, 0, ""},
    {"eight", ONES, 8, ""},                   {"eighteen", ONES, 18, ""},
    {"eighteens", ONES_SUFFIXED, 18, "s"},    {"eighteenth", ONES_SUFFIXED, 18, "th"},
    {"eighth", ONES_SUFFIXED, 8, "th"},       {"eighties", TENS_SUFFIXED, 80, "s"},
    {"eightieth", TENS_SUFFIXED, 80, "th"},   {"eights", ONES_SUFFIXED, 8, "s"},
    {"eighty", TENS, 80, ""},                 {"eleven", ONES, 11, ""},
    {"elevens", ONES_SUFFIXED, 11, "s"},      {"eleventh", ONES_SUFFIXED, 11, "th"},
    {"euro", SIGN_AFTER, 0x20AC, ""},         {"euros", SIGN_AFTER, 0x20AC, ""},
    {"fifteen", ONES, 15, ""},                {"fifteens", ONES_SUFFIXED, 15, "s"},
    {"fifteenth", ONES_SUFFIXED, 15, "th"},   {"fifth", ONES_SUFFIXED, 5, "th"},
    {"fifties", TENS_SUFFIXED, 50, "s"},      {"fiftieth", TENS_SUFFIXED, 50, "th"},
    {"fifty", TENS, 50, ""},                  {"first", ONES_SUFFIXED, 1, "st"},
    {"five", ONES, 5, ""},                    {"fives", ONES_SUFFIXED, 5, "s"},
    {"forties", TENS_SUFFIXED, 40, "s"},      {"fortieth", TENS_SUFFIXED, 40, "th"},
    {"forty", TENS, 40, ""},                  {"four", ONES, 4, ""},
    {"fours", ONES_SUFFIXED, 4, "s"},         {"fourteen", ONES, 14, ""},
    {"fourteens", ONES_SUFFIXED, 14, "s"},    {"fourteenth", ONES_SUFFIXED, 14, "th"},
    {"fourth", ONES_SUFFIXED, 4, "th"},       {"hundred", POWER, 2, ""},
    {"hundreds", POWER_SUFFIXED, 2, "s"},     {"hundredth", POWER_SUFFIXED, 2, "th"},
    {"million", POWER, 6, ""},                {"millions", POWER_SUFFIXED, 6, "s"},
    {"millionth", POWER_SUFFIXED, 6, "th"},   {"minus", SIGN_BEFORE, '-', ""},
    {"negative", SIGN_BEFORE, '-', ""},       {"nine", ONES, 9, ""},
    {"nines", ONES_SUFFIXED, 9, "s"},         {"nineteen", ONES, 19, ""},
    {"nineteens", ONES_SUFFIXED, 19, "s"},    {"nineteenth", ONES_SUFFIXED, 19, "th"},
    {"nineth", ONES_SUFFIXED, 9, "th"},       {"nineties", TENS_SUFFIXED, 90, "s"},
    {"ninetieth", TENS_SUFFIXED, 90, "th"},   {"ninety", TENS, 90, ""},
    {"nonillion", POWER, 30, ""},             {"nonillions", POWER_SUFFIXED, 30, "s"},
    {"nonillionth", POWER_SUFFIXED, 30, "th"}, {"o", ZERO, 0, ""},
    {"octillion", POWER, 27, ""},             {"octillions", POWER_SUFFIXED, 27, "s"},
    {"octillionth", POWER_SUFFIXED, 27, "th"}, {"oh", ZERO, 0, ""},
    {"one", ONES, 1, ""},                     {"ones", ONES_SUFFIXED, 1, "s"},
    {"per", PER, 0, ""},                      {"percent", PERCENT, 0, ""},
    {"plus", SIGN_BEFORE, '+', ""},           {"point", POINT, 0, ""},
    {"positive", SIGN_BEFORE, '+', ""},       {"pound", SIGN_AFTER, 0xA3, ""},
    {"pounds", SIGN_AFTER, 0xA3, ""},         {"quadrillion", POWER, 15, ""},
    {"quadrillions", POWER_SUFFIXED, 15, "s"}, {"quadrillionth", POWER_SUFFIXED, 15, "th"},
    {"quintillion", POWER, 18, ""},           {"quintillions", POWER_SUFFIXED, 18, "s"},
    {"quintillionth", POWER_SUFFIXED, 18, "th"}, {"second", ONES_SUFFIXED, 2, "nd"},
    {"septillion", POWER, 24, ""},            {"septillions", POWER_SUFFIXED, 24, "s"},
    {"septillionth", POWER_SUFFIXED, 24, "th"}, {"seven", ONES, 7, ""},
    {"sevens", ONES_SUFFIXED, 7, "s"},        {"seventeen", ONES, 17, ""},
    {"seventeens", ONES_SUFFIXED, 17, "s"},   {"seventeenth", ONES_SUFFIXED, 17, "th"},
    {"seventh", ONES_SUFFIXED, 7, "th"},      {"seventies", TENS_SUFFIXED, 70, "s"},
    {"seventieth", TENS_SUFFIXED, 70, "th"},  {"seventy", TENS, 70, ""},
    {"sextillion", POWER, 21, ""},            {"sextillions", POWER_SUFFIXED, 21, "s"},
    {"sextillionth", POWER_SUFFIXED, 21, "th"}, {"six", ONES, 6, ""},
    {"sixes", ONES_SUFFIXED, 6, "s"},         {"sixteen", ONES, 16, ""},
    {"sixteens", ONES_SUFFIXED, 16, "s"},     {"sixteenth", ONES_SUFFIXED, 16, "th"},
    {"sixth", ONES_SUFFIXED, 6, "th"},        {"sixties", TENS_SUFFIXED, 60, "s"},
    {"sixtieth", TENS_SUFFIXED, 60, "th"},    {"sixty", TENS, 60, ""},
    {"ten", ONES, 10, ""},                    {"tens", ONES_SUFFIXED, 10, "s"},
    {"tenth", ONES_SUFFIXED, 10, "th"},       {"third", ONES_SUFFIXED, 3, "rd"},
    {"thirteen", ONES, 13, ""},               {"thirteens", ONES_SUFFIXED, 13, "s"},
    {"thirteenth", ONES_SUFFIXED, 13, "th"},  {"thirties", TENS_SUFFIXED, 30, "s"},
    {"thirtieth", TENS_SUFFIXED, 30, "th"},   {"thirty", TENS, 30, ""},
    {"thousand", POWER, 3, ""},               {"thousands", POWER_SUFFIXED, 3, "s"},
    {"thousandth", POWER_SUFFIXED, 3, "th"},  {"three", ONES, 3, ""},
    {"threes", ONES_SUFFIXED, 3, "s"},        {"trillion", POWER, 12, ""},
    {"trillions", POWER_SUFFIXED, 12, "s"},   {"trillionth", POWER_SUFFIXED, 12, "th"},
    {"triple", TRIPLE, 0, ""},                {"twelfth", ONES_SUFFIXED, 12, "th"},
    {"twelve", ONES, 12, ""},                 {"twelves", ONES_SUFFIXED, 12, "s"},
    {"twenties", TENS_SUFFIXED, 20, "s"},     {"twentieth", TENS_SUFFIXED, 20, "th"},
    {"twenty", TENS, 20, ""},                 {"two", ONES, 2, ""},
    {"twos", ONES_SUFFIXED, 2, "s"},          {"zero", ZERO, 0, ""},
    {"zeroth", ONES_SUFFIXED, 0, "th"}};

static const struct entry no_entry = {"", OTHER, 0, ""};

static int compare_word(const void *key, const void *entry)
{
    const struct runes *w = key;
    const char *s = ((const struct entry *)entry)->word;
    size_t i = 0;
    for (; i < w->n && s[i]; i++)
        if (w->at[i] != (uint8_t)s[i])
            return w->at[i] < (uint8_t)s[i] ? -1 : 1;
    return i < w->n ? 1 : s[i] ? -1 : 0;
}

static const struct entry *look_up(struct runes word)
{
    const struct entry *e = bsearch(&word, entries, sizeof entries / sizeof *entries, sizeof *entries, compare_word);
    return e ? e : &no_entry;
}

/* ^\d+(\.\d+)?$ */
static bool is_numeric(struct runes w)
{
    size_t i = 0;
    while (i < w.n && uni_digit(w.at[i]) >= 0)
        i++;
    if (i == 0 || i == w.n)
        return i > 0;
    if (w.at[i] != '.' || i + 1 == w.n)
        return false;
    for (i++; i < w.n; i++)
        if (uni_digit(w.at[i]) < 0)
            return false;
    return true;
}

/* ---- the number being read ------------------------------------------------------------------------------------- */

struct number { bool set, is_text; struct runes digits; };

struct reader {
    struct arena *a;
    struct runes out;
    uint32_t prefix;            /* sign for the next word put out, 0: none */
    struct number value;
    const struct entry *before, *next;      /* the words around the current one */
    bool next_is_numeric;
};

static void append_number(struct reader *r, unsigned n)
{
    if (n >= 10)
        runes_put(r->a, &r->value.digits, '0' + n / 10);
    runes_put(r->a, &r->value.digits, '0' + n % 10);
}

static void start_integer(struct reader *r, unsigned n)
{
    r->value.set = true;
    r->value.is_text = false;
    r->value.digits.n = 0;
    append_number(r, n);
}

static bool is_zero(const struct number *v) { return v->digits.n == 1 && v->digits.at[0] == '0'; }

/* From now on digits are appended. An integer zero counts as nothing, as in Python's `value or ""`. */
static void make_text(struct reader *r, bool zero_counts)
{
    if (!r->value.set || (!r->value.is_text && !zero_counts && is_zero(&r->value)))
        r->value.digits.n = 0;
    r->value.set = r->value.is_text = true;
}

/* Do the last n digits say 0? (Shorter numbers: zero itself.) */
static bool ends_in_zeros(const struct number *v, size_t n)
{
    for (size_t i = 0; i < n && i < v->digits.n; i++)
        if (v->digits.at[v->digits.n - 1 - i] != '0')
            return false;
    return true;
}

static void strip_zeros(struct runes *digits)
{
    size_t zeros = 0;
    while (zeros + 1 < digits->n && digits->at[zeros] == '0')
        zeros++;
    digits->n -= zeros;
    if (zeros)
        memmove(digits->at, digits->at + zeros, digits->n * sizeof *digits->at);
}

/* The integer with n added, whose last digits (as many as n has) are zero. */
static void add_to_zeros(struct reader *r, unsigned n)
{
    struct runes *d = &r->value.digits;
    if (n >= 10 && d->n < 2) {
        d->n = 0;
        append_number(r, n);
        return;
    }
    d->at[d->n - 1] = '0' + n % 10;
    if (n >= 10)
        d->at[d->n - 2] = '0' + n / 10;
}

/* An integer's last three digits are multiplied by 10^exponent: 2,105 "million" is 2,000 + 105,000,000. */
static void multiply_integer(struct reader *r, unsigned exponent)
{
    struct runes *d = &r->value.digits;
    unsigned residual = 0;
    for (size_t i = d->n > 3 ? d->n - 3 : 0; i < d->n; i++) {
        residual = residual * 10 + (d->at[i] - '0');
        d->at[i] = '0';
    }
    size_t length = exponent + 4, add = d->n < length ? length - d->n : 0;
    for (size_t i = 0; i < add; i++)
        runes_put(r->a, d, '0');
    memmove(d->at + add, d->at, (d->n - add) * sizeof *d->at);
    for (size_t i = 0; i < add; i++)
        d->at[i] = '0';
    for (size_t i = d->n - exponent; residual > 0 && i > 0; i--) {
        unsigned sum = residual % 10 + (d->at[i - 1] - '0');
        d->at[i - 1] = '0' + sum % 10;
        residual = residual / 10 + sum / 10;
    }
    if (residual) {                             /* a carry out of the longest numbers */
        runes_put(r->a, d, '0');
        memmove(d->at + 1, d->at, (d->n - 1) * sizeof *d->at);
        d->at[0] = '0' + residual;
    }
    strip_zeros(d);
}

enum { MAX_DIGITS = 4300 };     /* Python reads no longer integers */

/* A text such as "2.5" becomes an integer if it is one times 10^exponent; false (unchanged) if not. */
static bool multiply_text(struct reader *r, unsigned exponent)
{
    struct runes *d = &r->value.digits;
    if (d->n > MAX_DIGITS)
        return false;
    size_t point = d->n, digits = 0;
    for (size_t i = 0; i < d->n; i++) {
        if (d->at[i] == '.' && point == d->n)
            point = i;
        else if (uni_digit(d->at[i]) < 0)
            return false;
        else
            digits++;
    }
    for (size_t i = point + 1 + exponent; i < d->n; i++)
        if (uni_digit(d->at[i]) != 0)
            return false;
    if (digits == 0)
        return false;
    size_t fraction = point < d->n ? d->n - point - 1 : 0;
    if (point < d->n) {
        memmove(d->at + point, d->at + point + 1, fraction * sizeof *d->at);
        d->n--;
    }
    if (fraction > exponent)
        d->n -= fraction - exponent;
    for (size_t i = fraction; i < exponent; i++)
        runes_put(r->a, d, '0');
    for (size_t i = 0; i < d->n; i++)
        d->at[i] = '0' + (uint32_t)uni_digit(d->at[i]);
    strip_zeros(d);
    r->value.is_text = false;
    return true;
}

/* ---- putting out ----------------------------------------------------------------------------------------------- */

static void put_out(struct reader *r, struct runes word, const char *suffix)
{
    if (r->out.n)
        runes_put(r->a, &r->out, ' ');
    if (r->prefix)
        runes_put(r->a, &r->out, r->prefix);
    runes_add(r->a, &r->out, word);
    runes_puts(r->a, &r->out, suffix);
    r->prefix = 0;
    r->value.set = false;
}

static void put_value(struct reader *r, const char *suffix)
{
    if (r->value.set)
        put_out(r, r->value.digits, suffix);
}

/* What was read so far, then the word itself. */
static void put_word(struct reader *r, struct runes word)
{
    put_value(r, "");
    put_out(r, word, "");
}

/* ---- the kinds of words ---------------------------------------------------------------------------------------- */

/* Arabic digits, perhaps with a sign in front. */
static void read_digits(struct reader *r, struct runes word, struct runes bare)
{
    struct number *v = &r->value;
    if (v->set && v->is_text && v->digits.n && v->digits.at[v->digits.n - 1] == '.') {
        runes_add(r->a, &v->digits, word);
        return;
    }
    put_value(r, "");
    r->prefix = word.n > bare.n ? word.at[0] : r->prefix;
    v->set = v->is_text = true;
    v->digits.n = 0;
    runes_add(r->a, &v->digits, bare);
    multiply_text(r, 0);
}

static void read_ones(struct reader *r, unsigned n)
{
    if (!r->value.set) {
        start_integer(r, n);
    } else if (r->value.is_text || r->before->kind == ONES) {
        make_text(r, true);
        if (r->before->kind == TENS && n < 10)
            r->value.digits.n--;                /* "twenty" left a zero */
        append_number(r, n);
    } else if (ends_in_zeros(&r->value, n < 10 ? 1 : 2)) {
        add_to_zeros(r, n);
    } else {
        make_text(r, true);
        append_number(r, n);
    }
}

static void read_tens(struct reader *r, unsigned n)
{
    if (!r->value.set) {
        start_integer(r, n);
    } else if (!r->value.is_text && ends_in_zeros(&r->value, 2)) {
        add_to_zeros(r, n);
    } else {
        make_text(r, true);
        append_number(r, n);
    }
}

static void start_power(struct reader *r, unsigned exponent)
{
    start_integer(r, 1);
    for (unsigned i = 0; i < exponent; i++)
        runes_put(r->a, &r->value.digits, '0');
}

static void read_power(struct reader *r, const struct entry *e)
{
    struct number *v = &r->value;
    if (!v->set) {
        start_power(r, e->value);
    } else if (!v->is_text) {
        if (!is_zero(v))
            multiply_integer(r, e->value);
    } else if (!multiply_text(r, e->value)) {
        put_value(r, "");
        start_power(r, e->value);
    }
    if (e->kind == POWER_SUFFIXED)
        put_value(r, e->suffix);
}

/* and, double, triple, point; true if the next word is used up. */
static bool read_special(struct reader *r, const struct entry *e, struct runes word)
{
    if (r->next->kind == OTHER && !r->next_is_numeric) {
        put_word(r, word);
    } else if (e->kind == AND) {
        if (r->before->kind != POWER)
            put_word(r, word);
    } else if (e->kind == POINT) {
        if (r->next->kind == ONES || r->next->kind == TENS || r->next->kind == ZERO || r->next_is_numeric) {
            make_text(r, false);
            runes_put(r->a, &r->value.digits, '.');
        }
    } else if (r->next->kind == ONES || r->next->kind == ZERO) {
        make_text(r, false);
        for (int i = 0; i < (e->kind == DOUBLE ? 2 : 3); i++)
            append_number(r, r->next->value);
        return true;
    } else {
        put_word(r, word);
    }
    return false;
}

static bool read_percent(struct reader *r, const struct entry *e, struct runes word, struct runes next)
{
    if (!r->value.set || (e->kind == PER && !runes_is(next, "cent"))) {
        put_word(r, word);
        return false;
    }
    put_value(r, "%");
    return e->kind == PER;
}

static bool is_sign(uint32_t c)
{
    return c == '-' || c == '+' || c == '$' || c == 0xA3 || c == 0xA2 || c == 0x20AC;
}

/* True if the next word is used up too. */
static bool read_word(struct reader *r, struct runes word, struct runes next)
{
    struct runes bare = is_sign(word.at[0]) ? runes_part(word, 1, word.n) : word;
    const struct entry *e = look_up(word);
    r->next = look_up(next);
    r->next_is_numeric = is_numeric(next);
    if (is_numeric(bare)) {
        read_digits(r, word, bare);
        return false;
    }
    switch (e->kind) {
    case ZERO: make_text(r, false); append_number(r, 0); break;
    case ONES: read_ones(r, e->value); break;
    case TENS: read_tens(r, e->value); break;
    case ONES_SUFFIXED: read_ones(r, e->value); put_value(r, e->suffix); break;
    case TENS_SUFFIXED: read_tens(r, e->value); put_value(r, e->suffix); break;
    case POWER: case POWER_SUFFIXED: read_power(r, e); break;
    case SIGN_BEFORE:
        put_value(r, "");
        if (r->next->kind != OTHER || r->next_is_numeric)
            r->prefix = e->value;
        else
            put_out(r, word, "");
        break;
    case SIGN_AFTER:
        if (r->value.set) {
            r->prefix = e->value;
            put_value(r, "");
        } else {
            put_out(r, word, "");
        }
        break;
    case PER: case PERCENT: return read_percent(r, e, word, next);
    case AND: case DOUBLE: case TRIPLE: case POINT: return read_special(r, e, word);
    case OTHER: put_word(r, word); break;
    }
    return false;
}

/* ---- around it ------------------------------------------------------------------------------------------------- */

/* "and a half" at i (words with any white space between); *end is behind it. */
static bool and_a_half(struct runes s, size_t i, size_t *end)
{
    static const char *const words[] = {"and", "a", "half"};
    if (!uni_boundary(s, i))
        return false;
    for (int w = 0; w < 3; w++) {
        size_t from = i, k = 0;
        while (w > 0 && i < s.n && uni_space(s.at[i]))
            i++;
        if (w > 0 && i == from)
            return false;
        while (words[w][k] && i < s.n && s.at[i] == (uint8_t)words[w][k])
            i++, k++;
        if (words[w][k])
            return false;
    }
    *end = i;
    return uni_boundary(s, i);
}

/* Python's segment.rsplit(maxsplit=2)[-1]. */
static struct runes last_word(struct runes s)
{
    s = runes_trim(s);
    size_t from = s.n;
    while (from > 0 && !uni_space(s.at[from - 1]))
        from--;
    return runes_part(s, from, s.n);
}

static void put_segment(struct arena *a, struct runes *out, bool *first, struct runes segment)
{
    if (!*first)
        runes_put(a, out, ' ');
    *first = false;
    runes_add(a, out, segment);
}

/* "two and a half" is "two point five". */
static struct runes halves(struct arena *a, struct runes s)
{
    struct runes out = {0};
    bool first = true;
    size_t start = 0, end = 0;
    for (size_t i = 0; i < s.n; i++) {
        if (s.at[i] != 'a' || !and_a_half(s, i, &end))
            continue;
        struct runes segment = runes_part(s, start, i), last = last_word(segment);
        if (last.n) {
            enum kind k = look_up(last)->kind;
            bool number = k == ONES || k == TENS || k == ZERO || k == POWER;
            put_segment(a, &out, &first, segment);
            runes_puts(a, &out, number ? " point five" : " and a half");
        }
        start = end;
        i = end - 1;
    }
    struct runes rest = runes_part(s, start, s.n);
    if (runes_trim(rest).n)
        put_segment(a, &out, &first, rest);
    return out;
}

static bool az(uint32_t c) { return c >= 'a' && c <= 'z'; }
static bool d09(uint32_t c) { return c >= '0' && c <= '9'; }

/* Blanks between digits and letters, but not before the suffixes st, nd, rd, th, s. */
static struct runes split_digits(struct arena *a, struct runes s)
{
    static const char *const suffixes[] = {"st", "nd", "rd", "th", "s"};
    struct runes spaced = {0}, out = {0};
    for (size_t i = 0; i < s.n; i++) {
        runes_put(a, &spaced, s.at[i]);
        if (i + 1 < s.n && ((az(s.at[i]) && d09(s.at[i + 1])) || (d09(s.at[i]) && az(s.at[i + 1]))))
            runes_put(a, &spaced, ' ');
    }
    for (size_t i = 0; i < spaced.n; i++) {
        runes_put(a, &out, spaced.at[i]);
        size_t at = i + 1;
        while (d09(spaced.at[i]) && at < spaced.n && uni_space(spaced.at[at]))
            at++;
        for (size_t k = 0; at > i + 1 && k < sizeof suffixes / sizeof *suffixes; k++) {
            size_t n = strlen(suffixes[k]);
            bool same = at + n <= spaced.n && spaced.at[at] == (uint8_t)suffixes[k][0] &&
                        (n == 1 || spaced.at[at + 1] == (uint8_t)suffixes[k][1]);
            if (same && uni_boundary(spaced, at + n)) {
                i = at - 1;
                break;
            }
        }
    }
    return out;
}

static bool currency(uint32_t c) { return c == 0x20AC || c == 0xA3 || c == '$'; }

/* One or two digits that end a word; their number, or 0 if there are none (or more). */
static size_t two_digits(struct runes s, size_t i)
{
    size_t n = 0;
    while (n < 2 && i + n < s.n && d09(s.at[i + n]))
        n++;
    return n && uni_boundary(s, i + n) ? n : 0;
}

/* "$2 and ¢7" is "$2.07". */
static struct runes join_cents(struct arena *a, struct runes s)
{
    struct runes out = {0};
    for (size_t i = 0; i < s.n;) {
        size_t at = i + 1, cents;
        while (currency(s.at[i]) && at < s.n && d09(s.at[at]))
            at++;
        size_t units_end = at;
        bool match = at > i + 1 && at < s.n && s.at[at] == ' ';
        at++;
        if (match && at + 4 <= s.n && runes_is(runes_part(s, at, at + 4), "and "))
            at += 4;
        match = match && at < s.n && s.at[at] == 0xA2 && (cents = two_digits(s, at + 1)) > 0;
        if (!match) {
            runes_put(a, &out, s.at[i++]);
            continue;
        }
        runes_add(a, &out, runes_part(s, i, units_end));
        runes_puts(a, &out, cents == 1 ? ".0" : ".");
        runes_add(a, &out, runes_part(s, at + 1, at + 1 + cents));
        i = at + 1 + cents;
    }
    return out;
}

/* "$0.07" is "¢7" (any character may stand where the point is), and a lone 1 is "one". */
static struct runes small_change(struct arena *a, struct runes s)
{
    struct runes out = {0};
    for (size_t i = 0; i < s.n;) {
        bool zero = currency(s.at[i]) && i + 2 < s.n && s.at[i + 1] == '0' && s.at[i + 2] != '\n';
        size_t n = zero ? two_digits(s, i + 3) : 0;
        if (!n) {
            runes_put(a, &out, s.at[i++]);
            continue;
        }
        runes_put(a, &out, 0xA2);
        if (n == 2 && s.at[i + 3] != '0')
            runes_put(a, &out, s.at[i + 3]);
        runes_put(a, &out, s.at[i + 2 + n]);
        i += 3 + n;
    }
    return out;
}

static struct runes lone_ones(struct arena *a, struct runes s)
{
    struct runes out = {0};
    for (size_t i = 0; i < s.n; i++) {
        size_t end = i + 1 < s.n && s.at[i + 1] == 's' ? i + 2 : i + 1;
        if (s.at[i] == '1' && uni_boundary(s, i) && uni_boundary(s, end))
            runes_puts(a, &out, "one");
        else
            runes_put(a, &out, s.at[i]);
    }
    return out;
}

struct runes english_numbers(struct arena *a, struct runes s)
{
    struct reader r = {.a = a, .before = &no_entry};
    struct runes word, next = {0};
    s = split_digits(a, halves(a, s));
    size_t at = 0;
    bool more = runes_word(s, &at, &word), skip = false;
    while (more) {
        more = runes_word(s, &at, &next);
        if (!more)
            next.n = 0;
        skip = skip ? false : read_word(&r, word, next);
        r.before = look_up(word);
        word = next;
    }
    put_value(&r, "");
    return lone_ones(a, small_change(a, join_cents(a, r.out)));
}
