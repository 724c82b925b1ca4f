/* SPDX-License-Identifier: Apache-2.0 */
/*
 * doctor_test.c - `mote doctor` on invented machines: a fake root directory with /proc and /sys, a
 * fake store, and facts that are not in files. The whole text is compared with tests/cli/expected.
 * With MOTE_TEST_UPDATE=1 it is written instead.
 */
#define _GNU_SOURCE
#include "cli/machine/doctor.h"

#include "store/file_hash.h"
#include "support/fake_root.h"
#include "support/gguf_build.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static bool update; /* MOTE_TEST_UPDATE */
static doctor_machine machine;
static config settings;
static const char *environment[32];
static char hub[128], models[128], config_path[128], cache[128];

static const char *in_root(char out[128], const char *path)
{
    snprintf(out, 128, "%s/%s", fake_root, path);
    return out;
}

static void link_in_root(const char *target, const char *path)
{
    char whole[1024];
    snprintf(whole, sizeof whole, "%s/%s", fake_root, path);
    if (symlink(target, whole) != 0) {
        perror(whole);
        abort();
    }
}

/* Four cores without SMT, everything as it should be. */
static int machine_make(void **state)
{
    if (fake_root_make(state) != 0)
        return -1;
    clearenv(); /* settings come from real variables */
    machine = (doctor_machine){
        .root = fake_root,
        .environment = environment,
        .cpu_name = "Example CPU @ 3.00GHz",
        .system = "Linux",
        .seccomp = true,
        .landlock = 5,
        .now = 1790000000,
        .utf8 = true,
        .user = (uint32_t)getuid(),
        .config = &settings,
        .commands = &cli_commands,
        .free_space = 50000000000,
    };
    settings = (config){0};
    memset(environment, 0, sizeof environment);
    cpu_features_fill(&machine.cpu);
    for (uint32_t cpu = 0; cpu < 4; cpu++) {
        char path[128];
        cores_add(&machine.allowed, cpu);
        snprintf(path, sizeof path, "sys/devices/system/cpu/cpu%u/cpufreq/scaling_governor", cpu);
        fake_root_write(path, "performance\n");
    }
    fake_root_write("sys/devices/system/cpu/online", "0-3\n");
    fake_root_write("sys/devices/system/cpu/intel_pstate/no_turbo", "0\n");
    fake_root_write("sys/class/thermal/thermal_zone0/type", "acpitz\n");
    fake_root_write("sys/class/thermal/thermal_zone0/temp", "99000\n");
    fake_root_write("sys/class/thermal/thermal_zone1/type", "x86_pkg_temp\n");
    fake_root_write("sys/class/thermal/thermal_zone1/temp", "51000\n");
    fake_root_write("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
    fake_root_write("proc/meminfo", "MemTotal:       16000000 kB\nMemFree:         1000000 kB\n"
                                    "MemAvailable:   12000000 kB\n");
    fake_root_write("proc/net/tcp", "  sl  local_address rem_address   st\n");
    fake_root_write("bin/mote-pull", "");
    fake_root_write("bin/mote-media-ffmpeg", "");
    fake_root_write("hub/.keep", "");
    fake_root_write("models/.keep", "");
    static char programs[128];
    machine.programs[0] = in_root(programs, "bin");
    char path[256];
    snprintf(path, sizeof path, "%s/mote-pull", programs);
    chmod(path, 0755);
    snprintf(path, sizeof path, "%s/mote-media-ffmpeg", programs);
    chmod(path, 0755);
    machine.store = (store_env){.hf_hub_cache = in_root(hub, "hub"),
                                .mote_models = in_root(models, "models"),
                                .xdg_cache_home = in_root(cache, "cache"),
                                .etc = "/none"};
    return 0;
}

static int machine_remove(void **state)
{
    config_close(&settings);
    return fake_root_remove(state);
}

/* ---- advice that a user can follow ---- */

/* The flag with the name, or with the variable; NULL: none. `command` NULL: of any command. */
static const cli_flag *find_flag(const char *command, const char *name, const char *variable,
                                 size_t n)
{
    const flag_group *group;
    for (size_t c = 0; c < cli_commands.n; c++)
        for (size_t g = 0; (group = command_group(cli_commands.rows[c], g)) != NULL; g++)
            for (size_t f = 0; f < group->n; f++) {
                const cli_flag *flag = &group->flags[f];
                if (command != NULL && strcmp(command, cli_commands.rows[c]->name) != 0)
                    continue;
                if (variable != NULL ? flag->env != NULL && strlen(flag->env) == n &&
                                           strncmp(flag->env, variable, n) == 0
                                     : flag_is_named(flag, name, n))
                    return flag;
            }
    return NULL;
}

/* MOTE_NAME and MOTE_NAME=VALUE: mote reads the variable and accepts the value. */
static void check_variables(const char *advice)
{
    static const char *const others[] = {"MOTE_MODELS", "MOTE_API_KEY", "MOTE_CONFIG"};
    for (const char *at = advice; (at = strstr(at, "MOTE_")) != NULL;) {
        char value[64];
        const size_t n = strspn(at, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_");
        const cli_flag *flag = find_flag(NULL, NULL, at, n);
        bool known = flag != NULL;
        for (size_t i = 0; i < sizeof others / sizeof *others; i++)
            known |= strlen(others[i]) == n && strncmp(others[i], at, n) == 0;
        if (!known)
            fail_msg("mote does not read %.*s, which it recommends: %s", (int)n, at, advice);
        if (flag != NULL && at[n] == '=') {
            mote_error err;
            snprintf(value, sizeof value, "%.*s", (int)strcspn(at + n + 1, " ,;"), at + n + 1);
            if (flag_check_value(flag, flag->env, value, &err) != MOTE_OK)
                fail_msg("mote refuses what it recommends, %s: %s", advice, err.text);
        }
        at += n;
    }
}

/* "mote COMMAND" and "--flag": they exist. */
static void check_commands(const char *advice)
{
    static const char *const verbs[] = {"may", "with", "has"};
    char command[32] = "";
    for (const char *at = advice; (at = strstr(at, "mote ")) != NULL;) {
        at += 5;
        snprintf(command, sizeof command, "%.*s", (int)strspn(at, "abcdefghijklmnopqrstuvwxyz"),
                 at);
        bool known = false;
        for (size_t i = 0; i < cli_commands.n; i++)
            known |= strcmp(cli_commands.rows[i]->name, command) == 0;
        for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
            known |= strcmp(verbs[i], command) == 0;
        if (!known)
            fail_msg("there is no mote %s: %s", command, advice);
    }
    for (const char *at = advice; (at = strstr(at, "--")) != NULL;) {
        at += 2;
        const size_t n = strspn(at, "abcdefghijklmnopqrstuvwxyz-");
        if (find_flag(NULL, at, NULL, n) == NULL)
            fail_msg("there is no flag --%.*s: %s", (int)n, at, advice);
    }
}

static void check_advice(const doctor *d)
{
    for (uint32_t i = 0; i < d->n; i++) {
        check_variables(d->findings[i].advice);
        check_commands(d->findings[i].advice);
        if (d->findings[i].state == DOCTOR_PROBLEM)
            assert_true(d->findings[i].advice[0] != '\0');
    }
}

/* The text of the findings, with ROOT for the name of the fake root directory. */
static char *run_text(size_t problems)
{
    doctor d;
    mote_error err;
    strbuf text = {0}, out = {0};
    assert_int_equal(doctor_run(&d, &machine, &err), MOTE_OK);
    assert_int_equal(doctor_count(&d, DOCTOR_PROBLEM), problems);
    check_advice(&d);
    doctor_write_text(&text, &d, false);
    const size_t n = strlen(fake_root);
    for (size_t i = 0; i < text.n;)
        if (text.n - i >= n && memcmp(text.p + i, fake_root, n) == 0) {
            strbuf_text(&out, "ROOT");
            i += n;
        } else {
            strbuf_byte(&out, text.p[i++]);
        }
    strbuf_byte(&out, '\0');
    assert_int_equal(strbuf_check(&out, &err), MOTE_OK);
    doctor_fini(&d);
    strbuf_fini(&text);
    char *copy = strdup(out.p);
    strbuf_fini(&out);
    return copy;
}

static void expect_file(const char *name, size_t problems)
{
    char path[512], expected[16384];
    char *text = run_text(problems);
    snprintf(path, sizeof path, "%s/cli/expected/%s", MOTE_TEST_SOURCE, name);
    if (update) {
        FILE *f = fopen(path, "w");
        assert_non_null(f);
        fputs(text, f);
        fclose(f);
    }
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    expected[fread(expected, 1, sizeof expected - 1, f)] = '\0';
    fclose(f);
    assert_string_equal(text, expected);
    free(text);
}

/* The text has the line. */
static void expect_line(const char *line, size_t problems)
{
    char *text = run_text(problems);
    if (strstr(text, line) == NULL)
        fail_msg("'%s' is not in:\n%s", line, text);
    free(text);
}

/* ---- whole machines ---- */

static void good_machine(void **state)
{
    (void)state;
    expect_file("doctor_good.txt", 0);
}

enum { HASH = 64 };

/* A blob of the cache, the file of a snapshot that links to it, and what the blob must hash to. */
static void store_add_model(const char *repo, const char *file, char digit)
{
    char path[512], hash[HASH + 1], target[128];
    memset(hash, digit, HASH);
    hash[HASH] = '\0';
    snprintf(path, sizeof path, "hub/models--%s/blobs/%s", repo, hash);
    fake_root_write(path, "GGUF");
    snprintf(path, sizeof path, "hub/models--%s/refs/main", repo);
    fake_root_write(path, "0123456789012345678901234567890123456789");
    snprintf(path, sizeof path,
             "hub/models--%s/snapshots/0123456789012345678901234567890123456789/.x", repo);
    fake_root_write(path, "");
    snprintf(path, sizeof path,
             "hub/models--%s/snapshots/0123456789012345678901234567890123456789/%s", repo, file);
    snprintf(target, sizeof target, "../../blobs/%s", hash);
    link_in_root(target, path);
}

/* Records another hash than that of the blob, as mote verify does after a bit has flipped. */
static void store_damage(const char *repo, char digit)
{
    char path[512], hash[HASH + 1], directory[VERIFIED_PATH_BYTES];
    file_identity identity;
    mote_error err;
    memset(hash, digit, HASH);
    hash[HASH] = '\0';
    snprintf(path, sizeof path, "%s/hub/models--%s/blobs/%s", fake_root, repo, hash);
    assert_true(file_identity_of(&identity, path));
    assert_true(verified_directory(directory, machine.store.xdg_cache_home, NULL));
    hash[0] = '9';
    assert_int_equal(verified_add(directory, &identity, hash, &err), MOTE_OK);
}

/* Everything that can be wrong at once. */
static void bad_machine(void **state)
{
    (void)state;
    static char absolute[4096];
    mote_error err;
    cpu_features_set(&machine.cpu, "AVX2", false);
    machine.cpu.hypervisor = true;
    for (uint32_t cpu = 0; cpu < 4; cpu++) {
        char path[128];
        snprintf(path, sizeof path, "sys/devices/system/cpu/cpu%u/cpufreq/scaling_governor", cpu);
        fake_root_write(path, "powersave\n");
    }
    fake_root_write("sys/devices/system/cpu/online", "0-7\n");
    fake_root_write("sys/devices/system/cpu/intel_pstate/no_turbo", "1\n");
    fake_root_write("sys/fs/cgroup/cpu.max", "150000 100000\n");
    fake_root_write("sys/class/thermal/thermal_zone1/temp", "99000\n");
    fake_root_write("sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n");
    fake_root_write("proc/self/cgroup", "0::/box\n");
    fake_root_write("sys/fs/cgroup/box/memory.max", "1000000000\n");
    fake_root_write("sys/fs/cgroup/box/memory.current", "200000000\n");
    fake_root_write("sys/fs/cgroup/box/memory.stat", "active_file 0\ninactive_file 0\n");
    fake_root_write("proc/net/tcp",
                    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt\n"
                    "   0: 0100007F:2CAB 0100007F:9999 01 00000000:00000000 00:00000000 00000000  "
                    "1000        0 11 1 0\n"
                    "   1: 0100007F:2CAB 00000000:0000 0A 00000000:00000000 00:00000000 00000000  "
                    "1000        0 4711 1 0\n");
    fake_root_write("proc/123/comm", "other-program\n");
    fake_root_write("proc/123/fd/0", "");
    link_in_root("socket:[4711]", "proc/123/fd/7");
    fake_root_write("config", "memory = 2GB\ncolour = red\n[serve]\nparallel = 3\n");
    const char *path = in_root(config_path, "config");
    assert_int_equal(config_open_files(&settings, &path, 1, &err), MOTE_OK);
    fake_root_write("models/half-00001-of-00002.gguf", "GGUF");
    /* The list of verified files is in an absolute directory. */
    assert_non_null(getcwd(absolute, sizeof absolute / 2));
    snprintf(absolute + strlen(absolute), sizeof absolute / 2, "/%s/cache", fake_root);
    machine.store.xdg_cache_home = absolute;
    store_add_model("unsloth--Qwen3.5-4B-GGUF", "Qwen3.5-4B-Q4_K_M.gguf", 'a');
    store_add_model("unsloth--Qwen3.5-2B-GGUF", "Qwen3.5-2B-Q4_K_M.gguf", 'b');
    store_damage("unsloth--Qwen3.5-2B-GGUF", 'b');
    chmod(models, 0777);
    machine.free_space = 1000000000;
    machine.seccomp = false;
    machine.landlock = 0;
    machine.now = 86400;
    machine.utf8 = false;
    machine.programs[0] = NULL;
    setenv("MOTE_KV", "q8_0", 1);
    const char *const variables[] = {"MOTE_KV=q8_0",     "MOTE_THREDS=2",
                                     "OLLAMA_HOST=x",    "OLLAMA_NEW_THING=1",
                                     "OLLAMA_MODELS=/x", "LLAMA_ARG_CTX_SIZE=4096",
                                     "HF_HOME=/x",       "HF_TOKEN=hf_secret",
                                     "PATH=/bin",        NULL};
    memcpy(environment, variables, sizeof variables);
    expect_file("doctor_bad.txt", 10);
    char *text = run_text(10);
    assert_null(strstr(text, "secret")); /* values of variables are not printed */
    free(text);
}

/* ---- single findings ---- */

static void levels(void **state)
{
    (void)state;
    expect_line("amx, the highest level", 0);
    cpu_features_set(&machine.cpu, "AMX-INT8", false);
    expect_line("ok                    avx512; amx needs AMX-INT8, which this CPU lacks\n", 0);
    machine.cpu.hypervisor = true;
    expect_line("note                  avx512; amx needs AMX-INT8, which this CPU lacks or the "
                "virtual machine hides\n",
                0);
    machine.cpu.saved_sets = 0x6; /* AVX only */
    expect_line("avxvnni; this CPU has avx512 too, but the operating system does not save its "
                "AVX-512 registers",
                0);
    cpu_features_set(&machine.cpu, "AVX_VNNI", false);
    expect_line("avx2; this CPU has avx512 too, but the operating system does not save its AVX-512 "
                "registers",
                0);
    cpu_features_set(&machine.cpu, "AVX512BW", false);
    expect_line("avx2; avxvnni needs AVX_VNNI, which this CPU lacks or the virtual machine hides\n",
                0);
    machine.cpu.saved_sets = 0;
    expect_line("problem               ref; this CPU has avx2 too, but the operating system does "
                "not save its AVX registers",
                1);
    cpu_features_fill(&machine.cpu);
    machine.cpu.amx_allowed = false;
    expect_line("avx512; this CPU has amx too, but the operating system does not save its AMX", 0);
    cpu_features_fill(&machine.cpu);
    setenv("MOTE_ISA", "avx2", 1);
    expect_line("avx2, because MOTE_ISA is avx2; this CPU has amx\n", 0);
    setenv("MOTE_ISA", "avxvnni", 1);
    expect_line("avxvnni, because MOTE_ISA is avxvnni; this CPU has amx\n", 0);
    cpu_features_set(&machine.cpu, "AVX_VNNI", false);
    expect_line("avx2, because MOTE_ISA is avxvnni; this CPU has amx\n", 0);
    setenv("MOTE_ISA", "amx", 1);
    expect_line("amx, the highest level", 0);
    cpu_features_set(&machine.cpu, "FMA", false);
    expect_line("avx2 needs FMA, which this CPU lacks\n", 1);
    machine.cpu = (cpu_features){0};
    expect_line("mote has faster kernels for x86-64", 0);
}

static void ports(void **state)
{
    (void)state;
    expect_line("11435 is free\n", 0);
    fake_root_write("proc/net/tcp6",
                    "   0: 00000000000000000000000001000000:2CAB "
                    "00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 "
                    "00000000     0        0 55 1 0\n");
    expect_line("11435 is in use by a program of another user\n", 0);
    fake_root_write("proc/9/comm", "mote\n");
    fake_root_write("proc/9/fd/0", "");
    link_in_root("socket:[55]", "proc/9/fd/3");
    expect_line("11435: mote (process 9) serves there\n", 0);
    environment[0] = "MOTE_HOST=http://[::1]:8080";
    expect_line("8080 is free\n", 0);
    environment[0] = "MOTE_HOST=unix:/run/mote";
    expect_line("MOTE_HOST is a UNIX socket\n", 0);
}

static void governors(void **state)
{
    (void)state;
    for (uint32_t cpu = 0; cpu < 4; cpu++) {
        char path[128];
        snprintf(path, sizeof path, "sys/devices/system/cpu/cpu%u/cpufreq/scaling_governor", cpu);
        fake_root_write(path, "powersave\n");
        snprintf(path, sizeof path, "sys/devices/system/cpu/cpu%u/cpufreq/scaling_driver", cpu);
        fake_root_write(path, "intel_pstate\n");
    }
    expect_line("ok       governor     powersave\n", 0);
    fake_root_write("sys/devices/system/cpu/cpu0/cpufreq/energy_performance_preference", "power\n");
    expect_line("powersave, with the energy preference power on 1 CPUs\n", 0);
}

/* Every variable of other programs, one after the other: the advice can be followed. */
static void other_variables(void **state)
{
    (void)state;
    char entry[128];
    for (size_t i = 0; doctor_other_variable(i) != NULL; i++) {
        snprintf(entry, sizeof entry, "%s%s=1", doctor_other_variable(i),
                 strchr(doctor_other_variable(i), '\0')[-1] == '_' ? "X" : "");
        environment[0] = entry;
        environment[1] = NULL;
        expect_line(strtok(entry, "="), 0);
        snprintf(entry, sizeof entry, "%s", "");
    }
}

/* Findings are published: texts of the user are not in them. */
static void private_texts(void **state)
{
    (void)state;
    mote_error err;
    fake_root_write("config", "system = \"my secret prompt\"\nmodel = /secret/model.gguf\n"
                              "think = low\n[serve]\nlisten = secret.example:1\n"
                              "api-key-file = /secret/keys\n");
    const char *path = in_root(config_path, "config");
    assert_int_equal(config_open_files(&settings, &path, 1, &err), MOTE_OK);
    char *text = run_text(0);
    assert_null(strstr(text, "secret"));
    free(text);
    expect_line("system is set, from ROOT/config:1\n", 0);
    expect_line("think = low, from ROOT/config:3\n", 0);
    machine.config_error = "config:7: not a setting, got 'a secret line'";
    expect_line("config:7: not a setting\n", 1);
}

/* A value that mote refuses is a problem. */
static void wrong_values(void **state)
{
    (void)state;
    setenv("MOTE_KV", "f8", 1);
    expect_line("problem  settings     MOTE_KV must be ", 1);
    unsetenv("MOTE_KV");
}

/* Models of other families are not damaged. */
static void other_families(void **state)
{
    (void)state;
    test_gguf b;
    char path[512];
    test_gguf_begin(&b);
    test_gguf_str(&b, "general.architecture", "llama");
    test_gguf_finish(&b);
    fake_root_write("models/llama.gguf", "");
    FILE *f = fopen(in_root(path, "models/llama.gguf"), "w");
    assert_non_null(f);
    assert_int_equal(fwrite(b.bytes, 1, b.n, f), b.n);
    fclose(f);
    test_gguf_free(&b);
    expect_line(
        "ok                    1 model of other programs, which mote does not use: not Qwen "
        "3.5\n",
        0);
}

static void config_errors(void **state)
{
    (void)state;
    machine.config_error = "config:1: not a setting";
    expect_line("problem  config file  config:1: not a setting\n", 1);
}

/* Another system has no sandbox: a note, and no advice about its kernel. */
static void other_systems_have_no_sandbox(void **state)
{
    (void)state;
    machine.system = "macOS";
    machine.seccomp = false;
    machine.landlock = 0;
    char *text = run_text(0);
    assert_non_null(strstr(text, "mote has no sandbox on macOS"));
    assert_null(strstr(text, "seccomp"));
    free(text);
}

#define ON_A_MACHINE(test) cmocka_unit_test_setup_teardown(test, machine_make, machine_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_A_MACHINE(good_machine),
        ON_A_MACHINE(bad_machine),
        ON_A_MACHINE(levels),
        ON_A_MACHINE(ports),
        ON_A_MACHINE(governors),
        ON_A_MACHINE(config_errors),
        ON_A_MACHINE(other_variables),
        ON_A_MACHINE(private_texts),
        ON_A_MACHINE(wrong_values),
        ON_A_MACHINE(other_families),
        ON_A_MACHINE(other_systems_have_no_sandbox),
    };
    update = getenv("MOTE_TEST_UPDATE") != NULL;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
