/* prompt.c - from a sample to the question as it is asked: templates, examples, the conversation. */
#include "datasets/reader.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void put_trimmed(struct text *t, const char *s)
{
    size_t n = strlen(s);
    while (n && isspace((unsigned char)*s)) {
        s++;
        n--;
    }
    while (n && isspace((unsigned char)s[n - 1]))
        n--;
    text_put(t, s, n);
}

static void put_options(struct text *t, const struct sample *s, bool trim)
{
    for (int i = 0; i < s->n_choices; i++) {
        text_printf(t, "%s%s. ", i ? "\n" : "", s->labels[i]);
        if (trim)
            put_trimmed(t, s->choices[i]);
        else
            text_puts(t, s->choices[i]);
    }
}

/* "A, B or C" */
static void put_labels(struct text *t, const struct sample *s)
{
    for (int i = 0; i < s->n_choices; i++)
        text_printf(t, "%s%s", i == 0 ? "" : i == s->n_choices - 1 ? " or " : ", ", s->labels[i]);
}

/* A worked example's reasoning as MMLU-Pro's harness appends it: without its "A: Let's think step by step." */
static void put_thought(struct text *t, const struct sample *s)
{
    static const char lead[] = "A: Let's think step by step.";
    const char *thought = text_or(s->meta, "cot_content", "");
    text_puts(t, strncmp(thought, lead, sizeof lead - 1) == 0 ? thought + sizeof lead - 1 : thought);
}

/* One placeholder; false if there is none of that name. */
static bool put_field(struct text *t, const struct sample *s, const char *name, size_t n)
{
#define IS(word) (n == sizeof word - 1 && memcmp(name, word, sizeof word - 1) == 0)
    const char *question = s->question ? s->question : "";
    if (IS("question")) {
        text_puts(t, question);
    } else if (IS("question.trim")) {
        put_trimmed(t, question);
    } else if (IS("options") || IS("options.trim")) {
        put_options(t, s, IS("options.trim"));
    } else if (IS("labels")) {
        put_labels(t, s);
    } else if (IS("subject")) {
        for (const char *p = s->subject; *p; p++)
            text_putc(t, *p == '_' ? ' ' : *p);
    } else if (IS("hint")) {
        text_puts(t, text_or(s->meta, "hint", ""));
    } else if (IS("hint.line")) {
        if (*text_or(s->meta, "hint", ""))
            text_printf(t, "Hint: %s\n", text_or(s->meta, "hint", ""));
    } else if (IS("answer") || IS("label")) {
        text_puts(t, s->answer_index >= 0 ? s->labels[s->answer_index] : s->n_answers ? s->answers[0] : "");
    } else if (IS("choice")) {
        text_puts(t, s->answer_index >= 0 ? s->choices[s->answer_index] : "");
    } else if (IS("solution")) {
        text_puts(t, text_or(s->meta, "answer_raw", s->n_answers ? s->answers[0] : ""));
    } else if (IS("thought")) {
        put_thought(t, s);
    } else {
        bool label = n >= 6 && memcmp(name, "label", 5) == 0, choice = n >= 7 && memcmp(name, "choice", 6) == 0;
        int i = atoi(name + (label ? 5 : 6));
        if ((!label && !choice) || !isdigit((unsigned char)name[n - 1]))
            return false;
        if (i < s->n_choices)
            text_puts(t, label ? s->labels[i] : s->choices[i]);
    }
#undef IS
    return true;
}

/* Fills a template. A brace that does not enclose a lower-case name stands for itself. */
static int render(struct text *t, const char *template, const struct sample *s, struct err *e)
{
    for (const char *p = template; *p;) {
        size_t n = *p == '{' ? strspn(p + 1, "abcdefghijklmnopqrstuvwxyz.0123456789") : 0;
        if (n && p[1 + n] == '}') {
            if (!put_field(t, s, p + 1, n))
                return err_set(e, EXIT_USAGE, "prompt template: there is no {%.*s}; see datasets/suites/README.md",
                               (int)n, p + 1);
            p += n + 2;
        } else {
            text_putc(t, *p++);
        }
    }
    return 0;
}

/* ---- examples ---------------------------------------------------------------------------------------------------- */

/* test.jsonl -> train.jsonl, ARC-Easy-Test.jsonl -> ARC-Easy-Train.jsonl, .../test -> .../dev; NULL if not there. */
static char *sibling(const char *path, const char *split, const char *shot_split)
{
    const char *base = path_base(path);
    for (int capital = 0; capital < 2; capital++) {
        char from[64], to[64];
        snprintf(from, sizeof from, "%s", split);
        snprintf(to, sizeof to, "%s", shot_split);
        if (capital) {
            from[0] = (char)toupper((unsigned char)from[0]);
            to[0] = (char)toupper((unsigned char)to[0]);
        }
        const char *at = strstr(base, from);
        if (!at)
            continue;
        struct text t = {0};
        text_put(&t, path, (size_t)(at - path));
        text_printf(&t, "%s%s", to, at + strlen(from));
        if (file_exists(t.data) || path_is_dir(t.data))
            return text_take(&t);
        text_free(&t);
    }
    return NULL;
}

