/* import_kinds.c - one row of each tool's files. Field names are those that lm-evaluation-harness 0.4, lmms-eval,
 * Inspect, VLMEvalKit, the Open ASR leaderboard and llama.cpp write. */
#include "eval/import.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- lm-evaluation-harness, lmms-eval -------------------------------------------------------------------------- */

/* A choice by its index, or what stands behind GSM8K's "####"; else the text itself. */
static const char *gold_text(struct importer *im, const struct import_row *row, const cJSON *value)
{
    const char *text = import_text(im, value);
    const double index = row->n_options ? import_number(value) : NAN;
    if (text && row->n_options && index >= 0 && index < row->n_options && index == floor(index))
        return row->labels[(int)index];
    const char *final = text ? strstr(text, "####") : NULL;
    return final ? final + 4 + strspn(final + 4, " ") : text;
}

static void read_gold(struct importer *im, const cJSON *line, const cJSON *doc, struct import_row *out)
{
    static const char *const keys[] = {"answers", "answerKey", "answer", "label"};
    const cJSON *value = NULL;
    for (size_t i = 0; !value && i < sizeof keys / sizeof *keys; i++)
        value = json_get(doc, keys[i]);
    if (!value || cJSON_IsObject(value) || cJSON_IsNull(value))
        value = json_get(line, "target");
    if (cJSON_IsArray(value)) {
        out->n_gold = import_list(im, value, &out->gold);
        return;
    }
    out->gold = ARENA_NEW(&im->arena, const char *, 1);
    out->gold[0] = gold_text(im, out, value);
    out->n_gold = out->gold[0] != NULL;
}

/* The responses of one document are either texts, or one [log-likelihood, is greedy] for each choice. */
static void read_responses(struct importer *im, const cJSON *line, struct import_row *out)
{
    const cJSON *responses = json_get(line, "resps"), *response;
    const cJSON *first = import_dig(responses, "0.0");
    if (!cJSON_IsArray(first)) {
        out->output = import_text(im, first ? first : import_dig(line, "filtered_resps.0"));
        return;
    }
    int n = cJSON_GetArraySize(responses), best = -1, i = 0;
    double *logprob = ARENA_NEW(&im->arena, double, n);
    cJSON_ArrayForEach(response, responses) {
        logprob[i] = import_number(import_dig(response, "0.0"));
        if (isfinite(logprob[i]) && (best < 0 || logprob[i] > logprob[best]))
            best = i;
        i++;
    }
    if (n == out->n_options && best >= 0) {
        out->option_logprob = logprob;
        out->answer = out->labels[best];
    }
}

static void read_metric(struct importer *im, const cJSON *line, struct import_row *out)
{
    static const char *const usual[] = {"exact_match", "acc", "relaxed_overall", "anls", "accuracy"};
    const cJSON *metric, *metrics = json_get(line, "metrics");
    cJSON_ArrayForEach(metric, metrics)
        if (!out->metric && cJSON_IsString(metric) && strcmp(metric->valuestring, "wer") != 0 &&
            isfinite(import_number(json_get(line, metric->valuestring))))
            out->metric = import_text(im, metric);
    for (size_t i = 0; !out->metric && i < sizeof usual / sizeof *usual; i++)
        if (isfinite(import_number(json_get(line, usual[i]))))
            out->metric = usual[i];
    if (!out->metric)
        return;
    out->score = import_number(json_get(line, out->metric));
    out->correct = out->score >= 0.5;
}

/* Ids as this project gives them to the same samples, so that runs can be paired. */
static void read_id(struct importer *im, const cJSON *line, const cJSON *doc, struct import_row *out)
{
    static const char *const keys[] = {"id", "question_id", "questionId", "index"};
    const char *number = import_text(im, json_get(line, "doc_id")), *id = NULL;
    if (strcmp(out->task, "gsm8k") == 0)
        id = arena_printf(&im->arena, "gsm8k/test/%s", number ? number : "");
    else if (strcmp(out->task, "mmlu") == 0 && out->subject)
        id = arena_printf(&im->arena, "mmlu/test/%s/%s", out->subject, number ? number : "");
    for (size_t i = 0; !id && i < sizeof keys / sizeof *keys; i++)
        id = import_text(im, json_get(doc, keys[i]));
    out->id = id ? id : number ? arena_printf(&im->arena, "%s/%s", out->task, number) : NULL;
}

static int lm_eval_row(struct importer *im, const cJSON *line, struct import_row *out, struct err *e)
{
    const cJSON *doc = json_get(line, "doc");
    const char *filter = json_string(line, "filter");
    if (!json_get(line, "doc_id") || (!json_get(line, "resps") && !json_get(line, "filtered_resps")))
        return err_input(e, "keys \"doc_id\" and \"resps\" were expected, as --log_samples writes them");
    if (filter && !im->filter)
        im->filter = mem_strdup(filter);
    if (filter && strcmp(filter, im->filter) != 0)
        return 0;
    out->subject = import_text(im, json_get(doc, "subject"));
    out->question = import_text(im, json_get(doc, "question"));
    import_choices(im, doc, out);
    read_gold(im, line, doc, out);
    read_responses(im, line, out);
    read_metric(im, line, out);
    out->confidence = import_number(json_get(line, "confidence"));
    out->entropy = import_number(import_dig(line, "entropy.mean"));
    read_id(im, line, doc, out);
    return 1;
}

