/* Reading records: what is kept, what is refused and how it is said, pairing, and agreement with json_parse. */
#define _GNU_SOURCE
#include "eval/records.h"
#include "eval/record_line.h"
#include "tests/test.h"

#include <stdlib.h>
#include <unistd.h>

static struct records r;
static struct err e;

static int parse(const char *s)
{
    e = (struct err){0};
    return records_parse(&r, "x.jsonl", s, strlen(s), NULL, &e);
}

static void refuses(const char *s, const char *message)
{
    if (CHECK_MSG(parse(s) == -1, "accepted: %s", s)) {
        CHECK_MSG(strstr(e.msg, message) != NULL, "\"%s\" does not say \"%s\"", e.msg, message);
        CHECK_MSG(e.code == EXIT_BAD_INPUT, "status %d for %s", e.code, s);
    } else {
        records_close(&r);
    }
}

static void full_record(void)
{
    CHECK(parse("{\"id\":\"arc\\u002f1\",\"task\":\"arc-easy\",\"modality\":\"text\",\"group\":\"g\",\"output\":\"C.\","
                "\"answer\":\"C\",\"gold\":[\"C\"],\"status\":\"truncated\",\"correct\":true,\"score\":1.0,"
                "\"confidence\":0.7812,\"entropy\":{\"mean\":0.41,\"max\":2.2},\"tokens\":8,\"stop\":\"length\","
                "\"ms\":{\"encode\":0,\"prefill\":12.5,\"decode\":40.25}}\n"
                "{\"id\":\"2\",\"task\":\"librispeech\",\"score\":0.5,\"wer\":{\"edits\":3,\"words\":27},"
                "\"confidence\":1e-3}\n") == 0);
    CHECK(r.n == 2 && r.n_tasks == 2);
    CHECK_STR(r.tasks[0].name, "arc-easy");
    const struct record *a = records_row(&r, 0, 0), *b = records_row(&r, 1, 0);
    CHECK(a->confidence == 0.7812 && a->entropy == 0.41 && a->ms == 52.75f && a->group != 0);
    CHECK(a->flags == (REC_CORRECT | REC_HAS_CORRECT | REC_HAS_SCORE | REC_HAS_CONFIDENCE | REC_HAS_ENTROPY |
                       REC_TRUNCATED | REC_RUNAWAY));
    CHECK(b->flags == (REC_HAS_WER | REC_HAS_CONFIDENCE) && b->wer.edits == 3 && b->wer.words == 27);
    CHECK(b->confidence == 0.001 && r.tasks[1].wer && !r.tasks[0].wer);
    CHECK(!record_wrong(a, WRONG_RULE_DEFAULT) && record_wrong(b, WRONG_RULE_DEFAULT));
    CHECK(!record_wrong(b, (struct wrong_rule){.tau = 0.2}));
    CHECK_NEAR(record_score(b), 1 - 3.0 / 27, 1e-15);
    CHECK(sizeof(struct record) == 56);
    records_close(&r);
}

static void which_entropy(void)
{
    const char *s = "{\"id\":\"1\",\"task\":\"t\",\"correct\":1,\"entropy\":{\"mean\":1,\"max\":2,\"first\":3,\"sum\":4}}";
    static const char *const kinds[] = {"mean", "max", "first", "sum"};
    for (int i = 0; i < 4; i++) {
        CHECK(records_parse(&r, "x", s, strlen(s), &(struct records_options){.entropy = kinds[i]}, &e) == 0);
        CHECK(records_row(&r, 0, 0)->entropy == i + 1);
        records_close(&r);
    }
    CHECK(records_parse(&r, "x", s, strlen(s), &(struct records_options){.entropy = "median"}, &e) == -1 && e.code == EXIT_USAGE);
}

static void order_of_tasks(void)
{
    CHECK(parse("{\"id\":\"1\",\"task\":\"zoo\",\"correct\":true}\n{\"id\":\"1\",\"task\":\"gsm8k\",\"correct\":true}\n"
                "{\"id\":\"2\",\"task\":\"zoo\",\"correct\":false}\n{\"id\":\"1\",\"task\":\"mmlu\",\"correct\":true}\n"
                "{\"id\":\"1\",\"task\":\"ape\",\"correct\":true}\n") == 0);
    static const char *const want[] = {"mmlu", "gsm8k", "ape", "zoo"};
    CHECK(r.n_tasks == 4);
    for (int i = 0; i < 4; i++)
        CHECK_STR(r.tasks[i].name, want[i]);
    CHECK(r.tasks[3].n == 2 && record_offset(records_row(&r, 3, 1)) > record_offset(records_row(&r, 3, 0)));
    CHECK(records_line(&r, records_row(&r, 3, 1)) == 0);        /* no file behind it */
    CHECK(records_task(&r, "ape") == 2 && records_task(&r, "dog") == -1);
    records_close(&r);
}

