/* prefix.c - which prefixes are worth keeping, and where they are kept. */
#define _GNU_SOURCE
#include "eval/prefix.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MIN_TOKENS = 32 };               /* a shorter gain is not worth a copy */

static const char magic[8] = "HANDKV1\n";

struct entry {
    int n;                              /* tokens */
    char key[65];
    struct seq *seq;                    /* NULL: only on disk */
    size_t memory_bytes, disk_bytes;    /* disk_bytes 0: not on disk */
    int64_t used;                       /* larger is later */
};

struct prefix_store {
    struct engine *m;
    struct prefix_settings settings;
    char *dir, *identity;
    size_t hidden_size;
    struct entry *entry;
    int n_entries, cap_entries;
    int64_t clock;
    struct prefix_counts counts;
};

/* ---- files ----------------------------------------------------------------------------------------------------- */

static char *file_of(const struct prefix_store *p, const struct entry *x)
{
    char name[128];
    snprintf(name, sizeof name, "%d-%s.kv", x->n, x->key);
    return path_join(p->dir, name);
}

static struct entry *add_entry(struct prefix_store *p, struct entry x)
{
    if (p->n_entries == p->cap_entries) {
        p->cap_entries = p->cap_entries * 2 + 16;
        p->entry = mem_grow(p->entry, (size_t)p->cap_entries, sizeof *p->entry);
    }
    x.used = ++p->clock;
    p->entry[p->n_entries] = x;
    return &p->entry[p->n_entries++];
}

/* What an earlier process left behind; half-written files go. */
static void scan(struct prefix_store *p)
{
    DIR *d = p->dir ? opendir(p->dir) : NULL;
    for (struct dirent *f; d && (f = readdir(d));) {
        struct entry x = {0};
        struct stat st;
        int end = 0;
        char *path = path_join(p->dir, f->d_name);
        const bool named = sscanf(f->d_name, "%9d-%64[0-9a-f].kv%n", &x.n, x.key, &end) == 2 && end > 0;
        if (named && f->d_name[end] == '\0' && x.n > 0 && stat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0) {
            x.disk_bytes = (size_t)st.st_size;
            add_entry(p, x)->used = (int64_t)st.st_mtime - ((int64_t)1 << 40);  /* before all of this process */
        } else if (named && strncmp(f->d_name + end, ".tmp.", 5) == 0) {
            unlink(path);
        }
        free(path);
    }
    if (d)
        closedir(d);
}

static void remove_file(struct prefix_store *p, struct entry *x)
{
    char *path = file_of(p, x);
    unlink(path);
    free(path);
    x->disk_bytes = 0;
}

static void drop_unkept(struct prefix_store *p)
{
    int n = 0;
    for (int i = 0; i < p->n_entries; i++)
        if (p->entry[i].seq || p->entry[i].disk_bytes)
            p->entry[n++] = p->entry[i];
    p->n_entries = n;
}

/* The least recently used entry in memory, or on disk. */
static struct entry *oldest(struct prefix_store *p, bool on_disk)
{
    struct entry *found = NULL;
    for (int i = 0; i < p->n_entries; i++) {
        struct entry *x = &p->entry[i];
        if ((on_disk ? x->disk_bytes > 0 : x->seq != NULL) && (!found || x->used < found->used))
            found = x;
    }
    return found;
}

static size_t held(const struct prefix_store *p, bool on_disk)
{
    size_t sum = 0;
    for (int i = 0; i < p->n_entries; i++)
        sum += on_disk ? p->entry[i].disk_bytes : p->entry[i].memory_bytes;
    return sum;
}

/* A failure to write is no error: the file would only have saved time. */
static void write_file(struct prefix_store *p, struct entry *x)
{
    struct text t = {0};
    char sha[65];
    text_put(&t, magic, sizeof magic);
    text_put(&t, x->key, 64);                   /* the place of the sum, which covers the key */
    seq_save(x->seq, &t);
    sha256_hex_of(t.data, t.len, sha);
    memcpy(t.data + sizeof magic, sha, 64);
    while (held(p, true) + t.len > p->settings.disk_bytes && oldest(p, true))
        remove_file(p, oldest(p, true));
    char *path = file_of(p, x);
    if (t.len <= p->settings.disk_bytes && (mkdir(p->dir, 0777) == 0 || errno == EEXIST) &&
        file_write_atomic(path, t.data, t.len, NULL) == 0)
        x->disk_bytes = t.len;
    free(path);
    text_free(&t);
}