const struct import_kind import_lm_eval = {
    "lm-eval", NULL, lm_eval_row, "lm-evaluation-harness: samples_*.jsonl of --log_samples", NULL};
const struct import_kind import_lmms_eval = {
    "lmms-eval", "logs", lm_eval_row, "lmms-eval: *_samples_*.jsonl of --log_samples", NULL};

/* ---- Inspect --------------------------------------------------------------------------------------------------- */

/* A message's content is a text or a list of parts. */
static const char *message_text(struct importer *im, const cJSON *content)
{
    const cJSON *part;
    if (!cJSON_IsArray(content))
        return import_text(im, content);
    struct text t = {0};
    cJSON_ArrayForEach(part, content) {
        const char *s = json_string(part, "text");
        text_puts(&t, s ? s : "");
    }
    const char *copy = arena_strndup(&im->arena, t.data ? t.data : "", t.len);
    text_free(&t);
    return copy;
}

static double inspect_score(const cJSON *value)
{
    if (cJSON_IsString(value) && strlen(value->valuestring) == 1) {
        const char *at = strchr("INPC", value->valuestring[0]);     /* incorrect, no answer, partial, correct */
        if (at)
            return *at == 'C' ? 1 : *at == 'P' ? 0.5 : 0;
    }
    return import_number(value);
}

static int inspect_row(struct importer *im, const cJSON *s, struct import_row *out, struct err *e)
{
    const char *id = import_text(im, json_get(s, "id"));
    const double epoch = import_number(json_get(s, "epoch"));
    if (!id || !json_get(s, "output"))
        return err_input(e, "keys \"id\" and \"output\" were expected, as in the samples of an Inspect log");
    out->id = epoch > 1 ? arena_printf(&im->arena, "%s/epoch%d", id, (int)epoch) : id;
    out->group = isfinite(epoch) ? id : NULL;
    out->question = import_text(im, json_get(s, "input"));
    import_choices(im, s, out);
    out->n_gold = import_list(im, json_get(s, "target"), &out->gold);
    const cJSON *choice = import_dig(s, "output.choices.0");
    out->output = message_text(im, import_dig(choice, "message.content"));
    const char *stop = json_string(choice, "stop_reason");
    out->stop = stop && strcmp(stop, "stop") == 0 ? "eos" : stop && strcmp(stop, "max_tokens") == 0 ? "length" : stop;
    out->tokens = import_count(import_dig(s, "output.usage.output_tokens"));
    out->prompt_tokens = import_count(import_dig(s, "output.usage.input_tokens"));
    out->ms = import_number(import_dig(s, "output.time")) * 1e3;
    out->error = json_string(json_get(s, "error"), "message");
    const cJSON *scores = json_get(s, "scores"), *score = scores ? scores->child : NULL;
    if (score) {
        out->metric = score->string;
        out->answer = import_text(im, json_get(score, "answer"));
        out->score = inspect_score(json_get(score, "value"));
        out->correct = isfinite(out->score) ? out->score >= 0.5 : -1;
    }
    return 1;
}

const struct import_kind import_inspect = {"inspect", "samples", inspect_row, "Inspect: .eval and .json logs", NULL};

/* ---- VLMEvalKit ------------------------------------------------------------------------------------------------ */

static int vlmevalkit_row(struct importer *im, const cJSON *row, struct import_row *out, struct err *e)
{
    out->id = import_text(im, json_get(row, "index"));
    out->output = import_text(im, json_get(row, "prediction"));
    if (!out->id || (!out->output && !json_get(row, "hit")))
        return err_input(e, "columns \"index\" and \"prediction\" were expected");
    out->question = import_text(im, json_get(row, "question"));
    out->subject = import_text(im, json_get(row, "category"));
    import_choices(im, row, out);
    out->n_gold = import_list(im, json_get(row, "answer"), &out->gold);
    const cJSON *hit = json_get(row, "hit") ? json_get(row, "hit") : json_get(row, "score");
    out->score = import_number(hit);
    if (isfinite(out->score)) {
        out->metric = json_get(row, "hit") ? "hit" : "score";
        out->correct = out->score >= 0.5;
    }
    return 1;
}

const struct import_kind import_vlmevalkit = {
    "vlmevalkit", NULL, vlmevalkit_row, "VLMEvalKit: .xlsx, .tsv, .csv or .json predictions", NULL};

/* ---- Open ASR leaderboard -------------------------------------------------------------------------------------- */