#define GOOD "{\"id\":\"1\",\"task\":\"t\",\"correct\":true,\"confidence\":0.5}\n"

static void bad_lines(void)
{
    refuses(GOOD "{\"id\":\"2\",\"task\":\"t\",\"correct\":true,\"confid", "x.jsonl:2: torn line");
    refuses(GOOD "{\"id\":\"2\",\"task\":\"t\",\"correct\":true,\"confidence\":NaN}\n", "x.jsonl:2: invalid JSON at byte");
    refuses(GOOD GOOD, "x.jsonl:2: task \"t\" has the id \"1\" a second time");
    refuses(GOOD "\n" GOOD, "x.jsonl:2: empty line");
    refuses("{\"task\":\"t\",\"correct\":true}\n", "key \"id\" is missing");
    refuses("{\"id\":\"1\",\"correct\":true}\n", "key \"task\" is missing");
    refuses("{\"id\":\"1\",\"task\":\"t\"}\n", "none of \"correct\", \"score\", \"wer\"");
    refuses("{\"id\":1,\"task\":\"t\",\"correct\":true}\n", "\"id\": a string was expected");
    refuses("{\"id\":\"1\",\"task\":\"t\",\"correct\":\"yes\"}\n", "\"correct\": true or false");
    refuses("{\"id\":\"1\",\"task\":\"t\",\"correct\":true,\"confidence\":1.5}\n", "\"confidence\": a number from 0 to 1");
    refuses("{\"id\":\"1\",\"task\":\"t\",\"correct\":true,\"confidence\":1e999}\n", "number out of range");
    refuses("{\"id\":\"1\",\"task\":\"t\",\"correct\":true,\"status\":\"fine\"}\n", "\"status\": one of ok");
    refuses("{\"id\":\"1\",\"task\":\"t\",\"wer\":{\"edits\":1}}\n", "\"wer\": whole numbers");
    refuses("{\"id\":\"1\",\"task\":\"t\",\"wer\":{\"edits\":-1,\"words\":3}}\n", "\"wer\": whole numbers");
    refuses("{\"id\":\"1\",\"task\":\"t\",\"score\":0,\"score\":1}\n", "\"score\": stands twice");
    refuses("{\"id\":\"1\",\"task\":\"t\",\"score\":0} x\n", "text behind the record");
    refuses("{\"id\":\"\xff\",\"task\":\"t\",\"score\":0}\n", "is not UTF-8");
    refuses("{\"id\":\"1\",\"task\":\"t\",\"wer\":{\"edits\":1,\"words\":3}}\n{\"id\":\"2\",\"task\":\"t\",\"score\":0}\n",
            "x.jsonl:2: task \"t\" mixes");
    refuses("", "no records");
    refuses("{\"id\":\"1\",\"task\":\"t\",\"status\":\"error\"}\n", "no record without status \"error\"");
}

static void left_out(void)
{
    CHECK(parse(GOOD "{\"id\":\"2\",\"task\":\"t\",\"correct\":null,\"status\":\"error\"}\n"
                "{\"id\":\"3\",\"task\":\"t\",\"correct\":true,\"scored\":false}\n"
                "{\"id\":\"4\",\"task\":\"t\",\"correct\":true,\"confidence\":null}") == 0);
    CHECK(r.n == 2 && r.n_error == 1 && r.tasks[0].n_error == 1 && r.n_unscored == 1);
    CHECK(!(records_row(&r, 0, 1)->flags & REC_HAS_CONFIDENCE));
    CHECK(strstr(r.notes.data, "1 record with status \"error\" left out") != NULL);
    records_close(&r);
}

static void write_file(const char *path, const char *s)
{
    CHECK_MSG(file_write_atomic(path, s, strlen(s), &e) == 0, "%s", e.msg);
}

