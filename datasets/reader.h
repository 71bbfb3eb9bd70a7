/* reader.h - what a reader of one data set is, inside this room.
 *
 * A format finds its table files in the archive (find), and turns each of their rows into a sample (map). The frame in
 * dataset.c does the rest: splits, iteration, refused rows, repeated ids, notes, fingerprint.
 */
#ifndef HANDOFF_DATASETS_READER_H
#define HANDOFF_DATASETS_READER_H

#include "engine/base_archive.h"
#include "datasets/datasets.h"
#include "datasets/rows.h"

/* A table file of a data set. */
struct source {
    const struct member *member;
    struct archive *archive;    /* that holds it; NULL: the data set's own */
    enum row_kind kind;
    const char *list_key;       /* ROWS_JSON: the list's key if the file is an object */
    const char *split;          /* the publisher's name; "" if rows say it themselves */
    const char *tag;            /* the format's own: subject, human or augmented, ... */
};

/* Rows that the publisher counts in a split. */
struct published { const char *split; int64_t rows; };

/* How a harness writes the question down as plain text, with examples before it. */
struct prompt_style {
    const char *intro;          /* once, before everything */
    const char *question;       /* template of a question, up to where the answer begins */
    const char *answer;         /* template of an example's answer; {answer} {label} {solution} {thought} */
};

struct format {
    const char *name;           /* task and format name: "arc-easy" */
    const char *dataset;        /* the name in the normalised form: "arc_easy" */
    enum answer_type type;
    enum sample_modality modality;
    const char *split;          /* default split */
    const char *shot_split;     /* where examples come from, NULL: nowhere */
    int shots, max_tokens;      /* defaults */
    const char *grader, *extract, *normalizer;
    const char *prompt;         /* default user turn without examples */
    struct prompt_style style;  /* "harness": with examples, and as the published goldens have it */
    struct published published[6];
    int (*find)(struct dataset *d, struct err *e);
    enum row_result (*map)(struct dataset *d, struct sample *s, struct err *e);
    void (*finish)(struct dataset *d);          /* behind the last row; may be NULL */
    void (*close)(struct dataset *d);           /* may be NULL */
};

const struct format *format_find(const char *name);     /* NULL if there is none */

/* The same files once more: for counting, or another split for examples. */
int dataset_reopen(struct dataset **out, struct dataset *d, const char *split, struct err *e);
/* Settles template and number of examples of a freshly opened set, and reads the examples. */
int dataset_prepare_prompts(struct dataset *d, struct err *e);

/* Hashes of what was seen, each with a word about it ("" if there is nothing to say). */
struct known_slot { uint64_t hash; const char *what; };
struct known { struct known_slot *slots; size_t n, cap; };
struct example { char *subject, *question, *answer; };  /* rendered */

struct dataset {
    struct task_spec spec;
    const struct format *format;
    struct archive *archive;
    struct archive **nested;    /* archives inside a folder, opened by the format */
    int n_nested;
    struct dataset *parent;     /* whose archives are shared, while opening */
    struct base_name { const char *base; struct archive *archive; const struct member *member; } *bases;
    size_t n_bases;
    struct arena arena;         /* lives as long as the data set */
    struct source *sources;
    int n_sources, i_source;
    const char *split;          /* chosen; NULL: all */
    bool dry;                   /* count only: media are not loaded */

    struct rows *rows;
    struct row row;
    int64_t row_index;          /* of the row in its source, from 0, refused ones counted */
    int part;                   /* a row with several samples: which one (from 0) */
    bool again;                 /* set by map: the same row has another part */
    enum row_result refusal;    /* what a failed field check means: the row or the whole file */
    struct arena scratch;       /* lives until the next sample */
    cJSON *meta;
    struct blob *media_blobs;
    int n_media_blobs, cap_media_blobs;
    void *state;                /* the format's own, freed by its close */

    struct known ids, contents;         /* of this split: ids; contents, with the id */
    struct known listed, elsewhere;     /* contaminated: by the list; by the set's other splits, with the split */
    int64_t n_read, n_skipped, n_ignored, n_repeated, n_listed, n_elsewhere;
    int64_t count, n_rows;      /* of a quick pass: samples, and rows with damaged ones; -1: there was none */
    struct counter { char *key; int64_t n; } *counters;
    int n_counters;
    struct sha256 sha;
    char *media_name, media_sha[65];    /* of the media hashed last: segments of one recording follow each other */
    struct text found, warnings, skipped, notes;
    int n_warnings, n_skip_lines;
    bool ended;

    struct dataset *shot_set;
    struct example *examples;
    int n_examples;
};

/* ---- duplicates.c ------------------------------------------------------------------------------------------------ */

