/* Uses every call of sealstone.h: ctest OPTIONS DIR [SERVER-PID]. OPTIONS is the
 * JSON that opens the store, DIR where its files lie. CTEST_ONLY names the tests
 * that are to run, in one text. */
#include "check.h"

static const struct {
    const char *name;
    void (*run)(const struct place *);
} tests[] = {
    {"library", test_library},       {"arguments", test_arguments}, {"handles", test_handles},
    {"namespaces", test_namespaces}, {"reports", test_reports},     {"blocks", test_blocks},
    {"ranges", test_ranges_and_seals}, {"lookups", test_lookups},   {"region", test_region},
    {"event", test_event_fd},        {"shed", test_shed},           {"threads", test_threads},
    {"corrupt", test_corrupt},       {"epoch", test_epoch},         {"stalled", test_stalled},
};

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    struct place p = {argv[1], argv[2], argc > 3 ? atoi(argv[3]) : 0};
    const char *only = getenv("CTEST_ONLY");
    for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++) {
        if (only != NULL && strstr(only, tests[i].name) == NULL) continue;
        tests[i].run(&p);
        printf("ok %s\n", tests[i].name);
        fflush(stdout);
    }
    return 0;
}
