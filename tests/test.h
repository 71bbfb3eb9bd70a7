/* test.h - all the framework there is: each test file is a program whose main() runs its cases.
 *
 *     static void addition(void) { CHECK(1 + 1 == 2); CHECK_NEAR(0.1 + 0.2, 0.3, 1e-15); }
 *     int main(void) { RUN(addition); return test_report(); }
 *
 * The last line of a test program is "N passed, N failed"; tests/run adds them up. A case with no check fails.
 */
#ifndef HANDOFF_TEST_H
#define HANDOFF_TEST_H

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static int test_n_passed, test_n_failed, test_n_skipped, test_case_checks, test_case_faults;

#define CHECK(condition) test_check((condition), __FILE__, __LINE__, "%s", #condition)
/* With a message that says which case of a table it was: CHECK_MSG(a == b, "case %s: %d", name, a). */
#define CHECK_MSG(condition, ...) test_check((condition), __FILE__, __LINE__, __VA_ARGS__)
#define CHECK_NEAR(a, b, tolerance) test_near((a), (b), (tolerance), __FILE__, __LINE__, #a)
#define CHECK_STR(a, b) test_str((a), (b), __FILE__, __LINE__, #a)
#define SKIP(reason) do { printf("  skipped: %s\n", reason); test_n_skipped++; test_case_checks++; return; } while (0)
#define RUN(function) test_run(#function, function)

#if defined(__GNUC__)
__attribute__((format(printf, 4, 5), unused))
#endif
static int test_check(int ok, const char *file, int line, const char *fmt, ...)
{
    test_case_checks++;
    if (!ok && test_case_faults++ < 20) {
        va_list ap;
        va_start(ap, fmt);
        printf("  %s:%d: ", file, line);
        vprintf(fmt, ap);
        printf("\n");
        va_end(ap);
    }
    return ok;
}

#if defined(__GNUC__)
__attribute__((unused))
#endif
static int test_near(double a, double b, double tolerance, const char *file, int line, const char *what)
{
    int ok = fabs(a - b) <= tolerance || (isinf(a) && a == b);
    return test_check(ok, file, line, "%s is %.17g, not %.17g (off by %.3g, allowed %.3g)", what, a, b, fabs(a - b),
                      tolerance);
}

#if defined(__GNUC__)
__attribute__((unused))
#endif
static int test_str(const char *a, const char *b, const char *file, int line, const char *what)
{
    return test_check(a && b && strcmp(a, b) == 0, file, line, "%s is \"%s\", not \"%s\"", what, a ? a : "(null)",
                      b ? b : "(null)");
}

static void test_run(const char *name, void (*function)(void))
{
    int skipped = test_n_skipped;
    test_case_checks = test_case_faults = 0;
    function();
    if (test_case_checks == 0)
        test_check(0, name, 0, "the case checks nothing");
    if (test_case_faults)
        test_n_failed++;
    else if (test_n_skipped == skipped)
        test_n_passed++;
    printf("%s %s\n", test_case_faults ? "FAIL" : test_n_skipped > skipped ? "skip" : "  ok", name);
    fflush(stdout);
}

static int test_report(void)
{
    printf("%d passed, %d failed", test_n_passed, test_n_failed);
    if (test_n_skipped)
        printf(", %d skipped", test_n_skipped);
    printf("\n");
    return test_n_failed != 0;
}

#endif