uint64_t hash_bytes(uint64_t h, const void *bytes, size_t n);
uint64_t hash_text(uint64_t h, const char *s);
uint64_t hash_question(const struct sample *s);         /* the question with its choices */
/* What was known of this hash, NULL if it was new and is now known. */
const char *known_add(struct known *k, uint64_t h, const char *what);
const char *known_find(const struct known *k, uint64_t h);
/* Reads the list of contaminated questions and what other splits hold. */
int duplicates_prepare(struct dataset *d, struct err *e);
/* Sets s->repeats and s->contaminated. content: hash of the question with its choices and media. */
void duplicates_mark(struct dataset *d, struct sample *s, uint64_t content);
void duplicates_close(struct dataset *d);

/* ---- for find() -------------------------------------------------------------------------------------------------- */

void add_source(struct dataset *d, struct source s);
/* Adds the parquet shards of the archive, those whose name contains `config` as a whole folder or name part if that is
 * not NULL. Splits are read from their names ("test-00000-of-00002.parquet", "test/0000.parquet") and renamed by
 * pairs {"validation", "val", NULL}. Returns how many were added. */
int add_parquet(struct dataset *d, const char *config, const char *const *renames);
/* Opens an archive that lies inside the data set's folder; it belongs to the data set. NULL on error. */
struct archive *open_nested(struct dataset *d, const char *name, struct err *e);
void note_form(struct dataset *d, const char *fmt, ...) PRINTF_LIKE(2, 3);
void dataset_warn(struct dataset *d, const char *fmt, ...) PRINTF_LIKE(2, 3);
int not_found(struct dataset *d, const char *expected, struct err *e);
bool text_ends(const char *s, const char *end);
bool text_begins(const char *s, const char *begin);
const char *folder_of(struct arena *a, const char *name);       /* "a/b" of "a/b/c.csv"; "" at the top */

/* ---- for map() --------------------------------------------------------------------------------------------------- */

/* "file:line" of the row at hand. */
const char *row_where(struct dataset *d);
/* Refuses the row: fills e and returns d->refusal's row form. */
enum row_result refuse(struct dataset *d, struct err *e, const char *class_name, const char *fmt, ...)
    PRINTF_LIKE(4, 5);
/* A required text; absent, null or of another type: NULL with d->refusal set. */
const char *need_text(struct dataset *d, const cJSON *object, const char *key, struct err *e);
/* The text of a string or number node, NULL for anything else; ids come as both. */
const char *scalar_text(struct dataset *d, const cJSON *node);
/* A text that may be absent or null: fallback. */
const char *text_or(const cJSON *object, const char *key, const char *fallback);
/* The choices of an array of strings; labels NULL: A, B, C, ... */
int set_choices(struct dataset *d, struct sample *s, const cJSON *texts, const cJSON *labels, struct err *e);
/* The choice that carries this label is the answer. */
int set_answer_label(struct dataset *d, struct sample *s, const char *label, struct err *e);
void set_answer(struct dataset *d, struct sample *s, const char *text);         /* the one accepted answer */
int set_answers(struct dataset *d, struct sample *s, const cJSON *list, struct err *e);
cJSON *sample_meta(struct dataset *d, struct sample *s);       /* created at the first call */
const char *letter(struct dataset *d, int i);                   /* "A" for 0 */
int64_t count_up(struct dataset *d, const char *key);           /* 0, 1, 2, ... per key */
/* Media of a sample: a member of an archive, a file beside a table that was named alone, or bytes that live as long as
 * the row. Checked by media.c. */
struct place { struct archive *archive; const struct member *member; const char *file; double begin_s, end_s; };
int add_member_media(struct dataset *d, struct sample *s, enum sample_modality kind, struct place p, size_t max,
                     struct err *e);
/* Whether there is such a place. */
bool place_found(struct place p);
/* What a name means that is relative to the folder of the row's table. */
struct place find_beside(struct dataset *d, const char *name);
/* The same, else by its last name in any archive of the set. */
struct place find_media(struct dataset *d, const char *name);
int add_bytes_media(struct dataset *d, struct sample *s, enum sample_modality kind, const void *bytes, size_t n,
                    const char *name, struct err *e);
/* A hub's media struct {bytes, path}, null members refused. */
int add_cell_media(struct dataset *d, struct sample *s, enum sample_modality kind, const cJSON *cell,
                   const char *name, struct err *e);

/* ---- media.c ----------------------------------------------------------------------------------------------------- */

/* Whether the bytes are a whole picture or sound of a known kind; *warning is "" or a remark. */
int media_check(const struct sample_media *m, char *warning, size_t warning_size, struct err *e);
/* Appends kind, hash, size, format, dimensions and the hash of the decoded content, in the fixtures' order. */
cJSON *media_describe(const struct sample_media *m);

extern const struct format format_mmlu, format_mmlu_pro, format_arc_easy, format_arc_challenge, format_gsm8k,
    format_jsonl, format_mmbench, format_chartqa, format_docvqa, format_mmau, format_librispeech, format_gigaspeech,
    format_earnings22;

/* PNG (8 bits or fewer a channel, not interlaced) to RGB rows with the alpha channel dropped, into *rgb (caller frees).
 * false: another kind, or damaged. */
bool png_rgb(const uint8_t *bytes, size_t n, uint8_t **rgb, size_t *n_rgb);

#endif