static void run_directory(void)
{
    char dir[] = "/tmp/records-test-XXXXXX";
    CHECK(mkdtemp(dir) != NULL);
    char *records = path_join(dir, "records.jsonl"), *stamp = path_join(dir, "run.json");
    write_file(records, GOOD "{\"id\":\"2\",\"task\":\"t\",\"correct\":false}\n{\"id\":\"3\",\"ta");
    write_file(stamp, "{\"kernel\":\"avx2\"}");
    CHECK_MSG(records_open(&r, dir, NULL, &e) == 0, "%s", e.msg);
    CHECK(r.n == 2 && r.stamp && strstr(r.notes.data, ":3: the last line is torn") != NULL);
    CHECK_STR(r.name, dir + 5);
    CHECK(records_line(&r, records_row(&r, 0, 1)) == 2);
    struct records_texts *texts = records_texts_open(&r, &e);
    cJSON *line = records_text(texts, records_row(&r, 0, 1), &e);
    CHECK_STR(json_string(line, "id"), "2");
    cJSON_Delete(line);
    records_texts_close(texts);
    records_close(&r);
    CHECK(records_open(&r, records, NULL, &e) == -1 && strstr(e.msg, "records.jsonl:3: torn line") != NULL);
    unlink(records);
    CHECK(records_open(&r, dir, NULL, &e) == -1 && e.code == EXIT_BAD_INPUT);
    unlink(stamp);
    rmdir(dir);
    free(records);
    free(stamp);
}

static void many_records(void)
{
    struct text t = {0};
    enum { N = 20000 };
    for (int i = 0; i < N; i++)
        text_printf(&t, "{\"id\":\"s/%06d\",\"task\":\"t%d\",\"correct\":%s,\"confidence\":0.%06d}\n", i, i % 3,
                    i % 7 ? "true" : "false", i);
    CHECK(parse(t.data) == 0 && r.n == N);
    int found = 0;
    for (int64_t i = 0; i < r.n; i++)
        found += records_find(&r, r.rows[i].key) == &r.rows[i];
    CHECK(found == N && records_find(&r, 12345) == NULL);
    for (int64_t i = 0; i < r.n; i++)
        if (r.rows[i].confidence != (double)i / 1e6)
            CHECK_MSG(0, "row %d has confidence %.17g", (int)i, r.rows[i].confidence);
    records_close(&r);
    text_free(&t);
}

/* The scanner takes exactly what json_parse takes, and reads numbers as strtod does. */
static void agrees_with_json_parse(void)
{
    static const char *const values[] = {
        "1", "-0", "0.1", "1e5", "1E+2", "1e-300", "123456789012345678", "0.12345678901234567890", "4.9e-324", "1e400",
        "01", "1.", ".5", "+1", "-", "1e", "nan", "NaN", "Infinity", "true", "tru", "false", "null", "nul", "[]", "[1,]",
        "[1 2]", "{}", "{\"a\":}", "{\"a\":1,}", "{a:1}", "[[[]]]", "\"\\u0041\"", "\"\\u00\"", "\"\\u0000\"",
        "\"\\ud800\"", "\"\\ud83d\\ude00\"", "\"\\x\"", "\"\t\"", "\"\xc3\xa9\"", "\"\xc0\x80\"", "\"abcdefgh\x01ijk\"",
        "\"12345678\\\"9\"", "'a'", "", "9007199254740993", "0.3", "2.2250738585072011e-308", "17976931348623157e292"};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        struct text t = {0};
        text_printf(&t, "{\"id\":\"1\",\"task\":\"t\",\"correct\":true,\"x\":%s}", values[i]);
        cJSON *tree = json_parse(t.data, t.len, "x", NULL);
        bool ours = parse(t.data) == 0;
        CHECK_MSG(ours == (tree != NULL), "%s: %s by the scanner, not by json_parse", values[i],
                  ours ? "taken" : "refused");
        if (ours)
            records_close(&r);
        cJSON_Delete(tree);
        char *end;
        double v = strtod(values[i], &end);
        if (ours && values[i][0] && !*end && v >= 0) {
            text_clear(&t);
            text_printf(&t, "{\"id\":\"1\",\"task\":\"t\",\"correct\":true,\"entropy\":{\"mean\":%s}}", values[i]);
            CHECK(parse(t.data) == 0);
            CHECK_MSG(records_row(&r, 0, 0)->entropy == v, "%s was read as %.17g", values[i],
                      records_row(&r, 0, 0)->entropy);
            records_close(&r);
        }
        text_free(&t);
    }
}

int main(void)
{
    RUN(full_record);
    RUN(which_entropy);
    RUN(order_of_tasks);
    RUN(bad_lines);
    RUN(left_out);
    RUN(run_directory);
    RUN(many_records);
    RUN(agrees_with_json_parse);
    return test_report();
}