static int open_asr_row(struct importer *im, const cJSON *row, struct import_row *out, struct err *e)
{
    out->id = import_text(im, json_get(row, "audio_filepath"));
    out->output = import_text(im, json_get(row, "pred_text"));
    out->n_gold = import_list(im, json_get(row, "text"), &out->gold);
    if (!out->id || !out->output || !out->n_gold)
        return err_input(e, "keys \"audio_filepath\", \"text\" and \"pred_text\" were expected");
    out->modality = "audio";
    out->ms = import_number(json_get(row, "time")) * 1e3;
    return 1;
}

const struct import_kind import_open_asr = {
    "open-asr", NULL, open_asr_row, "Open ASR leaderboard: manifests (JSONL) with text and pred_text",
    "open-asr"};

/* ---- llama-perplexity ------------------------------------------------------------------------------------------ */

/* --multiple-choice and --hellaswag print "number <tab> percent right so far" behind each task, --winogrande six
 * columns of which the last two are the model's choice and the right one. */
static int llama_perplexity_row(struct importer *im, const cJSON *line, struct import_row *out, struct err *e)
{
    int number, chosen, right, end = 0;
    double percent;
    if (!cJSON_IsString(line) || sscanf(line->valuestring, "%d\t%lf%n", &number, &percent, &end) < 2)
        return 0;
    const char *rest = line->valuestring + end;
    if (number != im->done + 1)
        return err_input(e, "task %lld was expected, not %d", (long long)im->done + 1, number);
    if (sscanf(rest, " %*f %*f %d %d", &chosen, &right) == 2) {
        out->correct = chosen == right;
    } else {
        const double so_far = percent * number / 100;
        out->correct = llround(so_far) - im->right == 1;
        if (!isfinite(so_far) || fabs(so_far - round(so_far)) > 1e-3 || llround(so_far) - im->right > 1 ||
            llround(so_far) < im->right)
            return err_input(e, "%g%% of %d tasks do not follow from the line before", percent, number);
    }
    im->done++;
    im->right += out->correct;
    out->score = out->correct;
    out->metric = "acc_norm";
    out->id = arena_printf(&im->arena, "%s/%d", out->task, number - 1);
    return 1;
}

const struct import_kind import_llama_perplexity = {
    "llama-perplexity", NULL, llama_perplexity_row,
    "llama-perplexity: the output of --multiple-choice, --hellaswag, --winogrande", NULL};

/* ---- any table ------------------------------------------------------------------------------------------------- */

/* The column that holds a field: as --map says, else the one of the same name. */
static const cJSON *field(const struct importer *im, const cJSON *row, const char *name)
{
    const size_t n = strlen(name);
    for (int i = 0; i < im->options->n_columns; i++) {
        const char *map = im->options->column[i];
        if (strncmp(map, name, n) == 0 && map[n] == '=') {
            const cJSON *whole = json_get(row, map + n + 1);
            return whole ? whole : import_dig(row, map + n + 1);
        }
    }
    return import_dig(row, name);
}

static int table_row(struct importer *im, const cJSON *row, struct import_row *out, struct err *e)
{
    if (!cJSON_IsObject(row))
        return err_input(e, "a row with named columns was expected");
    const char *task = import_text(im, field(im, row, "task"));
    if (task && !im->options->task)
        out->task = import_task_name(im, task);
    out->id = import_text(im, field(im, row, "id"));
    out->modality = import_text(im, field(im, row, "modality"));
    out->group = import_text(im, field(im, row, "group"));
    out->subject = import_text(im, field(im, row, "subject"));
    out->question = import_text(im, field(im, row, "question"));
    out->output = import_text(im, field(im, row, "output"));
    out->answer = import_text(im, field(im, row, "answer"));
    out->stop = import_text(im, field(im, row, "stop"));
    import_choices(im, row, out);
    out->n_gold = import_list(im, field(im, row, "gold"), &out->gold);
    out->score = import_number(field(im, row, "score"));
    const double correct = import_number(field(im, row, "correct"));
    out->correct = isfinite(correct) ? correct >= 0.5 : isfinite(out->score) ? out->score >= 0.5 : -1;
    out->confidence = import_number(field(im, row, "confidence"));
    out->entropy = import_number(field(im, row, "entropy.mean"));
    out->logprob = import_number(field(im, row, "logprob"));
    out->ms = import_number(field(im, row, "ms"));
    out->tokens = import_count(field(im, row, "tokens"));
    out->prompt_tokens = import_count(field(im, row, "prompt_tokens"));
    out->wer_edits = import_count(field(im, row, "wer.edits"));
    out->wer_words = import_count(field(im, row, "wer.words"));
    return 1;
}

const struct import_kind import_table = {
    "table", NULL, table_row, "any .csv .tsv .jsonl .json .parquet .xlsx; --map FIELD=COLUMN names its columns", NULL};