static int open_shot_set(struct dataset *d, struct err *e)
{
    const char *split = d->format->shot_split;
    struct err first = {0};
    if (dataset_reopen(&d->shot_set, d, split, &first) == 0)
        return 0;
    char *path = d->split ? sibling(archive_path(d->archive), d->split, split) : NULL;
    int rc = -1;
    if (path) {
        struct task_spec spec = {.task = d->spec.task, .format = d->spec.format, .path = path, .split = split};
        rc = dataset_open(&d->shot_set, &spec, e);
        free(path);
    } else {
        err_input(e, "%s: no %s split for the examples of the prompt", d->spec.path, split);
    }
    return rc;
}

static const char *question_template(const struct dataset *d)
{
    return strcmp(d->spec.prompt, "harness") == 0 ? d->format->style.question : d->spec.prompt;
}

static int examples_of(const struct dataset *d, const char *subject)
{
    int n = 0;
    for (int i = 0; i < d->n_examples; i++)
        n += strcmp(d->examples[i].subject, subject) == 0;
    return n;
}

/* The first `shots` of each subject, in file order. */
static int read_examples(struct dataset *d, struct err *e)
{
    struct sample s;
    int got, rc = 0;
    if (open_shot_set(d, e))
        return -1;
    while (!rc && (got = dataset_next(d->shot_set, &s, e)) != 0) {
        if (got < 0)
            return -1;
        if (examples_of(d, s.subject) >= d->spec.shots)
            continue;
        struct text question = {0}, answer = {0};
        rc = render(&question, question_template(d), &s, e) || render(&answer, d->format->style.answer, &s, e) ? -1 : 0;
        d->examples = mem_grow(d->examples, (size_t)d->n_examples + 1, sizeof *d->examples);
        d->examples[d->n_examples++] = (struct example){mem_strdup(s.subject), text_take(&question),
                                                        text_take(&answer)};
        if (!*s.subject && d->n_examples == d->spec.shots)
            break;
    }
    return rc;
}

int dataset_prepare_prompts(struct dataset *d, struct err *e)
{
    bool asked = d->spec.shots >= 0;
    if (!asked)
        d->spec.shots = d->format->shots;
    if (!d->format->shot_split && d->spec.shots > 0) {
        dataset_warn(d, "this set has no examples for the prompt; asked without");
        d->spec.shots = 0;
    }
    bool own_template = d->spec.prompt != NULL;
    if (!own_template)
        d->spec.prompt = d->spec.shots > 0 ? "harness" : d->format->prompt;
    if (strcmp(d->spec.prompt, "harness") == 0 && !d->format->style.question)
        return err_set(e, EXIT_USAGE, "%s: no harness prompt is known for this set", d->spec.task);
    if (d->spec.shots == 0)
        return 0;
    struct err why = {0};
    if (read_examples(d, &why) == 0)
        return 0;
    if (asked) {
        *e = why;
        return -1;
    }
    d->spec.shots = 0;
    if (!own_template)
        d->spec.prompt = d->format->prompt;
    dataset_warn(d, "%s; asked without examples", why.msg);
    return 0;
}

/* ---- the prompt -------------------------------------------------------------------------------------------------- */

int dataset_prompt_text(struct dataset *d, const struct sample *s, struct text *out, struct err *e)
{
    bool harness = strcmp(d->spec.prompt, "harness") == 0;
    if (harness && render(out, d->format->style.intro, s, e))
        return -1;
    int used = 0;
    for (int i = 0; i < d->n_examples && used < d->spec.shots; i++) {
        const struct example *x = &d->examples[i];
        if (*x->subject && strcmp(x->subject, s->subject) != 0)
            continue;
        const char *answer = x->answer;
        while (!harness && *answer == ' ')
            answer++;
        text_printf(out, "%s%s%s\n\n", x->question, harness ? "" : "\n", answer);
        used++;
    }
    return render(out, s->prompt ? s->prompt : question_template(d), s, e);
}

int dataset_continuations(const struct sample *s, struct arena *a, const char ***out)
{
    bool letters = strncmp(s->dataset, "arc", 3) != 0;
    *out = ARENA_NEW(a, const char *, s->n_choices);
    for (int i = 0; i < s->n_choices; i++)
        (*out)[i] = arena_printf(a, " %s", letters ? s->labels[i] : s->choices[i]);
    return s->n_choices;
}

cJSON *dataset_prompt(struct dataset *d, const struct sample *s, struct err *e)
{
    struct text t = {0};
    if (s->messages)
        return cJSON_Duplicate(s->messages, true);
    if (dataset_prompt_text(d, s, &t, e)) {
        text_free(&t);
        return NULL;
    }
    cJSON *messages = cJSON_CreateArray();
    if (d->spec.system && *d->spec.system) {
        cJSON *system = cJSON_CreateObject();
        cJSON_AddStringToObject(system, "role", "system");
        cJSON_AddStringToObject(system, "content", d->spec.system);
        cJSON_AddItemToArray(messages, system);
    }
    cJSON *user = cJSON_CreateObject();
    cJSON_AddStringToObject(user, "role", "user");
    cJSON_AddItemToArray(messages, user);
    const char *text = t.data ? t.data : "";
    if (s->n_media == 0) {
        cJSON_AddStringToObject(user, "content", text);
    } else {
        cJSON *parts = cJSON_AddArrayToObject(user, "content");
        for (int i = 0; i <= s->n_media; i++) {
            cJSON *part = cJSON_CreateObject();
            cJSON_AddStringToObject(part, "type", i < s->n_media ? modality_name(s->media[i].kind) : "text");
            if (i == s->n_media)
                cJSON_AddStringToObject(part, "text", text);
            cJSON_AddItemToArray(parts, part);
        }
    }
    text_free(&t);
    return messages;
}
