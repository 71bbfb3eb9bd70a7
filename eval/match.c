#include "eval/match.h"

#include <string.h>

uint32_t rune_at(struct runes s, size_t i) { return i < s.n ? s.at[i] : 0; }

bool in_set(uint32_t c, const char *ascii_set) { return c && c < 128 && strchr(ascii_set, (int)c); }

bool ascii_alnum(uint32_t c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

size_t skip_space(struct runes s, size_t i)
{
    while (i < s.n && uni_space(s.at[i]))
        i++;
    return i;
}

size_t skip_set(struct runes s, size_t i, const char *ascii_set)
{
    while (i < s.n && in_set(s.at[i], ascii_set))
        i++;
    return i;
}

bool take(struct runes s, size_t *i, const char *ascii)
{
    size_t k = 0;
    while (ascii[k] && rune_at(s, *i + k) == (uint8_t)ascii[k])
        k++;
    if (ascii[k])
        return false;
    *i += k;
    return true;
}

/* Python's re takes dotless i for i and long s for s. */
static uint32_t fold(uint32_t c)
{
    return c == 0x130 || c == 0x131 ? 'i' : c == 0x17F ? 's' : uni_lower(c);
}

bool take_any_case(struct runes s, size_t *i, const char *lower)
{
    size_t k = 0;
    while (lower[k] && fold(rune_at(s, *i + k)) == (uint8_t)lower[k])
        k++;
    if (lower[k])
        return false;
    *i += k;
    return true;
}

bool take_runes(struct runes s, size_t *i, struct runes what)
{
    if (what.n == 0 || *i >= s.n || what.n > s.n - *i)
        return false;
    if (memcmp(s.at + *i, what.at, what.n * sizeof *what.at) != 0)
        return false;
    *i += what.n;
    return true;
}

int take_label(struct runes s, size_t *i, const struct labels *l)
{
    for (int k = 0; k < l->n; k++) {
        size_t at = *i;
        if (take_runes(s, &at, l->label[k]) && !ascii_alnum(rune_at(s, at))) {
            *i = at;
            return k;
        }
    }
    return -1;
}

int find_label(struct runes s, const struct labels *l)
{
    int any_case = -1;
    for (int k = 0; k < l->n; k++) {
        if (runes_equal(s, l->label[k]))
            return k;
        bool same = s.n == l->lower[k].n && s.n > 0;
        for (size_t i = 0; same && i < s.n; i++)
            same = uni_lower(s.at[i]) == l->lower[k].at[i];
        if (same && any_case < 0)
            any_case = k;
    }
    return any_case;
}