static struct seq *read_file(const struct prefix_store *p, const struct entry *x)
{
    const size_t start = sizeof magic + 64;
    struct text t = {0};
    char *path = file_of(p, x), sha[65];
    struct seq *s = NULL;
    if (file_read(path, p->settings.disk_bytes, &t, NULL) == 0 && t.len > start &&
        memcmp(t.data, magic, sizeof magic) == 0) {
        char written[64];
        memcpy(written, t.data + sizeof magic, 64);
        memcpy(t.data + sizeof magic, x->key, 64);
        sha256_hex_of(t.data, t.len, sha);
        if (memcmp(sha, written, 64) == 0)
            s = seq_load(p->m, x->n, t.data + start, t.len - start);
    }
    free(path);
    text_free(&t);
    return s;
}

/* ---- entries --------------------------------------------------------------------------------------------------- */

static void keep_in_memory(struct prefix_store *p, struct entry *x, struct seq *s)
{
    x->seq = s;
    x->memory_bytes = seq_bytes(s);
    x->used = ++p->clock;
    for (struct entry *old; held(p, false) > p->settings.memory_bytes && (old = oldest(p, false)) != x;) {
        seq_free(old->seq);
        old->seq = NULL;
        old->memory_bytes = 0;
    }
}

/* Brings an entry into memory if it is not; false if its file is no good: then it is gone. */
static bool wake(struct prefix_store *p, struct entry *x)
{
    if (!x->seq) {
        struct seq *s = read_file(p, x);
        if (!s) {
            remove_file(p, x);
            return false;
        }
        keep_in_memory(p, x, s);
    }
    x->used = ++p->clock;
    return true;
}

struct hashing { const struct prefix_store *p; const struct prefix_prompt *prompt; struct sha256 sha; int n; size_t n_soft; };

static void hash_start(struct hashing *h, const struct prefix_store *p, const struct prefix_prompt *prompt)
{
    *h = (struct hashing){.p = p, .prompt = prompt};
    sha256_init(&h->sha);
    sha256_update(&h->sha, p->identity, strlen(p->identity) + 1);
}

/* The key of the prompt's first n tokens; n must not fall from call to call. */
static void hash_key(struct hashing *h, int n, char key[65])
{
    for (; h->n < n; h->n++) {
        const int32_t id = h->prompt->ids[h->n];
        const char soft = h->prompt->soft && engine_takes_soft(h->p->m, id);
        sha256_update(&h->sha, &id, sizeof id);
        sha256_update(&h->sha, &soft, 1);
        if (soft)
            sha256_update(&h->sha, h->prompt->soft + h->n_soft++ * h->p->hidden_size, h->p->hidden_size * sizeof(float));
    }
    struct sha256 copy = h->sha;
    sha256_hex(&copy, key);
}

static int by_length(const void *a, const void *b)
{
    const int x = ((const struct entry *)a)->n, y = ((const struct entry *)b)->n;
    return (x > y) - (x < y);
}

/* The longest entry that the prompt begins with and does not end with. */
static struct entry *find(struct prefix_store *p, const struct prefix_prompt *prompt)
{
    struct entry *found = NULL;
    struct hashing h;
    char key[65];
    do {
        found = NULL;
        hash_start(&h, p, prompt);
        if (p->n_entries)
            qsort(p->entry, (size_t)p->n_entries, sizeof *p->entry, by_length);
        for (int i = 0; i < p->n_entries && p->entry[i].n < prompt->n; i++) {
            if (i == 0 || p->entry[i].n != p->entry[i - 1].n)
                hash_key(&h, p->entry[i].n, key);
            if (strcmp(key, p->entry[i].key) == 0)
                found = &p->entry[i];
        }
        if (found && wake(p, found))
            return found;
        drop_unkept(p);
    } while (found);
    return NULL;
}

/* ---- prompts --------------------------------------------------------------------------------------------------- */

static int common(const struct prefix_store *p, const struct prefix_prompt *a, const struct prefix_prompt *b)
{
    size_t n_soft = 0;
    int n = 0;
    for (; n < a->n && n < b->n && a->ids[n] == b->ids[n]; n++) {
        if (!engine_takes_soft(p->m, a->ids[n]) || (!a->soft && !b->soft))
            continue;
        if (!a->soft || !b->soft || memcmp(a->soft + n_soft * p->hidden_size, b->soft + n_soft * p->hidden_size,
                                           p->hidden_size * sizeof *a->soft) != 0)
            break;
        n_soft++;
    }
    return n;
}

/* The length that saves most to those of the prompts that follow which share less than `below` tokens, given that
 * `have` are there already; 0: none is worth it. */
static int best_length(const int *shared, int n, int have, int limit, int below)
{
    int64_t best = 0;
    int length = 0;
    for (int i = 0; i < n; i++) {
        const int candidate = shared[i] < limit ? shared[i] : limit;
        int64_t gain = 0;
        if (candidate - have < MIN_TOKENS || shared[i] >= below)
            continue;
        for (int k = 0; k < n; k++)
            gain += shared[k] >= candidate && shared[k] < below ? candidate - have : 0;
        if (gain > best) {
            best = gain;
            length = candidate;
        }
    }
    return length;
}

/* The length to compute next: on the way to the best one those that others can use are kept too. */
static int next_length(const int *shared, int n, int have, int limit)
{
    int length = best_length(shared, n, have, limit, INT_MAX);
    for (int less = length; less > 0; less = best_length(shared, n, have, limit, length))
        length = less;
    return length;
}

static const float *soft_from(const struct prefix_store *p, const struct prefix_prompt *prompt, int n)
{
    const float *soft = prompt->soft;
    for (int i = 0; i < n && soft; i++)
        soft += engine_takes_soft(p->m, prompt->ids[i]) ? p->hidden_size : 0;
    return soft;
}

/* Computes the prompt's first n tokens, from `base` on if there is one, and keeps them. NULL if the engine fails. */
static struct entry *compute(struct prefix_store *p, const struct prefix_prompt *prompt, struct entry *base, int n,
                             struct err *e)
{
    const double start = clock_ms();
    const int have = base ? base->n : 0;
    struct seq *s = base ? seq_fork(base->seq) : seq_new(p->m);
    const struct step_input in = {.seq = s, .ids = prompt->ids + have, .n = n - have, .soft = soft_from(p, prompt, have)};
    if (engine_step(p->m, &in, 1, e)) {
        seq_free(s);
        return NULL;
    }
    const double ms = clock_ms() - start;
    struct entry *x = add_entry(p, (struct entry){.n = n});
    struct hashing h;
    hash_start(&h, p, prompt);
    hash_key(&h, n, x->key);
    keep_in_memory(p, x, s);
    if (p->dir && ms >= p->settings.worth_ms)
        write_file(p, x);
    return x;
}

int prefix_begin(struct prefix_store *p, const struct prefix_prompt *mine, const struct prefix_prompt *others,
                 int n_others, int *shared, struct seq **out, struct err *e)
{
    *out = NULL;
    for (int i = 0; i < n_others; i++)
        shared[i] = common(p, mine, &others[i]);
    if (mine->n < 1 || mine->n >= engine_info(p->m)->max_positions)
        return 0;
    struct entry *x = find(p, mine);
    p->counts.prompt_tokens += mine->n;
    p->counts.saved += x ? x->n : 0;
    for (int n; (n = next_length(shared, n_others, x ? x->n : 0, mine->n - 1)) > 0;)
        if (!(x = compute(p, mine, x, n, e)))
            return -1;
    *out = x ? seq_fork(x->seq) : NULL;
    drop_unkept(p);
    return 0;
}

struct prefix_counts prefix_counts(const struct prefix_store *p)
{
    return p->counts;
}

/* ---- the store ------------------------------------------------------------------------------------------------- */

struct prefix_store *prefix_open(struct engine *m, const struct prefix_settings *s)
{
    struct prefix_store *p = NEW(struct prefix_store, 1);
    p->m = m;
    p->settings = *s;
    p->dir = s->dir ? mem_strdup(s->dir) : NULL;
    p->identity = mem_strdup(s->identity);
    p->hidden_size = (size_t)engine_info(m)->hidden_size;
    scan(p);
    return p;
}

void prefix_close(struct prefix_store *p)
{
    if (!p)
        return;
    for (int i = 0; i < p->n_entries; i++)
        seq_free(p->entry[i].seq);
    free(p->entry);
    free(p->dir);
    free(p->identity);
    free(p);
}

void prefix_remove_files(struct prefix_store *p)
{
    for (int i = 0; i < p->n_entries; i++)
        if (p->entry[i].disk_bytes)
            remove_file(p, &p->entry[i]);
    if (p->dir)
        rmdir(p->dir);
}
